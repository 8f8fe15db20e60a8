//! Short live runs against a server of 8 connections.

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
    format!("kind = \"{kind}\"\nattackers = 16\nramp = \"100ms\"\nredial = \"100ms\"\nevery = \"100ms\"\nbytes = 8\nresponse = 4_000_000")
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
        assert!(result.server.attackers_mean > 7.9, "{kind}: {:?}", result.server);
        assert_eq!((result.server.busy_max, result.server.timed_out), (8, 0), "{kind}");
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
    assert!((0.1..=0.9).contains(&result.server.busy_mean), "{:?}", result.server);
}

#[test]
fn a_deadline_cuts_slow_headers() {
    let lane = "timeouts = { header = { initial = \"200ms\" } }";
    let result = run(&setup(&attack("slowloris"), lane));
    // Each place is free for a moment every 200 ms; who waits in the kernel longest takes it.
    assert!(result.server.timed_out > 8, "{:?}", result.server);
    let [_, attacker] = result.clients.tallies;
    assert!(attacker.cut > 8, "{attacker:?}");
}
