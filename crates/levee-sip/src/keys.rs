//! The names under which transactions and dialogs are found again: short keyed hashes, so that no text of a stranger's is
//! stored or compared, and nobody outside can make two things collide or guess a branch of ours.

use alloc::vec::Vec;
use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use crate::check::RequestParts;
use crate::edit::put;
use crate::header::{NameAddr, Via, name_addrs};
use crate::wire::{Message, Method, Name};

/// What every branch of RFC 3261 begins with (section 8.1.1.7).
pub const MAGIC_COOKIE: &[u8] = b"z9hG4bK";
/// `z9hG4bK`, then transaction, token and loop hash in 16 hexadecimal digits each.
const BRANCH_LEN: usize = MAGIC_COOKIE.len() + 48;

/// The name of a server transaction (RFC 3261 section 17.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerKey(u128);

/// The name of a dialog, the same from either side and in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DialogKey(u128);

/// A branch of ours, read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The number that the transaction's owner gave.
    pub id: u64,
    /// The hash of what decided where the request went (RFC 5393 section 4.2.1).
    pub loop_hash: u64,
}

/// Makes and reads keys. All that one process makes must come from one value of this.
#[derive(Clone, Debug)]
pub struct Keys {
    secret: [u8; 16],
}

impl Keys {
    /// Keys under a secret that nobody outside knows.
    #[must_use]
    pub fn new(secret: [u8; 16]) -> Self {
        Self { secret }
    }

    fn hash(&self, domain: u8, parts: &[&[u8]]) -> u128 {
        let mut h = SipHasher13::new_with_key(&self.secret);
        h.write_u8(domain);
        for p in parts {
            h.write_usize(p.len());
            h.write(p);
        }
        h.finish128().as_u128()
    }

    fn hash64(&self, domain: u8, parts: &[&[u8]]) -> u64 {
        // The low half of a 128-bit hash is as good as any.
        self.hash(domain, parts) as u64
    }

    /// The server transaction of a request. An ACK has the key of its INVITE; so has, with `method` INVITE, a CANCEL.
    #[must_use]
    pub fn server(&self, parts: &RequestParts<'_>, method: Method) -> ServerKey {
        let token: &[u8] = match method {
            Method::Ack | Method::Invite => b"INVITE",
            _ => parts.cseq.token,
        };
        let Via {
            sent_by, params, ..
        } = parts.via;
        let port = sent_by.port.unwrap_or(0).to_be_bytes();
        match parts.via.branch() {
            Some(b) if b.len() > MAGIC_COOKIE.len() && b.starts_with(MAGIC_COOKIE) => {
                ServerKey(self.hash(1, &[b, sent_by.name, &port, token]))
            }
            // RFC 2543: no branch to trust, so all that a retransmission and an ACK have in common.
            _ => ServerKey(self.hash(
                2,
                &[
                    parts.uri.bytes,
                    parts.from.tag().unwrap_or_default(),
                    parts.call_id,
                    &parts.cseq.number.to_be_bytes(),
                    sent_by.name,
                    &port,
                    params.bytes(),
                    token,
                ],
            )),
        }
    }

    /// The dialog of a Call-ID and its two tags, in any order.
    #[must_use]
    pub fn dialog(&self, call_id: &[u8], tag: &[u8], other: &[u8]) -> DialogKey {
        let (a, b) = if tag <= other {
            (tag, other)
        } else {
            (other, tag)
        };
        DialogKey(self.hash(3, &[call_id, a, b]))
    }

    /// The To tag of our own answers to a request: the same for each of its retransmissions.
    pub fn to_tag(&self, out: &mut Vec<u8>, call_id: &[u8], from: Option<&NameAddr<'_>>) {
        let tag = from.and_then(NameAddr::tag).unwrap_or_default();
        put(
            out,
            format_args!("lv{:016x}", self.hash64(4, &[call_id, tag])),
        );
    }

    /// The hash of all that decides where we send a request, and nothing that changes on the way (RFC 5393 section
    /// 4.2.1: not the Via). `side` tells from which side it came, since that decides too.
    #[must_use]
    pub fn loop_hash(&self, msg: &Message<'_>, parts: &RequestParts<'_>, side: u8) -> u64 {
        let mut h = SipHasher13::new_with_key(&self.secret);
        let mut feed = |p: &[u8]| {
            h.write_usize(p.len());
            h.write(p);
        };
        feed(&[5, side]);
        feed(parts.uri.bytes);
        feed(parts.call_id);
        feed(parts.from.tag().unwrap_or_default());
        feed(parts.to.tag().unwrap_or_default());
        feed(&parts.cseq.number.to_be_bytes());
        // The name goes before each, or a value could move from one header to another unseen. How Route values are spread
        // over lines is not theirs to keep on the way.
        for h in msg.all(Name::Route) {
            for l in name_addrs(h.value).flatten() {
                feed(b"Route");
                feed(h.value.get(l.from..l.to).unwrap_or_default());
            }
        }
        for name in [Name::ProxyRequire, Name::ProxyAuthorization] {
            for h in msg.all(name) {
                feed(name.as_str().as_bytes());
                feed(h.value);
            }
        }
        h.finish128().as_u128() as u64
    }

    /// Appends the branch of transaction `id`.
    pub fn branch(&self, out: &mut Vec<u8>, id: u64, loop_hash: u64) {
        out.extend_from_slice(MAGIC_COOKIE);
        put(
            out,
            format_args!("{id:016x}{:016x}{loop_hash:016x}", self.token(id)),
        );
    }

    fn token(&self, id: u64) -> u64 {
        self.hash64(6, &[&id.to_be_bytes()])
    }

    /// Reads a branch of ours; `None` if it is not.
    #[must_use]
    pub fn read_branch(&self, branch: &[u8]) -> Option<Branch> {
        if branch.len() != BRANCH_LEN {
            return None;
        }
        let digits = branch.strip_prefix(MAGIC_COOKIE)?;
        // `from_str_radix` takes a sign too.
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = core::str::from_utf8(digits).ok()?;
        let part = |from: usize| u64::from_str_radix(digits.get(from..from + 16)?, 16).ok();
        let (id, token, loop_hash) = (part(0)?, part(16)?, part(32)?);
        (token == self.token(id)).then_some(Branch { id, loop_hash })
    }
}

#[cfg(test)]
mod tests;
