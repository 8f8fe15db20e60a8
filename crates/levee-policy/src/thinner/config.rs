//! The `[defense]` table of a thinner.

use alloc::format;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{
    ConfigError, Span,
    config_error::{ensure, fail, number, span},
};

/// Requests that may wait at once, unless the file says otherwise (our choice: a thousand windows of the papers' clients).
pub const CONTENDERS: u32 = 10_000;
/// How long a request may wait to be admitted: the papers' experiments count a request that waited 10 s as denied.
pub const PATIENCE: Span = Span::from_secs(10);
/// When a refused request that is not told to retry at once may come again (our choice).
pub const RETRY_AFTER: Span = Span::from_secs(1);
/// How long a request may be suspended before it is aborted: about what the SIGCOMM paper has.
pub const SUSPENDED: Span = Span::from_secs(30);

/// The most contenders: memory grows by about 150 bytes each, so this is some 150 MB.
pub const CONTENDERS_MAX: u32 = 1 << 20;
/// The highest rate: a request a microsecond.
pub const RATE_MAX: f64 = 1e6;
/// The lowest rate: a request in a quarter of an hour.
pub const RATE_MIN: f64 = 1e-3;
/// The most requests at once.
pub const CONCURRENCY_MAX: u32 = 1 << 20;

/// The `[defense]` table with `kind = "thinner"`. Every key but `kind` and `capacity` may be left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Always `thinner`: tells this table from that of another defence.
    pub kind: Kind,
    /// What the server can take (`C`).
    pub capacity: Capacity,
    /// What a client does for its place when demand exceeds capacity.
    #[serde(default)]
    pub mode: Mode,
    /// With a rate: so many requests may reach the server at once while it is not overloaded. [`Config::burst_of`] unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u32>,
    /// The most requests that wait at once. What happens when so many wait is told in [the module](super#a-full-house).
    #[serde(default = "contenders")]
    pub contenders: u32,
    /// How long a request waits at most to be admitted.
    #[serde(default = "patience")]
    pub patience: Span,
    /// When a refused request may come again where it is not told to do so at once.
    #[serde(default = "retry_after")]
    pub retry_after: Span,
    /// The papers' `tau`: long requests are charged anew for each quantum, and lose the server to who pays more. Needs a server
    /// that can abort or suspend a request, a capacity in concurrent requests, and a mode with an auction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Span>,
    /// With a quantum: how long a request that lost the server may stay suspended before it is aborted; zero where the server
    /// cannot suspend, to abort at once.
    #[serde(default = "suspended")]
    pub suspended: Span,
}

fn contenders() -> u32 {
    CONTENDERS
}

fn patience() -> Span {
    PATIENCE
}

fn retry_after() -> Span {
    RETRY_AFTER
}

fn suspended() -> Span {
    SUSPENDED
}

/// The name of this defence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A thinner.
    #[default]
    Thinner,
}

/// What the server can take (`C`).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capacity {
    /// `{ rate = 100.0 }`: so many requests a second.
    Rate(f64),
    /// `{ concurrency = 64 }`: so many requests at once.
    Concurrency(u32),
    /// `{ adaptive = { least = 4, most = 1000 } }`: so many requests at once as are [found](super::AdaptiveLimit) to be good for
    /// the server.
    Adaptive {
        /// Never fewer.
        least: u32,
        /// Never more.
        most: u32,
    },
}

impl<'de> Deserialize<'de> for Capacity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(field_identifier, rename_all = "kebab-case")]
        enum Key {
            Rate,
            Concurrency,
            Adaptive,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Range {
            least: u32,
            most: u32,
        }
        // A derived one says of `capacity = 100` no more than that it wanted a string or a table.
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Capacity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "{ rate = 100.0 }, { concurrency = 64 } or { adaptive = { least = 4, most = 1000 } }",
                )
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Capacity, A::Error> {
                let capacity = match map.next_key()? {
                    None => return Err(de::Error::invalid_length(0, &self)),
                    Some(Key::Rate) => Capacity::Rate(map.next_value()?),
                    Some(Key::Concurrency) => Capacity::Concurrency(map.next_value()?),
                    Some(Key::Adaptive) => {
                        let Range { least, most } = map.next_value()?;
                        Capacity::Adaptive { least, most }
                    }
                };
                match map.next_key::<de::IgnoredAny>()? {
                    None => Ok(capacity),
                    Some(_) => Err(de::Error::custom(format_args!(
                        "more than one key, expected {}",
                        &self as &dyn de::Expected
                    ))),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What a client does for its place when demand exceeds capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: the excess is dropped at random.
    Random,
    /// The HotNets paper's: the excess is dropped at random and told to retry at once.
    Retry,
    /// The HotNets paper's extension: the thinner tells the price, so many retries.
    Priced,
    /// The SIGCOMM paper's: bytes on a payment channel, the highest bid is admitted.
    #[default]
    Auction,
    /// Hashes: the highest bid is admitted.
    ProofOfWork,
    /// Waiting time: first come, first served.
    Queue,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Random,
        Self::Retry,
        Self::Priced,
        Self::Auction,
        Self::ProofOfWork,
        Self::Queue,
    ];

    /// Its name in a file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Retry => "retry",
            Self::Priced => "priced",
            Self::Auction => "auction",
            Self::ProofOfWork => "proof-of-work",
            Self::Queue => "queue",
        }
    }

    /// Whether the highest bid wins.
    #[must_use]
    pub fn is_auction(self) -> bool {
        matches!(self, Self::Auction | Self::ProofOfWork)
    }

    /// Whether a request that cannot be admitted at once may wait.
    #[must_use]
    pub fn holds(self) -> bool {
        self.takes_payment() || self == Self::Queue
    }

    /// Whether a contender's payments count.
    #[must_use]
    pub fn takes_payment(self) -> bool {
        self.is_auction() || self == Self::Priced
    }
}

impl Config {
    /// All defaults, for this capacity.
    #[must_use]
    pub fn of(capacity: Capacity) -> Self {
        Self {
            kind: Kind::Thinner,
            capacity,
            mode: Mode::default(),
            burst: None,
            contenders: CONTENDERS,
            patience: PATIENCE,
            retry_after: RETRY_AFTER,
            quantum: None,
            suspended: SUSPENDED,
        }
    }

    /// The burst that goes with a rate, unless the file says otherwise: 50 ms of it, that the clock's grain and the network's
    /// jitter are not taken for overload, and at least 16, that a Poisson stream of four fifths of the rate is not (it is found
    /// empty by one request in a thousand: the tail of the queue M/D/1).
    #[must_use]
    pub fn burst_of(rate: f64) -> u32 {
        const LEAST: f64 = 16.0;
        const SECONDS: f64 = 0.05;
        libm::ceil((rate * SECONDS).max(LEAST)) as u32
    }

    /// Checks every value.
    ///
    /// # Errors
    ///
    /// The first key that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_capacity()?;
        let contenders = format!("a number of requests from 1 to {CONTENDERS_MAX}");
        ensure(
            "contenders",
            (1..=CONTENDERS_MAX).contains(&self.contenders),
            &self.contenders,
            &contenders,
        )?;
        let (ms, day) = (Span::from_millis(1), Span::from_secs(86_400));
        span("patience", self.patience, ms, day)?;
        span("retry_after", self.retry_after, Span::from_nanos(1), day)?;
        span("suspended", self.suspended, Span::ZERO, day)?;
        let Some(quantum) = self.quantum else {
            return Ok(());
        };
        span("quantum", quantum, ms, day)?;
        if !self.mode.is_auction() {
            return fail(
                "mode",
                &format_args!("`{}`", self.mode.name()),
                "`auction` or `proof-of-work`, for `quantum` is a rule of the auction",
            );
        }
        if let Capacity::Rate(rate) = self.capacity {
            return fail(
                "capacity.rate",
                &rate,
                "no such key beside `quantum`: give `concurrency` or `adaptive`, for a rate does not tell who has the server",
            );
        }
        Ok(())
    }

    fn validate_capacity(&self) -> Result<(), ConfigError> {
        let requests = format!("a number of requests from 1 to {CONCURRENCY_MAX}");
        let within = |key, value: u32| {
            ensure(
                key,
                (1..=CONCURRENCY_MAX).contains(&value),
                &value,
                &requests,
            )
        };
        match self.capacity {
            Capacity::Rate(rate) => number("capacity.rate", rate, RATE_MIN, RATE_MAX)?,
            Capacity::Concurrency(limit) => within("capacity.concurrency", limit)?,
            Capacity::Adaptive { least, most } => {
                within("capacity.adaptive.least", least)?;
                within("capacity.adaptive.most", most)?;
                let expected = format!("at least `least`, {least}");
                ensure("capacity.adaptive.most", least <= most, &most, &expected)?;
            }
        }
        match (self.burst, self.capacity) {
            (Some(burst), Capacity::Rate(_)) => within("burst", burst),
            (Some(burst), _) => fail("burst", &burst, "no such key without `capacity.rate`"),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_capacity_reads_as_it_is_written() {
        for (text, expect) in [
            (r#"{"rate":100.0}"#, Capacity::Rate(100.0)),
            (r#"{"concurrency":64}"#, Capacity::Concurrency(64)),
            (
                r#"{"adaptive":{"least":4,"most":1000}}"#,
                Capacity::Adaptive {
                    least: 4,
                    most: 1_000,
                },
            ),
        ] {
            assert_eq!(serde_json::from_str::<Capacity>(text).unwrap(), expect);
            assert_eq!(serde_json::to_string(&expect).unwrap(), text);
        }
    }

    #[test]
    fn a_bad_capacity_is_told_what_is_expected() {
        const ANY: &str = "expected { rate = 100.0 }, { concurrency = 64 } or { adaptive = { least = 4, most = 1000 } }";
        for (text, found, expect) in [
            ("100", "invalid type: integer `100`, ", ANY),
            (r#""rate""#, "invalid type: string \"rate\", ", ANY),
            ("[1]", "invalid type: sequence, ", ANY),
            ("{}", "invalid length 0, ", ANY),
            (
                r#"{"rate":1.0,"concurrency":2}"#,
                "more than one key, ",
                ANY,
            ),
            (r#"{"rate":1.0,"burst":2}"#, "more than one key, ", ANY),
            (
                r#"{"rates":1.0}"#,
                "unknown field `rates`, ",
                "expected one of `rate`, `concurrency`, `adaptive`",
            ),
            (r#"{"adaptive":{"least":4}}"#, "missing field `most`", ""),
        ] {
            let error = serde_json::from_str::<Capacity>(text)
                .unwrap_err()
                .to_string();
            let wanted = std::format!("{found}{expect} at line 1 ");
            assert!(error.starts_with(&wanted), "{error}\n{wanted}");
        }
    }
}
