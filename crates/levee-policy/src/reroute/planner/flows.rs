//! Where load goes under a play.

use alloc::{vec, vec::Vec};

use super::{Choice, Figures, Flaw, Forecast, Over, PlannerConfig, Role, Situation};
use crate::reroute::{Classes, Play, Playbook, Range, SiteId};

/// A play that sends less than this share of the blocks to a site that is down does without it (our choice: the catchments of
/// one play differ by 0.35% within two weeks, by the paper).
const DOWN_SHARE: f64 = 0.005;

/// What rounding may do to a sum, as a share of it.
const ROUNDING: f64 = 1e-9;

/// Works out each play, with room that is used again for the next.
pub(super) struct Forecaster<'a> {
    playbook: &'a Playbook,
    situation: &'a Situation,
    config: &'a PlannerConfig,
    /// Where there are any.
    classes: Option<&'a Classes>,
    /// Number of sites.
    n: usize,
    /// All offered load.
    total: Range,
    /// Normal load at each site under the play that is deployed, where it is known.
    normal: Option<Vec<f64>>,
    /// Of each class: its weight, and where the row of its site begins in `moved`.
    weights: Vec<f64>,
    rows: Vec<u32>,
    /// Weight that moves from site to site, `n + 1` by `n + 1`; the last is no site.
    moved: Vec<f64>,
    flow: Flow,
}

/// Of what is at a site now (row), which share is at which site (column) in the play.
#[derive(Default)]
struct Flow {
    /// By weight.
    share: Vec<f64>,
    /// It is no less and no more: the weight is known, or the least movement can be done in several ways.
    least: Vec<f64>,
    most: Vec<f64>,
}

impl<'a> Forecaster<'a> {
    pub(super) fn new(
        playbook: &'a Playbook,
        situation: &'a Situation,
        config: &'a PlannerConfig,
    ) -> Self {
        let n = playbook.sites().len();
        let (Figures::Sites(offered) | Figures::Classes(offered)) = &situation.offered;
        let total = offered
            .iter()
            .fold(Range::default(), |sum, load| sum + *load);
        let classes = playbook.classes().filter(|classes| !classes.is_empty());
        let here = classes.map_or(&[][..], |classes| classes.play(situation.current));
        let row = |site: &u8| usize::from(*site).min(n) * (n + 1);
        #[expect(clippy::cast_possible_truncation, reason = "at most (SITES_MAX + 1)^2")]
        let rows: Vec<u32> = here.iter().map(|site| row(site) as u32).collect();
        let weights = classes.map_or_else(Vec::new, |classes| {
            (0..classes.len())
                .map(|class| classes.weight(class))
                .collect()
        });
        let normal = situation.normal.as_ref().map(|normal| match normal {
            Figures::Sites(normal) => normal.clone(),
            Figures::Classes(normal) => sum_by_site(normal, here, n, |a, b| a + b).0,
        });
        Self {
            playbook,
            situation,
            config,
            classes,
            n,
            total,
            normal,
            weights,
            rows,
            moved: vec![
                0.0;
                if classes.is_some() {
                    (n + 1) * (n + 1)
                } else {
                    0
                }
            ],
            flow: Flow::default(),
        }
    }

    /// All offered load.
    pub(super) fn total(&self) -> Range {
        self.total
    }

    /// What a play would do; not yet why it lost.
    pub(super) fn choice(&mut self, play: usize) -> Choice {
        self.set_flow(play);
        let routing = &self.playbook.plays()[play].routing;
        let current = &self.playbook.plays()[self.situation.current].routing;
        let forecasts = self.forecasts(play);
        let ids = || self.playbook.sites().ids();
        let over = |counts: &dyn Fn(SiteId) -> bool| {
            let counted = ids().filter(|site| counts(*site));
            let over = counted.map(|site| forecasts[site.index()].over);
            over.max().unwrap_or(Over::Never)
        };
        let besides = |site: SiteId| !self.situation.is_absorber(site);
        let over_all = over(&|_| true);
        let over_besides = over(&besides);
        // In the worst case in which none is over.
        let case = match over_besides {
            Over::Never => Over::Concentrated,
            Over::Concentrated => Over::Worst,
            Over::Worst | Over::Likely => Over::Likely,
        };
        let headroom = ids().filter(|site| besides(*site)).map(|site| {
            let (load, capacity) = (
                forecasts[site.index()].load_in(case),
                self.situation.capacity[site.index()],
            );
            if self.is_over(load, 0.0) && capacity.is_finite() {
                1.0 - load / capacity
            } else {
                1.0
            }
        });
        Choice {
            play,
            over: over_all,
            over_besides,
            kept: self.kept(&forecasts),
            changes: routing.changes(current).unwrap_or(self.n),
            headroom: headroom.fold(1.0, f64::min),
            flaws: self.flaws(play),
            lost: None,
            sites: forecasts,
        }
    }

    fn forecasts(&self, play: usize) -> Vec<Forecast> {
        let (load, concentrated) = self.loads(play);
        let normal = self.normal(play);
        let sites = self.playbook.sites().ids();
        let forecast = |site: SiteId| {
            let i = site.index();
            let mut forecast = Forecast {
                load: load[i],
                concentrated: concentrated[i],
                normal: normal[i],
                over: Over::Never,
                role: Role::Carries,
            };
            let capacity = self.situation.capacity[i];
            let cases = [Over::Likely, Over::Worst, Over::Concentrated];
            let over = cases
                .into_iter()
                .find(|case| self.is_over(forecast.load_in(*case), capacity));
            forecast.over = over.unwrap_or(Over::Never);
            forecast.role = self.role(site, &forecast);
            forecast
        };
        sites.map(forecast).collect()
    }

    fn role(&self, site: SiteId, forecast: &Forecast) -> Role {
        let (load, total) = (forecast.load.likely, self.total.likely);
        if self.situation.down.contains(&site) {
            Role::Down
        } else if forecast.over == Over::Likely {
            let may = self.situation.is_absorber(site);
            if may { Role::Absorbs } else { Role::Over }
        } else if load <= self.config.negligible * total {
            Role::Shut
        } else if load > total / 2.0 {
            Role::Super
        } else {
            Role::Carries
        }
    }

    fn is_over(&self, load: f64, capacity: f64) -> bool {
        load > capacity * (1.0 + ROUNDING) && load > self.config.negligible * self.total.likely
    }

    /// The share of normal load that is served.
    fn kept(&self, forecasts: &[Forecast]) -> Range {
        let all: f64 = match &self.normal {
            Some(normal) => normal.iter().sum(),
            None => 1.0,
        };
        let kept = |load: &dyn Fn(&Forecast) -> f64| {
            let served = forecasts
                .iter()
                .zip(&self.situation.capacity)
                .map(|(site, capacity)| {
                    let load = load(site);
                    site.normal
                        * if load <= *capacity {
                            1.0
                        } else {
                            capacity / load
                        }
                });
            if all > 0.0 {
                (served.sum::<f64>() / all).min(1.0)
            } else {
                1.0
            }
        };
        Range {
            low: kept(&|site| site.load.high),
            likely: kept(&|site| site.load.likely),
            high: kept(&|site| site.load.low),
        }
    }

    fn flaws(&self, play: usize) -> Vec<Flaw> {
        // What is deployed is seen, not foretold.
        if play == self.situation.current {
            return Vec::new();
        }
        let it = &self.playbook.plays()[play];
        let mut flaws = Vec::new();
        flaws.extend(it.partial.then_some(Flaw::Partial));
        flaws.extend(it.ineffective.then_some(Flaw::Ineffective));
        flaws.extend((it.known() == 0).then_some(Flaw::ReachesNobody));
        for site in &self.situation.down {
            let (site, share) = (*site, it.share(*site));
            flaws.extend((share > DOWN_SHARE).then_some(Flaw::NeedsDown { site, share }));
        }
        for site in &self.situation.breakwaters {
            let (site, i) = (*site, site.index());
            let moved = 1.0 - self.flow.share[i * self.n + i];
            let too_much = moved > self.config.breakwater_loss;
            flaws.extend(too_much.then_some(Flaw::MovesBreakwater { site, moved }));
        }
        flaws
    }

    /// What each site gets where the attack spreads by weight, and where it is concentrated.
    fn loads(&self, play: usize) -> (Vec<Range>, Vec<Range>) {
        let n = self.n;
        let (mut load, mut concentrated, nowhere) = match &self.situation.offered {
            Figures::Sites(offered) => {
                let load = self.carry(offered, Range::default(), |sum, load, share| {
                    sum + load.scale(share)
                });
                let concentrated = self.concentrated(offered, &load);
                (load, concentrated, Range::default())
            }
            Figures::Classes(offered) => {
                let there = self.classes.map_or(&[][..], |classes| classes.play(play));
                let (load, nowhere) = sum_by_site(offered, there, n, |a, b| a + b);
                (load.clone(), load, nowhere)
            }
        };
        let shares = self.shares(play, |site| !self.situation.down.contains(&site));
        scatter(nowhere, nowhere.high, &shares, &mut load, &mut concentrated);
        if play != self.situation.current {
            for site in &self.situation.down {
                let lost = core::mem::take(&mut load[site.index()]);
                let most = core::mem::take(&mut concentrated[site.index()]).high;
                scatter(lost, most, &shares, &mut load, &mut concentrated);
            }
            // What may go to several sites is counted at each of them, but there is no more than all.
            for range in &mut concentrated {
                range.high = range.high.min(self.total.high);
            }
        }
        (load, concentrated)
    }

    /// What each site gets if the attack is denser where it moves.
    fn concentrated(&self, offered: &[Range], load: &[Range]) -> Vec<Range> {
        let dense = |share: f64| {
            // What rounding leaves of nothing is nothing, however dense.
            if share < ROUNDING {
                0.0
            } else {
                (self.config.concentration * share).min(1.0)
            }
        };
        let mut all: Vec<Range> = load
            .iter()
            .map(|load| Range {
                likely: load.likely,
                ..Range::default()
            })
            .collect();
        for (from, offered) in offered.iter().enumerate() {
            let normal = self.normal.as_ref().map_or(0.0, |normal| normal[from]);
            let (low, high) = (normal.min(offered.low), normal.min(offered.high));
            for (to, range) in all.iter_mut().enumerate() {
                let cell = from * self.n + to;
                let (share, least, most) = (
                    self.flow.share[cell],
                    self.flow.least[cell],
                    self.flow.most[cell],
                );
                range.low += low * share + (offered.low - low) * (1.0 - dense(1.0 - least));
                range.high += high * share + times(offered.high - high, dense(most));
            }
        }
        all
    }

    /// Normal load of each site in a play; its share, where the load is not known.
    fn normal(&self, play: usize) -> Vec<f64> {
        let add = |sum: f64, normal: f64, share: f64| sum + normal * share;
        let mut normal = match (&self.situation.normal, &self.normal) {
            (Some(Figures::Classes(by_class)), _) => {
                let there = self.classes.map_or(&[][..], |classes| classes.play(play));
                let (mut normal, nowhere) = sum_by_site(by_class, there, self.n, |a, b| a + b);
                let shares = self.shares(play, |_| true);
                normal
                    .iter_mut()
                    .zip(shares)
                    .for_each(|(normal, share)| *normal += nowhere * share);
                normal
            }
            (_, Some(normal)) => self.carry(normal, 0.0, add),
            (_, None) => self.carry(&self.shares(self.situation.current, |_| true), 0.0, add),
        };
        if play != self.situation.current {
            let shares = self.shares(play, |site| !self.situation.down.contains(&site));
            for site in &self.situation.down {
                let lost = core::mem::take(&mut normal[site.index()]);
                normal
                    .iter_mut()
                    .zip(&shares)
                    .for_each(|(normal, share)| *normal += lost * share);
            }
        }
        normal
    }

    /// What is at each site now, along the flow.
    fn carry<T: Copy>(&self, now: &[T], zero: T, add: impl Fn(T, T, f64) -> T) -> Vec<T> {
        let mut then = vec![zero; self.n];
        for (from, amount) in now.iter().enumerate() {
            for (to, sum) in then.iter_mut().enumerate() {
                let share = self.flow.share[from * self.n + to];
                if share > 0.0 {
                    *sum = add(*sum, *amount, share);
                }
            }
        }
        then
    }

    /// Shares of these sites in a play: 1 together, or 0 where they have none.
    fn shares(&self, play: usize, counts: impl Fn(SiteId) -> bool) -> Vec<f64> {
        let play = &self.playbook.plays()[play];
        let share = |site| if counts(site) { play.share(site) } else { 0.0 };
        let mut shares: Vec<f64> = self.playbook.sites().ids().map(share).collect();
        let sum: f64 = shares.iter().sum();
        if sum > 0.0 {
            shares.iter_mut().for_each(|share| *share /= sum);
        }
        shares
    }

    fn set_flow(&mut self, play: usize) {
        let n = self.n;
        let Flow { share, least, most } = &mut self.flow;
        share.clear();
        share.resize(n * n, 0.0);
        if play == self.situation.current {
            (0..n).for_each(|site| share[site * n + site] = 1.0);
            least.clone_from(share);
            most.clone_from(share);
            return;
        }
        if self.classes.is_some() {
            self.flow_of_classes(play);
        } else {
            let plays = self.playbook.plays();
            self.flow
                .of_totals(&plays[self.situation.current], &plays[play], n);
        }
        self.fill_empty_rows(play);
    }

    fn flow_of_classes(&mut self, play: usize) {
        let n = self.n;
        let Some(classes) = self.classes else {
            return;
        };
        self.moved.fill(0.0);
        for ((site, row), weight) in classes.play(play).iter().zip(&self.rows).zip(&self.weights) {
            self.moved[*row as usize + usize::from(*site).min(n)] += weight;
        }
        for from in 0..n {
            let row = &self.moved[from * (n + 1)..][..n];
            let sum: f64 = row.iter().sum();
            if sum > 0.0 {
                let shares = self.flow.share[from * n..][..n].iter_mut();
                shares
                    .zip(row)
                    .for_each(|(share, weight)| *share = weight / sum);
            }
        }
        self.flow.least.clone_from(&self.flow.share);
        self.flow.most.clone_from(&self.flow.share);
    }

    /// Of a site that has nothing by the playbook: what it has goes by the shares of the play, or anywhere.
    fn fill_empty_rows(&mut self, play: usize) {
        let n = self.n;
        let shares = self.shares(play, |_| true);
        for from in 0..n {
            let row = from * n..(from + 1) * n;
            if self.flow.share[row.clone()]
                .iter()
                .all(|share| *share == 0.0)
            {
                self.flow.share[row.clone()].copy_from_slice(&shares);
                self.flow.least[row.clone()].fill(0.0);
                let most = shares
                    .iter()
                    .map(|share| if *share > 0.0 { 1.0 } else { 0.0 });
                self.flow.most[row]
                    .iter_mut()
                    .zip(most)
                    .for_each(|(cell, most)| *cell = most);
            }
        }
    }
}

impl Flow {
    /// The least movement between two plays of which only the shares are known.
    fn of_totals(&mut self, before: &Play, after: &Play, n: usize) {
        let Self { share, least, most } = self;
        #[expect(clippy::cast_possible_truncation, reason = "at most SITES_MAX sites")]
        let shares = |play: &Play| -> Vec<f64> {
            (0..n).map(|site| play.share(SiteId(site as u8))).collect()
        };
        let (before, after) = (shares(before), shares(after));
        let gains: Vec<f64> = before
            .iter()
            .zip(&after)
            .map(|(b, a)| (a - b).max(0.0))
            .collect();
        let all: f64 = gains.iter().sum();
        least.clone_from(share);
        most.clone_from(share);
        for from in (0..n).filter(|from| before[*from] > 0.0) {
            let (had, stays) = (before[from], before[from].min(after[from]));
            let loses = had - stays;
            for (to, gain) in gains.iter().enumerate() {
                let cell = from * n + to;
                let (likely, low, high) = if from == to {
                    (stays, stays, stays)
                } else if loses > 0.0 && all > 0.0 {
                    (
                        loses * gain / all,
                        (loses + gain - all).max(0.0),
                        loses.min(*gain),
                    )
                } else {
                    (0.0, 0.0, 0.0)
                };
                (share[cell], least[cell], most[cell]) = (likely / had, low / had, high / had);
            }
        }
    }
}

impl Forecast {
    /// The load in a case.
    #[must_use]
    pub fn load_in(&self, case: Over) -> f64 {
        match case {
            Over::Likely => self.load.likely,
            Over::Worst => self.load.high,
            Over::Concentrated | Over::Never => self.concentrated.high,
        }
    }
}

/// Sums of the classes that go to each of `n` sites, and of those that go nowhere.
fn sum_by_site<T: Copy + Default>(
    figures: &[T],
    sites: &[u8],
    n: usize,
    add: impl Fn(T, T) -> T,
) -> (Vec<T>, T) {
    let mut sums = vec![T::default(); n + 1];
    for (figure, site) in figures.iter().zip(sites) {
        let sum = &mut sums[usize::from(*site).min(n)];
        *sum = add(*sum, *figure);
    }
    let nowhere = sums.pop().unwrap_or_default();
    (sums, nowhere)
}

/// Adds a load of which it is not known where it goes: by the shares, or where it is concentrated, at `most`, to any one site.
fn scatter(lost: Range, most: f64, shares: &[f64], load: &mut [Range], concentrated: &mut [Range]) {
    for (site, share) in shares.iter().enumerate() {
        if most > 0.0 && *share > 0.0 {
            let part = lost.scale(*share);
            load[site] = load[site] + part;
            let any = Range {
                low: 0.0,
                likely: part.likely,
                high: most,
            };
            concentrated[site] = concentrated[site] + any;
        }
    }
}

/// Where nothing of what may be infinite is nothing.
fn times(amount: f64, share: f64) -> f64 {
    if share == 0.0 { 0.0 } else { amount * share }
}
