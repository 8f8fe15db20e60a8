//! What goes where at one moment, and how much of it is lost.

use super::setup::Setup;

/// Loads of one site, in queries a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SiteFlow {
    /// Sent to it.
    pub(super) offered: f64,
    /// Of that, the normal load.
    pub(super) honest: f64,
    /// Known-good queries of the sources that reach it, or will until they move.
    pub(super) known: f64,
    /// Of them, those that are not lost because routes are changing.
    pub(super) known_sent: f64,
}

/// Loads of all sites.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) sites: Vec<SiteFlow>,
    /// Normal load, with what is lost on the way.
    pub(super) honest: f64,
    /// Of it, what is answered.
    pub(super) answered: f64,
    /// Sites that are sent more than they can answer.
    pub(super) over: u32,
    /// What is beyond the capacities, summed.
    pub(super) excess: f64,
}

/// What the classes send, and where they are.
pub(super) struct Classes<'a> {
    /// The part of the normal load of each.
    pub(super) weight: &'a [f64],
    /// The factor of its normal load at the moment, with season and noise.
    pub(super) factor: &'a [f64],
    /// The part of the attack of each.
    pub(super) attack: &'a [f64],
    pub(super) at: &'a [u8],
    pub(super) moving: &'a [bool],
}

impl Flow {
    /// Sums up who sends what to which site.
    pub(super) fn sum(&mut self, setup: &Setup, classes: &Classes<'_>, attack: f64) {
        self.sites.clear();
        self.sites.resize(setup.sites.len(), SiteFlow::default());
        self.honest = 0.0;
        let arrives = 1.0 - setup.network.transient_loss;
        for (class, weight) in classes.weight.iter().enumerate() {
            let honest = setup.honest.load * weight * classes.factor[class];
            self.honest += honest;
            let part = if classes.moving[class] { arrives } else { 1.0 };
            let known = setup.honest.known_good.rate * weight;
            let Some(site) = self.sites.get_mut(usize::from(classes.at[class])) else {
                continue;
            };
            site.offered += part * (honest + attack * classes.attack[class]);
            site.honest += part * honest;
            site.known += known;
            site.known_sent += part * known;
        }
        (self.answered, self.over, self.excess) = (0.0, 0, 0.0);
        for (flow, site) in self.sites.iter().zip(&setup.sites) {
            self.answered += flow.honest * site.answered(flow.offered);
            if site.is_over(flow.offered) {
                self.over += 1;
                self.excess += flow.offered - site.carries();
            }
        }
    }
}
