//! What the responder has done, on disk: append-only, and whole again after a crash.
