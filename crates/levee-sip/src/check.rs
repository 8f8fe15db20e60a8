//! Which answer a bad message earns, before anything else is done with it (RFC 3261 section 16.3).
//!
//! [`request`] and [`response`] read once what every later step needs, and say no with the status code that RFC 3261
//! and the torture tests of RFC 4475 want. They look at one message alone; loops, routes and state come later.
//!
//! # Choices where the RFCs leave one
//! Refused, because two servers could read such a message in two ways, or because it could not be passed on as it is:
//! extra space in the request line and angle brackets around its URI (RFC 4475 sections 3.1.2.7 to 3.1.2.10), headers
//! in the Request-URI (3.1.2.11), white space inside a URI (3.1.2.14), a display name that needs quotes (3.1.2.15), the
//! empty branch `z9hG4bK` (3.2.1), a header twice that stands once (3.3.8), a Route without angle brackets, a branch or
//! tag twice in one value, two Contacts in an INVITE (RFC 3261 section 8.1.1.8).
//!
//! Passed on: all that a proxy does not read, such as a bad Date (3.1.2.12), unknown schemes in From, To and Contact
//! (3.3.4), unknown content and credentials, the Via values below the top one; a request in the style of RFC 2543,
//! without branch, From tag and Max-Forwards (3.4). A Max-Forwards above 255 counts as absent (3.1.2.4), so it has to be
//! written anew, not counted down.
//!
//! A method unknown to us whose CSeq names another one gets 501, not 400, as section 3.1.2.18 prefers for proxies.
//!
//! # Answering
//! An answer needs a sender to go to, so one that has no readable Via is dropped. Other headers may be missing: the
//! answer copies those that are there (section 3.3.1 wants 400 for a request without From, To and Call-ID).
//! An ACK is never answered, and [`Reject::answerable`] is false for it.

use core::net::IpAddr;

use crate::chars::trim;
use crate::header::{Bad, CSeq, NameAddr, Params, Via, name_addrs, parse_call_id, vias};
use crate::uri::{Host, Scheme, Uri};
use crate::wire::{DefectKind, Header, Message, Method, Name, StartLine};

/// Option tags that a request may ask of us in Proxy-Require. None has a meaning for a proxy of this kind.
pub const PROXY_OPTIONS: &[&[u8]] = &[];

/// What a proxy reads of every request.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// What the method means to a proxy.
    pub method: Method,
    /// The Request-URI.
    pub uri: Uri<'a>,
    /// The topmost Via.
    pub via: Via<'a>,
    /// From.
    pub from: NameAddr<'a>,
    /// To.
    pub to: NameAddr<'a>,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// CSeq; its method is that of the request.
    pub cseq: CSeq<'a>,
    /// Max-Forwards, 1 to 255. `None` when it is absent, and also when a number above 255 is to be overwritten.
    pub max_forwards: Option<u8>,
}

/// Why a request is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reject<'a> {
    /// The status code of the answer.
    pub code: u16,
    /// Its reason phrase, which says what is wrong.
    pub reason: &'static str,
    /// A short label for a counter.
    pub cause: &'static str,
    /// With 420: the value of a Proxy-Require that holds an unknown tag. [`unsupported_tags`] goes over all of them.
    pub unsupported: Option<&'a [u8]>,
    /// Whether an answer may be sent: the top Via is readable, and this is no ACK.
    pub answerable: bool,
    /// The top Via, as far as it is readable.
    pub via: Option<Via<'a>>,
}

/// What a proxy reads of every response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseParts<'a> {
    /// 100 to 699.
    pub code: u16,
    /// The topmost Via, which should be our own.
    pub via: Via<'a>,
    /// Whether there is another one below, to pass the response on to.
    pub via_count_at_least_2: bool,
    /// From.
    pub from: NameAddr<'a>,
    /// To.
    pub to: NameAddr<'a>,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// CSeq.
    pub cseq: CSeq<'a>,
}

/// Checks a request.
///
/// # Errors
/// What to answer, when it must not be passed on.
pub fn request<'a>(msg: &Message<'a>) -> Result<RequestParts<'a>, Reject<'a>> {
    examine(msg).map_err(|no| {
        let via = msg.answer_via();
        Reject {
            code: no.code,
            reason: no.reason,
            cause: no.cause,
            unsupported: (no.code == 420)
                .then(|| lines_with_unknown_tags(msg).next())
                .flatten(),
            answerable: via.is_some()
                && no.cause != TO_MANY.cause
                && msg.method().is_some_and(|m| m != Method::Ack),
            via,
        }
    })
}

/// Checks a response.
///
/// # Errors
/// Why it has to be dropped, as a label for a counter: nobody answers a response.
pub fn response<'a>(msg: &Message<'a>) -> Result<ResponseParts<'a>, &'static str> {
    let StartLine::Response { code, .. } = msg.start() else {
        return Err("not_a_response");
    };
    if let Some(d) = msg.defect() {
        return Err(defect_cause(d.kind));
    }
    let mut lines = Lines::default();
    for h in msg.headers() {
        lines.take(&h).map_err(|no| no.cause)?;
    }
    let via = lines.top_via().map_err(|no| no.cause)?;
    let mut below = msg.all(Name::Via).flat_map(|h| vias(h.value)).skip(1);
    let via_count_at_least_2 = match below.next() {
        None => false,
        Some(Err(_)) => return Err("bad_via"),
        Some(Ok(next)) if goes_to_many(&next.item) => return Err(TO_MANY.cause),
        Some(Ok(_)) => true,
    };
    let fixed = lines.fixed().map_err(|no| no.cause)?;
    Ok(ResponseParts {
        code,
        via,
        via_count_at_least_2,
        from: fixed.from,
        to: fixed.to,
        call_id: fixed.call_id,
        cseq: fixed.cseq,
    })
}

/// The tags of all Proxy-Require headers that are not in [`PROXY_OPTIONS`], for the Unsupported header of a 420.
pub fn unsupported_tags<'a>(msg: &Message<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    msg.all(Name::ProxyRequire)
        .flat_map(|h| unknown_tags(h.value))
}

/// A label for the counter of messages with this fault.
#[must_use]
pub fn defect_cause(kind: DefectKind) -> &'static str {
    match kind {
        DefectKind::StartLine => "bad_start_line",
        DefectKind::StartLineSpaces => "start_line_spaces",
        DefectKind::StatusCode => "bad_status_code",
        DefectKind::Truncated => "truncated",
        DefectKind::BareLineEnd => "bare_line_end",
        DefectKind::HeaderLine => "bad_header_line",
        DefectKind::TooManyHeaders => "too_many_headers",
        DefectKind::TooLarge => "too_large",
        DefectKind::ContentLength => "bad_content_length",
    }
}

/// Whether a response to this Via would go to a broadcast, group or unspecified address: a sender that writes one
/// there makes a proxy its amplifier (RFC 4475 section 3.3.10). `maddr` counts before `received`, and that before the
/// sent-by (RFC 3261 section 18.2.2).
#[must_use]
pub fn goes_to_many(via: &Via<'_>) -> bool {
    let value = |name: &[u8]| via.params.get(name).flatten();
    is_many(
        value(b"maddr")
            .or_else(|| value(b"received"))
            .unwrap_or(via.sent_by.name),
    )
}

fn is_many(host: &[u8]) -> bool {
    let name = host
        .strip_prefix(b"[")
        .and_then(|h| h.strip_suffix(b"]"))
        .unwrap_or(host);
    match (Host { name, port: None }).ip().map(|ip| ip.to_canonical()) {
        Some(IpAddr::V4(ip)) => ip.is_broadcast() || ip.is_multicast() || ip.is_unspecified(),
        Some(IpAddr::V6(ip)) => ip.is_multicast() || ip.is_unspecified(),
        None => false,
    }
}

/// A refusal without what only the whole message can tell.
#[derive(Clone, Copy, Debug)]
struct No {
    code: u16,
    reason: &'static str,
    cause: &'static str,
}

impl No {
    const fn new(code: u16, reason: &'static str, cause: &'static str) -> Self {
        Self {
            code,
            reason,
            cause,
        }
    }

    const fn bad(reason: &'static str, cause: &'static str) -> Self {
        Self::new(400, reason, cause)
    }
}

/// Its answer would go to the group, so there is none.
const TO_MANY: No = No::bad("Group Address in Via", "via_to_many");

const TWICE: &str = "repeated_header";
const MISSING: &str = "missing_header";

fn defect_no(kind: DefectKind) -> No {
    let reason = match kind {
        DefectKind::StartLine | DefectKind::StatusCode => "Bad Start Line",
        DefectKind::StartLineSpaces => "Extra Space in Request Line",
        DefectKind::Truncated => "Missing Empty Line",
        DefectKind::BareLineEnd => "Line End Is Not CRLF",
        DefectKind::HeaderLine => "Malformed Header Line",
        DefectKind::ContentLength => "Bad Content-Length",
        DefectKind::TooManyHeaders => {
            return No::new(513, "Too Many Headers", defect_cause(kind));
        }
        DefectKind::TooLarge => return No::new(513, "Message Too Large", defect_cause(kind)),
    };
    No::bad(reason, defect_cause(kind))
}

fn examine<'a>(msg: &Message<'a>) -> Result<RequestParts<'a>, No> {
    let StartLine::Request {
        method,
        token,
        uri,
        version_ok,
    } = msg.start()
    else {
        return Err(No::bad("Not a Request", "not_a_request"));
    };
    // The grammar of another version is not ours to judge.
    if !version_ok {
        return Err(No::new(505, "Version Not Supported", "bad_version"));
    }
    if let Some(d) = msg.defect() {
        return Err(defect_no(d.kind));
    }
    let mut lines = Lines::default();
    for h in msg.headers() {
        lines.take(&h)?;
        match h.name {
            Name::Contact => lines.contacts = contacts(h.value, method, lines.contacts)?,
            Name::Route => {
                routes(h.value).map_err(|_| No::bad("Bad Route", "bad_route"))?;
            }
            Name::RecordRoute => {
                routes(h.value).map_err(|_| No::bad("Bad Record-Route", "bad_record_route"))?;
            }
            _ => {}
        }
    }
    let via = lines.top_via()?;
    // Not the sent-by: it is overruled by the source address, and a device that does not know its own writes 0.0.0.0.
    if via.params.get(b"maddr").flatten().is_some_and(is_many) {
        return Err(TO_MANY);
    }
    let fixed = lines.fixed()?;
    if fixed.cseq.token != token {
        return Err(match method {
            Method::Other => No::new(501, "Unknown Method With Another in CSeq", "cseq_mismatch"),
            _ => No::bad("CSeq Method Mismatch", "cseq_mismatch"),
        });
    }
    let uri = request_uri(uri)?;
    let max_forwards = lines.max_forwards()?;
    // RFC 3261 section 8.2.2.3: a CANCEL and an ACK ask for nothing, whatever they say.
    if lines.seen(Name::ProxyRequire)
        && !matches!(method, Method::Ack | Method::Cancel)
        && lines_with_unknown_tags(msg).next().is_some()
    {
        return Err(No::new(420, "Bad Extension", "unsupported_option"));
    }
    Ok(RequestParts {
        method,
        uri,
        via,
        from: fixed.from,
        to: fixed.to,
        call_id: fixed.call_id,
        cseq: fixed.cseq,
        max_forwards,
    })
}

fn request_uri(bytes: &[u8]) -> Result<Uri<'_>, No> {
    let uri = Uri::parse(bytes).map_err(|_| No::bad("Bad Request-URI", "bad_uri"))?;
    if uri.scheme == Scheme::Other {
        return Err(No::new(416, "Unsupported URI Scheme", "unknown_scheme"));
    }
    // They would become headers of the forwarded request (RFC 3261 section 19.1.5).
    if uri.headers.is_some() {
        return Err(No::bad("Headers in Request-URI", "uri_headers"));
    }
    Ok(uri)
}

const _: () = assert!(
    (Name::Other as u32) < u32::BITS,
    "`seen` has one bit for each name"
);

/// The header lines that stand once, gathered in one pass over the message.
#[derive(Default)]
struct Lines<'a> {
    seen: u32,
    via: Option<&'a [u8]>,
    from: Option<&'a [u8]>,
    to: Option<&'a [u8]>,
    call_id: Option<&'a [u8]>,
    cseq: Option<&'a [u8]>,
    max_forwards: Option<&'a [u8]>,
    contacts: Contacts,
}

/// What identifies a transaction and its dialog, in requests and responses.
struct Fixed<'a> {
    from: NameAddr<'a>,
    to: NameAddr<'a>,
    call_id: &'a [u8],
    cseq: CSeq<'a>,
}

impl<'a> Lines<'a> {
    fn seen(&self, name: Name) -> bool {
        self.seen & (1 << name as u32) != 0
    }

    fn take(&mut self, h: &Header<'a>) -> Result<(), No> {
        if self.seen(h.name)
            && let Some(reason) = once(h.name)
        {
            return Err(No::bad(reason, TWICE));
        }
        self.seen |= 1 << h.name as u32;
        let slot = match h.name {
            Name::Via => &mut self.via,
            Name::From => &mut self.from,
            Name::To => &mut self.to,
            Name::CallId => &mut self.call_id,
            Name::CSeq => &mut self.cseq,
            Name::MaxForwards => &mut self.max_forwards,
            _ => return Ok(()),
        };
        slot.get_or_insert(h.value);
        Ok(())
    }

    fn top_via(&self) -> Result<Via<'a>, No> {
        let bad = No::bad("Bad Via", "bad_via");
        let value = self.via.ok_or(No::bad("Missing Via", MISSING))?;
        let via = vias(value).next().ok_or(bad)?.map_err(|_| bad)?.item;
        if !via.version_ok {
            return Err(bad);
        }
        let branch = at_most_once(via.params, b"branch").map_err(|_| bad)?;
        if branch.is_some_and(|b| b.eq_ignore_ascii_case(b"z9hG4bK")) {
            return Err(No::bad("Empty Branch", "bad_branch"));
        }
        Ok(via)
    }

    fn fixed(&self) -> Result<Fixed<'a>, No> {
        let from = self.from.ok_or(No::bad("Missing From", MISSING))?;
        let to = self.to.ok_or(No::bad("Missing To", MISSING))?;
        let call_id = self.call_id.ok_or(No::bad("Missing Call-ID", MISSING))?;
        let cseq = self.cseq.ok_or(No::bad("Missing CSeq", MISSING))?;
        Ok(Fixed {
            cseq: CSeq::parse(cseq).map_err(|_| No::bad("Bad CSeq", "bad_cseq"))?,
            from: party(from).map_err(|_| No::bad("Bad From", "bad_from"))?,
            to: party(to).map_err(|_| No::bad("Bad To", "bad_to"))?,
            call_id: parse_call_id(call_id).map_err(|_| No::bad("Bad Call-ID", "bad_call_id"))?,
        })
    }

    fn max_forwards(&self) -> Result<Option<u8>, No> {
        let Some(value) = self.max_forwards else {
            return Ok(None);
        };
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(No::bad("Bad Max-Forwards", "bad_max_forwards"));
        }
        match crate::chars::number(value).map(u8::try_from) {
            Some(Ok(0)) => Err(No::new(483, "Too Many Hops", "too_many_hops")),
            Some(Ok(n)) => Ok(Some(n)),
            Some(Err(_)) | None => Ok(None),
        }
    }
}

/// For a header that stands once, the reason phrase when it does not.
fn once(name: Name) -> Option<&'static str> {
    Some(match name {
        Name::From => "More Than One From",
        Name::To => "More Than One To",
        Name::CallId => "More Than One Call-ID",
        Name::CSeq => "More Than One CSeq",
        Name::MaxForwards => "More Than One Max-Forwards",
        Name::ContentLength => "More Than One Content-Length",
        Name::ContentType => "More Than One Content-Type",
        Name::Expires => "More Than One Expires",
        Name::SessionExpires => "More Than One Session-Expires",
        Name::MinSe => "More Than One Min-SE",
        Name::ReferTo => "More Than One Refer-To",
        _ => return None,
    })
}

/// From or To.
fn party(value: &[u8]) -> Result<NameAddr<'_>, Bad> {
    let it = NameAddr::parse(value)?;
    at_most_once(it.params, b"tag")?;
    Ok(it)
}

/// The value of a parameter that may decide where a message belongs, so that there cannot be two of it.
fn at_most_once<'a>(params: Params<'a>, name: &[u8]) -> Result<Option<&'a [u8]>, Bad> {
    let mut found = None;
    for p in params.iter() {
        let (n, value) = p?;
        if n.eq_ignore_ascii_case(name) && found.replace(value).is_some() {
            return Err(Bad::Twice);
        }
    }
    Ok(found.flatten())
}

#[derive(Clone, Copy, Default)]
struct Contacts {
    count: usize,
    star: bool,
}

fn contacts(value: &[u8], method: Method, before: Contacts) -> Result<Contacts, No> {
    let bad = No::bad("Bad Contact", "bad_contact");
    let mut now = before;
    if value == b"*" {
        now.star = true;
        now.count += 1;
    } else {
        for one in name_addrs(value) {
            let uri = one.and_then(|l| l.item.parse_uri());
            uri.map_err(|_| bad)?;
            now.count += 1;
        }
    }
    // `*` asks a registrar to forget everything, and is alone (RFC 3261 section 10.2.2).
    if now.star && (method != Method::Register || now.count > 1) {
        return Err(bad);
    }
    if method == Method::Invite && now.count > 1 {
        return Err(No::bad("More Than One Contact", TWICE));
    }
    Ok(now)
}

/// Route and Record-Route: without brackets, `;lr` would be a parameter of the header and not of the URI.
fn routes(value: &[u8]) -> Result<(), Bad> {
    for one in name_addrs(value) {
        let one = one?;
        if one.item.display.is_empty() && value.get(one.from) != Some(&b'<') {
            return Err(Bad::NeedsBrackets);
        }
        one.item.parse_uri()?;
    }
    Ok(())
}

fn unknown_tags(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&c| c == b',')
        .map(trim)
        .filter(|t| !t.is_empty() && !PROXY_OPTIONS.iter().any(|o| o.eq_ignore_ascii_case(t)))
}

fn lines_with_unknown_tags<'a>(msg: &Message<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    msg.all(Name::ProxyRequire)
        .map(|h| h.value)
        .filter(|v| unknown_tags(v).next().is_some())
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use super::*;
    use crate::wire::Scanner;

    /// A good request, with one piece of it replaced.
    fn changed(from: &str, to: &str) -> String {
        const GOOD: &str = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
            From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n\
            Max-Forwards: 70\r\nContact: <sip:a@y>\r\nl: 0\r\n\r\n";
        assert!(from.is_empty() || GOOD.contains(from));
        GOOD.replacen(from, to, 1)
    }

    /// Code and cause of the refusal.
    fn refusal(text: &str) -> Option<(u16, &'static str)> {
        let mut scanner = Scanner::default();
        let msg = scanner.scan(text.as_bytes()).unwrap();
        request(&msg).err().map(|no| (no.code, no.cause))
    }

    #[test]
    fn the_parts_are_those_of_the_message() {
        let text = changed("", "");
        let mut scanner = Scanner::default();
        let msg = scanner.scan(text.as_bytes()).unwrap();
        let parts = request(&msg).unwrap();
        assert_eq!(parts.method, Method::Invite);
        assert_eq!(parts.uri.bytes, b"sip:b@x");
        assert_eq!(parts.via.branch(), Some(&b"z9hG4bK1"[..]));
        assert_eq!(parts.from.tag(), Some(&b"1"[..]));
        assert_eq!(parts.to.uri, b"sip:b@x");
        assert_eq!(parts.call_id, b"c");
        assert_eq!(parts.cseq.number, 1);
        assert_eq!(parts.max_forwards, Some(70));
    }

    #[test]
    fn a_header_that_stands_once_may_not_stand_twice() {
        let table = [
            ("f: <sip:a@x>;tag=1", true),
            ("To: <sip:b@x>", true),
            ("i: c", true),
            ("CSeq: 1 INVITE", true),
            ("Max-Forwards: 70", true),
            ("Content-Length: 0", true),
            ("c: a/b\r\nContent-Type: a/b", true),
            ("Expires: 1\r\nExpires: 1", true),
            ("x: 90\r\nSession-Expires: 90", true),
            ("Min-SE: 90\r\nMin-SE: 90", true),
            ("r: <sip:z>\r\nRefer-To: <sip:z>", true),
            ("m: <sip:a@y>", true),
            (
                "c: a/b\r\nExpires: 1\r\nx: 90\r\nMin-SE: 90\r\nr: <sip:z>",
                false,
            ),
            ("Via: SIP/2.0/UDP b", false),
            ("Supported: a\r\nk: a", false),
            ("Subject: a\r\nSubject: b", false),
        ];
        for (lines, twice) in table {
            let text = changed("l: 0\r\n", &["l: 0\r\n", lines, "\r\n"].concat());
            let want = twice.then_some((400, TWICE));
            assert_eq!(refusal(&text), want, "{lines:?}");
        }
    }

    #[test]
    fn what_must_be_there() {
        for (line, header) in [
            ("Via: SIP/2.0/UDP a;branch=z9hG4bK1\r\n", "Via"),
            ("From: <sip:a@x>;tag=1\r\n", "From"),
            ("To: <sip:b@x>\r\n", "To"),
            ("Call-ID: c\r\n", "Call-ID"),
            ("CSeq: 1 INVITE\r\n", "CSeq"),
        ] {
            let text = changed(line, "");
            let mut scanner = Scanner::default();
            let msg = scanner.scan(text.as_bytes()).unwrap();
            let no = request(&msg).unwrap_err();
            assert_eq!((no.code, no.cause), (400, MISSING));
            assert_eq!(no.reason.strip_prefix("Missing "), Some(header));
            assert_eq!(no.answerable, header != "Via");
        }
        for line in ["Max-Forwards: 70\r\n", "Contact: <sip:a@y>\r\n", "l: 0\r\n"] {
            assert_eq!(refusal(&changed(line, "")), None, "{line:?}");
        }
    }

    #[test]
    fn the_first_of_several_faults_counts() {
        let no = |parts: &[(&str, &str)]| {
            let text = parts
                .iter()
                .fold(changed("", ""), |t, (from, to)| t.replacen(from, to, 1));
            refusal(&text)
        };
        let (version, line) = (("SIP/2.0\r\n", "SIP/4.0\r\n"), ("l: 0", "l; 0"));
        let (uri, hops) = (("sip:b@x ", "news:b "), ("s: 70", "s: 0"));
        let option = ("l: 0", "Proxy-Require: o\r\nl: 0");
        assert_eq!(no(&[version, line]), Some((505, "bad_version")));
        assert_eq!(no(&[line, uri]), Some((400, "bad_header_line")));
        assert_eq!(no(&[uri, hops]), Some((416, "unknown_scheme")));
        assert_eq!(no(&[hops, option]), Some((483, "too_many_hops")));
        assert_eq!(no(&[option]), Some((420, "unsupported_option")));
    }

    #[test]
    fn an_option_list_without_tags_asks_for_nothing() {
        let with = |v: &str| {
            refusal(&changed(
                "l: 0",
                &["Proxy-Require:", v, "\r\nl: 0"].concat(),
            ))
        };
        assert_eq!(with(""), None);
        assert_eq!(with(" , ,"), None);
        assert_eq!(with(" ,a"), Some((420, "unsupported_option")));
    }

    #[test]
    fn max_forwards_at_its_bounds() {
        let read = |v: &str| {
            let text = changed("s: 70", &["s: ", v].concat());
            let mut scanner = Scanner::default();
            let msg = scanner.scan(text.as_bytes()).unwrap();
            request(&msg).map(|p| p.max_forwards).map_err(|no| no.code)
        };
        assert_eq!(read("1"), Ok(Some(1)));
        assert_eq!(read("255"), Ok(Some(255)));
        assert_eq!(read("256"), Ok(None));
        assert_eq!(read("18446744073709551616"), Ok(None));
        for (bad, code) in [
            ("0", 483),
            ("000", 483),
            ("", 400),
            ("-1", 400),
            ("7 0", 400),
        ] {
            assert_eq!(read(bad), Err(code), "{bad:?}");
        }
    }

    #[test]
    fn where_a_response_may_go() {
        let table = [
            ("a", false),
            ("192.0.2.1", false),
            ("255.255.255.255", true),
            ("223.255.255.255", false),
            ("224.0.0.0", true),
            ("239.255.255.255", true),
            ("240.0.0.1", false),
            ("0.0.0.0", true),
            ("[::]", true),
            ("[::1]", false),
            ("[ff02::1]", true),
            ("[fe80::1]", false),
            ("[::ffff:224.0.0.1]", true),
            ("[::ffff:192.0.2.1]", false),
            // `received` counts before the sent-by, and `maddr` before both.
            ("255.255.255.255;received=192.0.2.1", false),
            ("192.0.2.1;received=224.0.0.1", true),
            ("192.0.2.1;received=ff02::1", true),
            ("a;received=224.0.0.1;maddr=192.0.2.1", false),
            ("a;received=192.0.2.1;maddr=224.0.0.1", true),
        ];
        for (rest, want) in table {
            let value = ["SIP/2.0/UDP ", rest].concat();
            let via = vias(value.as_bytes()).next().unwrap().unwrap().item;
            assert_eq!(goes_to_many(&via), want, "{rest}");
        }
    }

    #[test]
    fn a_response_needs_what_a_request_needs() {
        const GOOD: &str = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\n\
            Via: SIP/2.0/UDP b\r\nFrom: <sip:a@x>\r\nTo: <sip:b@x>;tag=2\r\nCall-ID: c\r\n\
            CSeq: 1 INVITE\r\nContact: what?\r\n\r\n";
        let read = |from: &str, to: &str| {
            let text = GOOD.replacen(from, to, 1);
            let mut scanner = Scanner::default();
            let msg = scanner.scan(text.as_bytes()).unwrap();
            response(&msg).map(|p| (p.code, p.via_count_at_least_2))
        };
        assert_eq!(read("", ""), Ok((200, true)));
        assert_eq!(read("Via: SIP/2.0/UDP b\r\n", ""), Ok((200, false)));
        assert_eq!(read("UDP b", "UDP 224.0.0.1"), Err("via_to_many"));
        assert_eq!(read("UDP a", "UDP 224.0.0.1"), Ok((200, true)), "our own");
        assert_eq!(read("2.0/UDP a", "3.0/UDP a"), Err("bad_via"));
        assert_eq!(read("Call-ID: c\r\n", ""), Err(MISSING));
        assert_eq!(read("<sip:a@x>", "<sip:a@x"), Err("bad_from"));
        assert_eq!(read("<sip:b@x>", "<sip:b@x"), Err("bad_to"));
        assert_eq!(read("1 INVITE", "2147483648 INVITE"), Err("bad_cseq"));
        assert_eq!(read("To:", "T "), Err("bad_header_line"));
        let mut scanner = Scanner::default();
        let text = changed("", "");
        let msg = scanner.scan(text.as_bytes()).unwrap();
        assert_eq!(response(&msg).err(), Some("not_a_response"));
        let msg = scanner.scan(GOOD.as_bytes()).unwrap();
        assert_eq!(request(&msg).unwrap_err().cause, "not_a_request");
    }

    #[test]
    fn every_defect_has_a_label_of_its_own() {
        let kinds = [
            DefectKind::StartLine,
            DefectKind::StartLineSpaces,
            DefectKind::StatusCode,
            DefectKind::Truncated,
            DefectKind::BareLineEnd,
            DefectKind::HeaderLine,
            DefectKind::TooManyHeaders,
            DefectKind::TooLarge,
            DefectKind::ContentLength,
        ];
        let mut labels: Vec<_> = kinds.iter().map(|k| defect_cause(*k)).collect();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), kinds.len());
        for kind in kinds {
            let large = matches!(kind, DefectKind::TooManyHeaders | DefectKind::TooLarge);
            assert_eq!(defect_no(kind).code, if large { 513 } else { 400 });
        }
    }
}
