//! What an operator does with a front: certificates, load balancers before it, its access log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use levee_proxy::http::ReloadError;
use levee_proxy::http::settings::{
    AccessLogFormat, AccessLogSettings, CertificateFiles, Listen, ProxyProtocol, TlsSettings,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::http_world::{World, get, header, within};

/// Writes a new certificate for `a.example` and its key.
pub(crate) fn certificate(files: &CertificateFiles) {
    let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
    std::fs::write(&files.certificate, made.cert.pem()).unwrap();
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
}

pub(crate) fn files(folder: &Path) -> CertificateFiles {
    CertificateFiles {
        certificate: folder.join("cert.pem"),
        key: folder.join("key.pem"),
    }
}

pub(crate) async fn with_tls(files: &CertificateFiles) -> World {
    let certificates = vec![files.clone()];
    World::with(|settings| {
        settings.listen = vec![Listen::tls("127.0.0.1:0".parse().unwrap())];
        settings.tls = Some(TlsSettings { certificates });
        settings.timeouts.tls_handshake = Duration::from_millis(300);
    })
    .await
}

/// A GET over TLS by a client that trusts this certificate alone.
async fn get_trusting(world: &World, certificate: &[u8]) -> Result<String, String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(certificate).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("a.example").unwrap();
    let stream = TcpStream::connect(world.addr()).await.unwrap();
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let mut stream = connected.await.map_err(|error| error.to_string())?;
    let request = get("/").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within("an answer", stream.read_to_string(&mut answer))
        .await
        .unwrap();
    Ok(answer)
}

#[tokio::test]
async fn a_reload_shows_the_new_certificate_and_a_bad_one_keeps_the_old() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    certificate(&files);
    let old = std::fs::read(&files.certificate).unwrap();
    let world = with_tls(&files).await;
    let answer = get_trusting(&world, &old).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");

    certificate(&files);
    let new = std::fs::read(&files.certificate).unwrap();
    // Nothing changes until it is told.
    get_trusting(&world, &old).await.unwrap();
    world.front.reload(world.settings.clone()).unwrap();
    get_trusting(&world, &new).await.unwrap();
    get_trusting(&world, &old).await.unwrap_err();

    std::fs::write(&files.key, "no key").unwrap();
    let error = world.front.reload(world.settings.clone()).unwrap_err();
    let ReloadError::Tls(error) = error else {
        panic!("{error}")
    };
    assert!(
        error.to_string().contains("key.pem: it has no `BEGIN"),
        "{error}"
    );
    get_trusting(&world, &new).await.unwrap();
    let seen = world.seen.requests();
    let forwarded = header(&seen[0], "x-forwarded-proto");
    assert_eq!(forwarded, Some("https"), "{}", seen[0]);
    assert_eq!(world.front.snapshot().await.traffic.handshakes, 4);
}

#[tokio::test]
async fn a_client_that_does_not_shake_hands_is_cut_in_time_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    certificate(&files);
    let world = with_tls(&files).await;
    let mut silent = world.connect().await;
    let mut plain = world.connect().await;
    plain.send(get("/")).await;
    plain.rest().await;
    silent.rest().await;
    let traffic = world.front.snapshot().await.traffic;
    let cut: u64 = traffic.cut.values().sum();
    assert_eq!(cut + traffic.timed_out.sum(), 2, "{traffic:?}");
    assert_eq!(traffic.cut.get("tls_failed"), Some(&1), "{traffic:?}");
    assert!(world.seen.requests().is_empty());
}

fn behind_balancer(settings: &mut levee_proxy::http::settings::HttpSettings) {
    settings.forwarded.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    settings.forwarded.proxy_protocol = ProxyProtocol::Any;
}

#[tokio::test]
async fn a_load_balancer_of_ours_names_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLogSettings {
        path: path.clone(),
        format: AccessLogFormat::Json,
    };
    let world = World::with(|settings| {
        behind_balancer(settings);
        settings.access_log = Some(log);
    })
    .await;
    let v1 = "PROXY TCP4 203.0.113.7 127.0.0.1 5000 80\r\n";
    let answer = world.ask(&format!("{v1}{}", get("/"))).await;
    assert_eq!(answer.status, 200);
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    v2.extend([198, 51, 100, 9, 127, 0, 0, 1, 0x13, 0x88, 0, 80]);
    v2.extend(get("/").as_bytes());
    let mut wire = world.connect().await;
    wire.send(&v2).await;
    assert_eq!(wire.answer().await.status, 200);
    let seen = world.seen.requests();
    for (request, client) in seen.iter().zip(["203.0.113.7", "198.51.100.9"]) {
        assert_eq!(
            header(request, "x-forwarded-for"),
            Some(client),
            "{request}"
        );
    }
    // Who is trusted and sends none is cut.
    let mut without = world.connect().await;
    without.send(get("/")).await;
    assert_eq!(without.rest().await, "");
    let numbers = world.front.stop(Duration::ZERO).await;
    assert_eq!(numbers.traffic.cut.get("proxy_header"), Some(&1));
    let text = std::fs::read_to_string(&path).unwrap();
    let clients: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["client"].clone())
        .collect();
    assert_eq!(clients, ["203.0.113.7", "198.51.100.9"], "{text}");
}

#[tokio::test]
async fn a_stranger_names_nobody() {
    let world = World::with(|settings| {
        behind_balancer(settings);
        settings.forwarded.trusted = vec!["192.0.2.0/24".parse().unwrap()];
    })
    .await;
    let v1 = "PROXY TCP4 203.0.113.7 127.0.0.1 5000 80\r\n";
    let answer = world.ask(&format!("{v1}{}", get("/"))).await;
    assert_eq!(answer.status, 400);
    let claims = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\nForwarded: for=203.0.113.7\r\n\r\n";
    assert_eq!(world.ask(claims).await.status, 200);
    let seen = world.seen.requests();
    assert_eq!(seen.len(), 1);
    assert!(!seen[0].contains("203.0.113.7"), "{}", seen[0]);
    assert_eq!(header(&seen[0], "x-forwarded-for"), Some("127.0.0.1"));
}

#[tokio::test]
async fn every_request_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let log = AccessLogSettings {
        path: path.clone(),
        format: AccessLogFormat::Combined,
    };
    let world = World::with(|settings| settings.access_log = Some(log)).await;
    for request in [
        "GET /a HTTP/1.1\r\nHost: a\r\nReferer: http://b/\r\nUser-Agent: x\"y\r\n\r\n",
        "GET /no-host HTTP/1.1\r\n\r\n",
        "GET /garbage HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        world.ask(request).await;
    }
    let numbers = world.front.stop(Duration::ZERO).await;
    assert_eq!(numbers.access_log_lost, 0);
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines[0].ends_with("\"GET /a HTTP/1.1\" 200 2 \"http://b/\" \"x\\x22y\""),
        "{text}"
    );
    assert!(lines[1].contains(" 400 "), "{text}");
    assert!(
        lines[2].contains("\"GET /garbage HTTP/1.1\" 502 "),
        "{text}"
    );
}

/// A worker that has nothing left ends at once; the front is told of until the last one has.
#[tokio::test]
async fn a_front_that_drains_is_told_of_until_its_last_worker_has_ended() {
    let world = World::with(|settings| settings.workers = 4).await;
    for _ in 0..8 {
        assert_eq!(world.get("/").await.status, 200);
    }
    let mut slow = world.connect().await;
    slow.send(get("/when-told")).await;
    within("the request", async {
        while world.seen.requests().len() < 9 {
            world.seen.came.notified().await;
        }
    })
    .await;
    let watch = world.front.watch();
    let stop = tokio::spawn(world.front.stop(Duration::from_secs(10)));
    let draining = async {
        loop {
            let numbers = watch.snapshot().await.expect("it drains still");
            if numbers.draining {
                return numbers;
            }
        }
    };
    let numbers = within("the drain", draining).await;
    assert_eq!(numbers.traffic.requests_h1, 9);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(watch.snapshot().await.unwrap().traffic.requests_h1, 9);
    world.seen.go.one();
    assert_eq!(slow.answer().await.body, "told");
    assert_eq!(stop.await.unwrap().traffic.requests_h1, 9);
    assert!(watch.snapshot().await.is_none());
}
