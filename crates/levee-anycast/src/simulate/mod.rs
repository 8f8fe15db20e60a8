//! Which site each AS reaches: Gao-Rexford route selection on an AS graph.
//!
//! An [`Internet`] is a graph, a [`Deployment`] on it and [`Policies`]. [`Internet::catchments`] says for a routing
//! configuration which site each AS reaches, over which path, and whether that is [certain](Catchments::possible).
//!
//! # How a route is chosen
//!
//! An AS prefers routes from customers to those from peers to those from providers; of these the shortest AS path, prepends and
//! poisons counted; of these, as [`Tie`] says. It sends routes from customers to everyone, others to customers only (Gao and
//! Rexford, "Stable Internet Routing Without Global Coordination", 2001). The result is found in three sweeps by path length,
//! of which each looks at every link once at most, and not by messages.
//!
//! # What it leaves out
//!
//! Routers: an AS is one node and reaches one site, while a large network splits over its own exits ("hot potato"). Preferences
//! that differ from the rule above; links that the graph lacks, which are most peerings; relationships that differ by place
//! or prefix; time: no convergence, no damping. `docs/anycast-simulation.md` says what that means for the results.

mod catchments;
mod deployment;
mod parallel;
mod plan;
mod policies;
mod possible;
mod propagate;
mod relax;
mod site_set;
#[cfg(test)]
mod tests;

use levee_policy::reroute::{Asn, Routing, SiteId, Sites};

pub use self::{
    catchments::{Catchments, Learned},
    deployment::{Deployment, DeploymentError, LINKS_MAX, Link, LinkKind, Site},
    plan::{PATH_LENGTH_MAX, RoutingError},
    policies::{AsSet, Policies, Tie},
    site_set::SiteSet,
};
use self::{deployment::Placed, plan::Plan, propagate::propagate};
use crate::graph::AsGraph;

/// The Internet in a box: a graph, the sites on it, and what its ASes do with routes.
#[derive(Clone, Debug)]
pub struct Internet<'a> {
    graph: &'a AsGraph,
    sites: Sites,
    placed: Placed,
    policies: policies::Resolved,
}

impl<'a> Internet<'a> {
    /// A deployment on a graph.
    ///
    /// # Errors
    ///
    /// When a site has no link, a neighbour that the graph lacks, or a neighbour twice; or with names that [`Sites`] refuses.
    pub fn new(
        graph: &'a AsGraph,
        deployment: &Deployment,
        policies: &Policies,
    ) -> Result<Self, DeploymentError> {
        let (sites, placed) = deployment::place(deployment, graph)?;
        Ok(Self {
            policies: policies::resolve(policies, graph, &placed),
            graph,
            sites,
            placed,
        })
    }

    /// The same, where ties are broken so.
    #[must_use]
    pub fn with_tie(&self, tie: Tie) -> Self {
        let mut other = self.clone();
        other.policies.tie = tie;
        other
    }

    /// The graph.
    #[must_use]
    pub fn graph(&self) -> &'a AsGraph {
        self.graph
    }

    /// The sites, in the order of the deployment.
    #[must_use]
    pub fn sites(&self) -> &Sites {
        &self.sites
    }

    /// Which site each AS reaches when the sites announce this, all at once, from nothing.
    ///
    /// # Errors
    ///
    /// When the configuration does not say what is announced, speaks of another number of sites or of a neighbour that a site
    /// does not have, or has a path longer than [`PATH_LENGTH_MAX`].
    pub fn catchments(&self, routing: &Routing) -> Result<Catchments, RoutingError> {
        let plan = Plan::new(self, routing)?;
        propagate(self, &plan, None)
    }

    /// Which site each AS reaches when the sites change to this from what they announced before. With [`Tie::Oldest`] an AS
    /// stays with a route that is as good as the new ones.
    ///
    /// # Errors
    ///
    /// As [`Internet::catchments`].
    pub fn change(
        &self,
        before: &Catchments,
        routing: &Routing,
    ) -> Result<Catchments, RoutingError> {
        let plan = Plan::new(self, routing)?;
        propagate(self, &plan, Some(before))
    }

    /// Which site each AS reaches when the sites announce this one after another, each once the routes of those before it have
    /// settled. Sites that the order lacks come last, together.
    ///
    /// # Errors
    ///
    /// As [`Internet::catchments`].
    pub fn in_order(
        &self,
        routing: &Routing,
        order: &[SiteId],
    ) -> Result<Catchments, RoutingError> {
        let plan = Plan::new(self, routing)?;
        let mut before = None;
        for upto in 1..=order.len() {
            let some = plan.only(&order[..upto]);
            before = Some(propagate(self, &some, before.as_ref())?);
        }
        propagate(self, &plan, before.as_ref())
    }

    /// The AS of the site of a link.
    fn origin(&self, link: u16) -> Asn {
        let site = self.placed.links[usize::from(link)].site;
        self.placed.origins[site.index()]
    }

    /// The AS path by which an AS reaches its site, as it receives it. Empty if it has no route.
    #[must_use]
    pub fn path(&self, catchments: &Catchments, index: u32) -> Vec<Asn> {
        catchments.path(self.graph, index)
    }
}
