//! A front on loopback between raw sockets and an origin that does what the path says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use levee_proxy::http::settings::{HttpSettings, Listen};
use levee_proxy::http::{self, Running};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

/// Nothing here takes so long, unless it is broken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longer than what kernels buffer on loopback, with both ends' buffers grown.
pub(crate) const HUGE: usize = 24 << 20;

pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not come"),
    }
}

/// What the origin has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Heads and bodies, in order.
    pub(crate) requests: Mutex<Vec<String>>,
    /// Connections accepted.
    pub(crate) connections: Mutex<usize>,
    /// Connections that ended while a request was under way.
    pub(crate) cancelled: Notify,
    /// A request has come.
    pub(crate) came: Notify,
    /// Lets the origin go on, a step each.
    pub(crate) go: Semaphore2,
}

/// Steps that are given out.
#[derive(Debug)]
pub(crate) struct Semaphore2(Semaphore);

impl Default for Semaphore2 {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

impl Semaphore2 {
    pub(crate) fn one(&self) {
        self.0.add_permits(1);
    }

    async fn step(&self) {
        self.0.acquire().await.unwrap().forget();
    }
}

impl Seen {
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

/// An origin that runs until the test's runtime ends.
pub(crate) async fn origin() -> (SocketAddr, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let own = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *own.connections.lock().unwrap() += 1;
            let mut wire = Wire {
                stream,
                have: Vec::new(),
            };
            let own = Arc::clone(&own);
            tokio::spawn(async move { while serve(&mut wire, &own).await.is_some() {} });
        }
    });
    (addr, seen)
}

/// One request; `None` when the connection is over.
async fn serve(wire: &mut Wire, seen: &Seen) -> Option<()> {
    let head = wire.head().await?;
    let path = head.split(' ').nth(1)?.to_owned();
    let at = {
        let mut requests = seen.requests.lock().unwrap();
        requests.push(head.clone());
        requests.len() - 1
    };
    seen.came.notify_one();
    let close = header(&head, "connection").is_some_and(|c| c.contains("close"));
    let mut keep = true;
    match path.split('?').next().unwrap() {
        "/echo" => {
            let body = wire.body(&head).await?;
            seen.requests.lock().unwrap()[at].push_str(&String::from_utf8_lossy(&body));
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            wire.put(head.as_bytes()).await?;
            wire.put(&body).await?;
        }
        "/page" => {
            let body = "<!doctype html><title>the content</title>ok";
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Security-Policy: default-src 'none'\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            wire.put(head.as_bytes()).await?;
        }
        "/form" => {
            let body = "<!doctype html><title>a form</title><form method=post action=/submit><textarea name=text></textarea><button>send</button></form>\
                        <script>document.querySelector('textarea').value = 'long '.repeat(40000)</script>";
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            wire.put(head.as_bytes()).await?;
        }
        "/parts" => {
            let body = "<!doctype html><title>parts</title><script>let n = 0; for (let i = 0; i < 40; i++)\
                        fetch('/part?' + i).then((a) => { if (a.ok) document.title = ++n + ' parts'; })</script>";
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            wire.put(head.as_bytes()).await?;
        }
        "/submit" => {
            let got = wire.body(&head).await?.len();
            let body = format!("<!doctype html><title>got {got}</title>");
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            wire.put(head.as_bytes()).await?;
        }
        "/length" => {
            let body = wire.body(&head).await?.len().to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            wire.put(head.as_bytes()).await?;
        }
        "/chunked" => {
            let parts = [
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n4\r\nWiki\r\n",
                "5;x=y\r\npedia\r\n",
                "0\r\nX-Sum: 9\r\n\r\n",
            ];
            for part in parts {
                wire.put(part.as_bytes()).await?;
            }
        }
        "/until-close" => {
            wire.put(b"HTTP/1.1 200 OK\r\n\r\nall of it").await?;
            keep = false;
        }
        "/huge" => {
            wire.put(format!("HTTP/1.1 200 OK\r\nContent-Length: {HUGE}\r\n\r\n").as_bytes())
                .await?;
            for _ in 0..HUGE / 65536 {
                if wire.put(&[b'x'; 65536]).await.is_none() {
                    seen.cancelled.notify_one();
                    return None;
                }
            }
        }
        "/never" => {
            // The other side has to give it up.
            while wire.more().await.is_some() {}
            seen.cancelled.notify_one();
            return None;
        }
        "/when-told" => {
            seen.go.step().await;
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntold")
                .await?;
        }
        "/drop" => return None,
        "/cut" => {
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
                .await?;
            return None;
        }
        "/garbage" => {
            wire.put(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").await?;
            return None;
        }
        "/smuggle" => {
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").await?;
        }
        "/extra" => {
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil").await?;
        }
        "/stall" => {
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
                .await?;
            while wire.more().await.is_some() {}
            return None;
        }
        "/early" => {
            wire.put(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
                .await?;
            while wire.more().await.is_some() {}
            return None;
        }
        "/continue" => {
            wire.put(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            let body = wire.body(&head).await?;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            wire.put(head.as_bytes()).await?;
            wire.put(&body).await?;
        }
        "/hints" => {
            wire.put(b"HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
        }
        "/head" => {
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                .await?;
        }
        "/not-modified" => {
            wire.put(b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\nContent-Length: 1000\r\n\r\n")
                .await?;
        }
        "/no-content" => wire.put(b"HTTP/1.1 204 No Content\r\n\r\n").await?,
        "/range" => {
            let answer = if header(&head, "range") == Some("bytes=0-1") {
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-1/4\r\nContent-Length: 2\r\n\r\nab"
            } else {
                "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */4\r\nContent-Length: 0\r\n\r\n"
            };
            wire.put(answer.as_bytes()).await?;
        }
        "/events" => {
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n").await?;
            for i in 0.. {
                tokio::select! {
                    () = seen.go.step() => wire.put(format!("data: {i}\n\n").as_bytes()).await?,
                    more = wire.more() => if more.is_none() {
                        seen.cancelled.notify_one();
                        return None;
                    }
                }
            }
        }
        "/socket" if header(&head, "upgrade").is_some() => {
            wire.put(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n").await?;
            loop {
                let have = std::mem::take(&mut wire.have);
                wire.put(&have).await?;
                wire.more().await?;
            }
        }
        _ => {
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                .await?;
        }
    }
    (keep && !close).then_some(())
}

/// The value of a header of a head.
pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (n, value) = line.split_once(':')?;
        n.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

/// One end of a connection, with what has been read and not used.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    have: Vec<u8>,
}

impl Wire {
    pub(crate) async fn to(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            have: Vec::new(),
        }
    }

    /// Sends; the other side may have closed already.
    pub(crate) async fn send(&mut self, text: impl AsRef<[u8]>) {
        let _ = self.put(text.as_ref()).await;
    }

    async fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).await.ok()
    }

    /// Reads on; `None` at the end.
    async fn more(&mut self) -> Option<usize> {
        let n = self.stream.read_buf(&mut self.have).await.ok()?;
        (n > 0).then_some(n)
    }

    async fn head(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.have.windows(4).position(|w| w == b"\r\n\r\n") {
                let head: Vec<u8> = self.have.drain(..at + 4).collect();
                return Some(String::from_utf8_lossy(&head).into_owned());
            }
            self.more().await?;
        }
    }

    async fn exactly(&mut self, n: usize) -> Option<Vec<u8>> {
        while self.have.len() < n {
            self.more().await?;
        }
        Some(self.have.drain(..n).collect())
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(at) = self.have.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.have.drain(..at + 2).collect();
                return Some(String::from_utf8_lossy(&line[..at]).into_owned());
            }
            self.more().await?;
        }
    }

    /// A body as its head frames it.
    async fn body(&mut self, head: &str) -> Option<Vec<u8>> {
        if header(head, "transfer-encoding").is_some() {
            let mut body = Vec::new();
            loop {
                let size = usize::from_str_radix(self.line().await?.as_str(), 16).unwrap();
                if size == 0 {
                    while !self.line().await?.is_empty() {}
                    return Some(body);
                }
                body.extend(self.exactly(size).await?);
                self.line().await?;
            }
        }
        let length = header(head, "content-length").map_or(0, |n| n.parse().unwrap());
        self.exactly(length).await
    }

    /// The next response, to a request with this method; an interim one too.
    pub(crate) async fn response_to(&mut self, method: &str) -> Option<Response> {
        within("a response", async {
            let head = self.head().await?;
            let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
            let bodiless = method == "HEAD" || matches!(status, 100..=199 | 204 | 304);
            let framed = header(&head, "content-length").is_some()
                || header(&head, "transfer-encoding").is_some();
            let body = if bodiless {
                Vec::new()
            } else if framed {
                self.body(&head).await?
            } else {
                while self.more().await.is_some() {}
                std::mem::take(&mut self.have)
            };
            Some(Response {
                status,
                head,
                body: String::from_utf8_lossy(&body).into_owned(),
            })
        })
        .await
    }

    /// The next response.
    pub(crate) async fn response(&mut self) -> Option<Response> {
        self.response_to("GET").await
    }

    /// The next response, which must come.
    pub(crate) async fn answer(&mut self) -> Response {
        self.response().await.expect("a response")
    }

    /// Waits for this text, whatever is before it.
    pub(crate) async fn until(&mut self, text: &str) -> String {
        within(text, async {
            loop {
                let have = String::from_utf8_lossy(&self.have).into_owned();
                if let Some(at) = have.find(text) {
                    self.have.drain(..at + text.len());
                    return have[..at].to_owned();
                }
                self.more().await.expect("the connection to stay");
            }
        })
        .await
    }

    /// What comes until the other side closes, and nothing is left unread.
    pub(crate) async fn rest(&mut self) -> String {
        within("the end", async {
            while self.more().await.is_some() {}
            String::from_utf8_lossy(&std::mem::take(&mut self.have)).into_owned()
        })
        .await
    }
}

/// A front before an origin.
pub(crate) struct World {
    pub(crate) front: Running,
    pub(crate) origin: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) settings: HttpSettings,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// One worker, so that its pool is everybody's.
    pub(crate) async fn with(change: impl FnOnce(&mut HttpSettings)) -> Self {
        let (origin, seen) = origin().await;
        let listen = vec![Listen::plain("127.0.0.1:0".parse().unwrap())];
        let mut settings = HttpSettings::new("test", listen, origin);
        settings.workers = 1;
        change(&mut settings);
        let front = http::start(settings.clone()).await.unwrap();
        Self {
            front,
            origin,
            seen,
            settings,
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.front.addrs()[0].addr
    }

    pub(crate) async fn connect(&self) -> Wire {
        Wire::to(self.addr()).await
    }

    /// A request on a connection of its own, and its response.
    pub(crate) async fn ask(&self, request: &str) -> Response {
        let mut wire = self.connect().await;
        wire.send(request).await;
        wire.answer().await
    }

    /// GET of a path on a connection of its own.
    pub(crate) async fn get(&self, path: &str) -> Response {
        self.ask(&get(path)).await
    }
}

/// A GET.
pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}
