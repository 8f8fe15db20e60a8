//! HTTP/1.1 as the lab's servers and clients speak it.
//!
//! Tokenised by `httparse`, not by the front's own parser: the lab is to notice what the front gets wrong.

use std::io;
use std::net::SocketAddr;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// Bytes of a head, and header fields of it, that the lab takes; the front's own limits are lower.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 128;
/// Bytes of one chunk of a chunked body.
const CHUNK_BYTES_MAX: u64 = 1 << 30;

/// A listener on an address, with room for `backlog` connections that nobody has accepted yet.
pub(crate) fn listen(addr: SocketAddr, backlog: i32) -> io::Result<std::net::TcpListener> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(addr),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// A request as an origin takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// What its path names; the lab's records know whose it is.
    pub(crate) id: Option<u64>,
    /// Bytes of its body.
    pub(crate) body: u64,
    /// Whether the connection ends with it.
    pub(crate) close: bool,
    /// Whether it is a HEAD.
    pub(crate) head: bool,
}

/// The path that names a request.
pub(crate) fn path(id: u64) -> String {
    format!("/r/{id:016x}")
}

fn id_of(path: &str) -> Option<u64> {
    let name = path.strip_prefix("/r/")?.split(['?', '/']).next()?;
    u64::from_str_radix(name, 16).ok()
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// What stands in `buffer` as a request's head, and its length; `None` while more must come.
pub(crate) fn parse_request(buffer: &[u8]) -> io::Result<Option<(Request, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut fields);
    let length = match head.parse(buffer).map_err(|e| bad(&e.to_string()))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if buffer.len() < HEAD_BYTES_MAX => return Ok(None),
        httparse::Status::Partial => return Err(bad("a head that is too long")),
    };
    let mut request = Request {
        id: head.path.and_then(id_of),
        body: 0,
        close: head.version == Some(0),
        head: head.method == Some("HEAD"),
    };
    for field in head.headers.iter() {
        let value = || std::str::from_utf8(field.value).unwrap_or_default().trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            request.body = value().parse().map_err(|_| bad("a bad Content-Length"))?;
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(bad("a chunked request: the lab sends none"));
        } else if field.name.eq_ignore_ascii_case("connection") {
            request.close |= value().eq_ignore_ascii_case("close");
        }
    }
    Ok(Some((request, length)))
}

/// The next request of a connection; `None` at its end between two.
pub(crate) async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    loop {
        if let Some((request, length)) = parse_request(buffer)? {
            buffer.drain(..length);
            return Ok(Some(request));
        }
        if stream.read_buf(buffer).await? == 0 {
            return if buffer.is_empty() {
                Ok(None)
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            };
        }
    }
}

/// Reads so many bytes, and forgets them.
pub(crate) async fn skip_body(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    mut left: u64,
) -> io::Result<()> {
    loop {
        let here = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        buffer.drain(..here);
        left -= here as u64;
        if left == 0 {
            return Ok(());
        }
        more(stream, buffer).await?;
    }
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<()> {
    if stream.read_buf(buffer).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// What the lab's clients look at in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    /// Its status.
    pub(crate) status: u16,
    /// What its client may bring the next time.
    pub(crate) ticket: Option<String>,
    /// What would be enough now, and what has been paid.
    pub(crate) price: Price,
    /// How to pay.
    pub(crate) pay: Option<String>,
    /// When it may ask again, in seconds.
    pub(crate) retry_after: Option<u64>,
    /// Whether the connection ends with it.
    pub(crate) close: bool,
    /// Its body.
    pub(crate) body: Vec<u8>,
    framing: Framing,
}

/// `12;unit=retries;paid=3;size=512`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Price {
    pub(crate) now: u64,
    pub(crate) paid: u64,
    /// Bytes that count as one unit on the payment channel.
    pub(crate) size: u64,
}

impl Price {
    fn parse(text: &str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let now = parts.next().and_then(|n| n.parse().ok());
        let mut price = Self {
            now: now.unwrap_or_default(),
            paid: 0,
            size: 1,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match (name, value.parse()) {
                ("paid", Ok(paid)) => price.paid = paid,
                ("size", Ok(size)) => price.size = size,
                _ => {}
            }
        }
        price
    }
}

impl Response {
    /// Bytes of its body, if it says so.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked | Framing::UntilClose => None,
        }
    }

    /// Whether a word stands in its body in quotes, as a value of JSON.
    pub(crate) fn body_says(&self, word: &str) -> bool {
        let word = format!("\"{word}\"");
        self.body.windows(word.len()).any(|w| w == word.as_bytes())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    #[default]
    UntilClose,
}

/// What stands in `buffer` as a response's head, and its length; `None` while more must come.
pub(crate) fn parse_response(buffer: &[u8]) -> io::Result<Option<(Response, usize)>> {
    let mut fields = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut fields);
    let length = match head.parse(buffer).map_err(|e| bad(&e.to_string()))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial if buffer.len() < HEAD_BYTES_MAX => return Ok(None),
        httparse::Status::Partial => return Err(bad("a head that is too long")),
    };
    let mut response = Response {
        status: head.code.unwrap_or_default(),
        close: head.version == Some(0),
        ..Response::default()
    };
    for field in head.headers.iter() {
        let text = std::str::from_utf8(field.value).unwrap_or_default().trim();
        match field.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let length = text.parse().map_err(|_| bad("a bad Content-Length"))?;
                response.framing = Framing::Length(length);
            }
            "transfer-encoding" => response.framing = Framing::Chunked,
            "connection" => response.close |= text.eq_ignore_ascii_case("close"),
            "retry-after" => response.retry_after = text.parse().ok(),
            "levee-ticket" => response.ticket = Some(text.to_owned()),
            "levee-price" => response.price = Price::parse(text),
            "levee-pay" => response.pay = Some(text.to_owned()),
            _ => {}
        }
    }
    if matches!(response.status, 100..=199 | 204 | 304) {
        response.framing = Framing::Length(0);
    }
    response.close |= response.framing == Framing::UntilClose;
    Ok(Some((response, length)))
}

/// The next final response of a connection, with its body.
pub(crate) async fn read_response(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> io::Result<Response> {
    let mut response = loop {
        match parse_response(buffer)? {
            Some((response, length)) => {
                buffer.drain(..length);
                if response.status >= 200 {
                    break response;
                }
            }
            None => more(stream, buffer).await?,
        }
    };
    match response.framing {
        Framing::Length(length) => {
            let length = usize::try_from(length).map_err(io::Error::other)?;
            while buffer.len() < length {
                more(stream, buffer).await?;
            }
            response.body = buffer.drain(..length).collect();
        }
        Framing::Chunked => response.body = read_chunks(stream, buffer).await?,
        Framing::UntilClose => {
            while stream.read_buf(buffer).await? > 0 {}
            response.body = std::mem::take(buffer);
        }
    }
    Ok(response)
}

async fn read_chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = httparse::parse_chunk_size(buffer).map_err(|_| bad("a bad chunk size"))?;
        let httparse::Status::Complete((head, size)) = size else {
            more(stream, buffer).await?;
            continue;
        };
        if size > CHUNK_BYTES_MAX {
            return Err(bad("a chunk that is too long"));
        }
        // Data and the line end behind it; the last chunk has that alone (the lab's servers send no trailers).
        let whole = head + size as usize + 2;
        while buffer.len() < whole {
            more(stream, buffer).await?;
        }
        body.extend(buffer.drain(..whole).skip(head).take(size as usize));
        if size == 0 {
            return Ok(body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_request(text: &str, expect: Result<Option<Request>, &str>) {
        let found = parse_request(text.as_bytes());
        let found = found.map(|r| r.map(|(request, _)| request));
        let found = found.map_err(|e| e.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{text:?}");
    }

    #[test]
    fn requests_as_an_origin_takes_them() {
        let plain = Request {
            id: Some(0x2a),
            body: 0,
            close: false,
            head: false,
        };
        check_request("GET /r/002a HTTP/1.1\r\nHost: a\r\n\r\n", Ok(Some(plain)));
        check_request("GET /r/2a?x=1 HTTP/1.1\r\n\r\n", Ok(Some(plain)));
        check_request("GET /r/2a HTTP/1.1\r\nHost: a\r\n", Ok(None));
        let id = None;
        check_request("GET / HTTP/1.1\r\n\r\n", Ok(Some(Request { id, ..plain })));
        check_request(
            "GET /r/zz HTTP/1.1\r\n\r\n",
            Ok(Some(Request { id, ..plain })),
        );
        let close = true;
        check_request(
            "GET /r/2a HTTP/1.0\r\n\r\n",
            Ok(Some(Request { close, ..plain })),
        );
        check_request(
            "POST /r/2a HTTP/1.1\r\nContent-Length: 7\r\nConnection: close\r\n\r\nabc",
            Ok(Some(Request {
                close,
                body: 7,
                ..plain
            })),
        );
        check_request(
            "POST /r/2a HTTP/1.1\r\nContent-Length: -7\r\n\r\n",
            Err("a bad Content-Length"),
        );
        assert_eq!(id_of(&path(u64::MAX)), Some(u64::MAX));
    }

    /// What a server writes in pieces of one byte is read as it was meant.
    #[tokio::test(flavor = "current_thread")]
    async fn responses_of_each_framing_are_read_whole() {
        for (text, status, body) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
                200,
                "abc",
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\n\r\n",
                200,
                "abc",
            ),
            (
                "HTTP/1.1 503 No\r\nConnection: close\r\n\r\nabc",
                503,
                "abc",
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n",
                204,
                "",
            ),
        ] {
            let listener = listen(([127, 0, 0, 1], 0).into(), 1).unwrap();
            let addr = listener.local_addr().unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let (mut client, server) = tokio::join!(TcpStream::connect(addr), listener.accept());
            let client = client.as_mut().unwrap();
            let (mut server, _) = server.unwrap();
            let write = async move {
                use tokio::io::AsyncWriteExt as _;
                for byte in text.as_bytes().chunks(1) {
                    server.write_all(byte).await.unwrap();
                    tokio::task::yield_now().await;
                }
            };
            let mut buffer = Vec::new();
            let (response, ()) = tokio::join!(read_response(client, &mut buffer), write);
            let response = response.unwrap();
            assert_eq!(response.status, status, "{text:?}");
            assert_eq!(response.body, body.as_bytes(), "{text:?}");
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn what_a_client_is_told_about_payment() {
        let text = "HTTP/1.1 503 Service Unavailable\r\nLevee-Ticket: abc\r\nlevee-price: 12;unit=retries;paid=3;size=512\r\n\
                    Levee-Pay: retries /pay\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
        let (response, length) = parse_response(text.as_bytes()).unwrap().unwrap();
        assert_eq!(length, text.len());
        assert_eq!(response.ticket.as_deref(), Some("abc"));
        let Price { now, paid, size } = response.price;
        assert_eq!((now, paid, size), (12, 3, 512));
        assert_eq!(response.retry_after, Some(0));
        assert_eq!(response.pay.as_deref(), Some("retries /pay"));
        assert!(!response.close);
    }
}
