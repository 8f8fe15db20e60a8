//! Which block reaches which site.

mod block;
mod catchment;

pub use self::{
    block::Block,
    catchment::{CatchmentMap, Rtt},
};
