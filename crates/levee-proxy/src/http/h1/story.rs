//! What the access log wants to know of a request when its bytes are gone. Without a log nothing is kept.

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use levee_http::request::Request;

use crate::http::access_log::{Decision, Line};
use crate::http::connection::Link;
use crate::http::gate::Permit;
use crate::http::pages::Refusal;
use crate::http::worker::Worker;

/// Method, target, host, referer, user agent.
const PARTS: usize = 5;
/// nginx's status for a client that closed before there was an answer; nobody is sent it.
const GONE: u16 = 499;

/// How a request ended, beside its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// An answer was sent, the server's or our own.
    Complete,
    /// An answer was begun and cut short.
    Cut,
    /// The client went.
    Gone,
}

/// The story of one request.
#[derive(Debug)]
pub(crate) struct Story {
    text: Vec<u8>,
    ends: [usize; PARTS],
    client: Option<IpAddr>,
    begun: Option<Instant>,
    status: u16,
    decision: Decision,
}

impl Default for Story {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            ends: [0; PARTS],
            client: None,
            begun: None,
            status: 0,
            decision: Decision::Passed,
        }
    }
}

impl Story {
    /// A head has been read; `None` if it could not be.
    pub(crate) fn begin(&mut self, worker: &Worker, request: Option<(Request<'_>, IpAddr)>) {
        if worker.lane.borrow().is_none() {
            return;
        }
        self.begun = Some(Instant::now());
        self.status = 0;
        self.decision = Decision::Passed;
        self.client = request.map(|(_, client)| client);
        self.text.clear();
        self.ends = [0; PARTS];
        let Some((request, _)) = request else { return };
        let fields = request.fields();
        let parts = [
            request.method(),
            request.target(),
            request.host(),
            fields.get("referer").unwrap_or_default(),
            fields.get("user-agent").unwrap_or_default(),
        ];
        for (part, end) in parts.iter().zip(&mut self.ends) {
            self.text.extend_from_slice(part);
            *end = self.text.len();
        }
    }

    /// The thinner let it in.
    pub(crate) fn admitted(&mut self, permit: &Permit) {
        self.decision = Decision::Admitted {
            waited: Duration::from_nanos(permit.waited().as_nanos()),
            price: permit.price(),
        };
    }

    /// The thinner turned it away.
    pub(crate) fn refused(&mut self, refusal: &Refusal) {
        self.decision = Decision::Refused {
            cause: refusal.cause.name(),
            price: refusal.price,
        };
    }

    /// It has ended with an answer of this status.
    pub(crate) fn end(&mut self, status: u16, ending: Ending) {
        self.status = match ending {
            Ending::Gone if status == 0 => GONE,
            Ending::Complete | Ending::Cut | Ending::Gone => status,
        };
    }

    /// Writes its line.
    pub(crate) fn tell(
        &mut self,
        worker: &Worker,
        link: &Link,
        version: &'static str,
        bytes_in: u64,
        bytes_out: u64,
    ) {
        let (Some(lane), Some(begun)) = (&*worker.lane.borrow(), self.begun.take()) else {
            return;
        };
        let took = begun.elapsed();
        let now = SystemTime::now();
        lane.write(&Line {
            at: now.checked_sub(took).unwrap_or(now),
            client: self.client.unwrap_or(link.peer.ip()),
            method: self.part(0),
            target: self.part(1),
            version,
            host: self.part(2),
            referer: self.part(3),
            user_agent: self.part(4),
            status: self.status,
            bytes_in,
            bytes_out,
            took,
            decision: self.decision,
        });
    }

    fn part(&self, i: usize) -> &[u8] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.text[from..self.ends[i]]
    }
}
