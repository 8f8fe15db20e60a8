//! The model that was released with the paper, rebuilt from its behaviour: SeVen as its authors ran it, with each of its
//! [`Quirks`] to be switched off.
//!
//! ```text
//! caller             server and SeVen
//!   | INVITE            |
//!   |------------------>|     at a full table: P1, then a victim makes room
//!   |                   |     the round ends: every WAITING call is INCALL for the server
//!   |           RINGING |
//!   |<------------------|     300 ms later: the caller is connected
//!   |        ...        |
//!   | BYE               |     without delay, when its time is over
//!   |------------------>|     the call leaves the table, if it is in it
//! ```
//!
//! A drop is told to the caller at once. [`Setup::defense`] `None` is the undefended variant: no rounds, a newcomer at a full table is
//! turned away, an admitted one hears RINGING 300 ms later.
//!
//! The defence is written out here, not `levee_policy::selective`: most quirks are in its draws. Only the drop factor is shared.
//!
//! # What it does not model
//!
//! - Callees, ACK, the BYE of the server, the rivals of SeVen, callers that call again: the released model has none.
//! - TRYING and the 200 of a BYE, which change no count.
//! - The message after the horizon: the released model often makes one more call there, which is then attempted and nothing else.
//! - A call that comes at the very end of a round: the released model rings it twice. At its rates there is none.
//!
//! The table is a list, as there: an eviction costs time in proportion to `k`.

mod arrivals;
mod victim;

use levee_policy::selective::{CallState, Config, Kind as DefenseKind};
use levee_policy::{Span, Time};
use rand_pcg::Pcg64;

use self::arrivals::Arrivals;
use self::victim::Rules;
use super::super::{Observable, Observed};
use super::setup::{Quirks, Setup, span};
use crate::engine::{ActorId, Model, Scheduler, Streams, TieOrder};
use crate::scenario::Preset;
use crate::schedule::Kind;

/// From the end of the round, or without a defence from the INVITE, to RINGING at the caller.
pub const RINGING: Span = Span::from_millis(300);

/// All callers.
const CALLERS: ActorId = ActorId(0);
/// The server, with SeVen in front.
const SERVER: ActorId = ActorId(1);

/// A setup that the released model has no counterpart of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// A cap on durations, or limits per caller or source.
    #[error(
        "the released model has no max_duration, calls_per_caller or calls_per_source: leave them out or take another preset"
    )]
    Rivals,
    /// Classes of calls.
    #[error("the released model has no classes of calls: leave them out or take another preset")]
    Classes,
    /// Callers that call again.
    #[error("attackers of the released model call once: leave redial out or take another preset")]
    Redial,
    /// Calls that are not counted.
    #[error("the released model has no warm-up: leave it out or take another preset")]
    Warmup,
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// To the callers: the next call begins.
    Call,
    /// To the server: the call that is due next asks to come in.
    Invite,
    /// To the server: the round is over.
    RoundEnd,
    /// To a caller.
    Ringing(u32),
    /// To the server: the caller is connected. Only without [`Quirks::rings_from_round_end`].
    Answered(u32),
    /// To the server: the caller is done.
    Bye(u32),
}

/// A call as its caller sees it.
#[derive(Clone, Copy, Debug)]
struct Call {
    kind: Kind,
    state: CallerState,
    connected: Time,
    /// When it wanted to end, as noted.
    noted_end: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallerState {
    Invited,
    /// Until it was told that it is not, or for good.
    Connected,
    Incomplete,
    /// Told before it was connected.
    Dropped,
}

/// A call as the server sees it.
#[derive(Clone, Copy, Debug)]
struct Held {
    call: u32,
    since: Time,
    state: CallState,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    attempted: u32,
    connected: u32,
    incomplete: u32,
}

/// Shares over the calls that were cut short.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    got: f64,
    clock_ratio: f64,
}

/// The random streams of a run.
#[derive(Clone, Debug)]
struct Draws {
    p1: Pcg64,
    removed: Pcg64,
    told: Pcg64,
    lived: Pcg64,
    noted: Pcg64,
}

impl Draws {
    fn new(seed: u64, run: u64) -> Self {
        let streams = Streams::new(seed, run);
        Self {
            p1: streams.stream("released p1"),
            removed: streams.stream("released removed"),
            told: streams.stream("released told"),
            lived: streams.stream("released lived"),
            noted: streams.stream("released noted"),
        }
    }
}

/// The released model.
#[derive(Clone, Debug)]
pub struct Released {
    setup: Setup,
    quirks: Quirks,
    /// `None`: undefended.
    rules: Option<Rules>,
    arrivals: Arrivals,
    next: Option<(Time, Kind)>,
    calls: Vec<Call>,
    /// How many of them have reached the server.
    arrived: usize,
    table: Vec<Held>,
    /// Arrivals at a full table in this round.
    overloads: u64,
    draws: Draws,
    pool: Vec<usize>,
    counts: [Counts; 2],
    cut: Cut,
    admitted_for_victim: u32,
    refused: u32,
}

impl Released {
    /// The model before run 0. Of the setup all is taken that `quirks` does not replace, but the round and `PMod`, which are the
    /// paper's.
    ///
    /// # Errors
    ///
    /// If the setup has something that the released model does not.
    pub fn new(setup: &Setup, quirks: Quirks) -> Result<Self, Unsupported> {
        supported(setup)?;
        let setup = setup
            .clone()
            .with_preset(Preset::Paper)
            .with_settings_of(&quirks);
        let seven = |defense: &&Config| defense.kind == DefenseKind::Seven;
        let rules = setup.defense.as_ref().filter(seven).map(|defense| {
            let mut drop_factor = defense.drop_factor;
            if quirks.drop_factor_truncated {
                drop_factor.scale = 1.0;
            }
            Rules {
                strategy: defense.strategy,
                drop_factor,
                quirks,
            }
        });
        Ok(Self {
            arrivals: Arrivals::new(&setup, quirks.last_in_first_out, 0),
            draws: Draws::new(setup.plan.seed, 0),
            quirks,
            rules,
            next: None,
            calls: Vec::new(),
            arrived: 0,
            table: Vec::with_capacity(setup.capacity as usize),
            overloads: 0,
            pool: Vec::with_capacity(setup.capacity as usize),
            counts: [Counts::default(); 2],
            cut: Cut::default(),
            admitted_for_victim: 0,
            refused: 0,
            setup,
        })
    }

    /// Goes back to the start, for run `run`. Nothing is allocated but what a larger run needs.
    pub fn restart(&mut self, run: u64) {
        self.arrivals = Arrivals::new(&self.setup, self.quirks.last_in_first_out, run);
        self.draws = Draws::new(self.setup.plan.seed, run);
        self.next = None;
        self.calls.clear();
        self.arrived = 0;
        self.table.clear();
        self.overloads = 0;
        self.counts = [Counts::default(); 2];
        self.cut = Cut::default();
        self.admitted_for_victim = 0;
        self.refused = 0;
    }

    /// When a run is over: the horizon, to the message.
    #[must_use]
    pub fn end(&self) -> Time {
        Time::ZERO + self.setup.until()
    }

    /// Which of two messages of the same instant is served first.
    #[must_use]
    pub fn ties(&self) -> TieOrder {
        self.setup.ties
    }

    fn next_call(&mut self, scheduler: &mut Scheduler<Message>) {
        self.next = self.arrivals.next();
        if let Some((at, _)) = self.next {
            scheduler.after(at.since(scheduler.now()), CALLERS, Message::Call);
        }
    }

    fn call(&mut self, scheduler: &mut Scheduler<Message>) {
        let Some((_, kind)) = self.next.take() else {
            return;
        };
        self.counts[kind.index()].attempted += 1;
        self.calls.push(Call {
            kind,
            state: CallerState::Invited,
            connected: Time::MAX,
            noted_end: Time::MAX,
        });
        scheduler.after(self.setup.delay, SERVER, Message::Invite);
        self.next_call(scheduler);
    }

    fn invite(&mut self, scheduler: &mut Scheduler<Message>) {
        // INVITEs take the same time, so they come in the order of the calls.
        let call = self.arrived as u32;
        self.arrived += 1;
        if self.table.len() >= self.setup.capacity as usize && !self.make_room(scheduler.now()) {
            self.refused += 1;
            return;
        }
        self.table.push(Held {
            call,
            since: scheduler.now(),
            state: CallState::Waiting,
        });
        if self.rules.is_none() || !self.quirks.rings_from_round_end {
            scheduler.after(RINGING, CALLERS, Message::Ringing(call));
        }
    }

    /// Whether a newcomer may come in at a full table. If so, there is room now.
    fn make_room(&mut self, now: Time) -> bool {
        let (Some(rules), Some(defense)) = (&self.rules, &self.setup.defense) else {
            return false;
        };
        let k = f64::from(self.setup.capacity);
        let pmod = f64::from(defense.pmod_start) + self.overloads as f64;
        self.overloads += 1;
        if crate::schedule::unit(&mut self.draws.p1) * (k + pmod) >= k {
            return false;
        }
        let removed = rules.draw(&self.table, now, &mut self.pool, &mut self.draws.removed);
        let told = if self.quirks.victim_drawn_twice {
            rules.draw(&self.table, now, &mut self.pool, &mut self.draws.told)
        } else {
            removed
        };
        let told = self.table[told].call;
        self.table.remove(removed);
        self.admitted_for_victim += 1;
        self.tell(told, now);
        true
    }

    /// A caller hears that it was dropped.
    fn tell(&mut self, call: u32, now: Time) {
        let call = &mut self.calls[call as usize];
        match (call.state, call.kind) {
            (CallerState::Connected, Kind::Honest) => {
                call.state = CallerState::Incomplete;
                let counts = &mut self.counts[Kind::Honest.index()];
                counts.connected -= 1;
                counts.incomplete += 1;
                let got = now.since(call.connected).as_secs_f64();
                let wanted = call.noted_end.since(call.connected).as_secs_f64();
                self.cut.got += if wanted > 0.0 { got / wanted } else { 1.0 };
                self.cut.clock_ratio += now.as_secs_f64() / call.noted_end.as_secs_f64();
            }
            (CallerState::Invited, _) if !self.quirks.setup_drop_unheard => {
                call.state = CallerState::Dropped;
            }
            _ => {}
        }
    }

    fn ringing(&mut self, number: u32, scheduler: &mut Scheduler<Message>) {
        let now = scheduler.now();
        let call = &mut self.calls[number as usize];
        if call.state != CallerState::Invited {
            return;
        }
        call.state = CallerState::Connected;
        call.connected = now;
        self.counts[call.kind.index()].connected += 1;
        if self.rules.is_some() && !self.quirks.rings_from_round_end {
            scheduler.after(self.setup.delay, SERVER, Message::Answered(number));
        }
        let Some(durations) = &self.setup.plan.honest.durations else {
            return;
        };
        if call.kind == Kind::Honest {
            let lived = span(durations.draw(&mut self.draws.lived));
            let noted = if self.quirks.duration_drawn_twice {
                span(durations.draw(&mut self.draws.noted))
            } else {
                lived
            };
            call.noted_end = now + noted;
            scheduler.after(lived, SERVER, Message::Bye(number));
        }
    }

    fn round_end(&mut self, scheduler: &mut Scheduler<Message>) {
        self.overloads = 0;
        if self.quirks.rings_from_round_end {
            for held in &mut self.table {
                if held.state == CallState::Waiting {
                    held.state = CallState::InCall;
                    scheduler.after(RINGING, CALLERS, Message::Ringing(held.call));
                }
            }
        }
        self.next_round(scheduler);
    }

    fn next_round(&self, scheduler: &mut Scheduler<Message>) {
        if let (Some(_), Some(defense)) = (&self.rules, &self.setup.defense) {
            scheduler.after(defense.round, SERVER, Message::RoundEnd);
        }
    }

    fn held(&mut self, call: u32) -> Option<usize> {
        self.table.iter().position(|held| held.call == call)
    }
}

fn supported(setup: &Setup) -> Result<(), Unsupported> {
    if let Some(defense) = &setup.defense {
        if defense.max_duration.is_some()
            || defense.calls_per_caller.is_some()
            || defense.calls_per_source.is_some()
        {
            return Err(Unsupported::Rivals);
        }
        if !defense.classes.is_empty() {
            return Err(Unsupported::Classes);
        }
    }
    if setup.redial.is_some() {
        return Err(Unsupported::Redial);
    }
    if setup.warmup > Span::ZERO {
        return Err(Unsupported::Warmup);
    }
    Ok(())
}

impl Model for Released {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        self.next_call(scheduler);
        self.next_round(scheduler);
    }

    fn deliver(&mut self, _to: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
        match message {
            Message::Call => self.call(scheduler),
            Message::Invite => self.invite(scheduler),
            Message::RoundEnd => self.round_end(scheduler),
            Message::Ringing(call) => self.ringing(call, scheduler),
            Message::Answered(call) => {
                if let Some(place) = self.held(call) {
                    self.table[place].state = CallState::InCall;
                }
            }
            Message::Bye(call) => {
                if let Some(place) = self.held(call) {
                    self.table.remove(place);
                }
            }
        }
    }
}

const fn calls(name: &'static str, meaning: &'static str) -> Observable {
    Observable {
        name,
        unit: "calls",
        meaning,
    }
}

/// In the order of [`Released::observe`].
const OBSERVABLES: [Observable; 11] = [
    calls("honest.attempted", "honest calls begun"),
    calls(
        "honest.complete",
        "of those, connected and not told of a drop: ended as they wished, or still connected",
    ),
    calls("honest.incomplete", "of those, told of a drop in call"),
    calls("honest.unsuccessful", "of those, not connected (so far)"),
    Observable {
        name: "honest.got_share",
        unit: "",
        meaning: "share of its noted time that a call cut short got, on average",
    },
    Observable {
        name: "honest.clock_ratio",
        unit: "",
        meaning: "the same as the released model reckons it: clock time of the drop by clock time of the noted end",
    },
    calls("attacker.attempted", "attackers' calls begun"),
    calls("attacker.connected", "of those, ever connected"),
    calls("server.held", "calls in the table now"),
    calls(
        "policy.admitted",
        "newcomers at a full table for which a victim was drawn",
    ),
    calls(
        "policy.refused",
        "newcomers at a full table that were turned away",
    ),
];

impl Observed for Released {
    fn observables() -> &'static [Observable] {
        &OBSERVABLES
    }

    fn observe(&self, _now: Time, index: usize) -> f64 {
        let [honest, attacker] = self.counts;
        let cut = f64::from(honest.incomplete);
        match index {
            0 => f64::from(honest.attempted),
            1 => f64::from(honest.connected),
            2 => cut,
            3 => f64::from(honest.attempted - honest.connected - honest.incomplete),
            4 => self.cut.got / cut,
            5 => self.cut.clock_ratio / cut,
            6 => f64::from(attacker.attempted),
            7 => f64::from(attacker.connected),
            8 => self.table.len() as f64,
            9 => f64::from(self.admitted_for_victim),
            10 => f64::from(self.refused),
            _ => f64::NAN,
        }
    }
}
