//! The offered load, from known-good traffic that is lost with the rest.
//!
//! Sections 3 and 4.1 of the paper: `alpha = observed / expected` of the known-good, `offered = observed / alpha`.

use serde::{Deserialize, Serialize};

/// Known-good traffic at a site in one interval, from one source (Atlas probes, heavy hitters).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownGood {
    /// What arrived, in events (queries, packets) of the interval.
    pub observed: f64,
    /// What would arrive without loss.
    pub expected: f64,
    /// The standard deviation of that forecast, in events.
    pub expected_sd: f64,
}
