//! The query language: QuaTEx as PVeStA, MultiVeStA and umaudemc read it, and the short forms of scenarios.
//!
//! [`Questions`] collects the queries of a check, compiles them to one small program and answers them all from one pass over a
//! run ([`Measure`]). `docs/queries.md` describes the language.
//!
//! ```
//! use levee_smc::query::{Offer, Questions, Step};
//! use levee_smc::{Measure, Observable};
//!
//! let observables = [("time", "s"), ("busy", "lines")].map(|(name, unit)| Observable {
//!     name: name.into(),
//!     unit: unit.into(),
//!     meaning: "".into(),
//! });
//! let mut questions = Questions::new(Offer { observables: &observables, samples: &[] });
//! let file = "at(x) = if s.rval(\"time\") >= x then s.rval(\"busy\") else # at(x) fi ;
//!             eval parametric(E[ at(x) ], x, 0, 10, 40) ;";
//! questions.quatex("busy.quatex", file, Step::Event, Default::default()).unwrap();
//! questions.formula("full", "P[ F<=40 busy == 24 ] >= 0.9", Default::default()).unwrap();
//! assert_eq!(questions.asked().len(), 6);
//! assert_eq!(questions.asked()[1].target.name, "E[ at(x) ] x=10");
//! let error = questions.formula("idle", "24 - bussy", Default::default()).unwrap_err();
//! assert!(error.remedy.starts_with("did you mean `busy`?"));
//! assert_eq!(questions.columns(), 6);
//! ```
//!
//! Left out: umaudemc's terms of Maude and format strings, and `#` before anything but an operator or an observation.

mod analysis;
mod compile;
mod error;
mod file;
mod lexer;
mod machine;
mod parser;
mod questions;
mod short;
pub mod syntax;

pub use analysis::{Offer, TRUTH_UNIT};
pub use error::{Place, QueryError, Sources, Span};
pub use file::{
    DEFINITIONS_MAX, ENDED, IMPORTS_MAX, Import, Outside, POINTS_MAX, QUESTIONS_MAX, STEPS,
    TEXT_MAX, TIME, formula, program,
};
pub use machine::{CALLS_MAX, FRAMES_MAX, JOINS_MAX, LAST_STEPS_MAX, Scratch};
pub use questions::{Asked, Questions, Step};
pub use syntax::DEPTH_MAX;

#[cfg(doc)]
use crate::measure::Measure;
