//! From the file's values to settings that can run.

mod address;
mod classes;
mod front;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use levee_policy::Span;

use super::raw::{Raw, RawAdmin, RawSip, duration};
use super::{AdminSettings, LiveConfig, Resolve};
use crate::sip::settings::{Listen, SipSettings};
use levee_config::Document;
use levee_config::{Problem, Problems};

/// Longest name of a front: it is a label of every metric.
const NAME_BYTES_MAX: usize = 64;
/// Most fronts of one process (a guess; each has its own task and sockets).
const FRONTS_MAX: usize = 64;

pub(super) fn check(
    document: &Document<'_>,
    raw: Raw,
    resolve: Resolve<'_>,
) -> Result<LiveConfig, Problems> {
    let mut checker = Checker {
        document,
        resolve,
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    if raw.sip.is_empty() || raw.sip.len() > FRONTS_MAX {
        checker.problem(
            "sip",
            format!("{} fronts", raw.sip.len()),
            format!("1 to {FRONTS_MAX} tables `[[sip]]`"),
            "write one `[[sip]]` table for each server that is to be protected",
        );
    }
    let admin = raw.admin.as_ref().and_then(|admin| checker.admin(admin));
    checker.span("drain", raw.drain, Span::ZERO..=Span::from_secs(86_400));
    let fronts: Vec<_> = raw
        .sip
        .iter()
        .enumerate()
        .map(|(index, sip)| checker.sip(index, sip))
        .collect();
    checker.names(&raw.sip);
    let listeners = checker.listeners(&fronts, admin.as_ref());
    checker.loops(&fronts, &listeners);
    Problems::check(checker.problems)?;
    Ok(LiveConfig {
        sip: fronts.into_iter().flatten().collect(),
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
        if !range.contains(&value) {
            let expected = format!("a duration from {} to {}", range.start(), range.end());
            self.problem(
                key,
                value.to_string(),
                expected,
                "choose a value in this range",
            );
        }
        duration(value)
    }

    fn number(&mut self, key: &str, value: usize, range: RangeInclusive<usize>) -> usize {
        if !range.contains(&value) {
            let expected = format!("a number from {} to {}", range.start(), range.end());
            self.problem(
                key,
                value.to_string(),
                expected,
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

    fn names(&mut self, fronts: &[RawSip]) {
        for (index, front) in fronts.iter().enumerate() {
            let key = format!("sip[{index}].name");
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if front.name.is_empty()
                || front.name.len() > NAME_BYTES_MAX
                || !front.name.chars().all(allowed)
            {
                let expected = format!("1 to {NAME_BYTES_MAX} letters, digits, `-`, `_`, `.`");
                self.problem(
                    &key,
                    format!("`{}`", front.name),
                    expected,
                    "logs and metrics carry it: keep it plain",
                );
            }
            if fronts
                .iter()
                .take(index)
                .any(|earlier| earlier.name == front.name)
            {
                let remedy = "give each `[[sip]]` its own `name`";
                self.problem(
                    &key,
                    format!("`{}`", front.name),
                    "a name that no earlier front has",
                    remedy,
                );
            }
            let path = |front: &RawSip| front.record.as_ref().map(|record| record.path.clone());
            if path(front).is_some()
                && fronts
                    .iter()
                    .take(index)
                    .any(|earlier| path(earlier) == path(front))
            {
                self.problem(
                    &format!("sip[{index}].record.path"),
                    "the file of an earlier front",
                    "a file of its own",
                    "name the file after the front",
                );
            }
        }
    }

    /// Every listener with its key; reports those that cannot be bound together.
    fn listeners(
        &mut self,
        fronts: &[Option<SipSettings>],
        admin: Option<&AdminSettings>,
    ) -> Vec<(String, Listen)> {
        let mut all: Vec<(String, Listen)> = Vec::new();
        for (index, front) in fronts.iter().enumerate() {
            let Some(front) = front else { continue };
            for (name, listens) in [("listen", &front.listen), ("inside", &front.inside)] {
                let keyed = listens.iter().enumerate();
                all.extend(
                    keyed.map(|(at, listen)| (format!("sip[{index}].{name}[{at}]"), *listen)),
                );
            }
        }
        all.extend(admin.map(|admin| ("admin.listen".to_owned(), Listen::tcp(admin.listen))));
        for (at, (key, listen)) in all.iter().enumerate() {
            if let Some((other, _)) = all
                .iter()
                .take(at)
                .find(|(_, earlier)| overlap(*earlier, *listen))
            {
                self.problem(
                    key,
                    format!("`{listen}`"),
                    "an address that nothing else listens on",
                    format!("`{other}` takes it already: choose another port or address"),
                );
            }
        }
        all
    }

    /// A server that is one of our own listeners would be sent its own messages for ever.
    fn loops(&mut self, fronts: &[Option<SipSettings>], listeners: &[(String, Listen)]) {
        for (index, front) in fronts.iter().enumerate() {
            let Some(front) = front else { continue };
            if let Some((other, _)) = listeners.iter().find(|(_, listen)| *listen == front.server) {
                self.problem(
                    &format!("sip[{index}].server"),
                    format!("`{}` is `{other}` of this file", front.server),
                    "the address of the SIP server",
                    "a front cannot protect itself: write where the server listens",
                );
            }
        }
    }
}

/// Whether the two cannot be bound at the same time.
fn overlap(a: Listen, b: Listen) -> bool {
    let wild = a.addr.ip().is_unspecified() || b.addr.ip().is_unspecified();
    a.transport == b.transport
        && a.addr.port() == b.addr.port()
        && a.addr.port() != 0
        && a.addr.is_ipv4() == b.addr.is_ipv4()
        && (wild || a.addr.ip() == b.addr.ip())
}
