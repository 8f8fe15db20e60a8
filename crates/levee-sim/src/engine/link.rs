//! What a message meets on its way.

use levee_policy::{Span, Time};
use rand_core::Rng as _;
use rand_pcg::Pcg64;

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A link that loses nothing and takes the same time for each message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Link {
    /// One way.
    pub delay: Span,
}

/// A link as a network has it. The default is a plain link without delay.
///
/// A message waits until those before it are on the line, takes its size over the rate to get there, then the delay and
/// the jitter to the other end. It is lost with probability `loss`, independently of all others, after it has been on the
/// line.
///
/// Each message takes two numbers of the link's random stream, whatever the settings: two runs that differ by the loss
/// only have the same jitter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImpairedLink {
    /// One way, at least.
    pub delay: Span,
    /// What is added to it.
    pub jitter: Jitter,
    /// Share of messages that do not arrive.
    pub loss: f64,
    /// How fast bytes go out; `None` for at once.
    pub rate: Option<Rate>,
    /// Whether a message may overtake one that was sent before it. If not, it arrives with that one at the soonest.
    pub reorder: bool,
}

/// Random delay of each message, independent of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Jitter {
    /// None at all.
    #[default]
    None,
    /// From nothing up to this, all equally likely.
    Uniform(Span),
    /// Exponential with this mean.
    Exponential(Span),
}

/// How fast bytes go out, and how many may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// At least 1.
    pub bytes_per_s: u64,
    /// Bytes that are not yet on the line, the message that is going out included. A message that would make them more is
    /// dropped (tail drop).
    pub queue_bytes: u64,
}

/// What became of the messages of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Given to the link.
    pub sent: u64,
    /// Lost on the line.
    pub lost: u64,
    /// Dropped, as the queue was full.
    pub dropped: u64,
}

/// A link that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Not a probability.
    #[error("the loss of a link is {0}: expected a share from 0 to 1")]
    Loss(f64),
    /// Nothing would ever arrive.
    #[error(
        "the rate of a link is 0 bytes per second: expected at least 1, or no rate for a link without one"
    )]
    Rate,
}

/// An impaired link and its state.
#[derive(Clone, Debug)]
pub(super) struct Impaired {
    link: ImpairedLink,
    stream: Pcg64,
    /// When the last byte is on the line.
    free: Time,
    /// When the last message arrives.
    last: Time,
    traffic: Traffic,
}

impl Impaired {
    pub(super) fn new(link: ImpairedLink, stream: Pcg64) -> Result<Self, LinkError> {
        if !(0.0..=1.0).contains(&link.loss) {
            return Err(LinkError::Loss(link.loss));
        }
        if link.rate.is_some_and(|rate| rate.bytes_per_s == 0) {
            return Err(LinkError::Rate);
        }
        Ok(Self {
            link,
            stream,
            free: Time::ZERO,
            last: Time::ZERO,
            traffic: Traffic::default(),
        })
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// When a message of this size that is sent now arrives, if it does.
    pub(super) fn arrival(&mut self, now: Time, bytes: u32) -> Option<Time> {
        let (lost, jitter) = (self.unit(), self.unit());
        self.traffic.sent += 1;
        let out = match self.link.rate {
            None => now,
            Some(rate) => {
                let Some(out) = self.on_the_line(now, rate, bytes) else {
                    self.traffic.dropped += 1;
                    return None;
                };
                self.free = out;
                out
            }
        };
        if lost < self.link.loss {
            self.traffic.lost += 1;
            return None;
        }
        let jitter = match self.link.jitter {
            Jitter::None => Span::ZERO,
            Jitter::Uniform(most) => scaled(most, jitter),
            Jitter::Exponential(mean) => scaled(mean, -libm::log(1.0 - jitter)),
        };
        let mut arrival = out + self.link.delay + jitter;
        if !self.link.reorder {
            arrival = arrival.max(self.last);
            self.last = arrival;
        }
        Some(arrival)
    }

    /// When its last byte is on the line, unless the queue is full.
    fn on_the_line(&self, now: Time, rate: Rate, bytes: u32) -> Option<Time> {
        let per_s = u128::from(rate.bytes_per_s);
        let waiting_ns = u128::from((self.free - now).as_nanos());
        // A byte that is partly on the line waits still.
        let waiting = (waiting_ns * per_s).div_ceil(NANOS_PER_SEC);
        if waiting + u128::from(bytes) > u128::from(rate.queue_bytes) {
            return None;
        }
        let takes = (u128::from(bytes) * NANOS_PER_SEC).div_ceil(per_s);
        let takes = Span::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
        Some(self.free.max(now) + takes)
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.stream.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// To the nearest nanosecond.
fn scaled(span: Span, by: f64) -> Span {
    Span::from_nanos(libm::round(span.as_nanos() as f64 * by) as u64)
}
