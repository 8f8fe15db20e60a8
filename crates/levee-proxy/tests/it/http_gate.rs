//! Requests before a full server: who waits, who is told what, and how payment comes. The numbers are those of the edge cases
//! that other fronts were seen to fail.

use std::time::{Duration, Instant};

use levee_policy::Span;
use levee_policy::thinner::{Config, Mode};
use levee_proxy::http::gate::RequestsSnapshot;
use levee_proxy::http::pages::{PAY_PATH, REDIRECTS_MAX, RETRIES_MAX, RETRY_BYTES, WAIT_PATH};
use levee_proxy::http::settings::HttpSettings;

use crate::http_world::{Response, Wire, World, get, within};

const CHROMIUM: &str =
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n";

/// A thinner that lets one request in at a time.
pub(crate) fn one_at_once(mode: Mode) -> Config {
    let text = format!(
        "kind = \"thinner\"\ncapacity = {{ concurrency = 1 }}\nmode = \"{}\"",
        mode.name()
    );
    toml::from_str(&text).unwrap()
}

/// A front whose server's only place is taken, until [`Full::free`].
pub(crate) struct Full {
    pub(crate) world: World,
    holder: Wire,
}

impl Full {
    pub(crate) async fn new(mode: Mode) -> Self {
        Self::with(mode, |_| {}).await
    }

    pub(crate) async fn with(mode: Mode, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let world = World::with(|settings| {
            settings.defense = Some(one_at_once(mode));
            // The place is held until it is freed, however long a browser takes to start beside it.
            settings.timeouts.upstream_first_byte = Duration::from_secs(600);
            change(settings);
        })
        .await;
        let mut holder = world.connect().await;
        holder.send(get("/when-told")).await;
        within("the first request", world.seen.came.notified()).await;
        Full { world, holder }
    }

    /// The server has a place again.
    pub(crate) async fn free(&mut self) {
        self.world.seen.go.one();
        assert_eq!(self.holder.answer().await.status, 200);
    }

    pub(crate) async fn requests(&self) -> RequestsSnapshot {
        self.world.front.snapshot().await.gate.requests.unwrap()
    }

    /// Waits until the thinner's numbers are so.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&RequestsSnapshot) -> bool) {
        let look = async {
            while !is_so(&self.requests().await) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        within(what, look).await;
    }

    /// A ticket, as a program is given it.
    pub(crate) async fn ticket(&self) -> String {
        let answer = self.world.get("/echo").await;
        assert_eq!(answer.status, 503);
        answer.header("levee-ticket").unwrap().to_owned()
    }

    /// A request that waits with this ticket.
    async fn waits(&self, path: &str, ticket: &str) -> Wire {
        let mut wire = self.world.connect().await;
        let before = self.requests().await.contenders;
        wire.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nLevee-Ticket: {ticket}\r\n\r\n"
        ))
        .await;
        self.until("a contender", |seen| seen.contenders > before)
            .await;
        wire
    }

    /// The head of a payment of so many bytes, or one that never ends.
    async fn pays(&self, ticket: &str, bytes: Option<usize>) -> Wire {
        let mut wire = self.world.connect().await;
        let framing = match bytes {
            Some(bytes) => format!("Content-Length: {bytes}"),
            None => "Transfer-Encoding: chunked".to_owned(),
        };
        wire.send(format!(
            "POST {PAY_PATH} HTTP/1.1\r\nHost: a\r\nLevee-Ticket: {ticket}\r\n{framing}\r\n\r\n"
        ))
        .await;
        wire
    }

    async fn until_paid(&self, bytes: u64) {
        self.until("the payment", |seen| seen.stats.paid >= bytes)
            .await;
    }
}

/// Below capacity nothing is changed: the server sees what was sent, the client what was answered.
#[tokio::test]
async fn below_capacity_nothing_is_added() {
    let plain = World::new().await;
    let thin = World::with(|settings| settings.defense = Some(one_at_once(Mode::Auction))).await;
    let (a, b) = (plain.get("/page?a=1").await, thin.get("/page?a=1").await);
    let without_date = |answer: &Response| {
        let lines = answer
            .head
            .lines()
            .filter(|line| !line.to_ascii_lowercase().starts_with("date"));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!((without_date(&a), a.body), (without_date(&b), b.body));
    assert_eq!(plain.seen.requests(), thin.seen.requests());
}

/// Case 16: a program is told so and what it may do, in its own terms.
#[tokio::test]
async fn a_program_is_refused_in_its_own_terms() {
    for mode in Mode::ALL.into_iter().filter(|mode| *mode != Mode::Queue) {
        let full = Full::new(mode).await;
        for (what, fields, json) in [
            ("curl", "User-Agent: curl/8.0\r\nAccept: */*\r\n", true),
            (
                "git",
                "User-Agent: git/2.43\r\nAccept: */*\r\nPragma: no-cache\r\n",
                true,
            ),
            (
                "a feed reader",
                "Accept: application/atom+xml, application/rss+xml, text/html;q=0.5\r\n",
                false,
            ),
            ("an API client", "Accept: application/json\r\n", true),
            ("a bare client", "", true),
        ] {
            let request = format!("GET /echo HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            let answer = full.world.ask(&request).await;
            assert_eq!(answer.status, 503, "{what} {mode:?}");
            assert!(answer.header("retry-after").is_some(), "{what}");
            assert!(!answer.body.contains('<'), "{what}: {}", answer.body);
            assert_eq!(answer.body.is_empty(), !json, "{what}: {}", answer.body);
            assert_eq!(
                answer.header("levee-price").is_some(),
                mode != Mode::Random,
                "{what}"
            );
        }
        assert_eq!(full.world.seen.requests().len(), 1, "nothing was passed on");
    }
}

/// Case 22: what answers HEAD has no body, refused or not.
#[tokio::test]
async fn a_refused_head_has_no_body() {
    let full = Full::new(Mode::Auction).await;
    let mut wire = full.world.connect().await;
    for _ in 0..2 {
        wire.send(format!("HEAD /page HTTP/1.1\r\nHost: a\r\n{CHROMIUM}\r\n"))
            .await;
        let answer = within("an answer", wire.response_to("HEAD")).await.unwrap();
        assert_eq!((answer.status, &answer.body[..]), (503, ""));
        assert!(
            answer
                .header("content-length")
                .unwrap()
                .parse::<usize>()
                .unwrap()
                > 1_000
        );
    }
}

/// Cases 14 and 17: a body is neither asked for nor read before its request is admitted, and is all there then.
#[tokio::test]
async fn a_body_is_read_when_its_request_is_admitted_and_not_before() {
    let mut full = Full::new(Mode::Auction).await;
    let mut wire = full.world.connect().await;
    wire.send(
        "POST /continue HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    )
    .await;
    full.until("a contender", |seen| seen.contenders == 1).await;
    let early = tokio::time::timeout(Duration::from_millis(100), wire.stream.readable()).await;
    assert!(early.is_err(), "nobody may ask for the body yet");
    full.free().await;
    assert!(wire.until("\r\n\r\n").await.starts_with("HTTP/1.1 100"));
    wire.send("hello").await;
    let answer = wire.answer().await;
    assert_eq!((answer.status, &answer.body[..]), (200, "hello"));
}

/// Case 14: a refusal comes before any 100.
#[tokio::test]
async fn a_refused_body_is_never_asked_for() {
    let full = Full::with(Mode::Auction, |settings| {
        if let Some(config) = &mut settings.defense {
            config.patience = Span::from_millis(100);
        }
    })
    .await;
    let mut wire = full.world.connect().await;
    wire.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    )
    .await;
    assert!(wire.rest().await.starts_with("HTTP/1.1 503"));
    assert_eq!(full.world.seen.requests().len(), 1);
}

/// Case 17: a form is sent again by its browser, with its body, and the server sees it once.
#[tokio::test]
async fn a_form_survives_being_sent_back() {
    let mut full = Full::new(Mode::Retry).await;
    let body = "x".repeat(100_000);
    let post = |target: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\n{CHROMIUM}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let mut target = "/length?a=1".to_owned();
    for tries in 1..=3 {
        let answer = full.world.ask(&post(&target)).await;
        assert_eq!(answer.status, 307, "at try {tries}");
        target = format!("/length{}", answer.header("location").unwrap());
    }
    full.free().await;
    let answer = full.world.ask(&post(&target)).await;
    assert_eq!((answer.status, &answer.body[..]), (200, "100000"));
    let seen = full.world.seen.requests();
    assert_eq!(seen.len(), 2);
    assert!(
        seen[1].starts_with("POST /length?a=1 HTTP/1.1\r\n"),
        "{}",
        seen[1]
    );
}

/// Case 17: it is not sent back for ever, and the person is told that nothing was passed on.
#[tokio::test]
async fn a_form_is_sent_back_a_bounded_number_of_times() {
    let full = Full::new(Mode::Retry).await;
    let mut target = "/echo".to_owned();
    for tries in 1.. {
        let request =
            format!("POST {target} HTTP/1.1\r\nHost: a\r\n{CHROMIUM}Content-Length: 1\r\n\r\nx");
        let answer = full.world.ask(&request).await;
        if answer.status == 307 {
            target = format!("/echo{}", answer.header("location").unwrap());
            continue;
        }
        assert_eq!((answer.status, tries), (503, REDIRECTS_MAX + 1));
        assert!(answer.body.contains("was not passed on"), "{}", answer.body);
        break;
    }
}

/// What a browser without script and cookies does with a page: loads it anew, or stops.
fn refreshed(answer: &Response) -> Option<String> {
    let url = answer
        .body
        .split_once("http-equiv=\"refresh\" content=\"0;url=")?
        .1;
    Some(url.split_once('"')?.0.replace("&amp;", "&"))
}

/// Case 18: without cookies and script, and without a person, it goes on until the server has room.
#[tokio::test]
async fn without_cookies_and_script_a_page_makes_progress() {
    for mode in [Mode::Retry, Mode::Auction, Mode::Priced, Mode::ProofOfWork] {
        let mut full = Full::with(mode, |settings| {
            if let Some(config) = &mut settings.defense {
                config.patience = Span::from_millis(20);
            }
        })
        .await;
        let mut query = "?a=1".to_owned();
        for tries in 0.. {
            let request = format!("GET /page{query} HTTP/1.1\r\nHost: a\r\n{CHROMIUM}\r\n");
            if tries == 5 {
                full.free().await;
            }
            let answer = full.world.ask(&request).await;
            if tries >= 5 && answer.status == 200 {
                assert!(answer.body.contains("the content"));
                break;
            }
            assert_eq!(answer.status, 503, "{mode:?}");
            query = refreshed(&answer).expect("a page that loads itself anew");
            assert!(query.starts_with("?a=1&levee-ticket="), "{query}");
            assert!(tries < 50, "{mode:?} makes no progress");
        }
        let seen = full.world.seen.requests();
        assert!(
            seen[1].starts_with("GET /page?a=1 HTTP/1.1\r\n"),
            "{}",
            seen[1]
        );
    }
}

/// Case 18: and it stops at a bound, with a page for a person.
#[tokio::test]
async fn a_page_loads_itself_anew_a_bounded_number_of_times() {
    let full = Full::with(Mode::Retry, |settings| {
        settings.limits.keep_alive_requests = u32::MAX;
    })
    .await;
    let mut wire = full.world.connect().await;
    let mut query = String::new();
    for tries in 1..=RETRIES_MAX {
        wire.send(format!(
            "GET /page{query} HTTP/1.1\r\nHost: a\r\n{CHROMIUM}\r\n"
        ))
        .await;
        let answer = wire.answer().await;
        assert_eq!(answer.status, 503);
        match refreshed(&answer) {
            Some(next) => query = next,
            None => {
                assert_eq!(tries, RETRIES_MAX);
                assert!(
                    answer
                        .body
                        .contains("<p id=\"again\"><a href=\"?\">Try again</a>"),
                    "{}",
                    answer.body
                );
            }
        }
    }
    assert_eq!(
        full.requests().await.stats.refused.drawn,
        u64::from(RETRIES_MAX)
    );
}

/// Case 19: parts of one page that are fetched at once have a ticket each.
#[tokio::test]
async fn parts_of_a_page_do_not_take_each_others_place() {
    let mut full = Full::new(Mode::Retry).await;
    let image = |target: &str| {
        format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nAccept: image/*\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Dest: image\r\n\r\n"
        )
    };
    let mut targets = Vec::new();
    for i in 0..20 {
        let answer = full.world.ask(&image(&format!("/{i}.png"))).await;
        assert_eq!(answer.status, 307);
        targets.push(format!("/{i}.png{}", answer.header("location").unwrap()));
    }
    full.free().await;
    for (i, target) in targets.iter().enumerate() {
        assert_eq!(full.world.ask(&image(target)).await.status, 200);
        let seen = full.world.seen.requests();
        assert!(seen[i + 1].starts_with(&format!("GET /{i}.png HTTP/1.1\r\n")));
    }
    let tickets: std::collections::BTreeSet<_> = targets
        .iter()
        .map(|target| target.split_once('=').unwrap().1)
        .collect();
    assert_eq!(tickets.len(), 20);
}

/// Case 20: many clients behind one address are many clients.
#[tokio::test]
async fn clients_behind_one_address_are_many() {
    let mut full = Full::new(Mode::Auction).await;
    let mut waiting = Vec::new();
    for _ in 0..30 {
        let ticket = full.ticket().await;
        waiting.push((full.waits("/page", &ticket).await, ticket));
    }
    assert_eq!(full.requests().await.contenders, 30);
    let (wire, ticket) = &mut waiting[17];
    let mut payment = full.pays(ticket, Some(5_000)).await;
    payment.send([0; 5_000]).await;
    assert_eq!(payment.answer().await.status, 200);
    full.free().await;
    assert_eq!(wire.answer().await.status, 200);
    // The others have paid as much as each other, and are served in turn.
    for (index, (wire, _)) in waiting.iter_mut().enumerate() {
        if index != 17 {
            assert_eq!(wire.answer().await.status, 200);
        }
    }
}

/// Case 23: a client that goes while it waits leaves at once, and pays for nobody else.
#[tokio::test]
async fn a_client_that_goes_leaves_the_auction() {
    let mut full = Full::new(Mode::Auction).await;
    let ticket = full.ticket().await;
    let gone = full.waits("/page", &ticket).await;
    let other = full.ticket().await;
    let mut stays = full.waits("/echo", &other).await;
    let mut payment = full.pays(&ticket, Some(1 << 20)).await;
    payment.send(vec![0; 1_000]).await;
    full.until_paid(1_000).await;
    drop(gone);
    full.until("that it left", |seen| {
        seen.contenders == 1 && seen.stats.left == 1
    })
    .await;
    let answer = payment.answer().await;
    assert!(
        answer.body.contains("\"state\":\"gone\""),
        "{}",
        answer.body
    );
    full.free().await;
    assert_eq!(stays.answer().await.status, 200);
    assert_eq!(
        full.world.seen.requests().len(),
        2,
        "the one that left was not passed on"
    );
}

/// Case 26: bytes are counted as they come, on one connection or two, and the highest bid wins.
#[tokio::test]
async fn bytes_are_counted_as_they_come() {
    let mut full = Full::new(Mode::Auction).await;
    let (poor, rich) = (full.ticket().await, full.ticket().await);
    let mut poor_waits = full.waits("/echo?poor", &poor).await;
    let mut rich_waits = full.waits("/echo?rich", &rich).await;
    // None of these has come to its end.
    let mut payments = [
        full.pays(&poor, None).await,
        full.pays(&rich, Some(1 << 20)).await,
        full.pays(&rich, None).await,
    ];
    payments[0]
        .send(format!("7d0\r\n{}\r\n", "p".repeat(2_000)))
        .await;
    payments[1].send(vec![0; 1_500]).await;
    payments[2]
        .send(format!("5dc\r\n{}\r\n", "r".repeat(1_500)))
        .await;
    full.until_paid(5_000).await;
    full.free().await;
    assert_eq!(rich_waits.answer().await.status, 200);
    // The channels of the one that won are answered, in the middle of what they send.
    for payment in &mut payments[1..] {
        let answer = payment.answer().await;
        assert!(
            answer.body.contains("\"state\":\"admitted\""),
            "{}",
            answer.body
        );
    }
    assert_eq!(poor_waits.answer().await.status, 200);
    let seen = full.world.seen.requests();
    assert!(seen[1].contains("?rich") && seen[2].contains("?poor"));
    // Nothing of the protocol reaches the server.
    assert!(
        !seen[1].to_ascii_lowercase().contains("levee"),
        "{}",
        seen[1]
    );
}

/// Case 26: a payment that breaks off has paid what came, one of nothing nothing, and a compressed one what came on the wire.
#[tokio::test]
async fn broken_empty_and_compressed_payments_count_for_what_they_are() {
    let full = Full::new(Mode::Auction).await;
    let ticket = full.ticket().await;
    let _waiting = full.waits("/echo", &ticket).await;
    let mut broken = full.pays(&ticket, Some(1 << 20)).await;
    broken.send(vec![0; 700]).await;
    full.until_paid(700).await;
    drop(broken);
    let mut empty = full.pays(&ticket, Some(0)).await;
    let answer = empty.answer().await;
    assert_eq!(answer.status, 200);
    // The first try's head counts too: 37 bytes of `GET /echo` and its `Host`.
    let paid = 700 + get("/echo").len();
    assert!(
        answer.body.contains(&format!("\"paid\":{paid},")),
        "{}",
        answer.body
    );
    let mut gzip = full.world.connect().await;
    let bomb = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    let head = format!(
        "POST {PAY_PATH} HTTP/1.1\r\nHost: a\r\nLevee-Ticket: {ticket}\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n"
    );
    gzip.send(head).await;
    gzip.send(bomb).await;
    assert!(
        gzip.answer()
            .await
            .body
            .contains(&format!("\"paid\":{},", paid + 10))
    );
    full.until("that all channels are closed", |_| true).await;
    assert_eq!(full.world.front.snapshot().await.gate.channels, 0);
}

/// Case 26: a payment that comes before its request is not read until that comes, and refused if it does not.
#[tokio::test]
async fn a_payment_waits_for_its_request() {
    let full = Full::new(Mode::Auction).await;
    let ticket = full.ticket().await;
    let mut early = full.pays(&ticket, Some(3_000)).await;
    early.send(vec![0; 3_000]).await;
    assert_eq!(full.requests().await.payment.bytes, 0);
    let _waiting = full.waits("/echo", &ticket).await;
    assert!(early.answer().await.body.contains("\"state\":\"waiting\""));
    let other = full.ticket().await;
    let began = Instant::now();
    let mut unasked = full.pays(&other, Some(3_000)).await;
    unasked.send(vec![0; 3_000]).await;
    assert_eq!(unasked.answer().await.status, 409);
    assert!(began.elapsed() >= Duration::from_secs(2) && began.elapsed() < Duration::from_secs(5));
    assert_eq!(full.requests().await.payment.bytes, 3_000);
}

#[tokio::test]
async fn in_the_priced_mode_retries_are_sent_in_one_stream() {
    let mut full = Full::new(Mode::Priced).await;
    // A flood, so that there is a price.
    let mut wire = full.world.connect().await;
    for _ in 0..200 {
        wire.send(get("/echo")).await;
        assert_eq!(wire.answer().await.status, 503);
    }
    let ticket = full.ticket().await;
    let mut waiting = full.waits("/echo", &ticket).await;
    let bytes = usize::try_from(RETRY_BYTES).unwrap() * 10_000;
    let mut payment = full.pays(&ticket, Some(bytes)).await;
    payment.send(vec![0; bytes]).await;
    let answer = payment.answer().await;
    // Its own first try is one of them.
    assert!(answer.body.contains("\"paid\":10001,"), "{}", answer.body);
    full.free().await;
    assert_eq!(waiting.answer().await.status, 200);
}

/// What the page's script does, without a browser: it waits for the place, and the reload takes it.
#[tokio::test]
async fn a_won_place_is_taken_by_the_reload() {
    let mut full = Full::new(Mode::Auction).await;
    let page = full
        .world
        .ask(&format!("GET /page HTTP/1.1\r\nHost: a\r\n{CHROMIUM}\r\n"))
        .await;
    let ticket = page.header("levee-ticket").unwrap().to_owned();
    assert!(page.body.contains(&ticket));
    let mut wait = full.waits(WAIT_PATH, &ticket).await;
    full.free().await;
    let won = wait.answer().await;
    assert_eq!(won.status, 200);
    let cookie = won.header("set-cookie").unwrap().split(';').next().unwrap();
    assert_eq!(
        full.world.seen.requests().len(),
        1,
        "waiting is nothing to the server"
    );
    // Meanwhile the place is kept.
    assert_eq!(full.world.get("/echo").await.status, 503);
    let reload =
        format!("GET /page HTTP/1.1\r\nHost: a\r\nCookie: a=b; {cookie}\r\n{CHROMIUM}\r\n");
    let answer = full.world.ask(&reload).await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("the content"));
    // With cookies off the ticket goes by the query.
    assert_eq!(full.requests().await.tickets.claimed, 1);
}

/// Case 27: where payment would fill the uplink, payment is what has to wait.
#[tokio::test]
async fn payment_is_shed_first() {
    const RATE: u64 = 2_000_000;
    let full = Full::with(Mode::Auction, |settings| {
        settings.payment.bytes_per_second_max = Some(RATE);
        settings.protect = vec!["/when-told".to_owned(), "/echo".to_owned()];
    })
    .await;
    let ticket = full.ticket().await;
    let _waiting = full.waits("/echo", &ticket).await;
    let began = Instant::now();
    let senders: Vec<_> = (0..4).map(|_| full.pays(&ticket, None)).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for sender in senders {
        let mut wire = sender.await;
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        tasks.spawn(async move {
            use tokio::io::AsyncWriteExt as _;
            // Until the test ends.
            while wire.stream.write_all(chunk.as_bytes()).await.is_ok() {}
        });
    }
    // Requests that do not pay are as quick as ever.
    while began.elapsed() < Duration::from_secs(1) {
        let asked = Instant::now();
        assert_eq!(full.world.get("/page").await.status, 200);
        assert!(
            asked.elapsed() < Duration::from_millis(500),
            "{:?}",
            asked.elapsed()
        );
    }
    let seen = full.requests().await.payment;
    let most = RATE as f64 * (began.elapsed().as_secs_f64() + 0.1);
    // One read of each channel may be on top of what its time gives.
    let slack = 4.0 * 262_144.0;
    assert!(
        seen.bytes as f64 <= most + slack,
        "{} of {most}",
        seen.bytes
    );
    assert!(
        seen.bytes as f64 >= RATE as f64 * 0.5 && seen.shed_pauses > 0,
        "{seen:?}"
    );
    tasks.abort_all();
}

/// Case 27: channels are bounded, and one too many is told so at once.
#[tokio::test]
async fn a_channel_too_many_is_refused() {
    let full = Full::with(Mode::Auction, |settings| {
        settings.limits.connections_max = 16;
    })
    .await;
    let ticket = full.ticket().await;
    let _waiting = full.waits("/echo", &ticket).await;
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(full.pays(&ticket, Some(100)).await);
    }
    full.until("eight channels", |seen| seen.payment.opened == 8)
        .await;
    let mut ninth = full.pays(&ticket, Some(100)).await;
    assert_eq!(ninth.answer().await.status, 503);
    assert_eq!(full.requests().await.payment.shed_channels, 1);
    drop(open);
}

/// A dry run and a bypass let everything pass as it came.
#[tokio::test]
async fn a_dry_run_lets_pass_and_counts() {
    for bypass in [false, true] {
        let full = Full::with(Mode::Auction, |settings| {
            settings.dry_run = !bypass;
            settings.bypass = bypass;
        })
        .await;
        for _ in 0..5 {
            assert_eq!(full.world.get("/echo").await.status, 200);
        }
        let gate = full.world.front.snapshot().await.gate;
        assert_eq!(
            gate.requests.map(|seen| seen.tickets.would_refuse),
            (!bypass).then_some(5)
        );
    }
}

/// A reload changes the currency, and takes the thinner away; nobody is lost.
#[tokio::test]
async fn a_reload_loses_nobody() {
    let mut full = Full::new(Mode::Auction).await;
    let ticket = full.ticket().await;
    let mut waiting = full.waits("/echo", &ticket).await;
    let mut settings = full.world.settings.clone();
    settings.defense = Some(one_at_once(Mode::Queue));
    full.world.front.reload(settings.clone()).unwrap();
    full.until("the new mode", |seen| seen.mode == Mode::Queue)
        .await;
    assert_eq!(full.requests().await.contenders, 1);
    settings.defense = None;
    full.world.front.reload(settings).unwrap();
    assert_eq!(waiting.answer().await.status, 200);
    full.free().await;
}
