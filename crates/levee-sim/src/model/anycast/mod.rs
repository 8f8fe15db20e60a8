//! The loop of anycast playbooks: a service at several sites, an attack on it, and a responder that moves its routes.
//!
//! "Anycast Agility: Network Playbooks to Fight DDoS" (USENIX Security 2022). The responder in the middle is
//! [`levee_policy::reroute::Responder`], the code of the live loop; nothing of its rules is written twice.
//!
//! # What it does not model
//!
//! - BGP. Where each class of blocks goes in each play is a table: the playbook's, with errors. What a change of one network does to
//!   others is not worked out, nor is route-flap damping: changes are counted, and the scenario says how many are too many.
//! - Links but the last ones of each site. What is lost further up is lost for a reason that the model does not have.
//! - Queues, and time below an interval of measurement: load is a fluid, and overload drops its excess at once, at random, of all alike.
//! - Clients that try again, resolvers that turn to another of a service's addresses, caches that hide an outage.
//! - Delays of queries: a class that reaches a site further away is served as well as before.
//! - Attackers that know the playbook, and those that send spoofed known-good traffic.
//! - Withdrawals that take longer than announcements; a class that comes to its new site over others.
//!
//! # The world
//!
//! - *Classes* of blocks that go together ([`World`]). Each has its part of the normal load, with a daily season and noise.
//! - *Attackers* send from some of the classes ([`Sources`]), all the time the same, in pulses, or growing ([`Shape`]); after a change
//!   of the routes they may come from other classes.
//! - *Sites*: what is sent to a site beyond its ingress is lost on the way and not seen there, whoever sent it; what comes in beyond
//!   its capacity is seen and not answered. So normal load has `min(1, min(capacity, ingress) / offered)` of it answered.
//! - *Routes*: a play is announced after a time, or that fails. Then each class moves after a time of its own, and until then may lose a
//!   part of its traffic. The table may be wrong in single places, and classes may have drifted since it was measured.
//!
//! # The measurement
//!
//! After each interval a site reports the load that came in, its normal load by forecast, and its known-good queries: how many of
//! those sent were seen (binomial, with the part that came in), and how many were to be expected, with an error of the forecast that stays for
//! a while. Reports may be lost.

mod attackers;
mod draw;
mod flow;
mod front;
mod meter;
mod moment;
mod observe;
mod report;
mod setup;
#[cfg(test)]
mod tests;
mod truth;
mod world;

use levee_policy::reroute::{Measure, Step};
use levee_policy::{Span, Time};
use rand_pcg::Pcg64;

use self::draw::factor;
use self::flow::Flow;
use self::front::Front;
use self::meter::Meter;
pub use self::moment::{Moment, SiteMoment};
use self::report::Reporter;
pub use self::setup::{
    Attack, EVENTS_MAX, Honest, INTERVALS_MAX, KnownGood, Measuring, Network, Setup, SetupError,
    Shape, Site, Sources, TIME_MAX,
};
use self::truth::Truth;
pub use self::world::{CLASSES_MAX, World};
use crate::engine::{ActorId, Model, Scheduler, Streams};
use crate::schedule::{exponential, unit};

/// The one mailbox: who is meant follows from the message.
const ALL: ActorId = ActorId(0);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// An interval of measurement is over.
    Interval,
    /// The attack begins, pauses, goes on or is over.
    Edge,
    /// The attack comes from others.
    Sources,
    /// The announcement of a play is made, or has failed.
    Announced {
        /// Which play.
        play: u32,
        /// Which of the announcements.
        number: u32,
    },
    /// A class comes to its new site.
    Reach {
        /// Which class.
        class: u32,
        /// Void if other routes were announced meanwhile.
        number: u32,
    },
    /// One class comes to behave like another.
    Churn,
    /// The responder's deadline.
    Deadline,
    /// The run is over.
    End,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Anycast {
    setup: Setup,
    streams: Streams,
    front: Option<Front>,
    deadline_at: Time,
    /// The play that is announced.
    play: usize,
    /// How many announcements were asked for, and how many made.
    asked: u32,
    made: u32,
    truth: Truth,
    at: Vec<u8>,
    moving: Vec<bool>,
    /// Of the normal load of each class, at the moment.
    factor: Vec<f64>,
    /// Of the attack, from each class.
    attack: Vec<f64>,
    drawn: u32,
    level: f64,
    flow: Flow,
    meter: Meter,
    reporter: Reporter,
    measure: Measure,
    deploy_rng: Pcg64,
    churn_rng: Pcg64,
    /// If they are kept.
    steps: Option<Vec<(Time, Step)>>,
}

impl Anycast {
    /// The model before run 0.
    ///
    /// # Errors
    ///
    /// What [`Setup::check`] finds.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        setup.check()?;
        let streams = Streams::new(setup.seed, 0);
        let front = setup
            .defense
            .as_ref()
            .map(|config| Front::new(config, &setup));
        let mut model = Self {
            front: front.transpose()?,
            streams,
            deadline_at: Time::MAX,
            play: setup.play,
            asked: 0,
            made: 0,
            truth: Truth::default(),
            at: Vec::new(),
            moving: Vec::new(),
            factor: Vec::new(),
            attack: Vec::new(),
            drawn: 0,
            level: 0.0,
            flow: Flow::default(),
            meter: Meter::default(),
            reporter: Reporter::default(),
            measure: Measure { sites: Vec::new() },
            deploy_rng: streams.stream("deploy"),
            churn_rng: streams.stream("churn"),
            steps: None,
            setup,
        };
        model.restart(0);
        Ok(model)
    }

    /// Goes back to the start, for run `run`.
    pub fn restart(&mut self, run: u64) {
        let streams = Streams::new(self.setup.seed, run);
        self.streams = streams;
        if let Some(front) = &mut self.front {
            front.restart(&streams);
        }
        if let Some(steps) = &mut self.steps {
            steps.clear();
        }
        self.deadline_at = Time::MAX;
        self.play = self.setup.play;
        (self.asked, self.made, self.drawn) = (0, 0, 0);
        self.truth
            .draw(&self.setup.world, &self.setup.network, &streams);
        self.at.clear();
        self.at.extend_from_slice(self.truth.sites(self.play));
        let classes = self.at.len();
        self.moving.clear();
        self.moving.resize(classes, false);
        self.deploy_rng = streams.stream("deploy");
        self.churn_rng = streams.stream("churn");
        self.season(Time::ZERO);
        self.sources();
        self.level = self.level(Time::ZERO);
        self.meter.restart(&self.setup);
        self.reporter.restart(&self.setup);
        self.sum();
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

    fn level(&self, now: Time) -> f64 {
        let attack = self.setup.attack.as_ref();
        attack.map_or(0.0, |attack| attack.level(now))
    }

    fn under_attack(&self, now: Time) -> bool {
        let attack = self.setup.attack.as_ref();
        attack.is_some_and(|attack| attack.goes_on(now))
    }

    /// Draws from which classes the attack comes now.
    fn sources(&mut self) {
        match &self.setup.attack {
            Some(attack) => attack.draw(
                &self.setup.world,
                &self.at,
                (&self.streams, self.drawn),
                &mut self.attack,
            ),
            None => {
                self.attack.clear();
                self.attack.resize(self.at.len(), 0.0);
            }
        }
        self.drawn += 1;
    }

    /// Season and noise of the interval that begins now.
    fn season(&mut self, now: Time) {
        let honest = &self.setup.honest;
        let season = honest.season(now);
        let number = now.as_nanos() / self.setup.measure.interval.as_nanos();
        // At most INTERVALS_MAX.
        let mut rng = self.streams.stream_of("noise", number as u32);
        let classes = 0..self.setup.world.len();
        self.factor.clear();
        self.factor.extend(classes.map(|_| {
            if honest.noise > 0.0 {
                season * factor(honest.noise, &mut rng)
            } else {
                season
            }
        }));
    }

    /// Brings the loads up to date after something has changed.
    fn sum(&mut self) {
        let classes = flow::Classes {
            weight: self.setup.world.weights(),
            factor: &self.factor,
            attack: &self.attack,
            at: &self.at,
            moving: &self.moving,
        };
        self.flow
            .sum(&self.setup, &classes, attacked(&self.setup, self.level));
    }

    fn interval(&mut self, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        scheduler.after(self.setup.measure.interval, ALL, Message::Interval);
        self.reporter.report(
            &self.setup,
            &self.meter,
            self.play,
            (&self.streams, now),
            &mut self.measure,
        );
        self.meter.lost += self.reporter.lost;
        self.measured(scheduler);
        self.meter.begin_interval(self.under_attack(now));
        self.season(now);
        self.level = self.level(now);
    }

    /// Begins to announce a play.
    fn deploy(&mut self, play: usize, scheduler: &mut Scheduler<Message>) {
        self.asked += 1;
        let message = Message::Announced {
            play: u32::try_from(play).unwrap_or(u32::MAX),
            number: self.asked,
        };
        scheduler.after(self.setup.network.deploy, ALL, message);
    }

    fn announced(&mut self, play: usize, scheduler: &mut Scheduler<Message>) {
        if unit(&mut self.deploy_rng) < self.setup.network.deploy_failure {
            self.meter.failed += 1;
            self.failed(play, scheduler);
            return;
        }
        // One that was ordered twice since no answer came in time.
        if play == self.play {
            self.deployed(play, scheduler);
            return;
        }
        let now = scheduler.now();
        self.meter.change(&self.setup, now, self.play, play);
        self.play = play;
        self.made += 1;
        let number = self.made;
        let mut rng = self.streams.stream_of("convergence", number);
        for (class, to) in self.truth.sites(play).iter().enumerate() {
            let delay = self.setup.network.convergence.draw(&mut rng);
            self.moving[class] = *to != self.at[class];
            if self.moving[class] {
                let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
                // At most CLASSES_MAX.
                let class = class as u32;
                let message = Message::Reach { class, number };
                scheduler.after(Span::from_nanos(nanos), ALL, message);
            }
        }
        if let Some(moves) = self.setup.attack.as_ref().and_then(|attack| attack.moves) {
            scheduler.after(moves, ALL, Message::Sources);
        }
        self.deployed(play, scheduler);
    }

    fn reach(&mut self, class: usize, number: u32) {
        if number == self.made
            && let Some(to) = self.truth.sites(self.play).get(class)
        {
            self.at[class] = *to;
            self.moving[class] = false;
        }
    }

    fn churn(&mut self, scheduler: &mut Scheduler<Message>) {
        let class = self.truth.churn(&mut self.churn_rng);
        // One that is on its way comes to where it goes by now.
        if !self.moving[class] {
            self.at[class] = self.truth.sites(self.play)[class];
        }
        self.next_churn(scheduler);
    }

    fn next_churn(&mut self, scheduler: &mut Scheduler<Message>) {
        let rate = self.setup.network.churn;
        if rate > 0.0 {
            let wait = Span::from_secs_f64(exponential(&mut self.churn_rng) / rate);
            scheduler.after(wait.unwrap_or(Span::MAX), ALL, Message::Churn);
        }
    }

    fn next_edge(&self, scheduler: &mut Scheduler<Message>) {
        let attack = self.setup.attack.as_ref();
        if let Some(next) = attack.and_then(|attack| attack.next_edge(scheduler.now())) {
            scheduler.at(next, ALL, Message::Edge);
        }
    }
}

/// Queries a second of the attack.
fn attacked(setup: &Setup, level: f64) -> f64 {
    let attack = setup.attack.as_ref();
    attack.map_or(0.0, |attack| attack.load * level)
}

impl Honest {
    /// The factor of the season at a time of the run.
    fn season(&self, now: Time) -> f64 {
        const DAY: f64 = 86_400.0;
        let hour = now.as_secs_f64() + self.clock.as_secs_f64() - self.peak.as_secs_f64();
        1.0 + self.daily * libm::cos(std::f64::consts::TAU * hour / DAY)
    }
}

impl Model for Anycast {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        scheduler.at(self.end(), ALL, Message::End);
        scheduler.after(self.setup.measure.interval, ALL, Message::Interval);
        self.next_edge(scheduler);
        self.next_churn(scheduler);
        self.meter.begin_interval(self.under_attack(Time::ZERO));
        self.watch(scheduler);
    }

    fn deliver(&mut self, _: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        let under_attack = self.under_attack(self.meter.until());
        let attacked = attacked(&self.setup, self.level);
        self.meter
            .pass(&self.setup, &self.flow, (under_attack, attacked), now);
        match message {
            Message::Interval => self.interval(scheduler),
            Message::Edge => {
                self.level = self.level(now);
                self.next_edge(scheduler);
            }
            Message::Sources => self.sources(),
            Message::Announced { play, number } => {
                debug_assert!(number <= self.asked, "nobody asked for it");
                self.announced(play as usize, scheduler);
            }
            Message::Reach { class, number } => self.reach(class as usize, number),
            Message::Churn => self.churn(scheduler),
            Message::Deadline => self.deadline(scheduler),
            Message::End => {}
        }
        self.sum();
        let attack = self.setup.attack.as_ref();
        self.meter.look(&self.flow, now, attack);
        self.watch(scheduler);
    }
}
