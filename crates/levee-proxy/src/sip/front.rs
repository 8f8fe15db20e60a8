//! The SIP front as a state machine: messages and moments in, messages out. No socket, no clock.
//!
//! [`Front::handle`], [`Front::handle_deadline`], [`Front::poll_output`] and [`Front::deadline`] follow the contract of
//! [`levee_policy::StateMachine`]. The parts: `request` and `response` are the two ways through, `route` says where a
//! request goes, `timers` what is due, `ending` carries out what the defence decides.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hashbrown::HashMap;
use levee_policy::selective::{self, Selective};
use levee_policy::{StateMachine, Time};
use levee_sip::check::{self, Reject};
use levee_sip::edit::{self, Reply, Stamp};
use levee_sip::header::Via;
use levee_sip::keys::{Keys, ServerKey};
use levee_sip::transaction::{ClientTransaction, ServerTransaction, TimerValues};
use levee_sip::wakeups::Wakeups;
use levee_sip::wire::{Limits, Message, Method, Scanner};

use super::addresses::{Addresses, Flow, Zone};
use super::calls::Calls;
use super::classify::Classes;
use super::names::Names;
use super::settings::{Listen, SipSettings, Transport};
use super::snapshot::Snapshot;
use super::sources::Sources;
use super::table::Table;
use super::txn::Txn;
use crate::log::RateLimited;
use crate::recorder::{PolicyRng, policy_rng};

/// Log lines a second for each cause: an attack that meets all of them writes less than a gigabyte a day.
const LOG_LINES_PER_SECOND: u32 = 1;

/// What happens to a front.
#[derive(Debug)]
pub enum Input<'a> {
    /// A message came: a datagram, or what was cut from a stream.
    Message {
        /// How it came.
        flow: Flow,
        /// All of it.
        bytes: &'a [u8],
    },
    /// A name that [`Output::Resolve`] asked for was looked up.
    Resolved {
        /// The name.
        host: String,
        /// Its first address of a family that we have a port of; `None` if there is none.
        ip: Option<IpAddr>,
    },
    /// A message of this transaction could not be sent (RFC 3261 section 18.4).
    Unreachable {
        /// As [`Output::Send`] had it.
        txn: u64,
    },
    /// New settings. Addresses stay as they are.
    Reload(Box<SipSettings>),
    /// From now on no new call is taken.
    Drain,
}

/// What a front wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message.
    Send {
        /// Where to.
        flow: Flow,
        /// All of it.
        bytes: Vec<u8>,
        /// Whose failure to report, 0 for nobody's.
        txn: u64,
    },
    /// Look up a name.
    Resolve {
        /// The name.
        host: String,
    },
}

/// What the defence was told and said, for a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An input.
    Input(Time, selective::Input),
    /// A deadline that was kept.
    Deadline(Time),
    /// An output.
    Output(Time, selective::Output),
}

/// Whose timers a wake-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wake {
    Txn(u64),
    Call(u64),
}

/// The SIP front of one server.
pub struct Front {
    pub(crate) now: Time,
    pub(crate) settings: SipSettings,
    pub(crate) addresses: Addresses,
    pub(crate) keys: Keys,
    pub(crate) timers: TimerValues,
    pub(crate) policy: Selective,
    policy_inputs: VecDeque<selective::Input>,
    policy_busy: bool,
    rng: PolicyRng,
    pub(crate) classes: Classes,
    pub(crate) sources: Sources,
    pub(crate) names: Names,
    pub(crate) txns: Table<Txn>,
    pub(crate) txn_bytes: usize,
    pub(crate) by_key: HashMap<ServerKey, u64, foldhash::fast::FixedState>,
    pub(crate) calls: Calls,
    pub(crate) wakeups: Wakeups<Wake>,
    scanners: Vec<Scanner>,
    own_scanners: Vec<Scanner>,
    outputs: VecDeque<Output>,
    events: Option<Vec<Event>>,
    log: RateLimited,
    /// Who sent the message that is being handled.
    peer: Option<SocketAddr>,
    pub(crate) stats: Snapshot,
    pub(crate) ack_serial: u64,
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front")
            .field("now", &self.now)
            .field("calls", &self.calls.len())
            .field("transactions", &self.txns.len())
            .finish_non_exhaustive()
    }
}

impl Front {
    /// A front on the ports `bound`, which are those of `settings.listen` and then `settings.inside`, with their real
    /// port numbers. `secret` is under its branches and tags; `seed` is of the defence's draws.
    ///
    /// # Errors
    /// When the defence's configuration does not fit the capacity.
    pub fn new(
        settings: SipSettings,
        bound: &[Listen],
        secret: [u8; 16],
        seed: u64,
    ) -> Result<Self, selective::ConfigError> {
        let t = settings.timers;
        let limits = &settings.limits;
        Ok(Self {
            now: Time::ZERO,
            addresses: Addresses::new(&settings, bound),
            keys: Keys::new(secret),
            timers: TimerValues {
                t1: t.t1,
                t2: t.t2,
                t4: t.t4,
                c: t.timer_c,
            },
            policy: Selective::new(settings.capacity, settings.defense.clone())?,
            policy_inputs: VecDeque::new(),
            policy_busy: false,
            rng: policy_rng(seed),
            classes: Classes::new(&settings.classes, &settings.defense),
            sources: Sources::new(
                limits.requests_per_source_per_second,
                limits.sources_tracked_max,
            ),
            names: Names::new(limits.dns_pending_max),
            txns: Table::default(),
            txn_bytes: 0,
            by_key: HashMap::default(),
            calls: Calls::default(),
            wakeups: Wakeups::default(),
            scanners: Vec::new(),
            own_scanners: Vec::new(),
            outputs: VecDeque::new(),
            events: settings.record.is_some().then(Vec::new),
            log: RateLimited::new(LOG_LINES_PER_SECOND),
            peer: None,
            stats: Snapshot {
                name: settings.name.clone(),
                ..Snapshot::default()
            },
            ack_serial: 0,
            settings,
        })
    }

    /// Something happened at `now`.
    pub fn handle(&mut self, now: Time, input: Input<'_>) {
        self.now = self.now.max(now);
        match input {
            Input::Message { flow, bytes } => self.on_message(flow, bytes),
            Input::Resolved { host, ip } => self.on_resolved(&host, ip),
            Input::Unreachable { txn } => self.on_unreachable(txn),
            Input::Reload(settings) => self.reload(*settings),
            Input::Drain => self.stats.draining = true,
        }
    }

    /// Does what was due by `now`.
    pub fn handle_deadline(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.peer = None;
        self.log_held_back();
        self.keep_policy_deadline();
        while let Some((at, wake)) = self.wakeups.pop_due(self.at()) {
            match wake {
                Wake::Txn(id) => self.on_txn_timer(id, at),
                Wake::Call(id) => self.on_call_timer(id, at),
            }
        }
    }

    /// The next thing to do, until there is none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Self::handle_deadline`] next.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let wake = self.wakeups.next().map(time_of);
        [wake, self.policy.deadline()].into_iter().flatten().min()
    }

    /// What the defence was told and said since the last call; nothing unless a recording is set.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The defence.
    #[must_use]
    pub fn policy(&self) -> &Selective {
        &self.policy
    }

    /// A fresh defence in place of one that holds no call, with a new seed, so that a recording can begin.
    pub fn restart_policy(&mut self, seed: u64) {
        if self.policy.calls_held() + self.policy.calls_evicting() > 0 {
            return;
        }
        if let Ok(policy) = Selective::new(self.policy.capacity(), self.policy.config().clone()) {
            self.policy = policy;
            self.rng = policy_rng(seed);
        }
    }

    /// Calls in hand, in every stage.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Entries of the timers' heap, those of the dead included.
    #[must_use]
    pub fn wakeups(&self) -> usize {
        self.wakeups.len()
    }

    /// The numbers as of now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            capacity: self.policy.capacity(),
            held_waiting: self.calls.waiting,
            held_in_call: self.calls.in_call,
            evicting: self.calls.ending,
            in_service: self.policy.in_service(),
            pmod: self.policy.pmod(),
            round_seconds: self.policy.config().round.as_secs_f64(),
            policy: *self.policy.stats(),
            transaction_bytes: self.txn_bytes as u64,
            transactions: u32::try_from(self.txns.len()).unwrap_or(u32::MAX),
            ..self.stats.clone()
        }
    }

    /// The numbers that the driver adds to.
    pub fn stats_mut(&mut self) -> &mut Snapshot {
        &mut self.stats
    }

    /// Now, as levee-sip has it.
    pub(crate) fn at(&self) -> Duration {
        Duration::from_nanos(self.now.as_nanos())
    }

    fn reload(&mut self, new: SipSettings) {
        if Selective::check(new.capacity, &new.defense).is_err() {
            return;
        }
        self.classes.reload(&new.classes, &new.defense);
        self.sources = Sources::new(
            new.limits.requests_per_source_per_second,
            new.limits.sources_tracked_max,
        );
        self.names.pending_max = new.limits.dns_pending_max;
        let t = new.timers;
        self.timers = TimerValues {
            t1: t.t1,
            t2: t.t2,
            t4: t.t4,
            c: t.timer_c,
        };
        self.scanners.clear();
        self.tell_policy(selective::Input::Reconfigure {
            capacity: new.capacity,
            config: Box::new(new.defense.clone()),
        });
        self.settings = new;
    }

    // The defence.

    /// Reports to the defence, and carries out what it says. What that leads to is reported after it: the contract wants
    /// all outputs of an input taken before the next.
    pub(crate) fn tell_policy(&mut self, input: selective::Input) {
        self.policy_inputs.push_back(input);
        if std::mem::replace(&mut self.policy_busy, true) {
            return;
        }
        self.run_policy_inputs();
    }

    fn run_policy_inputs(&mut self) {
        while let Some(input) = self.policy_inputs.pop_front() {
            self.note(|now| Event::Input(now, input.clone()));
            self.policy.handle(self.now, input, &mut self.rng);
            self.carry_out();
        }
        self.policy_busy = false;
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.policy.poll_output() {
            self.note(|now| Event::Output(now, output));
            self.on_verdict(output);
        }
    }

    fn keep_policy_deadline(&mut self) {
        if self.policy.deadline().is_none_or(|at| at > self.now) {
            return;
        }
        self.policy_busy = true;
        self.note(Event::Deadline);
        self.policy.handle_deadline(self.now, &mut self.rng);
        self.carry_out();
        self.run_policy_inputs();
    }

    fn note(&mut self, event: impl FnOnce(Time) -> Event) {
        if let Some(events) = &mut self.events {
            events.push(event(self.now));
        }
    }

    // Messages.

    fn on_message(&mut self, flow: Flow, bytes: &[u8]) {
        self.stats.messages_in += 1;
        self.peer = Some(flow.peer);
        self.scan(bytes, |front, scanned| match scanned {
            Err(cause) => front.drop_message(cause),
            Ok(msg) if msg.code().is_some() => front.on_response(&msg),
            Ok(msg) => front.on_request(flow, &msg),
        });
    }

    /// Scans what came from outside. Scanners are kept in a pool, since a message may be handled inside another.
    fn scan<T>(
        &mut self,
        bytes: &[u8],
        f: impl FnOnce(&mut Self, Result<Message<'_>, &'static str>) -> T,
    ) -> T {
        let mut scanner = self.scanners.pop().unwrap_or_else(|| {
            let l = &self.settings.limits;
            Scanner::new(Limits {
                message_bytes_max: l.message_bytes_max,
                headers_max: l.headers_max,
            })
        });
        let out = f(
            self,
            scanner.scan(bytes).map_err(|d| check::defect_cause(d.kind)),
        );
        self.scanners.push(scanner);
        out
    }

    /// Scans a request that was accepted before, as it came or as we sent it on: with room for what we added.
    pub(crate) fn scan_own<T>(
        &mut self,
        bytes: &[u8],
        f: impl FnOnce(&mut Self, &Message<'_>) -> Option<T>,
    ) -> Option<T> {
        let mut scanner = self.own_scanners.pop().unwrap_or_else(|| {
            Scanner::new(Limits {
                message_bytes_max: usize::MAX,
                headers_max: usize::MAX,
            })
        });
        let out = match scanner.scan(bytes) {
            Ok(msg) => f(self, &msg),
            Err(_) => {
                debug_assert!(false, "it was scanned before");
                None
            }
        };
        self.own_scanners.push(scanner);
        out
    }

    pub(crate) fn drop_message(&mut self, cause: &'static str) {
        self.stats.note_dropped(cause);
        if let Some(held_back) = self.may_log(cause) {
            let (front, peer) = (&self.settings.name, self.peer.map(tracing::field::display));
            tracing::warn!(front, cause, peer, held_back, "message dropped");
        }
    }

    /// Whether a line of this cause may be logged, and how many were held back before it.
    pub(crate) fn may_log(&mut self, cause: &'static str) -> Option<u64> {
        self.log.allow(self.at(), cause)
    }

    /// Says how many lines were held back, once it is quiet again.
    fn log_held_back(&mut self) {
        let now = self.at();
        for (cause, held_back) in self.log.held_back(now) {
            tracing::info!(
                front = self.settings.name,
                cause,
                held_back,
                "lines held back"
            );
        }
    }

    pub(crate) fn send(&mut self, flow: Flow, bytes: Vec<u8>, txn: u64) {
        self.stats.messages_out += 1;
        self.outputs.push_back(Output::Send { flow, bytes, txn });
    }

    pub(crate) fn resolve(&mut self, host: String) {
        self.outputs.push_back(Output::Resolve { host });
    }

    pub(crate) fn is_reliable(&self, flow: Flow) -> bool {
        self.addresses.transport(flow) != Transport::Udp
    }

    /// Where answers to a request go (RFC 3261 section 18.2.2, RFC 3581 section 4). `maddr` is not followed: it would let
    /// anybody aim us at a third party.
    pub(crate) fn answer_flow(&self, flow: Flow, via: &Via<'_>) -> Flow {
        if self.is_reliable(flow) || via.wants_rport() {
            return flow;
        }
        let mut answer = flow;
        answer.peer.set_port(via.sent_by.port.unwrap_or(5060));
        answer
    }

    /// Answers without keeping any state: for what no transaction was made for.
    pub(crate) fn answer_stateless(
        &mut self,
        flow: Flow,
        msg: &Message<'_>,
        via: &Via<'_>,
        (code, reason): (u16, &'static str),
        lines: &[u8],
    ) {
        let mut tag = Vec::new();
        self.keys.to_tag(
            &mut tag,
            msg.call_id().unwrap_or_default(),
            msg.from().ok().as_ref(),
        );
        let mut out = Vec::new();
        let stamp = Some(Stamp { source: flow.peer });
        edit::reply(
            &mut out,
            msg,
            &Reply {
                code,
                reason,
                stamp,
                to_tag: &tag,
                lines,
            },
        );
        *self.stats.replied.entry(code).or_default() += 1;
        self.send(self.answer_flow(flow, via), out, 0);
    }

    pub(crate) fn reject(&mut self, flow: Flow, msg: &Message<'_>, reject: &Reject<'_>) {
        self.drop_message(reject.cause);
        let Some(via) = reject.via.filter(|_| reject.answerable) else {
            return;
        };
        let mut lines = Vec::new();
        if reject.unsupported.is_some() {
            let tags: Vec<_> = check::unsupported_tags(msg).collect();
            edit::line(&mut lines, "Unsupported", &tags.join(&b", "[..]));
        }
        self.answer_stateless(flow, msg, &via, (reject.code, reject.reason), &lines);
    }

    /// Answers the request of a transaction ourselves. Nothing happens if it has its final answer already.
    pub(crate) fn answer(&mut self, id: u64, code: u16, reason: &'static str, lines: &[u8]) {
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        if !txn.is_unanswered() {
            return;
        }
        // What we sent on says all that the answer needs, below our own Via; what is not sent yet is still as it came.
        let sent = txn
            .client
            .as_ref()
            .map(ClientTransaction::packet)
            .filter(|p| !p.is_empty());
        let (bytes, stamp) = match sent {
            Some(packet) => (packet.to_vec(), None),
            None => (
                txn.request.clone(),
                txn.from.map(|f| Stamp { source: f.peer }),
            ),
        };
        let out = self.scan_own(&bytes, |front, msg| {
            let mut tag = Vec::new();
            front.keys.to_tag(
                &mut tag,
                msg.call_id().unwrap_or_default(),
                msg.from().ok().as_ref(),
            );
            let mut out = Vec::new();
            edit::reply(
                &mut out,
                msg,
                &Reply {
                    code,
                    reason,
                    stamp,
                    to_tag: &tag,
                    lines,
                },
            );
            Some(out)
        });
        let Some(out) = out else { return };
        *self.stats.replied.entry(code).or_default() += 1;
        self.send_up(id, code, out);
        // It will not be passed on any more; its answer may be kept for half a minute.
        if let Some(txn) = self.txns.get_mut(id) {
            txn.request = Vec::new();
        }
    }

    /// Sends an answer to whoever sent the request of a transaction.
    pub(crate) fn send_up(&mut self, id: u64, code: u16, bytes: Vec<u8>) {
        let now = self.at();
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        let (Some(server), Some(up)) = (&mut txn.server, txn.up) else {
            return;
        };
        if server.on_send(now, code, &bytes, &self.timers) {
            self.send(up, bytes, 0);
        }
        self.rearm(id);
    }

    pub(crate) fn new_server(&self, method: Method, flow: Flow) -> ServerTransaction {
        ServerTransaction::new(
            levee_sip::transaction::Kind::of(method),
            self.is_reliable(flow),
        )
    }

    pub(crate) fn zone(&self, flow: Flow) -> Zone {
        self.addresses.zone(flow)
    }
}

/// A time of levee-sip as one of the defence.
fn time_of(at: Duration) -> Time {
    Time::from_nanos(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
}
