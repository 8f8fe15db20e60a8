//! The live fronts of Levee.

pub mod sip;
