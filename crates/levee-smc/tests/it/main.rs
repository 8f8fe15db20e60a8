//! The checker as it is used: on worlds whose answers are known.

mod coverage;
mod impossible;
mod threads;
mod world;
