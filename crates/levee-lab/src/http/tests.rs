//! Short live runs.

use std::time::Duration;

use levee_policy::Span;
use levee_policy::thinner::{self, Mode};
use levee_sim::model::thinner::{Group, Server, Setup, Split};
use levee_sim::schedule::Kind;

use super::lane::{LaneResult, RunningLane};
use super::origin::Served;
use super::record::{Outcome, RequestRecord};
use super::report::{KindReport, LaneReport};

/// The papers' experiment at a fifth of its length, with a tenth of its bandwidth: 5 good and 5 bad clients before a server of
/// 40 requests a second, which is asked for 210.
pub(crate) fn papers() -> Setup {
    let group = Group {
        clients: 5,
        rate: 2.0,
        window: 1,
        up: 20_000.0,
        patience: Span::from_secs(10),
        request: 200,
        work: 1.0,
        hashes: 1_000.0,
        split: Split::Equal,
        pays: true,
    };
    Setup {
        server: Server {
            rate: 40.0,
            jitter: 0.1,
            backlog: 20,
        },
        defense: None,
        honest: group,
        attack: Group {
            rate: 40.0,
            window: 20,
            ..group
        },
        delay: Span::ZERO,
        warmup: Span::ZERO,
        time: Span::from_secs(2),
        seed: 1,
    }
}

fn run(setup: &Setup) -> LaneResult {
    RunningLane::start(setup).unwrap().wait().unwrap()
}

fn served(result: &LaneResult, kind: Kind) -> usize {
    let all = result.clients.requests.iter();
    all.filter(|r| r.kind == kind && r.outcome == Outcome::Served)
        .count()
}

/// A lane of three requests: a good one and a bad one served, a bad one refused; the one before them falls into the warm-up.
pub(crate) fn lane_report(name: &str) -> LaneReport {
    let mut setup = papers();
    setup.warmup = Span::from_secs(1);
    let ms = Duration::from_millis;
    let request = |id, kind, due, outcome, paid| RequestRecord {
        id,
        kind,
        client: 0,
        due: ms(due),
        begun: Some(ms(due)),
        ended: Some(ms(due + 250)),
        outcome,
        status: 200,
        retries: 2,
        paid,
        channel: paid,
    };
    use Kind::{Attacker, Honest};
    let mut result = LaneResult::default();
    result.clients.requests = vec![
        request(1, Honest, 900, Outcome::Refused, 0),
        request(2, Honest, 1_000, Outcome::Served, 4_000),
        request(3, Attacker, 1_100, Outcome::Served, 6_000),
        request(4, Attacker, 1_200, Outcome::Refused, 100),
        request(5, Honest, 2_900, Outcome::Open, 100),
    ];
    let served = |id, kind, begun, work| Served {
        id,
        kind: Some(kind),
        begun: ms(begun),
        work: ms(work),
        aborted: false,
    };
    result.origin.served = vec![
        served(9, Attacker, 990, 500),
        served(2, Honest, 1_200, 30),
        served(3, Attacker, 1_300, 70),
    ];
    LaneReport::new(
        name.into(),
        std::collections::BTreeMap::new(),
        &setup,
        &[result],
    )
}

#[test]
fn figures_are_of_what_was_wanted_and_worked_on_after_the_warm_up() {
    let lane = lane_report("any");
    // By time of work, not by requests.
    assert!((lane.good_share.unwrap() - 0.3).abs() < 1e-9);
    assert!((lane.server.busy - 0.05).abs() < 1e-9);
    assert_eq!(lane.server.served, 2);
    let counts = |kind: &KindReport| (kind.attempted, kind.complete, kind.unsuccessful, kind.open);
    assert_eq!(counts(&lane.honest), (2, 1, 0, 1));
    assert_eq!(counts(&lane.attacker), (2, 1, 1, 0));
    assert_eq!(lane.honest.complete_share.unwrap().estimate, 1.0);
    assert_eq!(lane.attacker.complete_share.unwrap().estimate, 0.5);
    assert_eq!(lane.honest.price.unwrap().mean, 4_000.0);
    assert_eq!(lane.honest.waited_ms.unwrap().p99, 250.0);
    for kind in [&lane.honest, &lane.attacker] {
        let parts = kind.complete + kind.incomplete + kind.unsuccessful + kind.open;
        assert_eq!(parts, kind.attempted);
    }
}

#[test]
fn a_bare_server_serves_at_its_capacity_whoever_asks_most() {
    let result = run(&papers());
    // 40 a second for 2 s: the sum of 80 uniform times of 25 ms +- 10% is 2 s +- 5 * 25 ms * 0.1 / sqrt(3) * sqrt(80) = 65 ms.
    let total = result.origin.served.len();
    assert!((76..=84).contains(&total), "{total}");
    let [good, bad] = Kind::ALL.map(|kind| served(&result, kind));
    // Of 210 requests a second 10 are good. Their part of 80 is 3.8, within 5 standard deviations of 1.9; they want 20.
    assert!(good <= 13, "{good} good, {bad} bad");
    assert!(result.origin.refused > 200, "{}", result.origin.refused);
    // What was served at the very end may not have come back.
    assert!(total.abs_diff(good + bad) <= 3, "{good} + {bad} of {total}");
}

/// A front that follows a script: what one client says to it, request after request, and what it answers.
mod scripted {
    use std::cell::RefCell;
    use std::io::Result;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::rc::Rc;
    use std::time::{Duration, Instant};

    use levee_sim::schedule::Kind;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::Notify;

    use super::papers;
    use crate::http::client::Client;
    use crate::http::exchange::{Costs, Exchange};
    use crate::http::record::Outcome;
    use crate::http::wire;

    /// What came: the first line and the ticket, and bytes of bodies.
    #[derive(Default)]
    struct Seen {
        asked: RefCell<Vec<String>>,
        paid: RefCell<usize>,
        enough: Notify,
    }

    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    /// A refusal that names a currency.
    fn refusal(pay: &str, price: &str, ticket: &str) -> String {
        format!(
            "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nLevee-Pay: {pay}\r\nLevee-Price: {price}\r\nLevee-Ticket: {ticket}\r\n\
             Content-Length: 0\r\n\r\n"
        )
    }

    /// Answers requests in turn; payments are read until `enough` bytes have come, which lets the request that waits go on.
    async fn connection(
        mut stream: TcpStream,
        seen: Rc<Seen>,
        answers: Rc<RefCell<Vec<String>>>,
        enough: usize,
    ) -> Result<()> {
        let mut buffer = Vec::new();
        loop {
            let head = loop {
                if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
                    let head: Vec<u8> = buffer.drain(..end + 4).collect();
                    break String::from_utf8(head).unwrap();
                }
                if stream.read_buf(&mut buffer).await? == 0 {
                    return Ok(());
                }
            };
            let field = |name: &str| {
                let lines = head.lines();
                lines
                    .filter_map(|l| l.split_once(": "))
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| v.to_owned())
            };
            let line = head.split(" HTTP/").next().unwrap();
            let line = line.split("/r/").next().unwrap().trim_end().to_owned();
            let ticket = field("Levee-Ticket").unwrap_or_default();
            seen.asked
                .borrow_mut()
                .push(format!("{line} {ticket}").trim().to_owned());
            if line.starts_with("POST") {
                let mut left: usize = field("Content-Length").unwrap().parse().unwrap();
                while left > 0 && *seen.paid.borrow() < enough {
                    if buffer.is_empty() && stream.read_buf(&mut buffer).await? == 0 {
                        return Ok(());
                    }
                    let came = buffer.len().min(left);
                    buffer.drain(..came);
                    left -= came;
                    *seen.paid.borrow_mut() += came;
                }
                seen.enough.notify_one();
                let answer = "HTTP/1.1 200 OK\r\nLevee-Ticket: paid\r\nContent-Length: 20\r\n\r\n{\"state\":\"admitted\"}";
                stream.write_all(answer.as_bytes()).await?;
                continue;
            }
            if answers.borrow().len() == 1 && enough > 0 {
                seen.enough.notified().await;
            }
            let answer = answers.borrow_mut().remove(0);
            stream.write_all(answer.as_bytes()).await?;
        }
    }

    /// What a client of 20,000 bytes a second asks, pays and gets.
    async fn exchange(
        answers: Vec<String>,
        enough: usize,
        pays: bool,
    ) -> (Outcome, Vec<String>, usize, Costs, Duration) {
        let listener = wire::listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), 16).unwrap();
        let addr = listener.local_addr().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let (seen, answers) = (Rc::new(Seen::default()), Rc::new(RefCell::new(answers)));
        let own = Rc::clone(&seen);
        let local = tokio::task::LocalSet::new();
        local.spawn_local(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::task::spawn_local(connection(
                    stream,
                    Rc::clone(&own),
                    Rc::clone(&answers),
                    enough,
                ));
            }
        });
        let mut group = papers().honest;
        group.pays = pays;
        let begun = Instant::now();
        let client = Client::new(
            Kind::Honest,
            group,
            addr,
            Ipv4Addr::new(127, 1, 0, 1),
            (begun, Duration::ZERO),
        );
        let costs = Costs::default();
        let asking = Exchange {
            client: &client,
            host: "lab",
            number: 0,
            id: 7,
            costs: &costs,
        };
        let outcome = local.run_until(asking.run(&mut None)).await;
        let (asked, paid) = (seen.asked.take(), seen.paid.take());
        (outcome, asked, paid, costs, begun.elapsed())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_refused_for_good_is_not_asked_again() {
        let plain = "HTTP/1.1 503 Full\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        let (outcome, asked, ..) = exchange(vec![plain.into()], 0, true).await;
        assert_eq!((outcome, asked), (Outcome::Refused, vec!["GET".to_owned()]));
        // Nor is it by who does not pay.
        let (outcome, asked, ..) = exchange(
            vec![refusal("retries", "4;unit=retries;paid=0", "a")],
            0,
            false,
        )
        .await;
        assert_eq!((outcome, asked), (Outcome::Refused, vec!["GET".to_owned()]));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn retries_bring_the_newest_ticket() {
        let price = "4;unit=retries;paid=0";
        let answers = vec![
            refusal("retries", price, "a"),
            refusal("retries", price, "b"),
            OK.into(),
        ];
        let (outcome, asked, paid, costs, _) = exchange(answers, 0, true).await;
        assert_eq!(outcome, Outcome::Served);
        assert_eq!(asked, ["GET", "GET a", "GET b"]);
        assert_eq!((paid, costs.retries.get(), costs.status.get()), (0, 2, 200));
        // Two further requests of 200 bytes.
        assert_eq!((costs.paid.get(), costs.channel.get()), (400, 0));
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_price_is_paid_in_one_stream_while_the_request_waits() {
        let price = "12;unit=retries;paid=2;size=512";
        let answers = vec![
            refusal("retries /.well-known/levee/pay", price, "a"),
            OK.into(),
        ];
        let (outcome, asked, paid, costs, took) = exchange(answers, 9 * 512, true).await;
        assert_eq!(outcome, Outcome::Served);
        let mut asked = asked;
        asked.sort();
        assert_eq!(asked, ["GET", "GET a", "POST /.well-known/levee/pay a"]);
        // Two of the twelve are paid, and the request that waits is one.
        assert_eq!((paid, costs.channel.get()), (9 * 512, 9 * 512));
        // At 20,000 bytes a second, of which a fiftieth may go at once.
        assert!(took > Duration::from_millis(200), "{took:?}");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_bid_is_paid_while_the_request_waits_and_no_longer() {
        let answers = vec![
            refusal("bytes /.well-known/levee/pay", "9;unit=bytes;paid=0", "a"),
            OK.into(),
        ];
        let (outcome, asked, paid, costs, took) = exchange(answers, 4_000, true).await;
        assert_eq!(outcome, Outcome::Served);
        let mut asked = asked;
        asked.sort();
        assert_eq!(asked, ["GET", "GET a", "POST /.well-known/levee/pay a"]);
        // What is on its way when the place is won is lost: a piece or two of 400 bytes.
        assert!((4_000..4_400).contains(&paid), "{paid}");
        assert!((4_000..=5_200).contains(&costs.channel.get()), "{costs:?}");
        assert!(took > Duration::from_millis(180), "{took:?}");
    }
}

#[test]
fn a_client_keeps_to_its_window_its_patience_and_its_bandwidth() {
    let mut setup = papers();
    setup.attack.clients = 0;
    // One client that wants 40 requests of 1,000 bytes a second on a line for 10, one after the other.
    setup.honest.clients = 1;
    setup.honest.rate = 40.0;
    setup.honest.up = 10_000.0;
    setup.honest.request = 1_000;
    setup.honest.patience = Span::from_millis(300);
    setup.server.rate = 1_000.0;
    let result = run(&setup);
    let count = |outcome| {
        let all = result.clients.requests.iter();
        all.filter(|r| r.outcome == outcome).count()
    };
    // 20 in 2 s, and the few hundred bytes that may go at once; a timer's millisecond each.
    let served = count(Outcome::Served);
    assert!((18..=21).contains(&served), "{served}");
    let bytes = result.clients.counts[0].bytes;
    assert!((18_000..=21_300).contains(&bytes), "{bytes}");
    // It wants 80: what is too many waits at the client until its patience is over.
    assert!(count(Outcome::Expired) > 30);
    assert_eq!(count(Outcome::Refused) + count(Outcome::Failed), 0);
    // One at a time.
    let mut sent: Vec<_> = result
        .clients
        .requests
        .iter()
        .filter_map(|r| Some((r.begun?, r.ended?)))
        .collect();
    sent.sort_unstable();
    assert!(sent.windows(2).all(|pair| pair[0].1 <= pair[1].0));
}

#[test]
fn both_sides_count_the_same_and_no_request_tells_whose_it_is() {
    let setup = papers();
    let result = run(&setup);
    let by_name: std::collections::BTreeMap<u64, Kind> = result
        .clients
        .requests
        .iter()
        .map(|r| (r.id, r.kind))
        .collect();
    assert_eq!(
        by_name.len(),
        result.clients.requests.len(),
        "two have one name"
    );
    for served in &result.origin.served {
        assert_eq!(served.kind, by_name.get(&served.id).copied());
    }
    // Names of good and bad requests lie over the whole range alike: the mean of n uniform numbers is within 5 standard errors of
    // a half.
    for kind in Kind::ALL {
        let names: Vec<f64> = by_name
            .iter()
            .filter(|(_, k)| **k == kind)
            .map(|(id, _)| *id as f64 / u64::MAX as f64)
            .collect();
        let n = names.len() as f64;
        let mean = names.iter().sum::<f64>() / n;
        assert!(
            (mean - 0.5).abs() < 5.0 / (12.0 * n).sqrt(),
            "{kind:?}: {mean}"
        );
    }
}

/// As the papers': 10 good clients that want all that the server can do, 10 bad ones that want ten times as much, all with the
/// same bandwidth. A place costs a client half a second of it, which is long beside what a busy machine adds to a round trip. Two
/// requests of a bad client share that, so its first bids are as high as the others after a second (with the papers' window of 20 it
/// takes ten).
fn contested(mode: Mode) -> Setup {
    let mut setup = papers();
    for group in [&mut setup.honest, &mut setup.attack] {
        group.clients = 10;
    }
    setup.honest.rate = 4.0;
    setup.attack.window = 2;
    setup.warmup = Span::from_millis(1_200);
    setup.time = Span::from_millis(1_800);
    setup.defense = Some(thinner::Config {
        mode,
        ..thinner::Config::of(thinner::Capacity::Rate(setup.server.rate))
    });
    setup
}

#[test]
fn good_clients_get_nine_tenths_of_their_share_where_bandwidth_is_the_currency() {
    // At the same time: each needs a small part of a core.
    let lanes = [Mode::Retry, Mode::Auction].map(|mode| {
        let setup = contested(mode);
        (RunningLane::start(&setup).unwrap(), setup)
    });
    for (lane, setup) in lanes {
        let result = lane.wait().unwrap();
        let at = std::collections::BTreeMap::new();
        let lane = LaneReport::new("any".into(), at, &setup, &[result]);
        assert_eq!(lane.ideal_share, 0.5);
        assert!(lane.server.busy > 0.8, "{lane:#?}");
        // Some 72 requests are served: five standard deviations of a share of a half of so many. Without payment it were a tenth.
        let tolerance = 5.0 * (0.25 / lane.server.served as f64).sqrt();
        let share = lane.good_share.unwrap();
        assert!(share > 0.9 * 0.5 - tolerance, "{share} of {lane:#?}");
        assert!(share < 0.5 + tolerance, "{share} of {lane:#?}");
    }
}

#[test]
fn what_the_thinner_counts_is_what_clients_say_that_they_paid() {
    let setup = contested(Mode::Auction);
    let result = run(&setup);
    let thinner = result.thinner().unwrap();
    let said: u64 = result.clients.requests.iter().map(|r| r.channel).sum();
    // Clients' own figures know of requests that are over; what came late, or was on its way, is not the thinner's.
    assert!(thinner.paid > 10_000, "{thinner:?}");
    assert!(
        said as f64 > 0.5 * thinner.paid as f64,
        "{said} of {thinner:?}"
    );
    let all = result.clients.counts.iter().map(|c| c.channel).sum::<u64>();
    // 20 clients of 20,000 bytes a second, and a piece each.
    let most = 20.0 * (20_000.0 * setup.time.as_secs_f64() + 400.0);
    assert!(all as f64 <= most, "{all} bytes, at most {most}");
    assert_eq!(thinner.done.failed, 0, "{thinner:?}");
}
