//! The attack of [`peers_attack`](crate::peers_attack) with Levee in front of the server.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use levee_lab::peers::{Kamailio, KamailioConfig, KamailioMode, Outcome, Sipp};
use levee_policy::Span;
use levee_policy::selective::{Config, Strategy};
use levee_proxy::sip::{self, Snapshot, settings::Listen, settings::SipSettings};

use crate::peers_attack::{CAPACITY, LIFETIME, Load, MEAN_CALL, callee, settled_stats};

/// Which messages pass through Levee.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Path {
    /// Callers - Levee - Kamailio - callee.
    CallerSide,
    /// Callers - Levee - Kamailio - Levee - callee: as in the paper, the outbound proxy of both sides.
    BothSides,
}

/// A front on a thread of its own, so that a test may block.
struct Front {
    addr: SocketAddr,
    asks: tokio::sync::mpsc::UnboundedSender<mpsc::Sender<Snapshot>>,
    thread: JoinHandle<Snapshot>,
}

impl Front {
    fn start(settings: SipSettings) -> Result<Self, sip::StartError> {
        let (asks, mut asked) = tokio::sync::mpsc::unbounded_channel::<mpsc::Sender<Snapshot>>();
        let (started, start) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let running = match sip::start(settings).await {
                    Ok(running) => running,
                    Err(error) => {
                        started.send(Err(error)).expect("the test waits");
                        return Snapshot::default();
                    }
                };
                let addr = running.addrs()[0].addr;
                started.send(Ok(addr)).expect("the test waits");
                while let Some(answer) = asked.recv().await {
                    answer
                        .send(running.snapshot().await)
                        .expect("the test waits");
                }
                running.stop(Duration::ZERO).await
            })
        });
        let addr = start.recv().expect("the front says how it started")?;
        Ok(Self { addr, asks, thread })
    }

    fn snapshot(&self) -> Snapshot {
        let (answer, wait) = mpsc::channel();
        self.asks.send(answer).expect("the front runs");
        wait.recv().expect("the front answers")
    }

    fn stop(self) -> Snapshot {
        drop(self.asks);
        self.thread.join().expect("the front ends well")
    }
}

/// A front and the server behind it; each must know the address of the other.
fn front_and_server(path: Path, strategy: Strategy, callee: &Sipp) -> (Front, Kamailio) {
    let mut tries = 0;
    loop {
        // Another process may take the port before the front does: then once more.
        let addr = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|socket| socket.local_addr())
            .expect("a free port");
        let server = KamailioConfig {
            mode: KamailioMode::Capacity(CAPACITY),
            callee: callee.addr(),
            proxy: (path == Path::BothSides).then_some(addr),
            lifetime: LIFETIME,
        }
        .start()
        .expect("a server starts");
        let mut defense = Config {
            strategy,
            ..Config::default()
        };
        defense.drop_factor.mean_call = Span::from_millis(MEAN_CALL.as_millis() as u64);
        let mut settings = SipSettings::new(
            "peers",
            vec![Listen::udp(addr)],
            Listen::udp(server.addr()),
            CAPACITY,
            defense,
        );
        settings.seed = 1;
        match Front::start(settings) {
            Ok(front) => return (front, server),
            Err(sip::StartError::Bind { .. }) if tries < 5 => tries += 1,
            Err(error) => panic!("the front does not start: {error}"),
        }
    }
}

/// Waits until every eviction is over: nobody calls any more, so none begins.
fn settled(front: &Front) -> Snapshot {
    // A BYE without an answer is given up after 64 * T1 = 32 s.
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        let snapshot = front.snapshot();
        if snapshot.evicting == 0 && snapshot.held_waiting == 0 {
            return snapshot;
        }
        assert!(Instant::now() < deadline, "still evicting: {snapshot:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn the_honest_are_served(lane: &str, path: Path, strategy: Strategy) {
    let mut callee = callee();
    let (front, mut server) = front_and_server(path, strategy, &callee);
    let load = Load::start(server.addr(), front.addr);
    load.wait_for_arrivals();
    let snapshot = settled(&front);
    let result = load.stop();
    let callee_stats = settled_stats(&mut callee);
    assert!(server.is_running().expect("a state"));
    let callee_log = callee.stop().expect("a log");
    front.stop();
    server.stop().expect("an end");

    // Even with every call that is still open counted as cut.
    let (lowest, _) = result.honest_share(lane);
    println!("{lane}: {snapshot:?}");
    assert!(lowest >= 0.7, "{lane}: {lowest}");

    // Each BYE is answered.
    let in_call = snapshot.evicted_in_call;
    assert!(
        in_call > 0,
        "{lane}: nothing was evicted, so nothing is shown"
    );
    assert_eq!(snapshot.bye_answered, snapshot.bye_sent, "{lane}");
    assert_eq!(snapshot.bye_timeout, 0, "{lane}");

    // SIPp says the same on both sides. A caller that hung up at that moment answers the BYE and counts it apart.
    let callers = [&result.honest_stats, &result.attacker_stats];
    let at_callers: u64 = callers
        .iter()
        .map(|stats| stats.counter("cut") + stats.counter("crossed") + stats.counter("late_bye"))
        .sum();
    let at_callee = callee_stats.counter("cut") + callee_stats.counter("late_bye");
    assert_eq!(at_callers + at_callee, snapshot.bye_sent, "{lane}");
    // Each call that was dropped INCALL gets one on each side; of those dropped WAITING, the ones that were answered already.
    let waiting = snapshot.evicted_waiting;
    for at in [at_callers, at_callee] {
        assert!((in_call..=in_call + waiting).contains(&at), "{lane}: {at}");
    }
    // The log has each cut call and its Reason (RFC 3326).
    let cut = [&result.honest, &result.attackers, &callee_log];
    let reasons = cut
        .iter()
        .flat_map(|log| log.calls().values())
        .filter_map(|call| match &call.outcome {
            Outcome::Cut { reason } => Some(reason),
            _ => None,
        });
    for reason in reasons {
        assert!(reason.trim().starts_with("SIP"), "{lane}: `{reason}`");
    }

    // No side met a message that its scenario does not know; theirs know no CANCEL, and none of a call that rings.
    for stats in [callers[0], callers[1], &callee_stats] {
        assert!(stats.unexpected <= waiting, "{lane}: {stats:?}");
    }
}

#[test]
#[ignore = "needs sipp and kamailio; ./test installs them"]
fn roulette_serves_the_honest() {
    the_honest_are_served("roulette", Path::CallerSide, Strategy::Roulette);
}

#[test]
#[ignore = "needs sipp and kamailio; ./test installs them"]
fn tournament_serves_the_honest() {
    let strategy = Strategy::Tournament { size: None };
    the_honest_are_served("tournament", Path::BothSides, strategy);
}
