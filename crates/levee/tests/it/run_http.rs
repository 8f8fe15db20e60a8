use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Instant;

use super::running::{PATIENCE, Running};
use super::{finished, levee};

/// A web server that answers each request with its path, and ends with its last connection.
struct Origin {
    at: SocketAddr,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || serve(&stream));
            }
        });
        Origin { at }
    }
}

fn serve(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(2) => break,
                Ok(_) => head.push(line),
            }
        }
        let path = head[0].split(' ').nth(1).unwrap();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}",
            path.len()
        );
        if (&*stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn config(origin: &Origin, extra: &str) -> String {
    format!(
        r#"drain = "1h"
log.format = "json"
admin.listen = "127.0.0.1:0"
[[http]]
name = "web"
listen = ["127.0.0.1:0"]
server = "{}"
workers = 2
access_log.path = "{{folder}}/access.log"
connections = {{ capacity = 100, record.path = "{{folder}}/connections.jsonl", defense.kind = "seven" }}
record.path = "{{folder}}/thinner.jsonl"
defense = {{ kind = "thinner", capacity.rate = 1000.0, mode = "queue" }}
{extra}
"#,
        origin.at
    )
}

/// Sends a request and reads to the end of the connection.
fn get(front: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(front).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: a.example\r\nUser-Agent: test\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Waits until the access log has so many lines.
#[track_caller]
fn logged(run: &Running, name: &str, lines: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let text = fs::read_to_string(run.file(name)).unwrap_or_default();
        let all: Vec<_> = text.lines().map(str::to_owned).collect();
        if all.len() >= lines {
            return all;
        }
        assert!(begun.elapsed() < PATIENCE, "{all:?}");
        thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_front_serves_logs_counts_records_and_stops_when_told() {
    let origin = Origin::start();
    let run = Running::start(&config(&origin, ""), 1, |_| ());
    let front = run.listens[0].clone();
    assert!(run.get("/healthz").starts_with("HTTP/1.1 200"));
    let answer = get(&front, "/hello?a=b");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n/hello?a=b"),
        "{answer}"
    );
    for (series, expect) in [
        ("levee_http_workers{front=\"web\"}", 2.0),
        (
            "levee_http_requests_total{front=\"web\",version=\"1\"}",
            1.0,
        ),
        (
            "levee_http_responses_total{front=\"web\",class=\"2xx\"}",
            1.0,
        ),
        ("levee_http_thinner_admitted_total{front=\"web\"}", 1.0),
        ("levee_http_table_admitted_total{front=\"web\"}", 1.0),
    ] {
        assert_eq!(run.metric(series), expect, "{series}");
    }
    assert!(run.get("/").contains("<td>web<td>running"));
    let line: serde_json::Value = serde_json::from_str(&logged(&run, "access.log", 1)[0]).unwrap();
    for (key, expect) in [
        ("front", "web"),
        ("client", "127.0.0.1"),
        ("target", "/hello?a=b"),
        ("host", "a.example"),
        ("user_agent", "test"),
        ("decision", "admitted"),
    ] {
        assert_eq!(line[key], expect, "{line}");
    }
    assert_eq!(line["status"], 200);
    run.signal("-TERM");
    run.log("stopped");
    let recordings = ["thinner.jsonl", "connections.jsonl"].map(|name| run.file(name));
    let replayed = recordings.map(|path| finished(levee().arg("replay").arg(path)));
    let (status, out) = run.end();
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status, Some(0));
    let numbers = &json["fronts"][0];
    assert_eq!(
        (&numbers["kind"], &numbers["name"]),
        (&"http".into(), &"web".into())
    );
    assert_eq!(numbers["traffic"]["requests_h1"], 1);
    for (status, out, error) in replayed {
        assert_eq!(status, 0, "{out}{error}");
        assert!(
            out.contains("same verdicts: ") && !out.contains("killed"),
            "{out}"
        );
    }
}

#[test]
fn a_reload_takes_a_good_file_rotates_the_log_and_refuses_a_bad_one() {
    let origin = Origin::start();
    let run = Running::start(&config(&origin, ""), 1, |_| ());
    let front = run.listens[0].clone();
    get(&front, "/before");
    logged(&run, "access.log", 1);
    fs::rename(run.file("access.log"), run.file("access.log.1")).unwrap();
    run.write(&config(&origin, "limits.target_bytes_max = 128"));
    run.signal("-HUP");
    run.log("reloaded");
    let long = format!("/{}", "a".repeat(200));
    assert!(get(&front, &long).starts_with("HTTP/1.1 414"));
    assert_eq!(logged(&run, "access.log", 1).len(), 1);
    assert_eq!(logged(&run, "access.log.1", 1).len(), 1);
    let good = config(&origin, "");
    for (text, says) in [
        (good.replace("rate = 1000.0", "rate = 0.0"), "capacity.rate"),
        (
            good.replace("name = \"web\"", "name = \"site\""),
            "cannot be added, taken out or renamed",
        ),
        (
            good.replace("listen = [\"127.0.0.1:0\"]", "listen = [\"127.0.0.2:0\"]"),
            "`listen`",
        ),
        (
            good.replace("{folder}/access.log", "{folder}/absent/access.log"),
            "absent/access.log",
        ),
    ] {
        run.write(&text);
        run.signal("-HUP");
        let line = run.log("the old configuration goes on");
        assert!(line["message"].as_str().unwrap().contains(says), "{line}");
    }
    assert!(
        get(&front, &long).starts_with("HTTP/1.1 414"),
        "the last good file goes on"
    );
    run.signal("-TERM");
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn both_kinds_of_front_run_drain_and_stop_together() {
    let origin = Origin::start();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sip = format!(
        "[[sip]]\nname = \"office\"\nlisten = [\"udp:127.0.0.1:0\"]\nserver = \"udp:{}\"\ncapacity = 24\n\
         defense = {{ kind = \"seven\", drop_factor.mean_call = \"2m\" }}\n",
        server.local_addr().unwrap()
    );
    let run = Running::start(&(config(&origin, "") + &sip), 2, |_| ());
    let front = run.listens[1].clone();
    assert!(run.listens[0].starts_with("udp:"), "{:?}", run.listens);
    // A request in hand holds the drain up; the front takes no other.
    let mut slow = TcpStream::connect(&front).unwrap();
    slow.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n")
        .unwrap();
    while run.metric("levee_http_connections{front=\"web\",phase=\"headers\"}") < 1.0 {
        thread::yield_now();
    }
    run.signal("-TERM");
    run.log("stopping");
    let health = run.get("/healthz");
    assert!(health.ends_with("draining\n"), "{health}");
    slow.write_all(b"\r\n").unwrap();
    let mut answer = String::new();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("/slow"), "{answer}");
    let (status, out) = run.end();
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status, Some(0));
    let kinds: Vec<_> = (0..2)
        .map(|at| json["fronts"][at]["kind"].as_str())
        .collect();
    assert_eq!(kinds, [Some("sip"), Some("http")]);
}
