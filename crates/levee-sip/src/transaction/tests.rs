//! Every arrow of RFC 3261 figures 5 to 8 with those of RFC 6026, as tables; and the same machines against a naive one that
//! keeps each timer by its letter.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::Kind::{Invite, NonInvite};
use super::*;

mod naive;

use naive::{NaiveClient, NaiveServer, first};

const MS: Duration = Duration::from_millis(1);
const REQUEST: &[u8] = b"request";
const ACK: &[u8] = b"ack";

/// What happens to a transaction, besides time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A response comes (client) or is sent (server).
    Code(u16),
    /// A CANCEL is sent.
    Cancel,
    /// The transport fails.
    Fail,
    /// The request comes again.
    Again,
    /// The ACK comes.
    Ack,
}
use Event::{Again, Cancel, Code, Fail};

/// Events at their milliseconds, then all the timers that are left: what comes out, each with its millisecond. Ends when the
/// transaction waits for nothing.
fn run(
    events: &[(u64, Event)],
    deadline: impl Fn() -> Duration,
    mut apply: impl FnMut(u64, Option<Event>) -> String,
) -> String {
    let mut log: Vec<String> = Vec::new();
    let mut events = events.iter();
    let mut next = events.next();
    for _ in 0..1000 {
        let due = deadline();
        let (at, event) = match next {
            Some((at, e)) if MS * (*at as u32) < due => {
                next = events.next();
                (*at, Some(*e))
            }
            _ if due == Duration::MAX => return log.join(", "),
            _ => (due.as_millis() as u64, None),
        };
        let out = apply(at, event);
        log.push(format!("{at} {out}"));
    }
    panic!("it goes on for ever: {log:?}");
}

fn client(kind: Kind, reliable: bool, events: &[(u64, Event)]) -> String {
    let t = TimerValues::default();
    let it = core::cell::RefCell::new(ClientTransaction::new(
        Duration::ZERO,
        kind,
        reliable,
        REQUEST.to_vec(),
        &t,
    ));
    run(
        events,
        || it.borrow().deadline(),
        |at, event| client_step(&mut it.borrow_mut(), MS * at as u32, event, &t),
    )
}

fn client_step(
    it: &mut ClientTransaction,
    now: Duration,
    event: Option<Event>,
    t: &TimerValues,
) -> String {
    match event {
        None => match it.on_timer(now, t) {
            OnClientTimer::Nothing => String::from("nothing"),
            OnClientTimer::Retransmit => {
                assert_eq!(it.packet(), REQUEST);
                String::from("resend")
            }
            OnClientTimer::TimedOut => format!("timeout {:?}", it.state()),
            OnClientTimer::Terminated => format!("{:?}", it.state()),
        },
        Some(Code(code)) => {
            let OnResponse { pass, ack } = it.on_response(now, code, t);
            let verb = match (pass, ack) {
                (true, Ack::No) => "pass",
                (false, Ack::No) => "absorb",
                (true, Ack::Make) => {
                    assert_eq!(it.packet(), REQUEST, "the ACK is made from it");
                    it.set_ack(ACK.to_vec());
                    "pass+ack"
                }
                (false, Ack::Again) => {
                    assert_eq!(it.packet(), ACK);
                    "ack"
                }
                odd => panic!("{odd:?}"),
            };
            format!("{verb} {:?}", it.state())
        }
        Some(Cancel) => {
            it.cancelled(now, t);
            String::from("cancel")
        }
        Some(Fail) => {
            it.fail();
            format!("fail {:?}", it.state())
        }
        Some(odd) => panic!("{odd:?} is for servers"),
    }
}

fn server(kind: Kind, reliable: bool, events: &[(u64, Event)]) -> String {
    let t = TimerValues::default();
    let it = core::cell::RefCell::new(ServerTransaction::new(kind, reliable));
    run(
        events,
        || it.borrow().deadline(),
        |at, event| server_step(&mut it.borrow_mut(), MS * at as u32, event, &t),
    )
}

fn server_step(
    it: &mut ServerTransaction,
    now: Duration,
    event: Option<Event>,
    t: &TimerValues,
) -> String {
    let last = |it: &ServerTransaction| String::from_utf8(it.last().to_vec()).unwrap();
    match event {
        None => match it.on_timer(now, t) {
            OnServerTimer::Nothing => String::from("nothing"),
            OnServerTimer::Retransmit => format!("resend {}", last(it)),
            OnServerTimer::Terminated { unacknowledged } => {
                assert_eq!(it.state(), ServerState::Terminated);
                String::from(if unacknowledged {
                    "no ACK Terminated"
                } else {
                    "Terminated"
                })
            }
        },
        Some(Code(code)) => {
            let sent = it.on_send(now, code, format!("{code}").as_bytes(), t);
            format!(
                "{} {:?}",
                if sent { "send" } else { "withhold" },
                it.state()
            )
        }
        Some(Again) => {
            if it.on_request_again() {
                format!("resend {}", last(it))
            } else {
                String::from("absorb")
            }
        }
        Some(Event::Ack) => {
            let waited = it.on_ack(now, t);
            format!("{} {:?}", if waited { "ack" } else { "stray" }, it.state())
        }
        Some(odd) => panic!("{odd:?} is for clients"),
    }
}

const UDP: bool = false;
const TCP: bool = true;

/// Who, over what, what happens, what comes out.
type Row<'a> = (Kind, bool, &'a [(u64, Event)], &'a str);

fn check(table: &[Row<'_>], got: fn(Kind, bool, &[(u64, Event)]) -> String) {
    for (kind, reliable, events, want) in table {
        assert_eq!(
            got(*kind, *reliable, events),
            *want,
            "{kind:?} reliable={reliable} {events:?}"
        );
    }
}

#[test]
fn invite_client() {
    check(
        &[
            // Timers A and B.
            (
                Invite,
                UDP,
                &[],
                "500 resend, 1500 resend, 3500 resend, 7500 resend, 15500 resend, 31500 resend, 32000 timeout Terminated",
            ),
            (Invite, TCP, &[], "32000 timeout Terminated"),
            // A provisional answer ends both; timer C runs from the sending on, and anew from each 101 to 199.
            (
                Invite,
                UDP,
                &[(600, Code(100))],
                "500 resend, 600 pass Proceeding, 185000 timeout Terminated",
            ),
            (
                Invite,
                TCP,
                &[(600, Code(100)), (100_000, Code(100))],
                "600 pass Proceeding, 100000 pass Proceeding, 185000 timeout Terminated",
            ),
            (
                Invite,
                UDP,
                &[
                    (100, Code(180)),
                    (1_000, Code(100)),
                    (184_000, Code(199)),
                    (184_001, Code(100)),
                ],
                "100 pass Proceeding, 1000 pass Proceeding, 184000 pass Proceeding, 184001 pass Proceeding, \
                 369000 timeout Terminated",
            ),
            (
                Invite,
                UDP,
                &[(100, Code(101)), (185_099, Code(101))],
                "100 pass Proceeding, 185099 pass Proceeding, 370099 timeout Terminated",
            ),
            // 300 to 699: passed once, acknowledged each time, timer D.
            (
                Invite,
                UDP,
                &[(100, Code(300)), (200, Code(300)), (32_099, Code(699))],
                "100 pass+ack Completed, 200 ack Completed, 32099 ack Completed, 32100 Terminated",
            ),
            (
                Invite,
                UDP,
                &[(100, Code(180)), (200, Code(486)), (32_200, Code(486))],
                "100 pass Proceeding, 200 pass+ack Completed, 32200 Terminated, 32200 absorb Terminated",
            ),
            (
                Invite,
                TCP,
                &[(100, Code(699))],
                "100 pass+ack Completed, 100 Terminated",
            ),
            (
                Invite,
                UDP,
                &[(100, Code(486)), (200, Code(180)), (300, Code(200))],
                "100 pass+ack Completed, 200 absorb Completed, 300 absorb Completed, 32100 Terminated",
            ),
            // RFC 6026 section 7.2: all 2xx go up until timer M, which no further one starts anew.
            (
                Invite,
                UDP,
                &[(100, Code(200)), (600, Code(200)), (32_099, Code(299))],
                "100 pass Accepted, 600 pass Accepted, 32099 pass Accepted, 32100 Terminated",
            ),
            (
                Invite,
                TCP,
                &[
                    (100, Code(183)),
                    (200, Code(202)),
                    (300, Code(180)),
                    (400, Code(486)),
                ],
                "100 pass Proceeding, 200 pass Accepted, 300 absorb Accepted, 400 absorb Accepted, 32200 Terminated",
            ),
            // Section 17.1.4.
            (Invite, UDP, &[(100, Fail)], "100 fail Terminated"),
            (
                Invite,
                UDP,
                &[(100, Code(180)), (200, Fail)],
                "100 pass Proceeding, 200 fail Terminated",
            ),
        ],
        client,
    );
}

#[test]
fn invite_client_that_is_cancelled() {
    check(
        &[
            // Section 9.1: 64 T1 after the CANCEL it is over, and nothing that comes with 1xx puts that off.
            (
                Invite,
                UDP,
                &[(100, Code(180)), (1_000, Cancel)],
                "100 pass Proceeding, 1000 cancel, 33000 timeout Terminated",
            ),
            (
                Invite,
                UDP,
                &[
                    (100, Code(180)),
                    (1_000, Cancel),
                    (30_000, Code(180)),
                    (32_999, Code(183)),
                ],
                "100 pass Proceeding, 1000 cancel, 30000 pass Proceeding, 32999 pass Proceeding, 33000 timeout Terminated",
            ),
            (
                Invite,
                TCP,
                &[(100, Code(180)), (1_000, Cancel), (9_000, Cancel)],
                "100 pass Proceeding, 1000 cancel, 9000 cancel, 33000 timeout Terminated",
            ),
            // The answer that it asks for, and the 2xx that crosses it.
            (
                Invite,
                UDP,
                &[
                    (100, Code(180)),
                    (1_000, Cancel),
                    (1_100, Code(487)),
                    (1_600, Code(487)),
                ],
                "100 pass Proceeding, 1000 cancel, 1100 pass+ack Completed, 1600 ack Completed, 33100 Terminated",
            ),
            (
                Invite,
                UDP,
                &[
                    (100, Code(180)),
                    (1_000, Cancel),
                    (1_100, Code(200)),
                    (1_600, Code(200)),
                ],
                "100 pass Proceeding, 1000 cancel, 1100 pass Accepted, 1600 pass Accepted, 33100 Terminated",
            ),
            // Too late to matter.
            (
                Invite,
                UDP,
                &[(100, Code(200)), (1_000, Cancel)],
                "100 pass Accepted, 1000 cancel, 32100 Terminated",
            ),
            // Timer C would have come first.
            (
                Invite,
                UDP,
                &[(100, Code(180)), (185_000, Cancel)],
                "100 pass Proceeding, 185000 cancel, 217000 timeout Terminated",
            ),
        ],
        client,
    );
}

#[test]
fn other_clients() {
    check(
        &[
            // Timers E and F.
            (
                NonInvite,
                UDP,
                &[],
                "500 resend, 1500 resend, 3500 resend, 7500 resend, 11500 resend, 15500 resend, 19500 resend, \
                 23500 resend, 27500 resend, 31500 resend, 32000 timeout Terminated",
            ),
            (NonInvite, TCP, &[], "32000 timeout Terminated"),
            // In Proceeding timer E goes on, with T2; F as it was.
            (
                NonInvite,
                UDP,
                &[(600, Code(100)), (700, Code(100))],
                "500 resend, 600 pass Proceeding, 700 pass Proceeding, 1500 resend, 5500 resend, 9500 resend, \
                 13500 resend, 17500 resend, 21500 resend, 25500 resend, 29500 resend, 32000 timeout Terminated",
            ),
            (
                NonInvite,
                TCP,
                &[(600, Code(199)), (31_000, Code(199))],
                "600 pass Proceeding, 31000 pass Proceeding, 32000 timeout Terminated",
            ),
            // Timer K.
            (
                NonInvite,
                UDP,
                &[(100, Code(200)), (200, Code(200)), (5_099, Code(100))],
                "100 pass Completed, 200 absorb Completed, 5099 absorb Completed, 5100 Terminated",
            ),
            (
                NonInvite,
                UDP,
                &[(100, Code(180)), (200, Code(699))],
                "100 pass Proceeding, 200 pass Completed, 5200 Terminated",
            ),
            (
                NonInvite,
                TCP,
                &[(100, Code(300))],
                "100 pass Completed, 100 Terminated",
            ),
            (NonInvite, UDP, &[(100, Fail)], "100 fail Terminated"),
        ],
        client,
    );
}

#[test]
fn invite_server() {
    check(
        &[
            // Nothing is sent again before there is something; then the last.
            (
                Invite,
                UDP,
                &[
                    (0, Again),
                    (1, Code(100)),
                    (2, Again),
                    (3, Code(180)),
                    (4, Again),
                    (5, Event::Ack),
                    (6, Code(200)),
                    (7, Again),
                ],
                "0 absorb, 1 send Proceeding, 2 resend 100, 3 send Proceeding, 4 resend 180, 5 stray Proceeding, \
                 6 send Accepted, 7 absorb, 32006 Terminated",
            ),
            // Timers G and H.
            (
                Invite,
                UDP,
                &[(0, Code(486))],
                "0 send Completed, 500 resend 486, 1500 resend 486, 3500 resend 486, 7500 resend 486, 11500 resend 486, \
                 15500 resend 486, 19500 resend 486, 23500 resend 486, 27500 resend 486, 31500 resend 486, \
                 32000 no ACK Terminated",
            ),
            (
                Invite,
                TCP,
                &[(0, Code(486)), (5, Again)],
                "0 send Completed, 5 resend 486, 32000 no ACK Terminated",
            ),
            // Timer I takes up further ACKs.
            (
                Invite,
                UDP,
                &[
                    (0, Code(300)),
                    (600, Again),
                    (700, Event::Ack),
                    (800, Event::Ack),
                    (900, Again),
                    (5_699, Code(200)),
                ],
                "0 send Completed, 500 resend 300, 600 resend 300, 700 ack Confirmed, 800 stray Confirmed, 900 absorb, \
                 5699 withhold Confirmed, 5700 Terminated",
            ),
            (
                Invite,
                TCP,
                &[(0, Code(699)), (700, Event::Ack)],
                "0 send Completed, 700 ack Confirmed, 700 Terminated",
            ),
            // One final answer.
            (
                Invite,
                TCP,
                &[
                    (0, Code(503)),
                    (1, Code(180)),
                    (2, Code(200)),
                    (3, Code(486)),
                ],
                "0 send Completed, 1 withhold Completed, 2 withhold Completed, 3 withhold Completed, \
                 32000 no ACK Terminated",
            ),
            // RFC 6026 section 7.1: timer L, every 2xx, and an ACK that is not this transaction's.
            (
                Invite,
                UDP,
                &[
                    (0, Code(200)),
                    (1, Event::Ack),
                    (2, Code(200)),
                    (3, Code(486)),
                    (4, Code(180)),
                    (31_999, Again),
                ],
                "0 send Accepted, 1 stray Accepted, 2 send Accepted, 3 withhold Accepted, 4 withhold Accepted, \
                 31999 absorb, 32000 Terminated",
            ),
        ],
        server,
    );
}

#[test]
fn other_servers() {
    check(
        &[
            (
                NonInvite,
                UDP,
                &[
                    (0, Again),
                    (1, Code(100)),
                    (2, Again),
                    (3, Code(200)),
                    (4, Again),
                    (5, Code(200)),
                    (6, Event::Ack),
                    (32_002, Again),
                ],
                "0 absorb, 1 send Proceeding, 2 resend 100, 3 send Completed, 4 resend 200, 5 withhold Completed, \
                 6 stray Completed, 32002 resend 200, 32003 Terminated",
            ),
            // Timer J is 0 over a reliable transport.
            (
                NonInvite,
                TCP,
                &[(0, Code(699))],
                "0 send Completed, 0 Terminated",
            ),
        ],
        server,
    );
}

#[test]
fn after_the_end_nothing_moves_it() {
    let t = TimerValues::default();
    for kind in [Invite, NonInvite] {
        let mut it = ClientTransaction::new(Duration::ZERO, kind, UDP, REQUEST.to_vec(), &t);
        it.fail();
        for event in [Code(180), Code(200), Code(486), Cancel, Fail] {
            client_step(&mut it, MS, Some(event), &t);
            assert_eq!(it.state(), ClientState::Terminated);
        }
        assert_eq!(
            it.on_response(MS, 200, &t),
            OnResponse {
                pass: false,
                ack: Ack::No
            }
        );
        assert_eq!(it.deadline(), Duration::MAX);
        assert!(!it.is_pending());

        let mut it = ServerTransaction::new(kind, UDP);
        it.on_send(Duration::ZERO, 486, b"486", &t);
        it.on_timer(MS * 32_000, &t);
        for event in [Code(180), Code(200), Code(486), Again, Event::Ack] {
            server_step(&mut it, MS * 32_000, Some(event), &t);
            assert_eq!(it.state(), ServerState::Terminated);
        }
        assert!(it.last().is_empty(), "nothing is kept");
        assert!(!it.on_request_again());
        assert_eq!(it.deadline(), Duration::MAX);
    }
}

#[test]
fn a_timer_that_is_looked_at_early_does_nothing() {
    let t = TimerValues::default();
    let nearly = MS * 500 - Duration::from_nanos(1);
    let mut client = ClientTransaction::new(Duration::ZERO, Invite, UDP, Vec::new(), &t);
    assert_eq!(client.on_timer(nearly, &t), OnClientTimer::Nothing);
    let mut server = ServerTransaction::new(Invite, UDP);
    server.on_send(Duration::ZERO, 486, b"", &t);
    assert_eq!(server.on_timer(nearly, &t), OnServerTimer::Nothing);
    assert_eq!((client.deadline(), server.deadline()), (MS * 500, MS * 500));
}

fn script(other: [Event; 2]) -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        3 => Just(Code(100)),
        3 => (101..200u16).prop_map(Code),
        2 => (200..300u16).prop_map(Code),
        2 => (300..700u16).prop_map(Code),
        2 => prop::sample::select(other.to_vec()),
    ];
    // Short waits, and those about the length of each timer.
    let wait = prop_oneof![
        0..3u64,
        0..4_000u64,
        4_990..5_010u64,
        31_990..32_010u64,
        184_990..185_010u64
    ];
    prop::collection::vec((wait, event), 0..12).prop_map(|steps| {
        let mut at = 0;
        steps
            .into_iter()
            .map(|(wait, event)| {
                at += wait;
                (at, event)
            })
            .collect()
    })
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select([Invite, NonInvite].as_slice())
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        rng_seed: RngSeed::Fixed(3261),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_client_does_as_the_figures_say(kind in kind(), reliable: bool, events in script([Cancel, Fail])) {
        let naive = core::cell::RefCell::new(NaiveClient::new(kind, reliable));
        let want = run(
            &events,
            || first(&naive.borrow().timers).map_or(Duration::MAX, |(_, at)| MS * at as u32),
            |at, event| match event {
                None => naive.borrow_mut().fire(),
                Some(e) => naive.borrow_mut().event(at, e),
            },
        );
        prop_assert_eq!(client(kind, reliable, &events), want.clone());
        // The figures themselves: after a final answer that was passed nothing but a 2xx of INVITE is.
        let finals = want.split(", ").filter(|l| {
            l.contains("pass") && (l.contains("Completed") || l.contains("Accepted"))
        });
        let finals: Vec<_> = finals.collect();
        prop_assert!(finals.len() <= 1 || finals.iter().all(|l| l.contains("Accepted")), "{finals:?}");
        prop_assert!(want.contains("Terminated"), "{want}");
    }

    #[test]
    fn a_server_does_as_the_figures_say(kind in kind(), reliable: bool, events in script([Again, Event::Ack])) {
        let naive = core::cell::RefCell::new(NaiveServer::new(kind, reliable));
        let want = run(
            &events,
            || first(&naive.borrow().timers).map_or(Duration::MAX, |(_, at)| MS * at as u32),
            |at, event| match event {
                None => naive.borrow_mut().fire(),
                Some(e) => naive.borrow_mut().event(at, e),
            },
        );
        prop_assert_eq!(server(kind, reliable, &events), want.clone());
        let answered = events.iter().any(|(_, e)| matches!(e, Code(200..)));
        prop_assert_eq!(want.contains("Terminated"), answered, "{}", want);
    }

    /// A loop that sleeps until `deadline` does not spin, however late it wakes.
    #[test]
    fn the_deadline_is_ahead_after_the_timer(
        kind in kind(),
        reliable: bool,
        codes in prop::collection::vec(prop::sample::select([100u16, 180, 200, 486].as_slice()), 0..3),
        waits in prop::collection::vec(0..40_000u32, 1..20),
    ) {
        let t = TimerValues::default();
        let mut client = ClientTransaction::new(Duration::ZERO, kind, reliable, Vec::new(), &t);
        let mut server = ServerTransaction::new(kind, reliable);
        for code in codes {
            client.on_response(Duration::ZERO, code, &t);
            server.on_send(Duration::ZERO, code, b"", &t);
        }
        let mut now = Duration::ZERO;
        for wait in waits {
            now += MS * wait;
            client.on_timer(now, &t);
            server.on_timer(now, &t);
            prop_assert!(client.deadline() > now && server.deadline() > now);
        }
    }
}
