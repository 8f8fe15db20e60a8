//! TOML texts that know where each key stands, and what is wrong with them.
//!
//! The live configuration and the scenario are read through this one module, so that both say what is wrong in the same
//! words: file, line, column, key, what was found, what was expected, what to do.
//!
//! Pure: text in, values or [`Problems`] out.

pub mod document;
pub mod problem;
pub mod sweep;
pub mod text;

pub use document::Document;
pub use problem::{Place, Problem, Problems};
pub use sweep::{AtValue, Variant};
pub use text::Text;
