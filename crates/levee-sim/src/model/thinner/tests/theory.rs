//! The closed forms of the papers, and exact values where there are any.

use super::*;
use crate::erlang;

/// A server alone. Clients have windows and bandwidths beyond what they need, so that requests come as they are wanted, and a
/// refused one is gone.
fn bare(rate: f64, backlog: u32, jitter: f64) -> Setup {
    let mut setup = papers();
    setup.time = Span::from_secs(30);
    setup.server = Server {
        rate,
        jitter,
        backlog,
    };
    for group in [&mut setup.honest, &mut setup.attack] {
        group.window = WINDOW_MAX;
        group.up = 1e12;
        group.patience = Span::from_secs(600);
    }
    setup.attack.rate = 6.0;
    setup
}

#[test]
fn without_a_backlog_the_server_blocks_by_erlang_b() {
    // 50 + 150 requests a second, whatever the law of their service: M/G/1/1.
    for (rate, jitter) in [(100.0, 0.0), (400.0, 1.0)] {
        let blocked = ratio_of(
            &bare(rate, 0, jitter),
            20,
            ["server.refused", "server.offered"],
        );
        assert_near(blocked, erlang::blocking(1, 200.0 / rate), 0.0, "blocked");
    }
}

/// The part that M/G/1/K refuses, with `waiting` places beside the one at the server, by the chain of those left behind at
/// departures (Gross and Harris, section 5.1.8). `arrivals[j]` is the probability of `j` arrivals during a service.
fn blocked(load: f64, waiting: usize, arrivals: &[f64]) -> f64 {
    // Unnormalised weights of 0, 1, ... left behind, each from those before it.
    let mut left = vec![1.0];
    for i in 0..waiting {
        let from: f64 = (1..=i).map(|j| left[j] * arrivals[i + 1 - j]).sum();
        let next = (left[i] - left[0] * arrivals[i] - from) / arrivals[0];
        left.push(next);
    }
    let empty = left[0] / left.iter().sum::<f64>();
    1.0 - 1.0 / (empty + load)
}

#[test]
fn with_a_backlog_it_is_a_queue_with_one_server() {
    for (rate, backlog) in [(100.0, 3), (190.0, 5), (250.0, 4)] {
        // A fixed service: as many arrive in it as of a Poisson law.
        let load: f64 = 200.0 / rate;
        let mut arrivals = vec![(-load).exp()];
        for j in 1..10 {
            arrivals.push(arrivals[j - 1] * load / j as f64);
        }
        let exact = blocked(load, backlog as usize, &arrivals);
        let setup = bare(rate, backlog, 0.0);
        let found = ratio_of(&setup, 20, ["server.refused", "server.offered"]);
        assert_near(found, exact, 0.0, "M/D/1/K");
    }
}

#[test]
fn without_a_thinner_and_with_random_drop_the_share_is_that_of_requests() {
    // g/(g+B) of the server: 50 of 200 requests a second, 10 of 210.
    let found = ratio_of(&bare(100.0, 20, 0.1), 20, GOOD_SHARE);
    assert_near(found, 0.25, 0.0, "bare");
    let mut random = small(Mode::Random);
    for group in [&mut random.honest, &mut random.attack] {
        group.window = 1_000;
    }
    random.attack.rate = 4.0;
    let found = ratio_of(&random, 20, GOOD_SHARE);
    assert_near(found, 10.0 / 30.0, 0.0, "random");
}

/// Good clients that want more than they can get, with `good` of ten clients, and always something to send.
fn saturated(mode: Mode, good: u32) -> Setup {
    let mut setup = small(mode);
    setup.honest.clients = good;
    setup.attack.clients = 10 - good;
    setup.honest.rate = 20.0;
    setup.honest.window = 3;
    setup.honest.patience = Span::from_secs(600);
    setup
}

/// What the winner of an auction may have paid beyond the highest bid of the others, as a part of the price: what one client
/// sends between two auctions, and one piece that is not told yet.
fn overpaid(setup: &Setup) -> f64 {
    let means = setup.honest.bandwidth() + setup.attack.bandwidth();
    let price = means / setup.server.rate;
    let between = setup.honest.up / setup.server.rate;
    between / price + 1.0 / f64::from(CHUNKS)
}

#[test]
fn where_bandwidth_pays_the_good_share_is_theirs_of_the_bandwidth() {
    for (mode, open) in [
        (Mode::Retry, 0.0),
        (Mode::Priced, 1.0),
        (Mode::Auction, 1.0),
    ] {
        for good in [3, 5, 9] {
            let mut setup = saturated(mode, good);
            if mode == Mode::Priced {
                // With a burst the good share was found well below theirs (0.257 of 0.3).
                setup.defense.as_mut().unwrap().burst = Some(1);
            }
            let f = f64::from(good) / 10.0;
            let n = 6;
            let (share, error) = ratio_of(&setup, n, GOOD_SHARE);
            // Draws that are independent differ by at least so much, whatever a few runs say.
            let places = setup.server.rate * setup.time.as_secs_f64() * n as f64;
            let drawn = if mode == Mode::Retry {
                (f * (1.0 - f) / places).sqrt()
            } else {
                0.0
            };
            let found = (share, error.max(drawn));
            // Of two kinds that share the server as f to 1 - f, one that overpays by a part x loses f (1 - f) x.
            let open = open * f * (1.0 - f) * overpaid(&setup);
            assert_near(found, f, open, &format!("{mode:?}, {f} of the bandwidth"));
        }
    }
}

#[test]
fn hashes_buy_their_share_as_bytes_do() {
    let mut setup = saturated(Mode::ProofOfWork, 5);
    setup.honest.hashes = 3e6;
    let found = ratio_of(&setup, 6, GOOD_SHARE);
    assert_near(found, 0.75, 0.75 * 0.25 * overpaid(&setup), "proof of work");
}

#[test]
fn retries_are_those_of_the_papers() {
    // Enough for all good demand of 10/s against 250 tries/s of the bad: r = B/(C - g).
    for rate in [40.0, 50.0] {
        let setup = at_rate(small(Mode::Retry), rate);
        let found = ratio_of(&setup, 20, ["honest.tries", "honest.done"]);
        assert_near(found, 250.0 / (rate - 10.0), 0.0, "B/(C-g)");
    }
    // Not enough: r = (B + G)/C.
    for rate in [20.0, 30.0] {
        let setup = at_rate(saturated(Mode::Retry, 5), rate);
        let found = ratio_of(&setup, 10, ["honest.tries", "honest.done"]);
        assert_near(found, 500.0 / rate, 0.0, "(B+G)/C");
    }
}

#[test]
fn all_good_demand_is_served_from_the_papers_capacity_on() {
    // g(1+B/G) is 20/s. A Poisson demand exceeds its mean for a while, and has 10 s to be made up for.
    for (mode, open) in [(Mode::Retry, 0.0), (Mode::Auction, 0.25)] {
        let served = |part: f64| {
            let mut setup = at_rate(small(mode), 20.0 * part);
            setup.honest.window = 3;
            let open = open * overpaid(&setup);
            (
                ratio_of(&setup, 10, ["honest.done", "honest.attempted"]),
                open,
            )
        };
        let (half, open) = served(0.5);
        assert_near(
            half,
            0.5,
            open,
            &format!("{mode:?}: half of the capacity, half of the demand"),
        );
        let ((enough, _), _) = served(1.3);
        assert!(enough > 0.97, "{mode:?}: {enough}");
    }
}

#[test]
fn finer_pieces_of_a_payment_change_nothing_beyond_a_piece() {
    let setup = saturated(Mode::Auction, 5);
    let share = |chunks| {
        let model = SpeakUp::new(setup.clone()).unwrap().with_chunks(chunks);
        ratio(&runs(model, 6, GOOD_SHARE))
    };
    let (usual, error) = share(CHUNKS);
    for other in [CHUNKS / 2, 2 * CHUNKS] {
        let (found, other_error) = share(other);
        // Whoever wins loses a piece at most: the larger of the two, of a quarter of the price.
        let piece = 0.25 / f64::from(CHUNKS.min(other));
        let tolerance = 5.0 * (error * error + other_error * other_error).sqrt() + piece;
        assert!(
            (found - usual).abs() < tolerance,
            "{other}: {found}, {usual}"
        );
    }
}

#[test]
fn a_client_that_always_pays_gets_what_the_theorem_says_whatever_the_others_do() {
    // One good client with a tenth of the bandwidth, e; the others bank bytes on 60 channels, or pay for one after the other.
    let e = 0.1;
    for split in [Split::Equal, Split::Oldest, Split::Newest] {
        let mut setup = saturated(Mode::Auction, 1);
        setup.attack.split = split;
        setup.attack.window = 60;
        // Until all of their channels have come to the price.
        setup.warmup = Span::from_secs(60);
        let (share, error) = ratio_of(&setup, 6, GOOD_SHARE);
        let least = e / (2.0 - e);
        assert!(share + 5.0 * error > least, "{split:?}: {share}, {least}");
        assert!(share < 1.1 * e, "{split:?}: {share}");
    }
}

#[test]
fn quanta_charge_long_requests_for_their_time() {
    // Bad requests take ten times as long. Charged by the request, equal bandwidth buys them ten times the server.
    let mut setup = saturated(Mode::Auction, 5);
    setup.attack.work = 10.0;
    // A place costs 140 kB, which three channels of 50 kB/s come to in some seconds; twenty would take a minute.
    setup.attack.window = 3;
    setup.warmup = Span::from_secs(30);
    let defense = setup.defense.as_mut().unwrap();
    defense.capacity = Capacity::Concurrency(1);
    let (by_request, error) = ratio_of(&setup, 6, GOOD_SHARE);
    // What one client sends between two auctions, a quarter of a second or so, is a tenth of the price of 140 kB.
    let open = 0.1 * 10.0 / 11.0 / 11.0;
    let gap = (by_request - 1.0 / 11.0).abs();
    assert!(gap < 5.0 * error + open, "{by_request} {error}");
    // With a quantum a request pays for each that it begins. Good ones last 45 to 55 ms and bad ones 450 to 550 ms; equal
    // bandwidth buys equally many quanta, which bring each its time over the mean number that it takes.
    for (quantum, good, bad) in [(50, 1.5, 10.5), (10, 5.5, 50.5)] {
        setup.defense.as_mut().unwrap().quantum = Some(Span::from_millis(quantum));
        let found = ratio_of(&setup, 4, GOOD_SHARE);
        let (good, bad) = (50.0 / good, 500.0 / bad);
        // Between two quanta a client sends a tenth of the price of one.
        let what = format!("quantum of {quantum} ms");
        assert_near(found, good / (good + bad), 0.1 * 0.25, &what);
    }
}
