//! The table of held calls: at most `k` of them, WAITING or INCALL.

use alloc::vec::Vec;

use super::{
    CallState, ClassId, Config, DropFactor,
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

/// Held calls by class factor. Calls of exempt classes are counted, but no victim is looked for among them.
#[derive(Clone, Debug)]
pub(super) struct Table {
    drop_factor: DropFactor,
    /// One for each factor that occurs.
    bands: Vec<Band>,
    /// The band of each class by its id; `None` for an exempt one.
    places: Vec<Option<usize>>,
    /// The largest drop factor first.
    ties: Vec<Tie>,
    waiting: u32,
    in_call: u32,
}

impl Table {
    pub(super) fn new(config: &Config) -> Self {
        let mut bands = Vec::from([Band::new(1.0)]);
        let mut places = Vec::from([Some(0)]);
        for class in &config.classes {
            places.push((!class.exempt).then(|| {
                bands
                    .iter()
                    .position(|band| band.factor == class.factor)
                    .unwrap_or_else(|| {
                        bands.push(Band::new(class.factor));
                        bands.len() - 1
                    })
            }));
        }
        Self {
            ties: ties(&config.drop_factor, &bands),
            drop_factor: config.drop_factor,
            bands,
            places,
            waiting: 0,
            in_call: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.bands.iter_mut().for_each(Band::clear);
        self.waiting = 0;
        self.in_call = 0;
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

    /// All groups whose drop factor does not change with time, the largest first.
    pub(super) fn ties(&self) -> &[Tie] {
        &self.ties
    }

    pub(super) fn drop_factor(&self) -> &DropFactor {
        &self.drop_factor
    }

    /// Takes in a call; it must have arrived last.
    pub(super) fn push(&mut self, calls: &mut Calls, slot: Slot) {
        let call = calls.get(slot);
        *self.counter(call.state) += 1;
        if let Some(band) = self.place(call.class) {
            self.bands[band].push(&self.drop_factor, calls, slot);
        }
    }

    pub(super) fn remove(&mut self, call: &Call) {
        *self.counter(call.state) -= 1;
        if let Some(band) = self.place(call.class) {
            self.bands[band].remove(&self.drop_factor, call);
        }
    }

    /// WAITING becomes INCALL.
    pub(super) fn answer(&mut self, call: &mut Call, now: Time) {
        call.state = CallState::InCall;
        self.waiting -= 1;
        self.in_call += 1;
        if let Some(band) = self.place(call.class) {
            self.bands[band].answer(&self.drop_factor, call, now);
        }
    }

    /// Brings the groups up to `now`; to be done before a victim is chosen.
    pub(super) fn promote(&mut self, now: Time) {
        for band in &mut self.bands {
            band.promote(&self.drop_factor, now);
        }
    }

    fn place(&self, class: ClassId) -> Option<usize> {
        self.places[usize::from(class.0)]
    }

    fn counter(&mut self, state: CallState) -> &mut u32 {
        match state {
            CallState::Waiting => &mut self.waiting,
            CallState::InCall => &mut self.in_call,
        }
    }
}

fn ties(d: &DropFactor, bands: &[Band]) -> Vec<Tie> {
    let mut ties = Vec::<Tie>::new();
    for (index, band) in bands.iter().enumerate() {
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
