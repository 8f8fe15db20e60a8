//! What counts as a call, when it has died, and the switches around the defence.

use std::time::Duration;

use levee_policy::selective::{Class, Config, Forward, MaxDuration};
use levee_proxy::sip::front::Input;
use levee_proxy::sip::settings::ClassRule;

use crate::world::*;

#[test]
fn a_b2bua_makes_two_legs_of_one_call() {
    let mut w = World::of(1, refuse());
    let c = w.call("leg-a");
    // The server calls out through us with a Call-ID of its own: no new call, and no refusal.
    let leg_b = format!(
        "INVITE sip:bob@{BOB} SIP/2.0\r\nVia: SIP/2.0/UDP {SERVER};branch=z9hG4bKlb\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=sb\r\nTo: <sip:bob@example.org>\r\nCall-ID: leg-b\r\nCSeq: 1 INVITE\r\n\
         Contact: <sip:s@{SERVER}>\r\nContent-Length: 0\r\n\r\n"
    );
    let at_bob = only(&w.send(SERVER, leg_b), "INVITE").clone();
    assert_eq!(at_bob.to, BOB);
    let up = w.send(
        BOB,
        answer(
            &at_bob,
            200,
            "OK",
            "bb",
            &format!("Contact: <sip:bob@{BOB}>\r\n"),
        ),
    );
    assert_eq!(only(&up, "SIP/2.0 200").to, SERVER);
    assert_eq!((w.snapshot().arrivals, w.snapshot().held_in_call), (1, 1));
    // Bob hangs up: to the server, which ends leg A.
    let bye = format!(
        "BYE sip:s@{SERVER} SIP/2.0\r\nVia: SIP/2.0/UDP {BOB};rport;branch=z9hG4bKbye\r\nMax-Forwards: 70\r\n\
         Route: <sip:{PROXY};lr>\r\nFrom: <sip:bob@example.org>;tag=bb\r\nTo: <sip:alice@example.org>;tag=sb\r\n\
         Call-ID: leg-b\r\nCSeq: 1 BYE\r\nContent-Length: 0\r\n\r\n"
    );
    let sent = w.send(BOB, bye);
    assert_eq!(only(&sent, "BYE").to, SERVER);
    w.send(SERVER, ok(&sent[0]));
    assert_eq!(w.snapshot().held_in_call, 1, "leg A is still up");
    let bye = w.send(ALICE, c.bye("b1"));
    w.send(SERVER, ok(&bye[0]));
    assert_eq!(w.snapshot().held(), 0);
}

#[test]
fn a_full_server_refuses_with_retry_after_and_forgets() {
    let mut w = World::of(1, refuse());
    let first = w.call("c1");
    let c = Call::new("c2");
    let sent = w.send(ALICE, c.invite());
    assert_eq!(
        firsts(&sent),
        [format!("SIP/2.0 503 Service Unavailable > {ALICE}")]
    );
    assert_eq!(sent[0].header("Retry-After"), "5");
    assert!(sent[0].header("To").contains(";tag="));
    // One answer to each INVITE, and the repeated one is no arrival: a forged source gets no more than it was sent.
    assert_eq!(w.send(ALICE, c.invite()), sent);
    assert_eq!(w.snapshot().arrivals, 2);
    assert_eq!(w.ms(20_000), []);
    assert_eq!(w.send(ALICE, c.hop_ack()), []);
    assert_eq!(w.send(ALICE, c.hop_ack()), [], "nor does the server get it");
    assert_eq!(w.ms(10_000), []);
    assert_eq!(w.snapshot().refused["full"], 1);
    let bye = w.send(ALICE, first.bye("b1"));
    w.send(SERVER, ok(&bye[0]));
    assert_eq!(
        only(&w.send(ALICE, Call::new("c3").invite()), "INVITE").to,
        SERVER
    );
}

#[test]
fn a_failed_call_frees_its_slot() {
    let mut w = World::of(1, refuse());
    for (i, code) in [486, 404, 407, 503, 603].into_iter().enumerate() {
        let mut c = Call::new(&format!("c{i}"));
        c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
        let sent = w.send(SERVER, c.answer(code, "No", "b1"));
        assert_eq!(only(&sent, &format!("SIP/2.0 {code}")).to, ALICE);
        assert_eq!(only(&sent, "ACK").to, SERVER);
        assert_eq!((w.snapshot().held(), w.snapshot().in_service), (0, 0));
    }
    assert_eq!(w.snapshot().failed, 5);
}

#[test]
fn an_answer_that_is_never_acknowledged_frees_its_slot() {
    let mut w = World::of(1, refuse());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(200, "OK", "b1"));
    assert_eq!(w.ms(31_900), []);
    let sent = w.ms(200);
    assert_eq!(sent.iter().filter(|s| s.text.starts_with("BYE")).count(), 2);
    for bye in &sent {
        let from = bye.to.clone();
        w.send(&from, ok(bye));
    }
    assert_eq!((w.snapshot().held(), w.snapshot().died["no_ack"]), (0, 1));
}

#[test]
fn a_session_that_is_not_refreshed_dies_and_a_refreshed_one_does_not() {
    let mut w = World::of(2, refuse());
    let set_up = |w: &mut World, id: &str| {
        let mut c = Call::new(id);
        c.extra = "Supported: timer\r\nSession-Expires: 100\r\n".into();
        c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
        // The callee keeps no timers: the caller is told to refresh (RFC 4028 section 8.2).
        let up = w.send(SERVER, c.answer(200, "OK", "b1"));
        assert_eq!(up[0].header("Session-Expires"), "100;refresher=uac");
        assert_eq!(up[0].header("Require"), "timer");
        w.send(ALICE, c.ack("b1"));
        c
    };
    let kept = set_up(&mut w, "kept");
    set_up(&mut w, "lost");
    w.ms(60_000);
    let update = only(&w.send(ALICE, kept.inside("UPDATE", 2, "b1")), "UPDATE").clone();
    w.send(
        SERVER,
        answer(&update, 200, "OK", "", "Session-Expires: 100\r\n"),
    );
    let sent = w.ms(41_000);
    let byes: Vec<_> = sent.iter().filter(|s| s.text.starts_with("BYE")).collect();
    assert!(
        byes.len() >= 2 && byes.iter().all(|b| b.header("Call-ID") == "lost"),
        "{:?}",
        firsts(&sent)
    );
    assert_eq!(w.snapshot().died["session_expired"], 1);
    assert_eq!(w.snapshot().held_in_call, 1);
}

#[test]
fn a_refresh_that_the_callee_does_not_understand_is_one() {
    let mut w = World::of(2, refuse());
    let timer = "Supported: timer\r\nSession-Expires: 100\r\nContent-Length";
    for (method, id) in [("INVITE", "i"), ("UPDATE", "u")] {
        let mut c = Call::new(id);
        c.extra = "Supported: timer\r\nSession-Expires: 100\r\n".into();
        c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
        w.send(SERVER, c.answer(200, "OK", "b1"));
        w.send(ALICE, c.ack("b1"));
        for cseq in 2..5 {
            w.ms(50_000);
            let refresh = c
                .inside(method, cseq, "b1")
                .replace("Content-Length", timer);
            let at_server = only(&w.send(ALICE, refresh), method).clone();
            // Its answer names no interval; the caller is told that it goes on refreshing.
            let up = w.send(SERVER, ok(&at_server));
            let answer = only(&up, "SIP/2.0 200");
            assert_eq!(answer.header("Session-Expires"), "100;refresher=uac");
        }
        assert_eq!(w.snapshot().held_in_call, 1, "{method}");
        assert!(!w.ms(101_000).is_empty());
        assert_eq!(w.snapshot().held_in_call, 0, "{method}");
    }
}

#[test]
fn a_refresh_without_an_interval_ends_the_timer() {
    let mut w = World::of(1, refuse());
    let mut c = Call::new("c1");
    c.extra = "Supported: timer\r\nSession-Expires: 100\r\n".into();
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(200, "OK", "b1"));
    w.send(ALICE, c.ack("b1"));
    let hold = only(&w.send(ALICE, c.inside("INVITE", 2, "b1")), "INVITE").clone();
    w.send(SERVER, ok(&hold));
    w.send(ALICE, c.inside("ACK", 2, "b1"));
    assert_eq!(w.ms(1_000_000), []);
    assert_eq!(w.snapshot().held_in_call, 1);
}

#[test]
fn a_session_timer_is_asked_for_and_a_short_one_refused() {
    let mut s = settings(2, refuse());
    s.session.expires = Some(Duration::from_secs(1800));
    let mut w = World::new(s);
    assert_eq!(
        only(&w.send(ALICE, Call::new("c1").invite()), "INVITE").header("Session-Expires"),
        "1800"
    );
    let mut c = Call::new("c2");
    c.extra = "Supported: timer\r\nSession-Expires: 89\r\n".into();
    let sent = w.send(ALICE, c.invite());
    assert_eq!(only(&sent, "SIP/2.0 422").header("Min-SE"), "90");
    c.extra = "Supported: timer\r\nSession-Expires: 90\r\n".into();
    c.id = "c3".into();
    assert_eq!(
        only(&w.send(ALICE, c.invite()), "INVITE").all("Session-Expires"),
        ["90"]
    );
}

#[test]
fn a_call_ends_at_its_maximum_and_at_a_failed_request() {
    let mut s = settings(2, refuse());
    s.session.call_max = Some(Duration::from_secs(600));
    let mut w = World::new(s);
    let c = w.call("c1");
    let options = only(&w.send(ALICE, c.inside("OPTIONS", 2, "b1")), "OPTIONS").clone();
    let sent = w.send(SERVER, answer(&options, 481, "Gone", "", ""));
    assert_eq!(
        sent.iter().filter(|s| s.text.starts_with("BYE")).count(),
        2,
        "{:?}",
        firsts(&sent)
    );
    for bye in sent.iter().filter(|s| s.text.starts_with("BYE")) {
        w.send(&bye.to.clone(), ok(bye));
    }
    assert_eq!(
        (w.snapshot().held(), w.snapshot().died["dialog_failed"]),
        (0, 1)
    );

    w.call("c2");
    let sent = w.ms(600_000);
    assert!(sent.iter().any(|s| s.text.starts_with("BYE")));
    w.ms(40_000);
    assert_eq!((w.snapshot().held(), w.snapshot().died["call_max"]), (0, 1));
    assert_eq!(w.snapshot().bye_timeout, 2);
}

#[test]
fn a_challenged_bye_does_not_end_the_call() {
    let mut w = World::of(1, refuse());
    let c = w.call("c1");
    let bye = only(&w.send(ALICE, c.bye("b1")), "BYE").clone();
    w.send(
        SERVER,
        answer(&bye, 407, "Proxy Authentication Required", "", ""),
    );
    assert_eq!(w.snapshot().held_in_call, 1);
    let bye = only(&w.send(ALICE, c.inside("BYE", 3, "b1")), "BYE").clone();
    // The server knows of no such call: our own BYE makes sure.
    let sent = w.send(SERVER, answer(&bye, 481, "Gone", "", ""));
    let ours = sent
        .iter()
        .find(|s| s.text.starts_with("BYE") && s.to == SERVER);
    w.send(SERVER, answer(ours.unwrap(), 481, "Gone", "", ""));
    assert_eq!(w.snapshot().held(), 0);
}

#[test]
fn bypass_forwards_everything_and_counts() {
    let mut s = settings(1, refuse());
    s.bypass = true;
    let mut w = World::new(s);
    for i in 0..5 {
        w.call(&format!("c{i}"));
    }
    let s = w.snapshot();
    assert_eq!((s.arrivals, s.held_in_call, s.policy.arrivals), (5, 5, 0));
}

#[test]
fn a_dry_run_decides_and_drops_nothing() {
    let mut s = settings(2, seven());
    s.dry_run = true;
    let mut w = World::new(s);
    for i in 0..20 {
        w.call(&format!("c{i}"));
    }
    let s = w.snapshot();
    assert_eq!((s.held_in_call, s.bye_sent, s.evicted_in_call), (20, 0, 0));
    assert_eq!(
        s.spared, 18,
        "each arrival beyond the second spared a call: refused or dropped"
    );
    assert_eq!(s.in_service, 2);
}

#[test]
fn a_reload_keeps_the_calls() {
    let mut w = World::of(1, refuse());
    let c = w.call("c1");
    let mut new = settings(2, seven());
    new.limits.requests_per_source_per_second = 1000;
    w.handle(Input::Reload(Box::new(new)));
    assert_eq!(w.snapshot().capacity, 2);
    w.call("c2");
    assert_eq!(w.snapshot().held_in_call, 2);
    let bye = w.send(ALICE, c.bye("b1"));
    w.send(SERVER, ok(&bye[0]));
    assert_eq!(w.snapshot().held_in_call, 1);
}

#[test]
fn a_stopping_front_refuses_new_calls_and_keeps_the_old() {
    let mut w = World::of(2, refuse());
    let c = w.call("c1");
    w.handle(Input::Drain);
    let sent = w.send(ALICE, Call::new("c2").invite());
    assert_eq!(only(&sent, "SIP/2.0 503").header("Retry-After"), "5");
    let bye = w.send(ALICE, c.bye("b1"));
    w.send(SERVER, ok(&bye[0]));
    assert_eq!(w.front.calls(), 0);
}

#[test]
fn tables_have_limits() {
    let mut s = settings(100, refuse());
    s.limits.calls_max = 3;
    s.limits.transactions_max = 5;
    let mut w = World::new(s);
    let mut refused = 0;
    for i in 0..10 {
        refused += w
            .send(ALICE, Call::new(&format!("c{i}")).invite())
            .iter()
            .filter(|s| s.text.starts_with("SIP/2.0 503"))
            .count();
    }
    assert_eq!(refused, 7);
    assert_eq!(w.snapshot().refused["calls_full"], 7);
    let register = |i: usize| {
        Call::new(&format!("r{i}"))
            .invite()
            .replace("INVITE", "REGISTER")
    };
    for i in 0..10 {
        w.send(ALICE, register(i));
    }
    assert_eq!(w.snapshot().transactions, 5);
    assert_eq!(w.snapshot().dropped["transactions_full"], 8);
}

#[test]
fn a_source_has_its_rate() {
    let mut s = settings(1000, refuse());
    s.limits.requests_per_source_per_second = 10;
    let mut w = World::new(s);
    for i in 0..50 {
        w.send("192.0.2.99:5060", Call::new(&format!("f{i}")).invite());
    }
    assert_eq!(w.snapshot().arrivals, 10);
    assert_eq!(w.snapshot().dropped["source_rate"], 40);
    assert_eq!(
        only(&w.send(ALICE, Call::new("c").invite()), "INVITE").to,
        SERVER
    );
}

#[test]
fn at_round_end_what_survived_the_round_is_passed_on() {
    let defense = Config {
        forward: Forward::RoundEnd,
        ..seven()
    };
    let mut w = World::of(1, defense);
    w.ms(30);
    let sent = w.send(ALICE, Call::new("c1").invite());
    assert_eq!(firsts(&sent), [format!("SIP/2.0 100 Trying > {ALICE}")]);
    // PMod is 0, so the second is taken and the first dropped before the server has heard of it.
    let sent = w.send(ALICE, Call::new("c2").invite());
    assert_eq!(only(&sent, "SIP/2.0 503").header("Call-ID"), "c1");
    let mut later = w.ms(69);
    later.retain(|m| m.to == SERVER);
    assert_eq!(later, []);
    assert_eq!(only(&w.ms(1), "INVITE").header("Call-ID"), "c2");
    assert_eq!((w.snapshot().in_service, w.snapshot().bye_sent), (1, 0));
}

#[test]
fn a_cap_on_length_hangs_up_and_spares_the_exempt() {
    let defense = Config {
        max_duration: Some(MaxDuration::TimesMean(2.0)),
        classes: vec![Class {
            exempt: true,
            ..Class::named("emergency")
        }],
        ..refuse()
    };
    let mut s = settings(4, defense);
    s.classes = vec![ClassRule {
        class: "emergency".into(),
        to_user: vec!["112".into()],
        ..ClassRule::default()
    }];
    let mut w = World::new(s);
    w.call("long");
    let mut spared = Call::new("spared");
    spared.to = "112".into();
    spared.at_server = only(&w.send(ALICE, spared.invite()), "INVITE").clone();
    w.send(SERVER, spared.answer(200, "OK", "b1"));
    w.send(ALICE, spared.ack("b1"));
    // The mean call is 5 s.
    assert_eq!(w.ms(9_999), []);
    let sent = w.ms(1);
    let byes: Vec<_> = sent.iter().filter(|m| m.text.starts_with("BYE")).collect();
    assert_eq!(byes.len(), 2);
    assert!(byes.iter().all(|m| m.header("Call-ID") == "long"));
    assert!(byes[0].header("Reason").contains("duration"));
    for bye in byes {
        w.send(&bye.to.clone(), ok(bye));
    }
    w.ms(100_000);
    assert_eq!(w.snapshot().held_in_call, 1);
}

#[test]
fn a_caller_and_a_source_have_their_limits() {
    let of_caller = Config {
        calls_per_caller: Some(2),
        ..refuse()
    };
    let of_source = Config {
        calls_per_source: Some(2),
        ..refuse()
    };
    for (defense, cause) in [(of_caller, "caller_limit"), (of_source, "source_limit")] {
        let mut w = World::of(100, defense);
        let first = w.call("c1");
        w.call("c2");
        let sent = w.send(ALICE, Call::new("c3").invite());
        assert_eq!(only(&sent, "SIP/2.0 503").header("Retry-After"), "5");
        assert_eq!(w.snapshot().refused[cause], 1);
        // Somebody else has the same name at another address, or another name at the same one.
        let other = match cause {
            "caller_limit" => {
                let invite = Call::new("o")
                    .invite()
                    .replace("From: Alice <sip:alice@", "From: <sip:bert@");
                w.send(ALICE, invite)
            }
            _ => w.send("203.0.113.5:5060", Call::new("o").invite()),
        };
        assert_eq!(only(&other, "INVITE").to, SERVER);
        let bye = w.send(ALICE, first.bye("b1"));
        w.send(SERVER, ok(&bye[0]));
        assert_eq!(
            only(&w.send(ALICE, Call::new("c4").invite()), "INVITE").to,
            SERVER
        );
    }
}
