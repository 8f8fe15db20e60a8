//! Playbooks: made of catchment maps, read and written in our form and in others', judged, and shown.

mod document;
mod error;
pub mod fsdb;
pub mod judge;
mod page;
pub mod partial;
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
