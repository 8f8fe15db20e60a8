//! The defences of Levee as pure state machines.
#![no_std]
extern crate alloc;
