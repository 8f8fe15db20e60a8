//! The responder in the model.

use levee_policy::Time;

use super::setup::{Setup, SetupError};
use super::{Anycast, Message};
use crate::engine::{Scheduler, Streams};

/// The settings of the responder.
#[derive(Clone, Debug, PartialEq)]
pub struct Config;

/// The responder, and what it draws from.
#[derive(Clone, Debug)]
pub(super) struct Front;

/// Whether these settings go with the setup.
pub(super) fn check(_config: &Config, _setup: &Setup) -> Result<(), SetupError> {
    Ok(())
}

impl Front {
    pub(super) fn new(_config: &Config, _setup: &Setup) -> Result<Self, SetupError> {
        Ok(Self)
    }

    pub(super) fn restart(&mut self, _streams: &Streams) {}
}

impl Anycast {
    pub(super) fn measured(&mut self, _attacked: bool, _scheduler: &mut Scheduler<Message>) {}
    pub(super) fn failed(&mut self, _play: usize, _scheduler: &mut Scheduler<Message>) {}
    pub(super) fn deployed(&mut self, _play: usize, _scheduler: &mut Scheduler<Message>) {}
    pub(super) fn deadline(&mut self, _scheduler: &mut Scheduler<Message>) {}
    pub(super) fn watch(&mut self, _scheduler: &mut Scheduler<Message>) {
        self.deadline_at = Time::MAX;
    }
}
