//! The machines that can be recorded.

use std::fmt::Debug;

use levee_policy::selective::{self, Selective};
use levee_policy::thinner::{self, Thinner};
use levee_policy::{ConfigError, StateMachine};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::VERSION;

/// A word of a machine: what goes in or comes out, as a line of a recording has it.
pub trait Word: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + 'static {}

impl<T: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Send + 'static> Word for T {}

/// A machine that can be recorded, since a fresh one can be made from a recording's first line.
pub trait Recorded: StateMachine<Input: Word, Output: Word> + Sized + 'static {
    /// Which defence it is: `machine` in the first line.
    const NAME: &'static str;
    /// The first line.
    type Header: Word;

    /// A fresh machine.
    ///
    /// # Errors
    ///
    /// It does not take its configuration.
    fn fresh(header: &Self::Header) -> Result<Self, ConfigError>;

    /// The first line of a recording of a fresh machine of this one's configuration.
    fn header(&self, seed: u64) -> Self::Header;

    /// The seed of its random numbers.
    fn seed(header: &Self::Header) -> u64;

    /// Whether it holds nothing, so that a fresh machine can take over and a new recording begin.
    fn is_idle(&self) -> bool;
}

/// The first line of a recording of the selective defence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`] of the writer.
    pub levee_events: u32,
    /// Which defence: `selective`.
    pub machine: String,
    /// Seed of [`policy_rng`](super::policy_rng).
    pub seed: u64,
    /// `k`.
    pub capacity: u32,
    /// The `[defense]` table.
    pub config: selective::Config,
}

impl Header {
    /// That of a recording that starts now.
    pub fn new(seed: u64, capacity: u32, config: selective::Config) -> Self {
        Header {
            levee_events: VERSION,
            machine: Selective::NAME.to_owned(),
            seed,
            capacity,
            config,
        }
    }
}

impl Recorded for Selective {
    const NAME: &'static str = "selective";
    type Header = Header;

    fn fresh(header: &Header) -> Result<Self, ConfigError> {
        Selective::new(header.capacity, header.config.clone())
    }

    fn header(&self, seed: u64) -> Header {
        Header::new(seed, self.capacity(), self.config().clone())
    }

    fn seed(header: &Header) -> u64 {
        header.seed
    }

    fn is_idle(&self) -> bool {
        self.calls_held() == 0 && self.calls_evicting() == 0 && self.in_service() == 0
    }
}

/// The first line of a recording of a thinner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThinnerHeader {
    /// [`VERSION`] of the writer.
    pub levee_events: u32,
    /// Which defence: `thinner`.
    pub machine: String,
    /// Seed of [`policy_rng`](super::policy_rng).
    pub seed: u64,
    /// The `[defense]` table.
    pub config: thinner::Config,
}

impl ThinnerHeader {
    /// That of a recording that starts now.
    pub fn new(seed: u64, config: thinner::Config) -> Self {
        ThinnerHeader {
            levee_events: VERSION,
            machine: Thinner::NAME.to_owned(),
            seed,
            config,
        }
    }
}

impl Recorded for Thinner {
    const NAME: &'static str = "thinner";
    type Header = ThinnerHeader;

    fn fresh(header: &ThinnerHeader) -> Result<Self, ConfigError> {
        Thinner::new(header.config.clone())
    }

    fn header(&self, seed: u64) -> ThinnerHeader {
        ThinnerHeader::new(seed, self.config().clone())
    }

    fn seed(header: &ThinnerHeader) -> u64 {
        header.seed
    }

    fn is_idle(&self) -> bool {
        self.contenders() == 0 && self.in_service() == 0
    }
}
