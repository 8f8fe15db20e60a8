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
#[cfg(test)]
mod tests;
mod victim;

use levee_policy::selective::{CallState, Config, Kind as DefenseKind};
use levee_policy::{Span, Time};
use rand_pcg::Pcg64;

use self::arrivals::Arrivals;
use self::victim::Rules;
use super::quirks::Quirks;
use super::setup::{Setup, span};
use crate::engine::{ActorId, Model, Scheduler, Streams, TieOrder};
use crate::model::{Observable, Observed};
use crate::scenario::Preset;
use crate::schedule::{Calls, Kind};

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
    /// Callers that call again, or a fixed number of them.
    #[error(
        "attackers of the released model come at a rate and call once: give a share without redial, or take another preset"
    )]
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
    begun: Time,
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
    /// Honest ones that were told of a drop after that.
    cut: u32,
}

/// Sums over the calls that were cut short.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    got: f64,
    clock: f64,
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
    shares: Shares,
    p1_drawn: u32,
    victims: u32,
    removed_waiting: u32,
}

impl Released {
    /// The model before run 0. Of the setup all is taken that `quirks` does not replace, but the round and `PMod`, which are the
    /// paper's, and the ringing times.
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
            shares: Shares::default(),
            p1_drawn: 0,
            victims: 0,
            removed_waiting: 0,
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
        self.shares = Shares::default();
        self.p1_drawn = 0;
        self.victims = 0;
        self.removed_waiting = 0;
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
            begun: scheduler.now(),
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
        if self.is_full() && !self.make_room(scheduler.now()) {
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
        self.p1_drawn += 1;
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
        let removed = self.table.remove(removed);
        self.victims += 1;
        self.removed_waiting += u32::from(removed.state == CallState::Waiting);
        self.tell(told, now);
        true
    }

    /// A caller hears that it was dropped.
    fn tell(&mut self, call: u32, now: Time) {
        let call = &mut self.calls[call as usize];
        match (call.state, call.kind) {
            (CallerState::Connected, Kind::Honest) => {
                call.state = CallerState::Incomplete;
                self.counts[Kind::Honest.index()].cut += 1;
                let got = now.since(call.connected).as_secs_f64();
                let wanted = call.noted_end.since(call.connected).as_secs_f64();
                self.shares.got += if wanted > 0.0 { got / wanted } else { 1.0 };
                self.shares.clock += call.begun.as_secs_f64() / call.noted_end.as_secs_f64();
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

    fn is_full(&self) -> bool {
        self.table.len() >= self.setup.capacity as usize
    }

    fn honest(&self, count: impl Fn(&Counts) -> u32) -> f64 {
        f64::from(count(&self.counts[Kind::Honest.index()]))
    }

    fn attacker(&self, count: impl Fn(&Counts) -> u32) -> f64 {
        f64::from(count(&self.counts[Kind::Attacker.index()]))
    }

    fn held(&self, call: u32) -> Option<usize> {
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
    let by_rate = |calls| matches!(calls, Calls::Rate(_));
    if setup.redial.is_some()
        || !by_rate(setup.plan.honest.calls)
        || !by_rate(setup.plan.attacker.calls)
    {
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

/// An observable, and how it is had. Those that [`Sip`](super::Sip) has too have the same name.
type Entry = (
    (&'static str, &'static str, &'static str),
    fn(&Released, Time) -> f64,
);

#[rustfmt::skip]
const TABLE: [Entry; 21] = [
    (("time", "s", "since the start of the run"), |_, now| now.as_secs_f64()),
    (("honest.attempted", "calls", "honest calls begun"), |m, _| m.honest(|c| c.attempted)),
    (("honest.complete", "calls", "of them, connected and not told of a drop: ended as wanted, or still connected"), |m, _| m.honest(|c| c.connected - c.cut)),
    (("honest.incomplete", "calls", "of them, told of a drop while connected"), |m, _| m.honest(|c| c.cut)),
    (("honest.unsuccessful", "calls", "of them, not connected so far"), |m, _| m.honest(|c| c.attempted - c.connected)),
    (("honest.set_up", "calls", "of them, connected"), |m, _| m.honest(|c| c.connected)),
    (("honest.got_share_sum", "", "share of its noted time that a call got, summed over honest.incomplete; above 1 for one that outlived it"), |m, _| m.shares.got),
    (("honest.got_share", "", "honest.got_share_sum / honest.incomplete; not a number without a call"), |m, _| m.shares.got / m.honest(|c| c.cut)),
    (("honest.clock_ratio", "", "what the released model takes for it: time of the beginning / time of the noted end, both since the start of the run"), |m, _| m.shares.clock / m.honest(|c| c.cut)),
    (("attacker.attempted", "calls", "attackers' calls begun"), |m, _| m.attacker(|c| c.attempted)),
    (("attacker.set_up", "calls", "of them, connected"), |m, _| m.attacker(|c| c.connected)),
    (("attacker.unsuccessful", "calls", "of them, not connected so far"), |m, _| m.attacker(|c| c.attempted - c.connected)),
    (("server.capacity", "lines", "k, all lines"), |m, _| f64::from(m.setup.capacity)),
    (("server.busy", "lines", "taken now"), |m, _| m.table.len() as f64),
    (("server.full", "0/1", "1 if all lines are taken now, else 0"), |m, _| f64::from(m.is_full())),
    (("server.offered", "calls", "INVITEs that reached the server"), |m, _| m.arrived as f64),
    (("front.p1_drawn", "calls", "arrivals at a full table that drew for P1; 0 without a defence"), |m, _| f64::from(m.p1_drawn)),
    (("front.p1_taken", "calls", "of them, that won the draw"), |m, _| f64::from(m.victims)),
    (("front.p2_drawn", "calls", "victims removed (P2)"), |m, _| f64::from(m.victims)),
    (("front.refused.overload", "calls", "that lost the draw for P1"), |m, _| f64::from(m.p1_drawn - m.victims)),
    (("front.evicted_waiting", "calls", "removed while WAITING"), |m, _| f64::from(m.removed_waiting)),
];

static OBSERVABLES: [Observable; TABLE.len()] = {
    let mut all = [Observable {
        name: "",
        unit: "",
        meaning: "",
    }; TABLE.len()];
    let mut index = 0;
    while index < all.len() {
        let (name, unit, meaning) = TABLE[index].0;
        all[index] = Observable {
            name,
            unit,
            meaning,
        };
        index += 1;
    }
    all
};

impl Observed for Released {
    fn observables() -> &'static [Observable] {
        &OBSERVABLES
    }

    fn observe(&self, now: Time, index: usize) -> f64 {
        TABLE
            .get(index)
            .map_or(f64::NAN, |(_, value)| value(self, now))
    }
}
