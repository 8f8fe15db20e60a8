//! Exit statuses, as the help text documents them.

use std::process::ExitCode;

/// Something is wrong with what was asked: arguments, a file, an address that is taken.
pub(crate) const BAD_INPUT: u8 = 2;

/// What a command that ran to its end says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It holds, or there was nothing to hold.
    Yes,
    /// What was checked does not hold.
    No,
}

impl From<Answer> for ExitCode {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Yes => ExitCode::SUCCESS,
            Answer::No => ExitCode::from(1),
        }
    }
}
