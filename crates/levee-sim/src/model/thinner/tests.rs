//! The model against itself and against theory.

use levee_policy::Span;

use super::*;

/// The papers' experiment at `C` = 100/s: 25 good and 25 bad clients of 2 Mbit/s, for 60 s.
pub(super) fn papers() -> Setup {
    let good = Group {
        clients: 25,
        rate: 2.0,
        window: 1,
        up: 250_000.0,
        hashes: 1e6,
        patience: Span::from_secs(10),
        request: 1_500,
        work: 1.0,
        pays: true,
        split: Split::Equal,
    };
    Setup {
        server: Server {
            rate: 100.0,
            jitter: 0.1,
            backlog: 50,
        },
        defense: None,
        honest: good,
        attack: Group {
            rate: 40.0,
            window: 20,
            ..good
        },
        delay: Span::ZERO,
        warmup: Span::ZERO,
        time: Span::from_secs(60),
        seed: 1,
    }
}
