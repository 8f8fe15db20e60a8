//! One outside program with a bounded life, in a folder of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;
use thiserror::Error;

/// How long a peer may take to open its port. Kamailio needs about 0.3 s on an idle core; a loaded machine needs more.
pub(super) const START_MAX: Duration = Duration::from_secs(20);
/// How long a peer may take to end after SIGTERM before it is killed. Kamailio needs about a second.
const STOP_MAX: Duration = Duration::from_secs(8);
/// How often a condition is looked at again.
pub(super) const POLL: Duration = Duration::from_millis(10);
/// How often a start is tried again when another process took a port between its choice and its use.
const START_TRIES: u32 = 5;
/// How many ports are looked at for one with a free neighbour.
const MEDIA_PORT_TRIES: u32 = 100;
/// The end of a failed peer's output that an error shows, in bytes.
const OUTPUT_SHOWN_MAX: usize = 2_000;

/// Why a peer could not be started or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The program is not on this machine.
    #[error("{program} is not installed: install it with `apt-get install {package}`")]
    Missing {
        /// The program that was looked for.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The program ended before it was ready.
    #[error("{program} ended at its start ({status}); its last output:\n{output}")]
    Ended {
        /// The program.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it printed.
        output: String,
    },
    /// Another process took a port between its choice and its use, again and again.
    #[error(
        "{program} could not bind a port that was free a moment before; its last output:\n{output}"
    )]
    PortTaken {
        /// The program.
        program: &'static str,
        /// The end of what it printed.
        output: String,
    },
    /// The program runs but did not open its port in time.
    #[error("{program} did not open {addr} within {START_MAX:?}; its last output:\n{output}")]
    NotReady {
        /// The program.
        program: &'static str,
        /// Where it should have listened.
        addr: SocketAddr,
        /// The end of what it printed.
        output: String,
    },
    /// A file or a socket of the peer could not be used.
    #[error("{what} of {program}")]
    Io {
        /// The program.
        program: &'static str,
        /// What was being done.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A setting that the program cannot take.
    #[error("{program} cannot run with {setting}: expected {expected}")]
    Setting {
        /// The program.
        program: &'static str,
        /// The setting and its value.
        setting: String,
        /// What it takes.
        expected: &'static str,
    },
    /// The event log of a SIPp process does not have its form.
    #[error(transparent)]
    Events(#[from] super::EventError),
    /// The statistics of a SIPp process do not have their form.
    #[error(transparent)]
    Stats(#[from] super::StatError),
}

/// An outside program: its name, and the Debian package that it comes with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) package: &'static str,
}

impl Program {
    /// The path of the program, from `PATH` or from where Debian keeps servers.
    pub(super) fn find(self) -> Result<PathBuf, PeerError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
            .map(|folder| folder.join(self.name))
            .find(|file| file.is_file())
            .ok_or(PeerError::Missing {
                program: self.name,
                package: self.package,
            })
    }

    /// An error for a setting that the program cannot take.
    pub(super) fn setting(self, setting: String, expected: &'static str) -> PeerError {
        PeerError::Setting {
            program: self.name,
            setting,
            expected,
        }
    }

    /// Adds the context of this program to a system error.
    pub(super) fn io(self, what: &'static str) -> impl FnOnce(io::Error) -> PeerError {
        move |source| PeerError::Io {
            program: self.name,
            what,
            source,
        }
    }
}

/// A running program, its folder, and the promise that it ends.
#[derive(Debug)]
pub(super) struct Process {
    program: Program,
    child: Child,
    folder: TempDir,
}

impl Process {
    /// Starts `program` in `folder`; it is told to end after `lifetime` even if this process is gone by then.
    pub(super) fn start<A: AsRef<OsStr>>(
        program: Program,
        folder: TempDir,
        lifetime: Duration,
        args: impl IntoIterator<Item = A>,
        env: &[(&str, String)],
    ) -> Result<Self, PeerError> {
        let path = program.find()?;
        let output = File::create(folder.path().join(OUTPUT)).map_err(program.io("output file"))?;
        let errors = output.try_clone().map_err(program.io("output file"))?;
        let child = Command::new("timeout")
            .arg("--signal=TERM")
            .arg(format!("--kill-after={}s", STOP_MAX.as_secs()))
            .arg(format!("{:.3}s", lifetime.as_secs_f64()))
            .arg(path)
            .args(args)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            // A group of its own: the last resort reaches the program's children too, and nothing else.
            .process_group(0)
            .spawn()
            .map_err(program.io("start"))?;
        Ok(Self {
            program,
            child,
            folder,
        })
    }

    /// The folder that the program runs in.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How the program ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, PeerError> {
        self.child.try_wait().map_err(self.program.io("status"))
    }

    /// Waits until `ready` says so, the program ends, or [`START_MAX`] is over.
    pub(super) fn wait_until(
        &mut self,
        addr: SocketAddr,
        mut ready: impl FnMut() -> io::Result<bool>,
    ) -> Result<(), PeerError> {
        let deadline = Instant::now() + START_MAX;
        loop {
            if let Some(status) = self.ended()? {
                return Err(self.early_end(status));
            }
            if ready().map_err(self.program.io("readiness check"))? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(PeerError::NotReady {
                    program: self.program.name,
                    addr,
                    output: end_of(&self.output()),
                });
            }
            thread::sleep(POLL);
        }
    }

    /// Asks the program to end, waits, and kills what is left of its group after [`STOP_MAX`].
    pub(super) fn stop(&mut self) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, Signal::TERM)?;
        let deadline = Instant::now() + STOP_MAX;
        while self.child.try_wait()?.is_none() {
            if Instant::now() >= deadline {
                rustix::process::kill_process_group(pid, Signal::KILL)?;
                self.child.wait()?;
                break;
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    fn early_end(&self, status: ExitStatus) -> PeerError {
        let program = self.program.name;
        let all = self.output();
        let output = end_of(&all);
        if port_taken(&all) {
            PeerError::PortTaken { program, output }
        } else {
            PeerError::Ended {
                program,
                status,
                output,
            }
        }
    }

    /// What the program printed.
    pub(super) fn output(&self) -> String {
        let bytes = fs::read(self.folder.path().join(OUTPUT)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!(
                "{} (process {}) could not be stopped: {error}; its lifetime will end it",
                self.program.name,
                self.child.id()
            );
        }
    }
}

/// The file in the program's folder that takes what it prints.
const OUTPUT: &str = "output.txt";

/// Runs `start` again while it fails because a port was taken in between.
///
/// A port can only be handed to another program by number, so another process may bind it first.
pub(super) fn retry_taken_port<T>(
    mut start: impl FnMut() -> Result<T, PeerError>,
) -> Result<T, PeerError> {
    let mut tries = 1;
    loop {
        match start() {
            Err(PeerError::PortTaken { .. }) if tries < START_TRIES => tries += 1,
            result => return result,
        }
    }
}

/// The last of a long output.
fn end_of(output: &str) -> String {
    let start = output.len().saturating_sub(OUTPUT_SHOWN_MAX);
    let start = (start..output.len()).find(|at| output.is_char_boundary(*at));
    output[start.unwrap_or(output.len())..].to_owned()
}

/// Whether a program says that it could not bind.
fn port_taken(output: &str) -> bool {
    let output = output.to_ascii_lowercase();
    output.contains("address already in use") || output.contains("unable to bind")
}

/// A UDP port of 127.0.0.1 that nobody has at this moment, chosen by the system.
pub(super) fn free_udp_addr(program: Program) -> Result<SocketAddr, PeerError> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .and_then(|socket| socket.local_addr())
        .map_err(program.io("choice of a port"))
}

/// A port for media of which the second next is free too: SIPp binds both, for audio and for video.
pub(super) fn free_media_port(program: Program) -> Result<u16, PeerError> {
    for _ in 0..MEDIA_PORT_TRIES {
        let audio =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(program.io("choice of a port"))?;
        let port = audio
            .local_addr()
            .map_err(program.io("choice of a port"))?
            .port();
        let Some(second) = port.checked_add(2) else {
            continue;
        };
        if UdpSocket::bind((Ipv4Addr::LOCALHOST, second)).is_ok() {
            return Ok(port);
        }
    }
    Err(PeerError::PortTaken {
        program: program.name,
        output: String::new(),
    })
}

/// Whether some process has bound this UDP address.
pub(super) fn is_udp_bound(addr: SocketAddr) -> io::Result<bool> {
    let SocketAddr::V4(v4) = addr else {
        return Ok(false);
    };
    // The kernel prints the address as one number in the machine's byte order.
    let wanted = format!(
        "{:08X}:{:04X}",
        u32::from_ne_bytes(v4.ip().octets()),
        v4.port()
    );
    let table = fs::read_to_string("/proc/net/udp")?;
    Ok(table
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some(wanted.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLEEP: Program = Program {
        name: "sleep",
        package: "coreutils",
    };

    fn sleeper(lifetime: Duration, seconds: &str) -> Process {
        let folder = tempfile::tempdir().unwrap();
        Process::start(SLEEP, folder, lifetime, [seconds], &[]).unwrap()
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let missing = Program {
            name: "no-such-sip-server",
            package: "sip-things",
        };
        let error = missing.find().unwrap_err().to_string();
        assert_eq!(
            error,
            "no-such-sip-server is not installed: install it with `apt-get install sip-things`"
        );
    }

    #[test]
    fn stop_ends_the_program() {
        let mut process = sleeper(Duration::from_secs(60), "60");
        assert!(process.ended().unwrap().is_none());
        process.stop().unwrap();
        assert!(process.ended().unwrap().is_some());
    }

    #[test]
    fn the_lifetime_ends_a_program_that_nobody_stops() {
        let mut process = sleeper(Duration::from_millis(50), "60");
        let status = process.child.wait().unwrap();
        // `timeout` says with 124 that it had to end the program.
        assert_eq!(status.code(), Some(124));
    }

    #[test]
    fn an_early_end_is_an_error_with_the_output() {
        let mut process = sleeper(Duration::from_secs(60), "not-a-number");
        let addr = free_udp_addr(SLEEP).unwrap();
        let error = process.wait_until(addr, || Ok(false)).unwrap_err();
        let PeerError::Ended { output, .. } = error else {
            panic!("expected an early end, got {error}");
        };
        assert!(output.contains("not-a-number"), "{output}");
    }

    #[test]
    fn a_bound_port_is_seen_and_a_free_one_is_not() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = socket.local_addr().unwrap();
        assert!(is_udp_bound(addr).unwrap());
        // The same port of another loopback address, which nothing here uses.
        let other = SocketAddr::from((Ipv4Addr::new(127, 9, 8, 7), addr.port()));
        assert!(!is_udp_bound(other).unwrap());
    }

    #[test]
    fn only_a_taken_port_is_tried_again() {
        let mut tries = 0;
        let result: Result<(), _> = retry_taken_port(|| {
            tries += 1;
            Err(PeerError::PortTaken {
                program: "sipp",
                output: String::new(),
            })
        });
        assert!(result.is_err());
        assert_eq!(tries, START_TRIES);

        tries = 0;
        let result: Result<(), _> = retry_taken_port(|| {
            tries += 1;
            Err(PeerError::Ended {
                program: "sipp",
                status: ExitStatus::default(),
                output: String::new(),
            })
        });
        assert!(result.is_err());
        assert_eq!(tries, 1);
    }

    #[test]
    fn a_taken_port_is_known_by_what_sipp_and_kamailio_say() {
        assert!(port_taken(
            "Unable to bind audio RTP socket (IP=127.0.0.1, port=18400), errno = 98 (Address already in use)"
        ));
        assert!(port_taken(
            "ERROR: <core> [core/udp_server.c:602]: udp_init(): bind(6, 0x7f, 16) on 127.0.0.1: Address already in use"
        ));
        assert!(!port_taken("syntax error in the scenario"));
    }

    #[test]
    fn a_long_output_is_shown_by_its_end() {
        let long = format!("{}é{}", "a".repeat(10), "b".repeat(OUTPUT_SHOWN_MAX - 1));
        assert_eq!(end_of(&long), "b".repeat(OUTPUT_SHOWN_MAX - 1));
        assert_eq!(end_of("short"), "short");
    }
}
