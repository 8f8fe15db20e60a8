mod http;

use levee_policy::thinner;

use super::*;
use crate::http::settings;
use crate::sip::settings::{Listen, SessionSettings, SipLimits, Timers};

/// The least that runs.
const LEAST: &str = r#"[[sip]]
listen = ["udp:127.0.0.1:5060"]
server = "udp:127.0.0.1:5080"
capacity = 24
defense = { kind = "seven", drop_factor = { mean_call = "2m" } }
"#;

/// The least `[[http]]` that runs.
const LEAST_HTTP: &str = r#"[[http]]
listen = ["127.0.0.1:8000"]
server = "127.0.0.1:8080"
"#;

/// The file with every key, and the certificates that it names.
struct Whole {
    text: String,
    _folder: tempfile::TempDir,
}

impl Whole {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["first", "second"] {
            certificate(folder.path(), name);
        }
        let path = folder.path().display().to_string();
        Whole {
            text: include_str!("testdata/whole.toml").replace("{folder}", &path),
            _folder: folder,
        }
    }

    /// What is written, as the keys that TOML reads.
    fn table(&self) -> toml::Table {
        self.text.parse().unwrap()
    }
}

/// Writes `NAME.pem` and `NAME.key`.
fn certificate(folder: &Path, name: &str) {
    let made = rcgen::generate_simple_self_signed([format!("{name}.example")]).unwrap();
    let path = |end: &str| folder.join(format!("{name}.{end}"));
    std::fs::write(path("pem"), made.cert.pem()).unwrap();
    std::fs::write(path("key"), made.signing_key.serialize_pem()).unwrap();
}

fn warned(config: &LiveConfig) -> Vec<&str> {
    let warnings = config.warnings().iter();
    warnings.map(|warning| warning.place.key.as_str()).collect()
}

fn effective(text: &str) -> toml::Table {
    read(text).effective().parse().unwrap()
}

fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let addr = |text: &str| SocketAddr::new(text.parse().unwrap(), port);
    match host {
        "pbx.example.net" => Ok(vec![addr("2001:db8::7"), addr("192.0.2.7")]),
        "empty.example.net" => Ok(Vec::new()),
        _ => Err(io::Error::other("no such host")),
    }
}

fn parse(text: &str) -> Result<LiveConfig, Problems> {
    LiveConfig::parse("levee.toml", text, &resolve)
}

fn read(text: &str) -> LiveConfig {
    parse(text).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_least_file_gets_the_documented_defaults() {
    let config = read(LEAST);
    let front = &config.sip[0];
    assert_eq!(front.name, "sip");
    assert_eq!(
        front.listen,
        [Listen::udp("127.0.0.1:5060".parse().unwrap())]
    );
    assert_eq!(front.server, Listen::udp("127.0.0.1:5080".parse().unwrap()));
    assert_eq!(front.limits, SipLimits::default());
    assert_eq!(front.timers, Timers::default());
    assert_eq!(front.session, SessionSettings::default());
    assert_eq!((front.bypass, front.dry_run, front.seed), (false, false, 0));
    assert_eq!(front.record, None);
    assert_eq!(config.admin, None);
    assert_eq!(config.drain, Duration::from_secs(60));
    assert_eq!(config.warnings(), []);
}

#[test]
fn a_file_with_every_key_is_read_whole() {
    let whole = Whole::new();
    let config = read(&whole.text);
    assert_eq!(config.warnings(), []);
    let front = &config.sip[0];
    assert_eq!(front.name, "office");
    assert_eq!(front.listen.len(), 2);
    assert_eq!(
        front.inside,
        [Listen::udp("10.0.0.1:5062".parse().unwrap())]
    );
    assert_eq!(front.defense.calls_per_caller, Some(4));
    assert_eq!(front.classes[1].source[0], "192.0.2.0/24".parse().unwrap());
    assert_eq!(front.limits.message_bytes_max, 32 * 1024);
    assert_eq!(front.timers.timer_c, Duration::from_secs(200));
    assert_eq!(front.session.expires, None);
    assert_eq!(front.session.call_max, Some(Duration::from_secs(7_200)));
    assert_eq!(front.record.as_ref().unwrap().bytes_max, 1 << 20);
    assert_eq!(config.sip[1].name, "second");
    assert_eq!(config.admin.as_ref().unwrap().connections_max, 8);
    assert_eq!(
        config.log,
        LogSettings {
            level: LogLevel::Debug,
            format: LogFormat::Json
        }
    );
    let front = &config.http[0];
    assert_eq!(
        front.listen,
        [
            settings::Listen::plain("127.0.0.1:8000".parse().unwrap()),
            settings::Listen::tls("127.0.0.1:8443".parse().unwrap())
        ]
    );
    assert_eq!(front.server, "127.0.0.1:8081".parse().unwrap());
    assert_eq!(front.tls.as_ref().unwrap().certificates.len(), 2);
    let defense = front.defense.as_ref().unwrap();
    assert_eq!(defense.mode, thinner::Mode::ProofOfWork);
    assert_eq!(front.payment.bytes_per_second_max, Some(100_000_000));
    let connections = front.connections.as_ref().unwrap();
    assert_eq!(connections.capacity, 1_000);
    assert_eq!(connections.record.as_ref().unwrap().files, 3);
    assert_eq!(
        front.forwarded.trusted[1],
        "2001:db8::1/128".parse().unwrap()
    );
    assert_eq!(front.forwarded.proxy_protocol, settings::ProxyProtocol::V2);
    assert_eq!(front.limits.body_bytes_max, None);
    assert_eq!(front.limits.h2.stream_window_bytes, 128 << 10);
    assert_eq!(front.timeouts.tunnel, Duration::from_secs(1_800));
}

/// A key that the file with every key leaves out would be a key that no test reads.
#[test]
fn the_file_with_every_key_has_every_key() {
    fn keys(value: &toml::Value, path: &str, into: &mut std::collections::BTreeSet<String>) {
        match value {
            toml::Value::Table(table) => {
                for (name, child) in table {
                    keys(child, &format!("{path}.{name}"), into);
                }
            }
            toml::Value::Array(list) => list.iter().for_each(|child| keys(child, path, into)),
            _ => {
                into.insert(path.to_owned());
            }
        }
    }
    let whole = Whole::new();
    let mut written = std::collections::BTreeSet::new();
    keys(&whole.table().into(), "", &mut written);
    let mut known = std::collections::BTreeSet::new();
    keys(&effective(&whole.text).into(), "", &mut known);
    let missing: Vec<_> = known.difference(&written).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Each row of the document's tables whose default is a value has the value that the program takes.
#[test]
fn the_document_has_every_key_with_its_default() {
    let document = include_str!("../../../../docs/configuration.md");
    let http = format!(
        "{LEAST_HTTP}record.path = \"b\"\naccess_log.path = \"c\"\nconnections = {{ capacity = 1, defense.kind = \"seven\" }}\n\
         defense = {{ kind = \"thinner\", capacity.rate = 1.0 }}\n"
    );
    let least = format!("admin.listen = \"127.0.0.1:0\"\n{LEAST}record.path = \"a\"\n{http}");
    let whole = Whole::new();
    let effective_least = effective(&least);
    let front = |kind: &str| effective_least[kind][0].as_table();
    let mut section = "";
    let mut compared = std::collections::BTreeSet::new();
    for line in document.lines() {
        if let Some(heading) = line
            .strip_prefix("#")
            .map(|rest| rest.trim_start_matches('#').trim())
        {
            section = heading;
        }
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, key, default, ..] = cells[..] else {
            continue;
        };
        let quoted = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
        let (Some(key), Some(default)) = (quoted(key), quoted(default)) else {
            continue;
        };
        let mut table = match section {
            "Top level" => Some(&effective_least),
            // Of lists, each entry has its own defaults.
            "`[[sip.class]]`" => None,
            other => other
                .trim_matches(['`', '[', ']'])
                .split('.')
                .enumerate()
                .try_fold(&effective_least, |table, (depth, name)| {
                    match (depth, table.get(name)?) {
                        (0, toml::Value::Array(_)) => front(name),
                        (_, inner) => inner.as_table(),
                    }
                }),
        };
        let mut name = key.as_str();
        if let Some((outer, inner)) = key.split_once('.') {
            table = table
                .and_then(|table| table.get(outer))
                .and_then(toml::Value::as_table);
            name = inner;
        }
        // The class of a defence has its table inside the section of the defence.
        let Some(value) = table.and_then(|table| table.get(name)) else {
            continue;
        };
        let written: toml::Value = default.parse().unwrap();
        let span = |value: &toml::Value| value.as_str()?.parse::<levee_policy::Span>().ok();
        let same = *value == written || (span(value).is_some() && span(value) == span(&written));
        // The least file gives the mean call itself.
        assert!(
            same || key == "drop_factor.mean_call",
            "{section} {key}: {default} and {value}"
        );
        compared.insert((section.to_owned(), key));
    }
    for (section, keys) in [
        ("`[sip.limits]`", 11),
        ("`[sip.timers]`", 4),
        ("`[sip.session]`", 3),
        ("`[sip.defense]`", 10),
        ("`[[http]]`", 6),
        ("`[http.defense]`", 5),
        ("`[http.payment]`", 2),
        ("`[http.forwarded]`", 2),
        ("`[http.access_log]`", 1),
        ("`[http.timeouts]`", 12),
        ("`[http.limits]`", 9),
        ("`[http.limits.h2]`", 10),
    ] {
        assert_eq!(
            compared.iter().filter(|(at, _)| at == section).count(),
            keys,
            "{section}: {compared:#?}"
        );
    }
    let mut names = std::collections::BTreeSet::new();
    collect_names(&effective(&whole.text).into(), &mut names);
    for name in names {
        let told = [
            format!("`{name}`"),
            format!(".{name}`"),
            format!("{{ {name} = "),
        ];
        let told = told.iter().any(|text| document.contains(text));
        assert!(told, "{name} is not in docs/configuration.md");
    }
}

fn collect_names(value: &toml::Value, into: &mut std::collections::BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, child) in table {
                if !child.is_table()
                    && !child
                        .as_array()
                        .is_some_and(|list| list.iter().any(toml::Value::is_table))
                {
                    into.insert(name.clone());
                }
                collect_names(child, into);
            }
        }
        toml::Value::Array(list) => list.iter().for_each(|child| collect_names(child, into)),
        _ => {}
    }
}

#[test]
fn the_effective_configuration_reads_back_as_itself() {
    let whole = Whole::new();
    for text in [LEAST, LEAST_HTTP, &whole.text] {
        let first = read(text);
        let again = read(&first.effective());
        assert_eq!(again.effective(), first.effective());
        assert_eq!(format!("{:?}", again.sip), format!("{:?}", first.sip));
        assert_eq!(format!("{:?}", again.http), format!("{:?}", first.http));
    }
}

#[test]
fn a_host_name_is_resolved_to_the_family_of_a_listener() {
    let named = LEAST.replace("udp:127.0.0.1:5080", "udp:pbx.example.net:5080");
    assert_eq!(
        read(&named).sip[0].server,
        Listen::udp("192.0.2.7:5080".parse().unwrap())
    );
    let v6 = named.replace("udp:127.0.0.1:5060", "udp:[::1]:5060");
    assert_eq!(
        read(&v6).sip[0].server,
        Listen::udp("[2001:db8::7]:5080".parse().unwrap())
    );
}

/// Replaces `from` by `to` in the least file and expects exactly one problem: at this key, with this in its text.
fn check(from: &str, to: &str, key: &str, says: &str) {
    assert!(LEAST.contains(from), "{from}");
    refused(&LEAST.replace(from, to), key, says);
}

/// Expects exactly one problem: at this key, with this in its text.
fn refused(text: &str, key: &str, says: &str) {
    let Err(problems) = parse(text) else {
        panic!("{text}\nis taken")
    };
    let [problem] = problems.list() else {
        panic!("{text}\n{problems}")
    };
    assert_eq!(problem.place.key, key, "{problem}");
    assert!(problem.to_string().contains(says), "{problem}");
    assert!(
        !problem.remedy.is_empty() && problem.place.line > 0,
        "{problem}"
    );
}

#[test]
fn what_cannot_work_is_refused_with_its_key_and_a_remedy() {
    let capacity = "capacity = 24";
    check(capacity, "capacity = 0", "sip[0].capacity", "from 1 to");
    check(capacity, "capacity = -1", "sip[0].capacity", "`-1`");
    check(capacity, "", "sip[0]", "missing field `capacity`");
    check(
        capacity,
        "capacity = 24\nbypas = true",
        "sip[0].bypas",
        "did you mean `bypass`?",
    );
    check(
        capacity,
        "capacity = 24\nbypass = true\ndry_run = true",
        "sip[0].dry_run",
        "at most one",
    );
    check(
        capacity,
        "capacity = 24\nbypass = true\nrecord.path = \"e\"",
        "sip[0].record",
        "without `bypass`",
    );
    check(
        capacity,
        "capacity = 24\nrecord = { path = \"e\", files = 0 }",
        "sip[0].record.files",
        "from 1 to",
    );
    check(
        capacity,
        "capacity = 24\nrecord = { path = \"e\", bytes_max = \"1KiB\" }",
        "sip[0].record.bytes_max",
        "64KiB",
    );
    check(
        capacity,
        "capacity = 24\nname = \"a b\"",
        "sip[0].name",
        "letters, digits",
    );
    check(
        capacity,
        "capacity = 24\nadvertise = [\"sip:a\"]",
        "sip[0].advertise[0]",
        "host name",
    );
    check(
        capacity,
        "capacity = 24\nlimits.calls_max = 23",
        "sip[0].limits.calls_max",
        "at least the capacity, 24",
    );
    check(
        capacity,
        "capacity = 24\nlimits.headers_max = 1",
        "sip[0].limits.headers_max",
        "from 32",
    );
    check(
        capacity,
        "capacity = 24\ntimers.t2 = \"100ms\"",
        "sip[0].timers.t2",
        "at least t1, 500ms",
    );
    check(
        capacity,
        "capacity = 24\ntimers.t1 = \"fast\"",
        "sip[0].timers.t1",
        "fast",
    );
    check(
        capacity,
        "capacity = 24\nsession.min_se = \"89s\"",
        "sip[0].session.min_se",
        "from 90s",
    );
    check(
        capacity,
        "capacity = 24\nsession.expires = \"100.5s\"",
        "sip[0].session.expires",
        "whole seconds",
    );
    check(
        capacity,
        "capacity = 24\nsession = { expires = \"2m\", min_se = \"3m\" }",
        "sip[0].session.expires",
        "min_se",
    );

    let server = "udp:127.0.0.1:5080";
    check(
        server,
        "tls:127.0.0.1:5080",
        "sip[0].server",
        "not in this version",
    );
    check(
        server,
        "udp:127.0.0.1:5060",
        "sip[0].server",
        "cannot protect itself",
    );
    check(
        server,
        "udp:127.0.0.1",
        "sip[0].server",
        "a host and a port",
    );
    check(
        server,
        "udp:0.0.0.0:5080",
        "sip[0].server",
        "where the server listens",
    );
    check(
        server,
        "udp:nowhere.example.net:5080",
        "sip[0].server",
        "no such host",
    );
    check(
        server,
        "udp:empty.example.net:5080",
        "sip[0].server",
        "has no address",
    );
    check(
        server,
        "tcp:127.0.0.1:5080",
        "sip[0].server",
        "a listener by which the server can reach",
    );
    check(server, "udp:[::1]:5080", "sip[0].server", "udp over IPv6");

    let listen = "[\"udp:127.0.0.1:5060\"]";
    check(listen, "[]", "sip[0].listen", "at least one");
    check(
        listen,
        "[\"127.0.0.1:5060\"]",
        "sip[0].listen[0]",
        "a transport",
    );
    check(
        listen,
        "[\"udp:localhost:5060\"]",
        "sip[0].listen[0]",
        "advertise",
    );
    check(
        listen,
        "[\"udp:0.0.0.0:5060\"]",
        "sip[0].advertise",
        "no name",
    );
    check(
        listen,
        "[\"udp:127.0.0.1:5060\", \"udp:127.0.0.1:5060\"]",
        "sip[0].listen[1]",
        "`sip[0].listen[0]` takes it",
    );

    check(
        "\"seven\"",
        "\"eight\"",
        "sip[0].defense.kind",
        "expected one of",
    );
    check(
        "\"2m\" }",
        "\"2m\", waiting = -1.0 }",
        "sip[0].defense.drop_factor.waiting",
        "-1",
    );
    check(
        "kind = \"seven\"",
        "kind = \"seven\", strategy = { kind = \"tournament\", size = 25 }",
        "sip[0].defense.strategy.size",
        "24",
    );
}

#[test]
fn a_rule_must_name_a_class_and_match_something() {
    let rule = |rule: &str| format!("capacity = 24\nclass = [{rule}]");
    let check = |to: &str, key: &str, says: &str| check("capacity = 24", &rule(to), key, says);
    check(
        "{ class = \"sos\", to_user = [\"112\"] }",
        "sip[0].class[0].class",
        "none is declared",
    );
    check(
        "{ class = \"default\" }",
        "sip[0].class[0]",
        "matches no call",
    );
    check(
        "{ class = \"default\", to_user = [\"\"] }",
        "sip[0].class[0].to_user[0]",
        "every call",
    );
    check(
        "{ class = \"default\", priority = [\"ets.0\"] }",
        "sip[0].class[0].priority",
        "anybody",
    );
    check(
        "{ class = \"default\", source = [\"10.0.0.1/8\"] }",
        "sip[0].class[0].source[0]",
        "10.0.0.0/8",
    );
    check(
        "{ class = \"default\", source = [\"trunk\"] }",
        "sip[0].class[0].source[0]",
        "address block",
    );
    check(
        "{ class = \"default\", to_user = [\"1\"], source = [\"10.0.0.0/8\"], priority = [\"ets.0\"] }",
        "sip[0].class[0].priority",
        "a second `[[sip.class]]`",
    );
    check(
        "{ class = \"default\", to_user = [\"0800-112\"] }",
        "sip[0].class[0].to_user[0]",
        "separators",
    );
}

#[test]
fn fronts_may_not_share_a_name_a_port_or_a_recording() {
    let two = format!(
        "{LEAST}record.path = \"a\"\n{}",
        LEAST.replace("5060", "5061")
    );
    let two = format!("{two}record.path = \"a\"\n");
    let problems = parse(&two).unwrap_err();
    let keys: Vec<_> = problems
        .list()
        .iter()
        .map(|problem| problem.place.key.as_str())
        .collect();
    assert_eq!(keys, ["sip[1].name", "sip[1].record.path"], "{problems}");

    let wild = LEAST.replace(
        "\"udp:127.0.0.1:5060\"",
        "\"tcp:127.0.0.1:9091\", \"udp:127.0.0.1:5060\"",
    );
    let problems = parse(&format!("admin.listen = \"0.0.0.0:9091\"\n{wild}")).unwrap_err();
    assert_eq!(problems.list()[0].place.key, "admin.listen", "{problems}");
    assert_eq!(problems.list().len(), 1, "{problems}");
}

#[test]
fn a_file_without_a_front_is_refused() {
    for text in ["", "sip = []", "http = []", "drain = \"1s\""] {
        let problems = parse(text).unwrap_err();
        assert!(
            problems
                .to_string()
                .contains("1 to 64 tables `[[sip]]` and `[[http]]`"),
            "{problems}"
        );
    }
}

#[test]
fn what_is_probably_not_meant_is_a_warning() {
    let text = r#"
[admin]
listen = "0.0.0.0:9091"
[[sip]]
listen = ["udp:127.0.0.1:5060"]
server = "udp:127.0.0.1:5080"
capacity = 24
timers.timer_c = "10s"
[sip.defense]
kind = "seven"
[[sip.defense.class]]
name = "emergency"
"#;
    let config = read(text);
    assert_eq!(
        warned(&config),
        [
            "admin.listen",
            "sip[0].defense.drop_factor.mean_call",
            "sip[0].defense.class[0].name",
            "sip[0].timers.timer_c"
        ]
    );
}

#[test]
fn problems_print_as_the_committed_text() {
    let problems = parse(include_str!("testdata/wrong.toml")).unwrap_err();
    let printed = format!("{problems}\n");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/testdata/wrong.txt");
    if std::env::var_os("LEVEE_BLESS").is_some() {
        std::fs::write(&golden, &printed).unwrap();
    }
    assert_eq!(printed, std::fs::read_to_string(&golden).unwrap());
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let absent = LiveConfig::load(&folder.path().join("absent.toml"))
        .unwrap_err()
        .to_string();
    assert!(
        absent.contains("absent.toml: cannot be read: No such file"),
        "{absent}"
    );
    let long = folder.path().join("long.toml");
    std::fs::write(&long, "#".repeat(FILE_BYTES_MAX as usize + 1)).unwrap();
    assert!(
        LiveConfig::load(&long)
            .unwrap_err()
            .to_string()
            .contains("longer than 1048576 bytes")
    );
    std::fs::write(&long, LEAST).unwrap();
    assert_eq!(LiveConfig::load(&long).unwrap().sip.len(), 1);
}
