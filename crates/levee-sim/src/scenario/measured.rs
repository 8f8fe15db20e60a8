//! Durations that were measured: a list of seconds, or call records.

use std::time::Duration;

use super::read::{DAY, ReadFile};
use crate::fit;
use crate::schedule::Durations;

/// Why a file of durations is refused: what was found, what was expected.
pub(super) type FileError = (String, &'static str);

/// The durations of a file: seconds, one on each line, or call records.
pub(super) fn durations(path: &str, read: ReadFile<'_>) -> Result<Durations, FileError> {
    let text = read(path).map_err(|error| (format!("{path}: {error}"), "a file"))?;
    let values = || {
        let values = text.lines().map(|line| line.split('#').next());
        let values = values.map(|value| value.unwrap_or_default().trim());
        values.enumerate().filter(|(_, value)| !value.is_empty())
    };
    if values()
        .next()
        .is_some_and(|(_, v)| v.parse::<f64>().is_err())
    {
        return of_records(path, &text);
    }
    let mut all = Vec::new();
    for (i, value) in values() {
        match value.parse::<f64>() {
            Ok(s) if (0.0..=DAY).contains(&s) => all.push(Duration::from_secs_f64(s)),
            _ => {
                let found = format!("{path}:{}: `{value}`", i + 1);
                return Err((found, "seconds from 0 to 86400"));
            }
        }
    }
    if !all.iter().any(|d| !d.is_zero()) {
        return Err((format!("{path}: no duration"), "some"));
    }
    Ok(Durations::Empirical(all.into()))
}

/// Most durations that are kept of call records: a million draws hardly ever takes one twice.
const RECORDS_MAX: usize = 1_000_000;

fn of_records(path: &str, text: &str) -> Result<Durations, FileError> {
    let expected = "seconds from 0 to 86400, or call records with answered calls";
    let sample = fit::durations(text.as_bytes(), &fit::Options::default()).map_err(|error| {
        let found = match error {
            // It shows the file's first lines, which is for who fits it.
            fit::FitError::Unknown { .. } => {
                "neither a list of seconds nor call records of a known format".to_owned()
            }
            error => error.to_string(),
        };
        (format!("{path}: {found}"), expected)
    })?;
    let all: Vec<Duration> = sample
        .spread(RECORDS_MAX)
        .into_iter()
        .map(|seconds| Duration::from_secs_f64(seconds.min(DAY)))
        .collect();
    if !all.iter().any(|d| !d.is_zero()) {
        return Err((format!("{path}: no answered call"), expected));
    }
    Ok(Durations::Empirical(all.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Asterisk writes them; the last was not answered.
    const RECORDS: &str = "\
\"\",\"100\",\"200\",\"in\",\"\",\"SIP/1\",\"SIP/2\",\"Dial\",\"\",\"2026-01-05 09:00:00\",\"2026-01-05 09:00:04\",\"2026-01-05 09:00:14\",\"14\",\"10\",\"ANSWERED\",\"DOCUMENTATION\"
\"\",\"100\",\"200\",\"in\",\"\",\"SIP/1\",\"SIP/2\",\"Dial\",\"\",\"2026-01-05 09:01:00\",\"2026-01-05 09:01:04\",\"2026-01-05 09:01:34\",\"34\",\"30\",\"ANSWERED\",\"DOCUMENTATION\"
\"\",\"100\",\"200\",\"in\",\"\",\"SIP/1\",\"SIP/2\",\"Dial\",\"\",\"2026-01-05 09:02:00\",\"\",\"2026-01-05 09:02:30\",\"30\",\"0\",\"NO ANSWER\",\"DOCUMENTATION\"
";

    #[test]
    fn call_records_give_the_talk_times_of_answered_calls() {
        let all = durations("Master.csv", &|_| Ok(RECORDS.into())).unwrap();
        // 10 and 30 s, each cut to whole seconds: half a second longer on average.
        let expected = [10_500, 30_500].map(Duration::from_millis);
        assert_eq!(all, Durations::Empirical(expected.into()));
    }

    #[test]
    fn what_is_neither_a_list_nor_records_is_said_so() {
        let prose = |_: &str| Ok("Dear operator,\nno calls here.\n".into());
        let (found, expected) = durations("prose.txt", &prose).unwrap_err();
        assert_eq!(
            found,
            "prose.txt: neither a list of seconds nor call records of a known format"
        );
        assert!(expected.contains("call records"), "{expected}");
    }
}
