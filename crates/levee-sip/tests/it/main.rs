//! Whole messages against the public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod linear;
mod properties;
mod replay;
mod targets;
mod torture;
