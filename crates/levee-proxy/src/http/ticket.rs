//! Tickets: what a client carries from one try to the next.
//!
//! A ticket says which contender it is, when that first asked, how often it was turned away and what it has paid. It is sealed
//! with a key that only this front has (SipHash-2-4 with 128 bits, a keyed pseudo-random function), so nobody can make or
//! change one, and the front keeps nothing for a ticket that nobody uses. A ticket names one contender: shown twice at once it
//! is still one, and once that was admitted the ticket is spent.
//!
//! A ticket is 52 characters of base64url: it fits into a header field, a query and a page as it is.

use std::collections::{HashSet, VecDeque};
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use levee_policy::thinner::Mode;
use levee_policy::{Span, Time};
use siphasher::sip128::SipHasher24;

/// The query parameter of a ticket, for clients that can set no header: a refreshed page, a redirect.
pub const PARAMETER: &str = "levee-ticket";
/// How long a client goes on with one ticket before a person is asked (our choice: a visitor has left by then, and a
/// program's own patience is shorter).
pub const LIFE: Span = Span::from_secs(120);
/// For how long after its life a ticket is still known as one that was tried long enough. Later it is as good as none, for
/// example in a bookmark.
pub const MEMORY: Span = Span::from_secs(600);
/// Spent tickets that are remembered, some 8 MB: at 2,000 admitted tickets a second they cover [`LIFE`].
const SPENT_MAX: usize = 1 << 18;

const ID: usize = 8;
const BORN: usize = 5;
const TRIES: usize = 2;
const PAID: usize = 8;
const PAYLOAD: usize = ID + BORN + TRIES + PAID;
const TAG: usize = 16;
const BYTES: usize = PAYLOAD + TAG;
/// Characters of a ticket.
pub const CHARS: usize = 52;
const _: () = assert!(BYTES * 8 == CHARS * 6);
/// Tries have 13 bits beside the mode's three.
const TRIES_MAX: u16 = (1 << 13) - 1;

/// What a ticket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The contender.
    pub id: u64,
    /// When it first asked; in a ticket as whole milliseconds.
    pub born: Time,
    /// In which currency it pays.
    pub mode: Mode,
    /// How often it was turned away.
    pub tries: u16,
    /// What it has paid so far, in the units of the mode.
    pub paid: u64,
}

/// Why a ticket does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTicket {
    /// Not one of ours, or not in this currency.
    Forged,
    /// Older than [`LIFE`]: its client was turned away for long enough.
    Exhausted,
    /// So old that it means nothing any more.
    Stale,
}

/// A ticket as text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sealed([u8; CHARS]);

impl Sealed {
    /// The text.
    pub fn as_str(&self) -> &str {
        // Base64 is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// 120 bits that nobody can foresee and no other ticket has.
    pub(crate) fn nonce(&self) -> &str {
        &self.as_str()[CHARS - 20..]
    }
}

impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Makes tickets and knows its own.
#[derive(Clone)]
pub struct Tickets {
    key: [u8; 16],
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

impl Tickets {
    /// With this key.
    pub fn new(key: [u8; 16]) -> Self {
        Tickets { key }
    }

    /// The ticket as its client carries it.
    pub fn seal(&self, ticket: &Ticket) -> Sealed {
        let mut bytes = [0; BYTES];
        let (id, rest) = bytes.split_at_mut(ID);
        let (born, rest) = rest.split_at_mut(BORN);
        let (tries, rest) = rest.split_at_mut(TRIES);
        let (paid, _) = rest.split_at_mut(PAID);
        id.copy_from_slice(&ticket.id.to_be_bytes());
        let born_ms = ticket.born.since(Time::ZERO).as_millis();
        born.copy_from_slice(&born_ms.to_be_bytes()[8 - BORN..]);
        let count = ticket.tries.min(TRIES_MAX) | (code(ticket.mode) << 13);
        tries.copy_from_slice(&count.to_be_bytes());
        paid.copy_from_slice(&ticket.paid.to_be_bytes());
        let tag = self.tag(&bytes[..PAYLOAD]);
        bytes[PAYLOAD..].copy_from_slice(&tag);
        let mut text = [0; CHARS];
        let written = URL_SAFE_NO_PAD.encode_slice(bytes, &mut text);
        debug_assert_eq!(written, Ok(CHARS));
        Sealed(text)
    }

    /// What a client's ticket says, at `now`.
    ///
    /// # Errors
    ///
    /// It does not count.
    pub fn open(&self, text: &[u8], now: Time) -> Result<Ticket, BadTicket> {
        let mut bytes = [0; BYTES];
        let read = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes);
        if text.len() != CHARS || read != Ok(BYTES) {
            return Err(BadTicket::Forged);
        }
        let (payload, tag) = bytes.split_at(PAYLOAD);
        // All bytes are looked at, so that time tells nothing.
        let differ = tag
            .iter()
            .zip(self.tag(payload))
            .fold(0, |all, (a, b)| all | (a ^ b));
        if differ != 0 {
            return Err(BadTicket::Forged);
        }
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |all, byte| (all << 8) | u64::from(*byte))
        };
        let (id, rest) = payload.split_at(ID);
        let (born, rest) = rest.split_at(BORN);
        let (tries, paid) = rest.split_at(TRIES);
        let count = number(tries) as u16;
        let ticket = Ticket {
            id: number(id),
            born: Time::ZERO + Span::from_millis(number(born)),
            mode: mode(count >> 13).ok_or(BadTicket::Forged)?,
            tries: count & TRIES_MAX,
            paid: number(paid),
        };
        match now.since(ticket.born) {
            age if age <= LIFE => Ok(ticket),
            age if age <= LIFE.saturating_add(MEMORY) => Err(BadTicket::Exhausted),
            _ => Err(BadTicket::Stale),
        }
    }

    fn tag(&self, payload: &[u8]) -> [u8; TAG] {
        SipHasher24::new_with_key(&self.key)
            .hash(payload)
            .as_bytes()
    }
}

fn code(mode: Mode) -> u16 {
    match mode {
        Mode::Random => 0,
        Mode::Retry => 1,
        Mode::Priced => 2,
        Mode::Auction => 3,
        Mode::ProofOfWork => 4,
        Mode::Queue => 5,
    }
}

fn mode(code: u16) -> Option<Mode> {
    [
        Mode::Random,
        Mode::Retry,
        Mode::Priced,
        Mode::Auction,
        Mode::ProofOfWork,
        Mode::Queue,
    ]
    .into_iter()
    .nth(code.into())
}

/// The contenders whose tickets were used up, so that nobody is admitted twice for one payment.
///
/// Ids are given in order, so when the oldest are forgotten, all up to them count as spent.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    ids: HashSet<u64, foldhash::fast::RandomState>,
    order: VecDeque<u64>,
    /// Ids below it count as spent.
    forgotten: u64,
}

impl Spent {
    pub(crate) fn insert(&mut self, id: u64) {
        if self.order.len() == SPENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
            self.forgotten = self.forgotten.max(oldest.saturating_add(1));
        }
        if self.ids.insert(id) {
            self.order.push_back(id);
        }
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        id < self.forgotten || self.ids.contains(&id)
    }
}

/// The ticket in a request target's query.
pub(crate) fn in_target(target: &[u8]) -> Option<&[u8]> {
    let query = target.iter().position(|byte| *byte == b'?')?;
    target[query + 1..]
        .split(|byte| *byte == b'&')
        .find_map(|pair| pair.strip_prefix(PARAMETER.as_bytes())?.strip_prefix(b"="))
}

/// The target without the ticket, as the server is to see it; `None` if it has none.
pub fn without_ticket(target: &[u8]) -> Option<Vec<u8>> {
    in_target(target)?;
    let query = target.iter().position(|byte| *byte == b'?')?;
    let mut clean = target[..query].to_vec();
    let mut separator = b'?';
    for pair in target[query + 1..].split(|byte| *byte == b'&') {
        let name = pair.split(|byte| *byte == b'=').next();
        if name != Some(PARAMETER.as_bytes()) {
            clean.push(separator);
            clean.extend_from_slice(pair);
            separator = b'&';
        }
    }
    Some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets() -> Tickets {
        Tickets::new([7; 16])
    }

    fn ticket() -> Ticket {
        Ticket {
            id: 0x0123_4567_89ab_cdef,
            born: Time::ZERO + Span::from_millis(123_456),
            mode: Mode::Auction,
            tries: 17,
            paid: 1 << 40,
        }
    }

    #[test]
    fn a_ticket_says_what_was_put_in() {
        for mode in (0..6).filter_map(mode) {
            let ticket = Ticket { mode, ..ticket() };
            let sealed = tickets().seal(&ticket);
            assert_eq!(sealed.as_str().len(), CHARS);
            assert_eq!(
                tickets().open(sealed.as_str().as_bytes(), ticket.born),
                Ok(ticket)
            );
        }
    }

    #[test]
    fn tries_stop_at_their_bits() {
        let most = Ticket {
            tries: u16::MAX,
            ..ticket()
        };
        let sealed = tickets().seal(&most);
        let read = tickets()
            .open(sealed.as_str().as_bytes(), most.born)
            .unwrap();
        assert_eq!((read.tries, read.mode), (TRIES_MAX, Mode::Auction));
    }

    #[test]
    fn no_changed_ticket_counts() {
        let sealed = tickets().seal(&ticket());
        let text = sealed.as_str().as_bytes();
        for at in 0..CHARS {
            let mut changed = text.to_vec();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(
                tickets().open(&changed, ticket().born),
                Err(BadTicket::Forged),
                "at {at}"
            );
        }
        let cases: [&[u8]; 5] = [b"", b"x", &text[1..], &[0; CHARS], &[0xff; 200]];
        for bad in cases {
            assert_eq!(tickets().open(bad, Time::ZERO), Err(BadTicket::Forged));
        }
        let other = Tickets::new([8; 16]);
        assert_eq!(other.open(text, ticket().born), Err(BadTicket::Forged));
    }

    #[test]
    fn a_ticket_has_its_time() {
        let sealed = tickets().seal(&ticket());
        let open = |age| tickets().open(sealed.as_str().as_bytes(), ticket().born + age);
        let tick = Span::from_nanos(1);
        assert_eq!(open(LIFE), Ok(ticket()));
        assert_eq!(open(LIFE + tick), Err(BadTicket::Exhausted));
        assert_eq!(open(LIFE + MEMORY), Err(BadTicket::Exhausted));
        assert_eq!(open(LIFE + MEMORY + tick), Err(BadTicket::Stale));
    }

    #[test]
    fn the_query_gives_its_ticket_back_and_keeps_the_rest() {
        for (target, ticket, clean) in [
            ("/", None, None),
            ("/?a=1", None, None),
            ("/?my-levee-ticket=x", None, None),
            ("/levee-ticket=x", None, None),
            ("/a?levee-ticket=T", Some("T"), Some("/a")),
            ("/a?levee-ticket=T&b", Some("T"), Some("/a?b")),
            ("/a?b=1&levee-ticket=T&c=?", Some("T"), Some("/a?b=1&c=?")),
            ("/a?levee-ticket=T&levee-ticket=U", Some("T"), Some("/a")),
            ("/a?&levee-ticket=T", Some("T"), Some("/a?")),
        ] {
            assert_eq!(
                in_target(target.as_bytes()),
                ticket.map(str::as_bytes),
                "{target}"
            );
            let without = without_ticket(target.as_bytes());
            assert_eq!(without.as_deref(), clean.map(str::as_bytes), "{target}");
        }
    }

    #[test]
    fn spent_tickets_stay_spent_when_the_oldest_are_forgotten() {
        let mut spent = Spent::default();
        let beyond = SPENT_MAX as u64 + 3;
        for id in 0..beyond {
            spent.insert(id * 2);
        }
        assert_eq!(spent.order.len(), SPENT_MAX);
        assert!((0..beyond).all(|id| spent.contains(id * 2)));
        // Never used, but older than what is remembered.
        assert!(spent.contains(3));
        assert!(!spent.contains(7));
    }
}
