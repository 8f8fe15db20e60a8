use std::path::Path;

use levee_policy::selective::{
    Arrival, CallKey, ClassId, Config, Input, Output, PhaseId, Strategy,
};
use levee_policy::thinner::{self, Thinner};
use levee_policy::{Span, StateMachine as _};
use rand_core::Rng as _;

use super::*;

type Recorder = super::Recorder<Selective>;

const CAPACITY: u32 = 8;

fn settings(folder: &Path) -> RecordSettings {
    RecordSettings {
        path: folder.join("events.jsonl"),
        bytes_max: 64 << 20,
        files: 3,
    }
}

fn header(seed: u64) -> Header {
    let config = Config {
        strategy: Strategy::Tournament { size: Some(4) },
        ..Config::default()
    };
    Header::new(seed, CAPACITY, config)
}

/// Drives a machine as a front would, with calls from a fixed stream of numbers, and records it.
struct Front {
    machine: Selective,
    rng: PolicyRng,
    calls: PolicyRng,
    now: Time,
    next: u64,
    forwarded: Vec<CallKey>,
    recorder: Recorder,
}

impl Front {
    fn start(settings: &RecordSettings, seed: u64) -> Self {
        let header = header(seed);
        Front {
            machine: Selective::new(header.capacity, header.config.clone()).unwrap(),
            rng: policy_rng(seed),
            calls: policy_rng(99),
            now: Time::ZERO,
            next: 0,
            forwarded: Vec::new(),
            recorder: Recorder::start(settings, header).unwrap(),
        }
    }

    fn input(&mut self, input: Input) {
        self.recorder.input(self.now, &input);
        self.machine.handle(self.now, input, &mut self.rng);
        self.outputs();
    }

    fn outputs(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            self.recorder.output(self.now, &output);
            match output {
                Output::Forward { call } => self.forwarded.push(call),
                Output::Evict {
                    call,
                    forwarded: true,
                    ..
                } => {
                    self.forwarded.retain(|held| *held != call);
                    // The eviction is done at once; the next round of the loop takes what follows from it.
                    let ended = Input::Ended { call };
                    self.recorder.input(self.now, &ended);
                    self.machine.handle(self.now, ended, &mut self.rng);
                }
                Output::Evict { .. } | Output::Refuse { .. } => {}
            }
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.now = self.now + Span::from_millis(self.calls.next_u64() % 40);
            if self
                .machine
                .deadline()
                .is_some_and(|deadline| deadline <= self.now)
            {
                self.recorder.deadline(self.now);
                self.machine.handle_deadline(self.now, &mut self.rng);
                self.outputs();
            }
            let pick = self.calls.next_u64();
            let held = self
                .forwarded
                .get(pick as usize % self.forwarded.len().max(1))
                .copied();
            match (pick >> 32) % 4 {
                0 if held.is_some() => {
                    self.input(Input::Answered {
                        call: held.unwrap(),
                    });
                }
                1 if held.is_some() && pick.is_multiple_of(3) => {
                    self.forwarded.retain(|call| Some(*call) != held);
                    self.input(Input::Ended {
                        call: held.unwrap(),
                    });
                }
                _ => {
                    self.next += 1;
                    let call = CallKey(self.next);
                    self.input(Input::Arrive(Arrival {
                        call,
                        class: ClassId::DEFAULT,
                        phase: PhaseId::default(),
                        caller: None,
                        source: None,
                    }));
                }
            }
        }
    }
}

/// A finished recording of `steps` steps.
fn recording(steps: u32) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut front = Front::start(&settings(folder.path()), 7);
    front.run(steps);
    front.recorder.finish();
    fs::read_to_string(folder.path().join("events.jsonl")).unwrap()
}

#[test]
fn a_recording_replays_to_the_same_verdicts() {
    let text = recording(4_000);
    let replayed = replay(text.as_bytes()).unwrap();
    assert_eq!(replayed.first_difference, None);
    assert_eq!(replayed.end, End::Marked(EndReason::Stopped));
    assert_eq!((replayed.machine, replayed.seed), ("selective", 7));
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count() as u64;
    assert_eq!(replayed.inputs, lines("\"in\":") + lines("\"deadline\":"));
    assert_eq!(replayed.outputs, lines("\"out\":"));
    // The stream must have met what draws random numbers, or the comparison would prove nothing.
    assert!(
        lines("\"displaced\"") > 100 && lines("\"overload\"") > 100,
        "{}",
        lines("\"displaced\"")
    );
}

/// Drives a thinner with requests and payments from a fixed stream of numbers, and records it.
fn thinner_recording(mode: thinner::Mode, steps: u64) -> String {
    use thinner::{Arrival, Capacity, Input, Outcome, Output, RequestKey};
    let folder = tempfile::tempdir().unwrap();
    let config = thinner::Config {
        mode,
        ..thinner::Config::of(Capacity::Rate(100.0))
    };
    let header = ThinnerHeader::new(7, config);
    let (mut machine, mut rng) = (Thinner::fresh(&header).unwrap(), policy_rng(7));
    let mut recorder = super::Recorder::<Thinner>::start(&settings(folder.path()), header).unwrap();
    let mut choices = policy_rng(99);
    let (mut now, mut waiting) = (Time::ZERO, Vec::new());
    for step in 0..steps {
        now = now + Span::from_millis(choices.next_u64() % 4);
        if machine.deadline().is_some_and(|deadline| deadline <= now) {
            recorder.deadline(now);
            machine.handle_deadline(now, &mut rng);
        } else {
            let pick = choices.next_u64();
            let paying = waiting.get(pick as usize % waiting.len().max(1));
            let input = match paying {
                Some(request) if pick >> 63 == 0 => Input::Pay {
                    request: *request,
                    units: pick % 1_500,
                },
                _ => Input::Arrive(Arrival {
                    request: RequestKey(step),
                    paid: pick % 3,
                    can_wait: true,
                    group: None,
                }),
            };
            recorder.input(now, &input);
            machine.handle(now, input, &mut rng);
        }
        let mut done = Vec::new();
        while let Some(output) = machine.poll_output() {
            recorder.output(now, &output);
            match output {
                Output::Hold { request } => waiting.push(request),
                Output::Admit { request, .. } => done.push(request),
                _ => {}
            }
            if let Output::Admit { request, .. } | Output::Refuse { request, .. } = output {
                waiting.retain(|other| *other != request);
            }
        }
        for request in done {
            let input = Input::Done {
                request,
                outcome: Outcome::Answered,
            };
            recorder.input(now, &input);
            machine.handle(now, input, &mut rng);
        }
    }
    recorder.finish();
    fs::read_to_string(folder.path().join("events.jsonl")).unwrap()
}

#[test]
fn a_recording_of_a_thinner_replays_to_the_same_verdicts() {
    for (mode, draws) in [
        (thinner::Mode::Auction, false),
        (thinner::Mode::Retry, true),
    ] {
        let text = thinner_recording(mode, 2_000);
        let replayed = replay(text.as_bytes()).unwrap();
        assert_eq!(replayed.first_difference, None, "{mode:?}");
        assert_eq!((replayed.machine, replayed.seed), ("thinner", 7));
        assert_eq!(replayed.end, End::Marked(EndReason::Stopped));
        let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count() as u64;
        assert_eq!(replayed.outputs, lines("\"out\":"));
        assert!(lines("\"admit\"") > 100 && lines("\"refuse\"") + lines("\"hold\"") > 100);
        // Where it draws, other random numbers must show.
        let other = text.replacen("\"seed\":7", "\"seed\":8", 1);
        let differs = replay(other.as_bytes()).unwrap().first_difference.is_some();
        assert_eq!(differs, draws, "{mode:?}");
    }
}

#[test]
fn what_would_have_been_is_asked_of_the_selective_defence_alone() {
    let text = thinner_recording(thinner::Mode::Auction, 50);
    let error = History::read(text.as_bytes()).unwrap_err().to_string();
    assert!(
        error.contains("the defence `thinner`, expected `selective`"),
        "{error}"
    );
}

#[test]
fn another_seed_gives_other_verdicts() {
    let text = recording(500).replacen("\"seed\":7", "\"seed\":8", 1);
    let difference = replay(text.as_bytes()).unwrap().first_difference.unwrap();
    assert_ne!(difference.recorded, difference.replayed);
}

#[test]
fn a_changed_verdict_is_found_at_its_line() {
    let text = recording(500);
    let lines: Vec<&str> = text.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.contains("\"refuse\""))
        .unwrap();

    let changed = text.replacen("\"cause\":\"overload\"", "\"cause\":\"full\"", 1);
    let difference = replay(changed.as_bytes())
        .unwrap()
        .first_difference
        .unwrap();
    assert_eq!(difference.line, at as u64 + 1);
    let recorded = difference.recorded.as_ref().unwrap();
    assert_eq!(recorded["refuse"]["cause"], "full", "{difference:?}");
    assert!(difference.replayed.is_some());

    let without: Vec<_> = lines
        .iter()
        .enumerate()
        .filter(|(line, _)| *line != at)
        .map(|(_, line)| *line)
        .collect();
    let difference = replay(without.join("\n").as_bytes())
        .unwrap()
        .first_difference
        .unwrap();
    assert_eq!(
        (difference.line, difference.recorded),
        (at as u64 + 1, None)
    );

    let twice = text.replacen(lines[at], &format!("{}\n{}", lines[at], lines[at]), 1);
    let difference = replay(twice.as_bytes()).unwrap().first_difference.unwrap();
    assert_eq!(
        (difference.line, difference.replayed),
        (at as u64 + 2, None)
    );
}

#[test]
fn a_recording_cut_anywhere_replays_up_to_the_cut() {
    let text = recording(60);
    let header_end = text.find('\n').unwrap() + 1;
    for cut in header_end..text.len() {
        let replayed = replay(&text.as_bytes()[..cut]).unwrap();
        assert_eq!(replayed.first_difference, None, "cut at {cut}");
        let whole_lines = text[..cut].matches('\n').count() as u64;
        let expected = match (text[..cut].ends_with('\n'), text.as_bytes()[cut] == b'\n') {
            (true, _) => End::Unmarked,
            // Only the newline is missing: the line is whole.
            (false, true) if cut + 1 == text.len() => End::Marked(EndReason::Stopped),
            (false, true) => End::Unmarked,
            (false, false) => End::Cut {
                line: whole_lines + 1,
            },
        };
        assert_eq!(replayed.end, expected, "cut at {cut}");
    }
    for cut in 0..header_end - 1 {
        replay(&text.as_bytes()[..cut]).unwrap_err();
    }
}

#[test]
fn what_is_no_recording_is_refused_with_its_line() {
    let text = recording(20);
    let check = |text: &str, says: &str| {
        let error = replay(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    };
    check("", "line 1: the recording is empty");
    check("hello\n", "line 1: not the header");
    check("{}\n", "it has no `levee_events`");
    check(
        &text.replacen("\"levee_events\":1", "\"levee_events\":2", 1),
        "format 2",
    );
    check(
        &text.replacen("\"selective\"", "\"reroute\"", 1),
        "the defence `reroute`, expected `selective` or `thinner`",
    );
    check(
        &text.replacen("\"capacity\":8", "\"capacity\":0", 1),
        "cannot run",
    );
    check(
        &text.replacen("\"seed\":7", "\"sede\":7", 1),
        "unknown field `sede`",
    );
    check(
        &text.replacen("{\"t\":", "{\"T\":", 1),
        "line 2: unknown field `T`",
    );
    check(
        &format!("{text}{{\"end\":\"stopped\"}}\n"),
        "a line after the end",
    );
    let second = text.lines().nth(1).unwrap();
    check(
        &text.replacen(second, "{\"t\":1,\"deadline\":false}", 1),
        "line 2: neither an input",
    );
    check(
        &text.replacen(second, &" ".repeat(1 << 20), 1),
        "line 2: longer than",
    );
}

#[test]
fn the_file_stays_below_its_bound_and_replays() {
    let folder = tempfile::tempdir().unwrap();
    let settings = RecordSettings {
        bytes_max: 20_000,
        ..settings(folder.path())
    };
    let mut front = Front::start(&settings, 7);
    front.run(2_000);
    let status = front.recorder.finish();
    assert_eq!(status.ended, Some(EndReason::Bound));
    assert!(status.missed > 0);
    let bytes = fs::metadata(&settings.path).unwrap().len();
    assert_eq!(bytes, status.bytes);
    assert!(bytes <= 20_000 && bytes > 19_000, "{bytes}");
    let replayed = replay_file(&settings.path).unwrap();
    assert_eq!(
        (replayed.end, replayed.first_difference),
        (End::Marked(EndReason::Bound), None)
    );
    // Every entry is either in the file or counted as missed.
    let mut again = Front::start(
        &RecordSettings {
            bytes_max: 64 << 20,
            ..settings
        },
        7,
    );
    again.run(2_000);
    assert_eq!(again.recorder.finish().lines, status.lines + status.missed);
}

#[test]
fn a_full_queue_ends_the_recording_without_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let (sender, receiver) = sync_channel(2);
    let mut recorder = Recorder::unstarted(&settings);
    recorder.sender = Some(sender);
    let arrive = |call| {
        Input::Arrive(Arrival {
            call: CallKey(call),
            class: ClassId::DEFAULT,
            phase: PhaseId::default(),
            caller: None,
            source: None,
        })
    };
    // Nobody takes from the queue yet: it holds two.
    for call in 0..5 {
        recorder.input(Time::from_nanos(call), &arrive(call));
    }
    assert!(recorder.wants_restart());
    assert_eq!(recorder.status().missed, 3);
    write(
        create(&settings).unwrap(),
        &header(1),
        &receiver,
        settings.bytes_max,
        &recorder.shared,
    )
    .unwrap();
    let text = fs::read_to_string(&settings.path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[2].contains("\"call\":1"), "{text}");
    assert_eq!(lines[3], "{\"end\":\"queue_full\"}");
}

#[test]
fn older_recordings_are_kept_up_to_the_number_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    for seed in 1..=5 {
        let mut front = Front::start(&settings, seed);
        front.run(1);
        front.recorder.finish();
    }
    let seed = |name: &str| replay_file(&folder.path().join(name)).unwrap().seed;
    assert_eq!(
        ["events.jsonl", "events.jsonl.1", "events.jsonl.2"].map(seed),
        [5, 4, 3]
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_recording_that_hit_its_bound_can_begin_again_when_the_table_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let settings = RecordSettings {
        bytes_max: 5_000,
        ..settings(folder.path())
    };
    let mut front = Front::start(&settings, 7);
    front.run(200);
    while !front.recorder.wants_restart() {
        front.run(1);
    }
    assert!(!front.machine.is_idle());
    for call in std::mem::take(&mut front.forwarded) {
        front.input(Input::Ended { call });
    }
    while let Some(call) = front.forwarded.pop() {
        front.input(Input::Ended { call });
    }
    assert!(front.machine.is_idle());
    let header = header(8);
    front.machine = Selective::new(header.capacity, header.config.clone()).unwrap();
    front.rng = policy_rng(8);
    front.recorder.restart(header);
    front.run(10);
    let status = front.recorder.finish();
    assert_eq!(
        (status.recordings, status.ended),
        (2, Some(EndReason::Stopped))
    );
    let new = replay_file(&settings.path).unwrap();
    assert_eq!((new.seed, new.first_difference), (8, None));
    let old = replay_file(&folder.path().join("events.jsonl.1")).unwrap();
    assert_eq!((old.seed, old.first_difference), (7, None));
}

#[test]
fn a_start_that_comes_to_nothing_pushes_out_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let mut front = Front::start(&settings, 1);
    front.run(50);
    front.recorder.finish();
    let real = fs::read(&settings.path).unwrap();
    for seed in 2..10 {
        Recorder::start(&settings, header(seed)).unwrap().finish();
    }
    assert_eq!(fs::read(with_suffix(&settings.path, 1)).unwrap(), real);
    assert!(!with_suffix(&settings.path, 2).exists());
    // What is no recording is somebody's file, and is kept.
    fs::write(&settings.path, "notes\n").unwrap();
    Recorder::start(&settings, header(10)).unwrap().finish();
    let kept = fs::read_to_string(with_suffix(&settings.path, 1)).unwrap();
    assert_eq!(kept, "notes\n");
}

#[test]
fn a_recording_that_another_program_writes_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    let first = Recorder::start(&settings, header(1)).unwrap();
    let error = Recorder::start(&settings, header(2)).unwrap_err();
    assert_eq!(error.source.to_string(), "another program is writing it");
    assert!(!with_suffix(&settings.path, 1).exists());
    first.finish();
    Recorder::start(&settings, header(3)).unwrap().finish();
}

#[test]
fn only_a_file_is_renamed() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path());
    fs::create_dir(&settings.path).unwrap();
    let error = Recorder::start(&settings, header(1)).unwrap_err();
    assert_eq!(error.source.to_string(), "it is there and is no file");
    assert!(settings.path.is_dir());
}

#[test]
fn a_folder_that_does_not_exist_is_said_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let error = Recorder::start(&settings(&folder.path().join("absent")), header(1)).unwrap_err();
    assert!(error.to_string().contains("absent/events.jsonl"), "{error}");
}

/// The random numbers are part of the format: a change of them would make old recordings differ.
#[test]
fn the_random_numbers_of_a_seed_are_fixed() {
    let mut rng = policy_rng(7);
    assert_eq!(
        [rng.next_u64(), rng.next_u64()],
        [12_726_360_963_827_698_830, 8_784_933_628_230_385_458]
    );
}
