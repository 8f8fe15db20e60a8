//! The calls that the server pays for, each counted once, from its INVITE to the end of its last dialog.

use std::time::Duration;

use hashbrown::HashMap;
use levee_sip::dialog::{Dialog, Party};
use levee_sip::keys::DialogKey;

use super::addresses::Flow;
use super::table::Table;

/// Dialogs that one INVITE may make by forking before it is answered; any further early one passes untracked. As many
/// more may be answered.
const LEGS_MAX: usize = 8;

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The defence holds its INVITE back.
    Held,
    /// The INVITE was passed on; no ACK yet.
    Waiting,
    /// The ACK of a 2xx has passed.
    InCall,
    /// We are ending it; its slot is free when that is done.
    Ending,
}

/// A dialog of a call.
#[derive(Debug)]
pub(crate) struct Leg {
    pub(crate) key: DialogKey,
    pub(crate) dialog: Dialog,
    /// A 2xx has passed.
    pub(crate) answered: bool,
    /// BYEs that pass through us now: one that goes through the server passes twice.
    pub(crate) byes: u8,
    /// One of them ended the dialog.
    pub(crate) ended: bool,
}

impl Leg {
    /// Whether the dialog is up.
    pub(crate) fn is_live(&self) -> bool {
        self.answered && !(self.ended && self.byes == 0)
    }
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) stage: Stage,
    /// The transaction of its INVITE, while there is one.
    pub(crate) invite: u64,
    pub(crate) call_id: Box<[u8]>,
    pub(crate) caller: Party,
    /// Where its INVITE came from.
    pub(crate) source: Flow,
    /// Whether requests to the caller go there: it is our neighbour and asked for that (RFC 3581), or has a connection.
    /// Else they go by its Contact.
    pub(crate) sticky: bool,
    /// Record-Route values of its INVITE as it left us.
    pub(crate) routes_below: usize,
    /// Where its INVITE went.
    pub(crate) down: Option<Flow>,
    pub(crate) legs: Vec<Leg>,
    /// Whether the defence knows of it (not in bypass, nor after a dry run would have dropped it).
    pub(crate) in_policy: bool,
    /// When to end it in any case.
    pub(crate) max_at: Option<Duration>,
    /// When its session expires unless it is refreshed (RFC 4028).
    pub(crate) session_at: Option<Duration>,
    /// When to send the BYEs of an ending call whose 2xx nobody acknowledged.
    pub(crate) ack_by: Option<Duration>,
    /// BYEs of ours that are not answered yet.
    pub(crate) byes_pending: u8,
    /// `Reason` of the BYEs and CANCELs that end it.
    pub(crate) reason: &'static str,
    pub(crate) armed: Duration,
}

impl Call {
    /// When something is due if nothing happens.
    pub(crate) fn deadline(&self) -> Duration {
        let ends = match self.stage {
            Stage::Ending => [self.ack_by, None, None],
            _ => [self.max_at, self.session_at, self.ack_by],
        };
        ends.into_iter().flatten().min().unwrap_or(Duration::MAX)
    }

    /// Whether a dialog of it is up.
    pub(crate) fn has_live_leg(&self) -> bool {
        self.legs.iter().any(Leg::is_live)
    }
}

/// All calls, and their dialogs by name.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    table: Table<Call>,
    by_dialog: HashMap<DialogKey, (u64, usize), foldhash::fast::FixedState>,
    pub(crate) waiting: u32,
    pub(crate) in_call: u32,
    pub(crate) ending: u32,
}

impl Calls {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Call> {
        self.table.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut Call> {
        self.table.get_mut(id)
    }

    fn gauge(&mut self, stage: Stage) -> &mut u32 {
        match stage {
            Stage::Held | Stage::Waiting => &mut self.waiting,
            Stage::InCall => &mut self.in_call,
            Stage::Ending => &mut self.ending,
        }
    }

    pub(crate) fn insert(&mut self, call: Call) -> u64 {
        *self.gauge(call.stage) += 1;
        self.table.insert(call)
    }

    pub(crate) fn set_stage(&mut self, id: u64, stage: Stage) {
        let Some(call) = self.table.get_mut(id) else {
            return;
        };
        let old = std::mem::replace(&mut call.stage, stage);
        *self.gauge(old) -= 1;
        *self.gauge(stage) += 1;
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Call> {
        let call = self.table.remove(id)?;
        for leg in &call.legs {
            // Two ends that plot together can give two calls the same dialog.
            if self.by_dialog(leg.key).is_some_and(|(c, _)| c == id) {
                self.by_dialog.remove(&leg.key);
            }
        }
        *self.gauge(call.stage) -= 1;
        Some(call)
    }

    pub(crate) fn by_dialog(&self, key: DialogKey) -> Option<(u64, usize)> {
        self.by_dialog.get(&key).copied()
    }

    /// The leg of this dialog, made if it is new and there is room.
    pub(crate) fn leg(
        &mut self,
        id: u64,
        key: DialogKey,
        answered: bool,
        callee: impl FnOnce() -> Option<Party>,
    ) -> Option<usize> {
        let call = self.table.get_mut(id)?;
        if let Some(at) = call.legs.iter().position(|l| l.key == key) {
            return Some(at);
        }
        if call.legs.len() >= LEGS_MAX * (1 + usize::from(answered)) {
            return None;
        }
        let dialog = Dialog {
            call_id: call.call_id.clone(),
            caller: call.caller.clone(),
            callee: callee()?,
        };
        call.legs.push(Leg {
            key,
            dialog,
            answered: false,
            byes: 0,
            ended: false,
        });
        let at = call.legs.len() - 1;
        self.by_dialog.insert(key, (id, at));
        Some(at)
    }
}
