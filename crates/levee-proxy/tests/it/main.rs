//! The fronts, driven from outside.

mod calls;
mod eviction;
mod hostile;
mod live;
mod torture;
mod transactions;
mod wild;
mod world;
