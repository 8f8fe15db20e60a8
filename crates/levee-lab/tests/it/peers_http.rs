//! The HTTP front before a real nginx, under real attackers, with bare nginx and HAProxy in the same run.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use levee_lab::http::front::{Front, settings};
use levee_lab::peers::{SlowHttpTest, SlowMode, WebServer, Wrk};
use levee_policy::selective::{Config, phases_of_http};
use levee_policy::thinner;
use levee_proxy::http::settings::ConnectionSettings;

const LIFETIME: Duration = Duration::from_secs(90);
/// `k`: connections that each of the three may hold.
const PLACES: u32 = 200;
/// More attackers than come in the time of a test, so that they always come anew.
const ATTACKERS: u32 = 2_000;
/// How long they fill the places before anyone else comes.
const FILLING: Duration = Duration::from_secs(5);
/// Honest requests: one each 40 ms, each on a connection of its own.
const ASKING: Duration = Duration::from_secs(6);
const EVERY: Duration = Duration::from_millis(40);
/// How long an honest client waits for its page.
const PATIENCE: Duration = Duration::from_secs(2);

/// One request on a connection of its own: whether its page came, and whole.
fn ask(addr: SocketAddr, path: &str) -> Option<String> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect_timeout(&addr, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (begun.elapsed() < PATIENCE).then_some(answer)
}

/// Honest requests over some seconds: how many were served, of how many.
fn honest(addr: SocketAddr) -> (u64, u64) {
    let begun = Instant::now();
    let mut asking = Vec::new();
    while begun.elapsed() < ASKING {
        asking.push(std::thread::spawn(move || {
            ask(addr, "/").is_some_and(|answer| {
                answer.starts_with("HTTP/1.1 200 ") && answer.contains("hello")
            })
        }));
        std::thread::sleep(EVERY);
    }
    let all = asking.len() as u64;
    let served = asking
        .into_iter()
        .map(|asked| asked.join().expect("no client panics"));
    (served.filter(|served| *served).count() as u64, all)
}

/// The front before a server, with SeVen on its connections.
fn levee(server: SocketAddr) -> Front {
    let mut settings = settings(server, 1);
    settings.connections = Some(ConnectionSettings {
        capacity: PLACES,
        defense: Config {
            phases: phases_of_http(),
            ..Config::default()
        },
        record: None,
    });
    Front::start(settings).expect("the front starts")
}

/// What a server gives to honest clients: served, asked.
type Given = (u64, u64);

/// Levee, nginx and HAProxy side by side, each under so many attackers a second of its own.
fn under(mode: SlowMode, per_second: u32) -> [Given; 3] {
    let origin = WebServer::nginx(4_000, LIFETIME).expect("a peer starts");
    let levee = levee(origin.addr());
    let nginx = WebServer::nginx(PLACES, LIFETIME).expect("a peer starts");
    let haproxy = WebServer::haproxy(origin.addr(), PLACES, LIFETIME).expect("a peer starts");
    let fronts = [levee.addr(), nginx.addr(), haproxy.addr()];
    for addr in fronts {
        assert!(
            ask(addr, "/").is_some_and(|answer| answer.contains("hello")),
            "{addr} serves nobody"
        );
    }
    let attacks = fronts.map(|addr| {
        SlowHttpTest::start(
            addr,
            mode,
            ATTACKERS,
            per_second,
            FILLING + ASKING + PATIENCE,
        )
        .expect("an attacker starts")
    });
    std::thread::sleep(FILLING);
    let counts = fronts.map(|addr| std::thread::spawn(move || honest(addr)));
    let counts = counts.map(|count| count.join().expect("no client panics"));
    drop(attacks);
    let table = levee.stop().expect("the front ends").gate;
    let table = table.connections.expect("it has a table");
    println!(
        "{mode:?}: served of asked: levee {:?}, nginx {:?}, haproxy {:?}; levee's table: {:?}",
        counts[0], counts[1], counts[2], table.stats
    );
    assert!(
        table.stats.evicted.total() > 100,
        "the table was not under pressure: {:?}",
        table.stats
    );
    counts
}

/// Nine in ten honest requests are served with SeVen, on a machine that the attackers load too; 97 to 99% where it has time. What
/// the others give is printed, not judged: it depends on their settings.
#[track_caller]
fn check(mode: SlowMode, per_second: u32) {
    let [(served, asked), ..] = under(mode, per_second);
    assert!(asked > 100, "only {asked} honest requests");
    assert!(
        served as f64 > 0.9 * asked as f64,
        "{mode:?}: {served} of {asked}"
    );
}

#[test]
#[ignore = "needs nginx, haproxy and slowhttptest; ./test installs them"]
fn peers_slowloris_is_held_off() {
    check(SlowMode::Headers, 100);
}

#[test]
#[ignore = "needs nginx, haproxy and slowhttptest; ./test installs them"]
fn peers_slow_post_is_held_off() {
    check(SlowMode::Body, 100);
}

#[test]
#[ignore = "needs nginx, haproxy and slowhttptest; ./test installs them"]
fn peers_slow_read_is_held_off() {
    // Each makes nginx send a megabyte to each of the three.
    check(SlowMode::Read, 50);
}

/// wrk asks as fast as it can; nginx behind a thinner of 50 requests a second sees no more than that, and a client that pays is
/// served within its patience.
#[test]
#[ignore = "needs nginx and wrk; ./test installs them"]
fn peers_a_flood_reaches_nginx_at_its_capacity_only() {
    const RATE: f64 = 50.0;
    const TIME: Duration = Duration::from_secs(5);
    let origin = WebServer::nginx(4_000, LIFETIME).unwrap();
    let mut settings = settings(origin.addr(), 1);
    settings.defense = Some(thinner::Config {
        mode: thinner::Mode::Retry,
        ..thinner::Config::of(thinner::Capacity::Rate(RATE))
    });
    let front = Front::start(settings).unwrap();
    let wrk = Wrk::start(&format!("http://{}/", front.addr()), 64, TIME).unwrap();
    let flood = wrk.wait().unwrap();
    let thinner = front.stop().unwrap().gate.requests.unwrap().stats;
    println!("{flood:?} {thinner:?}");
    let passed = flood.requests - flood.refused;
    // The burst that passes before it is an overload, and a second of slack for wrk's own start and end.
    let burst = f64::from(thinner::Config::burst_of(RATE));
    let most = RATE * (TIME.as_secs_f64() + 1.0) + burst;
    assert!((passed as f64) < most, "{passed} passed, at most {most}");
    assert!(
        passed as f64 > 0.8 * RATE * TIME.as_secs_f64(),
        "{passed} passed"
    );
    assert!(flood.requests > 20 * passed, "{flood:?}: that was no flood");
    assert!(thinner.overloads >= 1, "{thinner:?}");
}
