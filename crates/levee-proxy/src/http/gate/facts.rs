//! What the gate wants to know of a request: who asks, and what it brings.

use crate::http::pages;
use crate::http::ticket;

/// A request as the gate sees it. Nothing is copied; what was not sent is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestFacts<'a> {
    /// The method.
    pub method: &'a [u8],
    /// Path and query.
    pub target: &'a [u8],
    /// Bytes of the head as it came: what a try has cost its client.
    pub bytes: u64,
    accept: Option<&'a [u8]>,
    fetch_mode: Option<&'a [u8]>,
    fetch_dest: Option<&'a [u8]>,
    cookie: Option<&'a [u8]>,
    ticket: Option<&'a [u8]>,
    pay: Option<&'a [u8]>,
}

/// What kind of client asks, by what it says of itself. It decides only how it is answered, never whether it gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// A browser that will show the answer as a page.
    Page,
    /// A browser that fetches a part of a page: an image, a style sheet, a script's request.
    Part,
    /// Anything else: a feed reader, curl, git, the client of an API.
    Program,
}

impl<'a> RequestFacts<'a> {
    /// A request of which no field is known yet.
    pub fn new(method: &'a [u8], target: &'a [u8]) -> Self {
        RequestFacts {
            method,
            target,
            ..RequestFacts::default()
        }
    }

    /// Takes note of a header field. Of a field that comes twice the last counts.
    pub fn note(&mut self, name: &[u8], value: &'a [u8]) {
        // Most fields are none of these, and their length says so.
        let slot = match name.len() {
            6 if name.eq_ignore_ascii_case(b"accept") => &mut self.accept,
            6 if name.eq_ignore_ascii_case(b"cookie") => &mut self.cookie,
            9 if name.eq_ignore_ascii_case(b"levee-pay") => &mut self.pay,
            12 if name.eq_ignore_ascii_case(b"levee-ticket") => &mut self.ticket,
            14 if name.eq_ignore_ascii_case(b"sec-fetch-mode") => &mut self.fetch_mode,
            14 if name.eq_ignore_ascii_case(b"sec-fetch-dest") => &mut self.fetch_dest,
            _ => return,
        };
        *slot = Some(value);
    }

    /// A request of HTTP/1.1, whose head has `bytes` bytes.
    pub fn from_head(request: levee_http::request::Request<'a>, bytes: usize) -> Self {
        let target = request.origin_form();
        // An absolute form without a path has no ticket either.
        let target = if target.root.is_empty() {
            target.path
        } else {
            b"/"
        };
        let mut facts = RequestFacts::new(request.method(), target);
        facts.bytes = bytes as u64;
        for field in request.fields().iter() {
            facts.note(field.text, field.value);
        }
        facts
    }

    /// A request that hyper or h2 has read.
    pub fn from_request<B>(request: &'a http::Request<B>) -> Self {
        let target = request
            .uri()
            .path_and_query()
            .map_or("/", |target| target.as_str());
        let mut facts = RequestFacts::new(request.method().as_str().as_bytes(), target.as_bytes());
        facts.bytes = facts.method.len() as u64 + facts.target.len() as u64;
        for (name, value) in request.headers() {
            facts.note(name.as_str().as_bytes(), value.as_bytes());
            facts.bytes += name.as_str().len() as u64 + value.len() as u64;
        }
        facts
    }

    /// The path, without the query.
    pub fn path(&self) -> &'a [u8] {
        let end = self.target.iter().position(|byte| *byte == b'?');
        &self.target[..end.unwrap_or(self.target.len())]
    }

    /// Whether its answer has no body.
    pub fn is_head(&self) -> bool {
        self.method == b"HEAD"
    }

    /// Whether a client may repeat it whatever became of it (RFC 9110 section 9.2.1).
    pub fn is_safe(&self) -> bool {
        matches!(self.method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE")
    }

    /// The ticket that it brings, and whether in a field: then its client knows the protocol.
    pub(crate) fn ticket(&self) -> Option<&'a [u8]> {
        self.ticket.or_else(|| ticket::in_target(self.target))
    }

    /// The proof of work that it brings.
    pub(crate) fn proof(&self) -> Option<&'a [u8]> {
        self.pay
    }

    /// Tickets in cookies, which the page's script leaves for the reload.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &'a [u8]> {
        let pairs = self.cookie.unwrap_or_default().split(|byte| *byte == b';');
        pairs.filter_map(|pair| {
            let pair = pair
                .trim_ascii()
                .strip_prefix(pages::CLAIM_COOKIE.as_bytes())?;
            let at = pair.iter().position(|byte| *byte == b'=')?;
            Some(&pair[at + 1..])
        })
    }

    /// Who asks. Browsers send `Sec-Fetch-*` to hosts that they trust (HTTPS and the local machine), and `Accept` everywhere.
    pub fn client(&self) -> Client {
        match (self.fetch_mode, self.fetch_dest) {
            (Some(b"navigate"), _) | (_, Some(b"document" | b"iframe" | b"frame")) => Client::Page,
            (Some(_), _) | (_, Some(_)) => Client::Part,
            (None, None) => client_by_accept(self.accept.unwrap_or_default()),
        }
    }

    /// Whether JSON may be sent to it.
    pub(crate) fn takes_json(&self) -> bool {
        let Some(accept) = self.accept else {
            return true;
        };
        media_ranges(accept).any(|(range, q)| {
            q > 0 && matches!(range, b"*/*" | b"application/*" | b"application/json")
        })
    }
}

/// What prefers a feed or data to a page is no browser, even if it names `text/html` as well, as feed readers do.
fn client_by_accept(accept: &[u8]) -> Client {
    let (mut page, mut data) = (0, 0);
    let mut parts = false;
    for (range, q) in media_ranges(accept) {
        match range {
            b"text/html" | b"application/xhtml+xml" => page = page.max(q),
            b"application/json"
            | b"application/feed+json"
            | b"application/rss+xml"
            | b"application/atom+xml"
            | b"application/rdf+xml" => data = data.max(q),
            _ => parts |= range.starts_with(b"image/") || range == b"text/css",
        }
    }
    match (page, data) {
        (0, 0) if parts => Client::Part,
        (page, data) if page > data => Client::Page,
        _ => Client::Program,
    }
}

/// The media ranges of an Accept field with their weights in thousandths (RFC 9110 section 12.5.1). What is malformed counts
/// as weight 1, as if nothing were said.
fn media_ranges(accept: &[u8]) -> impl Iterator<Item = (&[u8], u16)> {
    accept.split(|byte| *byte == b',').map(|entry| {
        let mut parts = entry.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let range = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| {
            part.strip_prefix(b"q=")
                .or_else(|| part.strip_prefix(b"Q="))
        });
        let weight = weight.and_then(|text| std::str::from_utf8(text).ok()?.parse::<f32>().ok());
        let weight = weight.unwrap_or(1.0).clamp(0.0, 1.0);
        (range, (weight * 1000.0) as u16)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(fields: &[(&str, &'a str)]) -> RequestFacts<'a> {
        let mut facts = RequestFacts::new(b"GET", b"/");
        for (name, value) in fields {
            facts.note(name.as_bytes(), value.as_bytes());
        }
        facts
    }

    #[test]
    fn browsers_and_programs_are_told_apart() {
        let chromium =
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
        for (fields, client) in [
            (
                &[
                    ("Accept", chromium),
                    ("Sec-Fetch-Mode", "navigate"),
                    ("Sec-Fetch-Dest", "document"),
                ][..],
                Client::Page,
            ),
            (&[("accept", chromium)], Client::Page),
            (
                &[
                    ("Accept", "*/*"),
                    ("Sec-Fetch-Mode", "cors"),
                    ("Sec-Fetch-Dest", "empty"),
                ],
                Client::Part,
            ),
            (
                &[
                    ("Accept", "image/avif,image/webp,*/*"),
                    ("Sec-Fetch-Mode", "no-cors"),
                    ("Sec-Fetch-Dest", "image"),
                ],
                Client::Part,
            ),
            (&[("Accept", "image/avif,image/webp,*/*")], Client::Part),
            (&[("Accept", "text/css,*/*;q=0.1")], Client::Part),
            // curl, git, wget, a Go program.
            (&[("Accept", "*/*")], Client::Program),
            (&[], Client::Program),
            (&[("Accept", "application/json")], Client::Program),
            // Miniflux, NetNewsWire and their kin.
            (
                &[(
                    "Accept",
                    "application/atom+xml, application/rss+xml, application/rdf+xml, application/feed+json, text/html, */*;q=0.9",
                )],
                Client::Program,
            ),
            (
                &[("Accept", "application/rss+xml;q=0.5, text/html")],
                Client::Page,
            ),
            (&[("Accept", "text/html;q=0, */*")], Client::Program),
            (&[("Accept", ",;;=,q")], Client::Program),
        ] {
            assert_eq!(facts(fields).client(), client, "{fields:?}");
        }
    }

    #[test]
    fn json_goes_where_it_is_taken() {
        for (accept, takes) in [
            (None, true),
            (Some("*/*"), true),
            (Some("application/json;q=0.1, text/plain"), true),
            (Some("application/json;q=0, text/plain"), false),
            (Some("application/rss+xml"), false),
        ] {
            let fields: Vec<_> = accept
                .map(|accept| ("Accept", accept))
                .into_iter()
                .collect();
            assert_eq!(facts(&fields).takes_json(), takes, "{accept:?}");
        }
    }

    #[test]
    fn a_ticket_in_a_field_goes_before_one_in_the_query() {
        let mut facts = RequestFacts::new(b"GET", b"/a?levee-ticket=Q");
        assert_eq!(facts.ticket(), Some(&b"Q"[..]));
        facts.note(b"levee-Ticket", b"F");
        assert_eq!(facts.ticket(), Some(&b"F"[..]));
        assert_eq!(facts.path(), b"/a");
    }

    #[test]
    fn claims_are_found_among_cookies() {
        let facts = facts(&[(
            "cookie",
            "a=1; levee-claim-7=T; levee=x; levee-claim-8=U;levee-claim-9",
        )]);
        assert_eq!(facts.claims().collect::<Vec<_>>(), [&b"T"[..], b"U"]);
    }
}
