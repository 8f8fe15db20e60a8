//! Web software of others: nginx and HAProxy as servers and proxies, `slowhttptest` and `wrk` as attackers.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::process::{PeerError, Process, Program, retry_taken_port};

const NGINX: Program = Program {
    name: "nginx",
    package: "nginx",
};
const HAPROXY: Program = Program {
    name: "haproxy",
    package: "haproxy",
};
const SLOWHTTPTEST: Program = Program {
    name: "slowhttptest",
    package: "slowhttptest",
};
const WRK: Program = Program {
    name: "wrk",
    package: "wrk",
};
/// The small page that a server of these has at `/`, and the bytes of the large one at `/big`: more than a kernel takes off its hands.
const PAGE: &str = "hello from a real server\n";
const BIG_BYTES: usize = 1 << 20;
/// Connections that nginx counts and that are no client's: its two listeners, and its channel to the master.
const NGINX_OWN: u32 = 3;

/// A TCP port of 127.0.0.1 that nobody has at this moment, chosen by the system.
fn free_tcp_addr(program: Program) -> Result<SocketAddr, PeerError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|socket| socket.local_addr())
        .map_err(program.io("choice of a port"))
}

/// Whether somebody takes connections there.
fn takes_connections(addr: SocketAddr) -> io::Result<bool> {
    match TcpStream::connect_timeout(&addr, Duration::from_millis(200)) {
        Ok(_) => Ok(true),
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::TimedOut
            ) =>
        {
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

/// A web server or proxy of others; dropping it ends it.
#[derive(Debug)]
pub struct WebServer {
    /// Ends with it.
    _process: Process,
    addr: SocketAddr,
}

impl WebServer {
    /// nginx with a small page at `/` and a large one at `/big`, which it proxies from a server of its own, as it would an
    /// application: a request's body is read first. It takes so many connections at once, those to its own server included
    /// (`worker_connections`); its timeouts are its defaults.
    ///
    /// # Errors
    /// [`PeerError`] if it does not start.
    pub fn nginx(connections: u32, lifetime: Duration) -> Result<Self, PeerError> {
        retry_taken_port(|| {
            let folder = folder(NGINX)?;
            let (addr, inner) = (free_tcp_addr(NGINX)?, free_tcp_addr(NGINX)?);
            let root = folder.path().display().to_string();
            let config = format!(
                "user root; worker_processes 1; daemon off; pid nginx.pid; error_log stderr crit;\n\
                 events {{ worker_connections {}; }}\n\
                 http {{ access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f;\n\
                 uwsgi_temp_path u; scgi_temp_path s; types {{ text/html html; }} default_type text/plain;\n\
                 server {{ listen {addr} backlog=4096; location / {{ proxy_pass http://{inner}; }} }}\n\
                 server {{ listen {inner} backlog=4096; root {root}/www; error_page 405 =200 $uri; }} }}\n",
                connections + NGINX_OWN
            );
            write(NGINX, folder.path(), "nginx.conf", config.as_bytes())?;
            fs::create_dir(folder.path().join("www")).map_err(NGINX.io("folder of pages"))?;
            write(NGINX, folder.path(), "www/index.html", PAGE.as_bytes())?;
            write(NGINX, folder.path(), "www/big", &vec![b'x'; BIG_BYTES])?;
            let args = ["-p", &root, "-c", "nginx.conf", "-e", "stderr"].map(str::to_owned);
            Self::start(NGINX, folder, lifetime, &args, addr)
        })
    }

    /// HAProxy before `server`, with so many connections at once and the timeouts that its manual recommends.
    ///
    /// # Errors
    /// [`PeerError`] if it does not start.
    pub fn haproxy(
        server: SocketAddr,
        connections: u32,
        lifetime: Duration,
    ) -> Result<Self, PeerError> {
        retry_taken_port(|| {
            let (folder, addr) = (folder(HAPROXY)?, free_tcp_addr(HAPROXY)?);
            let config = format!(
                "global\n maxconn {connections}\n nbthread 1\ndefaults\n mode http\n timeout connect 5s\n timeout client 30s\n \
                 timeout server 30s\n timeout http-request 10s\nfrontend f\n bind {addr}\n maxconn {connections}\n default_backend b\n\
                 backend b\n server s {server}\n"
            );
            write(HAPROXY, folder.path(), "haproxy.cfg", config.as_bytes())?;
            let args = ["-db", "-f", "haproxy.cfg"].map(str::to_owned);
            Self::start(HAPROXY, folder, lifetime, &args, addr)
        })
    }

    fn start(
        program: Program,
        folder: TempDir,
        lifetime: Duration,
        args: &[String],
        addr: SocketAddr,
    ) -> Result<Self, PeerError> {
        let mut process = Process::start(program, folder, lifetime, args, &[])?;
        process.wait_until(addr, || takes_connections(addr))?;
        Ok(Self {
            _process: process,
            addr,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// A mode of `slowhttptest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowMode {
    /// `-H`: Slowloris.
    Headers,
    /// `-B`: R.U.D.Y.
    Body,
    /// `-X`: slow read.
    Read,
}

/// `slowhttptest` at work; dropping it ends it.
#[derive(Debug)]
pub struct SlowHttpTest(#[expect(dead_code, reason = "ends with it")] Process);

impl SlowHttpTest {
    /// Opens so many connections to a server, at so many a second, and sends on each a piece a second.
    ///
    /// # Errors
    /// [`PeerError`] if it does not start.
    pub fn start(
        server: SocketAddr,
        mode: SlowMode,
        connections: u32,
        per_second: u32,
        lifetime: Duration,
    ) -> Result<Self, PeerError> {
        let folder = folder(SLOWHTTPTEST)?;
        let mut args: Vec<String> = Vec::new();
        let mut say = |words: &str| args.extend(words.split(' ').map(str::to_owned));
        say(match mode {
            SlowMode::Headers => "-H",
            SlowMode::Body => "-B -s 8192 -x 10",
            SlowMode::Read => "-X -w 512 -y 1024 -n 1 -z 32 -k 1",
        });
        let page = if mode == SlowMode::Read { "big" } else { "" };
        let seconds = lifetime.as_secs();
        say(&format!(
            "-c {connections} -r {per_second} -i 1 -l {seconds} -v 0 -p 3"
        ));
        say(&format!("-u http://{server}/{page}"));
        let process = Process::start(SLOWHTTPTEST, folder, lifetime, args, &[])?;
        Ok(Self(process))
    }
}

/// What `wrk` counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WrkResult {
    /// Requests that were answered, by any status.
    pub requests: u64,
    /// Of them, answered otherwise than with 2xx or 3xx.
    pub refused: u64,
}

/// `wrk` at work; dropping it ends it.
#[derive(Debug)]
pub struct Wrk(Process);

impl Wrk {
    /// Asks a server as fast as it can over so many connections, for this long.
    ///
    /// # Errors
    /// [`PeerError`] if it does not start.
    pub fn start(url: &str, connections: u32, time: Duration) -> Result<Self, PeerError> {
        let time_s = format!("-d{}s", time.as_secs());
        let args = [
            "-t1".to_owned(),
            format!("-c{connections}"),
            time_s,
            url.to_owned(),
        ];
        let lifetime = time + Duration::from_secs(10);
        Process::start(WRK, folder(WRK)?, lifetime, args, &[]).map(Self)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`PeerError`] if it failed.
    pub fn wait(mut self) -> Result<WrkResult, PeerError> {
        let status = loop {
            if let Some(status) = self.0.ended()? {
                break status;
            }
            std::thread::sleep(super::process::POLL);
        };
        let output = self.0.output();
        parse_wrk(&output)
            .filter(|_| status.success())
            .ok_or(PeerError::Ended {
                program: WRK.name,
                status,
                output,
            })
    }
}

/// `  1234 requests in 5.00s, …` and `  Non-2xx or 3xx responses: 12`.
fn parse_wrk(output: &str) -> Option<WrkResult> {
    let line = output.lines().find(|line| line.contains(" requests in "))?;
    let refused = output
        .lines()
        .find_map(|line| line.trim().strip_prefix("Non-2xx or 3xx responses: "));
    Some(WrkResult {
        requests: line.split_whitespace().next()?.parse().ok()?,
        refused: refused.map_or(Some(0), |n| n.trim().parse().ok())?,
    })
}

fn folder(program: Program) -> Result<TempDir, PeerError> {
    tempfile::tempdir().map_err(program.io("temporary folder"))
}

fn write(program: Program, folder: &Path, name: &str, bytes: &[u8]) -> Result<(), PeerError> {
    fs::write(folder.join(name), bytes).map_err(program.io("file"))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn what_wrk_prints_is_read() {
        let mut output = String::from("Running 2s test @ http://127.0.0.1:1/\n");
        writeln!(output, "  84306 requests in 2.00s, 12.1MB read").unwrap();
        let all = WrkResult {
            requests: 84_306,
            refused: 0,
        };
        assert_eq!(parse_wrk(&output), Some(all));
        writeln!(output, "  Non-2xx or 3xx responses: 84000").unwrap();
        let refused = 84_000;
        assert_eq!(parse_wrk(&output), Some(WrkResult { refused, ..all }));
        assert_eq!(parse_wrk("unable to connect"), None);
    }
}
