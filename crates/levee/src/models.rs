//! Which model a scenario is run by, and what it is asked.

use anyhow::{Result, anyhow};
use levee_sim::model::http::Http;
use levee_sim::model::sip::{self, Sip};
use levee_sim::model::{Observed, Rerun};
use levee_sim::scenario::{Scenario, ServiceKind};
use levee_smc::estimate::{CheckError, Settings};
use levee_smc::query::Offer;
use levee_smc::runner::{self, Control};
use levee_smc::{Estimate, Observable, Trial};

use crate::modelled::{Modelled, observables, samples};
use crate::questions::{self, Asking};

/// How the model is asked.
pub(crate) struct Ask<'a> {
    pub(crate) settings: Settings,
    pub(crate) control: Control<'a>,
}

/// What queries on a scenario's model may name: observables, and samples.
pub(crate) fn offer(scenario: &Scenario) -> Result<(Vec<Observable>, Vec<Observable>)> {
    fn of<M: Observed>() -> (Vec<Observable>, Vec<Observable>) {
        (observables::<M>(), samples::<M>())
    }
    Ok(match kind(scenario) {
        ServiceKind::Sip => of::<Sip>(),
        ServiceKind::Http => of::<Http>(),
    })
}

/// Asks the model all queries of the scenario at all points; remarks on the queries come with the answers.
pub(crate) fn ask(scenario: &Scenario, ask: Ask<'_>) -> Result<(Vec<Vec<Estimate>>, Vec<String>)> {
    match kind(scenario) {
        ServiceKind::Sip => {
            let models = scenario.points.iter().map(|point| {
                Sip::new(sip::Setup::new(&point.setup))
                    .map_err(|error| anyhow!("{}: {error}", point.lane))
            });
            asked(scenario, models.collect::<Result<_>>()?, ask)
        }
        ServiceKind::Http => {
            let setups = scenario.points.iter().filter_map(|point| {
                let setup = point.setup.http_model()?;
                Some((&point.lane, setup))
            });
            let models = setups.map(|(lane, setup)| {
                Http::new(setup).map_err(|error| anyhow!("{lane}: {error}"))
            });
            asked(scenario, models.collect::<Result<_>>()?, ask)
        }
    }
}

/// All points of a scenario are of one kind.
fn kind(scenario: &Scenario) -> ServiceKind {
    let first = scenario.points.first();
    first.map_or(ServiceKind::Sip, |point| point.setup.service.kind)
}

fn asked<M: Rerun + Sync>(
    scenario: &Scenario,
    models: Vec<M>,
    ask: Ask<'_>,
) -> Result<(Vec<Vec<Estimate>>, Vec<String>)> {
    let trials: Vec<Modelled<M>> = models.into_iter().map(Modelled::new).collect();
    let (observables, samples) = (observables::<M>(), samples::<M>());
    let offer = Offer {
        observables: &observables,
        samples: &samples,
    };
    let Asking {
        measure,
        targets,
        remarks,
    } = questions::of_scenario(scenario, offer)?;
    let mut settings = ask.settings;
    if scenario.check.simultaneous {
        settings.simultaneous = u32::try_from(targets.len()).unwrap_or(u32::MAX);
    }
    let points: Vec<_> = trials
        .iter()
        .map(|trial| runner::Point {
            trial,
            measure: &measure,
            targets: &targets,
        })
        .collect();
    let answers = runner::check_points(&points, &settings, ask.control).map_err(|error| {
        // Which point it was, a person can only tell by its lane.
        match &error {
            CheckError::Run { point, .. } => {
                let lane = scenario.points.get(*point).map(|p| p.lane.clone());
                anyhow!("{}: {error}", lane.unwrap_or_default())
            }
            _ => anyhow!("{error}"),
        }
    })?;
    Ok((answers, remarks))
}
