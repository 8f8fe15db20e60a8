//! Offered loads, from all that is known to be good.

use levee_policy::reroute::{
    Range, SiteId, Sites,
    estimate::{Alpha, Estimator, KnownGood, Use, total},
};
use serde::Serialize;

use super::{Judged, Now, atlas::AtlasJudged};

/// Where known-good traffic comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Probes of RIPE Atlas.
    Atlas,
    /// Heavy hitters of the traffic itself.
    HeavyHitters,
}

/// What one origin says of a site.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Which.
    pub origin: Origin,
    /// What came of it, and what should have.
    #[serde(flatten)]
    pub known_good: KnownGood,
    /// What became of it.
    #[serde(rename = "use")]
    pub used: Use,
    /// The offered load by this alone; a bound that is not known is `null` in JSON.
    pub offered: Option<Range>,
}

/// The estimate of a site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteEstimate {
    /// Its name.
    pub name: String,
    /// What arrives, in events per second; `None`: it does not report.
    pub observed: Option<f64>,
    /// The share of the known-good that arrives; `None`: none is expected.
    pub alpha: Option<Alpha>,
    /// What is sent to it, in events per second; `None`: it does not report.
    pub offered: Option<Range>,
    /// By origin.
    pub sources: Vec<Evidence>,
    /// What a person should know.
    pub remarks: Vec<String>,
}

/// The estimate of all sites.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// All sites that report, together.
    pub offered: Range,
    /// By site.
    pub sites: Vec<SiteEstimate>,
}

/// Estimates what is offered to each site, from what arrives and from what is known to be good.
///
/// Heavy hitters of which many are faked ([`JudgedSite::is_suspect`](super::JudgedSite::is_suspect)) are not used where Atlas
/// says something; where they are all there is, the estimate has no upper bound.
#[must_use]
pub fn estimate(
    now: &Now,
    heavy: Option<&Judged>,
    atlas: Option<&AtlasJudged>,
    estimator: &Estimator,
) -> Estimate {
    let sites: Vec<SiteEstimate> = now
        .sites
        .ids()
        .map(|site| one(&now.sites, site, now.load(site), heavy, atlas, estimator))
        .collect();
    let offered: Vec<Range> = sites.iter().filter_map(|site| site.offered).collect();
    Estimate {
        offered: total(&offered),
        sites,
    }
}

fn one(
    sites: &Sites,
    site: SiteId,
    observed: Option<f64>,
    heavy: Option<&Judged>,
    atlas: Option<&AtlasJudged>,
    estimator: &Estimator,
) -> SiteEstimate {
    let heavy = heavy.and_then(|judged| judged.by_site.get(site.index()));
    let atlas = atlas.and_then(|judged| judged.by_site.get(site.index()));
    let mut remarks = heavy.map(super::JudgedSite::remarks).unwrap_or_default();
    if let Some(atlas) = atlas {
        if atlas.moved_in > 0 {
            remarks.push(format!(
                "{} Atlas probes moved here from other sites",
                atlas.moved_in
            ));
        }
        if atlas.moved_out > 0 {
            remarks.push(format!(
                "{} Atlas probes moved from here to other sites",
                atlas.moved_out
            ));
        }
    }
    let of_atlas = atlas.and_then(|atlas| atlas.known_good);
    let of_heavy = heavy.and_then(|heavy| heavy.known_good);
    let suspect = heavy.is_some_and(super::JudgedSite::is_suspect);
    let alone = |known_good: &KnownGood| estimator.alpha(&[*known_good]);
    let atlas_usable = of_atlas
        .as_ref()
        .is_some_and(|known_good| alone(known_good).is_some());
    let left = suspect && atlas_usable;
    let used: Vec<(Origin, KnownGood)> = [
        (Origin::Atlas, of_atlas),
        (Origin::HeavyHitters, of_heavy.filter(|_| !left)),
    ]
    .into_iter()
    .filter_map(|(origin, known_good)| Some((origin, known_good?)))
    .collect();
    let known_good: Vec<KnownGood> = used.iter().map(|(_, known_good)| *known_good).collect();
    let alpha = estimator.alpha(&known_good);
    let offered = observed.map(|observed| {
        let offered = estimator.offered(observed, alpha.as_ref());
        Range {
            high: if suspect && !left {
                f64::INFINITY
            } else {
                offered.high
            },
            ..offered
        }
    });
    let mut sources: Vec<Evidence> = used
        .iter()
        .enumerate()
        .map(|(i, (origin, known_good))| Evidence {
            origin: *origin,
            known_good: *known_good,
            used: alpha
                .as_ref()
                .map_or(Use::Unusable, |alpha| alpha.sources[i]),
            offered: observed
                .map(|observed| estimator.offered(observed, alone(known_good).as_ref())),
        })
        .collect();
    if let Some(known_good) = of_heavy.filter(|_| left) {
        sources.push(Evidence {
            origin: Origin::HeavyHitters,
            known_good,
            used: Use::LeftOut,
            offered: observed
                .map(|observed| estimator.offered(observed, alone(&known_good).as_ref())),
        });
    }
    remarks.extend(about(observed, alpha.as_ref(), sources.len()));
    SiteEstimate {
        name: sites.name(site).to_owned(),
        observed,
        alpha,
        offered,
        sources,
        remarks,
    }
}

fn about(observed: Option<f64>, alpha: Option<&Alpha>, sources: usize) -> Vec<String> {
    let mut out = Vec::new();
    if observed.is_none() {
        out.push("the site does not report: nothing is known of its load".to_owned());
    }
    match alpha {
        None => out.push(
            "no known-good traffic is expected here: the offered load is at least what arrives"
                .to_owned(),
        ),
        Some(alpha) => {
            if alpha.is_excess() {
                out.push("more known-good traffic arrives than can be: the forecast is wrong, or some is faked".to_owned());
            }
            if alpha.sources.contains(&Use::Widened) && sources > 1 {
                out.push("Atlas and heavy hitters disagree: the interval holds both".to_owned());
            }
        }
    }
    out
}
