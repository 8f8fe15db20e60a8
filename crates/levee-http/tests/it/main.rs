//! Whole messages against the public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bodies;
mod edit;
mod hops;
mod properties;
mod replay;
mod requests;
mod responses;
mod targets;
