//! `[[http]]` tables.

use super::*;
use crate::http::settings::HttpSettings;

/// A value that is the default in the file with every key would not show that it is read.
#[test]
fn the_file_with_every_key_has_no_default_of_http() {
    fn leaves(value: &toml::Value, path: &str, into: &mut BTreeMap<String, toml::Value>) {
        match value {
            toml::Value::Table(table) => {
                for (name, child) in table {
                    leaves(child, &format!("{path}.{name}"), into);
                }
            }
            leaf => _ = into.insert(path.to_owned(), leaf.clone()),
        }
    }
    let of = |table: &toml::Table| {
        let mut all = BTreeMap::new();
        leaves(&table["http"][0], "http", &mut all);
        all
    };
    let (least, whole) = (of(&effective(LEAST_HTTP)), of(&Whole::new().table()));
    // Both are false: only one may be true, and a recording wants neither.
    let may = ["http.bypass", "http.dry_run"];
    for (key, default) in least {
        assert!(
            may.contains(&key.as_str()) || whole.get(&key) != Some(&default),
            "{key} = {default}"
        );
    }
}

#[test]
fn the_least_http_front_gets_the_documented_defaults() {
    let config = read(LEAST_HTTP);
    let front = &config.http[0];
    let expect = HttpSettings::new("http", front.listen.clone(), front.server);
    assert_eq!(format!("{front:?}"), format!("{expect:?}"));
    assert_eq!(warned(&config), ["http[0]"]);
    assert!(config.sip.is_empty());
}

/// Replaces `from` by `to` in the least file and expects exactly one problem: at this key, with this in its text.
fn check(from: &str, to: &str, key: &str, says: &str) {
    refused(&changed(from, to), key, says);
}

/// The same with these lines added to the table.
fn check_with(lines: &str, key: &str, says: &str) {
    refused(&format!("{LEAST_HTTP}{lines}\n"), key, says);
}

fn changed(from: &str, to: &str) -> String {
    assert!(LEAST_HTTP.contains(from), "{from}");
    LEAST_HTTP.replace(from, to)
}

const THINNER: &str = "defense = { kind = \"thinner\", capacity.rate = 100.0 }\n";

#[test]
fn what_cannot_work_is_refused_with_its_key_and_a_remedy() {
    let listen = "[\"127.0.0.1:8000\"]";
    check(listen, "[]", "http[0].listen", "at least one");
    for (text, remedy) in [
        ("https://0.0.0.0:443", "tls:0.0.0.0:443"),
        ("http://0.0.0.0:80", "leave the scheme out"),
        ("localhost:80", "an address of this machine"),
        (":80", "an address of this machine"),
        ("udp:0.0.0.0:80", "an address of this machine"),
    ] {
        let to = format!("[\"{text}\"]");
        check(listen, &to, "http[0].listen[0]", remedy);
    }
    check(
        listen,
        "[\"127.0.0.1:8000\", \"tls:127.0.0.1:8443\"]",
        "http[0].listen",
        "without a certificate",
    );
    check(
        listen,
        "[\"127.0.0.1:8000\", \"0.0.0.0:8000\"]",
        "http[0].listen[1]",
        "`http[0].listen[0]` takes it",
    );
    let server = "\"127.0.0.1:8080\"";
    for (text, says) in [
        ("http://127.0.0.1:8080", "leave the scheme out"),
        ("https://127.0.0.1:8080", "plain HTTP/1.1"),
        ("tls:127.0.0.1:8080", "plain HTTP/1.1"),
        ("127.0.0.1", "a host and a port"),
        ("0.0.0.0:8080", "where the server listens"),
        ("nowhere.example.net:80", "no such host"),
        ("127.0.0.1:8000", "cannot protect itself"),
    ] {
        check(server, &format!("\"{text}\""), "http[0].server", says);
    }
    check_with("workers = 2000", "http[0].workers", "from 0 to 1024");
    check_with(
        "bypass = true\ndry_run = true",
        "http[0].dry_run",
        "at most one",
    );
    check_with(
        "record.path = \"a\"",
        "http[0].record",
        "a thinner that is not there",
    );
    check_with(
        &format!("{THINNER}dry_run = true\nrecord.path = \"a\""),
        "http[0].record",
        "without `bypass` and `dry_run`",
    );
    check_with(
        "forwarded.proxy_protocol = \"v2\"",
        "http[0].forwarded.proxy_protocol",
        "believed from nobody",
    );
    check_with(
        "forwarded.trusted = [\"10.0.0.1/8\"]",
        "http[0].forwarded.trusted[0]",
        "10.0.0.0/8",
    );
    check_with(
        "access_log.path = \"\"",
        "http[0].access_log.path",
        "an empty path",
    );
}

#[test]
fn a_server_that_is_reached_through_all_addresses_is_seen() {
    let wild = changed("[\"127.0.0.1:8000\"]", "[\"0.0.0.0:8080\"]");
    refused(&wild, "http[0].server", "cannot protect itself");
    let v6 = changed("[\"127.0.0.1:8000\"]", "[\"[::]:8080\"]");
    read(&v6);
}

#[test]
fn a_thinner_is_checked_by_its_own_rules_and_with_its_front() {
    let thinner = |table: &str| format!("defense = {{ kind = \"thinner\", {table} }}");
    check_with(
        &thinner("capacity.rate = 0.0"),
        "http[0].defense.capacity.rate",
        "0.001",
    );
    check_with(
        &thinner("capacity.rate = 1.0, mode = \"lottery\""),
        "http[0].defense.mode",
        "`queue`",
    );
    check_with(
        &thinner("capacity.concurrency = 5000"),
        "http[0].limits.upstream_connections_max",
        "at least what the thinner admits at once, 5000",
    );
    check_with(
        &format!("{THINNER}protect = []"),
        "http[0].protect",
        "no request asks",
    );
    check_with(
        &format!("{THINNER}protect = [\"/a\", \"search\"]"),
        "http[0].protect[1]",
        "with its slash",
    );
    check_with(
        &format!("{THINNER}payment.post_bytes = \"1GB\"\npayment.bytes_per_second_max = 5"),
        "http[0].payment.bytes_per_second_max",
        "from 1KiB",
    );
}

#[test]
fn a_table_of_connections_leaves_room_for_newcomers() {
    let table = |table: &str| format!("connections = {{ {table} }}");
    let seven = "defense.kind = \"seven\"";
    check_with(
        &table(&format!("capacity = 16384, {seven}")),
        "http[0].connections.capacity",
        "below limits.connections_max, 16384",
    );
    check_with(
        &table(&format!("capacity = 0, {seven}")),
        "http[0].connections.capacity",
        "from 1 to",
    );
    check_with(
        &table("capacity = 8, defense = { kind = \"seven\", forward = \"round-end\" }"),
        "http[0].connections.defense.forward",
        "held back",
    );
    read(&format!(
        "{LEAST_HTTP}{}\n",
        table(&format!("capacity = 16383, {seven}"))
    ));
}

#[test]
fn a_phase_is_set_by_its_name_and_the_others_keep_their_defaults() {
    let with = |phases: &str| {
        format!(
            "connections = {{ capacity = 8, defense = {{ kind = \"seven\", phase = [{phases}] }} }}"
        )
    };
    let body = "{ name = \"body\", weight = 3.0, usual = \"9s\" }";
    let config = read(&format!("{LEAST_HTTP}{}\n", with(body)));
    let phases = &config.http[0].connections.as_ref().unwrap().defense.phases;
    let mut expect = levee_policy::selective::phases_of_http();
    expect[2].weight = 3.0;
    expect[2].usual = Some(levee_policy::Span::from_secs(9));
    expect[2].rate = 0.0;
    expect[2].behind = levee_policy::Span::ZERO;
    assert_eq!(*phases, expect);
    let key = "http[0].connections.defense.phase";
    check_with(
        &with("{ name = \"talking\", weight = 1.0 }"),
        &format!("{key}[0].name"),
        "one of `idle`, `headers`",
    );
    check_with(
        &with(&format!("{body}, {body}")),
        &format!("{key}[1].name"),
        "each at most once",
    );
    check_with(
        &with("{ name = \"body\", weight = 0.0 }"),
        &format!("{key}[2].weight"),
        "a number from",
    );
}

#[test]
fn the_document_has_the_phases_with_their_defaults() {
    let document = include_str!("../../../../../docs/configuration.md");
    for phase in levee_policy::selective::phases_of_http() {
        let usual = phase
            .usual
            .map_or("none".to_owned(), |usual| usual.to_string());
        let row = format!(
            "| `{}` | {} | {usual} | {} | {} |",
            phase.name, phase.weight, phase.rate, phase.behind
        );
        assert!(document.contains(&row), "{row}");
    }
}

#[test]
fn limits_and_timeouts_stay_in_their_ranges() {
    for (lines, key, says) in [
        (
            "limits.head_bytes_max = \"2MiB\"",
            "limits.head_bytes_max",
            "from 1KiB to 1MiB",
        ),
        (
            "limits.target_bytes_max = \"64KiB\"",
            "limits.target_bytes_max",
            "at most head_bytes_max, 32768",
        ),
        (
            "limits.upstream_idle_max = 5000",
            "limits.upstream_idle_max",
            "at most upstream_connections_max, 4096",
        ),
        (
            "limits.h2.stream_window_bytes = \"2MiB\"",
            "limits.h2.stream_window_bytes",
            "at most connection_window_bytes",
        ),
        (
            "limits.h2.connection_window_bytes = \"2GiB\"",
            "limits.h2.connection_window_bytes",
            "a size from",
        ),
        (
            "limits.h2.control_frames_burst = 1",
            "limits.h2.control_frames_burst",
            "from 16",
        ),
        (
            "limits.keep_alive_requests = 0",
            "limits.keep_alive_requests",
            "from 1",
        ),
        (
            "timeouts.headers = \"0s\"",
            "timeouts.headers",
            "from 1ms to 24h",
        ),
    ] {
        check_with(lines, &format!("http[0].{key}"), says);
    }
}

#[test]
fn a_certificate_is_tried_before_anything_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path(), "first");
    certificate(folder.path(), "second");
    let path = folder.path().display();
    let tls = |certificate: &str, key: &str| {
        let listen = changed("\"127.0.0.1:8000\"", "\"tls:127.0.0.1:8443\"");
        format!("{listen}tls = {{ certificate = \"{path}/{certificate}\", key = \"{path}/{key}\"")
    };
    let good = tls("first.pem", "first.key");
    read(&format!("{good} }}\n"));
    let refused = |text: String, key: &str, says: &str| refused(&text, key, says);
    refused(
        format!("{} }}\n", tls("absent.pem", "first.key")),
        "http[0].tls.certificate",
        "absent.pem: cannot be read",
    );
    refused(
        format!("{} }}\n", tls("first.pem", "second.key")),
        "http[0].tls.key",
        "not the key of",
    );
    let extra =
        format!("extra = [{{ certificate = \"{path}/second.pem\", key = \"{path}/first.key\" }}]");
    refused(
        format!("{good}, {extra} }}\n"),
        "http[0].tls.extra[0].key",
        "not the key of",
    );
}

#[test]
fn fronts_of_both_kinds_share_no_name_listener_or_recording() {
    let web = format!(
        "{LEAST_HTTP}name = \"sip\"\nconnections = {{ capacity = 8, record.path = \"a\", defense.kind = \"seven\" }}\n"
    );
    let both = format!("admin.listen = \"0.0.0.0:8000\"\n{LEAST}record.path = \"a\"\n{web}");
    let problems = parse(&both).unwrap_err();
    let list = problems.list().iter();
    let keys: Vec<_> = list.map(|problem| problem.place.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "admin.listen",
            "http[0].name",
            "http[0].connections.record.path"
        ],
        "{problems}"
    );
    // UDP and TCP may have the same port.
    let tcp = changed("127.0.0.1:8000", "127.0.0.1:5060");
    let config = read(&format!("{LEAST}{tcp}"));
    assert_eq!((config.sip.len(), config.http.len()), (1, 1));
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let warned = |lines: &str, keys: &[&str]| {
        let config = read(&format!("{LEAST_HTTP}{lines}\n"));
        assert_eq!(warned(&config), keys, "{lines}");
    };
    let table = "connections = { capacity = 8, defense.kind = \"seven\" }\n";
    warned("", &["http[0]"]);
    warned("bypass = true", &[]);
    warned(THINNER, &["http[0]"]);
    warned(&format!("{THINNER}{table}"), &[]);
    let quiet = |lines: &str, key: &str| warned(&format!("{table}{lines}"), &[key]);
    quiet("protect = [\"/a\"]", "http[0].protect");
    quiet("payment.post_bytes = \"2MiB\"", "http[0].payment");
    quiet("timeouts.headers = \"10m\"", "http[0].timeouts.headers");
    quiet("timeouts.idle = \"1h\"", "http[0].timeouts.idle");
    quiet(
        "forwarded.trusted = [\"0.0.0.0/0\"]",
        "http[0].forwarded.trusted[0]",
    );
    // The longest that is still sensible.
    warned(&format!("{table}timeouts.headers = \"60s\""), &[]);
    let folder = tempfile::tempdir().unwrap();
    certificate(folder.path(), "first");
    let path = folder.path().display();
    quiet(
        &format!("tls = {{ certificate = \"{path}/first.pem\", key = \"{path}/first.key\" }}"),
        "http[0].tls",
    );
}
