//! A dropped call, in each state that it may be in, as its two ends see it.

use levee_policy::selective::{Admit, Class, Config};
use levee_proxy::sip::settings::ClassRule;

use crate::world::*;

/// Lets calls arrive until one is taken at a full table of one; what the front sent then, and the newcomer.
fn displace(w: &mut World) -> (Call, Vec<Sent>) {
    // In a new round PMod is 0, so P1 is 1.
    w.ms(200);
    let c = Call::new("newcomer");
    let sent = w.send(ALICE, c.invite());
    (c, sent)
}

#[test]
fn a_call_in_progress_is_ended_on_both_sides() {
    let mut w = World::of(1, seven());
    let c = w.call("c1");
    // The callee has sent a request of its own, and so has the caller.
    let info = only(&w.send(ALICE, c.inside("INFO", 7, "b1")), "INFO").clone();
    w.send(SERVER, ok(&info));
    let (_, sent) = displace(&mut w);
    let byes: Vec<_> = sent.iter().filter(|s| s.text.starts_with("BYE")).collect();
    assert_eq!(byes.len(), 2);
    assert!(
        !sent.iter().any(|s| s.text.starts_with("INVITE")),
        "the newcomer waits for the slot"
    );

    let to_callee = byes.iter().find(|b| b.to == SERVER).unwrap();
    assert_eq!(to_callee.first(), format!("BYE sip:bob@{SERVER} SIP/2.0"));
    assert_eq!(
        to_callee.header("From"),
        "Alice <sip:alice@example.org>;tag=a-c1"
    );
    assert_eq!(to_callee.header("To"), "<sip:bob@example.org>;tag=b1");
    assert_eq!(to_callee.header("Call-ID"), "c1");
    assert_eq!(
        to_callee.header("CSeq"),
        "8 BYE",
        "above the highest that the caller used"
    );
    assert!(to_callee.header("Reason").starts_with("SIP;cause=503"));
    let to_caller = byes.iter().find(|b| b.to == ALICE).unwrap();
    assert_eq!(to_caller.first(), format!("BYE sip:alice@{ALICE} SIP/2.0"));
    assert_eq!(to_caller.header("From"), "<sip:bob@example.org>;tag=b1");
    assert_eq!(
        to_caller.header("To"),
        "Alice <sip:alice@example.org>;tag=a-c1"
    );
    assert_eq!(to_caller.header("CSeq"), "1 BYE");

    // Repeated until answered, and the slot is free when the server has answered its own.
    assert_eq!(w.ms(500).len(), 2);
    assert_eq!((w.snapshot().evicting, w.snapshot().in_service), (1, 1));
    let sent = w.send(SERVER, ok(to_callee));
    assert_eq!(only(&sent, "INVITE").to, SERVER);
    assert_eq!(w.send(ALICE, ok(to_caller)), []);
    let s = w.snapshot();
    assert_eq!(
        (
            s.evicted_in_call,
            s.bye_sent,
            s.bye_answered,
            s.evicting,
            s.in_service
        ),
        (1, 2, 2, 0, 1)
    );
}

#[test]
fn the_byes_follow_the_route_of_each_side() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    // Two proxies stand between the caller and us, and two behind the server.
    c.extra =
        "Record-Route: <sip:198.51.100.2;lr>\r\nRecord-Route: <sip:198.51.100.1;lr>\r\n".into();
    let invite = c.invite().replacen(
        "\r\nMax",
        "\r\nVia: SIP/2.0/UDP 198.51.100.1;branch=z9hG4bKq\r\nMax",
        1,
    );
    c.at_server = only(&w.send("198.51.100.2:5060", invite), "INVITE").clone();
    let behind = "Record-Route: <sip:far@10.1.0.2;lr>\r\nRecord-Route: <sip:near@10.1.0.1;lr>\r\n";
    let answer =
        c.answer(200, "OK", "b1")
            .replacen("Record-Route", &format!("{behind}Record-Route"), 1);
    w.send(SERVER, answer);
    w.send("198.51.100.2:5060", c.ack("b1"));
    let (_, sent) = displace(&mut w);
    let to_callee = sent
        .iter()
        .find(|s| s.text.starts_with("BYE sip:bob"))
        .unwrap();
    assert_eq!(to_callee.to, "10.1.0.1:5060");
    assert_eq!(
        to_callee.all("Route"),
        ["<sip:near@10.1.0.1;lr>", "<sip:far@10.1.0.2;lr>"]
    );
    let to_caller = sent
        .iter()
        .find(|s| s.text.starts_with("BYE sip:alice"))
        .unwrap();
    assert_eq!(to_caller.to, "198.51.100.2:5060");
    assert_eq!(
        to_caller.all("Route"),
        ["<sip:198.51.100.2;lr>", "<sip:198.51.100.1;lr>"]
    );
}

#[test]
fn a_call_that_comes_back_through_us_is_ended_through_the_server() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    // The server records its route and sends the call back through us to Bob.
    let rr = format!("Record-Route: <sip:{SERVER};lr>\r\n");
    let back = c.at_server.text.replacen(
        "INVITE sip:bob@example.org SIP/2.0\r\n",
        &format!(
            "INVITE sip:bob@{BOB} SIP/2.0\r\nVia: SIP/2.0/UDP {SERVER};branch=z9hG4bKs1\r\n{rr}"
        ),
        1,
    );
    let at_bob = only(&w.send(SERVER, back), "INVITE").clone();
    assert_eq!(at_bob.to, BOB);
    let up = w.send(
        BOB,
        answer(
            &at_bob,
            200,
            "OK",
            "b1",
            &format!("Contact: <sip:bob@{BOB}>\r\n"),
        ),
    );
    let mut to_server = only(&up, "SIP/2.0 200").clone();
    assert_eq!(to_server.to, SERVER);
    // The server takes its Via off and sends it up.
    let own_via = to_server.all("Via")[0].to_owned();
    to_server.text = to_server
        .text
        .replacen(&format!("Via: {own_via}\r\n"), "", 1);
    assert_eq!(
        only(&w.send(SERVER, &to_server.text), "SIP/2.0 200").to,
        ALICE
    );
    let route = format!("Route: <sip:{PROXY};lr>, <sip:{SERVER};lr>, <sip:{PROXY};lr>\r\n");
    let ack = c
        .ack("b1")
        .replace(&format!("Route: <sip:{PROXY};lr>\r\n"), &route)
        .replace(&format!("bob@{SERVER}"), &format!("bob@{BOB}"));
    assert_eq!(only(&w.send(ALICE, ack), "ACK").to, SERVER);
    assert_eq!((w.snapshot().held_in_call, w.snapshot().arrivals), (1, 1));

    let (_, sent) = displace(&mut w);
    let to_callee = sent
        .iter()
        .find(|s| s.text.starts_with("BYE sip:bob"))
        .unwrap();
    assert_eq!(
        to_callee.to, SERVER,
        "by the server's route, so that it learns of the end"
    );
    assert_eq!(
        to_callee.all("Route"),
        [format!("<sip:{SERVER};lr>"), format!("<sip:{PROXY};lr>")]
    );
    // It comes back through us to Bob, and its answer the same way.
    let back = to_callee.text.replacen(
        "\r\n",
        &format!("\r\nVia: SIP/2.0/UDP {SERVER};branch=z9hG4bKs9\r\n"),
        1,
    );
    let back = back.replacen(&format!("Route: <sip:{SERVER};lr>\r\n"), "", 1);
    let at_bob = only(&w.send(SERVER, back), "BYE").clone();
    assert_eq!(at_bob.to, BOB);
    let up = w.send(BOB, ok(&at_bob));
    assert_eq!(w.snapshot().evicting, 1);
    let mut up = up[0].clone();
    let own_via = up.all("Via")[0].to_owned();
    up.text = up.text.replacen(&format!("Via: {own_via}\r\n"), "", 1);
    assert_eq!(
        only(&w.send(SERVER, &up.text), "INVITE").header("Call-ID"),
        "newcomer"
    );
    assert!(
        sent.iter()
            .any(|s| s.to == ALICE && s.text.starts_with("BYE"))
    );
}

#[test]
fn a_ringing_call_is_cancelled_and_its_caller_told_503() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(180, "Ringing", "b1"));
    let (_, sent) = displace(&mut w);
    let refused = only(&sent, "SIP/2.0 503");
    assert_eq!(
        (refused.to.as_str(), refused.header("Call-ID")),
        (ALICE, "c1")
    );
    assert_eq!(refused.header("Retry-After"), "5");
    let cancel = only(&sent, "CANCEL");
    assert_eq!(cancel.to, SERVER);
    assert!(cancel.header("Reason").starts_with("SIP;cause=503"));
    w.send(ALICE, c.hop_ack());
    assert_eq!(w.send(SERVER, ok(cancel)), []);
    let sent = w.send(SERVER, c.answer(487, "Request Terminated", "b1"));
    assert_eq!(only(&sent, "ACK").to, SERVER);
    assert_eq!(only(&sent, "INVITE").header("Call-ID"), "newcomer");
    assert_eq!(
        sent.len(),
        2,
        "the caller has its answer: {:?}",
        firsts(&sent)
    );
    assert_eq!((w.snapshot().evicted_waiting, w.snapshot().failed), (1, 0));
}

#[test]
fn an_invite_without_any_answer_is_cancelled_when_one_comes() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    let (_, sent) = displace(&mut w);
    assert!(
        !sent.iter().any(|s| s.text.starts_with("CANCEL")),
        "not before a provisional answer"
    );
    let sent = w.send(SERVER, c.answer(100, "Trying", ""));
    assert!(
        only(&sent, "CANCEL")
            .header("Reason")
            .starts_with("SIP;cause=503")
    );
    let sent = w.send(SERVER, c.answer(487, "Request Terminated", "b1"));
    assert_eq!(only(&sent, "INVITE").header("Call-ID"), "newcomer");
}

#[test]
fn an_answer_that_crosses_the_cancel_is_hung_up() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(180, "Ringing", "b1"));
    displace(&mut w);
    let sent = w.send(SERVER, c.answer(200, "OK", "b1"));
    let ack = only(&sent, "ACK");
    assert_eq!((ack.to.as_str(), ack.header("CSeq")), (SERVER, "1 ACK"));
    let bye = only(&sent, "BYE");
    assert_eq!((bye.to.as_str(), bye.header("CSeq")), (SERVER, "2 BYE"));
    assert_eq!(
        sent.len(),
        2,
        "the caller was told 503: {:?}",
        firsts(&sent)
    );
    // The 200 again: the ACK again, and no second BYE.
    assert_eq!(
        firsts(&w.send(SERVER, c.answer(200, "OK", "b1"))),
        [ack.first().to_owned() + " > " + SERVER]
    );
    let sent = w.send(SERVER, ok(bye));
    assert_eq!(only(&sent, "INVITE").header("Call-ID"), "newcomer");
}

#[test]
fn a_call_between_answer_and_ack_is_hung_up_after_the_ack() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(200, "OK", "b1"));
    let (_, sent) = displace(&mut w);
    assert_eq!(firsts(&sent), [format!("SIP/2.0 100 Trying > {ALICE}")]);
    let sent = w.send(ALICE, c.ack("b1"));
    assert_eq!(
        firsts(&sent)[0],
        format!("ACK sip:bob@{SERVER} SIP/2.0 > {SERVER}")
    );
    assert_eq!(sent.iter().filter(|s| s.text.starts_with("BYE")).count(), 2);
    assert_eq!(w.snapshot().evicted_waiting, 1);
}

#[test]
fn a_fork_is_ended_in_all_its_legs() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    for tag in ["b1", "b2"] {
        w.send(SERVER, c.answer(200, "OK", tag));
        w.send(ALICE, c.ack(tag));
    }
    let (_, sent) = displace(&mut w);
    let byes: Vec<_> = sent
        .iter()
        .filter(|s| s.text.starts_with("BYE"))
        .cloned()
        .collect();
    assert_eq!(byes.len(), 4);
    for (i, bye) in byes.iter().enumerate() {
        let sent = w.send(&bye.to.clone(), ok(bye));
        assert_eq!(
            sent.len(),
            usize::from(i == 2),
            "the slot is free with the last that the server answers"
        );
    }
}

#[test]
fn a_bye_that_crosses_ours_ends_the_call_once() {
    let mut w = World::of(1, seven());
    let c = w.call("c1");
    let (_, sent) = displace(&mut w);
    let byes: Vec<_> = sent
        .iter()
        .filter(|s| s.text.starts_with("BYE"))
        .cloned()
        .collect();
    // The caller hangs up at the same moment; both ends then answer our BYE with 481.
    let crossing = only(&w.send(ALICE, c.bye("b1")), "BYE").clone();
    w.send(SERVER, ok(&crossing));
    assert_eq!(w.snapshot().in_service, 1);
    let mut sent = Vec::new();
    for bye in &byes {
        sent.extend(w.send(&bye.to.clone(), answer(bye, 481, "Gone", "", "")));
    }
    assert_eq!(only(&sent, "INVITE").to, SERVER);
    let s = w.snapshot();
    assert_eq!((s.in_service, s.evicting, s.bye_answered), (1, 0, 2));
}

#[test]
fn ends_that_never_answer_free_their_slot_in_the_end() {
    let mut w = World::of(1, seven());
    w.call("c1");
    displace(&mut w);
    let sent = w.ms(31_900);
    assert!(!sent.iter().any(|s| s.text.starts_with("INVITE")));
    let sent = w.ms(200);
    assert_eq!(only(&sent, "INVITE").header("Call-ID"), "newcomer");
    assert_eq!(w.snapshot().bye_timeout, 2);
}

#[test]
fn a_newcomer_that_waits_for_its_slot_can_give_up() {
    let mut w = World::of(1, seven());
    w.call("c1");
    let (c, sent) = displace(&mut w);
    let answers = w.send(ALICE, c.cancel());
    assert_eq!(
        firsts(&answers),
        [
            format!("SIP/2.0 200 OK > {ALICE}"),
            format!("SIP/2.0 487 Request Terminated > {ALICE}"),
        ]
    );
    for bye in sent.iter().filter(|s| s.text.starts_with("BYE")) {
        assert_eq!(w.send(&bye.to.clone(), ok(bye)), []);
    }
    assert_eq!((w.snapshot().held(), w.snapshot().in_service), (0, 0));
}

#[test]
fn a_call_that_is_refreshed_is_ended_at_its_new_contact() {
    let mut w = World::of(1, seven());
    let c = w.call("c1");
    let reinvite = c
        .inside("INVITE", 2, "b1")
        .replace(&format!("sip:alice@{ALICE}>"), "sip:alice@192.0.2.77:7>");
    let at_server = only(&w.send(ALICE, reinvite), "INVITE").clone();
    let up = w.send(
        SERVER,
        answer(
            &at_server,
            200,
            "OK",
            "",
            "Contact: <sip:bob@10.0.0.6:9>\r\n",
        ),
    );
    assert_eq!(only(&up, "SIP/2.0 200").to, ALICE);
    w.send(ALICE, c.inside("ACK", 2, "b1"));
    assert_eq!(w.snapshot().arrivals, 1, "a re-INVITE is no new call");
    let (_, sent) = displace(&mut w);
    let byes: Vec<_> = sent
        .iter()
        .filter(|s| s.text.starts_with("BYE"))
        .map(Sent::first)
        .collect();
    assert_eq!(
        byes,
        [
            "BYE sip:bob@10.0.0.6:9 SIP/2.0",
            "BYE sip:alice@192.0.2.77:7 SIP/2.0"
        ]
    );
}

#[test]
fn an_emergency_call_is_never_dropped_for_others() {
    let mut defense: Config = seven();
    defense.classes = vec![Class {
        exempt: true,
        admit: Admit::Always,
        ..Class::named("emergency")
    }];
    let mut s = settings(3, defense);
    s.classes = vec![ClassRule {
        class: "emergency".into(),
        to_user: vec!["112".into()],
        ..ClassRule::default()
    }];
    let mut w = World::new(s);
    let emergency = |w: &mut World, id: &str| {
        let mut c = Call::new(id);
        c.to = "112".into();
        c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
        w.send(SERVER, c.answer(200, "OK", "b1"));
        w.send(ALICE, c.ack("b1"));
    };
    emergency(&mut w, "e1");
    emergency(&mut w, "e2");
    // 300 ordinary calls fight for the one place that is left.
    for i in 0..300 {
        w.ms(70);
        let mut c = Call::new(&format!("c{i}"));
        let mut todo = w.send(ALICE, c.invite());
        while let Some(m) = todo.pop() {
            if m.text.starts_with("BYE") {
                assert!(!m.header("Call-ID").starts_with('e'), "{m:?}");
                todo.extend(w.send(&m.to.clone(), ok(&m)));
            } else if m.text.starts_with("INVITE") {
                c.at_server = m;
                w.send(SERVER, c.answer(200, "OK", "b1"));
                w.send(ALICE, c.ack("b1"));
            }
        }
    }
    assert!(w.snapshot().evicted_in_call > 100, "{:?}", w.snapshot());
    // One more emergency takes the last place; the next goes beyond the capacity rather than be refused.
    let before = w.snapshot().evicted_in_call;
    let mut c = Call::new("e3");
    c.to = "112".into();
    let sent = w.send(ALICE, c.invite());
    assert_eq!(sent.iter().filter(|s| s.text.starts_with("BYE")).count(), 2);
    assert_eq!(w.snapshot().evicted_in_call, before + 1);
    let mut c = Call::new("e4");
    c.to = "112".into();
    assert_eq!(only(&w.send(ALICE, c.invite()), "INVITE").to, SERVER);
    assert_eq!(w.snapshot().policy.over_capacity, 1);
}
