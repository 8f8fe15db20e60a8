//! What became of each call, from the lines that the SIPp scenarios log.

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

/// How one call went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// No final answer yet.
    Pending,
    /// Answered and not over yet.
    Open,
    /// The caller talked as long as it wanted.
    Complete,
    /// The other side hung up first, with the text of its `Reason` header (empty without one).
    Cut {
        /// The `Reason` header, RFC 3326.
        reason: String,
    },
    /// Never set up: the final status of the INVITE.
    Refused {
        /// The SIP status.
        status: u16,
    },
    /// Never set up: the INVITE was cancelled (seen by a callee).
    Cancelled,
}

/// One call as one side saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecord {
    /// When the INVITE was sent or received, from the start of the SIPp process.
    pub invited: Duration,
    /// When the 200 came; only callers log it.
    pub answered: Option<Duration>,
    /// When the call ended or was refused.
    pub ended: Option<Duration>,
    /// How it went.
    pub outcome: Outcome,
}

/// A log that does not have the form that [`CallLog`] states.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line} of a SIPp event log is `{text}`: expected {expected}")]
pub struct EventError {
    /// The line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
    /// What should be there.
    pub expected: &'static str,
}

/// The calls of one SIPp process, by number.
///
/// Its text has a line `EVENT CALL MILLISECONDS [DETAIL]` for each turn of a call: `invite`, `answered`, then at most one
/// of `complete` (the caller hangs up), `cut` (the other side hung up first; the detail is the `Reason` header), `refused`
/// (the detail is the status) and `cancelled`. Time is SIPp's own clock from the start of its process, in steps of a few
/// milliseconds. A call without an end was still open when the log was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallLog {
    calls: BTreeMap<u64, CallRecord>,
}

impl CallLog {
    /// Reads a log, which may still be growing: a last line without its end is left out.
    ///
    /// # Errors
    /// [`EventError`] for the first line that is not an event, or that does not fit the call's events before it.
    pub fn parse(text: &str) -> Result<Self, EventError> {
        let mut log = Self::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (index, line) in whole.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            log.apply(line).map_err(|expected| EventError {
                line: index + 1,
                text: line.to_owned(),
                expected,
            })?;
        }
        Ok(log)
    }

    fn apply(&mut self, line: &str) -> Result<(), &'static str> {
        let mut fields = line.splitn(4, ' ');
        let mut field = || fields.next().unwrap_or_default().trim();
        let event = field();
        let call: u64 = field().parse().map_err(|_| "EVENT CALL MILLISECONDS")?;
        let at = Duration::from_millis(field().parse().map_err(|_| "EVENT CALL MILLISECONDS")?);
        let detail = field();
        if event == "invite" {
            let record = CallRecord {
                invited: at,
                answered: None,
                ended: None,
                outcome: Outcome::Pending,
            };
            return match self.calls.insert(call, record) {
                None => Ok(()),
                Some(_) => Err("one invite per call"),
            };
        }
        let record = self.calls.get_mut(&call).ok_or("an invite first")?;
        if record.ended.is_some() {
            return Err("no event after the end of a call");
        }
        record.outcome = match event {
            "answered" => {
                record.answered = Some(at);
                record.outcome = Outcome::Open;
                return Ok(());
            }
            "complete" => Outcome::Complete,
            "cut" => Outcome::Cut {
                reason: detail.to_owned(),
            },
            "refused" => Outcome::Refused {
                status: detail.parse().map_err(|_| "a status after `refused`")?,
            },
            "cancelled" => Outcome::Cancelled,
            _ => return Err("invite, answered, complete, cut, refused or cancelled"),
        };
        record.ended = Some(at);
        Ok(())
    }

    /// The calls by number.
    pub fn calls(&self) -> &BTreeMap<u64, CallRecord> {
        &self.calls
    }

    /// Counts of all calls.
    pub fn tally(&self) -> Tally {
        Tally::of(self.calls.values())
    }

    /// Counts of the calls that *arrived* in `from..to`, whenever they ended.
    pub fn arrived(&self, from: Duration, to: Duration) -> Tally {
        Tally::of(
            self.calls
                .values()
                .filter(|call| (from..to).contains(&call.invited)),
        )
    }
}

/// Counts of calls by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// All of them.
    pub attempted: u64,
    /// Lasted as long as the caller wanted.
    pub complete: u64,
    /// Set up, then cut short by the other side.
    pub incomplete: u64,
    /// Never set up: refused or cancelled.
    pub unsuccessful: u64,
    /// Set up and still open: not cut so far.
    pub open: u64,
    /// Without a final answer so far.
    pub pending: u64,
}

impl Tally {
    fn of<'a>(calls: impl Iterator<Item = &'a CallRecord>) -> Self {
        let mut tally = Self::default();
        for call in calls {
            tally.attempted += 1;
            let counter = match call.outcome {
                Outcome::Pending => &mut tally.pending,
                Outcome::Open => &mut tally.open,
                Outcome::Complete => &mut tally.complete,
                Outcome::Cut { .. } => &mut tally.incomplete,
                Outcome::Refused { .. } | Outcome::Cancelled => &mut tally.unsuccessful,
            };
            *counter += 1;
        }
        tally
    }

    /// The lowest and the highest share that completes: open and pending calls counted as cut, and as complete.
    ///
    /// Both are 0 without calls.
    pub fn complete_share(&self) -> (f64, f64) {
        if self.attempted == 0 {
            return (0.0, 0.0);
        }
        let attempted = self.attempted as f64;
        let undecided = self.open + self.pending;
        (
            self.complete as f64 / attempted,
            (self.complete + undecided) as f64 / attempted,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
invite 1 200
answered 1 208
invite 2 396
refused 2 400 503
invite 3 592
answered 3 600
complete 1 3208
invite 4 788
cut 3 4000 SIP ;cause=503 ;text=\"capacity\"
invite 5 980
answered 5 992
";

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn each_outcome_is_read() {
        let log = CallLog::parse(LOG).unwrap();
        let outcomes: Vec<_> = log.calls().values().map(|call| &call.outcome).collect();
        let reason = String::from("SIP ;cause=503 ;text=\"capacity\"");
        assert_eq!(
            outcomes,
            [
                &Outcome::Complete,
                &Outcome::Refused { status: 503 },
                &Outcome::Cut { reason },
                &Outcome::Pending,
                &Outcome::Open,
            ]
        );
        assert_eq!(log.calls()[&1].ended, Some(ms(3208)));
        assert_eq!(log.calls()[&1].answered, Some(ms(208)));
    }

    #[test]
    fn a_window_counts_by_arrival_not_by_end() {
        let log = CallLog::parse(LOG).unwrap();
        let first = log.arrived(ms(0), ms(592));
        assert_eq!(
            (first.attempted, first.complete, first.unsuccessful),
            (2, 1, 1)
        );
        let second = log.arrived(ms(592), ms(10_000));
        assert_eq!(
            (
                second.attempted,
                second.incomplete,
                second.open,
                second.pending
            ),
            (3, 1, 1, 1)
        );
        assert_eq!(second.complete_share(), (0.0, 2.0 / 3.0));
        assert_eq!(log.tally().attempted, 5);
        assert_eq!(Tally::default().complete_share(), (0.0, 0.0));
    }

    #[test]
    fn a_line_still_being_written_is_left_out() {
        let log = CallLog::parse("invite 1 200\nanswered 1 2").unwrap();
        assert_eq!(log.calls()[&1].outcome, Outcome::Pending);
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, line, expected) in [
            ("hello\n", 1, "EVENT CALL MILLISECONDS"),
            ("invite 1 2\ninvite 1 3\n", 2, "one invite per call"),
            ("answered 1 2\n", 1, "an invite first"),
            (
                "invite 1 2\nfled 1 3\n",
                2,
                "invite, answered, complete, cut, refused or cancelled",
            ),
            (
                "invite 1 2\nrefused 1 3 busy\n",
                2,
                "a status after `refused`",
            ),
            (
                "invite 1 2\ncut 1 3\ncomplete 1 4\n",
                3,
                "no event after the end of a call",
            ),
        ] {
            let error = CallLog::parse(text).unwrap_err();
            assert_eq!((error.line, error.expected), (line, expected), "{text}");
        }
    }
}
