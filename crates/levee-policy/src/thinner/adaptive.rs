//! How many requests at once are good for a server, found while it works.

use super::Outcome;
use crate::{Span, Time};

/// The limit before anything is known, if the bounds allow it (our choice).
const START: f64 = 20.0;
/// How far the limit is moved up and down to see what it does.
const SWING: f64 = 0.15;
/// The elasticity that is sought: where throughput over latency is largest, Kleinrock's power ("Power and deterministic rules of
/// thumb for probabilistic problems in computer communications", 1979).
const ELASTICITY: f64 = 0.5;
/// How far a measured elasticity moves the limit: `e - ELASTICITY` times this, in the limit's logarithm. With the two below,
/// simulated servers of 2 to 1000 places stay within a factor of two of their best limit, a quarter in the mean.
const GAIN: f64 = 0.15;
/// One measurement moves the limit no further than an elasticity this far from the one sought does.
const ELASTICITY_OFF_MAX: f64 = 1.0;
/// Requests of a window at least: the mean logarithm of exponential latencies is then known to a tenth.
const WINDOW: u32 = 200;
/// Turnovers of all places in a window at least, and before it until the last limit is forgotten: with one, servers that share
/// their speed among requests of very different cost still remember it.
const TURNOVERS: u32 = 2;
/// The limit is in use if the mean number of requests at the server is at least this part of it.
const USED: f64 = 0.9;
/// Failures up to this part of a window are the application's own; more, and the server cannot take what it gets.
const FAILED: f64 = 0.1;

/// A limit on concurrent requests that follows the server: perturb and observe, a form of extremum seeking.
///
/// The limit is held a little above and a little below its centre in turn, each for a window of requests, and the latency and the
/// mean number `n` of requests at the server are compared. By Little's law the elasticity of the throughput to `n` is
/// `e = 1 - ln(T1/T2) / ln(n1/n2)`: 1 while the server has places to spare, 0 where more requests only wait for each other, and
/// negative where they hinder each other. The centre goes up while `e` is above 1/2 and down while it is below. `T` is the
/// geometric mean of the latencies, which a few costly requests move little.
///
/// What follows from that:
///
/// - There is no memory of an unloaded latency, so none can be wrong or go stale, and none has to be measured with the server
///   half empty. The limit is never lowered by more than an eighth to learn something.
/// - Costly requests raise the latency of both windows; they do not lower the limit for all.
/// - A window in which the limit was not used teaches nothing, and changes nothing.
/// - Under an overload of any size latency grows with the limit, so that the limit goes down to where it does not.
/// - When more than a tenth of a window fails, the limit is lowered at once by half of that part.
///
/// Its cost is patience: a window takes four turnovers of all places, and a few hundred requests. It is blind to a server whose
/// latency does not depend on its load, and then goes up to its bound, which should be what the server's memory allows. Where
/// throughput bends slowly, it gives some of it for latency: the lower bound should be what the server surely takes.
#[derive(Clone, Debug)]
pub struct AdaptiveLimit {
    least: u32,
    most: u32,
    centre: f64,
    limit: u32,
    in_service: u32,
    /// Of the last change of `in_service`.
    now: Time,
    /// Above the centre, or below it.
    high: bool,
    /// Ends to pass by until the last limit's requests have left.
    settling: u32,
    window: Window,
    last: Option<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    start: Time,
    /// In requests times nanoseconds.
    busy_sum: u128,
    answered: u32,
    failed: u32,
    /// Sum of the logarithms of the latencies of the answered ones.
    log_latency: f64,
}

/// What a window saw.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Logarithm of the geometric mean of the latencies.
    log_latency: f64,
    /// Requests at the server in the mean.
    busy: f64,
}

impl AdaptiveLimit {
    /// A limit between these bounds, which are at least 1 and in order.
    #[must_use]
    pub fn new(least: u32, most: u32) -> Self {
        Self::with(least, most, 0, Time::ZERO)
    }

    /// With requests that are at the server already.
    pub(super) fn with(least: u32, most: u32, in_service: u32, now: Time) -> Self {
        let mut limit = Self {
            least,
            most: most.max(least),
            centre: START,
            limit: 0,
            in_service,
            now,
            high: false,
            settling: 0,
            window: Window::starting(now),
            last: None,
        };
        limit.turn();
        limit
    }

    /// With other bounds, from where it is.
    pub(super) fn set_bounds(&mut self, least: u32, most: u32) {
        self.least = least;
        self.most = most.max(least);
        self.last = None;
        self.turn();
    }

    /// The most requests that should be at the server now.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// A request went to the server.
    pub fn started(&mut self, now: Time) {
        self.advance(now);
        self.in_service += 1;
    }

    /// A request left the server.
    pub fn ended(&mut self, now: Time, latency: Span, outcome: Outcome) {
        self.advance(now);
        self.in_service = self.in_service.saturating_sub(1);
        if self.settling > 0 {
            self.settling -= 1;
            if self.settling == 0 {
                self.window = Window::starting(self.now);
            }
            return;
        }
        match outcome {
            Outcome::Answered => {
                self.window.answered += 1;
                self.window.log_latency += libm::log(latency.as_nanos().max(1) as f64);
            }
            Outcome::Failed => self.window.failed += 1,
            Outcome::Broken => return,
        }
        if self.window.answered + self.window.failed >= WINDOW.max(TURNOVERS * self.limit) {
            self.learn();
            self.turn();
        }
    }

    fn advance(&mut self, now: Time) {
        let now = now.max(self.now);
        self.window.busy_sum +=
            u128::from(self.in_service) * u128::from((now - self.now).as_nanos());
        self.now = now;
    }

    /// The window is over.
    fn learn(&mut self) {
        let last = self.last.take();
        let Window {
            answered, failed, ..
        } = self.window;
        let failed = f64::from(failed) / f64::from(answered + failed);
        if failed > FAILED {
            self.centre *= 1.0 - failed / 2.0;
            return;
        }
        let Some(seen) = self.window.seen(self.now) else {
            return;
        };
        if seen.busy < USED * f64::from(self.limit) {
            return;
        }
        self.last = Some(seen);
        if let Some(elasticity) = last.and_then(|last| seen.elasticity(&last)) {
            let off = (elasticity - ELASTICITY).clamp(-ELASTICITY_OFF_MAX, ELASTICITY_OFF_MAX);
            self.centre *= libm::exp(GAIN * off);
        }
    }

    /// To the other side of the centre.
    fn turn(&mut self) {
        self.centre = self
            .centre
            .clamp(f64::from(self.least), f64::from(self.most));
        self.high = !self.high;
        let limit = if self.high {
            libm::ceil(self.centre * (1.0 + SWING))
        } else {
            libm::floor(self.centre / (1.0 + SWING))
        };
        self.limit = (limit as u32).clamp(self.least, self.most);
        self.settling = TURNOVERS * self.limit;
    }
}

impl Window {
    fn starting(start: Time) -> Self {
        Self {
            start,
            busy_sum: 0,
            answered: 0,
            failed: 0,
            log_latency: 0.0,
        }
    }

    fn seen(&self, now: Time) -> Option<Seen> {
        let nanos = (now - self.start).as_nanos();
        (nanos > 0).then(|| Seen {
            log_latency: self.log_latency / f64::from(self.answered),
            busy: self.busy_sum as f64 / nanos as f64,
        })
    }
}

impl Seen {
    /// `None` if the two are not far enough apart to tell.
    fn elasticity(&self, other: &Self) -> Option<f64> {
        let busy = libm::log(self.busy / other.busy);
        (libm::fabs(busy) > SWING / 2.0)
            .then(|| 1.0 - (self.log_latency - other.log_latency) / busy)
            .filter(|elasticity| elasticity.is_finite())
    }
}
