//! The live fronts of Levee.
