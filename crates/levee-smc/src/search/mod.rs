//! Search for the best of many systems, when each can only be judged by its runs.
//!
//! Candidates are places in boxes, one box for each family: `at[i]` goes from 0 to 1, and what that means is the [`Space`]'s business. Three
//! stages, each judging all its candidates on the same runs (common random numbers), so that what they have in common is not in their differences:
//!
//! 1. *Screen*: candidates spread over the boxes (a Latin hypercube) get a few runs each. The best third goes on with three times the runs, and so on
//!    (successive halving: Jamieson and Talwalkar, AISTATS 2016; here by thirds), until few are left.
//! 2. *Refine*: from the best few, each coordinate is changed by a step up and down (pattern search: Hooke and Jeeves, JACM 8, 1961). The best
//!    neighbour becomes the new middle; when none is better, the step is halved.
//! 3. *Choose*: the best few of all, and all that were given, get four times as many runs. The best is the winner.
//!
//! The winner is partly lucky: its score is too good on average. Judge it again on runs that the search has not seen before telling anyone.
//!
//! The result is a function of space, plan, seed and scores. It promises no global optimum.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

/// Each screening keeps one candidate of so many, and gives it so many times the runs.
const KEEP: usize = 3;
/// Middles of the refinement: as many as there may be hills to tell apart (our choice).
const MIDDLES: usize = 3;
/// First step of the refinement: an eighth of a box, the distance of neighbours when some hundred candidates fill four dimensions.
const STEP: f64 = 0.125;
/// Last step of the refinement: finer differences in a logarithmic range are below what runs can tell.
const STEP_MIN: f64 = 0.03;
/// Rounds of refinement at most; the steps alone would end it after a handful more than there are moves.
const ROUNDS_MAX: usize = 24;
/// Candidates that are chosen from, beside those that were given; the screening leaves as many.
const FINALISTS: usize = 6;
/// How many times the runs of the refinement the choice takes.
const CHOICE: u64 = 4;

/// How good a candidate is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// The more the better.
    pub value: f64,
    /// By how much it breaks what it has to keep; nothing up to 0. One that breaks it is worse than all that do not.
    pub excess: f64,
}

impl Score {
    /// Worse than any other: of a candidate that could not be judged.
    const NONE: Self = Self {
        value: f64::NEG_INFINITY,
        excess: f64::INFINITY,
    };

    /// `Greater` if this one is better. Among those that break what they have to keep, the one that breaks it by less is better.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        let breaks = |score: &Self| score.excess > 0.0;
        match (breaks(self), breaks(other)) {
            (false, false) => self.value.total_cmp(&other.value),
            (true, true) => other.excess.total_cmp(&self.excess),
            (mine, theirs) => theirs.cmp(&mine),
        }
    }

    fn beats(&self, other: &Self) -> bool {
        self.compare(other) == Ordering::Greater
    }
}

/// One of the boxes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Family {
    /// Its coordinates.
    pub dimensions: usize,
    /// How many of the first candidates are its own, in proportion to those of the others.
    pub weight: f64,
}

/// A place in one of the boxes.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Which box.
    pub family: usize,
    /// From 0 to 1 each.
    pub at: Vec<f64>,
}

/// What is searched.
pub trait Space {
    /// What is judged. Equal candidates are judged once.
    type Candidate: Clone + PartialEq;

    /// The boxes.
    fn families(&self) -> &[Family];

    /// What stands at a place.
    fn at(&self, place: &Place) -> Self::Candidate;
}

/// How hard it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Candidates of the first screening, beside those that are given.
    pub candidates: usize,
    /// Runs that each of them gets.
    pub runs: u64,
    /// Runs in all, over all candidates, at most.
    pub runs_max: u64,
    /// Of the spread: another seed gives other candidates.
    pub seed: u64,
}

/// Why a search is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It came to its end.
    Complete,
    /// More would have passed [`Plan::runs_max`].
    Runs,
    /// The judge gave no more scores.
    Halted,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<C> {
    /// The best.
    pub best: C,
    /// Which of those that were given is the best of them, by the last judgement that has all of them; the first if there is none.
    pub best_given: usize,
    /// Whether the best is one of those that were given.
    pub given: bool,
    /// Distinct candidates that were judged.
    pub judged: usize,
    /// Runs that were made, over all candidates.
    pub runs: u64,
    /// Why it is over.
    pub ended: Ended,
}

/// A candidate that is given, such as what is in use now, and where it stands if it stands in a box: from there it can be refined.
#[derive(Clone, Debug, PartialEq)]
pub struct Given<C> {
    /// What is judged.
    pub candidate: C,
    /// The place in a box that comes closest.
    pub place: Option<Place>,
}

/// Searches. `judge` scores candidates by their first so many runs, in order; `None` stops the search with what it has. `given` must not be
/// empty: without any score the first of them is the result.
///
/// # Errors
///
/// Those of `judge`.
///
/// # Panics
///
/// If nothing is given.
pub fn search<S: Space, E>(
    space: &S,
    given: &[Given<S::Candidate>],
    plan: &Plan,
    judge: &mut Judge<'_, S::Candidate, E>,
) -> Result<Found<S::Candidate>, E> {
    assert!(!given.is_empty(), "there is something to begin with");
    let mut search = Search {
        space,
        given,
        plan,
        judge,
        ranked: Vec::new(),
        best_given: 0,
        judged: Vec::new(),
        runs: 0,
    };
    let ended = search.all()?;
    let best = search.ranked.first().map(|entry| &entry.candidate);
    let best = best.unwrap_or(&given[0].candidate).clone();
    Ok(Found {
        given: given.iter().any(|own| own.candidate == best),
        best,
        best_given: search.best_given,
        judged: search.judged.len(),
        runs: search.runs,
        ended,
    })
}

/// Scores candidates by their first so many runs.
pub type Judge<'j, C, E> = dyn FnMut(&[C], u64) -> Result<Option<Vec<Score>>, E> + 'j;

/// A candidate and what is known of it.
#[derive(Clone, Debug)]
struct Entry<C> {
    candidate: C,
    place: Option<Place>,
    score: Score,
}

struct Search<'s, 'j, S: Space, E> {
    space: &'s S,
    given: &'s [Given<S::Candidate>],
    plan: &'s Plan,
    judge: &'s mut Judge<'j, S::Candidate, E>,
    /// Judged on the same runs, the best first.
    ranked: Vec<Entry<S::Candidate>>,
    best_given: usize,
    judged: Vec<S::Candidate>,
    runs: u64,
}

/// The middle of a refinement.
struct Middle<C> {
    entry: Entry<C>,
    step: f64,
}

impl<S: Space, E> Search<'_, '_, S, E> {
    fn all(&mut self) -> Result<Ended, E> {
        let runs = match self.screen()? {
            Ok(runs) => runs,
            Err(ended) => return Ok(ended),
        };
        let refined = self.refine(runs)?;
        if refined == Some(Ended::Halted) {
            return Ok(Ended::Halted);
        }
        let chosen = self.choose(runs.saturating_mul(CHOICE))?;
        Ok(chosen.or(refined).unwrap_or(Ended::Complete))
    }

    /// Gives the runs of its last round.
    fn screen(&mut self) -> Result<Result<u64, Ended>, E> {
        let mut alive = self.given_entries();
        for place in spread(self.space.families(), self.plan) {
            let entry = self.entry(place);
            if !alive.iter().any(|known| known.candidate == entry.candidate) {
                alive.push(entry);
            }
        }
        let mut runs = self.plan.runs;
        loop {
            if let Some(ended) = self.judge(&mut alive, runs)? {
                return Ok(Err(ended));
            }
            rank(&mut alive);
            self.note_given(&alive);
            self.ranked = alive.clone();
            if alive.len() / KEEP < FINALISTS {
                return Ok(Ok(runs));
            }
            alive.truncate(alive.len() / KEEP);
            runs = runs.saturating_mul(KEEP as u64);
        }
    }

    fn refine(&mut self, runs: u64) -> Result<Option<Ended>, E> {
        let mut middles = self.middles();
        for _ in 0..ROUNDS_MAX {
            let mut new: Vec<Entry<S::Candidate>> = Vec::new();
            for place in middles.iter().flat_map(Middle::neighbours) {
                let entry = self.entry(place);
                let known = |other: &Entry<S::Candidate>| other.candidate == entry.candidate;
                if !new.iter().any(known) && !self.ranked.iter().any(known) {
                    new.push(entry);
                }
            }
            // What is left must do for the choice.
            let choice = (FINALISTS + self.given.len()) as u64 * runs.saturating_mul(CHOICE);
            let cost = new.len() as u64 * runs;
            if cost.saturating_add(choice) > self.left() {
                return Ok(Some(Ended::Runs));
            }
            if let Some(ended) = self.judge(&mut new, runs)? {
                return Ok(Some(ended));
            }
            self.ranked.append(&mut new);
            rank(&mut self.ranked);
            for middle in &mut middles {
                middle.go(self.space, &self.ranked);
            }
            middles.retain(|middle| middle.step >= STEP_MIN);
            if middles.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    fn choose(&mut self, runs: u64) -> Result<Option<Ended>, E> {
        let mut finalists = self.given_entries();
        for entry in self.ranked.iter().take(FINALISTS) {
            if !finalists.iter().any(|own| own.candidate == entry.candidate) {
                finalists.push(entry.clone());
            }
        }
        if let Some(ended) = self.judge(&mut finalists, runs)? {
            return Ok(Some(ended));
        }
        rank(&mut finalists);
        self.note_given(&finalists);
        self.ranked = finalists;
        Ok(None)
    }

    /// The best of each family that is still in, the best family first; then the best that are left.
    fn middles(&self) -> Vec<Middle<S::Candidate>> {
        let mut chosen: Vec<&Entry<S::Candidate>> = Vec::new();
        let family = |entry: &Entry<S::Candidate>| entry.place.as_ref().map(|place| place.family);
        for pass in 0..2 {
            for entry in self.ranked.iter().filter(|entry| entry.place.is_some()) {
                let taken = chosen.iter().any(|other| {
                    let same = other.candidate == entry.candidate;
                    same || pass == 0 && family(other) == family(entry)
                });
                if !taken && chosen.len() < MIDDLES {
                    chosen.push(entry);
                }
            }
        }
        let middle = |entry: &Entry<S::Candidate>| Middle {
            entry: entry.clone(),
            step: STEP,
        };
        chosen.into_iter().map(middle).collect()
    }

    fn given_entries(&self) -> Vec<Entry<S::Candidate>> {
        let mut all: Vec<Entry<S::Candidate>> = Vec::new();
        for own in self.given {
            if !all.iter().any(|known| known.candidate == own.candidate) {
                all.push(Entry {
                    candidate: own.candidate.clone(),
                    place: own.place.clone(),
                    score: Score::NONE,
                });
            }
        }
        all
    }

    fn entry(&self, place: Place) -> Entry<S::Candidate> {
        Entry {
            candidate: self.space.at(&place),
            place: Some(place),
            score: Score::NONE,
        }
    }

    fn left(&self) -> u64 {
        self.plan.runs_max.saturating_sub(self.runs)
    }

    /// Scores all on the first `runs` runs, or says why not.
    fn judge(
        &mut self,
        entries: &mut [Entry<S::Candidate>],
        runs: u64,
    ) -> Result<Option<Ended>, E> {
        let cost = (entries.len() as u64).saturating_mul(runs);
        if cost > self.left() {
            return Ok(Some(Ended::Runs));
        }
        let candidates: Vec<_> = entries.iter().map(|e| e.candidate.clone()).collect();
        if candidates.is_empty() {
            return Ok(None);
        }
        let Some(scores) = (self.judge)(&candidates, runs)? else {
            return Ok(Some(Ended::Halted));
        };
        debug_assert_eq!(scores.len(), entries.len());
        for (entry, score) in entries.iter_mut().zip(scores) {
            let told = !score.value.is_nan() && !score.excess.is_nan();
            entry.score = if told { score } else { Score::NONE };
        }
        for candidate in candidates {
            if !self.judged.contains(&candidate) {
                self.judged.push(candidate);
            }
        }
        self.runs += cost;
        Ok(None)
    }

    /// Which of the given ones is the best, if all of them are there.
    fn note_given(&mut self, ranked: &[Entry<S::Candidate>]) {
        let rank_of = |own: &Given<S::Candidate>| {
            let mut all = ranked.iter();
            all.position(|entry| entry.candidate == own.candidate)
        };
        let ranks: Option<Vec<usize>> = self.given.iter().map(rank_of).collect();
        let best = ranks.and_then(|ranks| {
            let each = ranks.into_iter().enumerate();
            each.min_by_key(|(_, rank)| *rank).map(|(own, _)| own)
        });
        self.best_given = best.unwrap_or(self.best_given);
    }
}

impl<C: Clone + PartialEq> Middle<C> {
    fn neighbours(&self) -> Vec<Place> {
        let Some(place) = &self.entry.place else {
            return Vec::new();
        };
        let mut all = Vec::new();
        for i in 0..place.at.len() {
            for change in [self.step, -self.step] {
                let mut next = place.clone();
                next.at[i] = (next.at[i] + change).clamp(0.0, 1.0);
                if next != *place {
                    all.push(next);
                }
            }
        }
        all
    }

    /// Goes to the best neighbour if that is better, or else looks closer.
    fn go(&mut self, space: &impl Space<Candidate = C>, ranked: &[Entry<C>]) {
        let mut best: Option<(Place, &Entry<C>)> = None;
        for place in self.neighbours() {
            let candidate = space.at(&place);
            let found = ranked.iter().find(|entry| entry.candidate == candidate);
            let Some(found) = found else {
                continue;
            };
            let bar = best.as_ref().map_or(&self.entry.score, |(_, b)| &b.score);
            if found.score.beats(bar) {
                best = Some((place, found));
            }
        }
        match best {
            Some((place, found)) => {
                self.entry = Entry {
                    place: Some(place),
                    ..found.clone()
                };
            }
            None => self.step /= 2.0,
        }
    }
}

/// The best first; equals stay in their order.
fn rank<C>(entries: &mut [Entry<C>]) {
    entries.sort_by(|one, other| other.score.compare(&one.score));
}

/// Places that fill each box: a Latin hypercube (McKay, Beckman and Conover, Technometrics 21, 1979). Of `n` places, each coordinate has one in
/// each `n`-th.
fn spread(families: &[Family], plan: &Plan) -> Vec<Place> {
    let total: f64 = families.iter().map(|family| family.weight).sum();
    let (mut places, mut begun) = (Vec::new(), 0.0);
    let mut draws = (0..).map(|n| unit(plan.seed, n));
    for (index, family) in families.iter().enumerate() {
        // By the sums so far, so that the parts add up to the whole.
        let share = |weight: f64| (plan.candidates as f64 * weight / total).round() as usize;
        let count = share(begun + family.weight) - share(begun);
        begun += family.weight;
        let first = places.len();
        places.resize_with(first + count, || Place {
            family: index,
            at: Vec::new(),
        });
        for _ in 0..family.dimensions {
            let mut order: Vec<(f64, usize)> = draws.by_ref().take(count).zip(0..).collect();
            order.sort_by(|one, other| one.0.total_cmp(&other.0));
            let within = order.iter().zip(draws.by_ref());
            for (place, ((_, nth), inside)) in places[first..].iter_mut().zip(within) {
                place.at.push((*nth as f64 + inside) / count as f64);
            }
        }
    }
    places
}

/// A number from 0 to 1 of seed and place, by the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn unit(seed: u64, place: u64) -> f64 {
    let mut z = seed.wrapping_add((place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1_u64 << 53) as f64
}
