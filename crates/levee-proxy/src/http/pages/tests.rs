use levee_policy::Time;

use super::*;
use crate::http::ticket::{Ticket, Tickets};

const CHROMIUM: &str =
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";
const LOOK: Look = Look {
    post_bytes: 1 << 20,
};

fn refused(mode: Mode) -> Refusal {
    let ticket = Ticket {
        id: 7,
        born: Time::ZERO,
        mode,
        tries: 1,
        paid: 3,
    };
    Refusal {
        cause: Cause::Thinner(RefuseCause::Unpaid),
        mode,
        retry_after: Span::from_millis(1_200),
        price: 42,
        paid: 3,
        tries: 1,
        place: 9,
        ticket: Tickets::new([1; 16]).seal(&ticket),
    }
}

fn asks<'a>(method: &'a str, target: &'a str, fields: &[(&str, &'a str)]) -> RequestFacts<'a> {
    let mut facts = RequestFacts::new(method.as_bytes(), target.as_bytes());
    for (name, value) in fields {
        facts.note(name.as_bytes(), value.as_bytes());
    }
    facts
}

fn page<'a>(method: &'a str) -> RequestFacts<'a> {
    asks(method, "/a?b=1", &[("accept", CHROMIUM)])
}

fn part<'a>(method: &'a str) -> RequestFacts<'a> {
    asks(
        method,
        "/a.png",
        &[("sec-fetch-mode", "no-cors"), ("sec-fetch-dest", "image")],
    )
}

fn program<'a>(method: &'a str) -> RequestFacts<'a> {
    asks(method, "/feed", &[("accept", "*/*")])
}

impl Answer {
    fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(field, _)| *field == name);
        let value = found.next().map(|(_, value)| value.as_ref());
        assert_eq!(found.next(), None, "{name} comes twice");
        value
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

#[test]
fn each_client_is_answered_as_it_can_use_it() {
    let mut over = refused(Mode::Retry);
    over.tries = RETRIES_MAX;
    let mut redirected = refused(Mode::Retry);
    redirected.tries = REDIRECTS_MAX + 1;
    let mut exhausted = refused(Mode::Auction);
    exhausted.cause = Cause::Exhausted;
    let retry = refused(Mode::Retry);
    let auction = refused(Mode::Auction);
    let random = refused(Mode::Random);
    for (name, facts, refusal, expect) in [
        ("page", page("GET"), retry, Kind::Refresh),
        ("page", page("GET"), random, Kind::Refresh),
        ("page", page("GET"), auction, Kind::Script),
        ("page", page("HEAD"), auction, Kind::Script),
        ("page", page("GET"), refused(Mode::Priced), Kind::Script),
        (
            "page",
            page("GET"),
            refused(Mode::ProofOfWork),
            Kind::Script,
        ),
        ("page", page("GET"), refused(Mode::Queue), Kind::Script),
        ("page, tried too often", page("GET"), over, Kind::Person),
        ("page, tried too long", page("GET"), exhausted, Kind::Person),
        ("form", page("POST"), retry, Kind::Again),
        ("form", page("POST"), auction, Kind::Again),
        (
            "form, not told to retry",
            page("POST"),
            random,
            Kind::Person,
        ),
        (
            "form, redirected too often",
            page("POST"),
            redirected,
            Kind::Person,
        ),
        (
            "form, tried too long",
            page("POST"),
            exhausted,
            Kind::Person,
        ),
        ("part", part("GET"), retry, Kind::Again),
        ("part", part("POST"), retry, Kind::Again),
        ("part", part("GET"), auction, Kind::Bare),
        ("part", part("GET"), redirected, Kind::Bare),
        ("program", program("GET"), retry, Kind::Json),
        ("program", program("POST"), retry, Kind::Json),
        ("program", program("GET"), over, Kind::Json),
        (
            "feed reader",
            asks("GET", "/", &[("accept", "application/rss+xml")]),
            retry,
            Kind::Bare,
        ),
        (
            "script of a page",
            asks("GET", WAIT_PATH, &[("accept", CHROMIUM)]),
            auction,
            Kind::Json,
        ),
    ] {
        assert_eq!(kind(&facts, &refusal), expect, "{name} {:?}", refusal.mode);
    }
}

#[test]
fn a_program_is_never_given_a_page_or_success() {
    for mode in Mode::ALL {
        for method in ["GET", "POST", "HEAD", "PUT"] {
            let answer = refusal(&program(method), &refused(mode), LOOK);
            assert_eq!(answer.status, 503);
            assert_eq!(answer.get("retry-after"), Some("2"), "rounded up");
            assert_eq!(answer.get("content-type"), Some("application/json"));
            assert_eq!(answer.get("cache-control"), Some("no-store"));
            let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            assert_eq!(json["cause"], "unpaid");
            assert_eq!(json["ticket"].is_string(), mode != Mode::Random);
            assert_eq!(json["ticket"].as_str(), answer.get("levee-ticket"));
        }
    }
}

#[test]
fn the_price_is_told_with_its_unit() {
    for (mode, price, pay) in [
        (Mode::Random, None, None),
        (Mode::Retry, Some("42;unit=retries;paid=3"), Some("retries")),
        (
            Mode::Priced,
            Some("42;unit=retries;paid=3;size=512"),
            Some("retries /.well-known/levee/pay"),
        ),
        (
            Mode::Auction,
            Some("42;unit=bytes;paid=3"),
            Some("bytes /.well-known/levee/pay"),
        ),
        (
            Mode::ProofOfWork,
            Some("42;unit=hashes;paid=3"),
            Some("sha-256"),
        ),
        (
            Mode::Queue,
            Some("42;unit=time;paid=3;place=9"),
            Some("time"),
        ),
    ] {
        let answer = refusal(&program("GET"), &refused(mode), LOOK);
        assert_eq!(answer.get("levee-price"), price);
        assert_eq!(answer.get("levee-pay"), pay);
    }
}

#[test]
fn a_page_loads_itself_anew_with_its_ticket_and_runs_no_other_script() {
    let retry = refused(Mode::Retry);
    let answer = refusal(&page("GET"), &retry, LOOK);
    let url = format!("content=\"0;url=?b=1&amp;levee-ticket={}\"", retry.ticket);
    assert!(answer.text().contains(&url), "{}", answer.text());
    assert!(!answer.text().contains("<script"));

    let auction = refused(Mode::Auction);
    let answer = refusal(&page("GET"), &auction, LOOK);
    let noscript = answer
        .text()
        .find("<noscript><meta http-equiv=\"refresh\"")
        .unwrap();
    assert!(noscript < answer.text().find("</head>").unwrap());
    let policy = answer.get("content-security-policy").unwrap();
    let nonce = format!("'nonce-{}'", auction.ticket.nonce());
    assert!(policy.starts_with("default-src 'none'") && policy.contains(&nonce));
    assert_eq!(answer.text().matches("<script").count(), 1);
    assert!(
        answer
            .text()
            .contains(&format!("<script nonce=\"{}\"", auction.ticket.nonce()))
    );
}

#[test]
fn nothing_of_a_strange_target_gets_out_of_its_quotes() {
    let target = "//evil.example/\"><script>?a=\"><script>'&b=\u{1}\u{80}&c=%22";
    let facts = asks("GET", target, &[("accept", CHROMIUM)]);
    let retry = refused(Mode::Retry);
    let answer = refusal(&facts, &retry, LOOK);
    assert!(!answer.text().contains("<script") && !answer.text().contains("evil"));
    let query = "?a=%22%3E%3Cscript%3E%27&amp;b=%01%C2%80&amp;c=%22&amp;levee-ticket=";
    assert!(answer.text().contains(query), "{}", answer.text());
    let again = again(b"//evil.example/?levee-ticket=old&a", &retry.ticket);
    assert_eq!(again, format!("?a&levee-ticket={}", retry.ticket));
}

#[test]
fn a_form_that_may_be_sent_again_is_sent_to_itself() {
    let retry = refused(Mode::Retry);
    let answer = refusal(&page("POST"), &retry, LOOK);
    assert_eq!(answer.status, 307);
    let location = format!("?b=1&levee-ticket={}", retry.ticket);
    assert_eq!(answer.get("location"), Some(&location[..]));
    assert!(answer.body.is_empty());
    // One that may not says so, and loads nothing by itself.
    let answer = refusal(&page("POST"), &refused(Mode::Random), LOOK);
    assert!(answer.status == 503 && answer.text().contains("was not passed on"));
    assert!(!answer.text().contains("http-equiv"));
}

#[test]
fn a_person_is_asked_at_the_end_and_finds_the_page_again() {
    let mut exhausted = refused(Mode::Retry);
    exhausted.cause = Cause::Exhausted;
    let facts = asks("GET", "/a?x=1&levee-ticket=old", &[("accept", CHROMIUM)]);
    let answer = refusal(&facts, &exhausted, LOOK);
    assert!(!answer.text().contains("http-equiv") && !answer.text().contains("<script"));
    assert!(
        answer.text().contains("<p id=\"again\"><a href=\"?x=1\">"),
        "{}",
        answer.text()
    );
}

#[test]
fn an_answer_is_framed() {
    let answer = refusal(&program("GET"), &refused(Mode::Auction), LOOK);
    let (mut whole, mut head) = (Vec::new(), Vec::new());
    answer.write_h1(&mut whole, false, b"connection: close\r\n");
    answer.write_h1(&mut head, true, b"connection: close\r\n");
    let end = whole
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap()
        + 4;
    assert_eq!(head, whole[..end]);
    assert_eq!(&whole[end..], answer.body);
    let text = std::str::from_utf8(&whole[..end]).unwrap();
    assert!(text.starts_with("HTTP/1.1 503 Service Unavailable\r\ncache-control: no-store\r\n"));
    assert!(text.contains(&format!("\r\ncontent-length: {}\r\n", answer.body.len())));
    assert!(text.ends_with("\r\nconnection: close\r\n\r\n"));
    let response: http::Response<Vec<u8>> = answer.clone().into_response(true);
    assert_eq!(response.status(), 503);
    assert_eq!(
        response.headers()["content-length"],
        answer.body.len().to_string()
    );
    assert!(response.body().is_empty());
}

/// What is sent for each visitor is small: a page with its script is below one initial window of TCP (RFC 6928).
#[test]
fn pages_are_small() {
    let answer = refusal(&page("GET"), &refused(Mode::ProofOfWork), LOOK);
    assert!(answer.body.len() < 10 * 1460, "{}", answer.body.len());
    let answer = refusal(&page("GET"), &refused(Mode::Retry), LOOK);
    assert!(answer.body.len() < 1460, "{}", answer.body.len());
}
