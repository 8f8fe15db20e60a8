//! Who it is, as far as a defence may know.

use serde::{Deserialize, Serialize};

/// A caller, a source or a group of clients: a hash under a key that only the front has, so that nobody can choose whom to
/// collide with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Identity(pub u64);
