//! Real runs of the papers' experiments with HTTP: clients that have a bandwidth, a server of fixed capacity, the live front
//! between them.
//!
//! Everything is a real socket on loopback. A lane has three threads of its own: clients, front, origin. Who is honest is
//! known to the clients' records only: a request is named by a number that tells nothing, and each client has an address of
//! its own, in no order.

mod bucket;
mod client;
mod clients;
pub mod demo;
mod exchange;
pub mod front;
pub mod html;
pub mod lane;
pub mod origin;
mod proof;
pub mod real;
pub mod record;
pub mod report;
pub mod slow;
pub mod slow_report;
#[cfg(test)]
mod tests;
mod wire;
mod worker;

pub use client::Counts;
pub use clients::ClientsResult;
