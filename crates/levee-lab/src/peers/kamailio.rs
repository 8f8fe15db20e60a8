//! Kamailio as the SIP server behind the defence, and as a stateful proxy to compare with.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use super::PeerError;
use super::process::{POLL, Process, Program, free_udp_addr, retry_taken_port};

const KAMAILIO: Program = Program {
    name: "kamailio",
    package: "kamailio",
};
const CONFIG: &str = include_str!("kamailio.cfg");
const CONFIG_FILE: &str = "kamailio.cfg";
/// Memory shared between its processes, in MB: some 10,000 calls with their dialogs.
const SHARED_MEMORY_MB: u32 = 64;
/// The longest answer to the OPTIONS that asks whether it is up: far more than it sends.
const ANSWER_BYTES_MAX: usize = 4096;

/// What the server keeps of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KamailioMode {
    /// Transactions only (`tm`).
    Stateful,
    /// Transactions and dialogs (`tm`, `dialog`).
    Dialog,
    /// Dialogs, and 503 with `Retry-After` for a call beyond so many.
    Capacity(u32),
    /// The plain rival of a selective defence: a capacity, and a BYE to both sides of each call that lasts too long.
    LengthCap {
        /// The capacity.
        calls: u32,
        /// The longest call, in whole seconds.
        seconds: u32,
    },
}

/// A server that record-routes every call and passes it to one callee.
#[derive(Debug, Clone, Copy)]
pub struct KamailioConfig {
    /// What it keeps of a call.
    pub mode: KamailioMode,
    /// The callee, which becomes the request URI.
    pub callee: SocketAddr,
    /// Where calls are sent: `None` to the callee itself, else an outbound proxy between the two.
    pub proxy: Option<SocketAddr>,
    /// When it ends at the latest.
    pub lifetime: Duration,
}

impl KamailioConfig {
    /// Starts the server and waits until it answers an OPTIONS.
    ///
    /// # Errors
    /// [`PeerError`] if Kamailio is not installed or does not start.
    pub fn start(&self) -> Result<Kamailio, PeerError> {
        retry_taken_port(|| self.start_once())
    }

    fn start_once(&self) -> Result<Kamailio, PeerError> {
        let folder = tempfile::tempdir().map_err(KAMAILIO.io("temporary folder"))?;
        let addr = free_udp_addr(KAMAILIO)?;
        fs::write(folder.path().join(CONFIG_FILE), self.text(addr))
            .map_err(KAMAILIO.io("configuration file"))?;
        let run = folder.path().display().to_string();
        let memory = SHARED_MEMORY_MB.to_string();
        // -DD: stay in the foreground, so that its process id is ours to stop. -E: log to standard error.
        let args = [
            "-f",
            CONFIG_FILE,
            "-DD",
            "-E",
            "-m",
            &memory,
            "-Y",
            &run,
            "-w",
            &run,
        ];
        let mut process = Process::start(KAMAILIO, folder, self.lifetime, args, &[])?;
        process.wait_until(addr, || answers_options(addr))?;
        Ok(Kamailio { process, addr })
    }

    fn text(&self, listen: SocketAddr) -> String {
        let (defines, children) = match self.mode {
            KamailioMode::Stateful => (String::new(), 2),
            KamailioMode::Dialog => ("#!define DIALOG".to_owned(), 2),
            // One worker: two would count and admit at the same moment, and so exceed the capacity.
            KamailioMode::Capacity(calls) => {
                (format!("#!define DIALOG\n#!define CAPACITY {calls}"), 1)
            }
            KamailioMode::LengthCap { calls, seconds } => (
                format!(
                    "#!define DIALOG\n#!define CAPACITY {calls}\n#!define LENGTH_CAP {seconds}"
                ),
                1,
            ),
        };
        let next_hop = self.proxy.unwrap_or(self.callee);
        // The comment names the blanks: only the lines below it are filled in.
        let body = CONFIG
            .lines()
            .filter(|line| !line.starts_with("# "))
            .collect::<Vec<_>>()
            .join("\n");
        body.replace("@DEFINES@", &defines)
            .replace("@LISTEN@", &listen.to_string())
            .replace("@CHILDREN@", &children.to_string())
            .replace("@CALLEE@", &self.callee.to_string())
            .replace("@NEXT_HOP@", &next_hop.to_string())
            + "\n"
    }
}

/// A running Kamailio; dropping it ends it.
#[derive(Debug)]
pub struct Kamailio {
    process: Process,
    addr: SocketAddr,
}

impl Kamailio {
    /// Where it listens (UDP).
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`PeerError`] if the system does not say.
    pub fn is_running(&mut self) -> Result<bool, PeerError> {
        Ok(self.process.ended()?.is_none())
    }

    /// Ends it.
    ///
    /// # Errors
    /// [`PeerError`] if it cannot be ended.
    pub fn stop(mut self) -> Result<(), PeerError> {
        self.process.stop().map_err(KAMAILIO.io("stop"))
    }
}

/// Sends one OPTIONS and waits a moment for a 200.
fn answers_options(server: SocketAddr) -> io::Result<bool> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(POLL))?;
    let me = socket.local_addr()?;
    let request = format!(
        "OPTIONS sip:{server} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {me};branch=z9hG4bKup{port};rport\r\n\
         From: <sip:up@{me}>;tag=up\r\n\
         To: <sip:{server}>\r\n\
         Call-ID: up-{port}@{me}\r\n\
         CSeq: 1 OPTIONS\r\n\
         Max-Forwards: 70\r\n\
         Content-Length: 0\r\n\r\n",
        port = me.port(),
    );
    if let Err(error) = socket.send_to(request.as_bytes(), server) {
        return not_yet(error);
    }
    let mut answer = [0; ANSWER_BYTES_MAX];
    match socket.recv_from(&mut answer) {
        Ok((_, from)) => Ok(from == server && answer.starts_with(b"SIP/2.0 200")),
        Err(error) => not_yet(error),
    }
}

/// Nobody listens yet, or nobody has answered yet: not an error.
fn not_yet(error: io::Error) -> io::Result<bool> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::ConnectionRefused => {
            Ok(false)
        }
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(mode: KamailioMode, proxy: Option<&str>) -> String {
        KamailioConfig {
            mode,
            callee: "127.0.0.1:5080".parse().unwrap(),
            proxy: proxy.map(|addr| addr.parse().unwrap()),
            lifetime: Duration::from_secs(1),
        }
        .text("127.0.0.1:5060".parse().unwrap())
    }

    #[test]
    fn a_configuration_has_no_blank_left() {
        for mode in [
            KamailioMode::Stateful,
            KamailioMode::Dialog,
            KamailioMode::Capacity(24),
            KamailioMode::LengthCap {
                calls: 24,
                seconds: 6,
            },
        ] {
            let text = text(mode, None);
            for blank in [
                "@DEFINES@",
                "@LISTEN@",
                "@CHILDREN@",
                "@CALLEE@",
                "@NEXT_HOP@",
            ] {
                assert!(!text.contains(blank), "{blank} in\n{text}");
            }
            assert!(text.starts_with("#!KAMAILIO\n"));
        }
    }

    #[test]
    fn calls_go_to_the_callee_or_through_the_proxy() {
        let direct = text(KamailioMode::Stateful, None);
        assert!(direct.contains("$ru = \"sip:callee@127.0.0.1:5080\";"));
        assert!(direct.contains("$du = \"sip:127.0.0.1:5080\";"));
        let through = text(KamailioMode::Stateful, Some("127.0.0.1:5070"));
        assert!(through.contains("$ru = \"sip:callee@127.0.0.1:5080\";"));
        assert!(through.contains("$du = \"sip:127.0.0.1:5070\";"));
    }

    #[test]
    fn only_a_capacity_limits() {
        assert!(!text(KamailioMode::Stateful, None).contains("#!define"));
        assert!(!text(KamailioMode::Dialog, None).contains("#!define CAPACITY"));
        assert!(text(KamailioMode::Capacity(24), None).contains("#!define CAPACITY 24\n"));
    }
}
