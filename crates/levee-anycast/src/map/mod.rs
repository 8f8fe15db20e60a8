//! Which block reaches which site.

mod block;
mod builder;
mod catchment;
mod conflict;
mod diff;
mod load;
mod read;
mod summary;
mod write;

/// The version of the map's forms on disk.
pub const VERSION: &str = "1";

pub use self::{
    block::{Block, NotABlock},
    builder::{Builder, Reply, V6_BLOCKS_MAX},
    catchment::{CatchmentMap, Rtt, SiteError},
    conflict::{CONFLICTS_MAX, Conflicts, Seen},
    diff::{Diff, Flips, PARTIAL_SHARE, Stuck, diff, partial, stuck, stuck_despite},
    load::LoadMap,
    read::{
        At, BadPattern, Form, Importer, LATE, LoadUnit, ProbeQuery, ProbeReply, Problem, ReadError,
        ReadOptions, ReadReport, SitePattern, read, read_load, read_queries,
    },
    summary::{DiffSummary, Flip, StuckSummary, Summary, Times, report_text, summary_text},
    write::{About, write_csv, write_parquet},
};
