//! Proofs of work: a number that gives a hash with many leading zero bits.
//!
//! The client looks for a `nonce` for which SHA-256 of `ticket ":" nonce` begins with `d` zero bits. That takes `2^d` hashes on
//! average, and so many count as paid. The ticket is the challenge: nobody can work ahead of it, or for another.

use sha2::{Digest as _, Sha256};

/// Digits of a nonce: a `u64` has no more.
const NONCE_DIGITS_MAX: usize = 20;
/// More is not believed: 2^48 hashes are days of all the cores of a machine, so it was luck.
const BITS_MAX: u32 = 48;

/// The hashes that this nonce stands for with this ticket; 0 if it is none.
pub fn hashes_of(ticket: &[u8], nonce: &[u8]) -> u64 {
    let is_number =
        (1..=NONCE_DIGITS_MAX).contains(&nonce.len()) && nonce.iter().all(u8::is_ascii_digit);
    if !is_number {
        return 0;
    }
    let digest = Sha256::new()
        .chain_update(ticket)
        .chain_update(b":")
        .chain_update(nonce)
        .finalize();
    let mut zeros = 0;
    for byte in digest {
        zeros += byte.leading_zeros();
        if byte != 0 {
            break;
        }
    }
    1 << zeros.min(BITS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nonces are those that Python's hashlib finds.
    #[test]
    fn work_counts_by_its_zero_bits() {
        for (nonce, hashes) in [
            ("0", 1 << 1),
            ("3284", 1 << 14),
            ("42203", 1 << 16),
            ("64226", 1 << 20),
            ("", 0),
            ("-1", 0),
            ("1e3", 0),
            ("999999999999999999999", 0),
        ] {
            assert_eq!(hashes_of(b"ticket", nonce.as_bytes()), hashes, "{nonce}");
        }
        assert!(hashes_of(b"another", b"64226") < 1 << 14);
    }
}
