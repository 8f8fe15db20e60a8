//! How long calls take when they are left alone, as far as a recording tells.

use levee_policy::{Span, Time};

use super::Call;

/// What lengths are drawn from.
#[derive(Clone, Debug, Default)]
pub(super) struct Lives {
    /// From the forwarding to the answer or, without one, to the end.
    pub(super) setup: ProductLimit,
    /// From the answer to the end.
    pub(super) talk: ProductLimit,
    /// From the dropping of a call until its slot is free: the median.
    pub(super) release: Span,
}

impl Lives {
    pub(super) fn of(calls: &[Call], last: Time) -> Self {
        let (mut setups, mut talks, mut releases) = (Vec::new(), Vec::new(), Vec::new());
        for call in calls {
            let Some(forwarded) = call.forwarded else {
                continue;
            };
            // Until when the call was left alone.
            let seen = call.evicted.map_or(last, |e| e.at);
            let own_end = call.own_end();
            setups.push(match (call.answered, own_end) {
                (Some(answered), _) => Seen::event(answered - forwarded, true),
                (None, Some(end)) => Seen::event(end - forwarded, false),
                (None, None) => Seen::cut(seen - forwarded),
            });
            if let Some(answered) = call.answered {
                talks.push(match own_end {
                    Some(end) => Seen::event(end - answered, true),
                    None => Seen::cut(seen - answered),
                });
            }
            if let (Some(evicted), Some(ended)) = (call.evicted, call.ended) {
                releases.push(ended - evicted.at);
            }
        }
        releases.sort_unstable();
        Self {
            setup: ProductLimit::of(setups),
            talk: ProductLimit::of(talks),
            release: releases
                .get(releases.len() / 2)
                .copied()
                .unwrap_or_default(),
        }
    }
}

/// A length that was seen, or seen in part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) length: Span,
    /// `None` if it was cut.
    pub(super) event: Option<bool>,
}

impl Seen {
    pub(super) fn event(length: Span, answered: bool) -> Self {
        Self {
            length,
            event: Some(answered),
        }
    }

    pub(super) fn cut(length: Span) -> Self {
        Self {
            length,
            event: None,
        }
    }
}

/// The product-limit estimate of a survival function.
#[derive(Clone, Debug, Default)]
pub(super) struct ProductLimit {
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) length: Span,
    /// The share that lasts longer.
    pub(super) after: f64,
    /// Whether what happened here was an answer.
    pub(super) answered: bool,
}

impl ProductLimit {
    pub(super) fn of(mut seen: Vec<Seen>) -> Self {
        // What was cut at the very length of an event was still there at that event.
        seen.sort_by_key(|s| (s.length, s.event.is_none()));
        let n = seen.len();
        let mut after = 1.0;
        let mut steps = Vec::new();
        for (i, s) in seen.into_iter().enumerate() {
            if let Some(answered) = s.event {
                after *= 1.0 - 1.0 / (n - i) as f64;
                steps.push(Step {
                    length: s.length,
                    after,
                    answered,
                });
            }
        }
        Self { steps }
    }

    /// A length beyond `known`, at the share `u` of those that get there; `None` for one that is not seen to end.
    pub(super) fn draw(&self, known: Span, u: f64) -> Option<Step> {
        let passed = self.steps.partition_point(|step| step.length <= known);
        let there = passed
            .checked_sub(1)
            .and_then(|i| self.steps.get(i))
            .map_or(1.0, |step| step.after);
        let target = u * there;
        let at = self.steps.partition_point(|step| step.after >= target);
        self.steps.get(at.max(passed)).copied()
    }
}
