//! What a person sees while a long command works: bars on a terminal, plain lines when standard error is a file or a pipe.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use levee_lab::demo::{LaneView, View};
use levee_lab::http::demo as http;
use levee_lab::outcome::Tally;
use levee_lab::runner::Progress;

use crate::cli::Global;
use crate::output;

/// Between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Cells of a bar that shows the calls held.
const CELLS: u32 = 24;

/// A bar over the bytes of a file; hidden unless a person watches.
pub(crate) fn bytes_bar(global: Global, bytes: u64) -> ProgressBar {
    if !watched(global) {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(bytes);
    bar.set_style(style("{bar:30} {bytes}/{total_bytes} {eta}"));
    bar
}

fn watched(global: Global) -> bool {
    !global.quiet && std::io::stderr().is_terminal()
}

/// The templates are constants: a mistake in one shows as indicatif's plain bar.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("██░")
}

/// The demo, live.
pub(crate) enum DemoView {
    Bars {
        time: ProgressBar,
        lanes: Vec<ProgressBar>,
        all: MultiProgress,
    },
    Lines {
        next: Duration,
    },
    Nothing,
}

impl DemoView {
    pub(crate) fn new(global: Global) -> Self {
        if watched(global) {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(5));
            let time = all.add(ProgressBar::new(0));
            time.set_style(style("{bar:24} {msg}"));
            DemoView::Bars {
                time,
                lanes: Vec::new(),
                all,
            }
        } else if global.quiet {
            DemoView::Nothing
        } else {
            DemoView::Lines {
                next: Duration::ZERO,
            }
        }
    }

    pub(crate) fn show(&mut self, now: &DemoNow) {
        match self {
            DemoView::Bars { time, lanes, all } => {
                while lanes.len() < now.lanes.len() {
                    let bar = all.add(ProgressBar::new(0));
                    bar.set_style(style("{msg}"));
                    lanes.push(bar);
                }
                time.set_length(millis(now.total));
                time.set_position(millis(now.elapsed));
                time.set_message(format!(
                    "{} of {}   {}",
                    seconds(now.elapsed),
                    seconds(now.total),
                    now.key
                ));
                for (bar, lane) in lanes.iter().zip(&now.lanes) {
                    bar.set_message(lane.bar.clone());
                }
            }
            DemoView::Lines { next } => {
                if now.elapsed >= *next {
                    *next = now.elapsed + LINE_EVERY;
                    for lane in &now.lanes {
                        output::note(&lane.line);
                    }
                }
            }
            DemoView::Nothing => {}
        }
    }

    /// Leaves the last counters on the screen.
    pub(crate) fn finish(self) {
        if let DemoView::Bars { time, lanes, .. } = self {
            for bar in lanes {
                bar.abandon();
            }
            time.finish_and_clear();
        }
    }
}

/// A demo at one instant.
pub(crate) struct DemoNow {
    elapsed: Duration,
    total: Duration,
    /// What the cells of a bar mean.
    key: String,
    lanes: Vec<LaneNow>,
}

/// A lane on a terminal, and as a plain line.
struct LaneNow {
    bar: String,
    line: String,
}

impl From<&View> for DemoNow {
    fn from(view: &View) -> Self {
        let lane = |lane: &LaneView| LaneNow {
            bar: bar_line(lane, view.capacity),
            line: plain_line(lane, view),
        };
        Self {
            elapsed: view.elapsed,
            total: view.total,
            key: "█ honest  ▒ attackers  · free".to_owned(),
            lanes: view.lanes.iter().map(lane).collect(),
        }
    }
}

impl From<&http::View> for DemoNow {
    fn from(view: &http::View) -> Self {
        let lane = |lane: &http::LaneView| LaneNow {
            bar: share_bar(lane),
            line: share_line(lane, view),
        };
        Self {
            elapsed: view.elapsed,
            total: view.total,
            key: format!(
                "served: █ good  ▒ bad; good clients' due is {:.0}%",
                view.ideal_share * 100.0
            ),
            lanes: view.lanes.iter().map(lane).collect(),
        }
    }
}

/// `████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  auction …`.
fn share_bar(lane: &http::LaneView) -> String {
    let share = lane.now.good_share();
    // What there is shows even when it is little.
    let own = share.map_or(0, |share| (share * f64::from(CELLS)).ceil() as usize);
    let theirs = share.map_or(0, |_| CELLS as usize - own);
    let free = CELLS as usize - own - theirs;
    format!(
        "{}{}{} {:<12} {}",
        "█".repeat(own),
        "▒".repeat(theirs),
        "·".repeat(free),
        lane.name,
        shares(lane)
    )
}

fn shares(lane: &http::LaneView) -> String {
    let good = &lane.now.honest;
    let share = lane.now.good_share();
    let share = share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0));
    format!(
        "good clients: {share} of what is served; {} served, {} denied",
        good.served, good.denied
    )
}

fn share_line(lane: &http::LaneView, view: &http::View) -> String {
    format!(
        "{:>4} {:<12} {} (their due is {:.0}%)",
        seconds(view.elapsed),
        lane.name,
        shares(lane),
        view.ideal_share * 100.0
    )
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs())
}

fn held(tally: &Tally) -> u32 {
    tally.waiting + tally.in_call
}

/// `██████▒▒▒▒▒▒▒▒▒▒▒▒······  undefended …`.
fn bar_line(lane: &LaneView, capacity: u32) -> String {
    let (honest, attackers) = (&lane.now.honest, &lane.now.attacker);
    let (own, theirs) = cells(held(honest), held(attackers), capacity);
    let free = CELLS.saturating_sub(own + theirs);
    let repeat = |text: &str, times: u32| text.repeat(times as usize);
    format!(
        "{}{}{} {:<16} honest calls: {} complete, {} cut, {} refused",
        repeat("█", own),
        repeat("▒", theirs),
        repeat("·", free),
        lane.name,
        honest.complete,
        honest.incomplete,
        honest.unsuccessful
    )
}

/// Cells for each kind; what is held shows even when it is little, and both together never pass the bar.
fn cells(honest: u32, attackers: u32, capacity: u32) -> (u32, u32) {
    let k = u64::from(capacity.max(1));
    let share = |calls: u32| {
        let cells = (u64::from(calls) * u64::from(CELLS)).div_ceil(k);
        u32::try_from(cells).unwrap_or(CELLS).min(CELLS)
    };
    let own = share(honest);
    (own, share(attackers).min(CELLS - own))
}

fn plain_line(lane: &LaneView, view: &View) -> String {
    let (honest, attackers) = (&lane.now.honest, &lane.now.attacker);
    format!(
        "{:>4} {:<16} held {:>3} honest + {:>3} attackers (k = {}); honest calls: {} complete, {} cut, {} refused",
        seconds(view.elapsed),
        lane.name,
        held(honest),
        held(attackers),
        view.capacity,
        honest.complete,
        honest.incomplete,
        honest.unsuccessful
    )
}

/// A scenario's lanes, as they finish.
pub(crate) enum LabView {
    Bar(ProgressBar),
    Lines { finished: Option<usize> },
    Nothing,
}

impl LabView {
    pub(crate) fn new(global: Global) -> Self {
        if watched(global) {
            let bar = ProgressBar::new(0);
            bar.set_style(style("{bar:30} {pos}/{len} lanes, {msg}"));
            LabView::Bar(bar)
        } else if global.quiet {
            LabView::Nothing
        } else {
            LabView::Lines { finished: None }
        }
    }

    pub(crate) fn show(&mut self, progress: &Progress) {
        match self {
            LabView::Bar(bar) => {
                bar.set_length(progress.total as u64);
                bar.set_position(progress.finished as u64);
                bar.set_message(work(progress));
            }
            LabView::Lines { finished } => {
                if *finished != Some(progress.finished) {
                    *finished = Some(progress.finished);
                    output::note(format_args!(
                        "{}/{} lanes, {}",
                        progress.finished,
                        progress.total,
                        work(progress)
                    ));
                }
            }
            LabView::Nothing => {}
        }
    }

    pub(crate) fn finish(self) {
        if let LabView::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Runs of the model.
pub(crate) struct CheckView {
    bar: Option<ProgressBar>,
}

impl CheckView {
    pub(crate) fn new(global: Global) -> Self {
        let bar = watched(global).then(|| {
            let bar = ProgressBar::new(0);
            bar.set_style(style(
                "{prefix}{bar:30} {pos}/{len} runs, {msg}, {eta} left",
            ));
            bar
        });
        Self { bar }
    }

    /// What is done now, if a command has several things to do.
    pub(crate) fn stage(&self, name: &str) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(format!("{name}: "));
            bar.reset();
        }
    }

    /// How many runs it will be is an estimate that gets better.
    pub(crate) fn show(&self, progress: &levee_smc::Progress) {
        if let Some(bar) = &self.bar {
            bar.set_length(progress.runs_expected.max(progress.runs_done));
            bar.set_position(progress.runs_done);
            bar.set_message(format!(
                "{}/{} points",
                progress.points_done, progress.points
            ));
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn work(progress: &Progress) -> String {
    if progress.running.is_empty() {
        return format!("{} left", seconds(progress.left));
    }
    format!(
        "{} left; at work: {}",
        seconds(progress.left),
        progress.running.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use levee_lab::outcome::Sample;

    use super::*;

    fn lane(honest: u32, attackers: u32) -> LaneView {
        let tally = |in_call| Tally {
            in_call,
            complete: 3,
            incomplete: 2,
            unsuccessful: 1,
            ..Tally::default()
        };
        let now = Sample {
            honest: tally(honest),
            attacker: tally(attackers),
            ..Sample::default()
        };
        LaneView {
            name: "bare".to_owned(),
            now,
        }
    }

    #[test]
    fn a_bar_shows_both_kinds_and_never_grows_beyond_its_cells() {
        for (honest, attackers, capacity, expect) in [
            (0, 0, 24, (0, 0)),
            (6, 18, 24, (6, 18)),
            (1, 0, 10_000, (1, 0)),
            (30, 30, 24, (24, 0)),
            (12, 13, 24, (12, 12)),
            (1, 1, 0, (24, 0)),
        ] {
            assert_eq!(
                cells(honest, attackers, capacity),
                expect,
                "{honest} {attackers} {capacity}"
            );
        }
        let line = bar_line(&lane(6, 12), 24);
        assert!(line.starts_with("██████▒▒▒▒▒▒▒▒▒▒▒▒······ bare "), "{line}");
        assert!(
            line.ends_with("honest calls: 3 complete, 2 cut, 1 refused"),
            "{line}"
        );
    }

    #[test]
    fn a_bar_shows_whose_requests_are_served() {
        let mut lane = http::LaneView {
            name: "auction".to_owned(),
            now: levee_lab::http::record::Sample::default(),
        };
        assert!(share_bar(&lane).starts_with(&"·".repeat(CELLS as usize)));
        lane.now.honest.served = 1;
        lane.now.honest.denied = 7;
        lane.now.attacker.served = 999;
        assert_eq!(
            share_bar(&lane),
            format!(
                "█{} auction      good clients: 0% of what is served; 1 served, 7 denied",
                "▒".repeat(23)
            )
        );
        lane.now.attacker.served = 1;
        assert!(share_bar(&lane).starts_with(&format!("{}{} ", "█".repeat(12), "▒".repeat(12))));
        let view = http::View {
            elapsed: Duration::from_secs(5),
            total: Duration::from_secs(45),
            ideal_share: 0.5,
            lanes: vec![lane],
        };
        assert_eq!(
            share_line(&view.lanes[0], &view),
            " 5 s auction      good clients: 50% of what is served; 1 served, 7 denied (their due is 50%)"
        );
    }

    #[test]
    fn a_plain_line_says_when_and_how_many() {
        let view = View {
            elapsed: Duration::from_secs(5),
            total: Duration::from_secs(60),
            capacity: 24,
            lanes: vec![lane(6, 12)],
        };
        assert_eq!(
            plain_line(&view.lanes[0], &view),
            " 5 s bare             held   6 honest +  12 attackers (k = 24); honest calls: 3 complete, 2 cut, 1 refused"
        );
    }
}
