//! Traffic that is known to be good: Atlas probes and heavy hitters, and how much of it is to be expected when.
