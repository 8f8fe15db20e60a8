//! The table of held calls: at most `k` of them, WAITING or INCALL.

use alloc::vec::Vec;

use super::{
    CallState, Class, ClassId, Config, PHASES_MAX, PhaseId,
    band::{Band, Group},
    calls::{Call, Calls, Slot},
};
use crate::Time;

/// Calls whose drop factor does not change with time, and is the same.
#[derive(Clone, Debug)]
pub(super) struct Tie {
    /// Their drop factor.
    pub(super) value: f64,
    /// Which they are, by the indices of their bands.
    pub(super) members: Vec<(usize, Group)>,
}

/// Held calls by factor: of their class, and of their phase if there are phases. Calls of exempt classes are counted, but no victim
/// is looked for among them.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// One for each factor that occurs.
    bands: Vec<Band>,
    /// The band of each class by its id, and in it of each phase; `None` for an exempt one.
    places: Vec<Option<usize>>,
    /// How many a class has in `places`.
    phases: usize,
    /// The largest drop factor first.
    ties: Vec<Tie>,
    waiting: u32,
    in_call: u32,
    by_phase: [u32; PHASES_MAX],
}

impl Table {
    pub(super) fn new(config: &Config) -> Self {
        let (mut bands, mut places) = (Vec::<Band>::new(), Vec::new());
        let mut place = |exempt: bool, new: Band| {
            places.push((!exempt).then(|| {
                let same =
                    |band: &Band| band.has_curve_of(&new) && band.drop_factor == new.drop_factor;
                bands.iter().position(same).unwrap_or_else(|| {
                    bands.push(new);
                    bands.len() - 1
                })
            }));
        };
        let built_in = Class::named("default");
        for class in [&built_in].into_iter().chain(&config.classes) {
            for phase in &config.phases {
                let drop_factor = phase.drop_factor(&config.drop_factor);
                place(class.exempt, Band::of_phase(class.factor, drop_factor));
            }
            if config.phases.is_empty() {
                place(class.exempt, Band::new(class.factor, config.drop_factor));
            }
        }
        for index in 0..bands.len() {
            let same = |band: &Band| band.has_curve_of(&bands[index]);
            bands[index].curve = bands.iter().position(same).unwrap_or(index);
        }
        Self {
            ties: ties(&bands),
            bands,
            places,
            phases: config.phases.len().max(1),
            waiting: 0,
            in_call: 0,
            by_phase: [0; PHASES_MAX],
        }
    }

    pub(super) fn clear(&mut self) {
        self.bands.iter_mut().for_each(Band::clear);
        self.waiting = 0;
        self.in_call = 0;
        self.by_phase = [0; PHASES_MAX];
    }

    pub(super) fn waiting(&self) -> u32 {
        self.waiting
    }

    pub(super) fn in_call(&self) -> u32 {
        self.in_call
    }

    pub(super) fn held(&self) -> u32 {
        self.waiting + self.in_call
    }

    /// Calls that may be a victim.
    pub(super) fn droppable(&self) -> u32 {
        self.bands.iter().map(Band::len).sum()
    }

    pub(super) fn bands(&self) -> &[Band] {
        &self.bands
    }

    /// The bands whose old calls are ties with those of this one if their ages are.
    pub(super) fn of_curve(&self, curve: usize) -> impl Iterator<Item = &Band> {
        self.bands.iter().filter(move |band| band.curve == curve)
    }

    /// All groups whose drop factor does not change with time, the largest first.
    pub(super) fn ties(&self) -> &[Tie] {
        &self.ties
    }

    /// Held calls in a phase.
    pub(super) fn in_phase(&self, phase: PhaseId) -> u32 {
        self.by_phase
            .get(usize::from(phase.0))
            .copied()
            .unwrap_or(0)
    }

    /// Takes in a call; without phases it must have arrived last, and in a phase this is its reference time.
    pub(super) fn push(&mut self, calls: &mut Calls, slot: Slot, reference: Time) {
        let call = calls.get(slot);
        *self.counter(call.state) += 1;
        self.by_phase[usize::from(call.phase.0)] += 1;
        if let Some(band) = self.place(call.class, call.phase) {
            self.bands[band].push(calls, slot, reference);
        }
    }

    pub(super) fn remove(&mut self, call: &Call) {
        *self.counter(call.state) -= 1;
        self.by_phase[usize::from(call.phase.0)] -= 1;
        if let Some(band) = self.place(call.class, call.phase) {
            self.bands[band].remove(call);
        }
    }

    /// WAITING becomes INCALL.
    pub(super) fn answer(&mut self, call: &mut Call, now: Time) {
        call.state = CallState::InCall;
        self.waiting -= 1;
        self.in_call += 1;
        if let Some(band) = self.place(call.class, call.phase) {
            self.bands[band].answer(call, now);
        }
    }

    /// The call begins another phase, or the same once more, with this reference time.
    pub(super) fn enter(&mut self, calls: &mut Calls, slot: Slot, phase: PhaseId, reference: Time) {
        self.remove(calls.get(slot));
        calls.get_mut(slot).phase = phase;
        self.push(calls, slot, reference);
    }

    /// The reference time of a call in a phase; `None` for an exempt one.
    pub(super) fn reference(&self, call: &Call) -> Option<Time> {
        let band = self.place(call.class, call.phase)?;
        Some(self.bands[band].since(call.position))
    }

    /// Gives a call in a phase another reference time.
    pub(super) fn set_reference(&mut self, calls: &mut Calls, slot: Slot, reference: Time) {
        let call = calls.get(slot);
        if let Some(band) = self.place(call.class, call.phase) {
            self.bands[band].remove(call);
            self.bands[band].push(calls, slot, reference);
        }
    }

    /// Brings the groups up to `now`; to be done before a victim is chosen.
    pub(super) fn promote(&mut self, now: Time) {
        for band in &mut self.bands {
            band.promote(now);
        }
    }

    fn place(&self, class: ClassId, phase: PhaseId) -> Option<usize> {
        self.places[usize::from(class.0) * self.phases + usize::from(phase.0)]
    }

    fn counter(&mut self, state: CallState) -> &mut u32 {
        match state {
            CallState::Waiting => &mut self.waiting,
            CallState::InCall => &mut self.in_call,
        }
    }
}

fn ties(bands: &[Band]) -> Vec<Tie> {
    let mut ties = Vec::<Tie>::new();
    for (index, band) in bands.iter().enumerate() {
        let d = &band.drop_factor;
        for group in Group::ALL {
            let value = band.factor
                * match group {
                    Group::Waiting => d.waiting,
                    Group::Young => d.in_call,
                    Group::Old if d.grows() => continue,
                    // Either `scale` or `alpha` is 0.
                    Group::Old => d.waiting + d.scale,
                };
            if let Some(tie) = ties.iter_mut().find(|tie| tie.value == value) {
                tie.members.push((index, group));
            } else {
                ties.push(Tie {
                    value,
                    members: Vec::from([(index, group)]),
                });
            }
        }
    }
    ties.sort_by(|one, other| other.value.total_cmp(&one.value));
    ties
}
