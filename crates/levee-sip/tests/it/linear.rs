//! Hostile messages cost time in proportion to their bytes.
#![expect(
    clippy::disallowed_types,
    reason = "the crate must not know a clock; its tests measure with one"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use levee_sip::check;
use levee_sip::header::{name_addrs, vias};
use levee_sip::stream::{self, Next, Progress};
use levee_sip::wire::{Limits, Scanner, StartLine};

const SMALL: usize = 8 * 1024;
const LARGE: usize = 8 * SMALL;

/// Eight times the bytes take 8 times as long if the cost is linear and 64 times if it is quadratic. The bound is the
/// geometric mean of both.
const RATIO_MAX: f64 = 22.6;

/// Enough runs to meet the machine at rest: its other work can only add to a run.
const RUNS: usize = 50;
/// A large message may take more of them, as fewer of its runs stay undisturbed; but not for ever.
const PATIENCE: Duration = Duration::from_secs(3);

fn run(mut work: impl FnMut()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// `work` of a small and of a large input.
fn assert_linear(what: &str, work: [&mut dyn FnMut(); 2]) {
    let [on_small, on_large] = work;
    let small = (0..RUNS).map(|_| run(&mut *on_small)).min().unwrap();
    // Below a microsecond the clock is measured, and such a cost does not depend on the bytes.
    let bound = small.max(Duration::from_micros(1)).mul_f64(RATIO_MAX);
    let (start, mut best) = (Instant::now(), Duration::MAX);
    while best >= bound && start.elapsed() < PATIENCE {
        best = best.min(run(&mut *on_large));
    }
    assert!(
        best < bound,
        "{what}: {small:?} for {SMALL} bytes, {best:?} for {LARGE}"
    );
}

fn read_all(bytes: &[u8]) {
    let mut scanner = Scanner::new(Limits {
        message_bytes_max: usize::MAX,
        headers_max: usize::MAX,
    });
    let msg = scanner.scan(bytes).unwrap();
    for h in msg.headers() {
        black_box(name_addrs(h.value).count());
        black_box(vias(h.value).count());
    }
    match msg.start() {
        StartLine::Request { .. } => {
            let no = check::request(&msg).err();
            black_box(check::unsupported_tags(&msg).count());
            black_box(no);
        }
        StartLine::Response { .. } => {
            black_box(check::response(&msg).err());
        }
    }
}

#[test]
fn messages() {
    const HEAD: &str = "INVITE sip:b@x SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bKa\r\n\
        From: <sip:a@x>;tag=1\r\nTo: <sip:b@x>\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n";
    let response = HEAD.replace("INVITE sip:b@x SIP/2.0", "SIP/2.0 200 OK");
    // What stands before the repeated part, the part, what stands after it.
    let table = [
        (HEAD, "Via: SIP/2.0/UDP b\r\n", ""),
        (&response, "Via: SIP/2.0/UDP b\r\n", ""),
        (HEAD, "v:\r\n", ""),
        (HEAD, "X: y\r\n", ""),
        (HEAD, "x\r\n", ""),
        (HEAD, "\r", "\r\n"),
        (HEAD, "\n ", "\r\n"),
        ("BYE sip:a SIP/2.0\r\nVia: ", "SIP/2.0/UDP b,", "\r\n"),
        ("SIP/2.0 200 OK\r\nVia: ", "SIP/2.0/UDP b,", "\r\n"),
        (
            "BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP b",
            ";branch=x",
            "\r\n",
        ),
        ("BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP b", ";x=\"", "\r\n"),
        ("BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP ", "[", "\r\n"),
        ("BYE sip:a SIP/2.0\r\nVia: ", "SIP/", "\r\n"),
        (HEAD, "m: <sip:a>\r\n", ""),
        (&format!("{HEAD}Route: "), "<sip:a>,", "<sip:b>\r\n"),
        (&format!("{HEAD}Route: "), "a ", "<sip:b>\r\n"),
        (&format!("{HEAD}Route: "), "\"\\", "\r\n"),
        (&format!("{HEAD}Route: "), "<", "\r\n"),
        (&format!("{HEAD}Route: <sip:a"), ";x", ">\r\n"),
        (&format!("{HEAD}Route: <sip:a>"), ";x", "\r\n"),
        (&format!("{HEAD}Subject: "), "\r\n ", "x\r\n"),
        (&format!("{HEAD}Subject"), " ", ": x\r\n"),
        (&format!("{HEAD}Proxy-Require: "), "a,", "\r\n"),
        (HEAD, "Proxy-Require: ,\r\n", "Proxy-Require: a\r\n"),
        (HEAD, "l: 0\r\n", ""),
        ("BYE sip:", "a@", " SIP/2.0\r\n"),
        ("BYE sip:a", ";x", " SIP/2.0\r\n"),
        ("BYE", " ", "sip:a SIP/2.0\r\n"),
        ("", "B", " sip:a SIP/2.0\r\n"),
        ("BYE sip:a SIP/2.0\r\nCSeq: ", "0", "1 BYE\r\n"),
        ("BYE sip:a SIP/2.0\r\nMax-Forwards: ", "9", "\r\n"),
    ];
    for (before, part, after) in table {
        let [small, large] =
            [SMALL, LARGE].map(|n| [before, &part.repeat(n / part.len()), after, "\r\n"].concat());
        let mut on_small = || read_all(small.as_bytes());
        let mut on_large = || read_all(large.as_bytes());
        let what = format!("{part:?} after {before:?}");
        assert_linear(&what, [&mut on_small, &mut on_large]);
    }
}

/// Bytes that come at a time.
const DRIP: usize = 16;

/// Feeds a stream in steps of one size, as a socket would, and counts the messages.
fn feed(bytes: &[u8], step: usize) -> usize {
    let (mut from, mut to, mut messages) = (0, 0, 0);
    let mut progress = Progress::default();
    while to < bytes.len() {
        to = bytes.len().min(to + step);
        loop {
            match stream::next(&bytes[from..to], &mut progress, usize::MAX) {
                Ok(Next::More) => break,
                Ok(Next::KeepAlive { bytes, .. }) => from += bytes,
                Ok(Next::Message { bytes }) => {
                    from += bytes;
                    messages += 1;
                }
                Err(_) => return messages,
            }
        }
    }
    messages
}

#[test]
fn streams_in_drips() {
    let table = [
        ("headers that do not end", "", "X: y\r\n", ""),
        (
            "a body that comes slowly",
            "A\r\nl: 65000\r\n",
            "X: y\r\n",
            "\r\n",
        ),
        ("line ends", "", "\r\n", ""),
        ("line ends that are no pings", "", "\n\r\n", ""),
        ("small messages", "", "A\r\nl:0\r\n\r\n", ""),
    ];
    for (what, before, part, after) in table {
        let [small, large] = [SMALL, LARGE].map(|n| {
            let drips = ".".repeat(n / 2);
            [before, &part.repeat(n / part.len()), after, &drips].concat()
        });
        assert_linear(
            what,
            [
                &mut || _ = black_box(feed(small.as_bytes(), DRIP)),
                &mut || _ = black_box(feed(large.as_bytes(), DRIP)),
            ],
        );
    }
}
