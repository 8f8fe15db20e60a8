//! What a scenario of kind anycast means, and what is said about a bad one.

use super::super::tests::{at, parse};
use super::*;

const LOOP: &str = r#"[service]
kind = "anycast"
capacity_factor = 2

[[service.site]]
name = "AMS"
capacity = 50_000
ingress = 60_000

[[service.site]]
name = "BOS"
capacity = 40_000

[[service.class]]
name = "near"
load = 300

[[service.class]]
name = "far"
load = 100

[[service.play]]
name = "baseline"
site = ["AMS", "AMS"]

[[service.play]]
name = "+1xAMS"
site = ["AMS", "BOS"]

[[lane]]
name = "bare"

[[lane]]
play = "+1xAMS"

[[lane]]
defense = { kind = "reroute", settle = "3m" }

[honest]
load = 10_000
clock = "2h"
known_good = { rate = 10, error = [0.1, 0.2], claims = 0.05 }

[attack]
kind = "flood"
load = 90_000
from = { kind = "classes", of = { far = 3 } }
shape = { kind = "pulse", on = "5m", off = "2m" }
start = "10m"

[network]
convergence = { kind = "fixed", mean = "0s" }
churn = 2

[run]
time = "2h"
seed = 7
"#;

fn edited(from: &str, to: &str) -> String {
    assert!(LOOP.contains(from), "{from}");
    LOOP.replacen(from, to, 1)
}

#[test]
fn each_key_is_what_the_model_takes() {
    let scenario = parse(LOOP).unwrap();
    let lanes: Vec<_> = scenario.points.iter().map(|p| p.lane.as_str()).collect();
    let three = ["bare", "static-+1xAMS", "reroute"];
    assert_eq!(lanes, [three, three].concat());
    assert_eq!((scenario.lanes, scenario.seed), (3, 7));
    assert_eq!(at(LOOP)[5], "reroute: honest.known_good.error=0.2");
    let setup = scenario.points[5].setup.anycast_model().unwrap();
    let site = |capacity, ingress| model::Site { capacity, ingress };
    assert_eq!(
        setup.sites,
        [site(100_000.0, 120_000.0), site(80_000.0, 80_000.0)]
    );
    assert_eq!(setup.world.weights(), [0.75, 0.25]);
    assert_eq!(
        [setup.world.sites(0), setup.world.sites(1)],
        [[0, 0], [0, 1]]
    );
    let play = &setup.playbook.plays()[1];
    assert_eq!(
        (&play.blocks[..], play.load.as_deref()),
        (&[300, 100][..], Some(&[300.0, 100.0][..]))
    );
    assert_eq!(
        play.routing.announcements.as_ref().unwrap()[0]
            .everyone
            .as_ref()
            .unwrap()
            .prepend,
        1
    );
    let defense = setup.defense.unwrap();
    assert_eq!(defense.settle, Span::from_secs(180));
    let known = setup.honest.known_good;
    assert_eq!(
        (known.error, known.claims, known.located),
        (0.2, 0.05, true)
    );
    assert_eq!(
        (setup.honest.clock, setup.honest.peak),
        (Span::from_secs(7_200), PEAK)
    );
    let attack = setup.attack.unwrap();
    assert_eq!(
        (attack.from, attack.moves),
        (model::Sources::Classes(vec![0.0, 3.0]), None)
    );
    let (on, off) = (Span::from_secs(300), Span::from_secs(120));
    assert_eq!(attack.shape, model::Shape::Pulse { on, off });
    assert!((setup.network.churn - 2.0 / 86_400.0).abs() < 1e-18);
    assert_eq!(setup.network.convergence, Durations::Fixed(Duration::ZERO));
    assert_eq!((setup.calm, setup.flap, setup.seed), (CALM, FLAP, 7));
    let plays: Vec<_> = scenario.points[..3]
        .iter()
        .map(|p| p.setup.anycast_model().unwrap().play)
        .collect();
    assert_eq!(plays, [0, 1, 0]);
    // Another first seed is the model's too.
    let mut scenario = scenario;
    scenario.reseed(9);
    assert_eq!(scenario.points[0].setup.anycast_model().unwrap().seed, 9);
}

/// A playbook as a file, in the place of the one in the scenario.
fn with_file(json: &str) -> Result<Scenario, Problems> {
    let (head, rest) = LOOP.split_once("[[service.class]]").unwrap();
    let (_, rest) = rest.split_once("[[lane]]").unwrap();
    let text = format!("{head}[[lane]]{rest}")
        .replacen("capacity_factor = 2", "playbook = \"book.json\"", 1)
        .replacen(
            "{ kind = \"classes\", of = { far = 3 } }",
            "{ kind = \"sites\", of = { AMS = 3 } }",
            1,
        );
    Scenario::parse("s.toml", &text, &|path| {
        assert_eq!(path, "book.json");
        Ok(json.to_owned())
    })
}

#[test]
fn a_playbook_is_read_from_a_file() {
    let json = r#"{"command": "playbook", "sites": ["BOS", "AMS"], "configurations": [
        {"name": "baseline", "share": {"AMS": 0.75, "BOS": 0.25}, "blocks": 8, "unknown": 1, "partial": false},
        {"name": "+1xAMS", "share": {"AMS": 0.25, "BOS": 0.75}, "blocks": 8, "unknown": 0, "partial": false}]}"#;
    let scenario = with_file(json).unwrap();
    let setup = scenario.points[2].setup.anycast_model().unwrap();
    // In the order of the playbook.
    assert_eq!(setup.sites[0].capacity, 40_000.0);
    assert_eq!(setup.world.shares(0, 2), [0.25, 0.75]);
    assert_eq!(setup.world.shares(1, 2), [0.75, 0.25]);
    assert_eq!(
        setup.attack.unwrap().from,
        model::Sources::Shares(vec![0.0, 3.0])
    );
    let error = with_file("{\n\"sites\": 3}").unwrap_err().to_string();
    assert!(
        error.contains("s.toml:3:12") && error.contains("book.json") && error.contains("line 2"),
        "{error}"
    );
    let error = with_file(&json.replace("BOS", "MIA"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("a site `BOS`, expected one of MIA, AMS"),
        "{error}"
    );
}

/// Scenarios that are refused, with what is wrong.
pub(crate) fn bad() -> Vec<(&'static str, String)> {
    let from = "{ kind = \"classes\", of = { far = 3 } }";
    vec![
        ("a table of another service", edited("[network]", "[model]")),
        (
            "no playbook",
            edited(
                "[[service.play]]\nname = \"baseline\"\nsite = [\"AMS\", \"AMS\"]\n\n[[service.play]]\nname = \"+1xAMS\"\nsite = [\"AMS\", \"BOS\"]\n",
                "",
            ),
        ),
        (
            "two playbooks",
            edited("capacity_factor = 2", "playbook = \"book.json\""),
        ),
        (
            "a playbook that is not there",
            edited("capacity_factor = 2", "playbook = \"book.json\"")
                .split("[[service.class]]")
                .next()
                .unwrap()
                .to_owned()
                + "[honest]\nload = 1\n[run]\ntime = \"1h\"\n",
        ),
        (
            "a site without a name",
            edited("name = \"BOS\"", "name = \"\""),
        ),
        ("a site twice", edited("name = \"BOS\"", "name = \"AMS\"")),
        ("a capacity of nothing", edited("40_000", "0")),
        (
            "a play with too few sites",
            edited("[\"AMS\", \"BOS\"]", "[\"AMS\"]"),
        ),
        (
            "a play with an unknown site",
            edited("[\"AMS\", \"BOS\"]", "[\"AMS\", \"BSO\"]"),
        ),
        (
            "a play twice",
            edited("name = \"+1xAMS\"", "name = \"baseline\""),
        ),
        (
            "shares and classes",
            edited("site = [\"AMS\", \"BOS\"]", "share = { AMS = 1 }"),
        ),
        ("classes without load", edited("load = 300", "load = -1")),
        (
            "an unknown play",
            edited("play = \"+1xAMS\"", "play = \"+2xAMS\""),
        ),
        (
            "a play and a responder",
            edited(
                "play = \"+1xAMS\"",
                "name = \"x\"\nplay = \"+1xAMS\"\ndefense = {}",
            ),
        ),
        (
            "another defence",
            edited("kind = \"reroute\"", "kind = \"seven\""),
        ),
        (
            "a responder out of range",
            edited("settle = \"3m\"", "gain = 2.0"),
        ),
        (
            "a responder in two ways",
            edited(
                "{ kind = \"reroute\", settle = \"3m\" }",
                "{ gain = [0.1, 0.2], wrong = 3 }",
            ),
        ),
        (
            "timeouts of a web server",
            edited("name = \"bare\"", "name = \"bare\"\ntimeouts = \"nginx\""),
        ),
        (
            "a season of more than all",
            edited("clock = \"2h\"", "daily = 1.5"),
        ),
        (
            "an attack on another service",
            edited("\"flood\"", "\"slowloris\""),
        ),
        ("an unknown class", edited("far = 3", "fra = 3")),
        (
            "an unknown site",
            edited(from, "{ kind = \"site\", site = \"MIA\" }"),
        ),
        (
            "a key of other sources",
            edited(from, "{ kind = \"spread\", classes = 3 }"),
        ),
        (
            "sources without their key",
            edited(from, "{ kind = \"concentrated\" }"),
        ),
        (
            "too many classes",
            edited(from, "{ kind = \"concentrated\", classes = 3 }"),
        ),
        (
            "a pulse without a pause",
            edited("on = \"5m\", off = \"2m\"", "on = \"5m\""),
        ),
        (
            "a pause like mitigation",
            edited("off = \"2m\"", "off = \"5m\""),
        ),
        (
            "an attack that does not move",
            edited("start = \"10m\"", "moves = \"5m\""),
        ),
        (
            "convergence from a file",
            edited(
                "{ kind = \"fixed\", mean = \"0s\" }",
                "{ kind = \"file\", path = \"seconds.txt\" }",
            ),
        ),
        (
            "a probability above one",
            edited("churn = 2", "wrong = 1.5"),
        ),
        (
            "too many changes of the network",
            edited("churn = 2", "churn = 1e9"),
        ),
        (
            "too many intervals",
            edited("[run]", "[measure]\ninterval = \"1ms\"\n[run]"),
        ),
        (
            "a run of years",
            edited("time = \"2h\"", "time = \"9999h\""),
        ),
    ]
}
