//! The query language, from texts to values.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agree;
mod errors;
mod reference;
mod replay;
mod targets;
mod trace;
mod values;
