//! A state machine with its randomness and its recording, driven by the contract of [`StateMachine`](levee_policy::StateMachine).

use levee_policy::Time;
use levee_policy::selective::Selective;
use levee_policy::thinner::Thinner;

use crate::http::settings::HttpSettings;
use crate::recorder::{
    Header, PolicyRng, RecordError, Recorded, Recorder, ThinnerHeader, policy_rng,
};

/// Recordings of the two machines.
#[derive(Debug, Default)]
pub struct Recordings {
    /// Of the thinner.
    pub requests: Option<Recorder<Thinner>>,
    /// Of the table of connections.
    pub connections: Option<Recorder<Selective>>,
}

impl Recordings {
    /// Begins those that the settings want; `seed` is that of the machines' draws.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn start(settings: &HttpSettings, seed: u64) -> Result<Self, RecordError> {
        let requests = settings.record.as_ref().zip(settings.defense.as_ref());
        let requests = requests.map(|(record, config)| {
            Recorder::start(record, ThinnerHeader::new(seed, config.clone()))
        });
        let table = settings.connections.as_ref();
        let connections = table.and_then(|table| {
            let header = Header::new(seed, table.capacity, table.defense.clone());
            Some(Recorder::start(table.record.as_ref()?, header))
        });
        Ok(Recordings {
            requests: requests.transpose()?,
            connections: connections.transpose()?,
        })
    }
}

/// A machine that is driven. Whoever calls [`handle`](Self::handle) or [`due`](Self::due) takes [`next`](Self::next) until
/// there is none.
pub(super) struct Driven<M: Recorded> {
    pub(super) machine: M,
    rng: PolicyRng,
    recorder: Option<Recorder<M>>,
    now: Time,
}

impl<M: Recorded> Driven<M> {
    pub(super) fn new(machine: M, seed: u64, recorder: Option<Recorder<M>>) -> Self {
        Driven {
            machine,
            rng: policy_rng(seed),
            recorder,
            now: Time::ZERO,
        }
    }

    pub(super) fn handle(&mut self, now: Time, input: M::Input) {
        // Workers read the clock before they have the lock.
        self.now = self.now.max(now);
        self.renew();
        if let Some(recorder) = &mut self.recorder {
            recorder.input(self.now, &input);
        }
        self.machine.handle(self.now, input, &mut self.rng);
    }

    /// Does what is due, if anything is.
    pub(super) fn due(&mut self, now: Time) -> bool {
        self.now = self.now.max(now);
        let is_due = self.machine.deadline().is_some_and(|at| at <= self.now);
        if is_due {
            if let Some(recorder) = &mut self.recorder {
                recorder.deadline(self.now);
            }
            self.machine.handle_deadline(self.now, &mut self.rng);
        }
        is_due
    }

    pub(super) fn next(&mut self) -> Option<M::Output> {
        let output = self.machine.poll_output()?;
        if let Some(recorder) = &mut self.recorder {
            recorder.output(self.now, &output);
        }
        Some(output)
    }

    /// Writes the recording to its end; it does not begin again.
    pub(super) fn finish_recording(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish();
        }
    }

    /// Inputs and outputs that no recording holds.
    pub(super) fn recording_lost(&self) -> u64 {
        let status = self.recorder.as_ref().map(Recorder::status);
        status.map_or(0, |status| status.missed)
    }

    /// A recording that has ended begins again with a fresh machine, once this one holds nothing.
    fn renew(&mut self) {
        let Some(recorder) = &mut self.recorder else {
            return;
        };
        if !recorder.wants_restart() || !self.machine.is_idle() {
            return;
        }
        let seed = crate::sip::random_u64();
        let header = self.machine.header(seed);
        // It has run with this configuration until now.
        if let Ok(machine) = M::fresh(&header) {
            self.machine = machine;
            self.rng = policy_rng(seed);
            recorder.restart(header);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use levee_policy::selective::{self, Kind, PhaseId};
    use levee_policy::thinner::{Capacity, Config, Mode, Outcome};

    use super::super::{Asked, Gate, RequestFacts};
    use super::*;
    use crate::http::settings::ConnectionSettings;
    use crate::recorder::{End, EndReason, RecordSettings, replay_file};

    fn settings(folder: &Path, bytes_max: u64) -> HttpSettings {
        let record = |name: &str| {
            Some(RecordSettings {
                path: folder.join(name),
                bytes_max,
                files: 50,
            })
        };
        let mut settings = HttpSettings::new("test", Vec::new(), "127.0.0.1:1".parse().unwrap());
        settings.defense = Some(Config {
            mode: Mode::Random,
            ..Config::of(Capacity::Concurrency(2))
        });
        settings.record = record("thinner.jsonl");
        settings.connections = Some(ConnectionSettings {
            capacity: 8,
            defense: selective::Config {
                phases: selective::phases_of_http(),
                ..selective::Config::of_kind(Kind::Seven)
            },
            record: record("connections.jsonl"),
        });
        settings
    }

    /// Requests and connections at capacity, all ended in the end.
    fn drive(gate: &std::sync::Arc<Gate>, rounds: u32) {
        let facts = RequestFacts::new(b"GET", b"/");
        let (mut permits, mut places) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            if let Asked::Admit(permit) = gate.ask(&facts, None) {
                permits.push(permit);
            }
            if let Ok(mut place) = gate.connect("192.0.2.1".parse().unwrap()) {
                place.enter(PhaseId::BODY);
                place.progress(u64::from(round));
                places.push(place);
            }
            places.retain(|place| !place.is_evicted());
            if round % 5 == 0 {
                if let Some(permit) = permits.pop() {
                    permit.done(Outcome::Answered);
                }
            }
        }
    }

    #[test]
    fn what_both_machines_decided_replays_to_the_same_verdicts() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path(), 1 << 20);
        let recordings = Recordings::start(&settings, 3).unwrap();
        let gate = Gate::new(&settings, 3, recordings).unwrap();
        drive(&gate, 300);
        assert_eq!(gate.snapshot().recording_lost, 0);
        drop(gate);
        for (name, machine) in [
            ("thinner.jsonl", "thinner"),
            ("connections.jsonl", "selective"),
        ] {
            let replayed = replay_file(&folder.path().join(name)).unwrap();
            assert_eq!(replayed.first_difference, None);
            assert_eq!((replayed.machine, replayed.seed), (machine, 3));
            assert_eq!(replayed.end, End::Marked(EndReason::Stopped));
            assert!(replayed.outputs >= 300, "{replayed:?}");
        }
    }

    #[test]
    fn a_recording_that_is_full_begins_again_once_nothing_is_held() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path(), 6_000);
        let recordings = Recordings::start(&settings, 3).unwrap();
        let gate = Gate::new(&settings, 3, recordings).unwrap();
        let begun = std::time::Instant::now();
        let again = |name: &str| folder.path().join(format!("{name}.1")).exists();
        while !(again("thinner.jsonl") && again("connections.jsonl")) {
            assert!(begun.elapsed().as_secs() < 30, "no new recording begins");
            drive(&gate, 50);
        }
        let lost = gate.snapshot().recording_lost;
        drop(gate);
        assert!(lost > 0);
        for name in ["thinner.jsonl", "connections.jsonl"] {
            for path in [name.to_owned(), format!("{name}.1")] {
                let replayed = replay_file(&folder.path().join(&path)).unwrap();
                assert_eq!(replayed.first_difference, None, "{path}");
            }
        }
    }
}
