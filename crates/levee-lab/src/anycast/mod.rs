//! `levee demo anycast`: an attack on a service at several sites, on a made-up Internet, in virtual time.
//!
//! [`demo`] makes the Internet, predicts the playbook on it and runs the loop; [`report`] has the figures, [`page()`] draws them. No
//! packet is sent: the real BGP lab is another matter.

pub mod demo;
mod page;
pub mod report;
#[cfg(test)]
mod tests;

pub use self::page::page;
