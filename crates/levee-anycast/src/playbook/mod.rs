//! Playbooks: made of catchment maps, read and written in our form and in others', judged, and shown.

mod document;
mod error;
pub mod fsdb;
pub mod judge;
mod page;
mod read;
pub mod routing;
pub mod stats;
pub mod summary;
pub mod table;
pub mod tables;
mod text;

pub use self::{
    document::Document,
    error::{Malformed, ReadError, WriteError},
    page::page,
    read::{Options, Read, TEXT_MAX, read},
    summary::{Summarised, Summary, summarise},
    tables::{Tables, Unit},
    text::text,
};

use levee_policy::reroute::Play;

/// Marks the plays of which so many replies are missing against the others that they are not to be relied on.
fn mark_partial(plays: &mut [Play]) {
    let known: Vec<u64> = plays.iter().map(Play::known).collect();
    for (play, partial) in plays.iter_mut().zip(crate::map::partial(&known)) {
        play.partial |= partial;
    }
}
