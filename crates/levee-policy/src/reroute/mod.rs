//! Anycast playbooks: which routing change puts the load where it can be carried.
//!
//! "Anycast Agility: Network Playbooks to Fight DDoS" (USENIX Security 2022). A service is announced as one prefix from several
//! sites. Under attack the operator, who has no scrubbing service, changes the announcements, so that other sites carry the
//! load, or so that one site is given up for the rest.
//!
//! # Words
//!
//! - *catchment* of a site: the blocks (/24 or /48) that reach it.
//! - *routing configuration*: what every site announces ([`Routing`]). *Playbook*: routing configurations with the catchments
//!   that they give ([`Playbook`]); one of them is a *play*.
//! - *known-good*: traffic whose normal rate is known. *Access fraction* `alpha`: what arrives of it, against what is expected.
//! - *observed load*: what arrives at a site's servers. *Offered load*: what is sent to it, `observed / alpha`, since known-good
//!   traffic is lost on the way like all other.
//! - *absorber*: a site that is let be overloaded so that others are not. *Breakwater*: an absorber whose catchment is kept as it
//!   is, so that what attacks it does not move on.
//!
//! # How it goes
//!
//! [`estimate`] gives offered loads with intervals; [`detect`] says how bad it is, with hysteresis; [`planner`] ranks the plays;
//! [`Responder`] is the loop: detect, estimate, select, deploy, wait, look again. A [`budget`] holds it below route-flap damping.
//!
//! # What it leaves out
//!
//! How catchments are measured, how traffic is counted and forecast, and how an announcement is made: `levee-anycast`. Who
//! attacks: nobody here knows.

mod announcement;
pub mod budget;
pub mod candidates;
pub mod detect;
pub mod estimate;
pub mod planner;
mod playbook;
mod range;
pub mod responder;
mod sites;
pub mod story;

pub use self::{
    announcement::{
        Announcement, Asn, COMMUNITIES_MAX, Community, Limits, NotACommunity, NotARouting,
        NotAnAsn, PATH_LENGTH_MAX, Path, ROUTING_NAME_MAX, Routing,
    },
    playbook::{BLOCKS_MAX, Classes, LOAD_MAX, PLAYS_MAX, Play, Playbook},
    range::Range,
    responder::{
        Config, Input, Kind, Measure, Operator, Output, Responder, ResumeError, Second,
        SiteMeasure, Step, Why,
    },
    sites::{SITES_MAX, SiteId, Sites},
};
