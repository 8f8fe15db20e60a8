//! One lane: clients and an origin on loopback, with or without the front between them.

use std::io;
use std::time::{Duration, Instant};

use levee_policy::thinner::Stats;
use levee_sim::model::thinner::{Demand, Setup};
use levee_sim::scenario;
use levee_sim::schedule::Kind;

use levee_proxy::http::snapshot::Snapshot;

use super::clients::{self, ClientsResult, Want, span};
use super::front::{self, Front};
use super::origin::{Kinds, Origin, OriginResult, Served};
use super::record::Board;
use super::worker::Worker;
use crate::runner::Lane;

/// Between two looks.
const POLL: Duration = Duration::from_millis(10);

/// What a lane came to.
#[derive(Clone, Debug, Default)]
pub struct LaneResult {
    /// The clients' side.
    pub clients: ClientsResult,
    /// The server's side.
    pub origin: OriginResult,
    /// The front's counters; none without one.
    pub front: Option<Snapshot>,
}

impl LaneResult {
    /// What the thinner counted; none without one.
    #[must_use]
    pub fn thinner(&self) -> Option<&Stats> {
        let front = self.front.as_ref()?;
        front.gate.requests.as_ref().map(|requests| &requests.stats)
    }

    /// What the server worked on after the warm-up and within the run.
    fn counted(&self, setup: &Setup) -> impl Iterator<Item = &Served> {
        let (from, to) = (span(setup.warmup), span(setup.end()));
        let all = self.origin.served.iter();
        all.filter(move |s| s.begun >= from && s.begun < to)
    }

    /// Seconds of the server's work that good and bad clients got, after the warm-up.
    #[must_use]
    pub fn work_by_kind(&self, setup: &Setup) -> [f64; 2] {
        let mut work = [0.0; 2];
        for (served, kind) in self.counted(setup).filter_map(|s| Some((s, s.kind?))) {
            work[kind.index()] += served.work.as_secs_f64();
        }
        work
    }

    /// Requests of good and bad clients that the server finished, after the warm-up.
    #[must_use]
    pub fn served_by_kind(&self, setup: &Setup) -> [u64; 2] {
        let mut served = [0; 2];
        let whole = self.counted(setup).filter(|s| !s.aborted);
        for kind in whole.filter_map(|s| s.kind) {
            served[kind.index()] += 1;
        }
        served
    }
}

/// A lane at work.
#[derive(Debug)]
pub struct RunningLane {
    clients: Worker<ClientsResult>,
    front: Option<Front>,
    origin: Origin,
    board: Board,
}

impl RunningLane {
    /// Starts all parts on free ports of loopback.
    ///
    /// # Errors
    /// When a socket or a thread cannot be had, or the front does not start.
    pub fn start(setup: &Setup) -> io::Result<Self> {
        let wants = wants(setup);
        let names = (0..wants.len()).map(|n| clients::name(setup.seed, n));
        let kinds: Kinds = names.zip(wants.iter().map(|want| want.kind)).collect();
        let epoch = Instant::now();
        let origin = Origin::start(setup, kinds, epoch)?;
        let front = setup.defense.as_ref().map(|defense| {
            let mut settings = front::settings(origin.addr(), setup.seed);
            settings.defense = Some(defense.clone());
            Front::start(settings)
        });
        let front = front.transpose()?;
        let target = front.as_ref().map_or(origin.addr(), Front::addr);
        let board = Board::default();
        let clients = clients::start(setup, wants, target, board.clone(), epoch)?;
        Ok(Self {
            clients,
            front,
            origin,
            board,
        })
    }

    /// The clients' counts, live.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Whether the run is over.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.clients.is_finished()
    }

    /// Ends the lane; before [`RunningLane::is_finished`] it is cut off where it stands.
    ///
    /// # Errors
    /// When a part had to give up because of its sockets.
    pub fn finish(self) -> io::Result<LaneResult> {
        let clients = self.clients.stop()?;
        let front = self.front.map(Front::stop).transpose()?;
        let origin = self.origin.stop()?;
        Ok(LaneResult {
            clients,
            origin,
            front,
        })
    }

    /// Waits for the end of the run, and ends the lane.
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

impl Lane for RunningLane {
    type Result = LaneResult;

    fn start(setup: &scenario::Setup, repetition: u32) -> io::Result<Self> {
        let setup = setup.on_the_wall_clock();
        let Some(mut own) = setup.thinner_model() else {
            return Err(io::Error::other("a scenario without a server of a rate"));
        };
        own.seed = own.seed.wrapping_add(repetition.into());
        Self::start(&own)
    }

    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }

    fn finish(self) -> io::Result<LaneResult> {
        Self::finish(self)
    }
}

/// The demand of all clients in order of time: the same as the model's under this seed.
fn wants(setup: &Setup) -> Vec<Want> {
    let demand = Demand::new(setup, 0);
    let mut wants = Vec::new();
    for (kind, group) in [(Kind::Honest, setup.honest), (Kind::Attacker, setup.attack)] {
        for client in 0..group.clients {
            let all = demand.client(kind, client);
            wants.extend(all.map(|at| Want {
                at: Duration::from_nanos(at.as_nanos()),
                kind,
                client,
            }));
        }
    }
    wants.sort_by_key(|want| (want.at, want.kind, want.client));
    wants
}
