//! The proxy as RFC 3261 wants it, whatever the defence.

use levee_proxy::sip::settings::Listen;

use crate::world::*;

#[test]
fn a_call_goes_through_and_leaves_nothing() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    let sent = w.send(ALICE, c.invite());
    let trying = only(&sent, "SIP/2.0 100");
    assert_eq!(trying.to, ALICE);
    assert!(trying.header("Via").contains(";rport=5062"), "{trying:?}");
    let invite = only(&sent, "INVITE sip:bob@example.org");
    assert_eq!(invite.to, SERVER);
    assert_eq!(invite.header("Max-Forwards"), "69");
    assert_eq!(invite.header("Record-Route"), format!("<sip:{PROXY};lr>"));
    assert_eq!(invite.all("Via").len(), 2);
    assert!(invite.all("Via")[0].starts_with("SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK"));
    assert!(invite.all("Via")[1].contains("received=192.0.2.10"));
    c.at_server = invite.clone();

    let ringing = w.send(SERVER, c.answer(180, "Ringing", "b1"));
    assert_eq!(only(&ringing, "SIP/2.0 180").all("Via").len(), 1);
    assert_eq!(w.snapshot().held_waiting, 1);
    let answered = w.send(SERVER, c.answer(200, "OK", "b1"));
    assert_eq!(firsts(&answered), [format!("SIP/2.0 200 OK > {ALICE}")]);
    let ack = w.send(ALICE, c.ack("b1"));
    assert_eq!(ack.len(), 1);
    assert_eq!(
        ack[0].all("Route"),
        Vec::<&str>::new(),
        "our own route is taken off"
    );
    assert_eq!(w.snapshot().held_in_call, 1);

    let bye = w.send(ALICE, c.bye("b1"));
    let bye = only(&bye, "BYE");
    assert_eq!(bye.to, SERVER);
    let done = w.send(SERVER, ok(bye));
    assert_eq!(firsts(&done), [format!("SIP/2.0 200 OK > {ALICE}")]);
    let s = w.snapshot();
    assert_eq!((s.completed, s.held(), s.in_service), (1, 0, 0));
    assert_eq!(w.ms(60_000), []);
    assert_eq!(w.snapshot().transactions, 0);
}

#[test]
fn retransmissions_stop_at_the_proxy() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    assert_eq!(
        firsts(&w.send(ALICE, c.invite())),
        [format!("SIP/2.0 100 Trying > {ALICE}")]
    );
    w.send(SERVER, c.answer(180, "Ringing", "b1"));
    assert_eq!(
        firsts(&w.send(ALICE, c.invite())),
        [format!("SIP/2.0 180 Ringing > {ALICE}")]
    );
    // A repeated 2xx is not ours to absorb (RFC 6026), nor is its ACK.
    assert_eq!(w.send(SERVER, c.answer(200, "OK", "b1")).len(), 1);
    assert_eq!(w.send(SERVER, c.answer(200, "OK", "b1")).len(), 1);
    assert_eq!(w.send(ALICE, c.invite()), []);
    assert_eq!(w.send(ALICE, c.ack("b1")).len(), 1);
    assert_eq!(w.send(ALICE, c.ack("b1")).len(), 1);
    let s = w.snapshot();
    assert_eq!((s.arrivals, s.answered, s.held_in_call), (1, 1, 1));
    let bye = only(&w.send(ALICE, c.bye("b1")), "BYE").clone();
    assert_eq!(w.send(ALICE, c.bye("b1")), []);
    w.send(SERVER, ok(&bye));
    assert_eq!(
        firsts(&w.send(ALICE, c.bye("b1"))),
        [format!("SIP/2.0 200 OK > {ALICE}")]
    );
    assert_eq!(w.send(SERVER, ok(&bye)), [], "a final answer goes up once");
}

#[test]
fn an_unanswered_invite_is_repeated_and_given_up() {
    let mut w = World::of(1, seven());
    let c = Call::new("c1");
    w.send(ALICE, c.invite());
    // Timer A: at 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s; timer B at 32 s.
    let sent = w.ms(31_900);
    assert_eq!(sent.len(), 6);
    assert!(
        sent.iter()
            .all(|s| s.to == SERVER && s.text.starts_with("INVITE"))
    );
    let sent = w.ms(200);
    assert_eq!(
        firsts(&sent),
        [format!("SIP/2.0 408 Request Timeout > {ALICE}")]
    );
    assert_eq!(w.snapshot().held(), 0);
    // Timer G repeats it until the ACK.
    assert_eq!(w.ms(600).len(), 1);
    assert_eq!(w.send(ALICE, c.hop_ack()), []);
    assert_eq!(w.ms(60_000), []);
    assert_eq!(w.snapshot().transactions, 0);
}

#[test]
fn a_ringing_call_is_cancelled_by_timer_c() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(180, "Ringing", "b1"));
    assert_eq!(w.ms(180_000), []);
    let sent = w.ms(2_000);
    assert_eq!(only(&sent[..1], "CANCEL").to, SERVER);
    let up = w.send(SERVER, c.answer(487, "Request Terminated", "b1"));
    assert_eq!(only(&up, "ACK").to, SERVER);
    assert_eq!(only(&up, "SIP/2.0 487").to, ALICE);
    assert_eq!(w.snapshot().held(), 0);
}

#[test]
fn a_method_other_than_invite_is_repeated_but_never_answered_408() {
    let mut w = World::of(1, seven());
    let c = Call::new("r1");
    let register = c.invite().replace("INVITE", "REGISTER");
    let sent = w.send(ALICE, &register);
    assert_eq!(
        firsts(&sent),
        [format!("REGISTER sip:bob@example.org SIP/2.0 > {SERVER}")]
    );
    assert_eq!(sent[0].all("Record-Route"), Vec::<&str>::new());
    // Timer E: 0.5, 1.5, 3.5, then every 4 s, until F at 32 s (RFC 4320: no answer then).
    let sent = w.ms(33_000);
    assert_eq!(sent.len(), 10, "{:?}", firsts(&sent));
    assert!(sent.iter().all(|s| s.to == SERVER));
    assert_eq!(w.ms(60_000), []);
    assert_eq!(w.snapshot().transactions, 0);
}

#[test]
fn the_answer_goes_where_rfc_3581_says() {
    let mut w = World::of(1, seven());
    let c = Call::new("c1");
    let nat = "203.0.113.9:40000";
    assert_eq!(only(&w.send(nat, c.invite()), "SIP/2.0 100").to, nat);
    let c = Call::new("c2");
    let sent = w.send(nat, c.invite().replace(";rport", ""));
    let trying = only(&sent, "SIP/2.0 100");
    assert_eq!(
        trying.to, "203.0.113.9:5062",
        "source address, port of the Via"
    );
    assert!(trying.header("Via").contains(";received=203.0.113.9"));
}

#[test]
fn cancel_meets_every_state_of_the_invite() {
    let mut w = World::of(2, seven());
    // Before any provisional answer it waits (RFC 3261 section 9.1).
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    let sent = w.send(ALICE, c.cancel());
    assert_eq!(firsts(&sent), [format!("SIP/2.0 200 OK > {ALICE}")]);
    let sent = w.send(SERVER, c.answer(100, "Trying", ""));
    let cancel = only(&sent, "CANCEL");
    assert_eq!(sent.len(), 1, "100 is not passed on");
    assert_eq!(
        cancel.all("Via"),
        [c.at_server.all("Via")[0]],
        "the branch of the INVITE, and no other Via"
    );
    assert_eq!(cancel.header("CSeq"), "1 CANCEL");
    // A second copy of it gets its 200 and nothing else.
    assert_eq!(w.send(ALICE, c.cancel()).len(), 1);
    assert_eq!(w.send(SERVER, ok(cancel)), []);
    let sent = w.send(SERVER, c.answer(487, "Request Terminated", "b1"));
    assert_eq!(
        firsts(&sent),
        [
            format!("ACK sip:bob@example.org SIP/2.0 > {SERVER}"),
            format!("SIP/2.0 487 Request Terminated > {ALICE}"),
        ]
    );
    assert_eq!(sent[0].header("To"), "<sip:bob@example.org>;tag=b1");
    // The final answer again: acknowledged again, and not passed on.
    let sent = w.send(SERVER, c.answer(487, "Request Terminated", "b1"));
    assert_eq!(
        firsts(&sent),
        [format!("ACK sip:bob@example.org SIP/2.0 > {SERVER}")]
    );
    assert_eq!((w.snapshot().held(), w.snapshot().cancelled), (0, 1));

    // The 200 wins the race.
    let mut c = Call::new("c2");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(180, "Ringing", "b1"));
    assert_eq!(w.send(ALICE, c.cancel()).len(), 2);
    assert_eq!(
        only(&w.send(SERVER, c.answer(200, "OK", "b1")), "SIP/2.0 200").to,
        ALICE
    );
    w.send(ALICE, c.ack("b1"));
    assert_eq!(w.snapshot().held_in_call, 1);

    // Nothing to cancel.
    let c = Call::new("c3");
    assert_eq!(
        firsts(&w.send(ALICE, c.cancel())),
        [format!(
            "SIP/2.0 481 Call/Transaction Does Not Exist > {ALICE}"
        )]
    );
}

#[test]
fn every_2xx_of_a_fork_goes_up() {
    let mut w = World::of(1, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    for tag in ["b1", "b2"] {
        assert_eq!(w.send(SERVER, c.answer(180, "Ringing", tag)).len(), 1);
    }
    for tag in ["b1", "b2"] {
        assert_eq!(w.send(SERVER, c.answer(200, "OK", tag)).len(), 1);
        assert_eq!(w.send(ALICE, c.ack(tag)).len(), 1);
    }
    assert_eq!((w.snapshot().held_in_call, w.snapshot().arrivals), (1, 1));
    // The caller hangs up on the second: the call goes on.
    let bye = only(&w.send(ALICE, c.bye("b2")), "BYE").clone();
    w.send(SERVER, ok(&bye));
    assert_eq!(w.snapshot().held_in_call, 1);
    let bye = only(&w.send(ALICE, c.inside("BYE", 3, "b1")), "BYE").clone();
    w.send(SERVER, ok(&bye));
    assert_eq!(w.snapshot().held(), 0);
}

#[test]
fn a_loop_is_found_and_a_spiral_is_not_one() {
    let mut w = World::of(5, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    // The server sends it back with another Request-URI: a spiral, on to the callee.
    let back = c.at_server.text.replacen(
        "INVITE sip:bob@example.org",
        &format!("INVITE sip:bob@{BOB}"),
        1,
    );
    let back = back.replacen(
        "\r\n",
        &format!("\r\nVia: SIP/2.0/UDP {SERVER};branch=z9hG4bKs1\r\n"),
        1,
    );
    let sent = w.send(SERVER, &back);
    let at_bob = only(&sent, "INVITE").clone();
    assert_eq!(at_bob.to, BOB);
    assert_eq!(at_bob.all("Via").len(), 4);
    // Sent back once more as it was: a loop.
    let again = at_bob.text.replacen(
        "\r\n",
        &format!("\r\nVia: SIP/2.0/UDP {SERVER};branch=z9hG4bKs2\r\n"),
        1,
    );
    let sent = w.send(SERVER, &again);
    assert_eq!(only(&sent, "SIP/2.0 482").to, SERVER);
    assert_eq!(w.snapshot().arrivals, 1, "the call counts once");
}

#[test]
fn max_forwards_ends_and_is_added() {
    let mut w = World::of(5, seven());
    let c = Call::new("c1");
    let sent = w.send(
        ALICE,
        c.invite().replace("Max-Forwards: 70", "Max-Forwards: 0"),
    );
    assert_eq!(only(&sent, "SIP/2.0 483").to, ALICE);
    let c = Call::new("c2");
    let sent = w.send(ALICE, c.invite().replace("Max-Forwards: 70\r\n", ""));
    assert_eq!(only(&sent, "INVITE").header("Max-Forwards"), "70");
}

#[test]
fn what_comes_from_outside_goes_to_the_server_only() {
    let mut w = World::of(5, seven());
    let c = Call::new("c1");
    let victim = "Route: <sip:198.51.100.1;lr>\r\n";
    let sent = w.send(
        ALICE,
        c.invite()
            .replace("Content-Length", &format!("{victim}Content-Length")),
    );
    assert_eq!(only(&sent, "INVITE").to, SERVER);
    assert_eq!(
        only(&sent, "INVITE").all("Route"),
        ["<sip:198.51.100.1;lr>"]
    );
    // In a dialog that we do not know, too: after a restart the server is the one who knows it.
    let c = Call::new("c2");
    let bye = c
        .bye("zz")
        .replace(&format!("BYE sip:bob@{SERVER}"), "BYE sip:x@198.51.100.1");
    assert_eq!(only(&w.send(ALICE, bye), "BYE").to, SERVER);
    let ack = c
        .ack("zz")
        .replace(&format!("ACK sip:bob@{SERVER}"), "ACK sip:x@198.51.100.1");
    assert_eq!(only(&w.send(ALICE, ack), "ACK").to, SERVER);
}

#[test]
fn a_request_uri_that_names_us_is_the_servers() {
    let mut w = World::of(5, seven());
    let mut c = Call::new("c1");
    let sent = w.send(
        ALICE,
        c.invite().replacen(
            "sip:bob@example.org",
            &format!("sip:bob@{PROXY};user=phone"),
            1,
        ),
    );
    let invite = only(&sent, "INVITE");
    assert_eq!(
        invite.first(),
        format!("INVITE sip:bob@{SERVER};user=phone SIP/2.0")
    );
    c.at_server = invite.clone();
    // In a dialog it is the other end's Contact.
    w.send(
        SERVER,
        c.answer(200, "OK", "b1")
            .replace(&format!("sip:bob@{SERVER}"), &format!("sip:b@{SERVER};x")),
    );
    let ack = c.ack("b1").replace(
        &format!("ACK sip:bob@{SERVER}"),
        &format!("ACK sip:bob@{PROXY}"),
    );
    let sent = w.send(ALICE, ack);
    assert_eq!(sent[0].first(), format!("ACK sip:b@{SERVER};x SIP/2.0"));
}

#[test]
fn a_strict_router_before_us_is_undone() {
    let mut w = World::of(5, seven());
    let c = w.call("c1");
    let bye = c
        .bye("b1")
        .replace(
            &format!("BYE sip:bob@{SERVER}"),
            &format!("BYE sip:{PROXY};lr"),
        )
        .replace(
            &format!("Route: <sip:{PROXY};lr>\r\n"),
            &format!("Route: <sip:bob@{SERVER}>\r\n"),
        );
    let sent = w.send(ALICE, bye);
    assert_eq!(sent[0].first(), format!("BYE sip:bob@{SERVER} SIP/2.0"));
    assert_eq!(sent[0].all("Route"), Vec::<&str>::new());
}

#[test]
fn the_server_reaches_a_caller_where_it_called_from() {
    let mut w = World::of(5, seven());
    let nat = "203.0.113.9:40000";
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(nat, c.invite()), "INVITE").clone();
    w.send(SERVER, c.answer(200, "OK", "b1"));
    w.send(nat, c.ack("b1"));
    let bye = format!(
        "BYE sip:alice@{ALICE} SIP/2.0\r\nVia: SIP/2.0/UDP {SERVER};branch=z9hG4bKbb\r\nMax-Forwards: 70\r\n\
         Route: <sip:{PROXY};lr>\r\nFrom: <sip:bob@example.org>;tag=b1\r\nTo: <sip:alice@example.org>;tag=a-c1\r\n\
         Call-ID: c1\r\nCSeq: 9 BYE\r\nContent-Length: 0\r\n\r\n"
    );
    let sent = w.send(SERVER, bye);
    assert_eq!(only(&sent, "BYE").to, nat);
    let done = w.send(nat, ok(&sent[0]));
    assert_eq!(only(&done, "SIP/2.0 200").to, SERVER);
    assert_eq!((w.snapshot().completed, w.snapshot().held()), (1, 0));
}

#[test]
fn options_of_the_server_to_us_is_answered() {
    let mut w = World::of(5, seven());
    let options = format!(
        "OPTIONS sip:{PROXY} SIP/2.0\r\nVia: SIP/2.0/UDP {SERVER};branch=z9hG4bKo\r\nMax-Forwards: 70\r\n\
         From: <sip:s@h>;tag=1\r\nTo: <sip:{PROXY}>\r\nCall-ID: o\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(
        firsts(&w.send(SERVER, &options)),
        [format!("SIP/2.0 200 OK > {SERVER}")]
    );
    assert_eq!(
        only(&w.send(ALICE, options.replace(SERVER, ALICE)), "OPTIONS").to,
        SERVER
    );
}

#[test]
fn two_ports_make_two_record_routes() {
    let inside = "10.0.1.1:5070";
    let mut s = settings(5, seven());
    s.inside = vec![Listen::udp(addr(inside))];
    let mut w = World::new(s);
    let mut c = Call::new("c1");
    let sent = w.send(ALICE, c.invite());
    let invite = only(&sent, "INVITE");
    assert_eq!(
        invite.all("Record-Route"),
        [format!("<sip:{inside};lr>"), format!("<sip:{PROXY};lr>")]
    );
    assert!(invite.all("Via")[0].contains(inside));
    c.at_server = invite.clone();
    w.send_on(1, SERVER, c.answer(200, "OK", "b1"));
    let route = format!("Route: <sip:{PROXY};lr>\r\n");
    let both = format!("Route: <sip:{PROXY};lr>, <sip:{inside};lr>\r\n");
    let sent = w.send(ALICE, c.ack("b1").replace(&route, &both));
    assert_eq!(sent[0].all("Route"), Vec::<&str>::new());
    assert_eq!(w.snapshot().held_in_call, 1);
    // Anything on the inside port is the server's, whatever its address.
    let from_inside =
        Call::new("c9")
            .invite()
            .replacen("sip:bob@example.org", &format!("sip:bob@{BOB}"), 1);
    assert_eq!(
        only(&w.send_on(1, "10.0.1.77:999", from_inside), "INVITE").to,
        BOB
    );
    assert_eq!(w.snapshot().arrivals, 1);
}

#[test]
fn names_are_looked_up_once_and_the_request_waits() {
    let mut w = World::of(5, seven());
    let to_name = |id: &str| {
        Call::new(id)
            .invite()
            .replacen("sip:bob@example.org", "sip:bob@Trunk.example", 1)
    };
    let sent = w.send(SERVER, to_name("c1"));
    assert_eq!(only(&sent, "trunk.example").to, "resolver");
    let sent = w.send(SERVER, to_name("c2"));
    assert_eq!(firsts(&sent).len(), 1, "only the 100: {sent:?}");
    let ip = Some("198.51.100.7".parse().unwrap());
    let host = "trunk.example".to_owned();
    let sent = w.handle(levee_proxy::sip::front::Input::Resolved {
        host: host.clone(),
        ip,
    });
    assert_eq!(
        firsts(&sent),
        ["INVITE sip:bob@Trunk.example SIP/2.0 > 198.51.100.7:5060"; 2]
    );
    assert_eq!(
        only(&w.send(SERVER, to_name("c3")), "INVITE").to,
        "198.51.100.7:5060"
    );
    w.ms(61_000);
    w.send(SERVER, to_name("c4"));
    let sent = w.handle(levee_proxy::sip::front::Input::Resolved { host, ip: None });
    assert_eq!(
        firsts(&sent),
        [format!("SIP/2.0 480 Next Hop Unreachable > {SERVER}")]
    );
}

#[test]
fn a_forged_response_goes_nowhere() {
    let mut w = World::of(5, seven());
    let mut c = Call::new("c1");
    c.at_server = only(&w.send(ALICE, c.invite()), "INVITE").clone();
    let mut forged = c.clone();
    forged.at_server.text = c
        .at_server
        .text
        .replacen("branch=z9hG4bK0", "branch=z9hG4bK1", 1);
    assert_ne!(forged.at_server, c.at_server);
    assert_eq!(w.send(ALICE, forged.answer(200, "OK", "b1")), []);
    let stranger = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKabc\r\nVia: SIP/2.0/UDP h\r\n\
                    From: <sip:a@b>;tag=1\r\nTo: <sip:a@b>;tag=2\r\nCall-ID: c1\r\nCSeq: 1 INVITE\r\n\r\n";
    assert_eq!(w.send(ALICE, stranger), []);
    assert_eq!(w.snapshot().dropped["stray_response"], 2);
}

#[test]
fn a_request_that_cannot_be_sent_is_answered_503() {
    let mut w = World::of(5, seven());
    let c = Call::new("c1");
    w.send(ALICE, c.invite());
    // The number of the first transaction.
    let sent = w.handle(levee_proxy::sip::front::Input::Unreachable { txn: 1 << 32 });
    assert_eq!(
        firsts(&sent),
        [format!("SIP/2.0 503 Service Unavailable > {ALICE}")]
    );
    assert_eq!((w.snapshot().held(), w.snapshot().in_service), (0, 0));
}

#[test]
fn a_caller_that_moves_is_reached_where_it_moved_to() {
    let mut w = World::of(5, seven());
    let c = w.call("c1");
    let new = "203.0.113.9:40000";
    let refresh = only(&w.send(new, c.inside("INVITE", 2, "b1")), "INVITE").clone();
    let request = |cseq: u32| {
        format!(
            "INFO sip:alice@{ALICE} SIP/2.0\r\nVia: SIP/2.0/UDP {SERVER};branch=z9hG4bKbb{cseq}\r\nMax-Forwards: 70\r\n\
             From: <sip:bob@example.org>;tag=b1\r\nTo: <sip:alice@example.org>;tag=a-c1\r\n\
             Call-ID: c1\r\nCSeq: {cseq} INFO\r\nContent-Length: 0\r\n\r\n"
        )
    };
    assert_eq!(only(&w.send(SERVER, request(1)), "INFO").to, ALICE);
    w.send(SERVER, ok(&refresh));
    assert_eq!(only(&w.send(SERVER, request(2)), "INFO").to, new);
}
