//! How bad it is, from load and access fraction, with hysteresis.
