//! The model against theory, and what holds of every run.
