//! The SIP front.

pub mod settings;
