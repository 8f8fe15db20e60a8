//! The fronts, driven from outside.

mod calls;
mod eviction;
mod live;
mod torture;
mod transactions;
mod wild;
mod world;
