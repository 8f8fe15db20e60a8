//! Character classes of RFC 9110 section 5.6 and RFC 3986, and scans over them.

const TOKEN: u8 = 1;
const TARGET: u8 = 2;
const HOST: u8 = 4;
const TEXT: u8 = 8;

const CLASS: [u8; 256] = {
    let mut t = [0u8; 256];
    let mut i = 0usize;
    while i < 256 {
        let c = i as u8;
        let alnum = c.is_ascii_alphanumeric();
        let mut v = 0;
        if alnum
            || matches!(
                c,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            )
        {
            v |= TOKEN;
        }
        // Browsers send more than RFC 3986 allows (`|`, `{`, raw UTF-8). A fragment is never sent: one server would cut
        // it off and another would not.
        if c > 0x20 && c != 0x7f && c != b'#' {
            v |= TARGET;
        }
        // A reg-name without the comma, which would make a list of it.
        if alnum
            || matches!(
                c,
                b'-' | b'.'
                    | b'_'
                    | b'~'
                    | b'%'
                    | b'!'
                    | b'$'
                    | b'&'
                    | b'\''
                    | b'('
                    | b')'
                    | b'*'
                    | b'+'
                    | b';'
                    | b'='
            )
        {
            v |= HOST;
        }
        if c == b'\t' || (c >= 0x20 && c != 0x7f) {
            v |= TEXT;
        }
        t[i] = v;
        i += 1;
    }
    t
};

#[inline]
pub(crate) fn is_token(c: u8) -> bool {
    CLASS[c as usize] & TOKEN != 0
}

#[inline]
pub(crate) fn is_target(c: u8) -> bool {
    CLASS[c as usize] & TARGET != 0
}

#[inline]
pub(crate) fn is_host(c: u8) -> bool {
    CLASS[c as usize] & HOST != 0
}

/// Optional white space (OWS).
#[inline]
pub(crate) fn is_ows(c: u8) -> bool {
    matches!(c, b' ' | b'\t')
}

/// What may stand in a field value or a reason phrase.
#[inline]
pub(crate) fn is_text(c: u8) -> bool {
    CLASS[c as usize] & TEXT != 0
}

/// The index of the first byte from `at` on of which `is` does not hold.
#[inline]
pub(crate) fn skip(bytes: &[u8], at: usize, is: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|c| !is(*c)).unwrap_or(rest.len())
}

/// The index of the first byte from `at` on that is no [text](is_text).
#[inline]
pub(crate) fn skip_text(bytes: &[u8], mut at: usize) -> usize {
    // The compiler makes one comparison of a block's sixteen.
    while let Some(block) = bytes.get(at..).and_then(|b| b.first_chunk::<16>()) {
        let control = |c: &u8| u8::from(*c < 0x20) | u8::from(*c == 0x7f);
        if block.iter().fold(0, |found, c| found | control(c)) == 0 {
            at += 16;
            continue;
        }
        let stop = skip(block, 0, is_text);
        at += stop;
        if stop < block.len() {
            return at;
        }
    }
    skip(bytes, at, is_text)
}

/// `b` without white space at its ends.
#[inline]
pub(crate) fn trim(mut b: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = b
        && is_ows(*first)
    {
        b = rest;
    }
    while let [rest @ .., last] = b
        && is_ows(*last)
    {
        b = rest;
    }
    b
}

/// The members of a comma-separated list without quoted strings (RFC 9110 section 5.6.1), empty ones left out.
#[inline]
pub(crate) fn members(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    value
        .split(|c| *c == b',')
        .map(trim)
        .filter(|m| !m.is_empty())
}

/// A decimal number of 1 to 19 digits and nothing else.
#[inline]
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    // 19 digits always fit.
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    digits.iter().try_fold(0u64, |n, c| {
        c.is_ascii_digit().then(|| n * 10 + u64::from(c - b'0'))
    })
}

/// Appends `n` in decimal.
#[inline]
pub(crate) fn put_number(out: &mut alloc::vec::Vec<u8>, mut n: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_scanned_as_byte_by_byte() {
        for stop in 0..=255u8 {
            for at in 0..19 {
                let mut bytes = *b"abcdefghijk\xff\x80\xa0 ~{mn";
                bytes[at] = stop;
                assert_eq!(
                    skip_text(&bytes, 0),
                    skip(&bytes, 0, is_text),
                    "{stop:#x} at {at}"
                );
            }
        }
        assert_eq!(skip_text(b"\t\t\t\t\t\t\t\t\t\t\r", 0), 10);
        assert_eq!(skip_text(b"abc", 7), 7);
    }

    #[test]
    fn numbers() {
        assert_eq!(number(b"0"), Some(0));
        assert_eq!(number(b"0042"), Some(42));
        assert_eq!(
            number(b"9999999999999999999"),
            Some(9_999_999_999_999_999_999)
        );
        for bad in [
            &b""[..],
            b"+1",
            b"-1",
            b"1 ",
            b" 1",
            b"0x1",
            b"1,1",
            b"10000000000000000000",
        ] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
        for n in [0, 7, 10, 1234, u64::MAX] {
            let mut out = alloc::vec::Vec::new();
            put_number(&mut out, n);
            assert_eq!(out, std::format!("{n}").into_bytes());
        }
    }
}
