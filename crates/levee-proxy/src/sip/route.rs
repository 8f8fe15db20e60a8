//! Where a request goes (RFC 3261 sections 16.4 to 16.6), and the writing of it.
//!
//! What comes from outside goes to the server, or along a dialog that the server has agreed to; no Route that a stranger
//! writes sends us anywhere else, so the front is no open relay. What comes from the server goes where it says. The front
//! never forks: the server does.

use std::borrow::Cow;

use levee_sip::check::RequestParts;
use levee_sip::dialog::Side;
use levee_sip::edit::{self, Forward, HostPort, Stamp, put};
use levee_sip::header::name_addrs;
use levee_sip::transaction::{ClientTransaction, Kind};
use levee_sip::uri::Uri;
use levee_sip::wire::{Message, Method, Name};

use super::addresses::{Flow, Target, Zone};
use super::front::Front;
use super::names::Known;
use super::settings::Listen;
use super::txn::Role;

/// Max-Forwards of a request that came without one.
const MAX_FORWARDS: u8 = 70;

/// What is to be changed in a request before it goes on.
pub(crate) struct Plan<'a> {
    /// The new Request-URI.
    uri: Option<Cow<'a, [u8]>>,
    routes_popped: usize,
    last_route_popped: bool,
    /// The URI of the first Route that stays.
    next_route: Option<&'a [u8]>,
}

/// Where a request goes next.
pub(crate) enum Hop {
    Flow(Flow),
    Name {
        transport: super::settings::Transport,
        host: String,
        port: u16,
    },
    /// Nowhere that we could reach.
    None,
}

impl Front {
    /// Takes our own Routes off, and mends the Request-URI where it is ours (sections 16.4 and 16.5).
    fn plan<'a>(
        &self,
        msg: &Message<'a>,
        parts: &RequestParts<'a>,
        zone: Zone,
        role: Role,
    ) -> Plan<'a> {
        let routes = msg
            .all(Name::Route)
            .flat_map(|h| name_addrs(h.value).flatten());
        let uris: Vec<&'a [u8]> = routes.map(|l| l.item.uri).collect();
        let ours = |u: &&[u8]| Uri::parse(u).is_ok_and(|u| self.addresses.is_us_uri(&u));
        let mut plan = Plan {
            uri: None,
            routes_popped: 0,
            last_route_popped: false,
            next_route: None,
        };
        let mut rest = uris.as_slice();
        // A strict router before us put our Record-Route value in the Request-URI, and the real one last.
        let to_us = self.addresses.is_us_uri(&parts.uri);
        if to_us
            && parts.uri.user.is_empty()
            && parts.uri.params.get(b"lr").is_some()
            && let [head @ .., last] = rest
        {
            plan.uri = Some(Cow::Borrowed(last));
            plan.last_route_popped = true;
            rest = head;
        }
        plan.routes_popped = rest.iter().take_while(|u| ours(u)).count();
        plan.next_route = rest.get(plan.routes_popped).copied();
        if plan.uri.is_none() && to_us {
            plan.uri = self
                .uri_instead_of_ours(&parts.uri, zone, role)
                .map(Cow::Owned);
        }
        plan
    }

    /// The Request-URI for one that names us: inside a call the other end's Contact, else the same user at the server.
    fn uri_instead_of_ours(&self, uri: &Uri<'_>, zone: Zone, role: Role) -> Option<Vec<u8>> {
        if let Role::InDialog { call, leg, from } = role {
            let leg = self.calls.get(call)?.legs.get(leg)?;
            return Some(leg.dialog.party(from.other()).target.to_vec());
        }
        if zone == Zone::Server {
            return None;
        }
        let mut out = Vec::new();
        put(&mut out, format_args!("sip:"));
        if !uri.user.is_empty() {
            out.extend_from_slice(uri.user);
            out.push(b'@');
        }
        put(
            &mut out,
            format_args!("{}", HostPort(self.addresses.server().addr)),
        );
        out.extend_from_slice(uri.params.bytes());
        Some(out)
    }

    /// The server, as a hop.
    fn server_hop(&self) -> Hop {
        self.addresses
            .flow_to(self.addresses.server())
            .map_or(Hop::None, Hop::Flow)
    }

    fn uri_hop(&self, uri: &[u8]) -> Hop {
        match Uri::parse(uri).ok().and_then(|u| self.addresses.target(&u)) {
            None => Hop::None,
            Some(Target::Addr(to)) => self.addresses.flow_to(to).map_or(Hop::None, Hop::Flow),
            Some(Target::Name {
                transport,
                host,
                port,
            }) => Hop::Name {
                transport,
                host,
                port,
            },
        }
    }

    /// Whether requests to the callee go by the server, so that those of the callee do too.
    fn is_by_server(&self, call: u64, leg: usize) -> bool {
        let leg = self.calls.get(call).and_then(|c| c.legs.get(leg));
        let server = self.addresses.server().addr;
        leg.is_some_and(|l| match self.uri_hop(l.dialog.next_hop(Side::Callee)) {
            Hop::Flow(flow) => flow.peer == server,
            Hop::Name { host, port, .. } => {
                let ip = self.names.get(self.at(), &host).flatten();
                port == server.port() && ip == Some(server.ip())
            }
            Hop::None => false,
        })
    }

    /// Whether the server, or a callee that it led us to, had a part in what one end asked in a call. What the caller has
    /// from outside in the callee's name shows nothing of the server's side.
    pub(crate) fn server_heard(&self, id: u64, from: Side) -> bool {
        self.txns.get(id).is_some_and(|t| {
            from == Side::Caller
                || t.from.is_some_and(|f| self.zone(f) == Zone::Server)
                || t.down
                    .is_some_and(|d| d.peer == self.addresses.server().addr)
        })
    }

    /// Where a request of ours or of one end goes, to reach the other end of a call.
    pub(crate) fn dialog_hop(&self, call: u64, leg: usize, to: Side) -> Hop {
        let Some(call) = self.calls.get(call) else {
            return Hop::None;
        };
        if to == Side::Caller && call.sticky {
            return Hop::Flow(call.source);
        }
        call.legs
            .get(leg)
            .map_or(Hop::None, |l| self.uri_hop(l.dialog.next_hop(to)))
    }

    /// The caller's connection is gone: from now on it is reached by its Contact, and so is the other end's BYE, which
    /// becomes ours when it fails.
    pub(crate) fn leave_flow(&mut self, id: u64) {
        let Some(txn) = self.txns.get(id) else { return };
        let (role, down) = (txn.role, txn.down);
        let (Role::InDialog {
            call,
            from: Side::Callee,
            ..
        }
        | Role::OwnBye {
            call,
            to: Side::Caller,
            ..
        }) = role
        else {
            return;
        };
        let Some(c) = self.calls.get_mut(call) else {
            return;
        };
        if !c.sticky || Some(c.source) != down {
            return;
        }
        c.sticky = false;
        if let Role::OwnBye { leg, to, .. } = role {
            self.send_bye(call, leg, to);
        }
    }

    fn next_hop(&self, parts: &RequestParts<'_>, plan: &Plan<'_>, zone: Zone, role: Role) -> Hop {
        let uri: &[u8] = plan.uri.as_deref().unwrap_or(parts.uri.bytes);
        match (zone, role, plan.next_route) {
            (Zone::Server, _, Some(route)) => self.uri_hop(route),
            (
                Zone::Server,
                Role::InDialog {
                    call,
                    leg,
                    from: Side::Callee,
                },
                None,
            ) if self.calls.get(call).is_some_and(|c| c.sticky) => {
                self.dialog_hop(call, leg, Side::Caller)
            }
            (Zone::Server, _, None) => self.uri_hop(uri),
            // Straight to the caller it would end or move a call behind the server's back.
            (
                Zone::Outside,
                Role::InDialog {
                    call,
                    leg,
                    from: Side::Callee,
                },
                _,
            ) if self.is_by_server(call, leg) => self.server_hop(),
            (Zone::Outside, Role::InDialog { call, leg, from }, None) => {
                match self.dialog_hop(call, leg, from.other()) {
                    Hop::None => self.server_hop(),
                    hop => hop,
                }
            }
            // A route beyond us leads to the server, or it is one that the dialog was made with.
            (Zone::Outside, Role::InDialog { call, leg, from }, Some(route)) => {
                let known = self
                    .calls
                    .get(call)
                    .and_then(|c| c.legs.get(leg))
                    .is_some_and(|l| {
                        let party = l.dialog.party(from.other());
                        !party.routes.is_empty() && l.dialog.next_hop(from.other()) == route
                    });
                if known {
                    self.uri_hop(route)
                } else {
                    self.server_hop()
                }
            }
            (Zone::Outside, ..) => self.server_hop(),
        }
    }

    /// Sends the request of a transaction on its way, now or when its next hop's name is known.
    pub(crate) fn pass_on(&mut self, id: u64, msg: &Message<'_>, parts: &RequestParts<'_>) {
        let Some(txn) = self.txns.get(id) else { return };
        let (Some(from), role) = (txn.from, txn.role) else {
            return;
        };
        let zone = self.zone(from);
        let plan = self.plan(msg, parts, zone, role);
        match self.next_hop(parts, &plan, zone, role) {
            Hop::Flow(down) => self.send_down(id, msg, parts, &plan, from, down),
            Hop::None => self.unroutable(id),
            Hop::Name {
                transport,
                host,
                port,
            } => match self.names.look_up(self.at(), &host, id) {
                Known::Yes(ip) => {
                    let to = Listen {
                        transport,
                        addr: (ip, port).into(),
                    };
                    match self.addresses.flow_to(to) {
                        Some(down) => self.send_down(id, msg, parts, &plan, from, down),
                        None => self.unroutable(id),
                    }
                }
                Known::No | Known::Full => self.unroutable(id),
                known @ (Known::Ask | Known::Wait) => {
                    if let Some(txn) = self.txns.get_mut(id) {
                        txn.request = msg.bytes().to_vec();
                    }
                    if known == Known::Ask {
                        self.resolve(host);
                    }
                }
            },
        }
    }

    fn unroutable(&mut self, id: u64) {
        self.drop_message("unroutable");
        self.fail_unsent(id, 480, "Next Hop Unreachable");
    }

    /// A name was looked up: those who waited go on.
    pub(crate) fn on_resolved(&mut self, host: &str, ip: Option<std::net::IpAddr>) {
        for id in self.names.resolved(self.at(), host, ip) {
            self.pass_on_kept(id);
        }
    }

    /// Passes on a request that was kept as it came.
    pub(crate) fn pass_on_kept(&mut self, id: u64) {
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        if txn.client.is_some() || !txn.is_unanswered() {
            return;
        }
        // It is needed as it came if it has to be answered instead.
        let bytes = txn.request.clone();
        self.scan_own(&bytes, |front, msg| {
            let parts = levee_sip::check::request(msg).ok()?;
            front.pass_on(id, msg, &parts);
            Some(())
        });
    }

    fn send_down(
        &mut self,
        id: u64,
        msg: &Message<'_>,
        parts: &RequestParts<'_>,
        plan: &Plan<'_>,
        from: Flow,
        down: Flow,
    ) {
        let role = self.txns.get(id).map_or(Role::Plain, |t| t.role);
        let mut lines = Vec::new();
        let mut routes_added = 0;
        if makes_dialog(msg, parts) {
            routes_added = self.record_route(&mut lines, from, down);
        }
        if matches!(role, Role::Invite { .. } | Role::InDialog { .. }) {
            self.ask_for_session_timer(id, msg, parts.method, &mut lines);
        }
        let packet = self.write(id, msg, parts, plan, from, down, &lines);
        let (now, reliable) = (self.at(), self.is_reliable(down));
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        let kind = Kind::of(txn.method);
        txn.client = Some(ClientTransaction::new(
            now,
            kind,
            reliable,
            packet.clone(),
            &self.timers,
        ));
        txn.down = Some(down);
        txn.request = Vec::new();
        if let Role::Invite { call } = role
            && let Some(call) = self.calls.get_mut(call)
        {
            call.down = Some(down);
            call.routes_below += routes_added;
        }
        self.send(down, packet, id);
        self.rearm(id);
    }

    /// Our Record-Route, two of them when the request changes port (RFC 5658): the side that the receiver will use first.
    /// Returns how many.
    fn record_route(&self, lines: &mut Vec<u8>, from: Flow, down: Flow) -> usize {
        lines.extend_from_slice(self.addresses.port(down.port).record_route.as_bytes());
        if from.port == down.port {
            return 1;
        }
        lines.extend_from_slice(self.addresses.port(from.port).record_route.as_bytes());
        2
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one message, all of them read here only"
    )]
    fn write(
        &self,
        branch: u64,
        msg: &Message<'_>,
        parts: &RequestParts<'_>,
        plan: &Plan<'_>,
        from: Flow,
        down: Flow,
        lines: &[u8],
    ) -> Vec<u8> {
        let zone = self.zone(from);
        let via = self.via(down, branch, self.keys.loop_hash(msg, parts, zone as u8));
        let mut out = Vec::new();
        let forward = Forward {
            uri: plan.uri.as_deref(),
            via: &via,
            stamp: Stamp { source: from.peer },
            max_forwards: parts
                .max_forwards
                .map_or(MAX_FORWARDS, |n| n.saturating_sub(1)),
            routes_popped: plan.routes_popped,
            last_route_popped: plan.last_route_popped,
            lines,
        };
        edit::forward_request(&mut out, msg, &forward);
        out
    }

    /// The value of our Via for a message on this flow.
    pub(crate) fn via(&self, down: Flow, id: u64, loop_hash: u64) -> Vec<u8> {
        let mut via = Vec::with_capacity(96);
        via.extend_from_slice(self.addresses.port(down.port).via.as_bytes());
        via.extend_from_slice(b";branch=");
        self.keys.branch(&mut via, id, loop_hash);
        via
    }

    /// Passes on the ACK of a 2xx, which belongs to no transaction (section 16.11).
    pub(crate) fn pass_ack(
        &mut self,
        flow: Flow,
        msg: &Message<'_>,
        parts: &RequestParts<'_>,
        role: Role,
    ) {
        let zone = self.zone(flow);
        let plan = self.plan(msg, parts, zone, role);
        let down = match self.next_hop(parts, &plan, zone, role) {
            Hop::Flow(down) => Some(down),
            Hop::Name {
                transport,
                host,
                port,
            } => self.names.get(self.at(), &host).flatten().and_then(|ip| {
                self.addresses.flow_to(Listen {
                    transport,
                    addr: (ip, port).into(),
                })
            }),
            Hop::None => None,
        };
        let Some(down) = down else {
            return self.drop_message("unroutable");
        };
        self.ack_serial += 1;
        let branch = 1 << 63 | self.ack_serial;
        let out = self.write(branch, msg, parts, &plan, flow, down, b"");
        self.send(down, out, 0);
    }

    /// A flow for a request of ours to one end of a call; the names in its way are those that we know by now.
    pub(crate) fn own_flow(&self, call: u64, leg: usize, to: Side) -> Option<Flow> {
        let known = match self.dialog_hop(call, leg, to) {
            Hop::Flow(flow) => Some(flow),
            Hop::Name {
                transport,
                host,
                port,
            } => self.names.get(self.at(), &host).flatten().and_then(|ip| {
                self.addresses.flow_to(Listen {
                    transport,
                    addr: (ip, port).into(),
                })
            }),
            Hop::None => None,
        };
        let call = self.calls.get(call)?;
        known.or(match to {
            Side::Caller => Some(call.source),
            Side::Callee => call.down,
        })
    }
}

/// Whether we want to be in the route set of what this request makes.
fn makes_dialog(msg: &Message<'_>, parts: &RequestParts<'_>) -> bool {
    let first = parts.to.tag().is_none();
    match msg.method() {
        Some(Method::Invite) => true,
        Some(Method::Other) => first && matches!(parts.cseq.token, b"SUBSCRIBE" | b"REFER"),
        _ => false,
    }
}
