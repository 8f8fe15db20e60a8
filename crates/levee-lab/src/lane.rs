//! One lane: callers, a server of `k` calls and a callee on loopback, with or without the front between them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use levee_policy::selective::Config;
use levee_proxy::sip::Snapshot;

use crate::callee::{Callee, CalleeConfig, CalleeResult};
use crate::defended::Front;
use crate::driver::{Running, bind};
use crate::load::{Load, LoadConfig, LoadResult};
use crate::outcome::{Board, Sample};
use crate::pbx::{HeldSeries, Pbx, PbxConfig, PbxResult};
use crate::ua::TransactionTimers;
use levee_sim::schedule::Plan;

/// What a lane runs. Times are of the wall clock.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// `k`.
    pub capacity: u32,
    /// The defence; `None` leaves the server alone with its callers.
    pub defense: Option<Config>,
    /// Who calls when.
    pub plan: Plan,
    /// How long the callee lets it ring.
    pub ring: Duration,
    /// How long a caller lets it ring.
    pub ring_timeout: Duration,
    /// An attacker that is refused or dropped calls again after this time.
    pub redial: Option<Duration>,
    /// SIP's timers, of all roles.
    pub timers: TransactionTimers,
}

impl LaneConfig {
    /// A lane without defence, whose callee rings for 100 ms.
    #[must_use]
    pub fn new(capacity: u32, plan: Plan) -> Self {
        Self {
            capacity,
            defense: None,
            plan,
            ring: Duration::from_millis(100),
            ring_timeout: Duration::from_secs(30),
            redial: None,
            timers: TransactionTimers::default(),
        }
    }
}

/// What a lane saw.
#[derive(Clone, Debug, Default)]
pub struct LaneResult {
    /// The callers' side.
    pub load: LoadResult,
    /// The server's side.
    pub pbx: PbxResult,
    /// The callee's side.
    pub callee: CalleeResult,
    /// Calls by kind over time, as the callers saw them.
    pub samples: Vec<Sample>,
    /// Calls held by the server over time.
    pub held: Vec<(f64, u32)>,
    /// The front's counters.
    pub front: Option<Snapshot>,
}

/// How long the end of the last calls may take to reach the callee.
const SETTLE: Duration = Duration::from_secs(2);
/// Between two looks.
const POLL: Duration = Duration::from_millis(10);

/// A lane at work.
#[derive(Debug)]
pub struct RunningLane {
    load: Running<Load>,
    pbx: Running<Pbx>,
    callee: Running<Callee>,
    /// Calls that the callee holds.
    far_held: Arc<AtomicUsize>,
    front: Option<Front>,
    board: Board,
    series: HeldSeries,
}

impl RunningLane {
    /// Starts all roles on free ports of loopback.
    ///
    /// # Errors
    /// When a socket or a thread cannot be had, or the front does not start.
    pub fn start(config: &LaneConfig) -> io::Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (callers, server, callee) = (bind(any)?, bind(any)?, bind(any)?);
        let (server_addr, callee_addr) = (server.local_addr()?, callee.local_addr()?);
        let front = config.defense.as_ref().map(|defense| {
            let (k, seed) = (config.capacity, config.plan.seed);
            Front::start(server_addr, k, defense, config.timers, seed)
        });
        let front = front.transpose()?;

        let epoch = Instant::now();
        let series = HeldSeries::default();
        let mut load = LoadConfig::new(
            front.as_ref().map_or(server_addr, Front::outside),
            server_addr,
            config.plan.until,
        );
        load.ring_timeout = config.ring_timeout;
        load.redial = config.redial;
        load.timers = config.timers;
        // Those that ring at the end may still be answered.
        load.grace = config.ring + Duration::from_secs(1);
        let pbx = PbxConfig {
            outbound_proxy: front.as_ref().map(Front::inside),
            sample_every: load.sample_every,
            timers: config.timers,
            ..PbxConfig::new(config.capacity as usize, callee_addr)
        };
        let callee_config = CalleeConfig {
            ring: config.ring,
            timers: config.timers,
            ..CalleeConfig::default()
        };
        let callee_role = Callee::new(callee_addr, callee_config);
        let far_held = callee_role.held();
        let callee = Running::start("callee", callee, epoch, callee_role)?;
        let pbx = Pbx::new(server_addr, pbx, series.clone());
        let pbx = Running::start("server", server, epoch, pbx)?;
        let board = Board::default();
        let schedule = config.plan.schedule();
        let load = Load::new(callers.local_addr()?, load, schedule, board.clone());
        let load = Running::start("callers", callers, epoch, load)?;
        Ok(Self {
            load,
            pbx,
            callee,
            far_held,
            front,
            board,
            series,
        })
    }

    /// The callers' counts, live.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Whether the callers are done.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.load.is_finished()
    }

    /// Ends the lane; before [`RunningLane::is_finished`] it is cut off where it stands.
    ///
    /// # Errors
    /// When a role had to give up because of its socket.
    pub fn finish(self) -> io::Result<LaneResult> {
        if self.load.is_finished() {
            // The last BYEs have still to pass from the server to the callee.
            let begun = Instant::now();
            while self.far_held.load(Ordering::Acquire) > 0 && begun.elapsed() < SETTLE {
                std::thread::sleep(POLL);
            }
        }
        let load = self.load.stop()?;
        let front = self.front.map(Front::stop).transpose()?;
        let pbx = self.pbx.stop()?.result();
        let callee = self.callee.stop()?.result();
        Ok(LaneResult {
            load: load.into_result(),
            pbx,
            callee,
            samples: self.board.samples(),
            held: self.series.samples(),
            front,
        })
    }

    /// Waits for the callers, and ends the lane.
    ///
    /// # Errors
    /// As [`RunningLane::finish`].
    pub fn wait(self) -> io::Result<LaneResult> {
        while !self.is_finished() {
            std::thread::sleep(POLL);
        }
        self.finish()
    }
}
