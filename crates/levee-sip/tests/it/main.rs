//! Whole messages against the public interface.

mod torture;
