//! One lane: clients and an origin on loopback, with or without the front between them.

use std::io;
use std::time::{Duration, Instant};

use levee_sim::model::thinner::{Demand, Setup};
use levee_sim::schedule::Kind;

use super::clients::{self, ClientsResult, Want};
use super::origin::{Kinds, Origin, OriginResult};
use super::record::Board;
use super::worker::Worker;

/// Between two looks.
const POLL: Duration = Duration::from_millis(10);

/// What a lane came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneResult {
    /// The clients' side.
    pub clients: ClientsResult,
    /// The server's side.
    pub origin: OriginResult,
}

/// A lane at work.
#[derive(Debug)]
pub struct RunningLane {
    clients: Worker<ClientsResult>,
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
        let board = Board::default();
        let clients = clients::start(setup, wants, origin.addr(), board.clone(), epoch)?;
        Ok(Self {
            clients,
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
        let origin = self.origin.stop()?;
        Ok(LaneResult { clients, origin })
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
