//! Character classes of RFC 3261 section 25.1 and a cursor over them.

const TOKEN: u8 = 1;
const HOST: u8 = 2;
const DIGIT: u8 = 4;

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
                b'-' | b'.' | b'!' | b'%' | b'*' | b'_' | b'+' | b'`' | b'\'' | b'~'
            )
        {
            v |= TOKEN;
        }
        // RFC 3261 has no underscore in a host name, but real networks do.
        if alnum || matches!(c, b'-' | b'.' | b'_') {
            v |= HOST;
        }
        if c.is_ascii_digit() {
            v |= DIGIT;
        }
        t[i] = v;
        i += 1;
    }
    t
};

pub(crate) fn is_token(c: u8) -> bool {
    CLASS[c as usize] & TOKEN != 0
}

pub(crate) fn is_host(c: u8) -> bool {
    CLASS[c as usize] & HOST != 0
}

/// White space inside a header value; CR and LF stand there only as part of a fold, which the scanner has checked.
pub(crate) fn is_lws(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\r' | b'\n')
}

pub(crate) fn trim(mut b: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = b
        && is_lws(*first)
    {
        b = rest;
    }
    while let [rest @ .., last] = b
        && is_lws(*last)
    {
        b = rest;
    }
    b
}

/// A decimal number that fits, with leading zeros allowed and nothing else beside the digits.
pub(crate) fn number(b: &[u8]) -> Option<u64> {
    if b.is_empty() {
        return None;
    }
    b.iter().try_fold(0u64, |n, &c| {
        if CLASS[c as usize] & DIGIT == 0 {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(c - b'0'))
    })
}

/// A place in a header value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn seek(&mut self, at: usize) {
        self.at = at.min(self.bytes.len());
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The bytes from `from` to here.
    pub(crate) fn since(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..self.at).unwrap_or_default()
    }

    pub(crate) fn is_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(crate) fn skip_lws(&mut self) {
        while self.peek().is_some_and(is_lws) {
            self.at += 1;
        }
    }

    pub(crate) fn eat(&mut self, c: u8) -> bool {
        let hit = self.peek() == Some(c);
        if hit {
            self.at += 1;
        }
        hit
    }

    pub(crate) fn take_while(&mut self, f: impl Fn(u8) -> bool) -> &'a [u8] {
        let from = self.at;
        while self.peek().is_some_and(&f) {
            self.at += 1;
        }
        self.since(from)
    }

    /// A quoted string with its quotes; `None` (and no move) when it does not begin or does not end.
    pub(crate) fn quoted(&mut self) -> Option<&'a [u8]> {
        let from = self.at;
        if !self.eat(b'"') {
            return None;
        }
        while let Some(c) = self.peek() {
            self.at += 1;
            match c {
                b'"' => return Some(self.since(from)),
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        self.at = from;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let table = [
            ("0", Some(0)),
            ("007", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("00000000000000000000000000001", Some(1)),
            ("", None),
            ("+1", None),
            ("1 ", None),
            ("\u{661}", None),
        ];
        for (text, want) in table {
            assert_eq!(number(text.as_bytes()), want, "{text:?}");
        }
    }

    #[test]
    fn a_quoted_string_ends_at_a_quote_that_is_not_escaped() {
        let table = [
            (r#""""#, Some(2)),
            (r#""a"b"#, Some(3)),
            (r#""\"""#, Some(4)),
            (r#""\\""#, Some(4)),
            (r#""\\\""#, None),
            (r#""\"#, None),
            (r#"""#, None),
            (r#"a"#, None),
            ("", None),
        ];
        for (text, want) in table {
            let mut c = Cursor::new(text.as_bytes());
            assert_eq!(c.quoted().map(<[u8]>::len), want, "{text:?}");
            assert_eq!(c.at(), want.unwrap_or(0), "no move on failure: {text:?}");
        }
    }

    #[test]
    fn trim_takes_white_space_at_both_ends_only() {
        assert_eq!(trim(b" \t\r\n a b\r\n\t "), b"a b");
        assert_eq!(trim(b"a"), b"a");
        assert_eq!(trim(b" \r\n "), b"");
        assert_eq!(trim(b"\x0ba\0"), b"\x0ba\0");
    }
}
