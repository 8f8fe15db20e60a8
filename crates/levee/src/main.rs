//! Levee.
fn main() {}
