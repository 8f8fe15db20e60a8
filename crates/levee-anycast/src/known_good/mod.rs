//! Traffic that is known to be good: Atlas probes and heavy hitters, and how much of it is to be expected when.
//!
//! Section 4.1 of the paper: the offered load is what was observed, over the share of the known-good traffic that still arrives.
//! What is known to be good is either measured on purpose (RIPE Atlas, [`atlas`]), or found in the traffic of quiet weeks: the
//! sources that always send a lot ([`select`]), whose day and week are modelled ([`season`]). What comes out is
//! [`KnownGood`](levee_policy::reroute::estimate::KnownGood) for each site and source; the statistics on it are in
//! [`levee_policy::reroute::estimate`].
//!
//! # How it goes
//!
//! A [`History`] is read from a file in two passes of bounded memory. [`select`] takes the heavy hitters and says of each
//! candidate why. [`HeavyHitters`] forecasts them by site, and compares an interval of the attack ([`Now`]) with the forecast:
//! who moved to another site counts there, who sends far more than the others under the same loss does not count.
//!
//! # What it leaves out
//!
//! Whether a source is honest is not known; only that it was there for weeks, and that nothing in its address, its level or its
//! share makes it cheap to fake. An attacker who fakes more than half of the heavy hitters at the rate of the loss is not seen.

pub mod atlas;
mod combine;
mod heavy;
mod history;
mod judge;
mod now;
mod profile;
mod rows;
pub mod season;
pub mod select;
mod sketch;
mod time;

pub use self::{
    combine::{Estimate, Evidence, Origin, SiteEstimate, estimate},
    heavy::{HeavyHitters, HeavyOptions, Quality},
    history::{
        CANDIDATES_MAX, History, HistoryError, HistoryOptions, LineError, Notes, Reopen,
        SITES_OF_SOURCE_MAX, SLOTS_MAX, SourceHistory,
    },
    judge::{Judged, JudgedSite},
    now::Now,
    sketch::Frequent,
    time::{TimeError, parse_time},
};
