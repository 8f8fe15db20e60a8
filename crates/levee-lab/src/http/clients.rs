//! All clients of a lane, good and bad, in one thread: who asks when comes from the demand, and each keeps to its window, its
//! patience and its bandwidth.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use levee_sim::model::thinner::{Group, Setup};
use levee_sim::schedule::Kind;

use super::client::{Client, Counts, Link};
use super::exchange::{Costs, Exchange};
use super::record::{Board, Health, Outcome, RequestRecord, Sample, Tally, cpu_time};
use super::worker::{Stopped, Worker};

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Want {
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
    /// Which of its kind.
    pub(crate) client: u32,
}

/// What the clients came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientsResult {
    /// All requests, in the order in which they were wanted.
    pub requests: Vec<RequestRecord>,
    /// What good and bad clients did after the warm-up, all together.
    pub counts: [Counts; 2],
    /// Counts over time.
    pub samples: Vec<Sample>,
    /// How well the clients kept to their demand.
    pub health: Health,
}

/// Starts the clients; they end by themselves when the run is over.
pub(crate) fn start(
    setup: &Setup,
    wants: Vec<Want>,
    target: SocketAddr,
    board: Board,
    epoch: Instant,
) -> io::Result<Worker<ClientsResult>> {
    let setup = setup.clone();
    Worker::start("clients", move |stopped| async move {
        let world = World::new(&setup, &wants, target, board, epoch);
        world.run(&wants, stopped).await;
        Ok(world.result())
    })
}

struct World {
    clients: Vec<Rc<Client>>,
    requests: RefCell<Vec<RequestRecord>>,
    tallies: Cell<[Tally; 2]>,
    late_max: Cell<Duration>,
    host: String,
    board: Board,
    epoch: Instant,
    until: Duration,
    begun: (Duration, Instant),
}

/// A name of a request that says nothing about whose it is.
pub(crate) fn name(seed: u64, number: usize) -> u64 {
    // The finaliser of SplitMix64, which is a bijection: no two have one name.
    let mut z = seed.wrapping_add((number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// An address of loopback for each client, in an order that says nothing about its kind.
pub(crate) fn source(seed: u64, client: u32, clients: u32) -> Ipv4Addr {
    // An odd factor permutes the numbers below a power of two; those beyond the clients are walked over.
    let space = clients.next_power_of_two().max(2);
    let factor = (name(seed, 0) as u32) | 1;
    let mut number = client;
    loop {
        number = number.wrapping_mul(factor).wrapping_add(1) % space;
        if number < clients {
            break;
        }
    }
    let [_, high, middle, low] = (number + 1).to_be_bytes();
    // 127.1.0.1 and on; 127.0.0.1 is the servers'.
    Ipv4Addr::new(127, high.wrapping_add(1), middle, low)
}

impl World {
    fn new(
        setup: &Setup,
        wants: &[Want],
        target: SocketAddr,
        board: Board,
        epoch: Instant,
    ) -> Rc<Self> {
        let all = setup.honest.clients + setup.attack.clients;
        let client = |kind, group: Group, number| {
            let from = source(setup.seed, number, all);
            Rc::new(Client::new(
                kind,
                group,
                target,
                from,
                (epoch, span(setup.warmup)),
            ))
        };
        let honest = (0..setup.honest.clients).map(|n| client(Kind::Honest, setup.honest, n));
        let bad = setup.honest.clients..all;
        let bad = bad.map(|n| client(Kind::Attacker, setup.attack, n));
        let request = |(n, want): (usize, &Want)| RequestRecord {
            id: name(setup.seed, n),
            kind: want.kind,
            client: number(want, setup),
            due: want.at,
            begun: None,
            ended: None,
            outcome: Outcome::Open,
            status: 0,
            retries: 0,
            paid: 0,
            channel: 0,
        };
        Rc::new(Self {
            clients: honest.chain(bad).collect(),
            requests: RefCell::new(wants.iter().enumerate().map(request).collect()),
            tallies: Cell::default(),
            late_max: Cell::default(),
            host: target.to_string(),
            board,
            epoch,
            until: span(setup.warmup) + span(setup.time),
            begun: (cpu_time(), Instant::now()),
        })
    }

    async fn run(self: &Rc<Self>, wants: &[Want], stopped: Stopped) {
        let mut slots = tokio::task::JoinSet::new();
        for client in &self.clients {
            for _ in 0..client.group.window {
                slots.spawn_local(slot(Rc::clone(self), Rc::clone(client)));
            }
        }
        let world = Rc::clone(self);
        slots.spawn_local(async move {
            let mut next = Duration::ZERO;
            loop {
                tokio::time::sleep_until((world.epoch + next).into()).await;
                world.sample();
                next += SAMPLE_EVERY;
            }
        });
        tokio::select! {
            () = self.demand(wants) => {}
            () = stopped => {}
        }
        // What is under way stays open: whoever asks for it is dropped here.
        slots.shutdown().await;
        self.sample();
    }

    /// Gives each want to its client when it is due, up to the end of the run.
    async fn demand(&self, wants: &[Want]) {
        for (number, want) in wants.iter().enumerate() {
            if want.at >= self.until {
                break;
            }
            tokio::time::sleep_until((self.epoch + want.at).into()).await;
            let late = self.epoch.elapsed().saturating_sub(want.at);
            self.late_max.set(self.late_max.get().max(late));
            self.count(want.kind, |tally| tally.attempted += 1);
            let whose = self.requests.borrow().get(number).map(|r| r.client);
            let client = whose.and_then(|client| self.clients.get(client as usize));
            if let Some(client) = client {
                client.queue.borrow_mut().push_back(number);
                client.come.notify_one();
            }
        }
        tokio::time::sleep_until((self.epoch + self.until).into()).await;
    }

    fn count(&self, kind: Kind, how: impl FnOnce(&mut Tally)) {
        let mut tallies = self.tallies.get();
        how(&mut tallies[kind.index()]);
        self.tallies.set(tallies);
    }

    fn close(&self, number: usize, record: RequestRecord) {
        self.count(record.kind, |tally| tally.ended(record.outcome));
        if let Some(place) = self.requests.borrow_mut().get_mut(number) {
            *place = record;
        }
    }

    fn sample(&self) {
        let sent = self.counts();
        let [mut honest, mut attacker] = self.tallies.get();
        [honest.sent, attacker.sent] = sent.map(|counts| counts.bytes);
        self.board.post(Sample {
            at_s: self.epoch.elapsed().as_secs_f64(),
            honest,
            attacker,
        });
    }

    fn counts(&self) -> [Counts; 2] {
        Kind::ALL.map(|kind| {
            let own = self.clients.iter().filter(|c| c.kind == kind);
            own.fold(Counts::default(), |sum, client| {
                let counts = client.counts.get();
                Counts {
                    tries: sum.tries + counts.tries,
                    bytes: sum.bytes + counts.bytes,
                    channel: sum.channel + counts.channel,
                }
            })
        })
    }

    fn result(&self) -> ClientsResult {
        let ended = self.epoch.elapsed();
        let mut requests = std::mem::take(&mut *self.requests.borrow_mut());
        requests.retain(|r| r.due < ended.min(self.until));
        for request in requests.iter_mut().filter(|r| r.outcome == Outcome::Open) {
            let patience = self.clients.get(request.client as usize);
            let patience = patience.map(|c| span(c.group.patience));
            // Its client never came to it, and would have given it up.
            if patience.is_some_and(|patience| request.due + patience <= ended) {
                request.outcome = Outcome::Expired;
            }
        }
        let (cpu, wall) = self.begun;
        let passed = wall.elapsed().as_secs_f64();
        ClientsResult {
            requests,
            counts: self.counts(),
            samples: self.board.samples(),
            health: Health {
                late_max_ms: self.late_max.get().as_secs_f64() * 1e3,
                cpu: cpu_time().saturating_sub(cpu).as_secs_f64() / passed.max(1e-9),
            },
        }
    }
}

pub(crate) fn span(of: levee_policy::Span) -> Duration {
    Duration::from_nanos(of.as_nanos())
}

fn number(want: &Want, setup: &Setup) -> u32 {
    match want.kind {
        Kind::Honest => want.client,
        Kind::Attacker => setup.honest.clients + want.client,
    }
}

/// One of the requests that a client may have under way: takes the next that waits, again and again.
async fn slot(world: Rc<World>, client: Rc<Client>) {
    let patience = span(client.group.patience);
    let mut link: Option<Link> = None;
    loop {
        let next = client.queue.borrow_mut().pop_front();
        let Some(number) = next else {
            client.come.notified().await;
            continue;
        };
        let record = world.requests.borrow().get(number).copied();
        let Some(mut record) = record else { continue };
        if client.now() >= record.due + patience {
            record.outcome = Outcome::Expired;
            record.ended = Some(record.due + patience);
        } else {
            let begun = client.now();
            let costs = Costs::default();
            let exchange = Exchange {
                client: &client,
                host: &world.host,
                number,
                id: record.id,
                costs: &costs,
            };
            let asked = tokio::time::timeout(patience, exchange.run(&mut link)).await;
            record.begun = Some(begun);
            record.ended = Some(client.now());
            record.outcome = asked.unwrap_or(Outcome::GaveUp);
            record.paid = costs.paid.get();
            record.channel = costs.channel.get();
            record.retries = costs.retries.get();
            record.status = costs.status.get();
        }
        world.close(number, record);
    }
}
