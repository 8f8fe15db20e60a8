//! Proof of work, as the lab's clients make it: a number for which SHA-256 of `ticket:number` begins with enough zero bits.

use sha2::{Digest as _, Sha256};

use super::client::Client;

/// Hashes between two looks at the budget: a fraction of a millisecond of a core.
const BLOCK: u64 = 256;
/// Zero bits that a client goes for at most: beyond it a proof takes longer than anyone waits.
const BITS_MAX: u32 = 40;

/// Zero bits of a proof that is worth so many hashes.
fn bits(hashes: u64) -> u32 {
    hashes.max(2).next_power_of_two().ilog2().clamp(1, BITS_MAX)
}

fn zeros(digest: &[u8]) -> u32 {
    let whole = digest.iter().take_while(|byte| **byte == 0).count();
    let rest = digest.get(whole).map_or(0, |byte| byte.leading_zeros());
    whole as u32 * 8 + rest
}

/// Looks for a number worth so many hashes, no faster than the client can.
pub(crate) async fn find(client: &Client, ticket: &str, hashes: u64) -> u64 {
    let (bits, start) = (
        bits(hashes),
        Sha256::new().chain_update(ticket).chain_update(":"),
    );
    let mut nonce = 0u64;
    loop {
        client.hashes(BLOCK).await;
        for _ in 0..BLOCK {
            let digest = start.clone().chain_update(nonce.to_string()).finalize();
            if zeros(&digest) >= bits {
                return nonce;
            }
            nonce += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nonces are those that Python's hashlib finds.
    #[test]
    fn a_proof_counts_by_its_zero_bits() {
        for (nonce, expect) in [("0", 1), ("3284", 14), ("42203", 16), ("64226", 20)] {
            let digest = Sha256::digest(format!("ticket:{nonce}"));
            assert_eq!(zeros(&digest), expect, "{nonce}");
        }
        for (hashes, expect) in [
            (0, 1),
            (2, 1),
            (3, 2),
            (1 << 14, 14),
            ((1 << 14) + 1, 15),
            (u64::MAX >> 1, 40),
        ] {
            assert_eq!(bits(hashes), expect, "{hashes}");
        }
        assert_eq!(zeros(&[0, 0]), 16);
    }
}
