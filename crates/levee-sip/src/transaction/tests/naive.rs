//! Figures 5 to 8 written down as they are drawn, with each timer by its letter.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use super::Event::{self, Again, Cancel, Code, Fail};
use super::Kind::{self, Invite, NonInvite};

/// The timers of the RFC by their letters, each with its moment in milliseconds.
pub(super) type Timers = BTreeMap<char, u64>;

/// The first timer to fire; one that ends the transaction before one that repeats a message.
pub(super) fn first(timers: &Timers) -> Option<(char, u64)> {
    timers
        .iter()
        .map(|(c, at)| (*c, *at))
        .min_by_key(|(c, at)| (*at, matches!(c, 'A' | 'E' | 'G')))
}

/// Figures 5 and 6 written down as they are drawn. X is the 64 T1 of a CANCEL.
pub(super) struct NaiveClient {
    kind: Kind,
    reliable: bool,
    state: &'static str,
    step: u64,
    cancelled: bool,
    pub(super) timers: Timers,
}

impl NaiveClient {
    pub(super) fn new(kind: Kind, reliable: bool) -> Self {
        let mut timers = match kind {
            Invite => Timers::from([('B', 32_000), ('C', 185_000)]),
            NonInvite => Timers::from([('F', 32_000)]),
        };
        if !reliable {
            timers.insert(if kind == Invite { 'A' } else { 'E' }, 500);
        }
        Self {
            kind,
            reliable,
            state: "Calling",
            step: 500,
            cancelled: false,
            timers,
        }
    }

    fn go(&mut self, state: &'static str, timer: Option<(char, u64)>) {
        self.state = state;
        self.timers = timer.into_iter().collect();
    }

    fn pending(&self) -> bool {
        matches!(self.state, "Calling" | "Proceeding")
    }

    pub(super) fn fire(&mut self) -> String {
        let (timer, at) = first(&self.timers).unwrap();
        match timer {
            'A' => {
                self.step *= 2;
                self.timers.insert('A', at + self.step);
                String::from("resend")
            }
            'E' => {
                self.step = if self.state == "Proceeding" {
                    4000
                } else {
                    (self.step * 2).min(4000)
                };
                self.timers.insert('E', at + self.step);
                String::from("resend")
            }
            'B' | 'C' | 'F' | 'X' => {
                self.go("Terminated", None);
                String::from("timeout Terminated")
            }
            _ => {
                self.go("Terminated", None);
                String::from("Terminated")
            }
        }
    }

    pub(super) fn event(&mut self, now: u64, event: Event) -> String {
        let verb = match (event, self.kind) {
            (Cancel, _) => {
                if self.pending() && !self.cancelled {
                    self.cancelled = true;
                    for c in ['B', 'C', 'F'] {
                        self.timers.remove(&c);
                    }
                    self.timers.insert('X', now + 32_000);
                }
                return String::from("cancel");
            }
            (Fail, _) => {
                self.go("Terminated", None);
                "fail"
            }
            (Code(100..200), Invite) if self.pending() => {
                self.state = "Proceeding";
                self.timers.remove(&'A');
                self.timers.remove(&'B');
                if event != Code(100) && !self.cancelled {
                    self.timers.insert('C', now + 185_000);
                }
                "pass"
            }
            (Code(100..200), NonInvite) if self.pending() => {
                self.state = "Proceeding";
                "pass"
            }
            (Code(200..300), Invite) if self.pending() => {
                self.go("Accepted", Some(('M', now + 32_000)));
                "pass"
            }
            (Code(200..300), Invite) if self.state == "Accepted" => "pass",
            (Code(300..), Invite) if self.pending() => {
                let d = if self.reliable { 0 } else { 32_000 };
                self.go("Completed", Some(('D', now + d)));
                "pass+ack"
            }
            (Code(300..), Invite) if self.state == "Completed" => "ack",
            (Code(200..), NonInvite) if self.pending() => {
                let k = if self.reliable { 0 } else { 5000 };
                self.go("Completed", Some(('K', now + k)));
                "pass"
            }
            _ => "absorb",
        };
        format!("{verb} {}", self.state)
    }
}

/// Figures 7 and 8.
pub(super) struct NaiveServer {
    kind: Kind,
    reliable: bool,
    state: &'static str,
    step: u64,
    last: Option<u16>,
    pub(super) timers: Timers,
}

impl NaiveServer {
    pub(super) fn new(kind: Kind, reliable: bool) -> Self {
        Self {
            kind,
            reliable,
            state: "Proceeding",
            step: 500,
            last: None,
            timers: Timers::new(),
        }
    }

    pub(super) fn fire(&mut self) -> String {
        let (timer, at) = first(&self.timers).unwrap();
        if timer == 'G' {
            self.step = (self.step * 2).min(4000);
            self.timers.insert('G', at + self.step);
            return format!("resend {}", self.last.unwrap());
        }
        self.state = "Terminated";
        self.timers.clear();
        String::from(if timer == 'H' {
            "no ACK Terminated"
        } else {
            "Terminated"
        })
    }

    pub(super) fn event(&mut self, now: u64, event: Event) -> String {
        let pending = self.state == "Proceeding";
        match (event, self.kind) {
            (Again, _) => match self.last {
                Some(code) if pending || self.state == "Completed" => format!("resend {code}"),
                _ => String::from("absorb"),
            },
            (Event::Ack, Invite) if self.state == "Completed" => {
                self.state = "Confirmed";
                let i = if self.reliable { 0 } else { 5000 };
                self.timers = Timers::from([('I', now + i)]);
                String::from("ack Confirmed")
            }
            (Event::Ack, _) => format!("stray {}", self.state),
            (Code(..200), _) if pending => {
                let Code(code) = event else { unreachable!() };
                self.last = Some(code);
                String::from("send Proceeding")
            }
            (Code(200..300), Invite) if pending => {
                self.state = "Accepted";
                self.timers = Timers::from([('L', now + 32_000)]);
                String::from("send Accepted")
            }
            (Code(200..300), Invite) if self.state == "Accepted" => String::from("send Accepted"),
            (Code(code), _) if pending => {
                self.state = "Completed";
                self.last = Some(code);
                self.timers = match (self.kind, self.reliable) {
                    (Invite, true) => Timers::from([('H', now + 32_000)]),
                    (Invite, false) => Timers::from([('H', now + 32_000), ('G', now + 500)]),
                    (NonInvite, true) => Timers::from([('J', now)]),
                    (NonInvite, false) => Timers::from([('J', now + 32_000)]),
                };
                String::from("send Completed")
            }
            _ => format!("withhold {}", self.state),
        }
    }
}
