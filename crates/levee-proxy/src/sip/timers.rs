//! What is due when: the timers of transactions and calls.

use std::time::Duration;

use levee_sip::transaction::{ClientState, OnClientTimer, OnServerTimer};
use levee_sip::wire::Method;

use super::front::{Front, Wake};
use super::txn::{Role, Txn};

impl Front {
    pub(crate) fn insert_txn(&mut self, txn: Txn) -> u64 {
        let key = txn.key;
        let id = self.txns.insert(txn);
        if let Some(key) = key {
            self.by_key.insert(key, id);
        }
        self.rearm(id);
        id
    }

    /// Sees to it that a transaction is woken for its next timer, or forgets it when it is over.
    pub(crate) fn rearm(&mut self, id: u64) {
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        let over = txn.is_over();
        let bytes = if over { 0 } else { txn.bytes() };
        self.txn_bytes += bytes;
        self.txn_bytes -= std::mem::replace(&mut txn.bytes_noted, bytes);
        if over {
            let key = txn.key;
            self.txns.remove(id);
            if let Some(key) = key {
                self.by_key.remove(&key);
            }
            return;
        }
        let at = txn.deadline();
        if at < txn.armed {
            txn.armed = at;
            self.wake_at(at, Wake::Txn(id));
        }
    }

    pub(crate) fn rearm_call(&mut self, id: u64) {
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        let at = call.deadline();
        if at < call.armed {
            call.armed = at;
            self.wake_at(at, Wake::Call(id));
        }
    }

    /// Entries outlive their keys, a call's by up to a day: they are held to a size in proportion to what is alive.
    fn wake_at(&mut self, at: Duration, wake: Wake) {
        self.wakeups.push(at, wake);
        let (txns, calls) = (&self.txns, &self.calls);
        self.wakeups
            .prune(txns.len() + calls.len(), |at, wake| match *wake {
                Wake::Txn(id) => txns.get(id).is_some_and(|t| t.armed == at),
                Wake::Call(id) => calls.get(id).is_some_and(|c| c.armed == at),
            });
    }

    pub(crate) fn on_call_timer(&mut self, id: u64, at: Duration) {
        let now = self.at();
        let Some(call) = self.calls.get_mut(id) else {
            return;
        };
        if call.armed != at {
            return;
        }
        call.armed = Duration::MAX;
        if call.deadline() <= now {
            self.on_call_due(id);
        }
        self.rearm_call(id);
    }

    pub(crate) fn on_txn_timer(&mut self, id: u64, at: Duration) {
        let now = self.at();
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        if txn.armed != at {
            return;
        }
        txn.armed = Duration::MAX;
        // Timer C does not end an INVITE that rings: it is cancelled first (section 16.8).
        let rings_too_long = txn.method == Method::Invite
            && txn.cancel.is_none()
            && txn
                .client
                .as_ref()
                .is_some_and(|c| c.state() == ClientState::Proceeding && c.deadline() <= now);
        if rings_too_long {
            self.cancel_downstream(id);
        }
        self.run_server_timer(id);
        self.run_client_timer(id);
        self.run_cancel_timer(id);
        self.rearm(id);
    }

    fn run_server_timer(&mut self, id: u64) {
        let now = self.at();
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        let Some(server) = &mut txn.server else {
            return;
        };
        match server.on_timer(now, &self.timers) {
            OnServerTimer::Nothing
            | OnServerTimer::Terminated {
                unacknowledged: false,
            } => {}
            OnServerTimer::Terminated {
                unacknowledged: true,
            } => self.drop_message("no_ack"),
            OnServerTimer::Retransmit => {
                let (bytes, up) = (server.last().to_vec(), txn.up);
                self.stats.retransmitted += 1;
                if let Some(up) = up {
                    self.send(up, bytes, 0);
                }
            }
        }
    }

    fn run_client_timer(&mut self, id: u64) {
        let now = self.at();
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        let Some(client) = &mut txn.client else {
            return;
        };
        match client.on_timer(now, &self.timers) {
            OnClientTimer::Nothing | OnClientTimer::Terminated => {}
            OnClientTimer::TimedOut => self.on_no_answer(id, 408, "Request Timeout"),
            OnClientTimer::Retransmit => {
                let (bytes, down) = (client.packet().to_vec(), txn.down);
                self.stats.retransmitted += 1;
                if let Some(down) = down {
                    self.send(down, bytes, id);
                }
            }
        }
    }

    fn run_cancel_timer(&mut self, id: u64) {
        let now = self.at();
        let Some(txn) = self.txns.get_mut(id) else {
            return;
        };
        let Some(cancel) = &mut txn.cancel else {
            return;
        };
        if cancel.on_timer(now, &self.timers) == OnClientTimer::Retransmit {
            let (bytes, down) = (cancel.packet().to_vec(), txn.down);
            self.stats.retransmitted += 1;
            if let Some(down) = down {
                self.send(down, bytes, 0);
            }
        }
    }

    pub(crate) fn on_unreachable(&mut self, id: u64) {
        let Some(client) = self.txns.get_mut(id).and_then(|t| t.client.as_mut()) else {
            return;
        };
        if !client.is_pending() {
            return;
        }
        self.drop_message("unreachable");
        self.leave_flow(id);
        self.on_no_answer(id, 503, "Service Unavailable");
        self.rearm(id);
    }

    /// No final answer will come from below.
    fn on_no_answer(&mut self, id: u64, code: u16, reason: &'static str) {
        let Some(txn) = self.txns.get(id) else { return };
        let (role, method) = (txn.role, txn.method);
        if method == Method::Invite || code != 408 {
            self.answer(id, code, reason, b"");
        } else if let Some(txn) = self.txns.get_mut(id) {
            // RFC 4320 section 4.2: nobody waits any more for the answer to another method.
            txn.server = None;
        }
        if let Some(client) = self.txns.get_mut(id).and_then(|t| t.client.as_mut()) {
            client.fail();
        }
        match role {
            Role::Plain => {}
            Role::Invite { call } => {
                self.stats.failed += 1;
                self.end_call(call);
            }
            Role::InDialog { call, leg, .. } => self.on_dialog_failed(call, leg, method, code),
            Role::OwnBye { call, to, .. } => {
                self.stats.bye_timeout += 1;
                self.on_own_bye_done(call, to);
            }
        }
    }
}
