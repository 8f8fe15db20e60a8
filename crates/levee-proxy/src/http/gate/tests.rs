use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use levee_policy::selective::{self, CallKey, PhaseId, Strategy, phases_of_http};
use levee_policy::thinner::{Capacity, Config, RefuseCause};

use super::*;
use crate::http::settings::ConnectionSettings;

/// One request at once, nobody is turned away for waiting.
fn config(mode: Mode) -> Config {
    let text = format!(
        "kind = \"thinner\"\ncapacity = {{ concurrency = 1 }}\nmode = \"{}\"\npatience = \"1h\"",
        mode.name()
    );
    toml::from_str(&text).unwrap()
}

fn settings(config: Option<Config>) -> HttpSettings {
    let mut settings = HttpSettings::new("test", Vec::new(), "127.0.0.1:1".parse().unwrap());
    settings.defense = config;
    settings
}

fn gate(mode: Mode) -> Arc<Gate> {
    Gate::new(&settings(Some(config(mode))), 1, Recordings::default()).unwrap()
}

fn get<'a>(ticket: Option<&'a str>) -> RequestFacts<'a> {
    asks("GET", "/", ticket)
}

fn asks<'a>(method: &'a str, target: &'a str, ticket: Option<&'a str>) -> RequestFacts<'a> {
    let mut facts = RequestFacts::new(method.as_bytes(), target.as_bytes());
    facts.bytes = 100;
    if let Some(ticket) = ticket {
        facts.note(b"levee-ticket", ticket.as_bytes());
    }
    facts
}

fn admitted(asked: Asked) -> Permit {
    match asked {
        Asked::Admit(permit) => permit,
        other => panic!("{other:?}"),
    }
}

fn refused(asked: Asked) -> Refusal {
    match asked {
        Asked::Refuse(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}

fn waits(asked: Asked) -> Pin<Box<Waiting>> {
    match asked {
        Asked::Wait(waiting) => Box::pin(waiting),
        other => panic!("{other:?}"),
    }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn requests_of(gate: &Gate) -> RequestsSnapshot {
    gate.snapshot().requests.unwrap()
}

/// A ticket, and the request that has the server meanwhile.
fn full(gate: &Arc<Gate>) -> (String, Permit) {
    let serving = admitted(gate.ask(&get(None), None));
    let refusal = refused(gate.ask(&get(None), None));
    (refusal.ticket.as_str().to_owned(), serving)
}

#[test]
fn below_capacity_everybody_passes_and_nothing_is_kept() {
    let gate = gate(Mode::Auction);
    for _ in 0..100 {
        let permit = admitted(gate.ask(&get(None), None));
        assert_eq!((permit.price(), permit.waited()), (0, Span::ZERO));
        permit.done(Outcome::Answered);
    }
    let seen = requests_of(&gate);
    assert_eq!((seen.stats.admitted, seen.stats.done.answered), (100, 100));
    assert_eq!(
        (seen.in_service, seen.contenders, seen.is_overloaded),
        (0, 0, false)
    );
}

#[test]
fn what_is_not_protected_does_not_ask() {
    let mut settings = settings(Some(config(Mode::Auction)));
    settings.protect = vec!["/search".to_owned()];
    let gate = Gate::new(&settings, 1, Recordings::default()).unwrap();
    let serving = admitted(gate.ask(&asks("GET", "/search?q", None), None));
    refused(gate.ask(&asks("GET", "/search?q", None), None));
    admitted(gate.ask(&asks("GET", "/other", None), None));
    drop(serving);
    assert_eq!(requests_of(&gate).stats.done.broken, 1);
}

#[test]
fn who_pays_most_is_next_and_its_ticket_is_used_up() {
    let gate = gate(Mode::Auction);
    let (poor, serving) = full(&gate);
    let rich = refused(gate.ask(&get(None), None)).ticket;
    assert_eq!(
        refused(gate.ask(&get(None), None)).cause,
        Cause::Thinner(RefuseCause::Outbid)
    );
    let mut poor_waits = waits(gate.ask(&get(Some(&poor)), None));
    let mut rich_waits = waits(gate.ask(&get(Some(rich.as_str())), None));
    for (ticket, bytes) in [
        (&poor[..], 1_000),
        (rich.as_str(), 900),
        (rich.as_str(), 900),
    ] {
        let facts = asks("POST", PAY_PATH, Some(ticket));
        let mut meter = poll(pin!(gate.pay(&facts))).unwrap().unwrap();
        assert_eq!(meter.paid(bytes), None);
        let answer = meter.finish();
        assert_eq!(answer.status, 200);
    }
    assert!(poll(poor_waits.as_mut()).is_none() && poll(rich_waits.as_mut()).is_none());
    serving.done(Outcome::Answered);
    assert!(poll(poor_waits.as_mut()).is_none());
    let permit = poll(rich_waits.as_mut()).unwrap().unwrap();
    // The try that was turned away counts with its bytes, and two connections paid.
    assert_eq!(permit.price(), 100 + 900 + 900);
    // The ticket is nothing now: this is a newcomer, who is told the price.
    refused(gate.ask(&get(Some(rich.as_str())), None));
    assert_eq!(requests_of(&gate).tickets.spent, 1);
    let late = poll(pin!(gate.pay(&asks("POST", PAY_PATH, Some(rich.as_str()))))).unwrap();
    assert_eq!(late.unwrap_err().status, 410);
}

#[test]
fn a_client_that_goes_leaves_at_once_whether_it_waits_or_has_just_won() {
    let gate = gate(Mode::Auction);
    let (ticket, serving) = full(&gate);
    drop(waits(gate.ask(&get(Some(&ticket)), None)));
    let seen = requests_of(&gate);
    assert_eq!((seen.contenders, seen.stats.left), (0, 1));
    let waiting = waits(gate.ask(&get(Some(&ticket)), None));
    serving.done(Outcome::Answered);
    assert_eq!(requests_of(&gate).in_service, 1);
    drop(waiting);
    let seen = requests_of(&gate);
    assert_eq!((seen.in_service, seen.stats.done.broken), (0, 1));
}

#[test]
fn what_cannot_be_repeated_is_held_and_not_sent_back() {
    let gate = gate(Mode::Auction);
    let serving = admitted(gate.ask(&get(None), None));
    let mut waiting = waits(gate.ask(&asks("POST", "/", None), None));
    assert!(poll(waiting.as_mut()).is_none());
    serving.done(Outcome::Answered);
    assert!(poll(waiting.as_mut()).unwrap().is_ok());
}

#[test]
fn one_ticket_is_one_contender_and_the_newer_request_has_its_place() {
    let gate = gate(Mode::Auction);
    let (ticket, serving) = full(&gate);
    let mut older = waits(gate.ask(&get(Some(&ticket)), None));
    let mut newer = waits(gate.ask(&get(Some(&ticket)), None));
    assert_eq!(requests_of(&gate).contenders, 1);
    assert_eq!(
        poll(older.as_mut()).unwrap().unwrap_err().cause,
        Cause::Duplicate
    );
    drop(older);
    assert_eq!(
        requests_of(&gate).contenders,
        1,
        "the place is the newer one's"
    );
    serving.done(Outcome::Answered);
    assert!(poll(newer.as_mut()).unwrap().is_ok());
    assert_eq!(requests_of(&gate).tickets.taken_over, 1);
}

#[test]
fn an_older_request_that_is_dropped_unseen_takes_nothing_from_the_newer() {
    let gate = gate(Mode::Auction);
    let (ticket, _serving) = full(&gate);
    let older = waits(gate.ask(&get(Some(&ticket)), None));
    let newer = waits(gate.ask(&get(Some(&ticket)), None));
    drop(older);
    assert_eq!(requests_of(&gate).contenders, 1);
    drop(newer);
    assert_eq!(requests_of(&gate).contenders, 0);
}

#[test]
fn a_forged_ticket_is_no_ticket() {
    let gate = gate(Mode::Auction);
    let (ticket, _serving) = full(&gate);
    let other = gate_of_another();
    assert!(other != ticket);
    refused(gate.ask(&get(Some(&other)), None));
    refused(gate.ask(&get(Some("x")), None));
    assert_eq!(requests_of(&gate).tickets.forged, 2);
    let pay = poll(pin!(gate.pay(&asks("POST", PAY_PATH, Some(&other))))).unwrap();
    assert_eq!(pay.unwrap_err().status, 400);
}

fn gate_of_another() -> String {
    full(&gate(Mode::Auction)).0
}

#[test]
fn a_ticket_that_is_tried_for_too_long_asks_a_person() {
    let mut gate = gate(Mode::Auction);
    let (ticket, serving) = full(&gate);
    drop(serving);
    Arc::get_mut(&mut gate).unwrap().start -= Duration::from_secs(200);
    let _serving = admitted(gate.ask(&get(None), None));
    assert_eq!(
        refused(gate.ask(&get(Some(&ticket)), None)).cause,
        Cause::Exhausted
    );
}

#[test]
fn tries_and_payments_are_carried_on() {
    for (mode, paid) in [
        (Mode::Auction, 300),
        (Mode::Priced, 3),
        (Mode::Retry, 3),
        (Mode::Random, 0),
    ] {
        let gate = gate(mode);
        let _serving = admitted(gate.ask(&get(None), None));
        let mut ticket = refused(gate.ask(&get(None), None)).ticket;
        for round in 1..=2 {
            let refusal = match gate.ask(&get(Some(ticket.as_str())), None) {
                Asked::Refuse(refusal) => refusal,
                Asked::Wait(mut waiting) => {
                    let patience = gate.now() + Span::from_secs(round * 3_601);
                    gate.requests().as_mut().unwrap().due(patience);
                    poll(Pin::new(&mut waiting)).unwrap().unwrap_err()
                }
                Asked::Admit(permit) => panic!("{permit:?}"),
            };
            ticket = refusal.ticket;
        }
        let opened = gate
            .tickets
            .open(ticket.as_str().as_bytes(), gate.now())
            .unwrap();
        assert_eq!((opened.tries, opened.paid), (3, paid), "{mode:?}");
    }
}

/// The line is one of first tries: who was turned away for its patience, and comes again, is before those who came meanwhile.
#[test]
fn who_comes_again_has_not_lost_its_turn() {
    let mut config = config(Mode::Queue);
    config.patience = Span::from_millis(500);
    let gate = Gate::new(&settings(Some(config)), 1, Recordings::default()).unwrap();
    let serving = admitted(gate.ask(&get(None), None));
    let mut early = waits(gate.ask(&get(None), None));
    std::thread::sleep(Duration::from_millis(501));
    gate.requests().as_mut().unwrap().due(gate.now());
    let ticket = poll(early.as_mut()).unwrap().unwrap_err().ticket;
    let mut late = waits(gate.ask(&get(None), None));
    let mut again = waits(gate.ask(&get(Some(ticket.as_str())), None));
    serving.done(Outcome::Answered);
    let permit = poll(again.as_mut()).unwrap().unwrap();
    assert!(poll(late.as_mut()).is_none());
    permit.done(Outcome::Answered);
    assert!(poll(late.as_mut()).unwrap().is_ok());
}

#[test]
fn a_proof_counts_as_the_work_that_it_stands_for() {
    let gate = gate(Mode::ProofOfWork);
    let (ticket, serving) = full(&gate);
    let nonce = (0_u64..).map(|nonce| nonce.to_string());
    let nonce =
        { nonce }.find(|nonce| pages::hashes_of(ticket.as_bytes(), nonce.as_bytes()) >= 256);
    let nonce = nonce.unwrap();
    let worth = pages::hashes_of(ticket.as_bytes(), nonce.as_bytes());
    let mut facts = get(Some(&ticket));
    facts.note(b"levee-pay", nonce.as_bytes());
    let mut waiting = waits(gate.ask(&facts, None));
    let pay = poll(pin!(gate.pay(&asks("POST", PAY_PATH, Some(&ticket))))).unwrap();
    assert_eq!(pay.unwrap_err().status, 409, "bytes buy nothing here");
    serving.done(Outcome::Answered);
    assert_eq!(poll(waiting.as_mut()).unwrap().unwrap().price(), worth);
}

#[test]
fn a_place_that_a_script_won_is_taken_by_the_reload() {
    let gate = gate(Mode::Auction);
    let (ticket, serving) = full(&gate);
    let wait = asks("GET", WAIT_PATH, Some(&ticket));
    let mut waiting = waits(gate.ask(&wait, None));
    serving.done(Outcome::Answered);
    let permit = poll(waiting.as_mut()).unwrap().unwrap();
    let answer = gate.park(&wait, permit);
    let cookie = answer
        .fields
        .iter()
        .find(|(name, _)| *name == "set-cookie")
        .unwrap();
    let cookie = cookie.1.split(';').next().unwrap().to_owned();
    // Somebody else gets nothing by it.
    refused(gate.ask(&get(None), None));
    assert_eq!(requests_of(&gate).parked, 1);
    // Asked once more, as a browser may after a broken connection.
    admitted(gate.ask(&wait, None));
    let mut reload = get(None);
    reload.note(b"cookie", cookie.as_bytes());
    let permit = admitted(gate.ask(&reload, None));
    assert_eq!(requests_of(&gate).in_service, 1);
    refused(gate.ask(&reload, None));
    permit.done(Outcome::Answered);
    let seen = requests_of(&gate);
    assert_eq!(
        (seen.in_service, seen.parked, seen.tickets.claimed),
        (0, 0, 1)
    );
}

#[test]
fn a_place_that_nobody_takes_is_free_again() {
    let gate = gate(Mode::Auction);
    let (ticket, serving) = full(&gate);
    let wait = asks("GET", WAIT_PATH, Some(&ticket));
    let mut waiting = waits(gate.ask(&wait, None));
    serving.done(Outcome::Answered);
    gate.park(&wait, poll(waiting.as_mut()).unwrap().unwrap());
    let later = gate.now() + CLAIM_HOLD;
    let deadline = gate.requests().as_ref().unwrap().deadline().unwrap();
    assert!(deadline <= later);
    gate.requests().as_mut().unwrap().due(later);
    let seen = requests_of(&gate);
    assert_eq!(
        (seen.in_service, seen.parked, seen.tickets.unclaimed),
        (0, 0, 1)
    );
}

#[test]
fn only_a_good_ticket_has_a_place_to_wait_for() {
    let gate = gate(Mode::Auction);
    let refusal = refused(gate.ask(&asks("GET", WAIT_PATH, None), None));
    assert_eq!(refusal.cause, Cause::NoTicket);
    let answer = gate.answer(&asks("GET", WAIT_PATH, None), &refusal);
    assert_eq!(answer.status, 400);
    assert_eq!(requests_of(&gate).stats.arrivals, 0);
}

#[tokio::test(start_paused = true)]
async fn a_payment_waits_for_its_request_and_not_for_ever() {
    let gate = gate(Mode::Auction);
    let (ticket, _serving) = full(&gate);
    let facts = asks("POST", PAY_PATH, Some(&ticket));
    let began = tokio::time::Instant::now();
    let refused = gate.pay(&facts).await.unwrap_err();
    assert_eq!((refused.status, began.elapsed().as_secs()), (409, 2));
    assert!(gate.requests().as_ref().unwrap().is_expecting_nobody());
    let (one, two) = (gate.pay(&facts), gate.pay(&facts));
    let (mut one, mut two) = (pin!(one), pin!(two));
    assert!(poll(one.as_mut()).is_none() && poll(two.as_mut()).is_none());
    let _waiting = waits(gate.ask(&get(Some(&ticket)), None));
    let mut one = one.await.unwrap();
    let mut two = two.await.unwrap();
    assert_eq!((one.paid(10), two.paid(20)), (None, None));
    assert_eq!(requests_of(&gate).stats.paid, 30);
    assert_eq!(gate.snapshot().channels, 2);
    drop((one, two));
    assert_eq!(gate.snapshot().channels, 0);
}

#[tokio::test]
async fn a_channel_is_told_when_its_request_is_decided() {
    let gate = gate(Mode::Auction);
    let (ticket, serving) = full(&gate);
    let facts = asks("POST", PAY_PATH, Some(&ticket));
    let waiting = waits(gate.ask(&get(Some(&ticket)), None));
    let meter = gate.pay(&facts).await.unwrap();
    assert!(!meter.is_closed() && poll(pin!(meter.closed())).is_none());
    serving.done(Outcome::Answered);
    meter.closed().await;
    assert!(
        std::str::from_utf8(&meter.finish().body)
            .unwrap()
            .contains("\"state\":\"admitted\"")
    );
    let _permit = waiting.await.unwrap();
    let other = refused(gate.ask(&get(None), None)).ticket;
    let waiting = waits(gate.ask(&get(Some(other.as_str())), None));
    let meter = gate
        .pay(&asks("POST", PAY_PATH, Some(other.as_str())))
        .await
        .unwrap();
    drop(waiting);
    meter.closed().await;
    assert!(
        std::str::from_utf8(&meter.finish().body)
            .unwrap()
            .contains("\"state\":\"gone\"")
    );
}

#[test]
fn payment_is_shed_before_anything_else() {
    let mut settings = settings(Some(config(Mode::Auction)));
    settings.limits.connections_max = 2;
    settings.payment.bytes_per_second_max = Some(1_000_000);
    let gate = Gate::new(&settings, 1, Recordings::default()).unwrap();
    let (ticket, _serving) = full(&gate);
    let _waiting = waits(gate.ask(&get(Some(&ticket)), None));
    let facts = asks("POST", PAY_PATH, Some(&ticket));
    let mut meter = poll(pin!(gate.pay(&facts))).unwrap().unwrap();
    // Half of the connections may pay, so one.
    let second = poll(pin!(gate.pay(&facts))).unwrap().unwrap_err();
    assert_eq!(second.status, 503);
    // A tenth of a second at once, and what is above it waits its time.
    assert_eq!(meter.paid(90_000), None);
    let pause = meter.paid(500_000).unwrap();
    assert!(
        pause > Duration::from_millis(400) && pause <= Duration::from_millis(490),
        "{pause:?}"
    );
    let seen = requests_of(&gate).payment;
    assert_eq!(
        (
            seen.opened,
            seen.bytes,
            seen.shed_channels,
            seen.shed_pauses
        ),
        (1, 590_000, 1, 1)
    );
}

#[test]
fn a_payment_that_is_none_is_told_so() {
    let gate = gate(Mode::Auction);
    for (method, ticket, status) in [
        ("GET", None, 405),
        ("POST", None, 400),
        ("POST", Some("x"), 400),
    ] {
        let answer = poll(pin!(gate.pay(&asks(method, PAY_PATH, ticket))))
            .unwrap()
            .unwrap_err();
        assert_eq!(answer.status, status, "{method} {ticket:?}");
    }
    assert_eq!(requests_of(&gate).payment.unknown, 2);
    assert_eq!(gate.snapshot().channels, 0);
}

#[test]
fn a_dry_run_decides_and_lets_pass() {
    for mode in [Mode::Auction, Mode::Random] {
        let mut settings = settings(Some(config(mode)));
        settings.dry_run = true;
        let gate = Gate::new(&settings, 1, Recordings::default()).unwrap();
        let first = admitted(gate.ask(&get(None), None));
        let second = admitted(gate.ask(&asks("POST", "/", None), None));
        let third = admitted(gate.ask(&get(None), None));
        let seen = requests_of(&gate);
        let held = u64::from(mode == Mode::Auction);
        assert_eq!(
            (seen.tickets.would_hold, seen.tickets.would_refuse),
            (held, 2 - held)
        );
        first.done(Outcome::Answered);
        // Whoever waited in the thinner's eyes has the place now.
        assert_eq!(requests_of(&gate).in_service, u32::try_from(held).unwrap());
        second.done(Outcome::Answered);
        third.done(Outcome::Answered);
        let seen = requests_of(&gate);
        assert_eq!(
            (seen.in_service, seen.contenders, seen.stats.done.answered),
            (0, 0, 1 + held)
        );
        assert_eq!(seen.stats.ignored, Default::default());
    }
}

#[test]
fn in_bypass_nothing_is_asked() {
    let mut settings = settings(Some(config(Mode::Auction)));
    settings.bypass = true;
    settings.connections = Some(table(1));
    let gate = Gate::new(&settings, 1, Recordings::default()).unwrap();
    let _permits = [(); 5].map(|()| admitted(gate.ask(&get(None), None)));
    let _places = [(); 5].map(|()| gate.connect(peer()).unwrap());
    let seen = gate.snapshot();
    assert!(seen.requests.is_none() && seen.connections.is_none());
}

#[test]
fn a_thinner_comes_and_goes_while_requests_are_there() {
    let gate = Gate::new(&settings(None), 1, Recordings::default()).unwrap();
    let before = admitted(gate.ask(&get(None), None));
    gate.reload(&settings(Some(config(Mode::Auction)))).unwrap();
    before.done(Outcome::Answered);
    let (ticket, serving) = full(&gate);
    let mut waiting = waits(gate.ask(&get(Some(&ticket)), None));
    // Another currency: who waits goes on waiting.
    gate.reload(&settings(Some(config(Mode::Queue)))).unwrap();
    assert!(poll(waiting.as_mut()).is_none());
    gate.reload(&settings(None)).unwrap();
    assert!(poll(waiting.as_mut()).unwrap().is_ok());
    serving.done(Outcome::Answered);
    admitted(gate.ask(&get(None), None));
    let mut bad = config(Mode::Auction);
    bad.capacity = Capacity::Concurrency(0);
    assert!(matches!(
        gate.reload(&settings(Some(bad))),
        Err(GateError::Defense(_))
    ));
}

#[test]
fn a_verdict_wakes_the_task_of_another_thread() {
    let gate = gate(Mode::Auction);
    let (ticket, serving) = full(&gate);
    let (told, tell) = std::sync::mpsc::channel();
    let other = Arc::clone(&gate);
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let waiting = waits(other.ask(&get(Some(&ticket)), None));
            told.send(()).unwrap();
            waiting.await.unwrap().done(Outcome::Answered);
        });
    });
    tell.recv().unwrap();
    serving.done(Outcome::Answered);
    thread.join().unwrap();
    assert_eq!(requests_of(&gate).stats.done.answered, 2);
}

#[tokio::test]
async fn the_timer_admits_at_the_rate_when_nobody_asks() {
    let mut config = config(Mode::Queue);
    config.capacity = Capacity::Rate(50.0);
    config.burst = Some(1);
    let gate = Gate::new(&settings(Some(config)), 1, Recordings::default()).unwrap();
    let timer = tokio::spawn(Gate::run(Arc::downgrade(&gate)));
    let began = Instant::now();
    let _first = admitted(gate.ask(&get(None), None));
    let waiting: Vec<_> = (0..10).map(|_| waits(gate.ask(&get(None), None))).collect();
    for waiting in waiting {
        waiting.await.unwrap().done(Outcome::Answered);
    }
    // The tenth comes at 200 ms, and one that waits is at most one interval early.
    assert!(
        began.elapsed() >= Duration::from_millis(180),
        "{:?}",
        began.elapsed()
    );
    timer.abort();
}

#[test]
fn a_long_request_loses_the_server_and_gets_it_back() {
    let mut config = config(Mode::Auction);
    config.quantum = Some(Span::from_millis(10));
    let gate = Gate::new(&settings(Some(config)), 1, Recordings::default()).unwrap();
    let (ticket, mut serving) = full(&gate);
    let mut waiting = waits(gate.ask(&get(Some(&ticket)), None));
    let mut meter = poll(pin!(gate.pay(&asks("POST", PAY_PATH, Some(&ticket)))))
        .unwrap()
        .unwrap();
    assert_eq!(meter.paid(1_000), None);
    assert!(poll(pin!(serving.order())).is_none());
    let later = gate.now() + Span::from_millis(11);
    gate.requests().as_mut().unwrap().due(later);
    assert_eq!(poll(pin!(serving.order())), Some(Order::Suspend));
    let rival = poll(waiting.as_mut()).unwrap().unwrap();
    assert!(!meter.is_closed(), "it goes on to pay for its next quantum");
    rival.done(Outcome::Answered);
    assert!(meter.is_closed());
    assert_eq!(poll(pin!(serving.order())), Some(Order::Resume));
    serving.done(Outcome::Answered);
    assert_eq!(requests_of(&gate).stats.done.answered, 2);
}

fn peer() -> IpAddr {
    "192.0.2.1".parse().unwrap()
}

fn table(capacity: u32) -> ConnectionSettings {
    let mut defense = selective::Config::of_kind(selective::Kind::Seven);
    defense.phases = phases_of_http();
    // Always the one with the largest drop factor.
    defense.strategy = Strategy::Tournament {
        size: Some(capacity),
    };
    ConnectionSettings {
        capacity,
        defense,
        record: None,
    }
}

fn connections(capacity: u32) -> Arc<Gate> {
    let mut settings = settings(None);
    settings.connections = Some(table(capacity));
    Gate::new(&settings, 1, Recordings::default()).unwrap()
}

/// Connects until somebody is dropped for it: `P1` refuses some.
fn displace(gate: &Arc<Gate>) -> Place {
    (0..1_000).find_map(|_| gate.connect(peer()).ok()).unwrap()
}

fn connections_of(gate: &Gate) -> ConnectionsSnapshot {
    gate.snapshot().connections.unwrap()
}

#[test]
fn while_there_is_room_every_connection_is_served() {
    let gate = connections(8);
    let places: Vec<_> = (0..8).map(|_| gate.connect(peer()).unwrap()).collect();
    assert!(
        places
            .iter()
            .all(|place| poll(pin!(place.ready())).is_some() && !place.is_evicted())
    );
    drop(places);
    let seen = connections_of(&gate);
    assert_eq!(
        (seen.held, seen.stats.ended, seen.stats.evicted.total()),
        (0, 8, 0)
    );
    assert!(!gate.snapshot().is_pressed);
}

#[test]
fn the_slowest_is_closed_for_a_newcomer_who_is_served_when_it_has_left() {
    let mut gate = connections(8);
    let mut places: Vec<_> = (0..8).map(|_| gate.connect(peer()).unwrap()).collect();
    for (index, place) in places.iter_mut().enumerate() {
        // Each waits for the server, but for one that sends its headers.
        if index != 3 {
            place.enter(PhaseId::WAITING);
        }
    }
    let news = displace(&gate);
    assert!(poll(pin!(news.ready())).is_none());
    let evicted: Vec<_> = places.iter().map(Place::is_evicted).collect();
    assert_eq!(evicted.iter().filter(|evicted| **evicted).count(), 1);
    assert!(evicted[3] && poll(pin!(places[3].evicted())).is_some());
    drop(places.remove(3));
    assert!(poll(pin!(news.ready())).is_some());
    drop((places, news));
    assert_eq!(connections_of(&gate).held, 0);
    assert!(Arc::get_mut(&mut gate).is_some());
}

#[test]
fn what_was_not_reported_while_there_was_room_is_known_when_there_is_none() {
    let gate = connections(16);
    let mut places: Vec<_> = (0..8).map(|_| gate.connect(peer()).unwrap()).collect();
    for place in &mut places {
        place.enter(PhaseId::BODY);
        place.progress(1 << 20);
        place.enter(PhaseId::SENDING);
    }
    let phases = |gate: &Gate| {
        let connections = gate.connections();
        let machine = &connections.as_ref().unwrap().driven.machine;
        [PhaseId::HEADERS, PhaseId::BODY, PhaseId::SENDING]
            .map(|phase| machine.calls_in_phase(phase))
    };
    assert_eq!(phases(&gate), [8, 0, 0]);
    assert!(!gate.snapshot().is_pressed);
    let more: Vec<_> = (0..7).map(|_| gate.connect(peer()).unwrap()).collect();
    assert!(gate.snapshot().is_pressed);
    assert_eq!(phases(&gate), [7, 0, 8]);
    // From now on at once.
    places[0].enter(PhaseId::BODY);
    assert_eq!(phases(&gate), [7, 1, 7]);
    drop(more);
    assert!(!gate.snapshot().is_pressed);
}

#[test]
fn progress_is_reported_in_time_and_no_more_often() {
    let gate = connections(1);
    let mut place = gate.connect(peer()).unwrap();
    let _newcomer = gate.connect(peer());
    assert!(gate.snapshot().is_pressed);
    let began = Instant::now();
    let (mut calls, mut reports) = (0_u32, 0_u32);
    while began.elapsed() < Duration::from_millis(400) {
        let before = place.reported;
        place.progress(1);
        calls += 1;
        reports += u32::from(place.reported != before);
    }
    // Each eighth of the headers' usual second.
    assert!(
        (2..=3).contains(&reports) && calls > 100,
        "{reports} of {calls}"
    );
}

/// A transfer begins behind: what proves it is known at once, and what came before the phase could be told counts.
#[test]
fn a_transfer_in_progress_is_not_taken_for_one_that_has_yet_to_begin() {
    let gate = connections(8);
    let mut places: Vec<_> = (0..8).map(|_| gate.connect(peer()).unwrap()).collect();
    assert!(gate.snapshot().is_pressed);
    // Nobody is further behind than the clock is old.
    let old = Span::from_millis(300);
    std::thread::sleep(Duration::from_millis(300));
    let is_behind = |place: &Place| {
        let key = CallKey(place.table.as_ref().unwrap().1);
        let connections = gate.connections();
        let (_, lag) = connections
            .as_ref()
            .unwrap()
            .driven
            .machine
            .phase(key)
            .unwrap();
        lag.unwrap() >= old
    };
    for phase in [PhaseId::BODY, PhaseId::SENDING] {
        let place = &mut places[0];
        place.enter(phase);
        assert!(is_behind(place), "{phase:?}: nothing came");
        place.progress(1 << 20);
        assert!(!is_behind(place), "{phase:?}: the first of it");
        place.enter(PhaseId::WAITING);
        place.progress(1 << 20);
        place.enter(phase);
        assert!(is_behind(place), "{phase:?}: of another phase");
        place.enter(PhaseId::WAITING);
        place.enter_with(phase, 1 << 20);
        assert!(!is_behind(place), "{phase:?}: what came with it");
    }
}

#[test]
fn a_tunnel_is_never_given_up() {
    let gate = connections(2);
    let mut tunnel = gate.connect(peer()).unwrap();
    let other = gate.connect(peer()).unwrap();
    tunnel.become_tunnel();
    assert_eq!(connections_of(&gate).held, 2);
    let news = displace(&gate);
    assert!(other.is_evicted() && !tunnel.is_evicted());
    drop(other);
    for _ in 0..20 {
        let newer = displace(&gate);
        assert!(!tunnel.is_evicted());
        drop(newer);
    }
    drop((tunnel, news));
    assert_eq!(connections_of(&gate).held, 0);
}

#[test]
fn a_dry_run_closes_nobody() {
    let mut settings = settings(None);
    settings.connections = Some(table(2));
    settings.dry_run = true;
    let gate = Gate::new(&settings, 1, Recordings::default()).unwrap();
    let places: Vec<_> = (0..50).map(|_| gate.connect(peer()).unwrap()).collect();
    assert!(
        places
            .iter()
            .all(|place| !place.is_evicted() && poll(pin!(place.ready())).is_some())
    );
    let seen = connections_of(&gate);
    assert_eq!(seen.would_evict + seen.would_refuse, 48);
    assert!(seen.would_evict > 0 && seen.would_refuse > 0);
    drop(places);
    let seen = connections_of(&gate);
    assert_eq!((seen.held, seen.evicting, seen.queued), (0, 0, 0));
}

#[test]
fn an_address_is_known_again_and_a_neighbour_is_another() {
    let gate = gate(Mode::Auction);
    let id = |text: &str| gate.identity(text.parse().unwrap());
    assert_eq!(id("192.0.2.1"), id("::ffff:192.0.2.1"));
    assert_ne!(id("192.0.2.1"), id("192.0.2.2"));
    assert_eq!(id("2001:db8::1"), id("2001:db8::ffff:1"));
    assert_ne!(id("2001:db8::1"), id("2001:db8:0:1::1"));
}
