//! The heads that are sent on, byte by byte.

use levee_http::edit::{self, Connection, ForwardRequest, ForwardResponse, Hop, Told};
use levee_http::forwarded::{Source, origin};
use levee_http::request::{self, Method};
use levee_http::{Limits, Parsed, response};

const ALL: Told = Told {
    x_forwarded: true,
    forwarded: true,
    x_real_ip: true,
};

/// `text` as it is sent on; addresses in 10.0.0.0/8 are trusted hops.
fn forward(text: &str, peer: &str, source: Source, told: Told) -> String {
    let Ok(Parsed::Complete { head, .. }) =
        request::Head::parse(text.as_bytes(), &Limits::default())
    else {
        panic!("{text:?} is good");
    };
    let trusted = |a: std::net::IpAddr| a.to_string().starts_with("10.");
    let peer = peer.parse().unwrap();
    let hop = Hop::new(peer, false, trusted(peer).then_some(source), told);
    let request = head.on(text.as_bytes());
    let mut out = Vec::new();
    edit::request(
        &mut out,
        request,
        &ForwardRequest {
            hop: &hop,
            origin: origin(request.fields(), peer, source, trusted),
            target: None,
            host: None,
            framing: head.framing(),
            connection: if head.websocket() {
                Connection::WebSocket
            } else {
                Connection::Persistent
            },
            expect_continue: false,
            via: b"levee",
            drop: &["levee-ticket"],
            lines: b"",
        },
    );
    String::from_utf8(out).unwrap()
}

#[test]
fn fields_of_one_connection_go() {
    let sent = forward(
        "POST http://A.example?x HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, X-Secret\r\nX-Secret: 1\r\n\
         Accept: */*\r\nCookie: a=b\r\nKeep-Alive: 5\r\nProxy-Connection: close\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\
         Transfer-Encoding: chunked\r\nX_Forwarded_For: 9.9.9.9\r\nLevee-Ticket: t\r\nTE: trailers\r\nUser-Agent: u\r\n\r\n",
        "192.0.2.1",
        Source::XForwarded,
        Told::default(),
    );
    assert_eq!(
        sent,
        "POST /?x HTTP/1.1\r\nHost: A.example\r\nAccept: */*\r\nCookie: a=b\r\nUser-Agent: u\r\n\
         Transfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\nX-Forwarded-For: 192.0.2.1\r\n\
         X-Forwarded-Proto: http\r\nX-Forwarded-Host: A.example\r\nVia: 1.1 levee\r\n\r\n"
    );
}

#[test]
fn a_response_is_sent_on() {
    let text = b"HTTP/1.0 200 Fine\r\nServer: s\r\nConnection: close, X-A\r\nX-A: b\r\nKeep-Alive: 3\r\nContent-Length: 4\r\nETag: e\r\n\r\n";
    let Ok(Parsed::Complete { head, .. }) =
        response::Head::parse(text, Method::Get, &Limits::default())
    else {
        panic!("the response is good");
    };
    let mut out = Vec::new();
    edit::response(
        &mut out,
        head.on(text),
        &ForwardResponse {
            framing: head.framing(),
            connection: Connection::Persistent,
            date: b"Sun, 06 Nov 1994 08:49:37 GMT",
            via: b"",
            drop: &[],
            lines: b"Levee-Price: 3\r\n",
        },
    );
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "HTTP/1.1 200 Fine\r\nServer: s\r\nETag: e\r\nContent-Length: 4\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
         Levee-Price: 3\r\n\r\n"
    );
}

#[test]
fn forwarding_fields_of_a_client_are_replaced_and_those_of_a_hop_added_to() {
    let text = "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 198.51.100.7\r\nX-Forwarded-Proto: https\r\n\
         X-Real-IP: 198.51.100.9\r\nForwarded: for=198.51.100.8;proto=https\r\n\r\n";
    let sent = |peer, source| {
        let sent = forward(text, peer, source, ALL);
        let from = sent.find("\r\nHost: a.example\r\n").unwrap() + 19;
        sent[from..].to_owned()
    };
    assert_eq!(
        sent("2001:db8::1", Source::XForwarded),
        "X-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.example\r\n\
         Forwarded: for=\"[2001:db8::1]\";proto=http;host=\"a.example\"\r\nX-Real-IP: 2001:db8::1\r\n\
         Via: 1.1 levee\r\n\r\n"
    );
    assert_eq!(
        sent("10.0.0.1", Source::XForwarded),
        "X-Forwarded-Proto: https\r\nX-Forwarded-For: 198.51.100.7, 10.0.0.1\r\nX-Forwarded-Host: a.example\r\n\
         Forwarded: for=198.51.100.7;proto=https;host=\"a.example\"\r\nX-Real-IP: 198.51.100.7\r\n\
         Via: 1.1 levee\r\n\r\n"
    );
    assert_eq!(
        sent("10.0.0.1", Source::Forwarded),
        "X-Forwarded-For: 198.51.100.8\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a.example\r\n\
         Forwarded: for=198.51.100.8;proto=https, for=10.0.0.1;proto=http;host=\"a.example\"\r\n\
         X-Real-IP: 198.51.100.8\r\nVia: 1.1 levee\r\n\r\n"
    );
}
