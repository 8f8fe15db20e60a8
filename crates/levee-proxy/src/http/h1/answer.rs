//! Answers of our own, small and plain.

use std::borrow::Cow;

use levee_http::Bad;

use crate::http::pages;

/// An answer of our own.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Fields beside those that every answer has.
    fields: Vec<(&'static str, Cow<'static, str>)>,
    pub(crate) body: Cow<'static, [u8]>,
}

impl Answer {
    /// A status and a sentence that says why.
    pub(crate) fn new(status: u16, reason: &'static str) -> Self {
        Self {
            status,
            fields: vec![("Content-Type", Cow::Borrowed("text/plain; charset=utf-8"))],
            body: Cow::Owned([reason.as_bytes(), b"\n"].concat()),
        }
    }

    /// What is wrong with a request.
    pub(crate) fn of(bad: Bad) -> Self {
        Self::new(bad.status, bad.reason)
    }

    /// Fields beside those that every answer has.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.fields.iter().map(|(name, value)| (*name, &**value))
    }

    /// Writes it as one message.
    pub(crate) fn write(&self, out: &mut Vec<u8>, keep: Keep, bodiless: bool, date: &[u8; 29]) {
        out.extend_from_slice(b"HTTP/1.1 ");
        number(out, self.status.into());
        out.push(b' ');
        out.extend_from_slice(phrase(self.status).as_bytes());
        out.extend_from_slice(b"\r\nDate: ");
        out.extend_from_slice(date);
        for (name, value) in &self.fields {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
        }
        out.extend_from_slice(b"\r\nContent-Length: ");
        number(out, self.body.len() as u64);
        out.extend_from_slice(match keep {
            Keep::Open => b"\r\n\r\n".as_slice(),
            Keep::OpenAloud => b"\r\nConnection: keep-alive\r\n\r\n",
            Keep::Close => b"\r\nConnection: close\r\n\r\n",
        });
        if !bodiless {
            out.extend_from_slice(&self.body);
        }
    }
}

impl From<pages::Answer> for Answer {
    fn from(answer: pages::Answer) -> Self {
        Self {
            status: answer.status,
            fields: answer.fields,
            body: Cow::Owned(answer.body),
        }
    }
}

/// What is said of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Open,
    /// To an HTTP/1.0 client that asked for it.
    OpenAloud,
    Close,
}

/// The reason phrase of a status that we send.
pub(crate) fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        // A client reads the number (RFC 9112 section 4).
        _ => "",
    }
}

/// A word for a request that is refused with this status before anything else is decided.
pub(crate) fn cause(status: u16) -> &'static str {
    match status {
        408 => "too_slow",
        413 => "body_too_long",
        414 => "target_too_long",
        417 => "expectation",
        431 => "head_too_long",
        501 => "not_implemented",
        505 => "version",
        _ => "malformed",
    }
}

fn number(out: &mut Vec<u8>, mut n: u64) {
    let mut digits = [0; 20];
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_message() {
        let answer = Answer::new(408, "too slow");
        let date = b"Sun, 06 Nov 1994 08:49:37 GMT";
        for (keep, bodiless, end) in [
            (Keep::Open, false, "Content-Length: 9\r\n\r\ntoo slow\n"),
            (
                Keep::OpenAloud,
                true,
                "Content-Length: 9\r\nConnection: keep-alive\r\n\r\n",
            ),
            (
                Keep::Close,
                false,
                "Content-Length: 9\r\nConnection: close\r\n\r\ntoo slow\n",
            ),
        ] {
            let mut out = Vec::new();
            answer.write(&mut out, keep, bodiless, date);
            let begin = "HTTP/1.1 408 Request Timeout\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                Content-Type: text/plain; charset=utf-8\r\n";
            assert_eq!(String::from_utf8(out).unwrap(), format!("{begin}{end}"));
        }
    }

    #[test]
    fn numbers_have_no_sign_and_no_leading_zero() {
        for n in [0, 9, 10, 12_345, u64::MAX] {
            let mut out = Vec::new();
            number(&mut out, n);
            assert_eq!(out, n.to_string().as_bytes());
        }
    }
}
