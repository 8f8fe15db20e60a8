//! Of which class a call is, and who calls: what the defence's weights and limits go by.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use levee_policy::selective::{ClassId, Config, Identity};
use levee_sip::check::RequestParts;
use levee_sip::header::NameAddr;
use levee_sip::uri::{Scheme, Uri};
use levee_sip::wire::{Message, Name};

use super::addresses::source_of;
use super::settings::ClassRule;

/// The rules of the settings, with the classes that they name.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    rules: Vec<(ClassRule, ClassId)>,
    hasher: RandomState,
}

impl Classes {
    pub(crate) fn new(rules: &[ClassRule], config: &Config) -> Self {
        let rules = rules
            .iter()
            .filter_map(|r| Some((r.clone(), config.class_id(&r.class)?)))
            .collect();
        Self {
            rules,
            hasher: RandomState::new(),
        }
    }

    /// Takes new rules; identities stay what they were, since held calls have them.
    pub(crate) fn reload(&mut self, rules: &[ClassRule], config: &Config) {
        self.rules = Self::new(rules, config).rules;
    }

    /// The class of the first rule that matches.
    pub(crate) fn class(&self, msg: &Message<'_>, uri: &Uri<'_>, source: IpAddr) -> ClassId {
        self.rules
            .iter()
            .find(|(r, _)| matches(r, msg, uri, source))
            .map_or(ClassId::DEFAULT, |(_, id)| *id)
    }

    /// The caller: the user of its credentials if it sent some (the server will check them), else the address of From,
    /// which anybody can write.
    pub(crate) fn caller(&self, msg: &Message<'_>, parts: &RequestParts<'_>) -> Option<Identity> {
        let user = [Name::ProxyAuthorization, Name::Authorization]
            .into_iter()
            .find_map(|n| credentials_user(msg.value(n)?));
        let text = match user {
            Some(user) => user.to_vec(),
            None => address(&parts.from)?,
        };
        Some(Identity(self.hasher.hash_one((user.is_some(), text))))
    }

    pub(crate) fn source(&self, source: IpAddr) -> Identity {
        Identity(self.hasher.hash_one(source_of(source)))
    }
}

fn matches(rule: &ClassRule, msg: &Message<'_>, uri: &Uri<'_>, source: IpAddr) -> bool {
    let source = source.to_canonical();
    let from_source = rule.source.iter().any(|net| net.contains(&source));
    if !rule.priority.is_empty() {
        // Resource-Priority is a claim; it is believed only of the sources that the rule names (RFC 4412 section 11).
        return from_source && has_priority(msg, &rule.priority);
    }
    from_source
        || rule.to_user.iter().any(|u| number(uri.user).eq(u.bytes()))
        || rule.to_uri_prefix.iter().any(|p| {
            uri.bytes
                .get(..p.len())
                .is_some_and(|b| b.eq_ignore_ascii_case(p.as_bytes()))
        })
}

/// The digits that a user part dials: without its parameters and visual separators (RFC 3966 section 5.1.1).
fn number(user: &[u8]) -> impl Iterator<Item = u8> + '_ {
    user.iter()
        .copied()
        .take_while(|c| *c != b';')
        .filter(|c| !matches!(c, b'-' | b'.' | b'(' | b')'))
}

fn has_priority(msg: &Message<'_>, wanted: &[String]) -> bool {
    msg.all(Name::ResourcePriority)
        .flat_map(|h| h.value.split(|c| *c == b','))
        .any(|v| {
            wanted
                .iter()
                .any(|w| v.trim_ascii().eq_ignore_ascii_case(w.as_bytes()))
        })
}

/// `user@host` of a From, host in lower case.
fn address(from: &NameAddr<'_>) -> Option<Vec<u8>> {
    let uri = from.parse_uri().ok()?;
    let mut out = uri.user.to_vec();
    if matches!(uri.scheme, Scheme::Sip | Scheme::Sips) {
        out.push(b'@');
        out.extend(uri.host.name.to_ascii_lowercase());
    }
    Some(out)
}

/// The `username` of Digest credentials.
fn credentials_user(value: &[u8]) -> Option<&[u8]> {
    let at = value
        .windows(9)
        .position(|w| w.eq_ignore_ascii_case(b"username="))?;
    let rest = value.get(at + 9..)?;
    match rest.strip_prefix(b"\"") {
        Some(quoted) => quoted.get(..quoted.iter().position(|c| *c == b'"')?),
        None => rest.get(
            ..rest
                .iter()
                .position(|c| matches!(c, b',' | b' '))
                .unwrap_or(rest.len()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use levee_policy::selective::Class;
    use levee_sip::check;
    use levee_sip::wire::Scanner;

    use super::*;

    fn invite(uri: &str, extra: &str) -> Vec<u8> {
        format!(
            "INVITE {uri} SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bKx\r\nFrom: <sip:bob@Example.org>;tag=1\r\n\
             To: <sip:x@y>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\nContact: <sip:bob@h>\r\nMax-Forwards: 70\r\n{extra}\r\n"
        )
        .into_bytes()
    }

    fn with<T>(bytes: &[u8], f: impl FnOnce(&Message<'_>, &RequestParts<'_>) -> T) -> T {
        let mut s = Scanner::default();
        let msg = s.scan(bytes).unwrap();
        let parts = check::request(&msg).unwrap();
        f(&msg, &parts)
    }

    fn classes() -> Classes {
        let config = Config {
            classes: vec![Class::named("emergency"), Class::named("trunk")],
            ..Config::default()
        };
        let emergency = ClassRule {
            class: "emergency".into(),
            to_user: vec!["112".into(), "911".into()],
            to_uri_prefix: vec!["urn:service:sos".into()],
            ..ClassRule::default()
        };
        let trunk = ClassRule {
            class: "trunk".into(),
            source: vec!["10.0.0.0/8".parse().unwrap()],
            priority: vec!["ets.0".into()],
            ..ClassRule::default()
        };
        Classes::new(&[emergency, trunk], &config)
    }

    #[test]
    fn the_first_matching_rule_names_the_class() {
        let c = classes();
        let class = |uri: &str, extra: &str, ip: &str| {
            with(&invite(uri, extra), |m, p| {
                c.class(m, &p.uri, ip.parse().unwrap()).0
            })
        };
        assert_eq!(class("sip:112@pbx", "", "192.0.2.1"), 1);
        assert_eq!(class("sip:1-1-2;phone-context=x@pbx", "", "192.0.2.1"), 1);
        assert_eq!(class("tel:911", "", "192.0.2.1"), 1);
        assert_eq!(class("urn:service:sos.fire", "", "192.0.2.1"), 1);
        assert_eq!(class("sip:1123@pbx", "", "192.0.2.1"), 0);
        assert_eq!(
            class(
                "sip:a@pbx",
                "Resource-Priority: dsn.flash, ets.0\r\n",
                "10.1.2.3"
            ),
            2
        );
        assert_eq!(
            class("sip:a@pbx", "Resource-Priority: ets.0\r\n", "192.0.2.1"),
            0
        );
        assert_eq!(class("sip:a@pbx", "", "10.1.2.3"), 0);
    }

    #[test]
    fn a_caller_is_its_credentials_or_its_address() {
        let c = classes();
        let who = |extra: &str| with(&invite("sip:a@b", extra), |m, p| c.caller(m, p));
        let auth = "Proxy-Authorization: Digest realm=\"r\", username=\"bob\", nonce=\"n\"\r\n";
        assert_eq!(who(auth), who(&auth.replace("nonce=\"n\"", "nonce=\"m\"")));
        assert_ne!(who(auth), who(""));
        assert_ne!(who(auth), who(&auth.replace("bob", "eve")));
    }
}
