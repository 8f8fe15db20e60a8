//! What a SIP front runs with: checked settings, no file, no text.
//!
//! A person writes TOML; [`crate::config`] reads it, says what is wrong and builds these types. A program (the lab, a
//! test) builds them directly with [`SipSettings::new`]. Each default is a constant or a field of an `impl Default`,
//! with its reason.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use levee_policy::selective;
use serde::Serialize;

use crate::recorder::RecordSettings;

/// How SIP messages travel (RFC 3261 section 18). TLS and WebSocket will be further variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Transport {
    /// One message a datagram.
    Udp,
    /// A stream of messages, each with its Content-Length.
    Tcp,
}

impl Transport {
    /// The name in a configuration file and in a URI's `transport` parameter: `udp`, `tcp`.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Transport {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "udp" => Ok(Transport::Udp),
            "tcp" => Ok(Transport::Tcp),
            _ => Err(()),
        }
    }
}

/// A transport and an address: where to listen, or where the server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listen {
    /// How messages travel.
    pub transport: Transport,
    /// Address and port; port 0 lets the system choose when one listens.
    pub addr: SocketAddr,
}

impl Listen {
    /// A UDP address.
    pub fn udp(addr: SocketAddr) -> Self {
        Listen {
            transport: Transport::Udp,
            addr,
        }
    }

    /// A TCP address.
    pub fn tcp(addr: SocketAddr) -> Self {
        Listen {
            transport: Transport::Tcp,
            addr,
        }
    }
}

/// As in a configuration file: `udp:127.0.0.1:5060`, `tcp:[::1]:5060`.
impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.transport, self.addr)
    }
}

/// What a SIP front runs with.
#[derive(Clone, Debug)]
pub struct SipSettings {
    /// The front's name, for logs and for the `front` label of metrics.
    pub name: String,
    /// Where user agents send.
    pub listen: Vec<Listen>,
    /// Listeners that only the server can reach: what arrives here comes from the server. Empty: the server is known by
    /// its address and port, and sends to `listen` as everybody does. What comes from the server is believed and sent
    /// wherever it says, so where somebody outside can forge a UDP source address (the edge lets the server's address in)
    /// or the server makes TCP connections of its own (from other ports), this must not be empty.
    pub inside: Vec<Listen>,
    /// Further `host` or `host:port` names that mean this proxy in a Route or a Request-URI: public names, the address
    /// in front of a NAT.
    pub advertise: Vec<String>,
    /// The SIP server that is protected.
    pub server: Listen,
    /// Calls that the server can hold at once: `k`.
    pub capacity: u32,
    /// The defence, from the `[sip.defense]` table.
    pub defense: selective::Config,
    /// Forward everything and only count.
    pub bypass: bool,
    /// Decide and log, but refuse and drop nothing.
    pub dry_run: bool,
    /// Which calls are of which class of the defence; the first rule that matches names the class.
    pub classes: Vec<ClassRule>,
    /// Sizes of every table and buffer.
    pub limits: SipLimits,
    /// The timers of RFC 3261.
    pub timers: Timers,
    /// When a call counts as dead.
    pub session: SessionSettings,
    /// Seed of the defence's random draws; 0 takes one from the operating system.
    pub seed: u64,
    /// Record what the defence saw and decided.
    pub record: Option<RecordSettings>,
}

impl SipSettings {
    /// Settings with every default: no inside listener, no class, nothing recorded.
    pub fn new(
        name: impl Into<String>,
        listen: Vec<Listen>,
        server: Listen,
        capacity: u32,
        defense: selective::Config,
    ) -> Self {
        SipSettings {
            name: name.into(),
            listen,
            inside: Vec::new(),
            advertise: Vec::new(),
            server,
            capacity,
            defense,
            bypass: false,
            dry_run: false,
            classes: Vec::new(),
            limits: SipLimits::default(),
            timers: Timers::default(),
            session: SessionSettings::default(),
            seed: 0,
            record: None,
        }
    }
}

/// What one front may hold. A message, request or connection beyond a limit is refused or dropped, and counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SipLimits {
    /// Longest message, in bytes, start line to end of body.
    pub message_bytes_max: usize,
    /// Most header fields in a message.
    pub headers_max: usize,
    /// Most transactions at once; a request beyond it gets 503. The last eighth is for requests inside calls.
    pub transactions_max: usize,
    /// Most bytes of messages that transactions keep, to send them again; the last eighth as above.
    pub transaction_bytes_max: usize,
    /// Most calls known at once, the ones that are being torn down included. At least the capacity. A call beyond it gets
    /// 503; in bypass and in a dry run it passes without being tracked.
    pub calls_max: usize,
    /// Most accepted TCP connections; as many more may be made to others than the server.
    pub connections_max: usize,
    /// Most accepted TCP connections from one source: an IPv4 address, or the /64 of an IPv6 one.
    pub connections_per_source_max: usize,
    /// Requests a second that one source may send, with a burst of as many; 0 means no limit.
    pub requests_per_source_per_second: u32,
    /// Most source addresses whose rates and connections are remembered.
    pub sources_tracked_max: usize,
    /// Most host names that are being resolved at once.
    pub dns_pending_max: usize,
    /// A connection that carried nothing for this long is closed.
    pub idle_connection: Duration,
}

impl Default for SipLimits {
    fn default() -> Self {
        SipLimits {
            // RFC 3261 section 18.1.1: an element must be able to handle a message as long as a datagram can be.
            message_bytes_max: 65_535,
            // A guess: real INVITEs carry some 20 to 40; the longest of RFC 4475 stays below 60.
            headers_max: 256,
            // At 2,000 calls a second, INVITE and BYE each stay about 64 * T1 = 32 s: 128,000. Twice that.
            transactions_max: 262_144,
            // 4 KiB each: real INVITEs have 1 to 2. Without it, the longest messages in all of them would be 17 GB.
            transaction_bytes_max: 1 << 30,
            // In bypass more calls than the capacity are known. A guess at what one machine carries.
            calls_max: 262_144,
            // Below the usual limit of 65,536 descriptors of a service, with room for several fronts.
            connections_max: 8_192,
            // A guess: a NAT with an office of phones behind it.
            connections_per_source_max: 64,
            // Off: behind a trunk or a NAT one address is many callers, and only the operator knows which are.
            requests_per_source_per_second: 0,
            // About 100 bytes each.
            sources_tracked_max: 65_536,
            // A name is resolved on a blocking thread of the runtime; a flood of names must not take them all.
            dns_pending_max: 64,
            // RFC 5626 section 4.4.1: a client on a stream sends a keep-alive at least every 120 s (recommended).
            idle_connection: Duration::from_secs(180),
        }
    }
}

/// Timers of RFC 3261 (table 4). The others follow from these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Estimate of the round trip; 64 times this is the life of most transactions.
    pub t1: Duration,
    /// Longest interval between retransmissions.
    pub t2: Duration,
    /// Longest time that a message stays in the network.
    pub t4: Duration,
    /// How long an INVITE may ring after its last provisional response (section 16.6, item 11).
    pub timer_c: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            t1: Duration::from_millis(500),
            t2: Duration::from_secs(4),
            t4: Duration::from_secs(5),
            // "Larger than 3 minutes" (section 16.6, item 11).
            timer_c: Duration::from_secs(181),
        }
    }
}

/// When a call counts as dead although nobody said BYE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// Session-Expires that the proxy asks for (RFC 4028 section 8.1). `None`: it asks for none, and still believes one
    /// that the two ends agree on.
    pub expires: Option<Duration>,
    /// Smallest Session-Expires that the proxy lets through without 422.
    pub min_se: Duration,
    /// A call that is older is ended. `None`: no such end.
    pub call_max: Option<Duration>,
}

impl Default for SessionSettings {
    fn default() -> Self {
        SessionSettings {
            // RFC 4028 section 4 recommends 1,800 s.
            expires: Some(Duration::from_secs(1_800)),
            // RFC 4028 section 4: the floor of Min-SE.
            min_se: Duration::from_secs(90),
            // Two ends without session timers that both lost power never say BYE; no person talks for a day.
            call_max: Some(Duration::from_secs(24 * 3_600)),
        }
    }
}

/// Which calls are of a class of the defence. A call is of the class when any of `to_user`, `to_uri_prefix`, `source`
/// or `priority` names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRule {
    /// Name of a `[[defense.class]]`.
    pub class: String,
    /// User parts of the Request-URI: `112`, `911`.
    pub to_user: Vec<String>,
    /// Beginnings of the Request-URI: `urn:service:sos`.
    pub to_uri_prefix: Vec<String>,
    /// Source addresses: trusted trunks. With `priority` they say whose Resource-Priority is believed, and only the two
    /// together name a call.
    pub source: Vec<IpNet>,
    /// Resource-Priority values (RFC 4412), honoured only from `source`.
    pub priority: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_prints_as_it_is_written() {
        let tcp = Listen::tcp("[::1]:5060".parse().unwrap());
        assert_eq!(tcp.to_string(), "tcp:[::1]:5060");
        let udp = Listen::udp("127.0.0.1:0".parse().unwrap());
        assert_eq!(udp.to_string(), "udp:127.0.0.1:0");
        assert_eq!("tcp".parse(), Ok(Transport::Tcp));
        assert_eq!("UDP".parse::<Transport>(), Err(()));
    }

    #[test]
    fn the_default_timers_keep_the_floors_of_the_rfcs() {
        assert!(Timers::default().timer_c > Duration::from_secs(180));
        assert!(SessionSettings::default().min_se >= Duration::from_secs(90));
        assert!(SessionSettings::default().expires > Some(SessionSettings::default().min_se));
    }
}
