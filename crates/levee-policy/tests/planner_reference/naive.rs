//! The planner as its rules read, with no thought of cost: each load is a sum over the classes for each pair of sites, and the
//! order is by comparing each play with each other.

use levee_policy::reroute::{
    Playbook, Range, SiteId,
    planner::{Figures, Over, PlannerConfig, Situation},
};

/// What a play does, as far as the order needs it.
pub(crate) struct Outcome {
    pub(crate) play: usize,
    pub(crate) load: Vec<Range>,
    pub(crate) concentrated: Vec<Range>,
    pub(crate) over: Over,
    pub(crate) over_besides: Over,
    pub(crate) kept: f64,
    pub(crate) changes: usize,
    pub(crate) headroom: f64,
    pub(crate) flawed: u8,
}

/// All plays, best first. Load is known by site, some at each, and no site is down.
pub(crate) fn rank(
    playbook: &Playbook,
    situation: &Situation,
    config: &PlannerConfig,
) -> Vec<Outcome> {
    let mut rest: Vec<Outcome> = (0..playbook.plays().len())
        .filter(|play| !situation.forbidden.contains(play))
        .map(|play| outcome(playbook, situation, config, play))
        .collect();
    let mut ranked = Vec::new();
    while !rest.is_empty() {
        let beats = |a: &Outcome, b: &Outcome| better(playbook, config, a, b);
        let first = (0..rest.len())
            .find(|i| (0..rest.len()).all(|j| *i == j || beats(&rest[*i], &rest[j])))
            .expect("some play is better than all others");
        ranked.push(rest.remove(first));
    }
    ranked
}

fn better(playbook: &Playbook, config: &PlannerConfig, a: &Outcome, b: &Outcome) -> bool {
    let steps = |o: &Outcome| ((1.0 - o.kept) / config.kept_step).round() as i64;
    if a.flawed != b.flawed {
        return a.flawed < b.flawed;
    }
    if a.over != b.over {
        return a.over < b.over;
    }
    if a.over_besides != b.over_besides {
        return a.over_besides < b.over_besides;
    }
    if steps(a) != steps(b) {
        return steps(a) < steps(b);
    }
    if a.changes != b.changes {
        return a.changes < b.changes;
    }
    if a.headroom != b.headroom {
        return a.headroom > b.headroom;
    }
    let name = |o: &Outcome| &playbook.plays()[o.play].routing.name;
    name(a) < name(b)
}

fn outcome(
    playbook: &Playbook,
    situation: &Situation,
    config: &PlannerConfig,
    play: usize,
) -> Outcome {
    let n = playbook.sites().len();
    let Figures::Sites(offered) = &situation.offered else {
        panic!("by site")
    };
    let normal = match &situation.normal {
        Some(Figures::Sites(normal)) => normal.clone(),
        Some(Figures::Classes(_)) => panic!("by site"),
        None => vec![0.0; n],
    };
    let total: f64 = offered.iter().map(|load| load.likely).sum();
    let dense = |share: f64| {
        if share < 1e-9 {
            0.0
        } else {
            (share * config.concentration).min(1.0)
        }
    };
    let inf = |amount: f64, share: f64| if share == 0.0 { 0.0 } else { amount * share };
    let mut load = vec![Range::default(); n];
    let mut concentrated = vec![Range::default(); n];
    for to in 0..n {
        for from in 0..n {
            let (share, least, most) = flow(playbook, situation.current, play, from, to);
            let one = offered[from];
            load[to].low += one.low * share;
            load[to].likely += one.likely * share;
            load[to].high += inf(one.high, share);
            let (good_low, good_high) = (normal[from].min(one.low), normal[from].min(one.high));
            concentrated[to].low +=
                good_low * share + (one.low - good_low) * (1.0 - dense(1.0 - least));
            concentrated[to].high += good_high * share + inf(one.high - good_high, dense(most));
        }
        concentrated[to].likely = load[to].likely;
    }
    let besides = |site: usize| {
        let site = SiteId(site as u8);
        !situation.absorbers.contains(&site) && !situation.breakwaters.contains(&site)
    };
    let is_over = |load: f64, capacity: f64| {
        load > capacity * (1.0 + 1e-9) && load > config.negligible * total
    };
    let over = |site: usize| {
        let capacity = situation.capacity[site];
        if is_over(load[site].likely, capacity) {
            Over::Likely
        } else if is_over(load[site].high, capacity) {
            Over::Worst
        } else if is_over(concentrated[site].high, capacity) {
            Over::Concentrated
        } else {
            Over::Never
        }
    };
    let over_all = (0..n).map(over).max().unwrap();
    let over_besides = (0..n)
        .filter(|site| besides(*site))
        .map(over)
        .max()
        .unwrap_or(Over::Never);
    let headroom = (0..n).filter(|site| besides(*site)).map(|site| {
        let load = match over_besides {
            Over::Never => concentrated[site].high,
            Over::Concentrated => load[site].high,
            _ => load[site].likely,
        };
        if load > config.negligible * total {
            1.0 - load / situation.capacity[site]
        } else {
            1.0
        }
    });
    Outcome {
        play,
        over: over_all,
        over_besides,
        kept: kept(playbook, situation, play, &load),
        changes: changes(playbook, situation.current, play),
        headroom: headroom.fold(1.0, f64::min),
        flawed: flawed(playbook, situation, config, play),
        load,
        concentrated,
    }
}

fn kept(playbook: &Playbook, situation: &Situation, play: usize, load: &[Range]) -> f64 {
    let n = playbook.sites().len();
    let now: Vec<f64> = match &situation.normal {
        Some(Figures::Sites(normal)) => normal.clone(),
        _ => (0..n)
            .map(|site| playbook.plays()[situation.current].share(SiteId(site as u8)))
            .collect(),
    };
    let (mut served, mut all) = (0.0, 0.0);
    for to in 0..n {
        for from in 0..n {
            let (share, _, _) = flow(playbook, situation.current, play, from, to);
            let works = (situation.capacity[to] / load[to].likely).min(1.0);
            served += now[from] * share * if load[to].likely == 0.0 { 1.0 } else { works };
            all += now[from] * share;
        }
    }
    if all > 0.0 { served / all } else { 1.0 }
}

fn changes(playbook: &Playbook, current: usize, play: usize) -> usize {
    let announced = |play: usize| {
        playbook.plays()[play]
            .routing
            .announcements
            .as_ref()
            .unwrap()
    };
    let (a, b) = (announced(current), announced(play));
    (0..a.len()).filter(|site| a[*site] != b[*site]).count()
}

fn flawed(playbook: &Playbook, situation: &Situation, config: &PlannerConfig, play: usize) -> u8 {
    let it = &playbook.plays()[play];
    if play == situation.current {
        return 0;
    }
    if it.partial || it.ineffective {
        return 2;
    }
    let moves = |site: &SiteId| {
        let (stays, _, _) = flow(
            playbook,
            situation.current,
            play,
            site.index(),
            site.index(),
        );
        1.0 - stays > config.breakwater_loss
    };
    u8::from(situation.breakwaters.iter().any(moves))
}

/// Which share of a site's load goes to another one: the likely one, and from where to where it may be.
fn flow(
    playbook: &Playbook,
    current: usize,
    play: usize,
    from: usize,
    to: usize,
) -> (f64, f64, f64) {
    if current == play {
        let stays = f64::from(u8::from(from == to));
        return (stays, stays, stays);
    }
    let Some(classes) = playbook.classes() else {
        return of_totals(playbook, current, play, from, to);
    };
    let (mut part, mut whole) = (0.0, 0.0);
    for class in 0..classes.len() {
        let before = classes.site(current, class);
        let after = classes.site(play, class);
        if before.is_some_and(|site| site.index() == from) && after.is_some() {
            whole += classes.weight(class);
            if after.is_some_and(|site| site.index() == to) {
                part += classes.weight(class);
            }
        }
    }
    if whole > 0.0 {
        (part / whole, part / whole, part / whole)
    } else {
        let share = playbook.plays()[play].share(SiteId(to as u8));
        (share, 0.0, f64::from(u8::from(share > 0.0)))
    }
}

fn of_totals(
    playbook: &Playbook,
    current: usize,
    play: usize,
    from: usize,
    to: usize,
) -> (f64, f64, f64) {
    let share = |play: usize, site: usize| playbook.plays()[play].share(SiteId(site as u8));
    let had = share(current, from);
    if had == 0.0 {
        let share = share(play, to);
        return (share, 0.0, f64::from(u8::from(share > 0.0)));
    }
    let gain = |site: usize| (share(play, site) - share(current, site)).max(0.0);
    let stays = had.min(share(play, from));
    if from == to {
        return (stays / had, stays / had, stays / had);
    }
    let all: f64 = (0..playbook.sites().len()).map(gain).sum();
    let loses = had - stays;
    if loses == 0.0 || all == 0.0 {
        return (0.0, 0.0, 0.0);
    }
    let least = (loses + gain(to) - all).max(0.0);
    (
        loses * gain(to) / all / had,
        least / had,
        loses.min(gain(to)) / had,
    )
}
