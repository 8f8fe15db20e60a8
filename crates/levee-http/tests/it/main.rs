//! Whole messages against the public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod edit;
mod requests;
mod responses;
