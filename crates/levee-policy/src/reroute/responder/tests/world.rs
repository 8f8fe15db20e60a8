//! A service under attack, whose responder may crash.

use std::{string::ToString, vec, vec::Vec};

use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use super::super::{
    super::{Play, Routing, estimate::KnownGood},
    *,
};
use crate::Span;

/// Minutes, as a time.
pub(super) fn at(minutes: u64) -> Time {
    Time::ZERO + Span::from_secs(60 * minutes)
}

/// A playbook of configurations with the share that each site gets, in percent.
pub(super) fn playbook(plays: &[(&str, [u64; 3])]) -> Arc<Playbook> {
    let sites = Sites::new(["AMS", "BOS", "CNF"]).unwrap();
    let plays = (0..).zip(plays).map(|(i, (name, share))| {
        let mut routing = Routing::baseline(3);
        routing.name = (*name).to_string();
        if let Some(path) = &mut routing.announcements.as_mut().unwrap()[0].everyone {
            path.prepend = i;
        }
        Play {
            routing,
            blocks: share.to_vec(),
            unknown: 0,
            load: None,
            partial: false,
            ineffective: false,
        }
    });
    Arc::new(Playbook::new(sites, plays.collect(), None).unwrap())
}

pub(super) type Shares<'a> = &'a [(&'a str, [u64; 3])];

/// The paper's table 5, roughly.
pub(super) const PLAYS: Shares<'static> = &[
    ("baseline", [65, 15, 20]),
    ("+1xAMS", [37, 25, 38]),
    ("+2xAMS", [20, 35, 45]),
    ("-3xAMS", [90, 5, 5]),
];
pub(super) const CAPACITIES: [f64; 3] = [100.0, 100.0, 100.0];
/// Known-good events that a site with all the load would see in a minute.
pub(super) const KNOWN_GOOD: f64 = 10_000.0;

/// What becomes of an order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    Done,
    Fails,
    /// It is done and the answer is lost.
    Unanswered,
}

/// A service under attack: what is offered goes where the plays really send it, and beyond its capacity a site loses it. The
/// responder's process may crash.
pub(super) struct World {
    pub(super) config: Config,
    pub(super) playbook: Arc<Playbook>,
    pub(super) responder: Responder,
    pub(super) rng: Pcg64Mcg,
    pub(super) journal: Vec<(Time, Step)>,
    /// What is really announced.
    pub(super) announced: usize,
    /// Where the load really goes, by play.
    pub(super) shares: Vec<[f64; 3]>,
    /// What arrives at most.
    pub(super) links: [f64; 3],
    /// Sites that report.
    pub(super) reports: [bool; 3],
    pub(super) offered: f64,
    /// Relative standard deviation of a measure.
    pub(super) noise: f64,
    /// What becomes of the next orders; the rest is done.
    pub(super) fates: VecDeque<Fate>,
    /// Outputs with their minutes.
    pub(super) log: Vec<(u64, Output)>,
    pub(super) minute: u64,
    /// Points at which a crash is possible, so far, and that of the crash.
    pub(super) points: usize,
    pub(super) crash_at: Option<usize>,
    pub(super) crashes: usize,
    pub(super) unanswered: Option<usize>,
}

impl World {
    pub(super) fn new(plays: Shares<'_>, config: Config) -> Self {
        let playbook = playbook(plays);
        let shares = plays
            .iter()
            .map(|(_, share)| share.map(|share| share as f64 / 100.0))
            .collect();
        let responder =
            Responder::new(config.clone(), Arc::clone(&playbook), CAPACITIES.to_vec()).unwrap();
        Self {
            config,
            playbook,
            responder,
            rng: Pcg64Mcg::new(1),
            journal: Vec::new(),
            announced: 0,
            shares,
            links: CAPACITIES,
            reports: [true; 3],
            offered: 0.0,
            noise: 0.0,
            fates: VecDeque::new(),
            log: Vec::new(),
            minute: 0,
            points: 0,
            crash_at: None,
            crashes: 0,
            unanswered: None,
        }
    }

    /// In which a play really does something else than its playbook says.
    pub(super) fn with_truth(mut self, play: usize, share: [f64; 3]) -> Self {
        self.shares[play] = share;
        self
    }

    /// A factor about 1: the sum of twelve uniform numbers is near a normal one.
    pub(super) fn noisy(&mut self) -> f64 {
        let uniform = |rng: &mut Pcg64Mcg| f64::from(rng.next_u32()) / f64::from(u32::MAX);
        let sum: f64 = (0..12).map(|_| uniform(&mut self.rng)).sum();
        1.0 + self.noise * (sum - 6.0)
    }

    pub(super) fn measure(&mut self) -> Measure {
        let share = self.shares[self.announced];
        let site = |i: usize| {
            let offered = self.offered * share[i] * self.noisy();
            let alpha = (self.links[i] / offered).min(1.0);
            SiteMeasure {
                observed: self.reports[i].then_some(offered * alpha),
                normal: None,
                known_good: vec![KnownGood {
                    observed: KNOWN_GOOD * share[i] * alpha * self.noisy(),
                    expected: KNOWN_GOOD * share[i],
                    expected_sd: self.noise.max(0.01) * KNOWN_GOOD * share[i],
                }],
            }
        };
        Measure {
            sites: (0..3).map(site).collect(),
        }
    }

    pub(super) fn tell(&mut self, input: Input) {
        self.responder.handle(at(self.minute), input, &mut self.rng);
        self.carry_out();
    }

    /// Whether the process crashes here.
    pub(super) fn crashes(&mut self) -> bool {
        self.points += 1;
        let crashes = self.crash_at == Some(self.points);
        if crashes {
            self.crash();
        }
        crashes
    }

    /// All that is left is the journal, as text.
    pub(super) fn crash(&mut self) {
        self.crashes += 1;
        self.unanswered = None;
        let text = serde_json::to_string(&self.journal).unwrap();
        let steps: Vec<(Time, Step)> = serde_json::from_str(&text).unwrap();
        assert_eq!(steps, self.journal);
        let playbook = Arc::clone(&self.playbook);
        self.responder =
            Responder::resume(self.config.clone(), playbook, CAPACITIES.to_vec(), steps).unwrap();
    }

    pub(super) fn carry_out(&mut self) {
        while let Some(output) = self.responder.poll_output() {
            if self.crashes() {
                continue;
            }
            self.log.push((self.minute, output.clone()));
            match output {
                Output::Record(step) => self.journal.push((at(self.minute), step)),
                Output::Deploy { play } => self.deploy(play),
                Output::NextLine { .. } | Output::NextLineOver => {}
            }
        }
    }

    pub(super) fn deploy(&mut self, play: usize) {
        let orders = self.journal.iter().rev();
        let recorded = orders
            .filter_map(|(_, step)| match step {
                Step::Deploying { play, .. } => Some(Some(*play)),
                Step::Deployed { .. } | Step::DeployFailed { .. } => Some(None),
                _ => None,
            })
            .next();
        assert_eq!(recorded, Some(Some(play)), "an order without its record");
        assert_eq!(self.unanswered, None, "two orders at once");
        let fate = self.fates.pop_front().unwrap_or(Fate::Done);
        if fate != Fate::Fails {
            self.announced = play;
        }
        if self.crashes() {
            // The same order meets the same fate.
            self.fates.push_front(fate);
            return;
        }
        match fate {
            Fate::Done => self.tell(Input::Deployed { play }),
            Fate::Fails => {
                let reason = "no session".to_string();
                self.tell(Input::DeployFailed { play, reason });
            }
            Fate::Unanswered => self.unanswered = Some(play),
        }
    }

    /// Lets minutes pass with this load, measured every minute.
    pub(super) fn pass(&mut self, minutes: u64, offered: f64) {
        self.offered = offered;
        for _ in 0..minutes {
            self.minute += 1;
            while self
                .responder
                .deadline()
                .is_some_and(|due| due <= at(self.minute))
            {
                let due = (self.responder.deadline(), self.crashes);
                // The responder stops waiting for an answer when it is due.
                self.unanswered = None;
                self.responder
                    .handle_deadline(at(self.minute), &mut self.rng);
                self.carry_out();
                assert_ne!(
                    (self.responder.deadline(), self.crashes),
                    due,
                    "it is due for ever"
                );
            }
            let measure = self.measure();
            self.tell(Input::Measure(measure));
        }
    }

    /// Orders so far, with their minutes.
    pub(super) fn orders(&self) -> Vec<(u64, usize)> {
        let orders = self.log.iter().filter_map(|(minute, output)| match output {
            Output::Deploy { play } => Some((*minute, *play)),
            _ => None,
        });
        orders.collect()
    }

    /// Plays in the order in which they were announced, without repeats.
    pub(super) fn plays(&self) -> Vec<usize> {
        let mut plays: Vec<usize> = self.orders().into_iter().map(|(_, play)| play).collect();
        plays.dedup();
        plays
    }

    /// Minutes at which a kind of output came.
    pub(super) fn minutes(&self, is_kind: fn(&Output) -> bool) -> Vec<u64> {
        let kind = self.log.iter().filter(|(_, output)| is_kind(output));
        kind.map(|(minute, _)| *minute).collect()
    }

    pub(super) fn next_line(&self) -> Vec<u64> {
        self.minutes(|output| matches!(output, Output::NextLine { .. }))
    }

    pub(super) fn next_line_over(&self) -> Vec<u64> {
        self.minutes(|output| *output == Output::NextLineOver)
    }

    pub(super) fn over(&self) -> Vec<u64> {
        self.minutes(|output| *output == Output::Record(Step::AttackOver))
    }
}
