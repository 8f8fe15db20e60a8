//! What a client is answered that was turned away, is to pay, or has paid: by the mode, and by what it can make use of.
//!
//! | client | `random` | `retry` | the modes with payment | turned away too often |
//! |---|---|---|---|---|
//! | browser, page | page that loads anew after `retry_after` | page that loads anew at once | page whose script pays and waits; without script it loads anew | page for a person |
//! | browser, page, POST | page for a person | 307 to itself: the body is sent again | 307 to itself | page for a person |
//! | browser, part of a page | 503 | 307 to itself | 503 | 503 |
//! | program | 503, `Retry-After`, JSON | the same | the same, with what to pay | the same |
//!
//! Every one is a 503 or a 307 of which nothing was passed on, and no store keeps it. A page is small, needs nothing else, and
//! runs no script but its own: its CSP has a nonce from the ticket. Of the request only the query is shown again, escaped, and
//! always behind a `?`, so that a strange path leads nowhere else.
//!
//! # Departure from the SIGCOMM paper
//!
//! Its script opens the request itself and shows what comes. Here it waits for the place ([`WAIT_PATH`]) and, once it is won,
//! loads the page anew, and that request takes the place. So the browser shows the server's answer as it is, with its own
//! status, type, cookies and Content-Security-Policy, none of which a script can give to a document.

mod proof;

use std::borrow::Cow;
use std::fmt::Write as _;

use levee_policy::Span;
use levee_policy::thinner::{Mode, RefuseCause};

pub use self::proof::hashes_of;
use crate::http::gate::{Client, RequestFacts};
use crate::http::ticket::{self, LIFE, PARAMETER, Sealed};

/// Where payment is sent to: POST, with the ticket.
pub const PAY_PATH: &str = "/.well-known/levee/pay";
/// Where a ticket's place is waited for: GET, with the ticket.
pub const WAIT_PATH: &str = "/.well-known/levee/wait";
/// Beginning of the name of the cookie that carries a won place to the reload, one for each place.
pub const CLAIM_COOKIE: &str = "levee-claim-";
/// Bytes on the payment channel that count as one retry in the mode `priced`: the head of a browser's request (our choice).
pub const RETRY_BYTES: u64 = 512;
/// How often a page loads itself anew before a person is asked: at a hundred times the demand that the server can take, 19 of 20
/// are in by then. [`LIFE`] ends slower chains before.
pub const RETRIES_MAX: u16 = 300;
/// How often a request is sent to itself: browsers follow 20 redirects in a row, of which the server may want some.
pub const REDIRECTS_MAX: u16 = 15;
/// What the script pays at most where the browser says that bytes are dear (our choice: a small image).
const METERED_BYTES: u64 = 256 << 10;

const SCRIPT: &str = include_str!("script.js");
const STYLE: &str =
    "body{font:1.1em/1.5 system-ui,sans-serif;max-width:34em;margin:15vh auto;padding:0 1em}";
const SORRY: &str = "The site still has more visitors than it can serve.";

/// Why a request was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The thinner's decision.
    Thinner(RefuseCause),
    /// Its ticket has been turned away as often, or for as long, as it may.
    Exhausted,
    /// Its ticket is waiting already, with another request.
    Duplicate,
    /// It waits for a ticket's place, and has no good ticket.
    NoTicket,
}

impl Cause {
    /// A word for logs, metrics and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Thinner(RefuseCause::Drawn) => "drawn",
            Cause::Thinner(RefuseCause::Unpaid) => "unpaid",
            Cause::Thinner(RefuseCause::Outbid) => "outbid",
            Cause::Thinner(RefuseCause::Crowded) => "crowded",
            Cause::Exhausted => "exhausted",
            Cause::Duplicate => "duplicate",
            Cause::NoTicket => "no_ticket",
        }
    }
}

/// A request that was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub cause: Cause,
    /// In which currency its client can pay.
    pub mode: Mode,
    /// When it may come again; zero for at once.
    pub retry_after: Span,
    /// What would be enough now, in the units of the mode.
    pub price: u64,
    /// What it has paid so far; the ticket says the same.
    pub paid: u64,
    /// How often it was turned away, this time included.
    pub tries: u16,
    /// In the mode `queue`: about how many are before it.
    pub place: u64,
    /// What it may bring the next time.
    pub ticket: Sealed,
}

/// An answer of the front's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Fields, without `Content-Length`.
    pub fields: Vec<(&'static str, Cow<'static, str>)>,
    /// The body. In answer to HEAD it is not sent, but its length is told.
    pub body: Vec<u8>,
}

impl Answer {
    fn new(status: u16) -> Self {
        Answer {
            status,
            fields: vec![("cache-control", Cow::Borrowed("no-store"))],
            body: Vec::new(),
        }
    }

    fn field(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    fn body(self, kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let mut answer = self.field("content-type", kind);
        answer.body = body.into();
        answer
    }

    /// The reason phrase.
    pub fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            307 => "Temporary Redirect",
            400 => "Bad Request",
            405 => "Method Not Allowed",
            409 => "Conflict",
            410 => "Gone",
            _ => "Service Unavailable",
        }
    }

    /// Writes it as HTTP/1.1. `more` are further fields, each with its line end: `Date`, `Connection`.
    pub fn write_h1(&self, out: &mut Vec<u8>, is_head: bool, more: &[u8]) {
        out.extend_from_slice(b"HTTP/1.1 ");
        push_number(out, self.status.into());
        out.push(b' ');
        out.extend_from_slice(self.reason().as_bytes());
        for (name, value) in &self.fields {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(b"\r\ncontent-length: ");
        push_number(out, self.body.len() as u64);
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(more);
        out.extend_from_slice(b"\r\n");
        if !is_head {
            out.extend_from_slice(&self.body);
        }
    }

    /// The same for a library.
    pub fn into_response<B: From<Vec<u8>>>(self, is_head: bool) -> http::Response<B> {
        let length = self.body.len();
        let body = if is_head { Vec::new() } else { self.body };
        let mut response = http::Response::new(body.into());
        *response.status_mut() = http::StatusCode::from_u16(self.status)
            .unwrap_or(http::StatusCode::SERVICE_UNAVAILABLE);
        let headers = response.headers_mut();
        for (name, value) in self.fields {
            // What we write here is visible ASCII.
            if let Ok(value) = http::HeaderValue::try_from(value.as_ref()) {
                headers.append(name, value);
            }
        }
        headers.insert(http::header::CONTENT_LENGTH, length.into());
        response
    }
}

fn push_number(out: &mut Vec<u8>, number: u64) {
    // A vector takes everything.
    let _ = std::io::Write::write_fmt(out, format_args!("{number}"));
}

/// What pages need to know of the settings.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Bytes that a script puts into one payment.
    pub post_bytes: u64,
}

/// How one kind of client is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// 503 without a body.
    Bare,
    /// 503 with JSON.
    Json,
    /// 307 to itself.
    Again,
    /// A page that loads itself anew after so long.
    Refresh,
    /// A page whose script pays and waits.
    Script,
    /// A page for a person, who decides.
    Person,
}

fn kind(facts: &RequestFacts<'_>, refusal: &Refusal) -> Kind {
    let is_over = refusal.cause == Cause::Exhausted || refusal.tries >= RETRIES_MAX;
    let may_redirect =
        !is_over && refusal.tries <= REDIRECTS_MAX && refusal.cause != Cause::Duplicate;
    match facts.client() {
        _ if facts.is_wait() || refusal.cause == Cause::NoTicket => Kind::Json,
        Client::Program if facts.takes_json() => Kind::Json,
        Client::Program => Kind::Bare,
        Client::Part if refusal.mode == Mode::Retry && may_redirect => Kind::Again,
        Client::Part => Kind::Bare,
        Client::Page if !facts.is_safe() && refusal.mode != Mode::Random && may_redirect => {
            Kind::Again
        }
        Client::Page if !facts.is_safe() || is_over => Kind::Person,
        Client::Page if matches!(refusal.mode, Mode::Random | Mode::Retry) => Kind::Refresh,
        Client::Page => Kind::Script,
    }
}

/// The answer to a request that was turned away.
pub fn refusal(facts: &RequestFacts<'_>, refusal: &Refusal, look: Look) -> Answer {
    let kind = kind(facts, refusal);
    let status = match (kind, refusal.cause) {
        (Kind::Again, _) => 307,
        (_, Cause::Duplicate) => 409,
        (_, Cause::NoTicket) => 400,
        _ => 503,
    };
    let answer = priced(Answer::new(status), refusal);
    match kind {
        Kind::Bare => answer,
        Kind::Json => answer.body("application/json", json(refusal)),
        Kind::Again => answer.field("location", again(facts.target, &refusal.ticket)),
        Kind::Refresh | Kind::Script | Kind::Person => page(answer, facts, refusal, kind, look),
    }
}

/// The fields that programs read.
fn priced(answer: Answer, refusal: &Refusal) -> Answer {
    let answer = answer.field("retry-after", seconds(refusal.retry_after).to_string());
    let Some((unit, pay)) = currency(refusal.mode) else {
        return answer;
    };
    answer
        .field("levee-ticket", refusal.ticket.as_str().to_owned())
        .field("levee-price", price(refusal, unit))
        .field("levee-pay", pay)
}

/// The unit of a mode, and how it is paid.
fn currency(mode: Mode) -> Option<(&'static str, &'static str)> {
    match mode {
        Mode::Random => None,
        Mode::Retry => Some(("retries", "retries")),
        Mode::Priced => Some(("retries", "retries /.well-known/levee/pay")),
        Mode::Auction => Some(("bytes", "bytes /.well-known/levee/pay")),
        Mode::ProofOfWork => Some(("hashes", "sha-256")),
        Mode::Queue => Some(("time", "time")),
    }
}

fn price(refusal: &Refusal, unit: &str) -> String {
    let mut text = format!("{};unit={unit};paid={}", refusal.price, refusal.paid);
    // A string takes everything.
    let _ = match refusal.mode {
        Mode::Priced => write!(text, ";size={RETRY_BYTES}"),
        Mode::Queue => write!(text, ";place={}", refusal.place),
        Mode::Random | Mode::Retry | Mode::Auction | Mode::ProofOfWork => Ok(()),
    };
    text
}

/// Whole seconds, rounded up: what was asked to wait must not come early.
fn seconds(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000_000)
}

fn json(refusal: &Refusal) -> String {
    let error = match refusal.cause {
        Cause::Duplicate => "this ticket is waiting already",
        Cause::NoTicket => "this is no ticket that counts: ask for the page itself first",
        _ => "more is asked of this server than it can serve",
    };
    let mut text = format!(
        "{{\"error\":\"{error}\",\"cause\":\"{}\",\"retry_after\":{}",
        refusal.cause.name(),
        seconds(refusal.retry_after),
    );
    if let Some((unit, pay)) = currency(refusal.mode) {
        let _ = write!(
            text,
            ",\"price\":{},\"unit\":\"{unit}\",\"paid\":{},\"pay\":\"{pay}\",\"ticket\":\"{}\"",
            refusal.price, refusal.paid, refusal.ticket,
        );
    }
    text.push_str("}\n");
    text
}

/// The same request with this ticket, relative to itself.
fn again(target: &[u8], ticket: &Sealed) -> String {
    let clean = ticket::without_ticket(target);
    let target = clean.as_deref().unwrap_or(target);
    let query = target.iter().position(|byte| *byte == b'?');
    let mut text = String::with_capacity(target.len() + 80);
    text.push('?');
    for byte in query.map_or(&b""[..], |at| &target[at + 1..]) {
        match byte {
            b'"' | b'<' | b'>' | b'\'' | ..=b' ' | 0x7f.. => {
                let _ = write!(text, "%{byte:02X}");
            }
            _ => text.push(char::from(*byte)),
        }
    }
    if text.len() > 1 {
        text.push('&');
    }
    let _ = write!(text, "{PARAMETER}={ticket}");
    text
}

/// The request without a ticket, for a link.
fn anew(target: &[u8], ticket: &Sealed) -> String {
    let mut text = again(target, ticket);
    text.truncate(text.len() - PARAMETER.len() - 1 - ticket.as_str().len());
    text.trim_end_matches('&').to_owned()
}

fn page(
    answer: Answer,
    facts: &RequestFacts<'_>,
    refusal: &Refusal,
    kind: Kind,
    look: Look,
) -> Answer {
    let nonce = refusal.ticket.nonce();
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; base-uri 'none'; form-action 'none'"
    );
    let delay = if refusal.mode == Mode::Random {
        seconds(refusal.retry_after)
    } else {
        0
    };
    // The query is percent-encoded but for `&`.
    let url = again(facts.target, &refusal.ticket).replace('&', "&amp;");
    let refresh = format!("<meta http-equiv=\"refresh\" content=\"{delay};url={url}\">");
    let (refresh, heading, line) = match kind {
        Kind::Script => (
            format!("<noscript>{refresh}</noscript>"),
            "One moment",
            "This page opens by itself.",
        ),
        Kind::Person if !facts.is_safe() => (
            String::new(),
            "Not sent",
            "What you sent was not passed on. Load this page anew to send it again.",
        ),
        Kind::Person => (String::new(), "Too many visitors", SORRY),
        _ => (refresh, "One moment", "This page opens by itself."),
    };
    let link = anew(facts.target, &refusal.ticket).replace('&', "&amp;");
    let link = if facts.is_safe() { link } else { String::new() };
    let hidden = if kind == Kind::Person && facts.is_safe() {
        ""
    } else {
        " hidden"
    };
    let mut body = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <meta name=\"robots\" content=\"noindex\">{refresh}<title>{heading}</title><style nonce=\"{nonce}\">{STYLE}</style></head>\n\
         <body><h1>{heading}</h1><p>More is asked of this site just now than it can serve.</p>\
         <p id=\"line\" role=\"status\">{line}</p><p id=\"again\"{hidden}><a href=\"{link}\">Try again</a></p>\n"
    );
    if kind == Kind::Script {
        script(&mut body, refusal, look);
    }
    body.push_str("</body></html>\n");
    answer
        .field("content-security-policy", policy)
        .body("text/html; charset=utf-8", body)
}

fn script(body: &mut String, refusal: &Refusal, look: Look) {
    let mode = match refusal.mode {
        Mode::Priced => "priced",
        Mode::ProofOfWork => "proof-of-work",
        Mode::Queue => "queue",
        Mode::Random | Mode::Retry | Mode::Auction => "auction",
    };
    let _ = write!(
        body,
        "<script nonce=\"{nonce}\" data-mode=\"{mode}\" data-ticket=\"{ticket}\" data-price=\"{price}\" data-paid=\"{paid}\" \
         data-size=\"{RETRY_BYTES}\" data-block=\"{block}\" data-metered=\"{METERED_BYTES}\" data-life=\"{life}\" \
         data-pay=\"{PAY_PATH}\" data-wait=\"{WAIT_PATH}\" data-parameter=\"{PARAMETER}\" data-sorry=\"{SORRY}\">\n{SCRIPT}</script>\n",
        nonce = refusal.ticket.nonce(),
        ticket = refusal.ticket,
        price = refusal.price,
        paid = refusal.paid,
        block = look.post_bytes,
        life = LIFE.as_millis(),
    );
}

/// The place that `ticket` waited for is won: the next request with it takes it. The script looks whether the cookie was kept.
pub fn claimed(id: u64, ticket: &Sealed, hold: Span) -> Answer {
    let cookie = format!(
        "{CLAIM_COOKIE}{id:x}={ticket}; Path=/; Max-Age={}; SameSite=Lax",
        seconds(hold)
    );
    Answer::new(200)
        .field("set-cookie", cookie)
        .field("levee-ticket", ticket.as_str().to_owned())
        .body("application/json", "{\"state\":\"admitted\"}\n")
}

/// What became of a payment.
pub(crate) fn payment(
    state: &'static str,
    paid: u64,
    price: u64,
    ticket: &Sealed,
    mode: Mode,
) -> Answer {
    let unit = currency(mode).map_or("", |(unit, _)| unit);
    Answer::new(200)
        .field("levee-ticket", ticket.as_str().to_owned())
        .field("levee-price", format!("{price};unit={unit};paid={paid}"))
        .body(
            "application/json",
            format!(
                "{{\"state\":\"{state}\",\"paid\":{paid},\"price\":{price},\"unit\":\"{unit}\"}}\n"
            ),
        )
}

/// A payment that is not taken.
pub(crate) fn unpayable(status: u16, error: &str) -> Answer {
    let answer = Answer::new(status);
    let answer = match status {
        405 => answer.field("allow", "POST"),
        503 => answer.field("retry-after", "1"),
        _ => answer,
    };
    answer.body("application/json", format!("{{\"error\":\"{error}\"}}\n"))
}

#[cfg(test)]
mod tests;
