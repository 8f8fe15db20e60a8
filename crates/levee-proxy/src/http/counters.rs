//! What a front counts. Each worker writes its own, without a locked instruction; whoever asks adds them up.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// A number that one thread changes and any reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Only the worker that owns it calls this.
    pub(crate) fn add(&self, n: u64) {
        let old = self.0.load(Ordering::Relaxed);
        self.0.store(old.wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    /// One less; for gauges.
    pub(crate) fn less(&self) {
        let old = self.0.load(Ordering::Relaxed);
        self.0.store(old.saturating_sub(1), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one worker.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// The counters of all workers, added up.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub struct Totals {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Totals {
            pub(crate) fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.get();)*
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections,
    /// Connections open now.
    connections_open,
    /// Connections closed at once, for there were too many.
    connections_refused,
    /// Connections that ended without a request.
    connections_silent,
    /// Connections whose place was taken from them.
    connections_evicted,
    /// Times that accepting failed, as when no file descriptor is left.
    accept_failed,
    /// TLS handshakes that failed or took too long.
    tls_failed,
    /// PROXY protocol headers that could not be read.
    proxy_header_failed,
    /// Connections that speak HTTP/2.
    h2_connections,
    /// Requests whose head was read.
    requests,
    /// Requests under way now.
    requests_open,
    /// Heads that were refused, by us, before anything else was looked at.
    requests_bad,
    /// Requests that the defence did not admit.
    requests_refused,
    /// Requests whose client went before the answer was complete.
    requests_abandoned,
    /// Answers of class 1xx that were passed on.
    answers_1xx,
    /// Answers of class 2xx, the server's and ours.
    answers_2xx,
    /// Answers of class 3xx, the server's and ours.
    answers_3xx,
    /// Answers of class 4xx, the server's and ours.
    answers_4xx,
    /// Answers of class 5xx, the server's and ours.
    answers_5xx,
    /// Time limits that a client overran: its head, its body, its reading, a silence.
    client_late,
    /// Connections made to the server.
    upstream_connects,
    /// Connections that could not be made to the server.
    upstream_connect_failed,
    /// Requests sent on a connection that had carried one before.
    upstream_reused,
    /// Requests sent again, for a connection that was used before had died.
    upstream_retried,
    /// Connections to the server open now.
    upstream_open,
    /// Answers of the server that broke off or could not be read.
    upstream_failed,
    /// Time limits that the server overran.
    upstream_late,
    /// Connections that became a tunnel (WebSocket).
    tunnels,
    /// Tunnels open now.
    tunnels_open,
    /// Bytes read from clients.
    bytes_in,
    /// Bytes written to clients.
    bytes_out,
    /// Bytes of payment that were counted and thrown away.
    payment_bytes,
}

impl Counters {
    /// Counts an answer by the class of its status.
    pub(crate) fn answer(&self, status: u16) {
        match status / 100 {
            1 => self.answers_1xx.one(),
            2 => self.answers_2xx.one(),
            3 => self.answers_3xx.one(),
            4 => self.answers_4xx.one(),
            _ => self.answers_5xx.one(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_the_sum_of_the_workers() {
        let (a, b) = (Counters::default(), Counters::default());
        a.requests.add(3);
        b.requests.one();
        for status in [101, 200, 204, 304, 408, 503, 599] {
            b.answer(status);
        }
        a.connections_open.less();
        let mut totals = Totals::default();
        totals.add(&a);
        totals.add(&b);
        assert_eq!((totals.requests, totals.connections_open), (4, 0));
        let classes = [
            totals.answers_1xx,
            totals.answers_2xx,
            totals.answers_3xx,
            totals.answers_4xx,
            totals.answers_5xx,
        ];
        assert_eq!(classes, [1, 2, 1, 1, 2]);
    }
}
