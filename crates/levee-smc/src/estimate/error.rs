//! Why a check has no answer.

/// Why a check has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A setting cannot be.
    #[error("{0}")]
    Settings(String),
    /// A target cannot be estimated as it asks to be.
    #[error("{}{problem}", prefix(place, name))]
    Target {
        /// Its name.
        name: String,
        /// Its place; may be empty.
        place: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A run has no answer, or one that cannot be.
    #[error("run {run}: {problem}")]
    Run {
        /// Index of the point that it is a run of.
        point: usize,
        /// The run.
        run: u64,
        /// What is wrong, and what to do.
        problem: String,
    },
}

/// What a message about a target begins with.
pub(crate) fn prefix(place: &str, name: &str) -> String {
    if place.is_empty() {
        format!("{name}: ")
    } else {
        format!("{place}: {name}: ")
    }
}
