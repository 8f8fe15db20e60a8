//! SIPp as callers, honest or attackers, and as callees.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use super::PeerError;
use super::events::CallLog;
use super::process::{
    Process, Program, free_media_port, free_udp_addr, is_udp_bound, retry_taken_port,
};
use super::stats::{StatRow, parse_stats};

const SIPP: Program = Program {
    name: "sipp",
    package: "sip-tester",
};
const CALLER: &str = include_str!("caller.xml");
const CALLEE: &str = include_str!("callee.xml");
const SCENARIO_FILE: &str = "scenario.xml";
const LOG_FILE: &str = "calls.log";
const STATS_FILE: &str = "stats.csv";

/// How long a caller talks before it hangs up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Talk {
    /// Always as long. An attacker stays for [`Talk::ATTACK`].
    Fixed(Duration),
    /// Exponential with this mean.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// Lognormal with this mean, and with `sigma` as the standard deviation of the logarithm.
    Lognormal {
        /// The mean of the durations themselves.
        mean: Duration,
        /// The standard deviation of their logarithm.
        sigma: f64,
    },
}

impl Talk {
    /// An attacker of the coordinated call attack: it stays for longer than any run.
    pub const ATTACK: Self = Self::Fixed(Duration::from_secs(3600));

    /// The pause of a scenario.
    fn pause(self) -> Result<String, PeerError> {
        let ms = |mean: Duration| {
            let ms = mean.as_secs_f64() * 1e3;
            if ms >= 1.0 {
                Ok(ms)
            } else {
                Err(SIPP.setting(format!("a mean of {mean:?}"), "a millisecond or more"))
            }
        };
        Ok(match self {
            Self::Fixed(time) => format!("<pause milliseconds=\"{}\"/>", time.as_millis()),
            Self::Exponential { mean } => {
                format!(
                    "<pause distribution=\"exponential\" mean=\"{:.3}\"/>",
                    ms(mean)?
                )
            }
            Self::Lognormal { mean, sigma } => {
                if !(sigma > 0.0 && sigma.is_finite()) {
                    return Err(SIPP.setting(format!("sigma = {sigma}"), "more than 0, and finite"));
                }
                // SIPp takes the mean and deviation of the logarithm; a lognormal's own mean is exp(mu + sigma^2 / 2).
                let mu = ms(mean)?.ln() - sigma * sigma / 2.0;
                format!("<pause distribution=\"lognormal\" mean=\"{mu:.6}\" stdev=\"{sigma:.6}\"/>")
            }
        })
    }
}

/// Callers: one SIPp process that starts calls at an even pace, which [`Caller::spread`] makes uneven.
///
/// Its user agents answer a BYE from the other side at any time with 200, a second one with 481, and say so in the log.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The server that the request URI names.
    pub server: SocketAddr,
    /// Where requests are sent: the server itself, or an outbound proxy in front of it.
    pub proxy: SocketAddr,
    /// The user of `From`, before a dash and the number of the call: letters, digits and dots.
    pub user: String,
    /// New calls per second.
    pub calls_per_second: f64,
    /// Each call waits before its INVITE, for an exponential time with this mean.
    ///
    /// SIPp spaces calls evenly, and two SIPp processes with the same rate keep their phase for the whole run: the one that
    /// always comes just after the other finds fewer free places. Spread over many intervals, arrivals are nearly Poisson.
    /// (Not uniform: SIPp draws that from a generator that it seeds with the second of its start.)
    pub spread: Duration,
    /// How many calls are started before the process only waits for them to end.
    pub calls_max: u32,
    /// How long they talk.
    pub talk: Talk,
    /// Seed of SIPp's random numbers (its pauses).
    pub seed: u32,
    /// When the process ends at the latest.
    pub lifetime: Duration,
}

impl Caller {
    /// Starts the process; it calls at once.
    ///
    /// # Errors
    /// [`PeerError`] if SIPp is not installed, refuses a setting, or does not start.
    pub fn start(&self) -> Result<Sipp, PeerError> {
        let scenario = self.scenario()?;
        let per_1000_s = self.calls_per_second * 1e3;
        if !(1.0..=1e9).contains(&per_1000_s.round()) {
            return Err(SIPP.setting(
                format!("{} calls per second", self.calls_per_second),
                "0.001 to 1,000,000",
            ));
        }
        let args = [
            self.proxy.to_string(),
            "-r".into(),
            format!("{per_1000_s:.0}"),
            "-rp".into(),
            "1000000".into(),
            "-m".into(),
            self.calls_max.to_string(),
            // By default SIPp holds calls back when three seconds' worth are open, which would spare the server.
            "-l".into(),
            self.calls_max.to_string(),
        ];
        let env = [("GSL_RNG_SEED", self.seed.to_string())];
        retry_taken_port(|| Sipp::start(&scenario, &args, &env, self.lifetime))
    }

    fn scenario(&self) -> Result<String, PeerError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
        if self.user.is_empty() || !self.user.chars().all(plain) {
            return Err(SIPP.setting(format!("user `{}`", self.user), "letters, digits and dots"));
        }
        let spread = match self.spread.as_millis() {
            0 => String::new(),
            ms => format!("<pause distribution=\"exponential\" mean=\"{ms}\"/>"),
        };
        Ok(CALLER
            .replace("@USER@", &self.user)
            .replace("@DOMAIN@", &self.server.to_string())
            .replace("@TALK@", &self.talk.pause()?)
            .replace("@SPREAD@", &spread))
    }
}

/// Callees: one SIPp process that rings, answers every call, and never hangs up.
#[derive(Debug, Clone, Copy)]
pub struct Callee {
    /// How long it rings before it answers; a CANCEL meanwhile is obeyed.
    pub ring: Duration,
    /// When the process ends at the latest.
    pub lifetime: Duration,
}

impl Callee {
    /// Starts the process and waits until it listens.
    ///
    /// # Errors
    /// [`PeerError`] if SIPp is not installed or does not start.
    pub fn start(&self) -> Result<Sipp, PeerError> {
        // SIPp takes a timeout of 0 for none.
        let ring_ms = self.ring.as_millis().max(1);
        let scenario = CALLEE.replace("@RING_MS@", &ring_ms.to_string());
        retry_taken_port(|| Sipp::start(&scenario, &[], &[], self.lifetime))
    }
}

/// A running SIPp process; dropping it ends it.
#[derive(Debug)]
pub struct Sipp {
    process: Process,
    addr: SocketAddr,
}

impl Sipp {
    fn start(
        scenario: &str,
        args: &[String],
        env: &[(&str, String)],
        lifetime: Duration,
    ) -> Result<Self, PeerError> {
        let folder = tempfile::tempdir().map_err(SIPP.io("temporary folder"))?;
        fs::write(folder.path().join(SCENARIO_FILE), scenario).map_err(SIPP.io("scenario file"))?;
        let addr = free_udp_addr(SIPP)?;
        // SIPp binds ports for media although none flows, and by default always the same ones.
        let media_port = free_media_port(SIPP)?.to_string();
        let port = addr.port().to_string();
        #[rustfmt::skip]
        let common = [
            "-sf", SCENARIO_FILE, "-i", "127.0.0.1", "-p", &port, "-mp", &media_port, "-nostdin",
            "-trace_logs", "-log_file", LOG_FILE, "-trace_stat", "-stf", STATS_FILE, "-fd", "1",
            // An aborted call sends nothing: a BYE that the scenario did not write would be counted as its own.
            "-default_behaviors", "all,-bye",
        ];
        let args = args.iter().map(String::as_str).chain(common);
        let mut process = Process::start(SIPP, folder, lifetime, args, env)?;
        process.wait_until(addr, || is_udp_bound(addr))?;
        Ok(Self { process, addr })
    }

    /// Where it sends from and listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Whether the process still runs. Callers end by themselves when the last of their calls has.
    ///
    /// # Errors
    /// [`PeerError`] if the system does not say.
    pub fn is_running(&mut self) -> Result<bool, PeerError> {
        Ok(self.process.ended()?.is_none())
    }

    /// What became of each call so far.
    ///
    /// # Errors
    /// [`PeerError`] if the log cannot be read.
    pub fn log(&self) -> Result<CallLog, PeerError> {
        // SIPp makes the file with the first line.
        let text = self.read(LOG_FILE)?.unwrap_or_default();
        Ok(CallLog::parse(&text)?)
    }

    /// The statistics so far: a row each second.
    ///
    /// # Errors
    /// [`PeerError`] if the file cannot be read.
    pub fn stats(&self) -> Result<Vec<StatRow>, PeerError> {
        let text = self.read(STATS_FILE)?.unwrap_or_default();
        Ok(parse_stats(&text)?)
    }

    /// Ends the process and reads its log, whole.
    ///
    /// # Errors
    /// [`PeerError`] if it cannot be ended or its log cannot be read.
    pub fn stop(mut self) -> Result<CallLog, PeerError> {
        self.process.stop().map_err(SIPP.io("stop"))?;
        self.log()
    }

    fn read(&self, file: &str) -> Result<Option<String>, PeerError> {
        match fs::read(self.process.folder().join(file)) {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SIPP.io("results")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(user: &str, talk: Talk) -> Caller {
        Caller {
            server: "127.0.0.1:5060".parse().unwrap(),
            proxy: "127.0.0.1:5070".parse().unwrap(),
            user: user.to_owned(),
            calls_per_second: 2.55,
            spread: Duration::from_secs(4),
            calls_max: 10,
            talk,
            seed: 1,
            lifetime: Duration::from_secs(1),
        }
    }

    #[test]
    fn pauses_are_in_the_units_of_sipp() {
        let mean = Duration::from_secs(3);
        for (talk, pause) in [
            (Talk::ATTACK, r#"<pause milliseconds="3600000"/>"#),
            (
                Talk::Exponential { mean },
                r#"<pause distribution="exponential" mean="3000.000"/>"#,
            ),
            // ln(3000) - 1/2
            (
                Talk::Lognormal { mean, sigma: 1.0 },
                r#"<pause distribution="lognormal" mean="7.506368" stdev="1.000000"/>"#,
            ),
        ] {
            assert_eq!(talk.pause().unwrap(), pause);
        }
    }

    #[test]
    fn a_scenario_has_no_blank_left() {
        let scenario = caller("u1", Talk::ATTACK).scenario().unwrap();
        for blank in ["@USER@", "@DOMAIN@", "@TALK@", "@SPREAD@"] {
            // The opening comment names them; the text below it must not.
            let (_, body) = scenario.split_once("<scenario").unwrap();
            assert!(!body.contains(blank), "{blank}");
        }
        assert!(scenario.contains("INVITE sip:callee@127.0.0.1:5060 SIP/2.0"));
        assert!(scenario.contains("From: <sip:u1-[call_number]@"));
    }

    #[test]
    fn what_sipp_cannot_take_is_refused() {
        let zero = Talk::Exponential {
            mean: Duration::ZERO,
        };
        let flat = Talk::Lognormal {
            mean: Duration::from_secs(1),
            sigma: 0.0,
        };
        for (user, talk, expected) in [
            ("u 1", Talk::ATTACK, "letters, digits and dots"),
            ("", Talk::ATTACK, "letters, digits and dots"),
            ("u1", zero, "a millisecond or more"),
            ("u1", flat, "more than 0, and finite"),
        ] {
            let error = caller(user, talk).scenario().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
