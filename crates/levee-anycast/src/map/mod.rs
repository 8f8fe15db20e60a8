//! Which block reaches which site.

mod block;
mod builder;
mod catchment;
mod conflict;
mod load;

pub use self::{
    block::{Block, NotABlock},
    builder::{Builder, Reply, V6_BLOCKS_MAX},
    catchment::{CatchmentMap, Rtt, SiteError},
    conflict::{CONFLICTS_MAX, Conflicts, Seen},
    load::LoadMap,
};
