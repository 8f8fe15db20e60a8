//! Listeners, the server, and the names by which others know us.

use std::net::SocketAddr;

use super::super::raw::RawSip;
use super::Checker;
use crate::sip::settings::{Listen, Transport};

impl Checker<'_> {
    /// Each listener, `None` where its text is wrong.
    pub(super) fn listens(&mut self, key: &str, texts: &[String]) -> Vec<Option<Listen>> {
        let listens = texts.iter().enumerate();
        listens
            .map(|(at, text)| self.listen(&format!("{key}[{at}]"), text))
            .collect()
    }

    pub(super) fn listen(&mut self, key: &str, text: &str) -> Option<Listen> {
        let (transport, address) = self.transport(key, text)?;
        match address.parse() {
            Ok(addr) => Some(Listen { transport, addr }),
            Err(_) => {
                self.problem(
                    key,
                    format!("`{address}`"),
                    "an IP address and a port, such as 127.0.0.1:5060 or [::1]:5060",
                    "a listener binds an address of this machine; names that others use for it go into `advertise`",
                );
                None
            }
        }
    }

    pub(super) fn transport<'t>(
        &mut self,
        key: &str,
        text: &'t str,
    ) -> Option<(Transport, &'t str)> {
        let (name, address) = text.split_once(':').unwrap_or(("", text));
        if let Ok(transport) = name.parse() {
            return Some((transport, address));
        }
        let remedy = match name {
            "tls" | "ws" | "wss" => {
                format!("{name} is not in this version: end it in front of Levee and pass on tcp")
            }
            "sip" | "sips" => {
                "leave the scheme out, name the transport: udp:127.0.0.1:5060".to_owned()
            }
            _ => "put the transport in front: udp:127.0.0.1:5060".to_owned(),
        };
        self.problem(
            key,
            format!("`{text}`"),
            "a transport (udp or tcp), an address and a port",
            remedy,
        );
        None
    }

    pub(super) fn server(&mut self, key: &str, text: &str, own: &[Listen]) -> Option<Listen> {
        let (transport, address) = self.transport(key, text)?;
        let family = |addr: &SocketAddr| own.iter().any(|own| own.addr.is_ipv4() == addr.is_ipv4());
        let addr = self.server_address(key, address, family)?;
        let server = Listen { transport, addr };
        let reachable =
            |own: &Listen| own.transport == transport && own.addr.is_ipv4() == addr.is_ipv4();
        if !own.is_empty() && !own.iter().any(reachable) {
            let family = if addr.is_ipv4() { "IPv4" } else { "IPv6" };
            self.problem(
                key,
                format!("the server speaks {transport} over {family}, and no listener does"),
                "a listener by which the server can reach this front",
                format!("add a {transport} address of {family} to `listen` or `inside`"),
            );
        }
        Some(server)
    }

    /// Where a server listens: an address, or the first of its name's that is `wanted`, or the first of all.
    pub(super) fn server_address(
        &mut self,
        key: &str,
        text: &str,
        wanted: impl Fn(&SocketAddr) -> bool,
    ) -> Option<SocketAddr> {
        let addr: SocketAddr = match text.parse() {
            Ok(addr) => addr,
            Err(_) => self.resolved(key, text, wanted)?,
        };
        if addr.port() == 0 || addr.ip().is_unspecified() {
            self.problem(
                key,
                format!("`{addr}`"),
                "where the server listens",
                "write its address and its port",
            );
            return None;
        }
        Some(addr)
    }

    fn resolved(
        &mut self,
        key: &str,
        address: &str,
        wanted: impl Fn(&SocketAddr) -> bool,
    ) -> Option<SocketAddr> {
        let split = address
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
        let Some((host, port)) = split.filter(|(host, _)| is_host(host)) else {
            self.problem(
                key,
                format!("`{address}`"),
                "a host and a port, such as 127.0.0.1:5080, [::1]:5080 or server.example.net:5080",
                "write the server's address and its port",
            );
            return None;
        };
        let addresses = match (self.resolve)(host, port) {
            Ok(addresses) => addresses,
            Err(error) => {
                self.problem(
                    key,
                    format!("`{host}` cannot be resolved: {error}"),
                    "a host with an address",
                    "check the name and the resolver, or write the IP address",
                );
                return None;
            }
        };
        let wanted = addresses.iter().find(|addr| wanted(addr));
        let chosen = wanted.or(addresses.first()).copied();
        if chosen.is_none() {
            self.problem(
                key,
                format!("`{host}` has no address"),
                "a host with an address",
                "write the IP address",
            );
        }
        chosen
    }

    pub(super) fn advertise(&mut self, index: usize, raw: &RawSip, own: &[Listen]) {
        let key = format!("sip[{index}].advertise");
        for (at, text) in raw.advertise.iter().enumerate() {
            if !is_host_port(text) {
                self.problem(
                    &format!("{key}[{at}]"),
                    format!("`{text}`"),
                    "a host name or address, with or without a port",
                    "write it as it stands in a URI: sip.example.net, 192.0.2.1:5060 or [2001:db8::1]",
                );
            }
        }
        if raw.advertise.is_empty() && own.iter().any(|listen| listen.addr.ip().is_unspecified()) {
            self.problem(
                &key,
                "a front that listens on every address has no name",
                "the address that others send to, for Via and Record-Route",
                "set `advertise` to this machine's address or name, or listen on that address only",
            );
        }
    }
}

fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    text.len() <= 253 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_host_port(text: &str) -> bool {
    if text.parse::<SocketAddr>().is_ok() {
        return true;
    }
    if let Some(inner) = text.strip_prefix('[') {
        return inner
            .strip_suffix(']')
            .is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
    }
    match text.rsplit_once(':') {
        Some((host, port)) => is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0),
        None => is_host(text),
    }
}
