//! One request of a client, from its first byte to the answer or the end of its patience: what it pays on the way, and how.
//!
//! The protocol is that of docs/http-protocol.md: a refusal names the currency (`Levee-Pay`), the price, and a ticket. Good and
//! bad clients speak alike; they differ by their demand and their window.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use super::client::{Client, Link};
use super::proof;
use super::record::Outcome;
use super::wire::{self, Price, Response};

/// Where bytes are paid on a front.
const PAY_PATH: &str = "/.well-known/levee/pay";
/// Bytes of one payment, as the papers' clients send it; another follows.
const POST_BYTES: usize = 1 << 20;
/// A field that fills a request up to its size is not longer than this: servers take 8 KiB and more.
const FILL_MAX: usize = 7_000;
/// A payment that is turned away is tried again after this (our choice): a front that sheds payments has no need of more.
const SHED_PAUSE: Duration = Duration::from_millis(500);

/// Between two payments of retries, where the price has risen (our choice).
const PRICE_PAUSE: Duration = Duration::from_millis(50);

/// What a request has cost its client so far; kept by who may give the request up.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// Bytes beyond the first try.
    pub(crate) paid: Cell<u64>,
    /// Of them, those of payments.
    pub(crate) channel: Cell<u64>,
    pub(crate) retries: Cell<u32>,
    /// Status of the last answer.
    pub(crate) status: Cell<u16>,
}

/// What a request needs from its client.
pub(crate) struct Exchange<'c> {
    pub(crate) client: &'c Client,
    pub(crate) host: &'c str,
    /// Its number among all: a smaller one is older.
    pub(crate) number: usize,
    pub(crate) id: u64,
    pub(crate) costs: &'c Costs,
}

/// What a refusal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Currency {
    /// The same request again, with the ticket: a retry, or waiting in a queue.
    Again,
    /// Retries on the payment channel, as many as the price says, while the request waits.
    Retries,
    /// Bytes on the payment channel while the request waits.
    Bid,
    /// Hashes.
    Proof,
}

/// What the client of a refused request may do, if anything.
fn asked_for(response: &Response) -> Option<Currency> {
    let at_once = response.status == 503 && response.retry_after == Some(0);
    let Some(pay) = &response.pay else {
        // Whoever is told to come back at once needs no word of Levee for it.
        return at_once.then_some(Currency::Again);
    };
    let unit = pay.split_whitespace().next().unwrap_or_default();
    match (unit, pay.contains('/')) {
        ("retries", true) => Some(Currency::Retries),
        ("retries" | "time", _) => Some(Currency::Again),
        ("bytes", _) => Some(Currency::Bid),
        ("sha-256", _) => Some(Currency::Proof),
        _ => None,
    }
}

impl Exchange<'_> {
    /// Asks until it is served or refused. `link` is a connection of an earlier request, and is left if it can be used again.
    pub(crate) async fn run(&self, link: &mut Option<Link>) -> Outcome {
        self.asked(link).await.unwrap_or(Outcome::Failed)
    }

    async fn asked(&self, link: &mut Option<Link>) -> io::Result<Outcome> {
        let mut response = self.ask(link, None, None).await?;
        loop {
            self.costs.status.set(response.status);
            if (200..300).contains(&response.status) {
                return Ok(Outcome::Served);
            }
            let pays = self.client.group.pays && response.status == 503;
            let Some(currency) = asked_for(&response).filter(|_| pays) else {
                return Ok(Outcome::Refused);
            };
            // Whoever pays need not wait for `Retry-After`: that is for those who do not.
            self.costs.retries.set(self.costs.retries.get() + 1);
            let ticket = response.ticket.as_deref();
            response = match (currency, ticket) {
                (Currency::Again, ticket) => self.ask(link, ticket, None).await?,
                (_, None) => return Ok(Outcome::Refused),
                (Currency::Retries, Some(ticket)) => tokio::select! {
                    response = self.ask(link, Some(ticket), None) => response?,
                    never = self.retries(ticket, response.price) => match never {},
                },
                (Currency::Bid, Some(ticket)) => tokio::select! {
                    response = self.ask(link, Some(ticket), None) => response?,
                    never = self.bid(ticket) => match never {},
                },
                (Currency::Proof, Some(ticket)) => {
                    let missing = response.price.now.saturating_sub(response.price.paid);
                    let nonce = proof::find(self.client, ticket, missing).await;
                    self.ask(link, Some(ticket), Some(nonce)).await?
                }
            };
        }
    }

    /// Sends the request, and gives its answer.
    async fn ask(
        &self,
        link: &mut Option<Link>,
        ticket: Option<&str>,
        proof: Option<u64>,
    ) -> io::Result<Response> {
        let head = self.head(ticket, proof);
        loop {
            // Taken, so that it is closed if this is given up half way.
            let mut open = match link.take().filter(|link| !link.is_stale()) {
                Some(link) => link,
                None => self.client.connect().await?,
            };
            let answer = self.ask_on(&mut open, &head).await;
            // A connection that was kept may be closed by the other side just as it is used again (RFC 9112 section 9.3.1).
            if answer.is_err() && open.used {
                continue;
            }
            let response = answer?;
            open.used = true;
            if !response.close {
                *link = Some(open);
            }
            return Ok(response);
        }
    }

    async fn ask_on(&self, open: &mut Link, head: &[u8]) -> io::Result<Response> {
        open.send(self.client, head).await?;
        self.client.note(|counts| counts.tries += 1);
        if self.costs.retries.get() > 0 {
            self.paid(head.len());
        }
        open.response().await
    }

    fn paid(&self, bytes: usize) {
        self.costs.paid.set(self.costs.paid.get() + bytes as u64);
    }

    fn channel(&self, bytes: usize) {
        self.costs
            .channel
            .set(self.costs.channel.get() + bytes as u64);
        self.client.note(|counts| counts.channel += bytes as u64);
    }

    /// The request, filled up to its size.
    fn head(&self, ticket: Option<&str>, proof: Option<u64>) -> Vec<u8> {
        let mut head = format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nAccept: */*\r\n",
            wire::path(self.id),
            self.host
        );
        if let Some(ticket) = ticket {
            head.push_str(&format!("Levee-Ticket: {ticket}\r\n"));
        }
        if let Some(proof) = proof {
            head.push_str(&format!("Levee-Pay: {proof}\r\n"));
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

    /// Pays the retries that are missing to the price, in one stream, and more when it has risen.
    async fn retries(&self, ticket: &str, mut price: Price) -> Infallible {
        let size = price.size;
        loop {
            // The request itself is one of those that it takes.
            let missing = price.now.saturating_sub(1 + price.paid);
            let bytes = usize::try_from(missing.saturating_mul(size)).unwrap_or(usize::MAX);
            if bytes > 0 {
                match self.pay(ticket, bytes).await {
                    Ok(answer) if answer.status == 200 && !answer.body_says("admitted") => {
                        price = answer.price;
                    }
                    Ok(answer) if answer.status == 503 => {}
                    // The answer to the request is on its way.
                    _ => std::future::pending().await,
                }
            } else {
                // Paid, and not admitted yet: the price may rise meanwhile.
                price.paid = price.paid.saturating_sub(1);
            }
            tokio::time::sleep(PRICE_PAUSE).await;
        }
    }

    /// Pays so many bytes, and gives what the front says to it.
    async fn pay(&self, ticket: &str, bytes: usize) -> io::Result<Response> {
        let mut link = self.client.connect().await?;
        self.post(&mut link, ticket, bytes).await
    }

    /// Pays as long as it is let: one payment after the other, until the channel is closed. Ends with whoever waits for the request.
    async fn bid(&self, ticket: &str) -> Infallible {
        loop {
            let over = match self.client.connect().await {
                Ok(mut link) => match self.post(&mut link, ticket, POST_BYTES).await {
                    // A payment that was read to its end is followed by the next.
                    Ok(answer) if answer.status == 200 => answer.body_says("admitted"),
                    Ok(answer) => answer.status != 503,
                    Err(_) => false,
                },
                Err(_) => false,
            };
            if over {
                // The answer to the request is on its way.
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(SHED_PAUSE).await;
        }
    }

    /// One payment. The front may answer before it has all of it.
    async fn post(&self, link: &mut Link, ticket: &str, bytes: usize) -> io::Result<Response> {
        let head = format!(
            "POST {PAY_PATH} HTTP/1.1\r\nHost: {}\r\nLevee-Ticket: {ticket}\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {bytes}\r\n\r\n",
            self.host
        );
        link.send(self.client, head.as_bytes()).await?;
        self.paid(head.len());
        let block = vec![b'x'; self.client.piece()];
        let turn = self.client.payer(self.number);
        let mut left = bytes;
        while left > 0 && !link.has_answer()? {
            let piece = block.get(..left.min(block.len())).unwrap_or(&block);
            turn.wait().await;
            self.client.allowance(piece.len()).await;
            link.stream.write_all(piece).await?;
            self.paid(piece.len());
            self.channel(piece.len());
            left -= piece.len();
        }
        link.response().await
    }
}
