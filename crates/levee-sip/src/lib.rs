//! SIP without sockets.
#![no_std]
extern crate alloc;
