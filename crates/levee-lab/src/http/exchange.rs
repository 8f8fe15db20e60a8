//! One request of a client, from its first byte to the answer or the end of its patience: what it pays on the way, and how.
//!
//! Good and bad clients speak alike; they differ by their demand and their window.

use std::io;
use std::time::Duration;


use super::client::{Client, Link};
use super::record::{Outcome, RequestRecord};
use super::wire::{self, Response};

/// Where bytes are paid on a front.
const PAY_PATH: &str = "/.well-known/levee/pay";
/// A field that fills a request up to its size is not longer than this: servers take 8 KiB and more.
const FILL_MAX: usize = 7_000;
/// A client that does not get further waits so long before it asks again (our choice): a front that answers wrongly is not to
/// become a busy loop.
const PAUSE: Duration = Duration::from_millis(5);

/// What a request needs from its client.
pub(crate) struct Exchange<'c> {
    pub(crate) client: &'c Client,
    pub(crate) host: &'c str,
    pub(crate) record: &'c mut RequestRecord,
}

impl Exchange<'_> {
    /// Asks until it is served or refused. `link` is a connection of an earlier request, and is left if it can be used again.
    pub(crate) async fn run(mut self, link: &mut Option<Link>) -> Outcome {
        match self.asked(link).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Failed,
        }
    }

    async fn asked(&mut self, link: &mut Option<Link>) -> io::Result<Outcome> {
        let mut ticket: Option<String> = None;
        loop {
            let response = match &ticket {
                None => self.ask(link, None).await?,
                Some(ticket) => self.ask(link, Some(ticket)).await?,
            };
            self.record.status = response.status;
            if (200..300).contains(&response.status) {
                return Ok(Outcome::Served);
            }
            // A refusal that says "at once" asks for payment; any other is meant.
            let at_once = response.status == 503 && response.retry_after == Some(0);
            if !at_once || !self.client.group.pays {
                return Ok(Outcome::Refused);
            }
            self.record.retries += 1;
            ticket = response.ticket;
        }
    }

    /// Sends the request, and gives its answer.
    async fn ask(&mut self, link: &mut Option<Link>, ticket: Option<&str>) -> io::Result<Response> {
        // Taken, so that it is closed if this is given up half way.
        let kept = link.take().filter(|link| !link.is_stale());
        let mut open = match kept {
            Some(link) => link,
            None => self.client.connect().await?,
        };
        let head = self.head(ticket);
        open.send(self.client, &head).await?;
        if self.record.retries > 0 || ticket.is_some() {
            self.record.paid += head.len() as u64;
        }
        let response = open.response().await?;
        if !response.close {
            *link = Some(open);
        }
        Ok(response)
    }

    /// The request, filled up to its size.
    fn head(&self, ticket: Option<&str>) -> Vec<u8> {
        let mut head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\n",
            wire::path(self.record.id),
            self.host
        );
        if let Some(ticket) = ticket {
            head.push_str("Levee-Ticket: ");
            head.push_str(ticket);
            head.push_str("\r\n");
        }
        const NAME: &str = "Cookie: ";
        let missing = (self.client.group.request as usize).saturating_sub(head.len() + 2);
        if let Some(fill) = missing.checked_sub(NAME.len() + 2) {
            head.push_str(NAME);
            head.extend(std::iter::repeat_n('x', fill.min(FILL_MAX)));
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}
