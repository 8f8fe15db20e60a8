//! What must hold whatever comes in whatever order.

use levee_policy::selective::Config;
use levee_proxy::recorder::RecordSettings;
use levee_proxy::sip::front::Event;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::world::*;

/// Where a storm's choices come from.
enum Choices {
    Random(Pcg64Mcg),
    /// A fuzzer's bytes, and how many are used.
    Bytes(Vec<u8>, usize),
}

impl Choices {
    fn byte(&mut self) -> u8 {
        match self {
            Self::Random(rng) => rng.next_u64() as u8,
            Self::Bytes(bytes, at) => {
                *at += 1;
                bytes.get(*at - 1).copied().unwrap_or_default()
            }
        }
    }

    fn below(&mut self, n: usize) -> usize {
        let wide = match self {
            Self::Random(rng) => rng.next_u64() as usize,
            Self::Bytes(..) if n <= 256 => self.byte().into(),
            Self::Bytes(..) => usize::from(self.byte()) << 8 | usize::from(self.byte()),
        };
        wide % n
    }

    /// Up to 255 bytes to be sent as they are.
    fn raw(&mut self) -> Vec<u8> {
        let n = self.byte();
        (0..n).map(|_| self.byte()).collect()
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Bytes(bytes, at) if *at >= bytes.len())
    }
}

/// A storm of calls in every stage, honest ends and rude ones, mangled and repeated messages.
struct Storm {
    choices: Choices,
    /// Messages on their way, to be delivered in any order, or lost.
    pending: Vec<Sent>,
    next: u32,
    /// Calls come only while there is room, so that some live to their end.
    calm: bool,
    calls: Vec<Call>,
}

impl Storm {
    fn below(&mut self, n: usize) -> usize {
        self.choices.below(n)
    }

    fn step(&mut self, w: &mut World) {
        match self.below(13) {
            0 | 1 if !self.calm || w.snapshot().held() < 6 => {
                self.next += 1;
                let c = Call::new(&format!("s{}", self.next));
                self.pending.extend(w.send(ALICE, c.invite()));
                self.calls.push(c);
            }
            2 => {
                let ms = self.below(400) as u64;
                let sent = w.ms(ms);
                self.pending.extend(sent);
            }
            3 if !self.calls.is_empty() => {
                // The latest ones: older calls are mostly gone.
                let i = self.calls.len() - 1 - self.below(self.calls.len().min(8));
                let c = self.calls[i].clone();
                let text = match self.below(5) {
                    0 => c.invite(),
                    1 => c.cancel(),
                    2 => c.bye("b1"),
                    3 => c.ack("b1"),
                    _ => c.hop_ack(),
                };
                self.pending.extend(w.send(ALICE, text));
            }
            4 if !self.pending.is_empty() => {
                let i = self.below(self.pending.len());
                let mut bytes = self.pending[i].text.clone().into_bytes();
                for _ in 0..=self.below(4) {
                    let at = self.below(bytes.len());
                    bytes[at] = self.choices.byte();
                }
                bytes.truncate(self.below(bytes.len()) + 1);
                self.pending.extend(w.send(SERVER, bytes));
            }
            5 => {
                let bytes = self.choices.raw();
                let from = [ALICE, SERVER][self.below(2)];
                self.pending.extend(w.send(from, bytes));
            }
            _ if !self.pending.is_empty() => {
                let i = self.below(self.pending.len());
                let m = self.pending.swap_remove(i);
                self.deliver(w, &m);
            }
            _ => {}
        }
        // The network loses some, the oldest first.
        let lost = self.pending.len().saturating_sub(40);
        self.pending.drain(..lost);
    }

    fn deliver(&mut self, w: &mut World, m: &Sent) {
        let at = m.to.clone();
        let sent = if m.text.starts_with("INVITE") {
            let contact = format!("Contact: <sip:bob@{SERVER}>\r\n");
            match self.below(8) {
                0 => w.send(&at, answer(m, 486, "Busy", "b1", "")),
                1 => w.send(&at, answer(m, 180, "Ringing", "b2", &contact)),
                2 => w.send(&at, answer(m, 200, "OK", "b2", &contact)),
                _ => {
                    let mut sent = w.send(&at, answer(m, 180, "Ringing", "b1", &contact));
                    sent.extend(w.send(&at, answer(m, 200, "OK", "b1", &contact)));
                    sent
                }
            }
        } else if m.text.starts_with("CANCEL") {
            w.send(&at, ok(m))
        } else if m.text.starts_with("BYE") {
            match self.below(5) {
                0 => Vec::new(),
                1 => w.send(&at, answer(m, 481, "Gone", "", "")),
                _ => w.send(&at, ok(m)),
            }
        } else if m.text.starts_with("SIP/2.0 200")
            && m.text.contains(" INVITE\r\n")
            && m.to == ALICE
        {
            let tag = m
                .header("To")
                .rsplit_once("tag=")
                .map_or("b1", |(_, t)| t)
                .to_owned();
            match self.calls.iter().find(|c| c.id == m.header("Call-ID")) {
                Some(c) if !m.text.is_empty() => w.send(ALICE, c.ack(&tag)),
                _ => Vec::new(),
            }
        } else {
            Vec::new()
        };
        self.pending.extend(sent);
    }
}

/// Slots of the server in a storm.
const K: u32 = 6;

fn world(defense: Config) -> World {
    let mut s = settings(K, defense);
    s.record = Some(RecordSettings {
        path: "unused".into(),
        bytes_max: 0,
        files: 0,
    });
    s.session.call_max = Some(std::time::Duration::from_secs(3600));
    World::new(s)
}

/// Runs a storm and says after each step what must hold, and after two hours that nothing is left of it.
fn rage(w: &mut World, mut storm: Storm, steps: u32, name: &str) {
    for step in 0..steps {
        if storm.choices.is_over() {
            break;
        }
        storm.step(w);
        let s = w.snapshot();
        assert!(
            s.in_service <= K,
            "{name} step {step}: {} of {K} slots",
            s.in_service
        );
        assert_eq!(s.held() as usize, w.front.calls(), "{name} step {step}");
    }
    w.ms(7_200_000);
    let s = w.snapshot();
    assert_eq!(
        (s.held(), s.in_service, s.transactions),
        (0, 0, 0),
        "{name}: {s:?}"
    );
}

fn storm(seed: u64, defense: Config, steps: u32) -> (World, Vec<Event>) {
    let mut w = world(defense);
    let storm = Storm {
        choices: Choices::Random(Pcg64Mcg::seed_from_u64(seed)),
        pending: Vec::new(),
        next: 0,
        calm: seed.is_multiple_of(2),
        calls: Vec::new(),
    };
    rage(&mut w, storm, steps, &format!("seed {seed}"));
    let events = w.front.take_events();
    (w, events)
}

/// What the fuzzer calls: a storm that its bytes choose.
pub(crate) fn sip_front(bytes: &[u8]) {
    let choices = Choices::Bytes(bytes.to_vec(), 0);
    let storm = Storm {
        choices,
        pending: Vec::new(),
        next: 0,
        calm: false,
        calls: Vec::new(),
    };
    rage(&mut world(Config::default()), storm, u32::MAX, "fuzz");
}

#[test]
fn the_fuzzers_corpus_holds() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sip_front");
    let mut files = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        sip_front(&std::fs::read(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files > 0);
}

#[test]
fn no_order_of_messages_leaks_a_slot_or_a_transaction() {
    use levee_policy::selective::Strategy;

    let strategies = [
        Strategy::Uniform,
        Strategy::Roulette,
        Strategy::Tournament { size: Some(3) },
    ];
    let (mut evicted, mut hung_up) = (0, 0);
    for seed in 0..60 {
        let strategy = strategies[(seed % 3) as usize];
        let (w, _) = storm(
            seed,
            Config {
                strategy,
                ..Config::default()
            },
            3_000,
        );
        evicted += w.snapshot().evicted_in_call + w.snapshot().evicted_waiting;
        hung_up += w.snapshot().completed;
    }
    assert!(
        evicted > 1_000 && hung_up > 100,
        "the storm must reach what it tests: {evicted}, {hung_up}"
    );
}

#[test]
fn what_was_recorded_replays_to_the_same_verdicts() {
    use levee_policy::StateMachine as _;
    use levee_policy::selective::Selective;
    use levee_proxy::recorder::policy_rng;

    let (_, events) = storm(7, Config::default(), 5_000);
    let mut policy = Selective::new(6, Config::default()).unwrap();
    let mut rng = policy_rng(1);
    let mut outputs = 0;
    for event in &events {
        match event {
            Event::Input(at, input) => policy.handle(*at, input.clone(), &mut rng),
            Event::Deadline(at) => policy.handle_deadline(*at, &mut rng),
            Event::Output(_, output) => {
                assert_eq!(policy.poll_output().as_ref(), Some(output));
                outputs += 1;
                continue;
            }
        }
    }
    assert_eq!(policy.poll_output(), None);
    assert!(outputs > 500, "{outputs}");
}
