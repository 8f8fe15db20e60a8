//! A SIP front in a world without sockets and with a clock that we turn.

use std::net::SocketAddr;
use std::time::Duration;

use levee_policy::Time;
use levee_policy::selective::{Config, Kind, Strategy};
use levee_proxy::sip::front::{Front, Input, Output};
use levee_proxy::sip::settings::{Listen, SipSettings};
use levee_proxy::sip::{Flow, PortId, Snapshot};

pub(crate) const PROXY: &str = "10.0.0.1:5060";
pub(crate) const SERVER: &str = "10.0.0.5:5060";
pub(crate) const ALICE: &str = "192.0.2.10:5062";
pub(crate) const BOB: &str = "192.0.2.20:5064";

/// A message that the front sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) to: String,
    pub(crate) text: String,
}

impl Sent {
    /// The start line.
    pub(crate) fn first(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    /// The values of a header, in order.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let prefix = format!("{name}: ");
        self.text
            .lines()
            .filter_map(|l| l.strip_prefix(prefix.as_str()))
            .collect()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.all(name)
            .first()
            .copied()
            .unwrap_or_else(|| panic!("no {name} in {}", self.text))
    }
}

pub(crate) struct World {
    pub(crate) front: Front,
    pub(crate) now: Duration,
    /// The transaction of the last request that was sent.
    pub(crate) last_txn: u64,
}

/// Settings of a front on [`PROXY`] before [`SERVER`].
pub(crate) fn settings(capacity: u32, defense: Config) -> SipSettings {
    let listen = vec![Listen::udp(PROXY.parse().unwrap())];
    let mut s = SipSettings::new(
        "test",
        listen,
        Listen::udp(SERVER.parse().unwrap()),
        capacity,
        defense,
    );
    s.session.expires = None;
    s
}

/// SeVen that drops a victim drawn uniformly.
pub(crate) fn seven() -> Config {
    Config {
        strategy: Strategy::Uniform,
        ..Config::default()
    }
}

pub(crate) fn refuse() -> Config {
    Config::of_kind(Kind::Refuse)
}

impl World {
    pub(crate) fn new(settings: SipSettings) -> Self {
        let bound = settings
            .listen
            .iter()
            .chain(&settings.inside)
            .copied()
            .collect::<Vec<_>>();
        let front = Front::new(settings, &bound, [9; 16], 1).unwrap();
        Self {
            front,
            now: Duration::ZERO,
            last_txn: 0,
        }
    }

    pub(crate) fn of(capacity: u32, defense: Config) -> Self {
        Self::new(settings(capacity, defense))
    }

    fn time(&self) -> Time {
        Time::from_nanos(u64::try_from(self.now.as_nanos()).unwrap())
    }

    /// A message comes on the first port; what it makes the front send.
    pub(crate) fn send(&mut self, from: &str, text: impl AsRef<[u8]>) -> Vec<Sent> {
        self.send_on(0, from, text)
    }

    /// A message comes on a given port.
    pub(crate) fn send_on(&mut self, port: u16, from: &str, text: impl AsRef<[u8]>) -> Vec<Sent> {
        let flow = Flow {
            port: PortId(port),
            peer: from.parse().unwrap(),
            conn: None,
        };
        self.front.handle(
            self.time(),
            Input::Message {
                flow,
                bytes: text.as_ref(),
            },
        );
        self.drain()
    }

    pub(crate) fn handle(&mut self, input: Input<'_>) -> Vec<Sent> {
        self.front.handle(self.time(), input);
        self.drain()
    }

    fn drain(&mut self) -> Vec<Sent> {
        let mut out = Vec::new();
        while let Some(output) = self.front.poll_output() {
            match output {
                Output::Send { flow, bytes, txn } => {
                    if txn != 0 {
                        self.last_txn = txn;
                    }
                    out.push(Sent {
                        to: flow.peer.to_string(),
                        text: String::from_utf8_lossy(&bytes).into_owned(),
                    });
                }
                Output::Resolve { host } => out.push(Sent {
                    to: "resolver".into(),
                    text: host,
                }),
            }
        }
        out
    }

    /// Lets time pass, and keeps every deadline in it.
    pub(crate) fn advance(&mut self, by: Duration) -> Vec<Sent> {
        let end = self.now + by;
        let mut out = Vec::new();
        while let Some(at) = self.front.deadline() {
            let at = Duration::from_nanos(at.as_nanos());
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            self.front.handle_deadline(self.time());
            out.extend(self.drain());
        }
        self.now = end;
        out
    }

    pub(crate) fn ms(&mut self, ms: u64) -> Vec<Sent> {
        self.advance(Duration::from_millis(ms))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.front.snapshot()
    }

    /// Sets up a call from [`ALICE`] through the server up to its ACK.
    pub(crate) fn call(&mut self, id: &str) -> Call {
        let mut call = Call::new(id);
        let down = self.send(ALICE, call.invite());
        call.at_server = only(&down, "INVITE").clone();
        let up = self.send(SERVER, call.answer(200, "OK", "b1"));
        assert_eq!(only(&up, "SIP/2.0 200").to, ALICE);
        let ack = self.send(ALICE, call.ack("b1"));
        assert_eq!(only(&ack, "ACK").to, SERVER);
        call
    }
}

/// The one message whose start line begins so.
pub(crate) fn only<'a>(sent: &'a [Sent], start: &str) -> &'a Sent {
    let mut found = sent.iter().filter(|s| s.text.starts_with(start));
    let one = found
        .next()
        .unwrap_or_else(|| panic!("no {start} in {sent:#?}"));
    assert_eq!(found.next(), None, "more than one {start} in {sent:#?}");
    one
}

/// The start lines, for a look at the whole.
pub(crate) fn firsts(sent: &[Sent]) -> Vec<String> {
    sent.iter()
        .map(|s| format!("{} > {}", s.first(), s.to))
        .collect()
}

/// A call of [`ALICE`] as its two ends see it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    /// The INVITE as the server got it.
    pub(crate) at_server: Sent,
    pub(crate) to: String,
    pub(crate) extra: String,
}

impl Call {
    pub(crate) fn new(id: &str) -> Self {
        let at_server = Sent {
            to: String::new(),
            text: String::new(),
        };
        Self {
            id: id.into(),
            at_server,
            to: "bob".into(),
            extra: String::new(),
        }
    }

    fn request(
        &self,
        method: &str,
        uri: &str,
        branch: &str,
        cseq: u32,
        to_tag: &str,
        extra: &str,
    ) -> String {
        let tag = if to_tag.is_empty() {
            String::new()
        } else {
            format!(";tag={to_tag}")
        };
        format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {ALICE};rport;branch=z9hG4bK{branch}-{id}\r\n\
             Max-Forwards: 70\r\nFrom: Alice <sip:alice@example.org>;tag=a-{id}\r\n\
             To: <sip:{to}@example.org>{tag}\r\nCall-ID: {id}\r\nCSeq: {cseq} {method}\r\n\
             Contact: <sip:alice@{ALICE}>\r\n{extra}Content-Length: 0\r\n\r\n",
            id = self.id,
            to = self.to,
        )
    }

    pub(crate) fn invite(&self) -> String {
        self.request(
            "INVITE",
            &format!("sip:{}@example.org", self.to),
            "i",
            1,
            "",
            &self.extra,
        )
    }

    /// The hop-by-hop ACK of an answer other than 2xx.
    pub(crate) fn hop_ack(&self) -> String {
        self.request(
            "ACK",
            &format!("sip:{}@example.org", self.to),
            "i",
            1,
            "x",
            "",
        )
    }

    pub(crate) fn cancel(&self) -> String {
        self.request(
            "CANCEL",
            &format!("sip:{}@example.org", self.to),
            "i",
            1,
            "",
            "",
        )
    }

    /// A request of the caller inside the dialog with the tag `to_tag`, by the route that our Record-Route gave.
    pub(crate) fn inside(&self, method: &str, cseq: u32, to_tag: &str) -> String {
        let route = format!("Route: <sip:{PROXY};lr>\r\n");
        let branch = format!("{method}{cseq}{to_tag}");
        self.request(
            method,
            &format!("sip:bob@{SERVER}"),
            &branch,
            cseq,
            to_tag,
            &route,
        )
    }

    pub(crate) fn ack(&self, to_tag: &str) -> String {
        self.inside("ACK", 1, to_tag)
    }

    pub(crate) fn bye(&self, to_tag: &str) -> String {
        self.inside("BYE", 2, to_tag)
    }

    /// The server's answer to the INVITE that reached it.
    pub(crate) fn answer(&self, code: u16, reason: &str, tag: &str) -> String {
        answer(
            &self.at_server,
            code,
            reason,
            tag,
            &format!("Contact: <sip:bob@{SERVER}>\r\n"),
        )
    }
}

/// An answer to a request as its receiver would write it.
pub(crate) fn answer(request: &Sent, code: u16, reason: &str, tag: &str, extra: &str) -> String {
    let mut out = format!("SIP/2.0 {code} {reason}\r\n");
    for line in request.text.lines() {
        let copied = ["Via: ", "Record-Route: ", "From: ", "Call-ID: ", "CSeq: "];
        if copied.iter().any(|c| line.starts_with(c)) {
            out += &format!("{line}\r\n");
        } else if line.starts_with("To: ") {
            let tag = if line.contains("tag=") || tag.is_empty() {
                String::new()
            } else {
                format!(";tag={tag}")
            };
            out += &format!("{line}{tag}\r\n");
        }
    }
    out + extra + "Content-Length: 0\r\n\r\n"
}

pub(crate) fn ok(request: &Sent) -> String {
    answer(request, 200, "OK", "", "")
}

/// Parses what we wrote as an address, to say where it is wrong.
pub(crate) fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}
