//! ASes and who buys from whom (CAIDA AS relationships), and a generator of graphs like the real one.

pub mod generate;
