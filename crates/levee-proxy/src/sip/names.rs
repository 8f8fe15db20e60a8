//! Host names that were looked up. A name is asked for once while many requests wait for it, and the answer holds for a
//! minute: the system's resolver does not tell for how long it may.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// How long an answer is believed (our choice: RFC 3263 wants the record's own, which the system's resolver hides).
const BELIEVED: Duration = Duration::from_secs(60);
/// Names that are remembered; the oldest goes (a guess: a server has few trunks).
const KNOWN_MAX: usize = 1024;
/// Longest name (RFC 1035 section 2.3.4, as text).
const NAME_BYTES_MAX: usize = 253;
/// Requests that may wait for one name.
const WAITING_MAX: usize = 256;

/// What is known of names.
#[derive(Debug)]
pub(crate) struct Names {
    known: BTreeMap<String, (Option<IpAddr>, Duration)>,
    by_age: BTreeSet<(Duration, String)>,
    waiting: BTreeMap<String, Vec<u64>>,
    pub(crate) pending_max: usize,
}

/// What can be said of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Yes(IpAddr),
    /// It has no address.
    No,
    /// Ask for it.
    Ask,
    /// It has been asked for; wait.
    Wait,
    /// Too many are being asked for.
    Full,
}

impl Names {
    pub(crate) fn new(pending_max: usize) -> Self {
        Self {
            known: BTreeMap::new(),
            by_age: BTreeSet::new(),
            waiting: BTreeMap::new(),
            pending_max,
        }
    }

    /// What is known now.
    pub(crate) fn get(&self, now: Duration, host: &str) -> Option<Option<IpAddr>> {
        self.known
            .get(host)
            .filter(|(_, until)| now < *until)
            .map(|(ip, _)| *ip)
    }

    /// Looks up a name for the transaction `id`, which waits if the answer says so.
    pub(crate) fn look_up(&mut self, now: Duration, host: &str, id: u64) -> Known {
        if host.len() > NAME_BYTES_MAX {
            return Known::No;
        }
        match self.get(now, host) {
            Some(Some(ip)) => return Known::Yes(ip),
            Some(None) => return Known::No,
            None => {}
        }
        if let Some(waiting) = self.waiting.get_mut(host) {
            if waiting.len() == WAITING_MAX {
                return Known::Full;
            }
            waiting.push(id);
            return Known::Wait;
        }
        if self.waiting.len() >= self.pending_max {
            // A flood of names must not make us forget those that we had.
            return match self.known.get(host) {
                Some((Some(ip), _)) => Known::Yes(*ip),
                _ => Known::Full,
            };
        }
        self.waiting.insert(host.to_owned(), vec![id]);
        Known::Ask
    }

    /// Notes an answer and returns who waited for it.
    pub(crate) fn resolved(&mut self, now: Duration, host: &str, ip: Option<IpAddr>) -> Vec<u64> {
        let until = now + BELIEVED;
        if let Some((_, old)) = self.known.insert(host.to_owned(), (ip, until)) {
            self.by_age.remove(&(old, host.to_owned()));
        }
        self.by_age.insert((until, host.to_owned()));
        if self.known.len() > KNOWN_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.known.remove(&oldest);
        }
        self.waiting.remove(host).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_asked_for_once_and_believed_for_a_minute() {
        let mut n = Names::new(1);
        let ip = "192.0.2.1".parse().unwrap();
        let at = Duration::from_secs;
        assert_eq!(n.look_up(at(0), "a", 1), Known::Ask);
        assert_eq!(n.look_up(at(0), "a", 2), Known::Wait);
        assert_eq!(n.look_up(at(0), "b", 3), Known::Full);
        assert_eq!(n.resolved(at(1), "a", Some(ip)), [1, 2]);
        assert_eq!(n.look_up(at(60), "a", 4), Known::Yes(ip));
        assert_eq!(n.look_up(at(61), "a", 4), Known::Ask);
        assert_eq!(n.resolved(at(62), "a", None), [4]);
        assert_eq!(n.look_up(at(63), "a", 4), Known::No);
        assert_eq!(n.look_up(at(64), &"x".repeat(254), 5), Known::No);
        assert_eq!(n.look_up(at(64), &"x".repeat(253), 5), Known::Ask);
    }

    #[test]
    fn a_flood_of_names_does_not_hide_a_known_one() {
        let mut n = Names::new(1);
        let ip = "192.0.2.1".parse().unwrap();
        let at = Duration::from_secs;
        n.resolved(at(0), "trunk", Some(ip));
        assert_eq!(n.look_up(at(100), "slow.evil", 1), Known::Ask);
        assert_eq!(n.look_up(at(100), "trunk", 2), Known::Yes(ip));
        assert_eq!(n.look_up(at(100), "other", 3), Known::Full);
    }

    #[test]
    fn names_are_not_remembered_without_bound() {
        let mut n = Names::new(1);
        for i in 0..10_000 {
            n.resolved(Duration::from_secs(i), &i.to_string(), None);
        }
        assert_eq!((n.known.len(), n.by_age.len()), (KNOWN_MAX, KNOWN_MAX));
    }
}
