//! A row of a table, whatever it was written in.

use levee_policy::reroute::SiteId;

use super::error::{Problem, shown};
use super::sink::Sink;
use crate::map::{Block, Rtt};

/// What a row says.
#[derive(Default)]
pub(super) struct Record<'a> {
    /// The block or an address in it.
    pub(super) key: &'a [u8],
    /// Where it goes. `None` if there is no such column.
    pub(super) site: Option<&'a [u8]>,
    /// Who sent the probe. `None` if there is no such column.
    pub(super) sender: Option<&'a [u8]>,
    pub(super) rtt_ms: Option<f64>,
    /// When the probe was sent and when the reply came, in the units of the form.
    pub(super) times: Option<(u64, u64)>,
    pub(super) load: Option<f64>,
    /// All sites that saw the block.
    pub(super) seen: Option<&'a [u8]>,
    /// Which announcement the probe was for.
    pub(super) origin: Option<u32>,
    /// The reply is not from who was asked.
    pub(super) off_address: bool,
}

/// Takes a row in.
pub(super) fn take(record: &Record<'_>, sink: &mut Sink<'_>) -> Result<(), Problem> {
    let Some(block) = block(record.key) else {
        let expected = "an IPv4 or IPv6 address, or a prefix of /24 or longer (IPv6: /48)";
        return Err(Sink::field("the block", record.key, expected));
    };
    if !sink.origin(record.origin)? {
        sink.report.other += 1;
        return Ok(());
    }
    if record.off_address {
        *sink.report.off_address.get_or_insert(0) += 1;
        return Ok(());
    }
    let (rtt, late) = time(record, sink);
    if late {
        *sink.report.late.get_or_insert(0) += 1;
        return Ok(());
    }
    if let Some(load) = record.load
        && !sink.load(block, load)
    {
        let found = load.to_string();
        return Err(Sink::field(
            "the load",
            found.as_bytes(),
            "a number of 0 or more",
        ));
    }
    let site = match record.site {
        _ if !sink.wants_sites() => return Ok(()),
        Some(site) if site.is_empty() => {
            return Err(Sink::field("the site", site, "the name of a site"));
        }
        Some(site) => sink.site(site)?,
        None => sink.site_of_file("a table without a column for the site")?,
    };
    match record.seen {
        Some(text) => seen(text, block, (site, rtt), sink),
        None => {
            sink.reply(block, site, rtt);
            Ok(())
        }
    }
}

/// How long a reply took, and whether that is too long. Takes in when it was.
fn time(record: &Record<'_>, sink: &mut Sink<'_>) -> (Option<Rtt>, bool) {
    let mut took_ms = record.rtt_ms;
    if let Some((sent, got)) = record.times
        && let Some(unit) = ticks_per_second(sent)
    {
        sink.time(sent / unit);
        if ticks_per_second(got) == Some(unit) {
            // In whole numbers first: a float does not hold nanoseconds since 1970.
            let ticks = i128::from(got) - i128::from(sent);
            took_ms = took_ms.or(Some(ticks as f64 / unit as f64 * 1e3));
        }
    }
    // The clocks of two hosts tell no round-trip time.
    let same = record.sender.is_none() || record.sender == record.site;
    let late = took_ms.is_some_and(|ms| ms > sink.options.late.as_secs_f64() * 1e3);
    (took_ms.filter(|_| same).and_then(Rtt::from_ms), late)
}

/// Of a time since 1970 in nanoseconds, microseconds or milliseconds, as it can only be from 2001 on. `None` of TCP's
/// timestamps, which MAnycastR cuts to 21 bits.
fn ticks_per_second(time: u64) -> Option<u64> {
    match time {
        1_000_000_000_000_000_000.. => Some(1_000_000_000),
        1_000_000_000_000_000.. => Some(1_000_000),
        1_000_000_000_000.. => Some(1_000),
        _ => None,
    }
}

/// The `seen` of a map: `AMS=5,BOS=2`.
fn seen(
    text: &[u8],
    block: Block,
    (first, rtt): (SiteId, Option<Rtt>),
    sink: &mut Sink<'_>,
) -> Result<(), Problem> {
    let all = String::from_utf8_lossy(text);
    for part in all.split(',') {
        let seen = part.rsplit_once('=');
        let seen = seen.and_then(|(site, replies)| Some((site, replies.parse::<u64>().ok()?)));
        let Some((name, replies)) = seen.filter(|(_, replies)| *replies > 0) else {
            let expected = "sites and replies, such as AMS=5,BOS=2";
            return Err(Sink::field("seen", text, expected));
        };
        let site = sink.site(name.as_bytes())?;
        sink.replies(block, site, rtt.filter(|_| site == first), replies);
    }
    Ok(())
}

/// The block of an address or prefix. Numbers are addresses, as old versions of MAnycastR wrote them.
pub(super) fn block(text: &[u8]) -> Option<Block> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Ok(block) = text.parse() {
        return Some(block);
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match text.parse::<u32>() {
        Ok(number) => Some(Block::of(std::net::Ipv4Addr::from(number).into())),
        Err(_) => Some(Block::of(
            std::net::Ipv6Addr::from(text.parse::<u128>().ok()?).into(),
        )),
    }
}

/// That the columns are of no form.
pub(super) fn unknown_columns(names: &[String]) -> Problem {
    Problem::Form {
        found: format!("columns {}", shown(names.join(",").as_bytes())),
    }
}

/// A form that is known and is none of catchments.
pub(super) fn traceroute(names: &[String]) -> Option<Problem> {
    names
        .iter()
        .any(|name| name == "hop_addr")
        .then(|| Problem::Form {
            found: "a traceroute of MAnycastR, which has no catchments".to_owned(),
        })
}
