//! The query language, from texts to values.

mod agree;
mod errors;
mod reference;
mod trace;
