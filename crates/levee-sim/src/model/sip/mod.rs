//! The SIP model: callers, the front with its defence, a server of `k` lines, and callees.
//!
//! The defence is [`Selective`] itself, driven as the live front drives it; nothing of its rules is here. The other actors are those of
//! the lab (`levee-lab`): what takes a line and frees it, what counts as an answer, who hangs up on whom and what a call's outcome is
//! follow it message by message.
//!
//! ```text
//! caller              front             server            callee
//!   | INVITE            |                 |                 |     the policy: Arrive
//!   |------------------>| INVITE          |                 |     after its Forward
//!   |               100 |---------------->| INVITE          |     a line is taken
//!   |<------------------|             100 |---------------->|
//!   |                   |<----------------|             180 |
//!   |                   |             180 |<----------------|
//!   |               180 |<----------------|                 |
//!   |<------------------|                 |             200 |     after the ringing time
//!   |                   |             200 |<----------------|
//!   |               200 |<----------------| ACK             |
//!   |<------------------|                 |---------------->|
//!   | ACK               |                 |                 |
//!   |------------------>| ACK             |                 |     the policy: Answered
//!   |        ...        |---------------->|                 |
//!   | BYE               |                 |                 |     after the wanted time
//!   |------------------>| BYE             |                 |
//!   |                   |---------------->| BYE             |     the line is free
//!   |                   |             200 |---------------->|
//!   |               200 |<----------------|             200 |     the policy: Ended
//!   |<------------------|                 |<----------------|
//! ```
//!
//! A call that the defence drops gets 503 while WAITING, and its callee a CANCEL; a BYE in both directions while INCALL. Its slot
//! is free when the server has answered.
//!
//! Front and server are at one site: [`Setup::delay`] lies between a caller or a callee and that site, one way, and nothing
//! between front and server. Without a defence callers reach the server itself.
//!
//! # What it does not model
//!
//! - Loss, and with it retransmissions and SIP's timers: every message arrives, and every end answers.
//! - The time that front and server take for a message, and their limits but for `k`.
//! - The ACK of a refusal and the 200 of a CANCEL, which change no state.
//! - The leg from the server to the callee passes the front in the lab, uncounted; here it is direct.
//! - Callees that are busy, do not answer or hang up; callers that call again, but for attackers with [`Setup::redial`].
//! - Registration: the server knows where every callee is.
//! - Authentication, forking, session timers, re-INVITEs, media.
//!
//! # The horizon
//!
//! At the horizon all that describes a state or counts messages stands still. Calls that are connected count as complete. Calls
//! that ring have the ringing time and a second to be answered, as in the lab, and go on counting; with a defence that has been
//! told to cut by length, it may still do so. The run is over at [`Setup::end`].

mod callee;
mod callers;
mod calls;
mod front;
mod message;
mod observables;
mod quirks;
pub mod released;
mod server;
mod setup;
mod tally;
#[cfg(test)]
mod tests;

use levee_policy::selective::ConfigError;
use levee_policy::{Span, Time};

use self::callers::Callers;
pub use self::calls::CallId;
use self::calls::Calls;
use self::front::Front;
pub use self::message::{Message, Role, Signal};
use self::observables::Frozen;
pub use self::quirks::{Quirks, UnknownQuirk};
use self::server::Server;
pub use self::setup::Setup;
use self::tally::Tallies;
use crate::engine::{ActorId, Link, LinkId, Model, Scheduler};
#[cfg(doc)]
use levee_policy::selective::Selective;

/// The SIP model. An [`Observed`](super::Observed) [`Model`].
#[derive(Clone, Debug)]
pub struct Sip {
    setup: Setup,
    calls: Calls,
    callers: Callers,
    /// `None`: callers reach the server itself.
    front: Option<Front>,
    server: Server,
    tallies: Tallies,
    links: Links,
    /// SIP messages handed over.
    messages: u64,
    /// State as it was at the horizon, once that has come.
    frozen: Option<Frozen>,
}

/// The two kinds of way that a message may go.
#[derive(Clone, Copy, Debug)]
struct Links {
    /// Between callers or callees and the site of the server.
    access: LinkId,
    /// Within the site.
    site: LinkId,
}

impl Sip {
    /// The model before its first run, which is run 0.
    ///
    /// # Errors
    ///
    /// The first key of the defence that is out of its range.
    pub fn new(setup: Setup) -> Result<Self, ConfigError> {
        setup.check()?;
        let front = setup
            .defense
            .as_ref()
            .map(|defense| Front::new(setup.capacity, defense));
        let mut scratch = Scheduler::<Message>::new(setup.ties);
        let mut model = Self {
            calls: Calls::default(),
            callers: Callers::new(&setup),
            front: front.transpose()?,
            server: Server::new(setup.capacity),
            tallies: Tallies::default(),
            links: Links::new(&setup, &mut scratch),
            messages: 0,
            frozen: None,
            setup,
        };
        model.restart(0);
        Ok(model)
    }

    /// Goes back to the start, for run `run`. Nothing is allocated but what a larger run needs.
    pub fn restart(&mut self, run: u64) {
        self.calls.clear();
        self.callers.restart(&self.setup, run);
        if let Some(front) = &mut self.front {
            front.restart(self.setup.plan.seed, run);
        }
        self.server = Server::new(self.setup.capacity);
        self.tallies.clear();
        self.messages = 0;
        self.frozen = None;
    }

    /// What is simulated.
    #[must_use]
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// When its runs are over: the horizon of the [`Simulation`](crate::engine::Simulation).
    #[must_use]
    pub fn end(&self) -> Time {
        Time::ZERO + self.setup.end()
    }

    fn until(&self) -> Time {
        Time::ZERO + self.setup.until()
    }

    /// Whether the horizon has come.
    fn is_over(&self) -> bool {
        self.frozen.is_some()
    }

    /// Where callers send to, and the server sends answers to the caller.
    fn caller_side_of_server(&self) -> Role {
        if self.front.is_some() {
            Role::Front
        } else {
            Role::Callers
        }
    }

    fn send(
        &self,
        scheduler: &mut Scheduler<Message>,
        (from, to): (Role, Role),
        call: CallId,
        signal: Signal,
    ) {
        let far = |role| matches!(role, Role::Callers | Role::Callees);
        let link = if far(from) || far(to) {
            self.links.access
        } else {
            self.links.site
        };
        scheduler.send(link, to.actor(), Message::Sip { call, from, signal });
    }

    fn receive(
        &mut self,
        scheduler: &mut Scheduler<Message>,
        to: ActorId,
        (call, from, signal): (CallId, Role, Signal),
    ) {
        self.messages += 1;
        match to.0 {
            CALLERS => self.caller_receives(scheduler, call, signal),
            FRONT => self.front_receives(scheduler, call, from, signal),
            SERVER => self.server_receives(scheduler, call, from, signal),
            _ => self.callee_receives(scheduler, call, signal),
        }
    }
}

const CALLERS: u32 = Role::Callers as u32;
const FRONT: u32 = Role::Front as u32;
const SERVER: u32 = Role::Server as u32;

impl Links {
    fn new(setup: &Setup, scheduler: &mut Scheduler<Message>) -> Self {
        let access = Link { delay: setup.delay };
        let site = Link { delay: Span::ZERO };
        Self {
            access: scheduler.link(access),
            site: scheduler.link(site),
        }
    }
}

impl Model for Sip {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        self.links = Links::new(&self.setup, scheduler);
        scheduler.after(self.setup.until(), Role::Callers.actor(), Message::Horizon);
        self.next_arrival(scheduler);
    }

    fn deliver(&mut self, to: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
        match message {
            Message::Sip { call, from, signal } => {
                self.receive(scheduler, to, (call, from, signal));
            }
            Message::Arrive => self.arrive(scheduler),
            Message::Again { caller, callee } => self.call_again(scheduler, caller, callee),
            Message::HangUp { call } => self.hang_up(scheduler, call),
            Message::RingTimeout => self.ring_timeout(scheduler),
            Message::Horizon => self.horizon(scheduler),
            Message::PolicyDue => self.policy_due(scheduler),
            Message::Answer { call } => self.answer(scheduler, call),
        }
    }
}
