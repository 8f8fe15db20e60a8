//! Slow attacks for real: a server of so many connections, attackers that hold them, and honest clients beside them.

mod clients;
mod server;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use levee_policy::Span;
use levee_policy::selective::Stats;
use levee_proxy::http::settings::ConnectionSettings;
use levee_proxy::http::snapshot::Snapshot;
use levee_sim::model::http::{AttackKind, Deadline, Setup};
use levee_sim::scenario;
use levee_sim::schedule::{Arrival, Kind};

pub use self::clients::{ClientsResult, Tally};
use self::server::Server;
pub use self::server::ServerResult;
use super::clients::{name, source, span};
use super::front::{self, Front};
use super::worker::Worker;
use crate::runner::Lane;

/// What a lane came to.
#[derive(Clone, Debug, Default)]
pub struct LaneResult {
    /// The clients' side.
    pub clients: ClientsResult,
    /// The server's side.
    pub server: ServerResult,
    /// The front's counters; none without one.
    pub front: Option<Snapshot>,
}

impl LaneResult {
    /// Places that attackers held on average. Without a front the server saw it: their connections that wait in its kernel hold
    /// none. A front takes all connections at once, and holds those that are open.
    #[must_use]
    pub fn attackers_held(&self) -> f64 {
        match self.front {
            Some(_) => self.clients.attackers_mean,
            None => self.server.attackers_mean,
        }
    }

    /// What the front's table of connections counted; none without one.
    #[must_use]
    pub fn seven(&self) -> Option<&Stats> {
        let table = self.front.as_ref()?.gate.connections.as_ref();
        table.map(|table| &table.stats)
    }
}

/// What the lab knows of each client, and nobody else can read from what it sends.
#[derive(Debug)]
struct Asked {
    seed: u64,
    /// Who: clients in the order in which they come.
    kinds: Vec<Kind>,
    /// Work and bytes of the response, by name.
    by_name: HashMap<u64, (Duration, u32)>,
    by_source: HashMap<IpAddr, Kind>,
}

impl Asked {
    fn new(setup: &Setup, arrivals: &[Arrival]) -> Self {
        let seed = setup.plan.seed;
        let mut asked = Self {
            seed,
            kinds: arrivals.iter().map(|a| a.kind).collect(),
            by_name: HashMap::new(),
            by_source: HashMap::new(),
        };
        for (number, arrival) in arrivals.iter().enumerate() {
            let what = match arrival.kind {
                Kind::Honest => (arrival.wanted.unwrap_or_default(), setup.clients.response),
                Kind::Attacker => (span(setup.attack.service), setup.attack.response),
            };
            asked.by_name.insert(asked.name(number), what);
            let from = IpAddr::V4(asked.source(number));
            asked.by_source.insert(from, arrival.kind);
        }
        asked
    }

    /// What the path of a client's request says.
    fn name(&self, number: usize) -> u64 {
        name(self.seed, number)
    }

    /// The address of a client: each has its own.
    fn source(&self, number: usize) -> Ipv4Addr {
        source(self.seed, number as u32, self.kinds.len() as u32)
    }

    fn of(&self, name: u64) -> Option<(Duration, u32)> {
        self.by_name.get(&name).copied()
    }

    fn kind_of(&self, source: IpAddr) -> Option<Kind> {
        self.by_source.get(&source).copied()
    }
}

/// A lane at work.
#[derive(Debug)]
pub struct RunningLane {
    clients: Worker<ClientsResult>,
    front: Option<Front>,
    server: Server,
}

impl RunningLane {
    /// Starts all parts on free ports of loopback. Times of `setup` are those of the wall clock.
    ///
    /// # Errors
    /// When a socket or a thread cannot be had, or the front does not start.
    pub fn start(setup: &Setup) -> io::Result<Self> {
        let arrivals: Vec<Arrival> = setup.plan.schedule().collect();
        let asked = Arc::new(Asked::new(setup, &arrivals));
        let epoch = Instant::now();
        let server = Server::start(setup, &asked, epoch)?;
        let front = setup.defense.as_ref().map(|defense| {
            let mut settings = front::settings(server.addr(), setup.plan.seed);
            settings.connections = Some(ConnectionSettings {
                capacity: setup.capacity,
                defense: defense.clone(),
                record: None,
            });
            Front::start(settings)
        });
        let front = front.transpose()?;
        let target = front.as_ref().map_or(server.addr(), Front::addr);
        let clients = clients::start(setup, arrivals, &asked, target, epoch)?;
        Ok(Self {
            clients,
            front,
            server,
        })
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
        let server = self.server.stop()?;
        Ok(LaneResult {
            clients,
            server,
            front,
        })
    }
}

impl Lane for RunningLane {
    type Result = LaneResult;

    fn start(setup: &scenario::Setup, repetition: u32) -> io::Result<Self> {
        let Some(mut own) = on_the_wall_clock(setup) else {
            return Err(io::Error::other("a scenario without connections"));
        };
        own.plan.seed = own.plan.seed.wrapping_add(repetition.into());
        Self::start(&own)
    }

    fn is_finished(&self) -> bool {
        Self::is_finished(self)
    }

    fn finish(self) -> io::Result<LaneResult> {
        Self::finish(self)
    }
}

/// The set-up of a point with [`scenario::Run::scale`] in all its times and rates.
pub(crate) fn on_the_wall_clock(setup: &scenario::Setup) -> Option<Setup> {
    let scale = setup.run.scale;
    let mut own = setup.on_the_wall_clock().http_model()?;
    let longer = |time: &mut Span| {
        *time = Span::from_secs_f64(time.as_secs_f64() * scale).unwrap_or(*time);
    };
    let grown = |deadline: &mut Deadline| {
        longer(&mut deadline.initial);
        deadline.min_rate = deadline.min_rate.map(|rate| rate / scale);
        deadline.most.iter_mut().for_each(longer);
    };
    let times = &mut own.timeouts;
    for deadline in [&mut times.header, &mut times.body, &mut times.send] {
        deadline.iter_mut().for_each(grown);
    }
    times.between_reads.iter_mut().for_each(longer);
    times.between_writes.iter_mut().for_each(longer);
    let clients = &mut own.clients;
    clients.patience.iter_mut().for_each(longer);
    longer(&mut clients.retry_wait);
    let slow = clients.slow.as_mut().map(|slow| &mut slow.bandwidth);
    for bandwidth in [&mut clients.bandwidth].into_iter().chain(slow) {
        bandwidth.up /= scale;
        bandwidth.down /= scale;
    }
    longer(&mut own.attack.service);
    if let AttackKind::Slowloris(drip) | AttackKind::SlowPost(drip) | AttackKind::SlowRead(drip) =
        &mut own.attack.kind
    {
        longer(&mut drip.every);
    }
    Some(own)
}
