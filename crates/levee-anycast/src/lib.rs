//! Anycast for Levee: everything around [`levee_policy::reroute`] that reads files and knows the Internet.
//!
//! - [`map`]: which block reaches which site; read from measurements and traffic, kept as Parquet or CSV, compared.
//! - [`playbook`]: a playbook out of maps and of others' files; its tables and its page.
//! - [`graph`], [`simulate`]: the Internet in a box, ASes and who takes which route. Pure.
//! - [`blocks`]: how many blocks an AS has.
//! - [`predict`]: a playbook out of a simulation and blocks, before anything is announced.
//! - [`known_good`]: traffic that is known to be good, and how much of it is to be expected when.
//! - [`measures`]: measured loads for the responder.
//! - [`figures`]: numbers as people read them.
//! - [`journal`]: what the responder has done, on disk.

pub mod blocks;
pub mod figures;
pub mod graph;
pub mod journal;
pub mod known_good;
pub mod map;
pub mod measures;
pub mod playbook;
pub mod predict;
pub mod simulate;
