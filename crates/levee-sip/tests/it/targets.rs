//! What the fuzzer calls, and what the replay of its corpus calls: each takes any bytes, and asserts what must hold for
//! all of them. The fuzz workspace includes this file by its path.

use levee_sip::check::{self, goes_to_many};
use levee_sip::header::{CSeq, NameAddr, Params, SessionExpires, name_addrs, seconds, vias};
use levee_sip::stream::{self, Next, Progress};
use levee_sip::uri::{Host, Uri};
use levee_sip::wire::{Limits, Message, Name, Scanner, StartLine};

/// Where `part` lies in `whole`, by address.
fn place(whole: &[u8], part: &[u8]) -> usize {
    let at = (part.as_ptr() as usize)
        .checked_sub(whole.as_ptr() as usize)
        .expect("a part begins inside the whole");
    assert!(
        at + part.len() <= whole.len(),
        "a part ends inside the whole"
    );
    at
}

/// Scan, check and every typed value.
pub(crate) fn sip_message(bytes: &[u8]) {
    let mut scanner = Scanner::default();
    let Ok(msg) = scanner.scan(bytes) else {
        return;
    };
    lines_hold(&msg);
    values_hold(&msg);
    check_holds(&msg);
    if msg.defect().is_none() {
        rewritten_holds(&msg);
    }
    let headers = msg.headers().count();
    let mut small = Scanner::new(Limits {
        message_bytes_max: bytes.len(),
        headers_max: headers / 2,
    });
    let msg = small.scan(bytes).expect("the same first line");
    assert_eq!(msg.headers().count(), headers / 2);
    lines_hold(&msg);
    check_holds(&msg);
}

/// Lines lie one behind the other, and with the first line and the empty one they make the message.
fn lines_hold(msg: &Message<'_>) {
    let bytes = msg.bytes();
    let mut end = msg.headers_at();
    for h in msg.headers() {
        assert!(h.at >= end, "lines do not overlap");
        assert_eq!(place(bytes, h.line), h.at);
        assert_eq!(place(h.line, h.token), 0);
        assert_eq!(place(bytes, h.value), h.value_at);
        place(h.line, h.value);
        if msg.defect().is_none() {
            assert_eq!(h.at, end, "no byte between two lines");
            assert!(h.line.ends_with(b"\r\n"));
        }
        end = h.at + h.line.len();
    }
    assert!(end <= msg.body_at() && msg.body_at() <= bytes.len());
    if msg.defect().is_none() {
        assert_eq!(bytes.get(end..msg.body_at()), Some(&b"\r\n"[..]));
    }
    if !msg.body().is_empty() {
        assert_eq!(place(bytes, msg.body()), msg.body_at());
    }
}

fn values_hold(msg: &Message<'_>) {
    for h in msg.headers() {
        let mut end = 0;
        for one in name_addrs(h.value) {
            let Ok(one) = one else { break };
            assert!(end <= one.from && one.from < one.to && one.to <= h.value.len());
            let text = h.value.get(one.from..one.to).expect("inside");
            assert_eq!(
                NameAddr::parse(text),
                Ok(one.item),
                "a value alone reads as in its list"
            );
            end = one.to;
            params_hold(one.item.params);
            let _ = one.item.parse_uri();
        }
        end = 0;
        for one in vias(h.value) {
            let Ok(one) = one else { break };
            assert!(end <= one.from && one.from < one.to && one.to <= h.value.len());
            end = one.to;
            params_hold(one.item.params);
            let _ = goes_to_many(&one.item);
        }
        let _ = CSeq::parse(h.value);
        let _ = SessionExpires::parse(h.value);
        let _ = seconds(h.value);
    }
    let _ = msg.contact();
    let _ = msg.has_option(Name::Supported, b"timer");
    if let Ok(top) = msg.top_via() {
        assert_eq!(msg.answer_via(), Some(top));
    }
}

/// The parameters of a value that was accepted can all be read.
fn params_hold(params: Params<'_>) {
    for p in params.iter() {
        let (name, value) = p.expect("read before");
        assert!(!name.is_empty());
        place(params.bytes(), name);
        if let Some(v) = value {
            place(params.bytes(), v);
        }
        assert!(params.get(name).is_some());
    }
}

fn check_holds(msg: &Message<'_>) {
    match msg.start() {
        StartLine::Request { token, .. } => match check::request(msg) {
            Ok(parts) => {
                assert_eq!(msg.defect(), None);
                assert_eq!(Ok(parts.via), msg.top_via());
                assert_eq!(Ok(parts.from), msg.from());
                assert_eq!(Ok(parts.to), msg.to());
                assert_eq!(Ok(parts.call_id), msg.call_id());
                assert_eq!(Ok(parts.cseq), msg.cseq());
                assert_eq!(parts.cseq.token, token);
                assert_ne!(parts.max_forwards, Some(0));
                assert!(msg.contact().is_ok());
            }
            Err(no) => {
                assert!(matches!(no.code, 400..=599));
                assert!(!no.reason.is_empty() && !no.cause.is_empty());
                assert_eq!(no.unsupported.is_some(), no.code == 420);
                assert!(!no.answerable || no.via.is_some());
            }
        },
        StartLine::Response { code, .. } => {
            if let Ok(parts) = check::response(msg) {
                assert_eq!(parts.code, code);
                assert_eq!(Ok(parts.via), msg.top_via());
                assert_eq!(Ok(parts.cseq), msg.cseq());
            }
        }
    }
}

/// A message written anew from its headers, without folds at the ends of values, gets the same verdict.
fn rewritten_holds(msg: &Message<'_>) {
    let bytes = msg.bytes();
    let mut again = bytes.get(..msg.headers_at()).expect("inside").to_vec();
    for h in msg.headers() {
        again.extend_from_slice(h.token);
        again.extend_from_slice(b": ");
        again.extend_from_slice(h.value);
        again.extend_from_slice(b"\r\n");
    }
    again.extend_from_slice(b"\r\n");
    again.extend_from_slice(bytes.get(msg.body_at()..).expect("inside"));
    let mut scanner = Scanner::new(Limits {
        message_bytes_max: usize::MAX,
        ..Limits::default()
    });
    let second = scanner.scan(&again).expect("the same first line");
    assert_eq!(second.defect(), None);
    assert_eq!(second.body(), msg.body());
    let pairs = |m: &Message<'_>| {
        m.headers()
            .map(|h| (h.name, h.token.to_vec(), h.value.to_vec()))
            .collect::<Vec<_>>()
    };
    assert_eq!(pairs(&second), pairs(msg));
    match (check::request(msg), check::request(&second)) {
        (Ok(a), Ok(b)) => assert_eq!(
            (a.uri, a.via, a.max_forwards),
            (b.uri, b.via, b.max_forwards)
        ),
        (Err(a), Err(b)) => assert_eq!(a, b),
        (a, b) => panic!("{a:?} became {b:?}"),
    }
    assert_eq!(check::response(msg).err(), check::response(&second).err());
}

/// URIs, hosts and name-addrs from bare bytes.
pub(crate) fn sip_uri(bytes: &[u8]) {
    if let Ok(uri) = Uri::parse(bytes) {
        assert_eq!(uri.bytes, bytes);
        for part in [uri.user, uri.host.name, uri.params.bytes()] {
            if !part.is_empty() {
                place(bytes, part);
            }
        }
        assert!(!uri.is_sip() || !uri.host.name.is_empty());
        let _ = uri.transport();
        // In brackets it reads as the same URI.
        let bracketed = [b"<", bytes, b">"].concat();
        let name_addr = NameAddr::parse(&bracketed).expect("a URI stands in brackets");
        assert_eq!(name_addr.uri, bytes);
        assert_eq!(name_addr.parse_uri(), Ok(uri));
    }
    if let Ok((host, used)) = Host::parse(bytes) {
        assert!(used <= bytes.len());
        let alone = bytes.get(..used).expect("inside");
        assert_eq!(Host::parse(alone), Ok((host, used)));
        assert!(host.same_name(host.name));
    }
    if let Ok(one) = NameAddr::parse(bytes) {
        params_hold(one.params);
        place(bytes, one.uri);
        let _ = one.tag();
    }
}

const STREAM_BYTES_MAX: usize = 4096;

/// A byte stream, cut where its first bytes say, gives the messages that it gives uncut; and where the stream ends a
/// message, the scanner ends it too.
pub(crate) fn sip_stream(bytes: &[u8]) {
    let (cuts, stream) = bytes.split_at(bytes.len().min(4));
    let whole = follow(stream, [stream.len()].into_iter());
    let steps = cuts.iter().map(|&c| usize::from(c) + 1).cycle();
    let pieces = follow(stream, steps);
    assert_eq!(whole, pieces);
    let mut scanner = Scanner::default();
    for message in &whole.messages {
        if let Ok(msg) = scanner.scan(message)
            && msg.defect().is_none()
        {
            assert_eq!(
                msg.body_at() + msg.body().len(),
                message.len(),
                "one framing"
            );
        }
    }
}

#[derive(Debug, PartialEq, Eq, Default)]
struct Followed {
    messages: Vec<Vec<u8>>,
    closed: bool,
}

fn follow(stream: &[u8], steps: impl Iterator<Item = usize>) -> Followed {
    let (mut out, mut progress) = (Followed::default(), Progress::default());
    let (mut from, mut to) = (0, 0);
    for step in steps {
        to = stream.len().min(to + step);
        loop {
            let buffer = stream.get(from..to).expect("inside");
            match stream::next(buffer, &mut progress, STREAM_BYTES_MAX) {
                Ok(Next::More) => break,
                Ok(Next::KeepAlive { bytes, .. }) => {
                    assert!(bytes > 0 && bytes <= buffer.len());
                    from += bytes;
                }
                Ok(Next::Message { bytes }) => {
                    assert!(bytes <= STREAM_BYTES_MAX);
                    out.messages
                        .push(buffer.get(..bytes).expect("inside").to_vec());
                    from += bytes;
                }
                Err(_) => {
                    out.closed = true;
                    return out;
                }
            }
        }
        if to == stream.len() {
            break;
        }
    }
    out
}
