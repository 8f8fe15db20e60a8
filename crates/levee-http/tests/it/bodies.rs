//! Chunked bodies: what is content, what is refused, and each limit.

use levee_http::chunked::{Decoder, Limits, Step, size_line};

/// Content and trailers, or the status that refuses the body; 100 if it goes on.
fn decode(bytes: &[u8], limits: Limits) -> Result<(Vec<u8>, Vec<u8>), u16> {
    let mut decoder = Decoder::new(limits);
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        match decoder.decode(&bytes[at..]).map_err(|bad| bad.status)? {
            Step::Data(range) => {
                content.extend_from_slice(&bytes[at..][range.clone()]);
                at += range.end;
            }
            Step::More => return Err(100),
            Step::End { .. } => return Ok((content, decoder.trailers().to_vec())),
        }
    }
}

#[test]
fn good_bodies() {
    let check = |bytes: &[u8], content: &[u8], trailers: &[u8]| {
        let got = decode(bytes, Limits::default());
        assert_eq!(
            got,
            Ok((content.to_vec(), trailers.to_vec())),
            "{}",
            bytes.escape_ascii()
        );
    };
    check(b"0\r\n\r\n", b"", b"");
    check(b"5\r\nhello\r\n0\r\n\r\n", b"hello", b"");
    check(b"005\r\nhello\r\n000\r\n\r\n", b"hello", b"");
    check(
        b"1\r\na\r\nA\r\n0123456789\r\n0\r\n\r\nGET /",
        b"a0123456789",
        b"",
    );
    check(b"1;a=b;c=\"d\"\r\na\r\n0;e\r\n\r\n", b"a", b"");
    check(b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n", b"");
    check(
        b"0\r\nX-Sum: 7\r\nGrpc-Status: 0\r\n\r\n",
        b"",
        b"X-Sum: 7\r\nGrpc-Status: 0\r\n",
    );
    // What frames or routes or authenticates has no place behind the content.
    check(
        b"0\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\nHost: b\r\nTrailer: x\r\nSet-Cookie: a\r\nContent-Type: b\r\n\
          Authorization: c\r\nX-Forwarded-For: d\r\nContent_Length: 3\r\nX-A: b\r\n\r\n",
        b"",
        b"X-A: b\r\n",
    );
}

#[test]
fn bad_bodies() {
    let check = |bytes: &[u8], expect: u16| {
        assert_eq!(
            decode(bytes, Limits::default()),
            Err(expect),
            "{}",
            bytes.escape_ascii()
        );
    };
    check(b"\r\n", 400);
    check(b";a\r\n", 400);
    check(b"g\r\n", 400);
    check(b"+5\r\nhello", 400);
    check(b"-5\r\nhello", 400);
    check(b"0x5\r\nhello", 400);
    check(b" 5\r\nhello", 400);
    check(b"5 \r\nhello", 400);
    check(b"5\t;a\r\nhello", 400);
    check(b"5\nhello\r\n0\r\n\r\n", 400);
    check(b"5\rhello\r\n0\r\n\r\n", 400);
    check(b"5;a\nhello\r\n0\r\n\r\n", 400);
    check(b"5;a\rb\r\nhello\r\n0\r\n\r\n", 400);
    check(b"5;a\0\r\nhello", 400);
    check(b"5\r\nhello0\r\n\r\n", 400);
    check(b"5\r\nhello\n0\r\n\r\n", 400);
    check(b"5\r\nhello!\r\n0\r\n\r\n", 400);
    check(b"5\r\nhello\r0\r\n\r\n", 400);
    check(b"0\r\n\n", 400);
    check(b"0\n\r\n", 400);
    check(b"0\r\nA: b\n\r\n", 400);
    check(b"0\r\nA : b\r\n\r\n", 400);
    check(b"0\r\nA: b\r\n c\r\n\r\n", 400);
    check(b"0\r\nA\r\n\r\n", 400);
    check(b"0\r\nA: \0\r\n\r\n", 400);
    check(b"0\r\n\rx\n", 400);
    check(b"ffffffffffffffff\r\n", 100);
    check(b"10000000000000000\r\n", 413);
    check(b"00000000000000000\r\n", 413);
    check(b"", 100);
    check(b"5\r\nhell", 100);
    check(b"0\r\n\r", 100);
}

#[test]
fn limits_of_what_is_no_content() {
    let limits = Limits {
        extension_bytes_max: 10,
        trailer_bytes_max: 20,
        trailers_max: 2,
    };
    let status = |bytes: &str| decode(bytes.as_bytes(), limits).map_or_else(|status| status, |_| 0);
    assert_eq!(status("1;aaaaaaaaa\r\nx\r\n0\r\n\r\n"), 0);
    assert_eq!(status("1;aaaaaaaaaa\r\nx\r\n0\r\n\r\n"), 431);
    // Of all chunks together.
    assert_eq!(status("1;aaaa\r\nx\r\n1;aaaa\r\nx\r\n0\r\n\r\n"), 0);
    assert_eq!(status("1;aaaa\r\nx\r\n1;aaaaa\r\nx\r\n0\r\n\r\n"), 431);
    assert_eq!(status("0\r\nA: 01234567890123\r\n\r\n"), 431);
    assert_eq!(status("0\r\nA: 0123456789012\r\n\r\n"), 0);
    assert_eq!(status("0\r\nA:b\r\nA:b\r\n\r\n"), 0);
    assert_eq!(status("0\r\nA:\r\nA:\r\nA:\r\n\r\n"), 431);
}

#[test]
fn size_lines() {
    for n in [
        0usize,
        1,
        9,
        10,
        15,
        16,
        255,
        256,
        65_535,
        1 << 20,
        usize::MAX,
    ] {
        assert_eq!(size_line(n).as_bytes(), format!("{n:x}\r\n").as_bytes());
    }
}
