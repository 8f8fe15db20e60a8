//! A state machine with its randomness and its recording, driven by the contract of [`StateMachine`].

use levee_policy::{StateMachine, Time};

use crate::recorder::{PolicyRng, policy_rng};

/// What a recording of a machine is told, in the order in which the machine meets it.
pub trait Record<I, O>: Send {
    /// An input, before the machine gets it.
    fn input(&mut self, at: Time, input: &I);
    /// A deadline, before the machine handles it.
    fn deadline(&mut self, at: Time);
    /// An output.
    fn output(&mut self, at: Time, output: &O);
}

/// A recording of the machine `M`.
pub type Recording<M> = Box<dyn Record<<M as StateMachine>::Input, <M as StateMachine>::Output>>;

/// A machine that is driven. Whoever calls [`handle`](Self::handle) or [`due`](Self::due) takes [`next`](Self::next) until
/// there is none.
pub(super) struct Driven<M: StateMachine> {
    pub(super) machine: M,
    rng: PolicyRng,
    recording: Option<Recording<M>>,
    now: Time,
}

impl<M: StateMachine> Driven<M> {
    pub(super) fn new(machine: M, seed: u64, recording: Option<Recording<M>>) -> Self {
        Driven {
            machine,
            rng: policy_rng(seed),
            recording,
            now: Time::ZERO,
        }
    }

    pub(super) fn handle(&mut self, now: Time, input: M::Input) {
        // Workers read the clock before they have the lock.
        self.now = self.now.max(now);
        if let Some(recording) = &mut self.recording {
            recording.input(self.now, &input);
        }
        self.machine.handle(self.now, input, &mut self.rng);
    }

    /// Does what is due, if anything is.
    pub(super) fn due(&mut self, now: Time) -> bool {
        self.now = self.now.max(now);
        let is_due = self.machine.deadline().is_some_and(|at| at <= self.now);
        if is_due {
            if let Some(recording) = &mut self.recording {
                recording.deadline(self.now);
            }
            self.machine.handle_deadline(self.now, &mut self.rng);
        }
        is_due
    }

    pub(super) fn next(&mut self) -> Option<M::Output> {
        let output = self.machine.poll_output()?;
        if let Some(recording) = &mut self.recording {
            recording.output(self.now, &output);
        }
        Some(output)
    }
}
