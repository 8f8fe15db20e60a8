//! Which calls are of which class.

use std::net::IpAddr;

use ipnet::IpNet;
use levee_policy::selective;

use super::super::raw::{RawClass, RawSip};
use super::Checker;
use crate::sip::settings::ClassRule;

/// Most rules of one front: each call is held against all of them.
const CLASS_RULES_MAX: usize = 256;

impl Checker<'_> {
    pub(super) fn classes(&mut self, index: usize, raw: &RawSip) -> Vec<ClassRule> {
        if raw.classes.len() > CLASS_RULES_MAX {
            let expected = format!("at most {CLASS_RULES_MAX}");
            self.problem(
                &format!("sip[{index}].class"),
                format!("{} rules", raw.classes.len()),
                expected,
                "join some",
            );
        }
        for (at, class) in raw.defense.classes.iter().enumerate() {
            if !raw.classes.iter().any(|rule| rule.class == class.name) {
                self.warn(
                    &format!("sip[{index}].defense.class[{at}].name"),
                    format!("no call is ever of class `{}`", class.name),
                    "a `[[sip.class]]` rule that names it",
                    "add the rule, or take the class out",
                );
            }
        }
        let rules = raw.classes.iter().enumerate();
        rules
            .map(|(at, rule)| {
                self.class_rule(&format!("sip[{index}].class[{at}]"), rule, &raw.defense)
            })
            .collect()
    }

    pub(super) fn class_rule(
        &mut self,
        key: &str,
        raw: &RawClass,
        defense: &selective::Config,
    ) -> ClassRule {
        if defense.class_id(&raw.class).is_none() {
            let known: Vec<_> = defense
                .classes
                .iter()
                .map(|class| format!("`{}`", class.name))
                .collect();
            let known = if known.is_empty() {
                "none is declared".to_owned()
            } else {
                known.join(", ")
            };
            self.problem(
                &format!("{key}.class"),
                format!("no class `{}`", raw.class),
                format!("the name of a `[[sip.defense.class]]`: {known}"),
                "declare the class in `[[sip.defense.class]]`, or mend the name",
            );
        }
        let lists = [
            ("to_user", &raw.to_user),
            ("to_uri_prefix", &raw.to_uri_prefix),
            ("priority", &raw.priority),
        ];
        for (name, list) in lists {
            if let Some(at) = list.iter().position(String::is_empty) {
                let key = format!("{key}.{name}[{at}]");
                self.problem(
                    &key,
                    "an empty text",
                    "what to match",
                    "an empty text would match every call: take it out",
                );
            }
        }
        if raw.to_user.is_empty()
            && raw.to_uri_prefix.is_empty()
            && raw.source.is_empty()
            && raw.priority.is_empty()
        {
            self.problem(
                key,
                "a rule that matches no call",
                "one of `to_user`, `to_uri_prefix`, `source`, `priority`",
                "say which calls are of the class",
            );
        }
        if !raw.priority.is_empty() && raw.source.is_empty() {
            self.problem(
                &format!("{key}.priority"),
                "a priority that anybody may claim",
                "`source` beside `priority`",
                "list the networks whose Resource-Priority is believed; \"0.0.0.0/0\" believes everybody",
            );
        }
        let names_callee = !raw.to_user.is_empty() || !raw.to_uri_prefix.is_empty();
        if !raw.priority.is_empty() && names_callee {
            self.problem(
                &format!("{key}.priority"),
                "`priority` beside `to_user` or `to_uri_prefix`",
                "one way to name a call in a rule",
                "write a second `[[sip.class]]` table with the same `class`",
            );
        }
        for (at, user) in raw.to_user.iter().enumerate() {
            if user.contains(['-', '.', '(', ')', ';']) {
                self.problem(
                    &format!("{key}.to_user[{at}]"),
                    format!("`{user}`"),
                    "a user part without `-`, `.`, `(`, `)` and parameters",
                    "leave them out: a call's visual separators (RFC 3966) are left out before it is matched",
                );
            }
        }
        let sources = raw.source.iter().enumerate();
        let source = sources
            .filter_map(|(at, text)| self.network(&format!("{key}.source[{at}]"), text))
            .collect();
        ClassRule {
            class: raw.class.clone(),
            to_user: raw.to_user.clone(),
            to_uri_prefix: raw.to_uri_prefix.clone(),
            source,
            priority: raw.priority.clone(),
        }
    }

    pub(super) fn network(&mut self, key: &str, text: &str) -> Option<IpNet> {
        let parsed = text
            .parse()
            .or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let Ok(network) = parsed else {
            self.problem(
                key,
                format!("`{text}`"),
                "an address block or an address, such as 192.0.2.0/24, 2001:db8::/32 or 192.0.2.7",
                "a source is matched by its address: names are not resolved here",
            );
            return None;
        };
        if network.trunc() != network {
            let remedy = format!(
                "did you mean {}, or the single address {}?",
                network.trunc(),
                network.addr()
            );
            self.problem(
                key,
                format!("`{text}`"),
                "no bits beyond the prefix",
                remedy,
            );
        }
        Some(network)
    }
}
