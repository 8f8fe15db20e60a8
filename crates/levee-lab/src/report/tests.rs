//! Golden tests of what machines and people read. `UPDATE_GOLDEN=1` writes the files anew.

use std::path::Path;

use super::*;

fn call(kind: Kind, start_s: u64, outcome: Outcome) -> CallRecord {
    let connected = outcome != Outcome::Unsuccessful;
    CallRecord {
        kind,
        due: Duration::from_secs(start_s),
        start: Duration::from_secs(start_s),
        setup: connected.then_some(Duration::from_millis(100 + start_s)),
        wanted: (kind == Kind::Honest).then_some(Duration::from_secs(4)),
        got: match outcome {
            Outcome::Complete => Duration::from_secs(4),
            Outcome::Incomplete => Duration::from_secs(1),
            Outcome::Unsuccessful => Duration::ZERO,
        },
        outcome,
        status: if connected { 200 } else { 503 },
        still_connected: false,
    }
}

fn run() -> Run {
    Run {
        time: Duration::from_secs(40),
        warmup: Duration::from_secs(2),
        delay: Duration::ZERO,
        ring: Duration::from_millis(100),
        ring_timeout: Duration::from_secs(30),
        arrivals: levee_sim::schedule::Arrivals::Poisson,
        seed: 1,
        repeat: 1,
        scale: 1.0,
    }
}

pub(crate) fn lane_report(name: &str) -> LaneReport {
    use Kind::{Attacker, Honest};
    use Outcome::{Complete, Incomplete, Unsuccessful};
    let calls = vec![
        // Before the warm-up is over: not counted.
        call(Honest, 1, Unsuccessful),
        call(Honest, 2, Complete),
        call(Honest, 10, Complete),
        call(Honest, 21, Unsuccessful),
        call(Attacker, 21, Complete),
        call(Honest, 22, Incomplete),
        call(Attacker, 30, Incomplete),
        call(Honest, 41, Complete),
    ];
    let mut result = LaneResult::default();
    result.load.calls = calls;
    result.load.late_max = Duration::from_micros(1_500);
    result.pbx.invited = 8;
    result.pbx.held_max = 24;
    let at = [("attack.share".to_owned(), AtValue::Number(0.5))].into();
    LaneReport::new(name.into(), at, &run(), &[result])
}

pub(crate) fn report() -> Report {
    Report {
        command: "lab",
        seed: 1,
        interrupted: true,
        warnings: vec!["callers were late".into()],
        lanes: vec![lane_report("undefended"), lane_report("seven-roulette")],
    }
}

fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/report/testdata")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, wanted, "{}", path.display());
}

#[test]
fn json_is_as_documented() {
    golden("report.json", &to_json(&report()));
}

#[test]
fn the_table_is_as_people_know_it() {
    golden("report.txt", &to_table(&report()));
}

#[test]
fn outcomes_sum_to_the_attempts_and_the_warm_up_is_left_out() {
    let lane = lane_report("any");
    assert_eq!(
        (lane.honest.attempted, lane.second_half.honest.attempted),
        (5, 2)
    );
    for k in [
        &lane.honest,
        &lane.attacker,
        &lane.second_half.honest,
        &lane.second_half.attacker,
    ] {
        assert_eq!(k.complete + k.incomplete + k.unsuccessful, k.attempted);
    }
    assert_eq!(lane.honest.got_share_mean, Some(0.25));
}

#[test]
fn a_call_belongs_to_the_half_of_its_plan_however_late_it_was() {
    let mut late = call(Kind::Honest, 22, Outcome::Complete);
    late.due = Duration::from_millis(21_999);
    let mut result = LaneResult::default();
    result.load.calls = vec![late];
    let lane = LaneReport::new("any".into(), BTreeMap::new(), &run(), &[result]);
    assert_eq!(
        (lane.honest.attempted, lane.second_half.honest.attempted),
        (1, 0)
    );
}

#[test]
fn a_scaled_run_is_told_in_the_scenarios_own_time() {
    let calls = [call(Kind::Honest, 10, Outcome::Complete)];
    let plain = KindReport::new(calls.iter(), 1.0);
    let fast = KindReport::new(calls.iter(), 0.5);
    assert_eq!(
        fast.in_server_mean_s,
        plain.in_server_mean_s.map(|s| s * 2.0)
    );
    assert_eq!(fast.setup_ms, plain.setup_ms);
}
