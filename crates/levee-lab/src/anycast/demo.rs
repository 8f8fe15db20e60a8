//! The demo itself: one attack, met twice.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use levee_anycast::blocks::Blocks;
use levee_anycast::graph::AsGraph;
use levee_anycast::graph::generate::Generated;
use levee_anycast::predict::{
    DeploymentFile, GraphSource, Options, PredictError, Prediction, predict,
};
use levee_anycast::simulate::{DeploymentError, Internet};
use levee_config::Problems;
use levee_policy::reroute::{Playbook, Step};
use levee_policy::{ConfigError, Span, Time};
use levee_sim::engine::{Runaway, Simulation, TieOrder};
use levee_sim::model::Observed as _;
use levee_sim::model::anycast::{Anycast, Moment, Setup, SetupError};
use levee_sim::scenario::Scenario;

/// The Internet and the sites, as a deployment file says it.
pub const INTERNET: &str = include_str!("../../../../scenarios/demo-anycast/internet.toml");
/// The attack and the defence, as a scenario says it.
pub const ATTACK: &str = include_str!("../../../../scenarios/demo-anycast/attack.toml");
/// Where the scenario finds the playbook.
const PLAYBOOK: &str = "playbook.json";
/// Between two moments that are kept.
const EVERY: Span = Span::from_secs(15);

/// What the demo saw.
#[derive(Clone, Debug)]
pub struct DemoResult {
    /// Of the Internet.
    pub internet: Size,
    /// What was predicted on it, before the attack.
    pub prediction: Prediction,
    /// What each run is made of, but for its defence.
    pub setup: Setup,
    /// The same attack met in different ways; the last one is Levee's.
    pub runs: Vec<Run>,
}

/// How large the Internet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// ASes.
    pub ases: usize,
    /// Links between them.
    pub links: usize,
    /// /24s.
    pub blocks: u64,
}

/// One run of the loop.
#[derive(Clone, Debug)]
pub struct Run {
    /// The lane of the scenario.
    pub name: String,
    /// All sites, every quarter of a minute, from the beginning to the end.
    pub moments: Vec<Moment>,
    /// What the responder did, with the times.
    pub steps: Vec<(Time, Step)>,
    /// Sums over the run.
    pub sums: Sums,
}

/// Sums over a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sums {
    /// Queries of honest clients during the attack.
    pub offered: f64,
    /// Of them, those that were answered.
    pub answered: f64,
    /// Seconds from the beginning of the attack until no site was over capacity any more; `None`: that never was.
    pub mitigated_s: Option<f64>,
    /// Changes of the routes.
    pub changes: f64,
    /// Of them, those that took back a change shortly after it.
    pub flaps: f64,
    /// Which part of the estimates' intervals held the truth; `None` without estimates.
    pub coverage: Option<f64>,
}

/// Why there is no demo. Its files are part of the program, so none is expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// In one of its files.
    #[error(transparent)]
    File(#[from] Problems),
    /// The sites do not fit the graph.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
    /// The configurations to try.
    #[error(transparent)]
    Candidates(#[from] ConfigError),
    /// No playbook.
    #[error(transparent)]
    Predict(#[from] PredictError),
    /// The playbook cannot be written down.
    #[error("the playbook cannot be written down")]
    Playbook(#[from] serde_json::Error),
    /// The scenario cannot be run.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A run did not end.
    #[error(transparent)]
    Runaway(#[from] Runaway),
    /// One of its files is not what it should be.
    #[error("the demo's {file} has no {lacks}")]
    Lacks {
        /// Which.
        file: &'static str,
        /// What it lacks.
        lacks: &'static str,
    },
}

/// Makes the Internet, the playbook and all runs. `say` is told what is going on.
///
/// # Errors
///
/// None that depend on the user.
pub fn run(say: &mut dyn FnMut(&str)) -> Result<DemoResult, DemoError> {
    let file = DeploymentFile::parse("internet.toml", INTERNET)?;
    let Some(GraphSource::Generate { ases, seed }) = file.graph else {
        return Err(DemoError::Lacks {
            file: "internet.toml",
            lacks: "generated graph",
        });
    };
    say("making an Internet");
    let generated = Generated::new(ases, seed);
    let (graph, blocks) = (generated.graph(), generated.laid_out());
    file.check(&graph)?;
    say("predicting the playbook");
    let prediction = predicted(&file, &graph, &blocks)?;
    say("running the attack");
    let text = serde_json::to_string(&prediction.playbook)?;
    let read = |name: &str| {
        if name == PLAYBOOK {
            Ok(text.clone())
        } else {
            Err(io::Error::other("the demo reads no file"))
        }
    };
    let scenario = Scenario::parse("attack.toml", ATTACK, &read)?;
    let mut runs = Vec::with_capacity(scenario.points.len());
    let mut first = None;
    for point in &scenario.points {
        let Some(setup) = point.setup.anycast_model() else {
            break;
        };
        first.get_or_insert_with(|| setup.clone());
        runs.push(one_run(point.lane.clone(), setup)?);
    }
    let Some(setup) = first else {
        return Err(DemoError::Lacks {
            file: "attack.toml",
            lacks: "anycast service",
        });
    };
    Ok(DemoResult {
        internet: Size {
            ases: graph.len(),
            links: graph.transit_links() + graph.peer_links(),
            blocks: blocks.total(),
        },
        prediction,
        setup,
        runs,
    })
}

fn predicted(
    file: &DeploymentFile,
    graph: &AsGraph,
    blocks: &Blocks,
) -> Result<Prediction, DemoError> {
    let deployment = file.deployment(false);
    let internet = Internet::new(graph, &deployment, &file.policies)?;
    let options = Options {
        threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        ordered_plays: 1,
    };
    let routings = file.routings(false)?;
    Ok(predict(&internet, &routings, blocks, None, &options)?)
}

fn one_run(name: String, setup: Setup) -> Result<Run, DemoError> {
    let mut model = Anycast::new(setup)?;
    model.keep_steps();
    model.restart(0);
    let end = model.end();
    let mut simulation = Simulation::new(model, end, TieOrder::default());
    let (mut moments, mut next) = (Vec::new(), Time::ZERO);
    loop {
        // What held up to the event that comes next.
        let before = simulation.model.moment(next);
        let more = simulation.step();
        while next <= simulation.now() && next < end {
            moments.push(Moment {
                at: next,
                ..before.clone()
            });
            next = next + EVERY;
        }
        if !more {
            break;
        }
    }
    simulation.runaway().map_or(Ok(()), Err)?;
    let model = &simulation.model;
    moments.push(model.moment(end));
    Ok(Run {
        name,
        moments,
        steps: model.steps().to_vec(),
        sums: sums(model, end),
    })
}

fn sums(model: &Anycast, now: Time) -> Sums {
    let read = |name: &str| {
        let index = Anycast::observables().iter().position(|o| o.name == name);
        index.map_or(f64::NAN, |index| model.observe(now, index))
    };
    let number = |name: &str| Some(read(name)).filter(|value| !value.is_nan());
    Sums {
        offered: read("honest.attack.offered"),
        answered: read("honest.attack.answered"),
        mitigated_s: number("mitigation.time"),
        changes: read("change.count"),
        flaps: read("change.flaps"),
        coverage: number("estimate.coverage"),
    }
}

impl DemoResult {
    /// What the responder planned with.
    #[must_use]
    pub fn playbook(&self) -> &Arc<Playbook> {
        &self.setup.playbook
    }
}
