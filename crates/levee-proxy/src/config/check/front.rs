//! One `[[sip]]` table.

use levee_policy::{Span, selective};

use super::super::raw::{Bytes, RawLimits, RawRecord, RawSession, RawSip, RawTimers};
use super::Checker;
use crate::recorder::RecordSettings;
use crate::sip::settings::{SessionSettings, SipLimits, SipSettings, Timers};
use std::ops::RangeInclusive;
use std::time::Duration;

impl Checker<'_> {
    pub(super) fn sip(&mut self, index: usize, raw: &RawSip) -> Option<SipSettings> {
        let key = |name: &str| format!("sip[{index}].{name}");
        if raw.listen.is_empty() {
            self.problem(
                &key("listen"),
                "no address",
                "at least one",
                "add one such as \"udp:0.0.0.0:5060\"",
            );
        }
        let listen = self.listens(&key("listen"), &raw.listen);
        let inside = self.listens(&key("inside"), &raw.inside);
        let own: Vec<_> = listen.iter().chain(&inside).flatten().copied().collect();
        let server = self.server(&key("server"), &raw.server, &own);
        self.advertise(index, raw, &own);
        let records: Vec<_> = raw.record.iter().map(|_| key("record")).collect();
        self.modes(&format!("sip[{index}]"), raw.bypass, raw.dry_run, &records);
        self.defense(index, raw);
        let classes = self.classes(index, raw);
        let limits = self.limits(index, &raw.limits, raw.capacity);
        let timers = self.timers(index, raw.timers);
        let session = self.session(index, raw.session);
        let record = raw
            .record
            .as_ref()
            .map(|record| self.record(&key("record"), record));
        Some(SipSettings {
            name: raw.name.clone(),
            listen: listen.into_iter().collect::<Option<_>>()?,
            inside: inside.into_iter().collect::<Option<_>>()?,
            advertise: raw.advertise.clone(),
            server: server?,
            capacity: raw.capacity,
            defense: raw.defense.clone(),
            bypass: raw.bypass,
            dry_run: raw.dry_run,
            classes,
            limits,
            timers,
            session,
            seed: raw.seed,
            record,
        })
    }

    /// `front` is the key of its table, `records` those of its recordings.
    pub(super) fn modes(&mut self, front: &str, bypass: bool, dry_run: bool, records: &[String]) {
        if bypass && dry_run {
            self.problem(
                &format!("{front}.dry_run"),
                "both `bypass` and `dry_run`",
                "at most one of them",
                "`bypass` decides nothing, `dry_run` decides and does nothing: choose one",
            );
        }
        for record in records.iter().filter(|_| bypass || dry_run) {
            self.problem(
                record,
                "a recording of a front that does not act on its verdicts",
                "`record` without `bypass` and `dry_run`",
                "take `record` out, or let the defence act: a replay would not match what happened",
            );
        }
    }

    /// `capacity` and `table` are the keys of the two.
    pub(super) fn selective(
        &mut self,
        capacity: (&str, u32),
        table: &str,
        defense: &selective::Config,
    ) {
        // The first looks at the table alone, the second at the capacity too; each stops at its first error.
        let of_table = defense.validate().err();
        let of_both = defense.validate_for(capacity.1).err();
        let different = of_both.filter(|error| Some(error) != of_table.as_ref());
        for error in of_table.into_iter().chain(different) {
            let key = match error.key.as_str() {
                "capacity" => capacity.0.to_owned(),
                key => format!("{table}.{key}"),
            };
            self.problem(
                &key,
                error.value,
                error.expected,
                "choose a value in this range",
            );
        }
    }

    fn defense(&mut self, index: usize, raw: &RawSip) {
        let key = |name: &str| format!("sip[{index}].{name}");
        let capacity = (key("capacity"), raw.capacity);
        self.selective((&capacity.0, capacity.1), &key("defense"), &raw.defense);
        if raw.defense.kind == selective::Kind::None && raw.dry_run {
            self.warn(
                &key("dry_run"),
                "a dry run of no defence",
                "a `kind` other than none",
                "choose `kind = \"seven\"`, or take `dry_run` out",
            );
        }
        let mean_call = key("defense.drop_factor.mean_call");
        if raw.defense.kind == selective::Kind::Seven && !self.document.has(&mean_call) {
            self.warn(
                &mean_call,
                format!(
                    "the mean call is {}, the default, which is that of an experiment",
                    raw.defense.drop_factor.mean_call
                ),
                "the mean duration of your calls",
                "take it from your call records: SeVen tells a long call from a usual one by it",
            );
        }
    }

    pub(super) fn limits(&mut self, index: usize, raw: &RawLimits, capacity: u32) -> SipLimits {
        let key = |name: &str| format!("sip[{index}].limits.{name}");
        let bytes = usize::try_from(raw.message_bytes_max.0).unwrap_or(usize::MAX);
        let kept = usize::try_from(raw.transaction_bytes_max.0).unwrap_or(usize::MAX);
        let requests = raw.requests_per_source_per_second;
        self.number(
            &key("requests_per_source_per_second"),
            requests,
            0..=1_000_000,
        );
        let limits = SipLimits {
            message_bytes_max: self.number(&key("message_bytes_max"), bytes, 1_500..=1 << 20),
            headers_max: self.number(&key("headers_max"), raw.headers_max, 32..=4_096),
            transactions_max: self.number(
                &key("transactions_max"),
                raw.transactions_max,
                16..=1 << 24,
            ),
            transaction_bytes_max: self.number(
                &key("transaction_bytes_max"),
                kept,
                1 << 20..=1 << 40,
            ),
            calls_max: self.number(&key("calls_max"), raw.calls_max, 1..=1 << 24),
            connections_max: self.number(&key("connections_max"), raw.connections_max, 1..=1 << 20),
            connections_per_source_max: self.number(
                &key("connections_per_source_max"),
                raw.connections_per_source_max,
                1..=1 << 20,
            ),
            requests_per_source_per_second: requests,
            sources_tracked_max: self.number(
                &key("sources_tracked_max"),
                raw.sources_tracked_max,
                1..=1 << 24,
            ),
            dns_pending_max: self.number(&key("dns_pending_max"), raw.dns_pending_max, 1..=65_536),
            idle_connection: self.span(
                &key("idle_connection"),
                raw.idle_connection,
                Span::from_secs(1)..=Span::from_secs(86_400),
            ),
        };
        if limits.calls_max < capacity as usize {
            self.problem(
                &key("calls_max"),
                format!("{}", limits.calls_max),
                format!("at least the capacity, {capacity}"),
                "raise it to about twice the capacity: calls that are being torn down count too",
            );
        }
        limits
    }

    pub(super) fn timers(&mut self, index: usize, raw: RawTimers) -> Timers {
        let key = |name: &str| format!("sip[{index}].timers.{name}");
        let timers = Timers {
            t1: self.span(
                &key("t1"),
                raw.t1,
                Span::from_millis(10)..=Span::from_secs(10),
            ),
            t2: self.span(
                &key("t2"),
                raw.t2,
                Span::from_millis(10)..=Span::from_secs(60),
            ),
            t4: self.span(
                &key("t4"),
                raw.t4,
                Span::from_millis(10)..=Span::from_secs(60),
            ),
            timer_c: self.span(
                &key("timer_c"),
                raw.timer_c,
                Span::from_secs(1)..=Span::from_secs(3_600),
            ),
        };
        if raw.t2 < raw.t1 {
            let expected = format!("at least t1, {}", raw.t1);
            self.problem(
                &key("t2"),
                raw.t2.to_string(),
                expected,
                "retransmissions double from t1 up to t2",
            );
        }
        if raw.timer_c <= Span::from_secs(180) {
            self.warn(
                &key("timer_c"),
                raw.timer_c.to_string(),
                "more than 3m (RFC 3261 section 16.6)",
                "callees that ring longer are cut off: keep it short only in a test",
            );
        }
        timers
    }

    pub(super) fn session(&mut self, index: usize, raw: RawSession) -> SessionSettings {
        let key = |name: &str| format!("sip[{index}].session.{name}");
        let day = Span::from_secs(86_400);
        // RFC 4028 section 4: 90 s is the smallest Min-SE.
        let min_se = self.seconds(&key("min_se"), raw.min_se, Span::from_secs(90)..=day);
        let expires = raw.expires.0.map(|expires| {
            if expires < raw.min_se {
                let expected = format!("at least min_se, {}", raw.min_se);
                self.problem(
                    &key("expires"),
                    expires.to_string(),
                    expected,
                    "raise it, or write \"off\"",
                );
            }
            self.seconds(&key("expires"), expires, Span::from_secs(90)..=day)
        });
        let year = Span::from_secs(366 * 86_400);
        let call_max = raw
            .call_max
            .0
            .map(|max| self.span(&key("call_max"), max, Span::from_secs(1)..=year));
        SessionSettings {
            expires,
            min_se,
            call_max,
        }
    }

    pub(super) fn record(&mut self, key: &str, raw: &RawRecord) -> RecordSettings {
        let range = Bytes(1 << 16)..=Bytes(1 << 40);
        let bytes_max = self.bytes(&format!("{key}.bytes_max"), raw.bytes_max, range);
        self.number(&format!("{key}.files"), raw.files, 1..=1_000);
        if raw.path.is_empty() {
            self.problem(
                &format!("{key}.path"),
                "an empty path",
                "a file",
                "write for example \"events.jsonl\"",
            );
        }
        RecordSettings {
            path: raw.path.clone().into(),
            bytes_max,
            files: raw.files,
        }
    }

    /// RFC 4028 counts in whole seconds.
    pub(super) fn seconds(
        &mut self,
        key: &str,
        value: Span,
        range: RangeInclusive<Span>,
    ) -> Duration {
        if !value.as_nanos().is_multiple_of(1_000_000_000) {
            self.problem(
                key,
                value.to_string(),
                "whole seconds",
                "round it: SIP carries this in seconds",
            );
        }
        self.span(key, value, range)
    }
}
