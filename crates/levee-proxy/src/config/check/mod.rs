//! From the file's values to settings that can run.

mod address;
mod classes;
mod front;
mod http;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use levee_policy::Span;

use super::raw::{Bytes, Raw, RawAdmin, duration};
use super::{AdminSettings, LiveConfig, Resolve};
use crate::driver::is_stream;
use crate::http::settings::HttpSettings;
use crate::sip::settings::SipSettings;
use levee_config::Document;
use levee_config::{Problem, Problems};

/// Longest name of a front: it is a label of every metric.
const NAME_BYTES_MAX: usize = 64;
/// Most fronts of one process (a guess; each has its own task and sockets).
const FRONTS_MAX: usize = 64;

pub(super) fn check(
    document: &Document<'_>,
    mut raw: Raw,
    resolve: Resolve<'_>,
) -> Result<LiveConfig, Problems> {
    let mut checker = Checker {
        document,
        resolve,
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    let count = raw.sip.len() + raw.http.len();
    if !(1..=FRONTS_MAX).contains(&count) {
        checker.problem(
            if raw.sip.is_empty() { "http" } else { "sip" },
            format!("{count} fronts"),
            format!("1 to {FRONTS_MAX} tables `[[sip]]` and `[[http]]`"),
            "write one `[[sip]]` or `[[http]]` table for each server that is to be protected",
        );
    }
    let admin = raw.admin.as_ref().and_then(|admin| checker.admin(admin));
    checker.span("drain", raw.drain, Span::ZERO..=Span::from_secs(86_400));
    let sip = raw.sip.iter().enumerate();
    let sip: Vec<_> = sip.map(|(index, sip)| checker.sip(index, sip)).collect();
    for (index, http) in raw.http.iter_mut().enumerate() {
        if let Some(connections) = &mut http.connections {
            checker.phases(index, connections);
        }
    }
    let http = raw.http.iter().enumerate();
    let http: Vec<_> = http
        .map(|(index, http)| checker.http(index, http))
        .collect();
    checker.names(&raw);
    let listeners = listeners(&sip, &http, admin.as_ref());
    checker.overlaps(&listeners);
    checker.loops(&sip, &http, &listeners);
    Problems::check(checker.problems)?;
    Ok(LiveConfig {
        sip: sip.into_iter().flatten().collect(),
        http: http.into_iter().flatten().collect(),
        admin,
        log: raw.log,
        drain: duration(raw.drain),
        warnings: checker.warnings,
        raw,
        resolved: BTreeMap::new(),
    })
}

struct Checker<'d> {
    document: &'d Document<'d>,
    resolve: Resolve<'d>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Checker<'_> {
    fn problem(
        &mut self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.problems
            .push(self.document.problem(key, found, expected, remedy));
    }

    fn warn(
        &mut self,
        key: &str,
        found: impl Into<String>,
        expected: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.warnings
            .push(self.document.problem(key, found, expected, remedy));
    }

    fn span(&mut self, key: &str, value: Span, range: RangeInclusive<Span>) -> Duration {
        duration(self.within("a duration", key, value, range))
    }

    fn number<T: Copy + PartialOrd + fmt::Display>(
        &mut self,
        key: &str,
        value: T,
        range: RangeInclusive<T>,
    ) -> T {
        self.within("a number", key, value, range)
    }

    fn bytes(&mut self, key: &str, value: Bytes, range: RangeInclusive<Bytes>) -> u64 {
        self.within("a size", key, value, range).0
    }

    fn within<T: Copy + PartialOrd + fmt::Display>(
        &mut self,
        kind: &str,
        key: &str,
        value: T,
        range: RangeInclusive<T>,
    ) -> T {
        if !range.contains(&value) {
            self.problem(
                key,
                value.to_string(),
                format!("{kind} from {} to {}", range.start(), range.end()),
                "choose a value in this range",
            );
        }
        value
    }

    fn admin(&mut self, raw: &RawAdmin) -> Option<AdminSettings> {
        let connections_max = self.number("admin.connections_max", raw.connections_max, 1..=65_536);
        let limit = Span::from_millis(100)..=Span::from_secs(600);
        let header_timeout = self.span("admin.header_timeout", raw.header_timeout, limit);
        let Ok(listen) = raw.listen.parse::<SocketAddr>() else {
            self.problem(
                "admin.listen",
                format!("`{}`", raw.listen),
                "an address and a port, such as 127.0.0.1:9091 or [::1]:9091",
                "write the IP address to listen on, and no scheme",
            );
            return None;
        };
        if !listen.ip().is_loopback() {
            self.warn(
                "admin.listen",
                format!("`{listen}` can be reached from other machines"),
                "a loopback address",
                "the admin page asks for no password: let a firewall guard it, or listen on 127.0.0.1",
            );
        }
        Some(AdminSettings {
            listen,
            connections_max,
            header_timeout,
        })
    }

    /// Names and recordings of all fronts.
    fn names(&mut self, raw: &Raw) {
        let sip = raw.sip.iter().enumerate();
        let http = raw.http.iter().enumerate();
        let names: Vec<_> = sip
            .clone()
            .map(|(index, front)| (format!("sip[{index}]"), &front.name))
            .chain(
                http.clone()
                    .map(|(index, front)| (format!("http[{index}]"), &front.name)),
            )
            .collect();
        for (at, (key, name)) in names.iter().enumerate() {
            let key = format!("{key}.name");
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(allowed) {
                self.problem(
                    &key,
                    format!("`{name}`"),
                    format!("1 to {NAME_BYTES_MAX} letters, digits, `-`, `_`, `.`"),
                    "logs and metrics carry it: keep it plain",
                );
            }
            if names.iter().take(at).any(|(_, earlier)| earlier == name) {
                self.problem(
                    &key,
                    format!("`{name}`"),
                    "a name that no earlier front has",
                    "give each front its own `name`",
                );
            }
        }
        let of_sip = sip.map(|(index, front)| (format!("sip[{index}].record"), &front.record));
        let of_http = http.flat_map(|(index, front)| {
            let table = front.connections.as_ref().map(|table| &table.record);
            let thinner = (format!("http[{index}].record"), &front.record);
            let table = table.map(|record| (format!("http[{index}].connections.record"), record));
            [Some(thinner), table].into_iter().flatten()
        });
        let records: Vec<_> = of_sip
            .chain(of_http)
            .filter_map(|(key, record)| Some((key, &record.as_ref()?.path)))
            .collect();
        for (at, (key, path)) in records.iter().enumerate() {
            if records.iter().take(at).any(|(_, earlier)| earlier == path) {
                self.problem(
                    &format!("{key}.path"),
                    "the file of an earlier recording",
                    "a file of its own",
                    "name the file after the front",
                );
            }
        }
    }

    /// Reports listeners that cannot be bound together.
    fn overlaps(&mut self, listeners: &[Listener]) {
        for (at, listener) in listeners.iter().enumerate() {
            let mut earlier = listeners.iter().take(at);
            if let Some(other) = earlier.find(|earlier| earlier.overlaps(listener)) {
                self.problem(
                    &listener.key,
                    format!("`{}`", listener.text),
                    "an address that nothing else listens on",
                    format!(
                        "`{}` takes it already: choose another port or address",
                        other.key
                    ),
                );
            }
        }
    }

    /// A server that is one of our own listeners would be sent its own messages for ever.
    fn loops(
        &mut self,
        sip: &[Option<SipSettings>],
        http: &[Option<HttpSettings>],
        listeners: &[Listener],
    ) {
        let sip = sip.iter().enumerate().filter_map(|(index, front)| {
            let server = front.as_ref()?.server;
            let key = format!("sip[{index}].server");
            Some(Listener::new(
                key,
                &server,
                !is_stream(server.transport),
                server.addr,
            ))
        });
        let http = http.iter().enumerate().filter_map(|(index, front)| {
            let server = front.as_ref()?.server;
            let key = format!("http[{index}].server");
            Some(Listener::new(key, &server, false, server))
        });
        for server in sip.chain(http) {
            if let Some(other) = listeners.iter().find(|own| own.is_reached_by(&server)) {
                self.problem(
                    &server.key,
                    format!("`{}` is `{}` of this file", server.text, other.key),
                    "the address of the server that is protected",
                    "a front cannot protect itself: write where the server listens",
                );
            }
        }
    }
}

/// A socket of this file: one of ours, or a server's.
struct Listener {
    key: String,
    /// As the file has it.
    text: String,
    udp: bool,
    addr: SocketAddr,
}

impl Listener {
    fn new(key: String, text: &impl fmt::Display, udp: bool, addr: SocketAddr) -> Self {
        let text = text.to_string();
        Listener {
            key,
            text,
            udp,
            addr,
        }
    }

    /// Whether the two cannot be bound at the same time.
    fn overlaps(&self, other: &Self) -> bool {
        let (a, b) = (self.addr, other.addr);
        let wild = a.ip().is_unspecified() || b.ip().is_unspecified();
        self.udp == other.udp
            && a.port() == b.port()
            && a.port() != 0
            && a.is_ipv4() == b.is_ipv4()
            && (wild || a.ip() == b.ip())
    }

    /// Whether what is sent to `server` comes to this listener, as far as one can tell without asking the machine for its
    /// addresses.
    fn is_reached_by(&self, server: &Self) -> bool {
        let wild = self.addr.ip().is_unspecified() && server.addr.ip().is_loopback();
        self.overlaps(server) && (wild || self.addr.ip() == server.addr.ip())
    }
}

/// Every listener of the file.
fn listeners(
    sip: &[Option<SipSettings>],
    http: &[Option<HttpSettings>],
    admin: Option<&AdminSettings>,
) -> Vec<Listener> {
    let mut all = Vec::new();
    for (index, front) in sip.iter().enumerate() {
        let Some(front) = front else { continue };
        for (name, listens) in [("listen", &front.listen), ("inside", &front.inside)] {
            all.extend(listens.iter().enumerate().map(|(at, listen)| {
                let key = format!("sip[{index}].{name}[{at}]");
                Listener::new(key, listen, !is_stream(listen.transport), listen.addr)
            }));
        }
    }
    for (index, front) in http.iter().enumerate() {
        let Some(front) = front else { continue };
        all.extend(front.listen.iter().enumerate().map(|(at, listen)| {
            let key = format!("http[{index}].listen[{at}]");
            Listener::new(key, listen, false, listen.addr)
        }));
    }
    all.extend(admin.map(|admin| {
        let text = crate::sip::settings::Listen::tcp(admin.listen);
        Listener::new("admin.listen".to_owned(), &text, false, admin.listen)
    }));
    all
}
