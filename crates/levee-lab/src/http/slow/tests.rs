//! Short live runs against a server of 8 connections.

use levee_policy::selective::phases_of_http;
use levee_sim::scenario::Scenario;

use super::*;

/// Honest clients of which 20 a second come, each for 20 ms, and 16 attackers of this kind.
fn setup(attack: &str, lane: &str) -> Setup {
    let text = format!(
        "[service]\nkind = \"http\"\ncapacity = 8\nbacklog = 64\n[[lane]]\nname = \"a\"\n{lane}\n\
         [honest]\nrate = \"20/s\"\nduration = {{ kind = \"fixed\", mean = \"20ms\" }}\npatience = \"500ms\"\n\
         [attack]\n{attack}\n[run]\ntime = \"2s\"\nwarmup = \"500ms\"\nseed = 3\n"
    );
    let nothing = |_: &str| Err(io::ErrorKind::NotFound.into());
    let scenario = Scenario::parse("s", &text, &nothing).unwrap();
    on_the_wall_clock(&scenario.points[0].setup).unwrap()
}

fn run(setup: &Setup) -> LaneResult {
    finish(RunningLane::start(setup).unwrap())
}

fn finish(lane: RunningLane) -> LaneResult {
    while !lane.is_finished() {
        std::thread::sleep(Duration::from_millis(10));
    }
    lane.finish().unwrap()
}

fn attack(kind: &str) -> String {
    format!(
        "kind = \"{kind}\"\nattackers = 16\nramp = \"100ms\"\nredial = \"100ms\"\nevery = \"100ms\"\nbytes = 8\nresponse = 4_000_000"
    )
}

#[test]
fn slow_attackers_hold_a_bare_server_whole() {
    let kinds = ["connect", "slowloris", "slow-post", "slow-read"];
    let start = |kind| RunningLane::start(&setup(&attack(kind), "")).unwrap();
    for (kind, lane) in kinds.map(|kind| (kind, start(kind))) {
        let result = finish(lane);
        let [honest, _] = result.clients.tallies;
        // Some 40 come after the warm-up, when 16 attackers have 8 places and the way to them.
        assert!(honest.attempted > 10, "{kind}: {honest:?}");
        assert_eq!(honest.served, 0, "{kind}: {honest:?}");
        assert!(
            result.server.attackers_mean > 4.0,
            "{kind}: {:?}",
            result.server
        );
        assert_eq!(
            (result.server.busy_max, result.server.timed_out),
            (8, 0),
            "{kind}"
        );
    }
}

#[test]
fn without_an_attack_a_bare_server_serves_all() {
    let mut setup = setup(&attack("connect"), "");
    setup.plan.attacker.callers = 0;
    let result = run(&setup);
    let [honest, attacker] = result.clients.tallies;
    assert_eq!((honest.served, attacker.attempted), (honest.decided(), 0));
    assert!(honest.served > 10, "{honest:?}");
    // 20 a second for 20 ms each: 0.4 places. Of some 40, exponential gaps: 5 standard deviations, and the kernel's own time.
    assert!(
        (0.1..=0.9).contains(&result.server.busy_mean),
        "{:?}",
        result.server
    );
}

#[test]
fn a_deadline_cuts_slow_headers() {
    let lane = "timeouts = { header = { initial = \"200ms\" } }";
    let result = run(&setup(&attack("slowloris"), lane));
    // Each place is free for a moment every 200 ms; who waits in the kernel longest takes it.
    assert!(result.server.timed_out > 2, "{:?}", result.server);
    let [_, attacker] = result.clients.tallies;
    assert!(attacker.cut > 2, "{attacker:?}");
}

#[test]
fn seven_keeps_places_for_honest_clients() {
    // What is usual here takes milliseconds.
    let lane = "defense = { kind = \"seven\", strategy = \"roulette\" }";
    let setup = |kind| {
        let mut setup = setup(&attack(kind), lane);
        let defense = setup.defense.as_mut().unwrap();
        defense.phases = phases_of_http();
        for phase in &mut defense.phases {
            phase.usual = phase.usual.map(|_| Span::from_millis(100));
        }
        // As a browser does when a connection fails.
        setup.clients.retries = 3;
        setup.clients.retry_wait = Span::from_millis(50);
        setup.attack.redial = Some(Span::from_millis(400));
        setup
    };
    let kinds = ["connect", "slowloris", "slow-post", "slow-read"];
    let start = |kind| RunningLane::start(&setup(kind)).unwrap();
    for (kind, lane) in kinds.map(|kind| (kind, start(kind))) {
        let result = finish(lane);
        let [honest, attacker] = result.clients.tallies;
        let table = result.seven().unwrap();
        // Half of them at least, where a bare server serves none; on an idle machine it is nearly all.
        assert!(honest.decided() > 10, "{kind}: {honest:?}");
        assert!(
            2 * honest.served > honest.decided(),
            "{kind}: {honest:?} {table:?}"
        );
        // Attackers were dropped for them. They come again, but for a slow reader, who goes on with what the kernel has for it.
        assert!(table.evicted.total() > 8, "{kind}: {table:?}");
        assert!(
            kind == "slow-read" || attacker.attempted > 8,
            "{kind}: {attacker:?}"
        );
    }
}

/// A server that works 3 s on each request, behind a front of four places.
fn slow_server() -> (Server, Front) {
    let mut setup = setup(
        &attack("connect"),
        "defense = { kind = \"seven\", strategy = \"roulette\" }",
    );
    setup.capacity = 16;
    let arrivals: Vec<Arrival> = setup.plan.schedule().collect();
    let mut asked = Asked::new(&setup, &arrivals);
    asked.by_name = (0..8)
        .map(|name| {
            (
                name,
                (Duration::from_secs(if name == 0 { 0 } else { 3 }), 5),
            )
        })
        .collect();
    let server = Server::start(&setup, &Arc::new(asked), Instant::now()).unwrap();
    let mut settings = front::settings(server.addr(), 1);
    let mut defense = setup.defense.unwrap();
    defense.phases = phases_of_http();
    settings.connections = Some(ConnectionSettings {
        capacity: 4,
        defense,
        record: None,
    });
    (server, Front::start(settings).unwrap())
}

#[test]
fn a_dripped_body_loses_its_place_as_soon_as_it_is_needed_and_not_before() {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    let (server, front) = slow_server();
    let connect = |request: &str| {
        let mut stream = TcpStream::connect(front.addr()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let get = |name: u64| {
        connect(&format!(
            "GET /r/{name:x} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        ))
    };
    let mut dripper = connect("POST /r/0 HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    dripper
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut answer = [0; 256];
    // One byte in half a second, for which nobody needs the place.
    let drip = |dripper: &mut TcpStream, answer: &mut [u8]| {
        dripper.write_all(b"x").unwrap();
        dripper.read(answer)
    };
    for _ in 0..4 {
        let end = drip(&mut dripper, &mut answer);
        assert!(
            matches!(&end, Err(e) if e.kind() == io::ErrorKind::WouldBlock),
            "{end:?}"
        );
    }
    // Three whose requests the server works on, and the table is full.
    let waiting: Vec<TcpStream> = (1..4).map(get).collect();
    let end = drip(&mut dripper, &mut answer);
    assert!(end.is_err(), "it is not needed yet: {end:?}");
    // One more: the place is needed, and the dripper's is taken.
    let begun = Instant::now();
    let mut newcomer = get(0);
    let mut served = String::new();
    newcomer.read_to_string(&mut served).unwrap();
    assert!(served.starts_with("HTTP/1.1 200 "), "{served:?}");
    let read = dripper.read(&mut answer).unwrap();
    let end = String::from_utf8_lossy(&answer[..read]);
    assert!(read == 0 || end.starts_with("HTTP/1.1 408 "), "{end}");
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    for mut stream in waiting {
        let mut served = String::new();
        stream.read_to_string(&mut served).unwrap();
        assert!(served.starts_with("HTTP/1.1 200 "), "{served:?}");
    }
    let table = front.stop().unwrap().gate.connections.unwrap().stats;
    assert_eq!(
        (table.evicted.total(), table.refused.total()),
        (1, 0),
        "{table:?}"
    );
    server.stop().unwrap();
}
