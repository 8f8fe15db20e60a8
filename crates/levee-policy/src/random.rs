//! The two draws that the defences need, the same on every machine.

use rand_core::Rng;

/// A number in `[0, 1)`, a multiple of 2^-53.
pub(crate) fn unit<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
    (rng.next_u64() >> 11) as f64 * STEP
}

/// A whole number in `[0, n)`, without bias (Lemire's multiply and reject); 0 when `n` is 0.
pub(crate) fn below<R: Rng + ?Sized>(rng: &mut R, n: u64) -> u64 {
    /// A try fails with less than 1/2, and for `n` below 2^33 with less than 2^-31: the last is reached only if the generator
    /// is broken, and then the draw must still end.
    const TRIES_MAX: usize = 64;
    let mut drawn = 0;
    for _ in 0..TRIES_MAX {
        let wide = u128::from(rng.next_u64()) * u128::from(n);
        let low = wide as u64;
        drawn = (wide >> 64) as u64;
        // The costly remainder is needed only when `low` could lie in the biased part.
        if low >= n || low >= n.wrapping_neg() % n {
            break;
        }
    }
    drawn
}
