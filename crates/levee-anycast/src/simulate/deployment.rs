//! Sites, and their links into the graph.

use levee_policy::{
    ConfigError,
    reroute::{Asn, SiteId, Sites},
};
use serde::{Deserialize, Serialize};

use crate::graph::AsGraph;

/// The most links of all sites together. A large operator has some hundred at a site and some tens of sites.
pub const LINKS_MAX: usize = 1 << 14;

/// Sites that announce one prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// The AS that all sites announce as.
    pub origin: Asn,
    /// The sites, in the order of their numbers.
    pub sites: Vec<Site>,
}

/// A site and its neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// Where it announces as another AS than the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asn: Option<Asn>,
    /// Whom it announces to.
    pub links: Vec<Link>,
}

/// A link of a site to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The other end.
    pub neighbour: Asn,
    /// What it is to the site.
    #[serde(default)]
    pub kind: LinkKind,
}

/// What a neighbour is to a site.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum LinkKind {
    /// It sells transit to the site, and sends the route to everyone.
    #[default]
    Transit,
    /// It peers with the site, and sends the route to its customers.
    Peer,
    /// It buys transit from the site, and sends the route to its customers.
    Customer,
}

/// Why a deployment is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeploymentError {
    /// Names that [`Sites`] refuses.
    #[error("the names of the sites")]
    Names(#[source] ConfigError),
    /// A site without neighbours.
    #[error(
        "site {site} has no link; expected at least one neighbour, such as its transit provider"
    )]
    NoLink {
        /// Its name.
        site: String,
    },
    /// A neighbour that is not in the graph.
    #[error(
        "site {site}: its neighbour AS{neighbour} is not in the graph of {ases} ASes; expected an AS that the graph has (a newer graph may)"
    )]
    Unknown {
        /// The site's name.
        site: String,
        /// Which.
        neighbour: Asn,
        /// How many ASes the graph has.
        ases: usize,
    },
    /// A neighbour twice, or the site itself.
    #[error(
        "site {site}: AS{neighbour} is {what}; expected each neighbour once, and not the site itself"
    )]
    Neighbour {
        /// The site's name.
        site: String,
        /// Which.
        neighbour: Asn,
        /// `named twice` or `the site's own AS`.
        what: &'static str,
    },
    /// Beyond [`LINKS_MAX`].
    #[error("the sites have {links} links; expected at most {LINKS_MAX}")]
    TooMany {
        /// How many.
        links: usize,
    },
}

/// A link, by the number of the neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlacedLink {
    pub(super) site: SiteId,
    pub(super) neighbour: u32,
    pub(super) asn: Asn,
    pub(super) kind: LinkKind,
}

/// The sites' links, in the order of the sites, and the AS of each site.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) links: Vec<PlacedLink>,
    /// By site.
    pub(super) origins: Vec<Asn>,
}

pub(super) fn place(
    deployment: &Deployment,
    graph: &AsGraph,
) -> Result<(Sites, Placed), DeploymentError> {
    let names = deployment.sites.iter().map(|site| site.name.as_str());
    let sites = Sites::new(names).map_err(DeploymentError::Names)?;
    let count = deployment.sites.iter().map(|site| site.links.len()).sum();
    if count > LINKS_MAX {
        return Err(DeploymentError::TooMany { links: count });
    }
    let mut placed = Placed {
        links: Vec::with_capacity(count),
        origins: Vec::with_capacity(sites.len()),
    };
    for (number, site) in sites.ids().zip(&deployment.sites) {
        let origin = site.asn.unwrap_or(deployment.origin);
        placed.origins.push(origin);
        place_site(site, number, origin, graph, &mut placed.links)?;
    }
    Ok((sites, placed))
}

fn place_site(
    site: &Site,
    number: SiteId,
    origin: Asn,
    graph: &AsGraph,
    links: &mut Vec<PlacedLink>,
) -> Result<(), DeploymentError> {
    if site.links.is_empty() {
        return Err(DeploymentError::NoLink {
            site: site.name.clone(),
        });
    }
    let mut seen: Vec<Asn> = Vec::with_capacity(site.links.len());
    for link in &site.links {
        let wrong = |what| DeploymentError::Neighbour {
            site: site.name.clone(),
            neighbour: link.neighbour,
            what,
        };
        if link.neighbour == origin {
            return Err(wrong("the site's own AS"));
        }
        match seen.binary_search(&link.neighbour) {
            Ok(_) => return Err(wrong("named twice")),
            Err(place) => seen.insert(place, link.neighbour),
        }
        let neighbour = graph
            .find(link.neighbour)
            .ok_or_else(|| DeploymentError::Unknown {
                site: site.name.clone(),
                neighbour: link.neighbour,
                ases: graph.len(),
            })?;
        links.push(PlacedLink {
            site: number,
            neighbour,
            asn: link.neighbour,
            kind: link.kind,
        });
    }
    Ok(())
}
