//! The pages in a real browser.

use std::sync::Arc;
use std::time::Duration;

use levee_policy::Span;
use levee_policy::thinner::{Capacity, Mode};
use tokio::task::{JoinSet, spawn_blocking};

use crate::browser::{Browser, Setup};
use crate::http_gate::Full;
use crate::http_world::{Wire, World, get};

/// For a browser on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(60);

/// Opens `path` in a browser; what it is told the page is when there is something to see.
async fn opens(full: &Full, setup: Setup, path: &str) -> Arc<Browser> {
    let url = format!("http://{}{path}", full.world.addr());
    let browser = spawn_blocking(move || {
        let browser = Browser::start(setup);
        browser.go(&url);
        Arc::new(browser)
    });
    browser.await.unwrap()
}

/// Waits for the server's page: its address.
async fn arrives(browser: &Arc<Browser>, title: &'static str) -> String {
    let browser = Arc::clone(browser);
    let url = spawn_blocking(move || {
        browser.until_title(title, PATIENCE);
        browser.url()
    });
    url.await.unwrap()
}

#[tokio::test]
#[ignore = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"]
async fn peers_a_page_loads_itself_anew_until_there_is_room() {
    let mut full = Full::new(Mode::Retry).await;
    let browser = opens(&full, Setup::default(), "/page?a=1").await;
    full.until("some tries", |seen| seen.stats.refused.drawn >= 5)
        .await;
    full.free().await;
    let url = arrives(&browser, "the content").await;
    assert!(url.contains("/page?a=1&levee-ticket="), "{url}");
    let seen = full.world.seen.requests();
    assert!(
        seen[1].starts_with("GET /page?a=1 HTTP/1.1\r\n"),
        "{}",
        seen[1]
    );
}

/// The script waits and pays in each currency, and then the address is the one that was asked for, and the server's page is shown
/// with the server's own policy.
#[tokio::test]
#[ignore = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"]
async fn peers_the_script_waits_for_the_place_in_every_currency() {
    for mode in [Mode::Auction, Mode::Priced, Mode::ProofOfWork, Mode::Queue] {
        let mut full = Full::new(mode).await;
        if mode == Mode::Queue {
            // There the request itself waits; a page comes only when its patience is over.
            let mut settings = full.world.settings.clone();
            if let Some(config) = &mut settings.defense {
                config.patience = Span::from_secs(1);
            }
            full.world.front.reload(settings).unwrap();
        }
        if mode == Mode::Priced {
            // A flood, so that there is a price.
            let mut wire = full.world.connect().await;
            for _ in 0..500 {
                wire.send(get("/echo")).await;
                assert_eq!(wire.answer().await.status, 503);
            }
        }
        let browser = opens(&full, Setup::default(), "/page?a=1#part").await;
        if mode == Mode::Queue {
            full.until("the end of its patience", |seen| {
                seen.stats.refused.outbid >= 1
            })
            .await;
        }
        full.until("a contender", |seen| seen.contenders == 1).await;
        if mode == Mode::Auction {
            full.until("payment", |seen| seen.stats.paid >= 3 << 20)
                .await;
        }
        full.free().await;
        let url = arrives(&browser, "the content").await;
        assert!(url.ends_with("/page?a=1#part"), "{mode:?}: {url}");
        let seen = full.requests().await;
        assert_eq!(
            (seen.tickets.claimed, seen.tickets.unclaimed),
            (1, 0),
            "{mode:?}"
        );
        let requests = full.world.seen.requests();
        assert!(
            requests[1].starts_with("GET /page?a=1 HTTP/1.1\r\n"),
            "{}",
            requests[1]
        );
    }
}

/// Against a flood that pays, the script gets its page.
#[tokio::test]
#[ignore = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"]
async fn peers_the_script_wins_an_auction_against_a_flood() {
    let full = Full::with(Mode::Auction, |settings| {
        if let Some(config) = &mut settings.defense {
            config.capacity = Capacity::Rate(4.0);
            config.burst = Some(1);
        }
    })
    .await;
    let mut flood = JoinSet::new();
    for _ in 0..20 {
        flood.spawn(pay_and_ask(full.world.addr()));
    }
    full.until("the flood", |seen| {
        seen.contenders >= 15 && seen.stats.paid > 100_000
    })
    .await;
    let browser = opens(&full, Setup::default(), "/page").await;
    let url = arrives(&browser, "the content").await;
    assert!(url.ends_with("/page"), "{url}");
    let seen = full.requests().await;
    assert_eq!(seen.tickets.claimed, 1);
    assert!(
        seen.contenders >= 10,
        "the flood is still there: {}",
        seen.contenders
    );
    flood.abort_all();
}

/// A client of the flood: asks again and again, and pays 100 kB/s for each request.
async fn pay_and_ask(front: std::net::SocketAddr) {
    use levee_proxy::http::pages::PAY_PATH;
    loop {
        let mut asks = Wire::to(front).await;
        asks.send(get("/echo")).await;
        let Some(answer) = asks.response().await else {
            continue;
        };
        let Some(ticket) = answer.header("levee-ticket") else {
            continue;
        };
        asks.send(format!(
            "GET /echo HTTP/1.1\r\nHost: a\r\nLevee-Ticket: {ticket}\r\n\r\n"
        ))
        .await;
        let mut pays = Wire::to(front).await;
        pays.send(format!("POST {PAY_PATH} HTTP/1.1\r\nHost: a\r\nLevee-Ticket: {ticket}\r\nContent-Length: 10000000\r\n\r\n")).await;
        let paying = async {
            loop {
                pays.send([0; 10_000]).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = paying => {}
            ready = asks.stream.readable() => ready.unwrap(),
        }
    }
}

/// Case 18: without script a page of a mode with payment loads itself anew, and its request waits.
#[tokio::test]
#[ignore = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"]
async fn peers_without_script_the_refresh_still_works() {
    let setup = Setup {
        no_script: true,
        no_cookies: true,
    };
    let mut full = Full::with(Mode::Auction, |settings| {
        if let Some(config) = &mut settings.defense {
            config.patience = Span::from_millis(300);
        }
    })
    .await;
    let browser = opens(&full, setup, "/page?a=1").await;
    full.until("some tries", |seen| seen.stats.refused.outbid >= 4)
        .await;
    assert_eq!(full.requests().await.payment.opened, 0, "no script runs");
    full.free().await;
    let url = arrives(&browser, "the content").await;
    assert!(url.contains("/page?a=1&levee-ticket="), "{url}");
}

/// With script but without cookies the ticket goes by the query.
#[tokio::test]
#[ignore = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"]
async fn peers_without_cookies_the_script_still_gets_in() {
    let setup = Setup {
        no_script: false,
        no_cookies: true,
    };
    let mut full = Full::new(Mode::Auction).await;
    let browser = opens(&full, setup, "/page").await;
    full.until("a contender", |seen| seen.contenders == 1).await;
    full.free().await;
    let url = arrives(&browser, "the content").await;
    assert!(url.contains("/page?levee-ticket="), "{url}");
    assert_eq!(full.requests().await.tickets.claimed, 1);
}

/// Case 17: a form that was filled in arrives as it was, after having been held and sent back.
#[tokio::test]
#[ignore = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"]
async fn peers_a_form_survives() {
    let mut full = Full::with(Mode::Auction, |settings| {
        settings.protect = vec!["/when-told".to_owned(), "/submit".to_owned()];
        if let Some(config) = &mut settings.defense {
            config.patience = Span::from_millis(500);
        }
    })
    .await;
    let browser = opens(&full, Setup::default(), "/form").await;
    arrives(&browser, "a form").await;
    let clicks = Arc::clone(&browser);
    let clicked = spawn_blocking(move || clicks.click("button"));
    full.until("that it was sent back twice", |seen| {
        seen.stats.refused.outbid >= 2 && seen.contenders == 1
    })
    .await;
    full.free().await;
    clicked.await.unwrap();
    // 200,000 characters of text, `text=`, and a plus for each space, which takes no more room.
    arrives(&browser, "got 200005").await;
    let posts = full
        .world
        .seen
        .requests()
        .iter()
        .filter(|head| head.starts_with("POST /submit "))
        .count();
    assert_eq!(posts, 1);
}

/// A person is asked in the end, and finds the page again.
#[tokio::test]
#[ignore = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"]
async fn peers_a_page_stops_at_its_bound_and_a_person_goes_on() {
    let mut full = Full::new(Mode::Retry).await;
    let browser = opens(&full, Setup::default(), "/page").await;
    arrives(&browser, "Too many visitors").await;
    let tries = full.requests().await.stats.refused.drawn;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        full.requests().await.stats.refused.drawn,
        tries,
        "it asks no more by itself"
    );
    full.free().await;
    let clicks = Arc::clone(&browser);
    spawn_blocking(move || clicks.click("#again a"))
        .await
        .unwrap();
    let url = arrives(&browser, "the content").await;
    assert!(!url.contains("ticket"), "{url}");
}

/// Parts of a page are fetched again by the browser itself.
#[tokio::test]
#[ignore = "needs chromium and chromedriver (apt-get install chromium chromium-driver)"]
async fn peers_parts_of_a_page_are_fetched_again() {
    let full: World = World::with(|settings| {
        settings.protect = vec!["/part".to_owned()];
        let mut config = crate::http_gate::one_at_once(Mode::Retry);
        // Of 40 parts at once most are refused the first time.
        config.capacity = Capacity::Concurrency(2);
        settings.defense = Some(config);
    })
    .await;
    let url = format!("http://{}/parts", full.addr());
    let browser = spawn_blocking(move || {
        let browser = Browser::start(Setup::default());
        browser.go(&url);
        browser.until_title("40 parts", PATIENCE);
    });
    browser.await.unwrap();
}
