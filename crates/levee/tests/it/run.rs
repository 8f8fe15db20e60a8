use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Stdio};

use super::levee;
use super::running::{PATIENCE, Running};

/// A running front and the server that it protects.
struct Run {
    running: Running,
    front: String,
    server: UdpSocket,
}

impl std::ops::Deref for Run {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.running
    }
}

fn config(server: &UdpSocket, capacity: u32, drain: &str) -> String {
    format!(
        r#"drain = "{drain}"
log.format = "json"
admin.listen = "127.0.0.1:0"
[[sip]]
name = "office"
listen = ["udp:127.0.0.1:0"]
server = "udp:{}"
capacity = {capacity}
record.path = "{{folder}}/events.jsonl"
[sip.defense]
kind = "seven"
drop_factor.mean_call = "2m"
"#,
        server.local_addr().unwrap()
    )
}

impl Run {
    fn start(drain: &str) -> Self {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let running = Running::start(&config(&server, 24, drain), 1, |_| ());
        let front = running.listens[0].strip_prefix("udp:").unwrap().to_owned();
        Run {
            running,
            front,
            server,
        }
    }

    /// Sends an INVITE through the front and waits until the server has it.
    fn call(&self) -> UdpSocket {
        let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
        caller.set_read_timeout(Some(PATIENCE)).unwrap();
        let (from, to) = (
            caller.local_addr().unwrap(),
            self.server.local_addr().unwrap(),
        );
        let invite = format!(
            "INVITE sip:bob@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKcall;rport\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@{from}>;tag=a\r\nTo: <sip:bob@{to}>\r\nCall-ID: one@{from}\r\nCSeq: 1 INVITE\r\n\
             Contact: <sip:alice@{from}>\r\nContent-Length: 0\r\n\r\n"
        );
        caller.send_to(invite.as_bytes(), &self.front).unwrap();
        let mut buffer = [0; 65_535];
        let (bytes, _) = self.server.recv_from(&mut buffer).unwrap();
        let arrived = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
        assert!(arrived.starts_with("INVITE sip:bob@"), "{arrived}");
        caller
    }
}

#[test]
fn a_front_serves_calls_and_metrics_and_stops_when_told() {
    let run = Run::start("0s");
    assert!(run.get("/healthz").starts_with("HTTP/1.1 200"));
    assert_eq!(
        run.metric("levee_sip_arrivals_total{front=\"office\"}"),
        0.0
    );
    run.call();
    assert_eq!(
        run.metric("levee_sip_arrivals_total{front=\"office\"}"),
        1.0
    );
    assert_eq!(
        run.metric("levee_sip_calls{front=\"office\",state=\"waiting\"}"),
        1.0
    );
    let recording = run.config.with_file_name("events.jsonl");
    run.signal("-TERM");
    run.log("stopped");
    let replayed = super::finished(levee().arg("replay").arg(&recording));
    let (status, out) = run.running.end();
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(status, Some(0));
    assert_eq!(
        (&json["command"], &json["fronts"][0]["name"]),
        (&"run".into(), &"office".into())
    );
    assert_eq!(json["fronts"][0]["forwarded"], 1);
    assert_eq!(replayed.0, 0, "{replayed:?}");
    assert!(
        replayed.1.contains("same verdicts: ") && !replayed.1.contains("killed"),
        "{replayed:?}"
    );
}

#[test]
fn a_stop_waits_for_held_calls_until_a_second_signal() {
    let run = Run::start("1h");
    run.call();
    run.signal("-INT");
    run.log("stopping");
    let health = run.get("/healthz");
    assert!(
        health.starts_with("HTTP/1.1 503") && health.ends_with("draining\n"),
        "{health}"
    );
    run.signal("-INT");
    run.log("stopped at once");
    assert_eq!(run.running.end().0, Some(0));
}

#[test]
fn a_reload_takes_a_good_file_and_refuses_a_bad_one() {
    let run = Run::start("0s");
    let capacity = "levee_sip_capacity{front=\"office\"}";
    run.call();
    run.write(&config(&run.server, 48, "0s"));
    run.signal("-HUP");
    run.log("reloaded");
    assert_eq!(run.metric(capacity), 48.0);

    for (text, says) in [
        (config(&run.server, 0, "0s"), "sip[0].capacity"),
        (
            config(&run.server, 7, "0s").replace("office", "home"),
            "cannot be added, taken out or renamed",
        ),
        (
            config(&run.server, 7, "0s").replace(
                "listen = [\"udp:127.0.0.1:0\"]",
                "listen = [\"udp:127.0.0.2:0\"]",
            ),
            "`listen`",
        ),
        (
            config(&run.server, 7, "0s").replace("json", "text"),
            "log.format",
        ),
    ] {
        run.write(&text);
        run.signal("-HUP");
        let line = run.log("the old configuration goes on");
        assert!(line["message"].as_str().unwrap().contains(says), "{line}");
        assert_eq!(run.metric(capacity), 48.0);
    }
    // The call that was held before is held still.
    assert_eq!(
        run.metric("levee_sip_calls{front=\"office\",state=\"waiting\"}"),
        1.0
    );
    run.signal("-TERM");
    assert_eq!(run.running.end().0, Some(0));
}

#[test]
fn an_address_that_is_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let path = folder.path().join("levee.toml");
    let address = taken.local_addr().unwrap();
    let text = config(&server, 1, "0s").replace("udp:127.0.0.1:0", &format!("udp:{address}"));
    fs::write(
        &path,
        text.replace("{folder}", &folder.path().display().to_string()),
    )
    .unwrap();
    let (status, out, error) = super::finished(levee().args(["run", "--quiet"]).arg(&path));
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(
        error.contains(&format!(
            "levee: front `office`: cannot listen on udp:{address}"
        )),
        "{error}"
    );
}

#[test]
fn logs_that_nobody_reads_hold_up_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("levee.toml");
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let text = config(&server, 1, "0s")
        .replace("seven", "refuse")
        .replace("{folder}", &folder.path().display().to_string());
    fs::write(&path, text).unwrap();
    let child = levee()
        .args(["run", "-vv"])
        .arg(&path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A front that hangs must not outlive a test that fails.
    let mut child = Ended(child);
    let mut stderr = BufReader::new(child.0.stderr.take().unwrap());
    let mut listens = || loop {
        let mut line = String::new();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it has ended");
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        if let Some(at) = json["listen"].as_str() {
            return at.trim_start_matches("udp:").to_owned();
        }
    };
    let (front, _admin) = (listens(), listens());
    // From here on nobody reads. A pipe holds 64 KiB; each refusal is logged at this level, and sent all the same.
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    let local = caller.local_addr().unwrap();
    let mut answer = [0; 2_048];
    for n in 0..2_000 {
        let request = format!(
            "INVITE sip:b@{front} SIP/2.0\r\nVia: SIP/2.0/UDP {local};branch=z9hG4bK{n};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:a@{local}>;tag=1\r\nTo: <sip:{front}>\r\nCall-ID: {n}\r\nCSeq: 1 INVITE\r\nContact: <sip:a@{local}>\r\nContent-Length: 0\r\n\r\n"
        );
        caller.send_to(request.as_bytes(), &front).unwrap();
        let n = caller.recv(&mut answer).unwrap();
        assert!(answer[..n].starts_with(b"SIP/2.0 "));
    }
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
