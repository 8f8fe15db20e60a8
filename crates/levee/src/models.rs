//! Which model runs a point of a scenario, and what it is asked.

use anyhow::{Context as _, Result, anyhow, bail};
use levee_sim::model::anycast::Anycast;
use levee_sim::model::http::Http;
use levee_sim::model::sip::released::Released;
use levee_sim::model::sip::{self, Quirks, Sip};
use levee_sim::model::thinner::SpeakUp;
use levee_sim::model::{Observed, Rerun};
use levee_sim::scenario::{Point, Scenario, ServiceKind};
use levee_smc::query::Offer;
use levee_smc::{CheckError, Control, Estimate, Observable, Pair, Settings, check_points, compare};

use crate::modelled::{Modelled, observables, samples};
use crate::questions::{self, Asking};

/// How the models are asked.
pub(crate) struct Ask<'a> {
    pub(crate) settings: Settings,
    pub(crate) control: Control<'a>,
}

/// What the models answer.
pub(crate) struct Answers {
    /// For each point, and of each what was asked.
    pub(crate) points: Vec<Vec<Estimate>>,
    /// On the queries.
    pub(crate) remarks: Vec<String>,
}

/// The model of a point.
enum Model {
    Sip(Box<Sip>),
    Released(Box<Released>),
    Http(Box<Http>),
    SpeakUp(Box<SpeakUp>),
    Anycast(Box<Anycast>),
}

impl Model {
    fn of(point: &Point) -> Result<Self> {
        let setup = &point.setup;
        match setup.service.kind {
            ServiceKind::Sip => {
                let sip = sip::Setup::new(setup);
                Ok(match Quirks::of(&setup.model)? {
                    Some(quirks) => Self::Released(Box::new(Released::new(&sip, quirks)?)),
                    None => Self::Sip(Box::new(Sip::new(sip)?)),
                })
            }
            ServiceKind::Http => {
                if let Some(thinner) = setup.thinner_model() {
                    return Ok(Self::SpeakUp(Box::new(SpeakUp::new(thinner)?)));
                }
                let Some(http) = setup.http_model() else {
                    bail!("an HTTP scenario without its HTTP keys");
                };
                Ok(Self::Http(Box::new(Http::new(http)?)))
            }
            ServiceKind::Anycast => {
                let Some(anycast) = setup.anycast_model() else {
                    bail!("an anycast scenario without its keys");
                };
                Ok(Self::Anycast(Box::new(Anycast::new(anycast)?)))
            }
        }
    }
}

/// What queries on the model of a scenario's first point may name: observables, and samples.
pub(crate) fn offer(scenario: &Scenario) -> Result<(Vec<Observable>, Vec<Observable>)> {
    fn of<M: Observed>(_: &M) -> (Vec<Observable>, Vec<Observable>) {
        (observables::<M>(), samples::<M>())
    }
    let first = scenario
        .points
        .first()
        .context("a scenario without points")?;
    Ok(match Model::of(first)? {
        Model::Sip(model) => of(&*model),
        Model::Released(model) => of(&*model),
        Model::Http(model) => of(&*model),
        Model::SpeakUp(model) => of(&*model),
        Model::Anycast(model) => of(&*model),
    })
}

/// Asks the models all queries of the scenario at all points. Points of one kind of model share their threads.
pub(crate) fn ask(scenario: &Scenario, ask: &Ask<'_>) -> Result<Answers> {
    let (mut sip, mut released) = (Vec::new(), Vec::new());
    let (mut http, mut speak_up, mut anycast) = (Vec::new(), Vec::new(), Vec::new());
    for (i, point) in scenario.points.iter().enumerate() {
        let model = Model::of(point).map_err(|error| anyhow!("{}: {error}", named(point)))?;
        match model {
            Model::Sip(model) => sip.push((i, *model)),
            Model::Released(model) => released.push((i, *model)),
            Model::Http(model) => http.push((i, *model)),
            Model::SpeakUp(model) => speak_up.push((i, *model)),
            Model::Anycast(model) => anycast.push((i, *model)),
        }
    }
    let mut answers = Answers {
        points: vec![Vec::new(); scenario.points.len()],
        remarks: Vec::new(),
    };
    asked(scenario, sip, ask, &mut answers)?;
    asked(scenario, released, ask, &mut answers)?;
    asked(scenario, http, ask, &mut answers)?;
    asked(scenario, speak_up, ask, &mut answers)?;
    asked(scenario, anycast, ask, &mut answers)?;
    Ok(answers)
}

/// How much each point of the one scenario exceeds that of the other, for all queries of the one, with common random numbers.
pub(crate) fn differences(
    one: &Scenario,
    other: &Scenario,
    ask: &Ask<'_>,
) -> Result<Vec<Vec<Estimate>>> {
    let (mut sip, mut http, mut speak_up) = (Vec::new(), Vec::new(), Vec::new());
    let mut anycast = Vec::new();
    for (point, beside) in one.points.iter().zip(&other.points) {
        match (Model::of(point)?, Model::of(beside)?) {
            (Model::Sip(one), Model::Sip(other)) => sip.push((*one, *other)),
            (Model::Http(one), Model::Http(other)) => http.push((*one, *other)),
            (Model::SpeakUp(one), Model::SpeakUp(other)) => speak_up.push((*one, *other)),
            (Model::Anycast(one), Model::Anycast(other)) => anycast.push((*one, *other)),
            _ => bail!("{}: only points of one model can be compared", named(point)),
        }
    }
    // A scenario has one kind of service.
    if !sip.is_empty() {
        compared(one, sip, ask)
    } else if !http.is_empty() {
        compared(one, http, ask)
    } else if !anycast.is_empty() {
        compared(one, anycast, ask)
    } else {
        compared(one, speak_up, ask)
    }
}

fn compared<M: Rerun + Sync>(
    scenario: &Scenario,
    models: Vec<(M, M)>,
    ask: &Ask<'_>,
) -> Result<Vec<Vec<Estimate>>> {
    let (observables, samples) = (observables::<M>(), samples::<M>());
    let offer = Offer {
        observables: &observables,
        samples: &samples,
    };
    let Asking {
        measure, targets, ..
    } = questions::of_scenario(scenario, offer)?;
    let trials: Vec<_> = models
        .into_iter()
        .map(|(one, other)| (Modelled::new(one), Modelled::new(other)))
        .collect();
    let pairs: Vec<_> = trials
        .iter()
        .map(|(one, other)| Pair {
            one,
            other,
            measure: &measure,
            targets: &targets,
        })
        .collect();
    Ok(compare(&pairs, &ask.settings, ask.control)?)
}

/// A point by its lane and what is swept.
fn named(point: &Point) -> String {
    let at = point
        .at
        .iter()
        .map(|(key, value)| format!(", {key} = {value}"));
    [point.lane.clone()].into_iter().chain(at).collect()
}

fn asked<M: Rerun + Sync>(
    scenario: &Scenario,
    models: Vec<(usize, M)>,
    ask: &Ask<'_>,
    answers: &mut Answers,
) -> Result<()> {
    if models.is_empty() {
        return Ok(());
    }
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
    for remark in remarks {
        if !answers.remarks.contains(&remark) {
            answers.remarks.push(remark);
        }
    }
    let mut settings = ask.settings.clone();
    if scenario.check.simultaneous {
        settings.simultaneous = u32::try_from(targets.len()).unwrap_or(u32::MAX);
    }
    let (places, trials): (Vec<usize>, Vec<Modelled<M>>) = models
        .into_iter()
        .map(|(i, model)| (i, Modelled::new(model)))
        .unzip();
    let points: Vec<_> = trials
        .iter()
        .map(|trial| levee_smc::Point {
            trial,
            measure: &measure,
            targets: &targets,
        })
        .collect();
    let found = check_points(&points, &settings, ask.control).map_err(|error| {
        let CheckError::Run { point, problem, .. } = &error else {
            return anyhow!(error);
        };
        let point = places.get(*point).and_then(|i| scenario.points.get(*i));
        let point = point.map(named).unwrap_or_default();
        // A query's own words count lines from its beginning: say first where that is.
        let query = scenario.queries.iter().find(|query| {
            let rest = problem.strip_prefix(&query.name);
            rest.is_some_and(|rest| rest.starts_with(':'))
        });
        match query.map(|query| &query.place) {
            Some(at) => anyhow!("{}:{}:{}: {point}: {error}", at.file, at.line, at.column),
            None => anyhow!("{point}: {error}"),
        }
    })?;
    for (i, estimates) in places.into_iter().zip(found) {
        if let Some(place) = answers.points.get_mut(i) {
            *place = estimates;
        }
    }
    Ok(())
}
