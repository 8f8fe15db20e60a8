//! What a client sends through: its uplink, and its processor where hashes are the currency.

use levee_policy::{Span, Time};

use super::{Split, Try};

/// A part of a unit that may be missing from one that is told: what rounding takes off a sum.
const SLACK: f64 = 1e-9;

/// One of the two that a client has. What goes through it shares its rate equally (a fluid: processor sharing).
#[derive(Clone, Debug)]
pub(super) struct Pipe {
    /// Bytes, or hashes, a second.
    rate: f64,
    split: Split,
    /// In the order in which they began.
    flows: Vec<Flow>,
    /// Until when the flows are accounted.
    since: Time,
    /// A flow has something to tell when each that is not waiting its turn has got so much more.
    due: f64,
    /// Which of the announced times counts: those before it are void.
    pub(super) number: u32,
    /// Bytes that went through in the time that is counted.
    sent: f64,
    /// Flows that have been asked what they have to tell.
    asked: usize,
}

/// Something that goes through.
#[derive(Clone, Copy, Debug)]
struct Flow {
    of: Try,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A request, of which so many bytes are left.
    Request { left: f64 },
    /// A payment of units of so many bytes each.
    Payment {
        unit: f64,
        /// Bytes that are told of at once.
        chunk: f64,
        /// Bytes that went through and have not been told.
        owed: f64,
        /// Units still to pay.
        left: u64,
    },
}

/// What a pipe tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A request is out.
    Sent(Try),
    /// So many more units are paid; they were the last if nothing is left to pay.
    Paid { of: Try, units: u64, last: bool },
}

impl Pipe {
    pub(super) fn new(rate: f64, split: Split) -> Self {
        Self {
            rate,
            split,
            flows: Vec::new(),
            since: Time::ZERO,
            due: f64::INFINITY,
            number: 0,
            sent: 0.0,
            asked: 0,
        }
    }

    /// Before the start; the memory is kept.
    pub(super) fn clear(&mut self) {
        self.flows.clear();
        self.since = Time::ZERO;
        self.due = f64::INFINITY;
        self.number = 0;
        self.sent = 0.0;
        self.asked = 0;
    }

    /// A request of so many bytes begins.
    pub(super) fn send(&mut self, of: Try, bytes: u32) {
        let left = f64::from(bytes);
        self.flows.push(Flow {
            of,
            what: What::Request { left },
        });
    }

    /// A payment of `left` units of so many bytes each begins; it is told of in pieces of `chunk` bytes.
    pub(super) fn pay(&mut self, of: Try, unit: f64, chunk: f64, left: u64) {
        self.flows.push(Flow {
            of,
            what: What::Payment {
                unit,
                chunk,
                owed: 0.0,
                left,
            },
        });
    }

    /// Takes out what is sent for a request.
    pub(super) fn stop(&mut self, of: Try) {
        self.flows.retain(|flow| flow.of != of);
    }

    /// Accounts for what went through since the last change; `counted` is when counting begins. To be called before each change.
    pub(super) fn advance(&mut self, now: Time, counted: Time) {
        let active = self.active();
        if active > 0 {
            let each = self.rate * (now - self.since).as_secs_f64() / active as f64;
            self.sent = self.sent_by(now, counted);
            // A time is rounded to a nanosecond: nothing goes beyond what is due.
            self.through(each.min(self.due));
        }
        self.since = now;
    }

    /// The time that was announced has come.
    pub(super) fn arrive(&mut self, now: Time, counted: Time) {
        if self.active() > 0 {
            self.sent = self.sent_by(now, counted);
            self.through(self.due);
        }
        self.since = now;
    }

    /// Bytes that went through in the time that is counted.
    pub(super) fn sent_by(&self, now: Time, counted: Time) -> f64 {
        let going = if self.active() > 0 {
            (now - self.since.max(counted)).as_secs_f64()
        } else {
            0.0
        };
        self.sent + self.rate * going
    }

    /// What a flow has to tell now; `None` when all have been asked since the last change.
    pub(super) fn poll(&mut self) -> Option<Told> {
        while let Some(flow) = self.flows.get_mut(self.asked) {
            let of = flow.of;
            let told = match &mut flow.what {
                What::Request { left } if *left <= 0.0 => Some((Told::Sent(of), true)),
                What::Request { .. } => None,
                What::Payment {
                    unit, owed, left, ..
                } => {
                    let units = (libm::floor(*owed / *unit + SLACK) as u64).min(*left);
                    *owed -= units as f64 * *unit;
                    *left -= units;
                    let last = *left == 0;
                    (units > 0).then_some((Told::Paid { of, units, last }, last))
                }
            };
            match told {
                Some((told, true)) => {
                    self.flows.remove(self.asked);
                    return Some(told);
                }
                Some((told, false)) => {
                    self.asked += 1;
                    return Some(told);
                }
                None => self.asked += 1,
            }
        }
        None
    }

    /// How long until a flow has something to tell, if nothing changes; `None` if none will. Earlier times are void.
    pub(super) fn announce(&mut self) -> Option<Span> {
        self.number = self.number.wrapping_add(1);
        self.asked = 0;
        let active = self.active();
        if active == 0 {
            self.due = f64::INFINITY;
            return None;
        }
        let turn = self.turn();
        let due = self
            .flows
            .iter()
            .enumerate()
            .map(|(i, flow)| match flow.what {
                What::Request { left } => left,
                What::Payment { .. } if turn.is_some_and(|turn| turn != i) => f64::INFINITY,
                What::Payment {
                    unit,
                    chunk,
                    owed,
                    left,
                } => {
                    let piece = chunk.max(unit).min(left as f64 * unit);
                    (piece - owed).max(0.0)
                }
            });
        self.due = due.fold(f64::INFINITY, f64::min);
        Span::from_secs_f64(self.due * active as f64 / self.rate)
    }

    /// Each flow that is not waiting its turn gets so much more.
    fn through(&mut self, each: f64) {
        let turn = self.turn();
        for (i, flow) in self.flows.iter_mut().enumerate() {
            match &mut flow.what {
                What::Request { left } => *left -= each,
                What::Payment { owed, .. } => {
                    if turn.is_none_or(|turn| turn == i) {
                        *owed += each;
                    }
                }
            }
        }
        self.due -= each;
    }

    /// Flows that are not waiting their turn.
    fn active(&self) -> usize {
        match self.turn() {
            None => self.flows.len(),
            Some(_) => self.flows.iter().filter(|flow| !flow.is_payment()).count() + 1,
        }
    }

    /// The one payment that goes through, where they take turns and there is one.
    fn turn(&self) -> Option<usize> {
        let mut flows = self.flows.iter();
        match self.split {
            Split::Equal => None,
            Split::Oldest => flows.position(Flow::is_payment),
            Split::Newest => flows.rposition(Flow::is_payment),
        }
    }
}

impl Flow {
    fn is_payment(&self) -> bool {
        matches!(self.what, What::Payment { .. })
    }
}
