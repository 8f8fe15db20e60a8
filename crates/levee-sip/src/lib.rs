//! SIP without sockets: bytes, transactions and dialogs as state machines.
//!
//! [`wire`] finds the lines of a message without copying it, [`header`] and [`uri`] read a value when somebody asks for
//! it, [`check`] says which answer a bad message earns, [`edit`] writes what a proxy sends on, [`stream`] cuts a byte
//! stream into messages. [`transaction`] and [`dialog`] keep the state that RFC 3261 wants kept.
//!
//! Nothing here owns a clock, a socket or a thread: time comes in as a [`Duration`](core::time::Duration) since an
//! instant that the caller chose.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod chars;
pub mod check;
pub mod dialog;
pub mod edit;
pub mod header;
pub mod keys;
pub mod stream;
pub mod transaction;
pub mod uri;
pub mod wakeups;
pub mod wire;
