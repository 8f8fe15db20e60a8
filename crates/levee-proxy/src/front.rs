//! What fronts of all kinds tell of themselves.

use serde::Serialize;

use crate::{http, sip};

/// The numbers of one front.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Numbers {
    /// Of a SIP front.
    Sip(Box<sip::Snapshot>),
    /// Of an HTTP front.
    Http(Box<http::snapshot::Snapshot>),
}

impl Numbers {
    /// The front's name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Numbers::Sip(numbers) => &numbers.name,
            Numbers::Http(numbers) => &numbers.name,
        }
    }

    /// Whether it takes nothing new because it is stopping.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        match self {
            Numbers::Sip(numbers) => numbers.draining,
            Numbers::Http(numbers) => numbers.draining,
        }
    }
}

impl From<sip::Snapshot> for Numbers {
    fn from(numbers: sip::Snapshot) -> Self {
        Numbers::Sip(Box::new(numbers))
    }
}

impl From<http::snapshot::Snapshot> for Numbers {
    fn from(numbers: http::snapshot::Snapshot) -> Self {
        Numbers::Http(Box::new(numbers))
    }
}
