//! The streams of one connection, as the defence of connections sees them: one place, in one phase.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use levee_http::edit::Hop;

use crate::http::connection::Link;
use crate::http::snapshot::{ByPhase, Phase};

/// What the streams of a connection share.
#[derive(Debug)]
pub(crate) struct Streams {
    /// The connection's.
    pub(crate) link: Rc<Link>,
    pub(super) hop: Hop,
    phases: RefCell<ByPhase>,
    quiet_ms: Cell<u64>,
}

/// From the furthest on: the connection is in the first of them that a stream of it is in.
const FURTHEST: [Phase; 4] = [Phase::Sending, Phase::Waiting, Phase::Body, Phase::Headers];

impl Streams {
    pub(super) fn new(link: Rc<Link>, hop: Hop) -> Rc<Self> {
        let quiet_ms = Cell::new(link.worker.timers.now_ms());
        Rc::new(Self {
            link,
            hop,
            phases: RefCell::default(),
            quiet_ms,
        })
    }

    /// Since when there is no stream; `None` while there is one.
    pub(super) fn quiet_ms(&self) -> Option<u64> {
        (self.phases.borrow().sum() == 0).then(|| self.quiet_ms.get())
    }

    /// A stream has come.
    pub(crate) fn came(&self, phase: Phase) {
        self.phases.borrow_mut()[phase] += 1;
        self.tell();
    }

    /// A stream is at something else.
    pub(crate) fn moved(&self, from: Phase, to: Phase) {
        if from != to {
            let mut phases = self.phases.borrow_mut();
            phases[from] -= 1;
            phases[to] += 1;
            drop(phases);
            self.tell();
        }
    }

    /// A stream has ended.
    pub(crate) fn went(&self, phase: Phase) {
        self.phases.borrow_mut()[phase] -= 1;
        self.tell();
        let timers = &self.link.worker.timers;
        self.quiet_ms.set(timers.now_ms());
        // The connection's task has to set its deadline anew.
        self.link.timer.set_at(timers.now_ms());
    }

    fn tell(&self) {
        let phases = self.phases.borrow();
        let furthest = FURTHEST.into_iter().find(|phase| phases[*phase] > 0);
        self.link.be(furthest.unwrap_or(Phase::Idle));
    }
}
