//! Honest clients and slow attackers, in one thread: who comes when is the plan's, and each does as the model's does.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levee_sim::model::http::{AttackKind, Bandwidth, Drip, Setup};
use levee_sim::schedule::{Arrival, Kind};
use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

use super::Asked;
use crate::http::bucket::Bucket;
use crate::http::clients::span;
use crate::http::record::{Health, cpu_time};
use crate::http::wire;
use crate::http::worker::{Stopped, Worker};

/// What a client sends or reads at most in one piece, as a part of a second at its rate.
const PIECE_S: f64 = 0.01;
/// Pieces are not smaller or larger than this.
const PIECE_BYTES: std::ops::RangeInclusive<usize> = 64..=16_384;
/// What a client catches up with when timers were late.
const SLACK: Duration = Duration::from_millis(20);
/// What a reader that takes its time asks the kernel to keep for it; the kernel keeps a little more.
const SLOW_READER_BUFFER: usize = 1_024;
/// A body that never ends says that it is so long: what servers let pass as an upload.
const ENDLESS: u64 = 1 << 26;

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Served,
    Refused,
    /// Cut by the other side before its answer.
    Cut,
    GaveUp,
}

/// Clients of a kind that began after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Clients; of attackers, connections.
    pub attempted: u64,
    /// Connections.
    pub tries: u64,
    /// Had their whole response.
    pub served: u64,
    /// Failed: turned away.
    pub refused: u64,
    /// Failed: cut, by the front if there is one, by the server's timeouts if not.
    pub cut: u64,
    /// Failed: their patience was over.
    pub gave_up: u64,
}

impl Tally {
    /// Those of whom it is known.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.served + self.refused + self.cut + self.gave_up
    }

    fn note(&mut self, end: End) {
        *match end {
            End::Served => &mut self.served,
            End::Refused => &mut self.refused,
            End::Cut => &mut self.cut,
            End::GaveUp => &mut self.gave_up,
        } += 1;
    }
}

/// What the clients came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientsResult {
    /// Honest clients and attackers.
    pub tallies: [Tally; 2],
    /// Time to service of each honest client that was served, in seconds.
    pub served_s: Vec<f64>,
    /// Connections that attackers held on average after the warm-up: open, and not cut.
    pub attackers_mean: f64,
    /// How well the clients kept to their plan.
    pub health: Health,
}

pub(super) fn start(
    setup: &Setup,
    arrivals: Vec<Arrival>,
    asked: &Arc<Asked>,
    target: SocketAddr,
    epoch: Instant,
) -> io::Result<Worker<ClientsResult>> {
    let world = World {
        setup: setup.clone(),
        asked: Arc::clone(asked),
        target,
        epoch,
        tallies: Cell::default(),
        served_s: RefCell::default(),
        held: Cell::default(),
        late_max: Cell::default(),
    };
    Worker::start("clients", move |stopped| async move {
        let (cpu, wall) = (cpu_time(), Instant::now());
        let world = Rc::new(world);
        Rc::clone(&world).run(&arrivals, stopped).await;
        let passed = wall.elapsed().as_secs_f64().max(1e-9);
        Ok(ClientsResult {
            tallies: world.tallies.get(),
            served_s: world.served_s.take(),
            attackers_mean: world.held_mean(),
            health: Health {
                late_max_ms: world.late_max.get().as_secs_f64() * 1e3,
                cpu: cpu_time().saturating_sub(cpu).as_secs_f64() / passed,
            },
        })
    })
}

struct World {
    setup: Setup,
    asked: Arc<Asked>,
    target: SocketAddr,
    epoch: Instant,
    tallies: Cell<[Tally; 2]>,
    served_s: RefCell<Vec<f64>>,
    /// Connections that attackers hold now, since when, and the area before.
    held: Cell<(u32, Duration, f64)>,
    late_max: Cell<Duration>,
}

impl World {
    async fn run(self: Rc<Self>, arrivals: &[Arrival], stopped: Stopped) {
        let mut tasks = tokio::task::JoinSet::new();
        let coming = async {
            for (number, arrival) in arrivals.iter().enumerate() {
                tokio::time::sleep_until((self.epoch + arrival.at).into()).await;
                let late = self.epoch.elapsed().saturating_sub(arrival.at);
                self.late_max.set(self.late_max.get().max(late));
                let client = Client {
                    world: Rc::clone(&self),
                    number,
                    kind: arrival.kind,
                    slow: self.is_slow(number),
                };
                tasks.spawn_local(client.run());
                // Those that are through need not be kept.
                while tasks.try_join_next().is_some() {}
            }
            let end = self.epoch + self.setup.plan.until;
            tokio::time::sleep_until(end.into()).await;
        };
        tokio::select! {
            () = coming => {}
            () = stopped => {}
        }
        tasks.shutdown().await;
    }

    /// Whether it is one of those on a bad line: drawn from its number, so that it is one in each lane.
    fn is_slow(&self, number: usize) -> bool {
        self.setup.clients.slow.is_some_and(|slow| {
            let seed = self.setup.plan.seed ^ (number as u64) << 20;
            let draw = Pcg64::seed_from_u64(seed).next_u64() >> 11;
            (draw as f64) < slow.share * (1u64 << 53) as f64
        })
    }

    fn counts(&self) -> bool {
        self.epoch.elapsed() >= span(self.setup.warmup)
    }

    fn count(&self, kind: Kind, how: impl FnOnce(&mut Tally)) {
        let mut tallies = self.tallies.get();
        how(&mut tallies[kind.index()]);
        self.tallies.set(tallies);
    }

    fn hold(&self, change: i32) {
        let (held, since, area) = self.held.get();
        let now = self.epoch.elapsed();
        let passed = now.saturating_sub(since.max(span(self.setup.warmup)));
        let area = area + f64::from(held) * passed.as_secs_f64();
        self.held
            .set((held.saturating_add_signed(change), now, area));
    }

    fn held_mean(&self) -> f64 {
        self.hold(0);
        let time = self.epoch.elapsed().saturating_sub(span(self.setup.warmup));
        self.held.get().2 / time.as_secs_f64().max(1e-9)
    }
}

/// A connection that an attacker holds.
struct Held<'w>(&'w World);

impl<'w> Held<'w> {
    fn new(world: &'w World, kind: Kind) -> Option<Self> {
        (kind == Kind::Attacker).then(|| {
            world.hold(1);
            Self(world)
        })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.hold(-1);
    }
}

struct Client {
    world: Rc<World>,
    number: usize,
    kind: Kind,
    slow: bool,
}

impl Client {
    async fn run(self) {
        match self.kind {
            Kind::Honest => self.honest().await,
            Kind::Attacker => self.attacker().await,
        }
    }

    async fn honest(&self) {
        let (world, counts) = (&self.world, self.world.counts());
        let clients = &world.setup.clients;
        if counts {
            world.count(self.kind, |tally| tally.attempted += 1);
        }
        let begun = Instant::now();
        let mut end = End::Cut;
        for attempt in 0..=clients.retries {
            if attempt > 0 {
                tokio::time::sleep(span(clients.retry_wait)).await;
            }
            if counts {
                world.count(self.kind, |tally| tally.tries += 1);
            }
            let once = self.once();
            end = match clients.patience {
                Some(patience) => tokio::time::timeout(span(patience), once)
                    .await
                    .unwrap_or(Ok(End::GaveUp)),
                None => once.await,
            }
            .unwrap_or(End::Cut);
            if end == End::Served {
                break;
            }
        }
        if counts {
            world.count(self.kind, |tally| tally.note(end));
            if end == End::Served {
                world
                    .served_s
                    .borrow_mut()
                    .push(begun.elapsed().as_secs_f64());
            }
        }
    }

    async fn attacker(&self) {
        let world = &self.world;
        loop {
            let counts = world.counts();
            if counts {
                world.count(self.kind, |tally| {
                    tally.attempted += 1;
                    tally.tries += 1;
                });
            }
            let end = self.once().await.unwrap_or(End::Cut);
            if counts {
                world.count(self.kind, |tally| tally.note(end));
            }
            let Some(pause) = world.setup.attack.redial else {
                return;
            };
            tokio::time::sleep(span(pause)).await;
        }
    }

    /// What its attack is; none of an honest client.
    fn attack(&self) -> Option<AttackKind> {
        (self.kind == Kind::Attacker).then_some(self.world.setup.attack.kind)
    }

    fn bandwidth(&self) -> Bandwidth {
        match self.world.setup.clients.slow {
            Some(slow) if self.slow && self.kind == Kind::Honest => slow.bandwidth,
            _ => self.world.setup.clients.bandwidth,
        }
    }

    /// One connection.
    async fn once(&self) -> io::Result<End> {
        let world = &self.world;
        let socket = TcpSocket::new_v4()?;
        if matches!(self.attack(), Some(AttackKind::SlowRead(_))) {
            socket.set_recv_buffer_size(SLOW_READER_BUFFER as u32)?;
        }
        socket.bind((world.asked.source(self.number), 0).into())?;
        let mut stream = socket.connect(world.target).await?;
        stream.set_nodelay(true)?;
        let _held = Held::new(world, self.kind);
        let (mut reader, mut writer) = stream.split();
        let sent = async {
            self.send(&mut writer).await?;
            // What is to come comes from the other side.
            std::future::pending::<io::Result<()>>().await
        };
        tokio::select! {
            biased;
            end = self.receive(&mut reader) => end,
            failed = sent => failed.map(|()| End::Cut),
        }
    }

    async fn send(&self, writer: &mut tokio::net::tcp::WriteHalf<'_>) -> io::Result<()> {
        let attack = self.attack();
        if matches!(attack, Some(AttackKind::Connect)) {
            return Ok(());
        }
        let head = self.head();
        let mut line = self.line(self.bandwidth().up);
        let honest = attack.is_none();
        let pieces = if honest {
            self.world.setup.clients.header_pieces
        } else {
            1
        };
        let piece = head.len().div_ceil(pieces as usize).max(1);
        match attack {
            // All but the last line, then more fields without end.
            Some(AttackKind::Slowloris(drip)) => {
                let open = head.get(..head.len() - 2).unwrap_or(&head);
                line.send(writer, open).await?;
                self.drip(writer, &drip, |n| {
                    let mut field = format!("x-{n}: ");
                    let fill = (drip.bytes as usize).saturating_sub(field.len() + 2);
                    field.extend(std::iter::repeat_n('x', fill));
                    field.push_str("\r\n");
                    field.into_bytes()
                })
                .await
            }
            Some(AttackKind::SlowPost(drip)) => {
                line.send(writer, &head).await?;
                self.drip(writer, &drip, |_| vec![b'x'; drip.bytes as usize])
                    .await
            }
            _ => {
                for piece in head.chunks(piece) {
                    line.send(writer, piece).await?;
                }
                let body = if honest {
                    self.world.setup.clients.body
                } else {
                    0
                };
                line.send(writer, &vec![b'x'; body as usize]).await
            }
        }
    }

    async fn drip(
        &self,
        writer: &mut tokio::net::tcp::WriteHalf<'_>,
        drip: &Drip,
        piece: impl Fn(u64) -> Vec<u8>,
    ) -> io::Result<()> {
        for n in 0u64.. {
            tokio::time::sleep(span(drip.every)).await;
            writer.write_all(&piece(n)).await?;
        }
        Ok(())
    }

    fn head(&self) -> Vec<u8> {
        let clients = &self.world.setup.clients;
        let (method, body) = match self.attack() {
            Some(AttackKind::SlowPost(_)) => ("POST", ENDLESS),
            None if clients.body > 0 => ("POST", u64::from(clients.body)),
            _ => ("GET", 0),
        };
        let path = wire::path(self.world.asked.name(self.number));
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n",
            self.world.target
        );
        if body > 0 {
            head.push_str(&format!("Content-Length: {body}\r\n"));
        }
        const NAME: &str = "Cookie: ";
        let missing = (clients.headers as usize).saturating_sub(head.len() + NAME.len() + 4);
        if missing > 0 {
            head.push_str(NAME);
            head.extend(std::iter::repeat_n('x', missing));
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    fn line(&self, rate: f64) -> Line {
        let (least, most) = PIECE_BYTES.into_inner();
        let piece = ((rate * PIECE_S) as usize).clamp(least, most);
        Line {
            bucket: Bucket::new(rate, SLACK),
            piece,
            epoch: self.world.epoch,
        }
    }

    /// Reads until the whole response is there, or the other side is through with it.
    async fn receive(&self, reader: &mut tokio::net::tcp::ReadHalf<'_>) -> io::Result<End> {
        let mut line = self.line(self.bandwidth().down);
        let drip = match self.attack() {
            Some(AttackKind::SlowRead(drip)) => Some(drip),
            _ => None,
        };
        let mut head = Vec::new();
        let mut left: Option<(u16, u64)> = None;
        let mut block = vec![0; line.piece];
        loop {
            let most = match drip {
                Some(drip) => {
                    tokio::time::sleep(span(drip.every)).await;
                    (drip.bytes as usize).clamp(1, block.len())
                }
                None => block.len(),
            };
            let Some(room) = block.get_mut(..most) else {
                return Ok(End::Cut);
            };
            let read = reader.read(room).await?;
            if read == 0 {
                return Ok(End::Cut);
            }
            line.allowance(read).await;
            let came = block.get(..read).unwrap_or_default();
            let rest = match &mut left {
                Some((_, rest)) => {
                    *rest = rest.saturating_sub(read as u64);
                    *rest
                }
                None => {
                    head.extend_from_slice(came);
                    let Some((response, length)) = wire::parse_response(&head)? else {
                        continue;
                    };
                    let body = response.length().unwrap_or(u64::MAX);
                    let rest = body.saturating_sub((head.len() - length) as u64);
                    left = Some((response.status, rest));
                    rest
                }
            };
            if let Some((status, _)) = left.filter(|_| rest == 0) {
                return Ok(match status {
                    200..=299 => End::Served,
                    408 => End::Cut,
                    _ => End::Refused,
                });
            }
        }
    }
}

/// A direction of a client's line.
struct Line {
    bucket: Bucket,
    piece: usize,
    epoch: Instant,
}

impl Line {
    async fn allowance(&mut self, bytes: usize) {
        let now = self.epoch.elapsed();
        let at = self.bucket.grant(now, bytes);
        if at > now {
            tokio::time::sleep_until((self.epoch + at).into()).await;
        }
        self.bucket.used(self.epoch.elapsed());
    }

    async fn send(
        &mut self,
        writer: &mut tokio::net::tcp::WriteHalf<'_>,
        bytes: &[u8],
    ) -> io::Result<()> {
        for piece in bytes.chunks(self.piece) {
            self.allowance(piece.len()).await;
            writer.write_all(piece).await?;
        }
        Ok(())
    }
}
