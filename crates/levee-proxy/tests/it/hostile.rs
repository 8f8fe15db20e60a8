//! Callers, strangers and floods that want something for nothing.

use std::time::Duration;

use levee_proxy::sip::front::Input;
use levee_proxy::sip::settings::Listen;

use crate::world::*;

/// The attacker's request in the name of the other end of its call.
fn as_callee(c: &Call, method: &str, cseq: u32) -> String {
    c.inside(method, cseq, "b1")
        .replace(
            &format!("From: Alice <sip:alice@example.org>;tag=a-{}", c.id),
            "From: <sip:bob@example.org>;tag=b1",
        )
        .replace(
            "To: <sip:bob@example.org>;tag=b1",
            &format!("To: Alice <sip:alice@example.org>;tag=a-{}", c.id),
        )
        .replacen("z9hG4bK", "z9hG4bKcallee", 1)
}

fn byes(sent: &[Sent]) -> Vec<Sent> {
    sent.iter()
        .filter(|s| s.text.starts_with("BYE"))
        .cloned()
        .collect()
}

/// The slots as the front and as the defence count them.
fn slots(w: &World) -> (u32, u32) {
    (w.snapshot().held(), w.snapshot().in_service)
}

#[test]
fn a_caller_that_hangs_up_on_itself_in_the_servers_name_keeps_its_slot() {
    let mut w = World::of(1, refuse());
    let c = w.call("c1");
    let sent = w.send(ALICE, as_callee(&c, "BYE", 5));
    let forged = only(&sent, "BYE").clone();
    assert_eq!(forged.to, SERVER, "not back to the caller");
    assert_eq!(slots(&w), (1, 1));
    // To the server this is no dialog: we make sure, and the slot is free when the server has answered.
    let sent = w.send(SERVER, answer(&forged, 481, "Gone", "", ""));
    assert_eq!(slots(&w), (1, 1));
    let to_server = byes(&sent).into_iter().find(|b| b.to == SERVER).unwrap();
    w.send(SERVER, ok(&to_server));
    assert_eq!(slots(&w), (0, 0));
}

#[test]
fn a_callee_behind_no_server_that_hangs_up_past_it_is_made_sure_of() {
    let mut w = World::of(1, refuse());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    // One of the server's nodes answers by itself.
    let contact = "Contact: <sip:bob@10.0.0.6:5060>\r\n";
    w.send(SERVER, answer(&c.at_server, 200, "OK", "b1", contact));
    w.send(ALICE, c.ack("b1"));
    let forged = only(&w.send(ALICE, as_callee(&c, "BYE", 5)), "BYE").clone();
    assert_eq!(forged.to, ALICE);
    let sent = w.send(ALICE, ok(&forged));
    assert_eq!(slots(&w), (1, 1), "nothing was heard of the callee");
    let to_callee = byes(&sent)
        .into_iter()
        .find(|b| b.to == "10.0.0.6:5060")
        .unwrap();
    w.send("10.0.0.6:5060", ok(&to_callee));
    assert_eq!(slots(&w), (0, 0));
}

#[test]
fn a_bye_that_the_server_refuses_ends_nothing_there() {
    // 500: out of order (section 12.2.2). The call lives on at the server until our own BYE.
    for code in [500, 481, 403] {
        let mut w = World::of(1, refuse());
        let c = w.call("c1");
        let bye = only(&w.send(ALICE, c.inside("BYE", 1, "b1")), "BYE").clone();
        let sent = w.send(SERVER, answer(&bye, code, "No", "", ""));
        assert_eq!(slots(&w), (1, 1), "{code}");
        let to_server = byes(&sent).into_iter().find(|b| b.to == SERVER).unwrap();
        assert_eq!(to_server.header("CSeq"), "2 BYE");
        w.send(SERVER, ok(&to_server));
        assert_eq!(slots(&w), (0, 0), "{code}");
        assert_eq!(w.snapshot().completed, 1, "{code}");
    }
}

#[test]
fn a_bye_in_an_early_dialog_frees_nothing_before_the_invite_is_answered() {
    let mut w = World::of(1, refuse());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(180, "Ringing", "b1"));
    let bye = only(&w.send(ALICE, c.bye("b1")), "BYE").clone();
    w.send(SERVER, answer(&bye, 405, "Method Not Allowed", "", ""));
    assert_eq!(slots(&w), (1, 1), "it still rings");
    // It is answered all the same, and counts.
    w.send(SERVER, c.answer(200, "OK", "b1"));
    w.send(ALICE, c.ack("b1"));
    assert_eq!((slots(&w), w.snapshot().held_in_call), ((1, 1), 1));
    let bye = only(&w.send(ALICE, c.inside("BYE", 3, "b1")), "BYE").clone();
    w.send(SERVER, ok(&bye));
    assert_eq!(slots(&w), (0, 0));
}

#[test]
fn an_ack_of_nothing_does_not_make_a_ringing_call_one_in_progress() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(180, "Ringing", "b1"));
    w.send(ALICE, c.ack("b1"));
    assert_eq!(
        (w.snapshot().held_waiting, w.snapshot().held_in_call),
        (1, 0)
    );
    w.ms(200);
    let sent = w.send(ALICE, Call::new("newcomer").invite());
    assert_eq!(only(&sent, "CANCEL").to, SERVER);
    assert_eq!(w.snapshot().in_service, 1);
}

#[test]
fn a_target_moves_only_when_the_server_agrees() {
    let evil = "192.0.2.66:6666";
    let moved =
        |text: String| text.replace(&format!("sip:alice@{ALICE}>"), "sip:x@192.0.2.66:6666>");
    for (method, by_callee, code) in [
        ("INVITE", true, 481),
        ("UPDATE", true, 481),
        ("INVITE", false, 488),
    ] {
        let mut w = World::of(1, seven());
        let c = w.call("c1");
        let text = if by_callee {
            as_callee(&c, method, 5)
        } else {
            c.inside(method, 5, "b1")
        };
        let at_server = only(&w.send(ALICE, moved(text)), method).clone();
        assert_eq!(at_server.to, SERVER);
        let mut sent = w.send(SERVER, answer(&at_server, code, "No", "", ""));
        w.ms(200);
        sent.extend(w.send(ALICE, Call::new("newcomer").invite()));
        let byes = byes(&sent);
        assert_eq!(byes.len(), 2, "{method} {code}");
        for bye in byes {
            assert!(!bye.first().contains(evil), "{method} {}", bye.first());
        }
    }
}

#[test]
fn a_caller_that_never_answers_its_bye_gives_its_slot_up() {
    let mut w = World::of(1, seven());
    w.call("c1");
    w.ms(200);
    let sent = w.send(ALICE, Call::new("newcomer").invite());
    let to_server = byes(&sent).into_iter().find(|b| b.to == SERVER).unwrap();
    let sent = w.send(SERVER, ok(&to_server));
    assert_eq!(only(&sent, "INVITE").header("Call-ID"), "newcomer");
    // It is told until it answers: after 0.5, 1.5 and 3.5 s, and then every 4 s.
    let sent = w.ms(31_000);
    let again = sent.iter().filter(|s| s.to == ALICE);
    assert_eq!(again.filter(|s| s.text.starts_with("BYE")).count(), 9);
}

#[test]
fn a_caller_that_never_acknowledges_can_be_dropped_soon() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(200, "OK", "b1"));
    w.ms(200);
    assert_eq!(byes(&w.send(ALICE, Call::new("newcomer").invite())), []);
    assert_eq!(byes(&w.ms(1_900)), []);
    assert_eq!(byes(&w.ms(200)).len(), 2);
}

#[test]
fn no_sequence_number_is_above_ours() {
    let mut w = World::of(1, seven());
    let c = w.call("c1");
    let sent = w.send(ALICE, c.inside("INFO", (1 << 31) - 1, "b1"));
    assert_eq!(
        firsts(&sent),
        [format!("SIP/2.0 400 CSeq Too High > {ALICE}")]
    );
    let info = only(
        &w.send(ALICE, c.inside("INFO", (1 << 31) - 2, "b1")),
        "INFO",
    )
    .clone();
    w.send(SERVER, ok(&info));
    w.ms(200);
    let sent = w.send(ALICE, Call::new("newcomer").invite());
    let bye = byes(&sent).into_iter().find(|b| b.to == SERVER).unwrap();
    assert_eq!(bye.header("CSeq"), "2147483647 BYE");
    w.send(SERVER, ok(&bye));
    assert_eq!(w.snapshot().evicting, 0);
}

#[test]
fn a_bye_of_ours_that_is_out_of_order_goes_again_above_everything() {
    let mut w = World::of(1, seven());
    w.call("c1");
    w.ms(200);
    let sent = w.send(ALICE, Call::new("newcomer").invite());
    let bye = byes(&sent).into_iter().find(|b| b.to == SERVER).unwrap();
    let sent = w.send(SERVER, answer(&bye, 500, "Out of Order", "", ""));
    let again = only(&sent, "BYE").clone();
    assert_eq!(again.header("CSeq"), "2147483647 BYE");
    assert_eq!(w.snapshot().evicting, 1);
    let sent = w.send(SERVER, answer(&again, 500, "Out of Order", "", ""));
    assert_eq!(only(&sent, "INVITE").header("Call-ID"), "newcomer");
}

#[test]
fn a_notify_that_finds_no_subscription_does_not_end_the_call() {
    let mut w = World::of(1, refuse());
    let c = w.call("c1");
    for (method, lives) in [("NOTIFY", 1), ("INFO", 1), ("UPDATE", 0)] {
        let at_server = only(&w.send(ALICE, c.inside(method, 9, "b1")), method).clone();
        w.send(SERVER, answer(&at_server, 481, "Gone", "", ""));
        assert_eq!(w.snapshot().held_in_call, lives, "{method}");
    }
}

#[test]
fn early_dialogs_leave_room_for_the_one_that_is_answered() {
    let mut w = World::of(1, refuse());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    for i in 0..50 {
        w.send(SERVER, c.answer(180, "Ringing", &format!("e{i}")));
    }
    w.send(SERVER, c.answer(200, "OK", "b1"));
    w.send(ALICE, c.ack("b1"));
    assert_eq!(w.snapshot().held_in_call, 1);
    // Nor does a caller get answers by the dozen that nobody counts.
    let up = (0..50).filter(|i| {
        !w.send(SERVER, c.answer(200, "OK", &format!("f{i}")))
            .is_empty()
    });
    assert_eq!(up.count(), 7);
    assert_eq!(w.snapshot().dropped["untracked_dialog"], 43);
}

#[test]
fn an_answer_after_the_end_begins_no_call_that_nobody_counts() {
    let mut w = World::of(1, refuse());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(200, "OK", "b1"));
    w.send(ALICE, c.ack("b1"));
    let bye = only(&w.send(ALICE, c.bye("b1")), "BYE").clone();
    w.send(SERVER, ok(&bye));
    assert_eq!(slots(&w), (0, 0));
    assert_eq!(w.send(SERVER, c.answer(200, "OK", "b2")), []);
    assert_eq!(w.snapshot().dropped["late_answer"], 1);
}

#[test]
fn two_calls_of_one_dialog_do_not_take_it_from_each_other() {
    let mut s = settings(2, refuse());
    s.session.call_max = Some(Duration::from_secs(600));
    let mut w = World::new(s);
    let first = w.call("c1");
    w.ms(300_000);
    // The same Call-ID and tags in a call of its own.
    let mut second = first.clone();
    let invite = first.invite().replacen("z9hG4bKi", "z9hG4bKj", 1);
    second.at_server = only(&w.send(ALICE, invite), "INVITE").clone();
    w.send(SERVER, second.answer(200, "OK", "b1"));
    w.send(ALICE, second.ack("b1"));
    for bye in byes(&w.ms(300_000)) {
        w.send(&bye.to.clone(), ok(&bye));
    }
    assert_eq!(slots(&w), (1, 1), "the first is over");
    let bye = only(&w.send(ALICE, second.bye("b1")), "BYE").clone();
    w.send(SERVER, ok(&bye));
    assert_eq!(slots(&w), (0, 0), "and the second can be hung up");
}

#[test]
fn a_flood_of_refused_calls_is_not_remembered() {
    let mut w = World::of(1, refuse());
    w.call("c1");
    for i in 0..2_000 {
        let c = Call::new(&format!("f{i}"));
        w.send(ALICE, c.invite());
        w.send(ALICE, c.hop_ack());
    }
    w.ms(60_000);
    assert!(w.front.wakeups() < 10, "{}", w.front.wakeups());
}

#[test]
fn a_call_that_is_too_old_before_it_has_a_slot_leaves_the_defence_too() {
    let mut s = settings(1, seven());
    s.session.call_max = Some(Duration::from_secs(20));
    let mut w = World::new(s);
    w.call("c1");
    w.ms(200);
    // It waits for the slot of one whose server does not answer the BYE.
    assert_eq!(
        byes(&w.send(ALICE, Call::new("newcomer").invite())).len(),
        2
    );
    let sent = w.ms(21_000);
    assert!(
        sent.iter()
            .any(|s| s.text.starts_with("SIP/2.0 503") && s.text.contains("newcomer"))
    );
    w.ms(60_000);
    assert_eq!(slots(&w), (0, 0));
}

#[test]
fn a_flood_leaves_room_to_hang_up() {
    let mut s = settings(1, refuse());
    s.limits.transactions_max = 16;
    let mut w = World::new(s);
    let c = w.call("c1");
    for i in 0..50 {
        w.send(BOB, Call::new(&format!("f{i}")).invite());
    }
    assert_eq!(w.snapshot().transactions, 14);
    let bye = only(&w.send(ALICE, c.bye("b1")), "BYE").clone();
    w.send(SERVER, ok(&bye));
    assert_eq!(slots(&w), (0, 0));
}

#[test]
fn nobody_makes_us_talk_to_our_own_inside() {
    let inside = "10.0.1.1:5070";
    let mut s = settings(1, seven());
    s.inside = vec![Listen::udp(addr(inside))];
    let mut w = World::new(s);
    let mut c = Call::new("c1");
    // Not a neighbour that wants answers where it came from, so its Contact counts.
    let invite = c
        .invite()
        .replace(";rport", "")
        .replace(&format!("sip:alice@{ALICE}>"), &format!("sip:x@{inside}>"));
    c.at_server = only(&w.send(ALICE, invite), "INVITE").clone();
    w.send_on(1, SERVER, c.answer(200, "OK", "b1"));
    w.send(ALICE, c.ack("b1"));
    w.ms(200);
    let sent = w.send(ALICE, Call::new("newcomer").invite());
    let to: Vec<_> = byes(&sent).into_iter().map(|b| b.to).collect();
    assert_eq!(to, [SERVER, ALICE]);
}

#[test]
fn bypass_and_a_dry_run_refuse_nobody_for_want_of_room() {
    for bypass in [true, false] {
        let mut s = settings(1, refuse());
        s.limits.calls_max = 2;
        (s.bypass, s.dry_run) = (bypass, !bypass);
        let mut w = World::new(s);
        for i in 0..5 {
            w.call(&format!("c{i}"));
        }
        let s = w.snapshot();
        assert_eq!((s.arrivals, s.held_in_call), (5, 2), "bypass {bypass}");
    }
}

#[test]
fn a_caller_whose_connection_is_gone_is_reached_by_its_contact() {
    let mut s = settings(1, seven());
    s.listen = vec![Listen::tcp(addr(PROXY)), Listen::udp(addr(PROXY))];
    let mut w = World::new(s);
    let mut c = Call::new("c1");
    let invite = c.invite().replace("SIP/2.0/UDP", "SIP/2.0/TCP");
    c.at_server = only(&w.send("192.0.2.10:40000", invite), "INVITE").clone();
    w.send_on(1, SERVER, c.answer(200, "OK", "b1"));
    w.send("192.0.2.10:40000", c.ack("b1"));
    w.ms(200);
    let sent = w.send_on(1, BOB, Call::new("newcomer").invite());
    let to: Vec<_> = byes(&sent).into_iter().map(|b| b.to).collect();
    assert_eq!(to, [SERVER, "192.0.2.10:40000"]);
    // The last transaction that was made is that BYE's.
    let sent = w.handle(Input::Unreachable { txn: w.last_txn });
    assert_eq!(only(&sent, "BYE").to, ALICE);
}

#[test]
fn long_messages_fill_no_more_than_their_budget() {
    let mut s = settings(1_000, refuse());
    s.limits.transaction_bytes_max = 1 << 20;
    let mut w = World::new(s);
    let mut refused = 0;
    for i in 0..100 {
        let mut c = Call::new(&format!("long{i}"));
        c.extra = format!("Subject: {}\r\n", "x".repeat(30_000));
        let sent = w.send(ALICE, c.invite());
        refused += usize::from(sent.iter().any(|s| s.text.starts_with("SIP/2.0 503")));
        assert!(w.snapshot().transaction_bytes < 1 << 20);
    }
    assert!(refused > 50, "{refused}");
    assert!(w.snapshot().dropped["transactions_full"] > 50);
    // They are answered, or given up, and the room is there again.
    w.ms(120_000);
    let s = w.snapshot();
    assert_eq!((s.transactions, s.transaction_bytes), (0, 0));
}
