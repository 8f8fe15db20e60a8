//! The discrete-event engine: actors that send each other typed messages through a scheduler.
//!
//! A [`Model`] owns its actors. The [`Scheduler`] holds the messages under way and hands them over one by one in order
//! of time; messages of one time in the order in which they were sent, or the reverse ([`TieOrder`]). A message goes over
//! a [`Link`], which has a delay, or an [`ImpairedLink`], which has jitter, loss and a rate too; or it is due at a time of
//! its own ([`Scheduler::after`], [`Scheduler::at`]): a timer. Randomness comes from named [`Streams`].
//!
//! There is no way to take a message back. An actor whose timer is void when it comes passes it over; its message names
//! the incarnation that it is meant for.
//!
//! Time is counted in nanoseconds. A message that would be due after the horizon of its [`Simulation`] is forgotten when it
//! is sent. A model that sends without end stops with a [`Runaway`]. Once a run has had its largest number of messages
//! under way, nothing is allocated; [`Simulation::restart`] keeps that memory for the next run.
//!
//! # A queue with one server
//!
//! Customers come at random, 3 a minute, and are served one by one, for 15 s in the mean (M/M/1 with load 0.75).
//!
//! ```
//! use levee_policy::{Span, Time};
//! use levee_sim::engine::{ActorId, Model, Scheduler, Simulation, Streams, TieOrder};
//! use rand_core::Rng;
//!
//! struct Shop { waiting: u64, area: f64, since: Time, arrivals: rand_pcg::Pcg64, services: rand_pcg::Pcg64 }
//!
//! #[derive(Clone, Copy)]
//! enum Message { Arrival, Departure }
//!
//! const SHOP: ActorId = ActorId(0);
//!
//! fn exponential(mean_s: f64, rng: &mut impl Rng) -> Span {
//!     let unit = (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
//!     Span::from_secs_f64(-mean_s * (1.0 - unit).ln()).unwrap_or(Span::MAX)
//! }
//!
//! impl Model for Shop {
//!     type Message = Message;
//!
//!     fn start(&mut self, scheduler: &mut Scheduler<Message>) {
//!         scheduler.after(exponential(20.0, &mut self.arrivals), SHOP, Message::Arrival);
//!     }
//!
//!     fn deliver(&mut self, _to: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
//!         self.area += self.waiting as f64 * (scheduler.now() - self.since).as_secs_f64();
//!         self.since = scheduler.now();
//!         let serve = match message {
//!             Message::Arrival => {
//!                 scheduler.after(exponential(20.0, &mut self.arrivals), SHOP, Message::Arrival);
//!                 self.waiting += 1;
//!                 self.waiting == 1
//!             }
//!             Message::Departure => {
//!                 self.waiting -= 1;
//!                 self.waiting > 0
//!             }
//!         };
//!         if serve {
//!             scheduler.after(exponential(15.0, &mut self.services), SHOP, Message::Departure);
//!         }
//!     }
//! }
//!
//! let streams = Streams::new(1, 0);
//! let shop = Shop {
//!     waiting: 0,
//!     area: 0.0,
//!     since: Time::ZERO,
//!     arrivals: streams.stream("arrivals"),
//!     services: streams.stream("services"),
//! };
//! let horizon = Time::ZERO + Span::from_secs(10_000_000);
//! let mut simulation = Simulation::new(shop, horizon, TieOrder::FirstSent);
//! simulation.run()?;
//! // The mean number in the shop is load / (1 - load) = 3; 0.16 is five standard errors.
//! let mean = simulation.model.area / horizon.as_secs_f64();
//! assert!((mean - 3.0).abs() < 0.16, "{mean}");
//! # Ok::<(), levee_sim::engine::Runaway>(())
//! ```

mod link;
mod queue;
mod scheduler;
mod simulation;
mod streams;

#[cfg(test)]
mod tests;

pub use link::{ImpairedLink, Jitter, Link, LinkError, Rate, Traffic};
pub use scheduler::{ActorId, LinkId, Scheduler, TieOrder};
pub use simulation::{Limits, Model, Runaway, Simulation};
pub use streams::Streams;
