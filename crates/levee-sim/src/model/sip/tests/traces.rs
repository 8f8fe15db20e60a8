//! Who sends what when: whole calls, message by message.

use std::fmt::Write as _;

use super::*;

/// The model, and what it was handed.
struct Traced {
    model: Sip,
    trace: String,
}

impl Model for Traced {
    type Message = Message;

    fn start(&mut self, scheduler: &mut Scheduler<Message>) {
        self.model.start(scheduler);
    }

    fn deliver(&mut self, to: ActorId, message: Message, scheduler: &mut Scheduler<Message>) {
        if let Message::Sip { call, from, signal } = message {
            let name = ["caller", "front", "server", "callee"];
            let (from, to) = (name[from as usize], name[to.0 as usize]);
            let at = scheduler.now().as_nanos() / 1_000_000;
            let call = call.key().0;
            writeln!(self.trace, "{at:>5} {call} {from} -> {to} {signal:?}").unwrap();
        }
        self.model.deliver(to, message, scheduler);
    }
}

/// Calls at even intervals of a second, the first at 1 s, each to last for `wanted`, on one line; up to the horizon of 2.9 s unless
/// the setup is changed.
fn trace(defense: Option<Config>, wanted: Duration, change: impl FnOnce(&mut Setup)) -> String {
    let mut setup = paper(1.0, 0.0, defense);
    setup.capacity = 1;
    setup.plan.arrivals = Arrivals::Even;
    setup.plan.honest.durations = Some(Durations::Fixed(wanted));
    setup.plan.until = Duration::from_millis(2_900);
    change(&mut setup);
    let ties = setup.ties;
    let model = Sip::new(setup).unwrap();
    let end = model.end();
    let traced = Traced {
        model,
        trace: String::new(),
    };
    let mut simulation = Simulation::new(traced, end, ties);
    simulation.run().unwrap();
    simulation.model.trace
}

#[track_caller]
fn check(found: &str, expected: &str) {
    let lines = |text: &str| {
        text.lines()
            .map(|l| l.trim().to_owned())
            .filter(|l| !l.is_empty())
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(found), lines(expected), "found:\n{found}");
}

const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_call_without_a_front() {
    // The second finds the line taken.
    let found = trace(None, Duration::from_millis(800), |_| {});
    check(
        &found,
        "
         1100 0 caller -> server Invite
         1200 0 server -> caller Trying
         1200 0 server -> callee Invite
         1300 0 callee -> server Ringing
         1400 0 server -> caller Ringing
         1600 0 callee -> server Ok
         1700 0 server -> callee Ack
         1700 0 server -> caller Ok
         1800 0 caller -> server Ack
         2100 1 caller -> server Invite
         2200 1 server -> caller Unavailable
         2600 0 caller -> server Bye
         2700 0 server -> caller ByeOk
         2700 0 server -> callee Bye
         2800 0 callee -> server ByeOk
        ",
    );
}

#[test]
fn a_call_through_the_front() {
    let found = trace(
        seven(Strategy::Roulette),
        Duration::from_millis(200),
        |setup| {
            setup.plan.until = Duration::from_millis(1_950);
        },
    );
    check(
        &found,
        "
         1100 0 caller -> front Invite
         1100 0 front -> server Invite
         1100 0 server -> front Trying
         1200 0 front -> caller Trying
         1200 0 server -> callee Invite
         1300 0 callee -> server Ringing
         1300 0 server -> front Ringing
         1400 0 front -> caller Ringing
         1600 0 callee -> server Ok
         1600 0 server -> front Ok
         1700 0 server -> callee Ack
         1700 0 front -> caller Ok
         1800 0 caller -> front Ack
         1800 0 front -> server Ack
         2000 0 caller -> front Bye
         2000 0 front -> server Bye
         2000 0 server -> front ByeOk
         2100 0 server -> callee Bye
         2100 0 front -> caller ByeOk
         2200 0 callee -> server ByeOk
        ",
    );
}

#[test]
fn a_call_dropped_in_call() {
    check(
        &trace(seven(Strategy::Roulette), LONG, |_| {}),
        "
         1100 0 caller -> front Invite
         1100 0 front -> server Invite
         1100 0 server -> front Trying
         1200 0 front -> caller Trying
         1200 0 server -> callee Invite
         1300 0 callee -> server Ringing
         1300 0 server -> front Ringing
         1400 0 front -> caller Ringing
         1600 0 callee -> server Ok
         1600 0 server -> front Ok
         1700 0 server -> callee Ack
         1700 0 front -> caller Ok
         1800 0 caller -> front Ack
         1800 0 front -> server Ack
         2100 1 caller -> front Invite
         2100 0 front -> server FrontBye
         2100 0 server -> front FrontByeOk
         2100 1 front -> server Invite
         2100 1 server -> front Trying
         2200 0 front -> caller FrontBye
         2200 1 front -> caller Trying
         2200 0 server -> callee Bye
         2200 1 server -> callee Invite
         2300 0 caller -> front FrontByeOk
         2300 0 callee -> server ByeOk
         2300 1 callee -> server Ringing
         2300 1 server -> front Ringing
         2400 1 front -> caller Ringing
         2600 1 callee -> server Ok
         2600 1 server -> front Ok
         2700 1 server -> callee Ack
         2700 1 front -> caller Ok
         2800 1 caller -> front Ack
         2800 1 front -> server Ack
        ",
    );
}

#[test]
fn a_call_dropped_while_it_rings() {
    let found = trace(seven(Strategy::Roulette), LONG, |setup| {
        setup.ring = Span::from_secs(10);
    });
    check(
        &found,
        "
         1100 0 caller -> front Invite
         1100 0 front -> server Invite
         1100 0 server -> front Trying
         1200 0 front -> caller Trying
         1200 0 server -> callee Invite
         1300 0 callee -> server Ringing
         1300 0 server -> front Ringing
         1400 0 front -> caller Ringing
         2100 1 caller -> front Invite
         2100 0 front -> server Cancel
         2100 0 server -> front Terminated
         2100 1 front -> server Invite
         2100 1 server -> front Trying
         2200 0 front -> caller Unavailable
         2200 1 front -> caller Trying
         2200 0 server -> callee Cancel
         2200 1 server -> callee Invite
         2300 0 callee -> server Terminated
         2300 1 callee -> server Ringing
         2300 1 server -> front Ringing
         2400 1 front -> caller Ringing
        12300 1 callee -> server Ok
        12300 1 server -> front Ok
        12400 1 server -> callee Ack
        12400 1 front -> caller Ok
        12500 1 caller -> front Ack
        12500 1 front -> server Ack
        ",
    );
}

#[test]
fn a_call_whose_answer_crosses_the_cancel() {
    // The 200 leaves the callee at 2,050 ms, and the second call comes at 2,100 ms.
    let found = trace(seven(Strategy::Roulette), LONG, |setup| {
        setup.ring = Span::from_millis(850);
    });
    check(
        &found,
        "
         1100 0 caller -> front Invite
         1100 0 front -> server Invite
         1100 0 server -> front Trying
         1200 0 front -> caller Trying
         1200 0 server -> callee Invite
         1300 0 callee -> server Ringing
         1300 0 server -> front Ringing
         1400 0 front -> caller Ringing
         2100 1 caller -> front Invite
         2100 0 front -> server Cancel
         2100 0 server -> front Terminated
         2100 1 front -> server Invite
         2100 1 server -> front Trying
         2150 0 callee -> server Ok
         2200 0 front -> caller Unavailable
         2200 1 front -> caller Trying
         2200 0 server -> callee Cancel
         2200 1 server -> callee Invite
         2250 0 server -> callee Ack
         2250 0 server -> callee Bye
         2300 1 callee -> server Ringing
         2300 1 server -> front Ringing
         2350 0 callee -> server ByeOk
         2400 1 front -> caller Ringing
         3150 1 callee -> server Ok
         3150 1 server -> front Ok
         3250 1 server -> callee Ack
         3250 1 front -> caller Ok
         3350 1 caller -> front Ack
         3350 1 front -> server Ack
        ",
    );
}

#[test]
fn a_call_dropped_between_answer_and_ack() {
    // The 200 passes the front at 2,050 ms, the second call comes at 2,100 ms, the ACK at 2,250 ms.
    let found = trace(seven(Strategy::Roulette), LONG, |setup| {
        setup.ring = Span::from_millis(750);
    });
    check(
        &found,
        "
         1100 0 caller -> front Invite
         1100 0 front -> server Invite
         1100 0 server -> front Trying
         1200 0 front -> caller Trying
         1200 0 server -> callee Invite
         1300 0 callee -> server Ringing
         1300 0 server -> front Ringing
         1400 0 front -> caller Ringing
         2050 0 callee -> server Ok
         2050 0 server -> front Ok
         2100 1 caller -> front Invite
         2150 0 server -> callee Ack
         2150 0 front -> caller Ok
         2200 1 front -> caller Trying
         2250 0 caller -> front Ack
         2250 0 front -> server Ack
         2250 0 front -> server FrontBye
         2250 0 server -> front FrontByeOk
         2250 1 front -> server Invite
         2250 1 server -> front Trying
         2350 0 front -> caller FrontBye
         2350 0 server -> callee Bye
         2350 1 server -> callee Invite
         2450 0 caller -> front FrontByeOk
         2450 0 callee -> server ByeOk
         2450 1 callee -> server Ringing
         2450 1 server -> front Ringing
         2550 1 front -> caller Ringing
         3200 1 callee -> server Ok
         3200 1 server -> front Ok
         3300 1 server -> callee Ack
         3300 1 front -> caller Ok
         3400 1 caller -> front Ack
         3400 1 front -> server Ack
        ",
    );
}

#[test]
fn a_caller_that_gives_up() {
    let found = trace(seven(Strategy::Roulette), LONG, |setup| {
        setup.ring_timeout = Span::from_millis(600);
        setup.ring = Span::from_millis(700);
        setup.plan.until = Duration::from_millis(1_900);
    });
    check(
        &found,
        "
         1100 0 caller -> front Invite
         1100 0 front -> server Invite
         1100 0 server -> front Trying
         1200 0 front -> caller Trying
         1200 0 server -> callee Invite
         1300 0 callee -> server Ringing
         1300 0 server -> front Ringing
         1400 0 front -> caller Ringing
         1700 0 caller -> front Cancel
         1700 0 front -> server Cancel
         1700 0 server -> front Terminated
         1800 0 server -> callee Cancel
         1800 0 front -> caller Terminated
         1900 0 callee -> server Terminated
        ",
    );
}

#[test]
fn a_call_that_waits_for_the_end_of_the_round() {
    let found = trace(seven(Strategy::Roulette), LONG, |setup| {
        setup.delay = Span::from_millis(130);
        setup.plan.until = Duration::from_millis(1_900);
        *setup = setup.clone().with_preset(Preset::Paper);
    });
    check(
        &found,
        "
         1130 0 caller -> front Invite
         1200 0 front -> server Invite
         1200 0 server -> front Trying
         1260 0 front -> caller Trying
         1330 0 server -> callee Invite
         1460 0 callee -> server Ringing
         1460 0 server -> front Ringing
         1590 0 front -> caller Ringing
         1760 0 callee -> server Ok
         1760 0 server -> front Ok
         1890 0 server -> callee Ack
         1890 0 front -> caller Ok
         2020 0 caller -> front Ack
         2020 0 front -> server Ack
        ",
    );
}
