//! The admin page: `/metrics`, `/healthz` and a page for people.
//!
//! Read-only, without a password, meant for loopback or a management network. It must not become a way in: only GET and
//! HEAD, no body, a small head, a time limit on each step, a bounded number of connections.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::Full;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::AdminSettings;
use crate::front::Numbers;
use crate::metrics;
use crate::{http, sip};

/// Longest head of a request; the least that hyper takes. A scraper's has some 300 bytes.
const HEAD_BYTES_MAX: usize = 8_192;
/// Most header fields of a request; a browser sends some 20.
const HEADERS_MAX: usize = 64;
/// How long a front may take for its snapshot before it counts as stuck. It needs microseconds.
const SNAPSHOT_TIME_MAX: Duration = Duration::from_secs(2);
/// How long a connection may live: a client that does not read its answer holds one of few places.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(60);
/// How long to wait after a failed accept; the usual cause is a lack of descriptors, which a retry does not mend at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where the numbers come from.
pub trait Source: Send + Sync + 'static {
    /// Those of each front that runs.
    fn snapshots(&self) -> impl Future<Output = Vec<Numbers>> + Send;
}

impl<F, R> Source for F
where
    F: Fn() -> R + Send + Sync + 'static,
    R: Future<Output = Vec<Numbers>> + Send,
{
    fn snapshots(&self) -> impl Future<Output = Vec<Numbers>> + Send {
        self()
    }
}

/// An admin page that cannot start.
#[derive(Debug, thiserror::Error)]
#[error(
    "the admin page cannot listen on {addr}: choose another `admin.listen`, or stop what listens there"
)]
pub struct AdminError {
    /// Where.
    pub addr: SocketAddr,
    /// What the system says.
    #[source]
    pub source: io::Error,
}

/// A running admin page; it stops when this is dropped.
#[derive(Debug)]
pub struct Admin {
    addr: SocketAddr,
    task: JoinHandle<()>,
}

impl Admin {
    /// Where it listens (port 0 resolved).
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts the admin page on the current runtime.
///
/// # Errors
///
/// It cannot listen.
pub async fn start(settings: &AdminSettings, source: impl Source) -> Result<Admin, AdminError> {
    let fail = |source| AdminError {
        addr: settings.listen,
        source,
    };
    let listener = TcpListener::bind(settings.listen).await.map_err(fail)?;
    let addr = listener.local_addr().map_err(fail)?;
    let started = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let page = Arc::new(Page {
        source,
        started_seconds: started.as_secs_f64(),
    });
    let task = tokio::spawn(accept(listener, page, settings.clone()));
    Ok(Admin { addr, task })
}

async fn accept<S: Source>(listener: TcpListener, page: Arc<Page<S>>, settings: AdminSettings) {
    let places = Arc::new(Semaphore::new(settings.connections_max));
    // Dropped with this task, and its connections with it.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // Nobody closes the semaphore.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (page, header_timeout) = (Arc::clone(&page), settings.header_timeout);
                connections.spawn(async move {
                    let _place = place;
                    // A client that breaks off or is too slow is its own affair.
                    let _ = timeout(CONNECTION_TIME_MAX, serve(stream, page, header_timeout)).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the admin page cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve<S: Source>(
    stream: TcpStream,
    page: Arc<Page<S>>,
    header_timeout: Duration,
) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let page = Arc::clone(&page);
        async move { Ok::<_, Infallible>(page.answer(request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

struct Page<S> {
    source: S,
    started_seconds: f64,
}

impl<S: Source> Page<S> {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            response
                .headers_mut()
                .insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        if !request.body().is_end_stream() {
            return text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "a request here has no body\n",
            );
        }
        match request.uri().path() {
            "/metrics" => match self.snapshots().await {
                Some(fronts) => typed(
                    StatusCode::OK,
                    metrics::CONTENT_TYPE,
                    metrics::render(fronts, self.started_seconds),
                ),
                None => text(StatusCode::SERVICE_UNAVAILABLE, STUCK),
            },
            "/healthz" => match self.snapshots().await {
                None => text(StatusCode::SERVICE_UNAVAILABLE, STUCK),
                Some(fronts) if fronts.is_empty() => {
                    text(StatusCode::SERVICE_UNAVAILABLE, "no front runs\n")
                }
                Some(fronts) if fronts.iter().any(Numbers::is_draining) => {
                    text(StatusCode::SERVICE_UNAVAILABLE, "draining\n")
                }
                Some(_) => text(StatusCode::OK, "ok\n"),
            },
            "/" => match self.snapshots().await {
                Some(fronts) => typed(StatusCode::OK, "text/html; charset=utf-8", html(&fronts)),
                None => text(StatusCode::SERVICE_UNAVAILABLE, STUCK),
            },
            _ => text(
                StatusCode::NOT_FOUND,
                "there are /, /metrics and /healthz\n",
            ),
        }
    }

    /// `None` if a front does not answer.
    async fn snapshots(&self) -> Option<Vec<Numbers>> {
        timeout(SNAPSHOT_TIME_MAX, self.source.snapshots())
            .await
            .ok()
    }
}

const STUCK: &str = "a front does not answer\n";

fn text(status: StatusCode, body: &'static str) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", body)
}

fn typed(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    let policy = HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'");
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    response
}

/// A page that reloads itself.
fn html(fronts: &[Numbers]) -> String {
    let (mut of_sip, mut of_http) = (Vec::new(), Vec::new());
    for front in fronts {
        match front {
            Numbers::Sip(numbers) => of_sip.push(sip_row(numbers)),
            Numbers::Http(numbers) => of_http.push(http_row(numbers)),
        }
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"5\">\
         <title>Levee</title><style>body{{font-family:sans-serif;margin:2em}}table{{border-collapse:collapse;margin-bottom:2em}}\
         th,td{{padding:.3em .8em;text-align:right;border-bottom:1px solid #ccc}}\
         th:first-child,td:first-child{{text-align:left}}</style>\
         <h1>Levee {version}</h1>{sip}{http}\
         <p><a href=\"/metrics\">/metrics</a> <a href=\"/healthz\">/healthz</a></p></html>\n",
        version = env!("CARGO_PKG_VERSION"),
        sip = table(&SIP_COLUMNS, &of_sip),
        http = table(&HTTP_COLUMNS, &of_http),
    )
}

/// A table of fronts of one kind; nothing where there is none.
fn table<const N: usize>(columns: &[&str; N], rows: &[[String; N]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let row = |cells: &[String; N]| format!("<tr><td>{}</tr>", cells.join("<td>"));
    let rows: String = rows.iter().map(row).collect();
    format!("<table><tr><th>{}</tr>{rows}</table>", columns.join("<th>"))
}

fn state(draining: bool) -> String {
    if draining { "draining" } else { "running" }.to_owned()
}

const SIP_COLUMNS: [&str; 11] = [
    "SIP front",
    "state",
    "capacity",
    "waiting",
    "in call",
    "evicting",
    "PMod",
    "arrivals",
    "refused",
    "evicted",
    "completed",
];

fn sip_row(front: &sip::Snapshot) -> [String; SIP_COLUMNS.len()] {
    let evicted = front.evicted_waiting + front.evicted_in_call;
    let refused: u64 = front.refused.values().sum();
    [
        escape(&front.name),
        state(front.draining),
        front.capacity.to_string(),
        front.held_waiting.to_string(),
        front.held_in_call.to_string(),
        front.evicting.to_string(),
        front.pmod.to_string(),
        front.arrivals.to_string(),
        refused.to_string(),
        evicted.to_string(),
        front.completed.to_string(),
    ]
}

const HTTP_COLUMNS: [&str; 11] = [
    "HTTP front",
    "state",
    "connections",
    "evicted",
    "requests",
    "mode",
    "asked/s",
    "price",
    "waiting",
    "refused",
    "server errors",
];

/// A dash stands for a defence that is not there.
fn http_row(front: &http::snapshot::Snapshot) -> [String; HTTP_COLUMNS.len()] {
    let thinner = front.gate.requests.as_ref();
    let of_thinner = |say: &dyn Fn(&http::gate::RequestsSnapshot) -> String| {
        thinner.map_or_else(|| "–".to_owned(), say)
    };
    let table = front.gate.connections.as_ref();
    let evicted = table.map(|table| table.stats.evicted.total().to_string());
    let errors: u64 = front.traffic.upstream_errors.values().sum();
    [
        escape(&front.name),
        state(front.draining),
        front.traffic.connections.sum().to_string(),
        evicted.unwrap_or_else(|| "–".to_owned()),
        (front.traffic.requests_h1 + front.traffic.requests_h2).to_string(),
        of_thinner(&|thinner| {
            let overloaded = if thinner.is_overloaded {
                ", overloaded"
            } else {
                ""
            };
            format!("{}{overloaded}", thinner.mode.name())
        }),
        of_thinner(&|thinner| format!("{:.1}", thinner.inbound_rate)),
        of_thinner(&|thinner| thinner.price.to_string()),
        of_thinner(&|thinner| thinner.contenders.to_string()),
        of_thinner(&|thinner| thinner.stats.refused.total().to_string()),
        errors.to_string(),
    ]
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn settings(connections_max: usize) -> AdminSettings {
        AdminSettings {
            connections_max,
            ..AdminSettings::new("127.0.0.1:0".parse().unwrap())
        }
    }

    fn front(name: &str) -> Numbers {
        sip_front(name, false)
    }

    fn sip_front(name: &str, draining: bool) -> Numbers {
        let front = sip::Snapshot {
            name: name.to_owned(),
            capacity: 24,
            draining,
            ..sip::Snapshot::default()
        };
        front.into()
    }

    fn web_front(name: &str, draining: bool) -> http::snapshot::Snapshot {
        http::snapshot::Snapshot {
            name: name.to_owned(),
            draining,
            ..http::snapshot::Snapshot::default()
        }
    }

    async fn with_front() -> Admin {
        start(&settings(4), || async { vec![front("<a>")] })
            .await
            .unwrap()
    }

    /// Sends `request` and reads until the other side closes.
    async fn exchange(admin: &Admin, request: &str) -> String {
        let mut stream = TcpStream::connect(admin.addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A refused request may be reset after its answer.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn get(admin: &Admin, path: &str) -> String {
        exchange(
            admin,
            &format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"),
        )
        .await
    }

    #[track_caller]
    fn check(answer: &str, status: &str, has: &str) {
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{answer}"
        );
        assert!(answer.contains(has), "{answer}");
    }

    #[tokio::test]
    async fn each_path_has_its_answer() {
        let admin = with_front().await;
        check(
            &get(&admin, "/metrics").await,
            "200",
            "levee_sip_capacity{front=\"<a>\"} 24",
        );
        check(
            &get(&admin, "/metrics").await,
            "200",
            "content-type: text/plain; version=0.0.4; charset=utf-8",
        );
        check(&get(&admin, "/healthz").await, "200", "\r\n\r\nok\n");
        check(
            &get(&admin, "/").await,
            "200",
            "<td>&lt;a&gt;<td>running<td>24",
        );
        check(&get(&admin, "/other").await, "404", "/metrics");
    }

    #[tokio::test]
    async fn the_page_has_a_row_for_each_front_of_either_kind() {
        let source = || async {
            let mut defended = web_front("defended", false);
            let mut thinner = http::gate::RequestsSnapshot {
                is_overloaded: true,
                price: 62_500,
                ..http::gate::RequestsSnapshot::default()
            };
            thinner.stats.refused.outbid = 9;
            defended.gate.requests = Some(thinner);
            vec![
                front("office"),
                defended.into(),
                web_front("bare", true).into(),
            ]
        };
        let admin = start(&settings(4), source).await.unwrap();
        let page = get(&admin, "/").await;
        for row in [
            "<th>SIP front<th>state",
            "<td>office<td>running<td>24<td>",
            "<th>HTTP front<th>state",
            "<td>defended<td>running<td>0<td>–<td>0<td>auction, overloaded<td>0.0<td>62500<td>0<td>9<td>0</tr>",
            "<td>bare<td>draining<td>0<td>–<td>0<td>–<td>–<td>–<td>–<td>–<td>0</tr>",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
        let source = || async { vec![web_front("a", false).into()] };
        let admin = start(&settings(4), source).await.unwrap();
        let page = get(&admin, "/").await;
        assert!(!page.contains("SIP front"), "{page}");
    }

    #[tokio::test]
    async fn health_tells_draining_stuck_and_absent_fronts() {
        let draining = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&draining);
        let source = move || {
            let draining = flag.load(Ordering::Relaxed);
            async move { vec![front("a"), web_front("b", draining).into()] }
        };
        let admin = start(&settings(4), source).await.unwrap();
        check(&get(&admin, "/healthz").await, "200", "ok");
        draining.store(true, Ordering::Relaxed);
        check(&get(&admin, "/healthz").await, "503", "draining");

        let admin = start(&settings(4), || async { Vec::new() }).await.unwrap();
        check(&get(&admin, "/healthz").await, "503", "no front runs");
    }

    #[tokio::test(start_paused = true)]
    async fn a_front_that_does_not_answer_is_said_to_be_stuck() {
        let page = Page {
            source: std::future::pending::<Vec<Numbers>>,
            started_seconds: 0.0,
        };
        assert!(page.snapshots().await.is_none());
    }

    #[tokio::test]
    async fn only_get_and_head_without_a_body_are_taken() {
        let admin = with_front().await;
        let head = exchange(
            &admin,
            "HEAD /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        )
        .await;
        check(&head, "200", "content-length: 3");
        assert!(head.ends_with("\r\n\r\n"), "{head}");
        let post = exchange(
            &admin,
            "POST /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
        )
        .await;
        check(&post, "405", "allow: GET, HEAD");
        let body = "GET /healthz HTTP/1.1\r\nhost: a\r\ncontent-length: 9999999\r\nconnection: close\r\n\r\nx";
        check(&exchange(&admin, body).await, "413", "no body");
    }

    #[tokio::test]
    async fn an_oversized_head_is_refused() {
        let admin = with_front().await;
        let long_path = format!(
            "GET /{} HTTP/1.1\r\nhost: a\r\n\r\n",
            "a".repeat(2 * HEAD_BYTES_MAX)
        );
        check(&exchange(&admin, &long_path).await, "4", "");
        let long_field = format!(
            "GET / HTTP/1.1\r\nhost: a\r\nx: {}\r\n\r\n",
            "a".repeat(2 * HEAD_BYTES_MAX)
        );
        check(&exchange(&admin, &long_field).await, "431", "");
        let many = format!(
            "GET / HTTP/1.1\r\nhost: a\r\n{}\r\n",
            "x: y\r\n".repeat(HEADERS_MAX + 1)
        );
        check(&exchange(&admin, &many).await, "431", "");
        check(&exchange(&admin, "not http\r\n\r\n").await, "400", "");
    }

    #[tokio::test]
    async fn a_slow_client_blocks_nobody_and_is_cut_off() {
        let slow = AdminSettings {
            header_timeout: Duration::from_millis(200),
            ..settings(2)
        };
        let admin = start(&slow, || async { vec![front("a")] }).await.unwrap();
        let mut first = TcpStream::connect(admin.addr()).await.unwrap();
        first.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
        check(&get(&admin, "/healthz").await, "200", "ok");
        // Both places taken: the next waits until the time limit frees one, and is served then.
        let mut second = TcpStream::connect(admin.addr()).await.unwrap();
        second.write_all(b"GET ").await.unwrap();
        check(&get(&admin, "/healthz").await, "200", "ok");
        let mut rest = Vec::new();
        let _ = first.read_to_end(&mut rest).await;
        assert!(
            !rest.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&rest)
        );
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_named() {
        let admin = with_front().await;
        let taken = AdminSettings::new(admin.addr());
        let error = start(&taken, || async { Vec::new() }).await.unwrap_err();
        assert!(
            error.to_string().contains(&admin.addr().to_string()),
            "{error}"
        );
    }
}
