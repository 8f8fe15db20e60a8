//! The front on real sockets over loopback.

use std::net::SocketAddr;
use std::time::Duration;

use levee_policy::selective::{Config, Kind};
use levee_proxy::recorder;
use levee_proxy::recorder::RecordSettings;
use levee_proxy::sip::settings::{Listen, SipSettings, Transport};
use levee_proxy::sip::{ReloadError, Running, StartError, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::time::timeout;

/// Longer than anything here takes, so that a failure ends.
const PATIENCE: Duration = Duration::from_secs(10);

fn local(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A message read from a UDP socket, with its sender.
async fn read(socket: &UdpSocket) -> (String, SocketAddr) {
    let mut buffer = vec![0; 65_535];
    let (n, peer) = timeout(PATIENCE, socket.recv_from(&mut buffer))
        .await
        .unwrap()
        .unwrap();
    (String::from_utf8_lossy(&buffer[..n]).into_owned(), peer)
}

/// The next message that begins so.
async fn read_until(socket: &UdpSocket, start: &str) -> String {
    loop {
        let (text, _) = read(socket).await;
        if text.starts_with(start) {
            return text;
        }
    }
}

async fn read_stream(stream: &mut TcpStream, start: &str) -> String {
    let mut all = String::new();
    let mut buffer = vec![0; 65_535];
    loop {
        let n = timeout(PATIENCE, stream.read(&mut buffer))
            .await
            .unwrap()
            .unwrap();
        assert!(n > 0, "closed after {all}");
        all += &String::from_utf8_lossy(&buffer[..n]);
        if let Some(at) = all.find(start)
            && all[at..].contains("\r\n\r\n")
        {
            return all[at..].to_owned();
        }
    }
}

/// Reads the answer to a keep-alive (RFC 5626 section 4.4.1).
async fn pong(stream: &mut TcpStream) {
    let mut two = [0; 2];
    timeout(PATIENCE, stream.read_exact(&mut two))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&two, b"\r\n");
}

fn request(method: &str, via: &str, id: &str, cseq: u32, to_tag: &str) -> String {
    let to_tag = if to_tag.is_empty() {
        String::new()
    } else {
        format!(";tag={to_tag}")
    };
    format!(
        "{method} sip:bob@example.org SIP/2.0\r\nVia: SIP/2.0/{via};rport;branch=z9hG4bK{id}{method}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.org>;tag=a\r\nTo: <sip:bob@example.org>{to_tag}\r\n\
         Call-ID: {id}\r\nCSeq: {cseq} {method}\r\nContact: <sip:alice@127.0.0.1:9>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn answer(request: &str, code: &str, extra: &str) -> String {
    let mut out = format!("SIP/2.0 {code}\r\n");
    for line in request.lines() {
        if ["Via: ", "Record-Route: ", "From: ", "Call-ID: ", "CSeq: "]
            .iter()
            .any(|p| line.starts_with(p))
        {
            out += &format!("{line}\r\n");
        } else if line.starts_with("To: ") {
            let tag = if line.contains("tag=") { "" } else { ";tag=b" };
            out += &format!("{line}{tag}\r\n");
        }
    }
    out + extra + "Content-Length: 0\r\n\r\n"
}

struct Scene {
    front: Running,
    server: UdpSocket,
}

impl Scene {
    async fn new(change: impl FnOnce(&mut SipSettings)) -> Self {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = Listen::udp(server.local_addr().unwrap());
        let listen = vec![
            Listen::udp(local("127.0.0.1:0")),
            Listen::tcp(local("127.0.0.1:0")),
        ];
        let mut settings = SipSettings::new("live", listen, to, 1, Config::of_kind(Kind::Refuse));
        settings.seed = 5;
        change(&mut settings);
        Self {
            front: start(settings).await.unwrap(),
            server,
        }
    }

    fn at(&self, transport: Transport) -> SocketAddr {
        self.front
            .addrs()
            .iter()
            .find(|l| l.transport == transport)
            .unwrap()
            .addr
    }

    async fn answer_as_server(&self, request: &str, code: &str) {
        let contact = format!(
            "Contact: <sip:bob@{}>\r\n",
            self.server.local_addr().unwrap()
        );
        let to = self.at(Transport::Udp);
        self.server
            .send_to(answer(request, code, &contact).as_bytes(), to)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_call_over_udp() {
    let s = Scene::new(|_| {}).await;
    let alice = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let via = format!("UDP {}", alice.local_addr().unwrap());
    let proxy = s.at(Transport::Udp);
    alice
        .send_to(request("INVITE", &via, "u1", 1, "").as_bytes(), proxy)
        .await
        .unwrap();
    read_until(&alice, "SIP/2.0 100").await;
    let invite = read_until(&s.server, "INVITE").await;
    s.answer_as_server(&invite, "200 OK").await;
    read_until(&alice, "SIP/2.0 200").await;
    alice
        .send_to(request("ACK", &via, "u1", 1, "b").as_bytes(), proxy)
        .await
        .unwrap();
    read_until(&s.server, "ACK").await;
    assert_eq!(s.front.snapshot().await.held_in_call, 1);
    // The place is taken.
    alice
        .send_to(request("INVITE", &via, "u2", 1, "").as_bytes(), proxy)
        .await
        .unwrap();
    assert!(
        read_until(&alice, "SIP/2.0 503")
            .await
            .contains("Retry-After: 5\r\n")
    );
    alice
        .send_to(request("BYE", &via, "u1", 2, "b").as_bytes(), proxy)
        .await
        .unwrap();
    let bye = read_until(&s.server, "BYE").await;
    s.answer_as_server(&bye, "200 OK").await;
    read_until(&alice, "SIP/2.0 200").await;
    let end = s.front.stop(PATIENCE).await;
    assert_eq!((end.completed, end.held(), end.refused["full"]), (1, 0, 1));
    assert!(end.latency.counts.iter().sum::<u64>() >= 6);
}

#[tokio::test]
async fn a_caller_on_tcp_and_a_server_on_udp() {
    let s = Scene::new(|_| {}).await;
    let mut alice = TcpStream::connect(s.at(Transport::Tcp)).await.unwrap();
    let via = format!("TCP {}", alice.local_addr().unwrap());
    // In pieces, with keep-alives before it.
    let invite = request("INVITE", &via, "t1", 1, "");
    alice.write_all(b"\r\n\r\n").await.unwrap();
    pong(&mut alice).await;
    for piece in invite.as_bytes().chunks(97) {
        alice.write_all(piece).await.unwrap();
        alice.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    let at_server = read_until(&s.server, "INVITE").await;
    let record_routes: Vec<_> = at_server
        .lines()
        .filter(|l| l.starts_with("Record-Route"))
        .collect();
    assert_eq!(record_routes.len(), 2, "{at_server}");
    assert!(record_routes[1].contains(";transport=tcp;lr"));
    s.answer_as_server(&at_server, "200 OK").await;
    read_stream(&mut alice, "SIP/2.0 200").await;
    alice
        .write_all(request("ACK", &via, "t1", 1, "b").as_bytes())
        .await
        .unwrap();
    read_until(&s.server, "ACK").await;
    // The server hangs up: over the caller's own connection, whatever its Contact says.
    let bye = format!(
        "BYE sip:alice@127.0.0.1:9;transport=tcp SIP/2.0\r\nVia: SIP/2.0/UDP {};branch=z9hG4bKsb\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.org>;tag=b\r\nTo: <sip:alice@example.org>;tag=a\r\nCall-ID: t1\r\nCSeq: 1 BYE\r\n\
         Content-Length: 0\r\n\r\n",
        s.server.local_addr().unwrap()
    );
    s.server
        .send_to(bye.as_bytes(), s.at(Transport::Udp))
        .await
        .unwrap();
    let got = read_stream(&mut alice, "BYE").await;
    alice
        .write_all(answer(&got, "200 OK", "").as_bytes())
        .await
        .unwrap();
    read_until(&s.server, "SIP/2.0 200").await;
    let end = s.front.stop(PATIENCE).await;
    assert_eq!((end.completed, end.held()), (1, 0));
}

#[tokio::test]
async fn a_server_on_tcp_that_is_not_there_and_one_that_is() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = gone.local_addr().unwrap();
    let s = Scene::new(|s| s.server = Listen::tcp(at)).await;
    let alice = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let via = format!("UDP {}", alice.local_addr().unwrap());
    drop(gone);
    let proxy = s.at(Transport::Udp);
    alice
        .send_to(request("INVITE", &via, "g1", 1, "").as_bytes(), proxy)
        .await
        .unwrap();
    read_until(&alice, "SIP/2.0 503").await;
    assert_eq!(s.front.snapshot().await.held(), 0);
    let back = TcpListener::bind(at).await.unwrap();
    alice
        .send_to(request("INVITE", &via, "g2", 1, "").as_bytes(), proxy)
        .await
        .unwrap();
    let (mut stream, _) = timeout(PATIENCE, back.accept()).await.unwrap().unwrap();
    let invite = read_stream(&mut stream, "INVITE").await;
    stream
        .write_all(answer(&invite, "486 Busy Here", "").as_bytes())
        .await
        .unwrap();
    read_until(&alice, "SIP/2.0 486").await;
    read_stream(&mut stream, "ACK").await;
}

#[tokio::test]
async fn ipv6_works_as_ipv4_does() {
    let Ok(server) = UdpSocket::bind("[::1]:0").await else {
        eprintln!("skipped: no IPv6 on this machine");
        return;
    };
    let to = Listen::udp(server.local_addr().unwrap());
    let settings = SipSettings::new(
        "six",
        vec![Listen::udp(local("[::1]:0"))],
        to,
        1,
        Config::of_kind(Kind::Refuse),
    );
    let front = start(settings).await.unwrap();
    let alice = UdpSocket::bind("[::1]:0").await.unwrap();
    let proxy = front.addrs()[0].addr;
    let via = format!("UDP {}", alice.local_addr().unwrap());
    alice
        .send_to(request("INVITE", &via, "v6", 1, "").as_bytes(), proxy)
        .await
        .unwrap();
    let invite = read_until(&server, "INVITE").await;
    assert!(invite.contains(&format!("Via: SIP/2.0/UDP [::1]:{};branch=", proxy.port())));
    assert!(invite.contains(&format!("Record-Route: <sip:[::1]:{};lr>", proxy.port())));
    server
        .send_to(answer(&invite, "404 Not Found", "").as_bytes(), proxy)
        .await
        .unwrap();
    read_until(&alice, "SIP/2.0 404").await;
}

#[tokio::test]
async fn connections_are_limited_and_bad_streams_closed() {
    let s = Scene::new(|s| {
        s.limits.connections_per_source_max = 2;
        s.limits.message_bytes_max = 4_000;
    })
    .await;
    let proxy = s.at(Transport::Tcp);
    let mut closed = Vec::new();
    let mut first = TcpStream::connect(proxy).await.unwrap();
    let mut second = TcpStream::connect(proxy).await.unwrap();
    first.write_all(b"\r\n\r\n").await.unwrap();
    second.write_all(b"\r\n\r\n").await.unwrap();
    pong(&mut first).await;
    pong(&mut second).await;
    let mut third = TcpStream::connect(proxy).await.unwrap();
    closed.push(
        timeout(PATIENCE, third.read(&mut [0; 10]))
            .await
            .unwrap()
            .unwrap_or(0),
    );
    // No Content-Length, and headers without end.
    let no_length =
        request("OPTIONS", "TCP 127.0.0.1:9", "x", 1, "").replace("Content-Length: 0\r\n", "");
    first.write_all(no_length.as_bytes()).await.unwrap();
    closed.push(
        timeout(PATIENCE, first.read(&mut [0; 10]))
            .await
            .unwrap()
            .unwrap_or(0),
    );
    second.write_all(&[b'a'; 5_000]).await.unwrap();
    closed.push(
        timeout(PATIENCE, second.read(&mut [0; 10]))
            .await
            .unwrap()
            .unwrap_or(0),
    );
    assert_eq!(closed, [0, 0, 0]);
    let end = s.front.stop(Duration::ZERO).await;
    assert_eq!(end.dropped["connections_of_source_full"], 1);
    assert_eq!(end.dropped["stream_unreadable"], 2);
}

#[tokio::test]
async fn garbage_is_counted_and_hurts_nobody() {
    let s = Scene::new(|_| {}).await;
    let alice = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let proxy = s.at(Transport::Udp);
    for bytes in [&b""[..], b"\0", b"\r\n\r\n", b"INVITE", &[0xff; 2000]] {
        alice.send_to(bytes, proxy).await.unwrap();
    }
    let via = format!("UDP {}", alice.local_addr().unwrap());
    alice
        .send_to(request("OPTIONS", &via, "after", 1, "").as_bytes(), proxy)
        .await
        .unwrap();
    read_until(&s.server, "OPTIONS").await;
    let end = s.front.stop(Duration::ZERO).await;
    assert_eq!(end.messages_in, 6);
    assert_eq!(end.dropped.values().sum::<u64>(), 5, "{:?}", end.dropped);
}

#[tokio::test]
async fn a_reload_is_taken_or_refused_as_a_whole() {
    let s = Scene::new(|_| {}).await;
    let again = |change: fn(&mut SipSettings)| {
        let mut new = SipSettings::new(
            "live",
            vec![
                Listen::udp(local("127.0.0.1:0")),
                Listen::tcp(local("127.0.0.1:0")),
            ],
            Listen::udp(s.server.local_addr().unwrap()),
            2,
            Config::default(),
        );
        new.seed = 5;
        change(&mut new);
        new
    };
    let fixed = s.front.reload(again(|n| n.listen.clear())).await;
    assert_eq!(fixed, Err(ReloadError::Fixed("listen")));
    assert!(matches!(
        s.front.reload(again(|n| n.capacity = 0)).await,
        Err(ReloadError::Defense(_))
    ));
    assert_eq!(s.front.snapshot().await.capacity, 1);
    s.front.reload(again(|_| {})).await.unwrap();
    assert_eq!(s.front.snapshot().await.capacity, 2);
}

#[tokio::test]
async fn a_live_recording_replays_to_the_same_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.jsonl");
    let record = RecordSettings {
        path: path.clone(),
        bytes_max: 1 << 20,
        files: 2,
    };
    let s = Scene::new(|s| {
        s.record = Some(record);
        s.defense = Config::default();
        s.capacity = 2;
    })
    .await;
    let alice = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let via = format!("UDP {}", alice.local_addr().unwrap());
    let proxy = s.at(Transport::Udp);
    for i in 0..40 {
        let invite = request("INVITE", &via, &format!("r{i}"), 1, "");
        alice.send_to(invite.as_bytes(), proxy).await.unwrap();
        let id = format!("Call-ID: r{i}\r\n");
        while !read_until(&alice, "SIP/2.0 ").await.contains(&id) {}
    }
    s.front.stop(Duration::ZERO).await;
    let replayed = recorder::replay_file(&path).unwrap();
    assert!(replayed.first_difference.is_none(), "{replayed:?}");
    assert!(replayed.inputs >= 40, "{replayed:?}");
}

#[tokio::test]
async fn a_front_that_cannot_start_says_why() {
    let taken = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let at = taken.local_addr().unwrap();
    let server = Listen::udp(local("127.0.0.1:5080"));
    let with = |listen: Listen| SipSettings::new("x", vec![listen], server, 1, Config::default());
    assert!(matches!(
        start(with(Listen::udp(at))).await,
        Err(StartError::Bind { .. })
    ));
    let all = with(Listen::udp(local("0.0.0.0:0")));
    assert!(matches!(start(all).await, Err(StartError::NoName { .. })));
    let other = with(Listen::tcp(local("127.0.0.1:0")));
    assert!(matches!(
        start(other).await,
        Err(StartError::ServerOutOfReach { .. })
    ));
}

#[tokio::test]
async fn a_front_that_stopped_has_left_its_ports_and_closed_its_connections() {
    let s = Scene::new(|_| {}).await;
    let proxy = s.at(Transport::Tcp);
    let mut alice = TcpStream::connect(proxy).await.unwrap();
    alice.write_all(b"\r\n\r\n").await.unwrap();
    pong(&mut alice).await;
    s.front.stop(Duration::ZERO).await;
    let closed = timeout(PATIENCE, alice.read(&mut [0; 10])).await.unwrap();
    assert_eq!(closed.unwrap_or(0), 0);
    let free = timeout(PATIENCE, async {
        while TcpListener::bind(proxy).await.is_err() {
            tokio::task::yield_now().await;
        }
    });
    free.await.unwrap();
}

#[tokio::test]
async fn a_message_that_drips_in_loses_its_connection() {
    let s = Scene::new(|s| s.timers.t1 = Duration::from_millis(50)).await;
    let mut eve = TcpStream::connect(s.at(Transport::Tcp)).await.unwrap();
    let begun = tokio::time::Instant::now();
    let dripped = async {
        loop {
            if eve.write_all(b"I").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    timeout(PATIENCE, dripped).await.unwrap();
    assert!(
        begun.elapsed() >= Duration::from_millis(3_200),
        "{:?}",
        begun.elapsed()
    );
    let end = s.front.stop(Duration::ZERO).await;
    assert_eq!(end.dropped["stream_too_slow"], 1);
}
