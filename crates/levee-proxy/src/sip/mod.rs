//! The SIP front.

mod addresses;
mod calls;
mod classify;
mod ending;
pub mod front;
mod names;
mod request;
mod response;
mod route;
pub mod settings;
mod snapshot;
mod sources;
mod table;
mod txn;

pub use addresses::{ConnId, Flow, PortId, Zone};
pub use snapshot::{Histogram, Snapshot};
