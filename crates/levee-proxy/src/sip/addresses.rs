//! Who we are on the network, who the server is, and where a URI leads (RFC 3261 sections 16.4 and 18, RFC 3263 as far as
//! addresses and A/AAAA records go).

use std::net::{IpAddr, SocketAddr};

use levee_sip::edit::HostPort;
use levee_sip::uri::{Host, Scheme, Uri};

use super::settings::{Listen, SipSettings, Transport};

/// The port that SIP has where none is written.
const PORT: u16 = 5060;

/// From which side a message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// User agents, trunks, anybody.
    Outside,
    /// The protected server.
    Server,
}

/// One of our bound sockets or listeners, by its place: those of `listen`, then those of `inside`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

/// A TCP connection, named by the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// The path that a message came or goes: one of our ports, the other side's address, and a connection where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Our end.
    pub port: PortId,
    /// The other end.
    pub peer: SocketAddr,
    /// The TCP connection; without one the driver takes an open one to `peer`, or opens one.
    pub conn: Option<ConnId>,
}

/// A port of ours with the texts that name it.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) listen: Listen,
    pub(crate) inside: bool,
    /// `SIP/2.0/UDP host:port`, the beginning of our Via.
    pub(crate) via: String,
    /// `Record-Route: <sip:host:port;lr>` with its line end.
    pub(crate) record_route: String,
}

/// Where a URI leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Addr(Listen),
    /// A name that has to be resolved first.
    Name {
        transport: Transport,
        host: String,
        port: u16,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    ports: Vec<Port>,
    /// Names from the settings; without a port they mean any of ours.
    names: Vec<(String, Option<u16>)>,
    server: Listen,
}

impl Addresses {
    /// `bound` are the listeners in the order of `settings.listen` and `settings.inside`, with their real ports.
    pub(crate) fn new(settings: &SipSettings, bound: &[Listen]) -> Self {
        let names: Vec<_> = settings
            .advertise
            .iter()
            .filter_map(|text| {
                let (host, _) = Host::parse(text.as_bytes()).ok()?;
                Some((String::from_utf8_lossy(host.name).into_owned(), host.port))
            })
            .collect();
        let ports = bound
            .iter()
            .enumerate()
            .map(|(i, &listen)| {
                let name = match names.first() {
                    Some((host, port)) if listen.addr.ip().is_unspecified() => {
                        let bracket = host.contains(':');
                        let host = if bracket {
                            format!("[{host}]")
                        } else {
                            host.clone()
                        };
                        format!("{host}:{}", port.unwrap_or(listen.addr.port()))
                    }
                    _ => HostPort(listen.addr).to_string(),
                };
                let (tag, param) = match listen.transport {
                    Transport::Udp => ("UDP", ""),
                    Transport::Tcp => ("TCP", ";transport=tcp"),
                };
                Port {
                    listen,
                    inside: i >= settings.listen.len(),
                    via: format!("SIP/2.0/{tag} {name}"),
                    record_route: format!("Record-Route: <sip:{name}{param};lr>\r\n"),
                }
            })
            .collect();
        Self {
            ports,
            names,
            server: settings.server,
        }
    }

    pub(crate) fn server(&self) -> Listen {
        self.server
    }

    pub(crate) fn port(&self, id: PortId) -> &Port {
        &self.ports[usize::from(id.0)]
    }

    pub(crate) fn transport(&self, flow: Flow) -> Transport {
        self.port(flow.port).listen.transport
    }

    /// Whether a message on this flow comes from the server: on an inside port, or from its very address.
    pub(crate) fn zone(&self, flow: Flow) -> Zone {
        let port = self.port(flow.port);
        let from_server =
            flow.peer == self.server.addr && port.listen.transport == self.server.transport;
        if port.inside || from_server {
            Zone::Server
        } else {
            Zone::Outside
        }
    }

    /// Whether a host means this proxy. Port 5060 is meant where none is written.
    pub(crate) fn is_us(&self, host: &Host<'_>) -> bool {
        let port = host.port.unwrap_or(PORT);
        self.names
            .iter()
            .any(|(n, p)| host.same_name(n.as_bytes()) && p.is_none_or(|p| p == port))
            || host.ip().is_some_and(|ip| {
                self.ports
                    .iter()
                    .any(|p| p.listen.addr.port() == port && p.listen.addr.ip() == ip)
            })
    }

    pub(crate) fn is_us_uri(&self, uri: &Uri<'_>) -> bool {
        uri.is_sip() && self.is_us(&uri.host)
    }

    /// The port to send from: of the right transport and address family, on the server's side for the server.
    pub(crate) fn port_to(&self, to: Listen) -> Option<PortId> {
        let fits = |p: &Port| {
            p.listen.transport == to.transport && p.listen.addr.is_ipv4() == to.addr.is_ipv4()
        };
        let inside = to == self.server;
        let at = self
            .ports
            .iter()
            .position(|p| p.inside == inside && fits(p))
            .or_else(|| self.ports.iter().position(fits))?;
        u16::try_from(at).ok().map(PortId)
    }

    /// The flow to an address, on whichever connection the driver has or makes. There is none to ourselves: what a
    /// stranger has us send to an inside port would count as the server's.
    pub(crate) fn flow_to(&self, to: Listen) -> Option<Flow> {
        if self.ports.iter().any(|p| p.listen == to) {
            return None;
        }
        Some(Flow {
            port: self.port_to(to)?,
            peer: to.addr,
            conn: None,
        })
    }

    /// Where a SIP URI leads; `None` for one that we cannot send to (another scheme, TLS).
    pub(crate) fn target(&self, uri: &Uri<'_>) -> Option<Target> {
        if uri.scheme != Scheme::Sip {
            return None;
        }
        let transport = match uri.transport() {
            None => Transport::Udp,
            Some(t) if t.eq_ignore_ascii_case(b"udp") => Transport::Udp,
            Some(t) if t.eq_ignore_ascii_case(b"tcp") => Transport::Tcp,
            Some(_) => return None,
        };
        let port = uri.host.port.unwrap_or(PORT);
        Some(match uri.host.ip() {
            Some(ip) => Target::Addr(Listen {
                transport,
                addr: SocketAddr::new(ip, port),
            }),
            None => Target::Name {
                transport,
                host: std::str::from_utf8(uri.host.name)
                    .ok()?
                    .to_ascii_lowercase(),
                port,
            },
        })
    }
}

/// Who counts as one source: an IPv4 address, or the /64 of an IPv6 one, since a subscriber has a whole /64.
pub(crate) fn source_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) & (!0 << 64)).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use levee_policy::selective;

    use super::*;

    fn addresses(advertise: &[&str]) -> Addresses {
        let listen = vec![
            Listen::udp("127.0.0.1:5070".parse().unwrap()),
            Listen::tcp("[::1]:5070".parse().unwrap()),
        ];
        let server = Listen::udp("127.0.0.2:5080".parse().unwrap());
        let mut s = SipSettings::new("t", listen.clone(), server, 1, selective::Config::default());
        s.advertise = advertise.iter().map(ToString::to_string).collect();
        Addresses::new(&s, &listen)
    }

    #[test]
    fn we_know_our_names() {
        let a = addresses(&["sip.example.org", "192.0.2.1:5060"]);
        let us = |t: &str| a.is_us(&Host::parse(t.as_bytes()).unwrap().0);
        for yes in [
            "127.0.0.1:5070",
            "[::1]:5070",
            "[0::1]:5070",
            "SIP.example.org:99",
            "192.0.2.1",
        ] {
            assert!(us(yes), "{yes}");
        }
        for no in [
            "127.0.0.1",
            "127.0.0.1:5071",
            "192.0.2.1:5061",
            "example.org",
        ] {
            assert!(!us(no), "{no}");
        }
    }

    #[test]
    fn a_uri_leads_to_an_address_or_a_name() {
        let a = addresses(&[]);
        let to = |t: &str| a.target(&Uri::parse(t.as_bytes()).unwrap());
        let udp = |t: &str| Some(Target::Addr(Listen::udp(t.parse().unwrap())));
        assert_eq!(to("sip:a@192.0.2.7"), udp("192.0.2.7:5060"));
        assert_eq!(to("sip:[2001:db8::1]:70"), udp("[2001:db8::1]:70"));
        assert_eq!(
            to("sip:a@Host.example;transport=TCP"),
            Some(Target::Name {
                transport: Transport::Tcp,
                host: "host.example".into(),
                port: 5060
            })
        );
        assert_eq!(to("sips:a@192.0.2.7"), None);
        assert_eq!(to("tel:+1"), None);
        assert_eq!(to("sip:a@192.0.2.7;transport=sctp"), None);
    }

    #[test]
    fn a_subscriber_is_a_64() {
        let of = |t: &str| source_of(t.parse().unwrap());
        assert_eq!(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::2"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
