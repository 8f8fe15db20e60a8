//! Real runs of a scenario on one machine.
