//! Durations that were measured: a list of seconds, or call records.

use std::time::Duration;

use levee_config::Variant;

use super::ServiceKind;
use super::raw::{RawDuration, RawDurationKind};
use super::read::{DAY, ReadFile, Reader, std};
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

impl<'d, 't> Reader<'d, 't> {
    /// The law at `key` of a table.
    pub(super) fn durations(
        &mut self,
        at: &Variant<'d, 't>,
        key: &str,
        raw: &RawDuration,
    ) -> Option<Durations> {
        use RawDurationKind::{Exponential, File, Fixed, Gamma, Lognormal, Weibull};
        let kind = raw.kind;
        let name = kind.name();
        for (field, given, wanted) in [
            ("mean", raw.mean.is_some(), kind != File),
            ("sigma", raw.sigma.is_some(), kind == Lognormal),
            (
                "shape",
                raw.shape.is_some(),
                matches!(kind, Gamma | Weibull),
            ),
            ("path", raw.path.is_some(), kind == File),
        ] {
            if given && !wanted {
                self.refuse(
                    at,
                    &format!("{key}.{field}"),
                    format!("`{field}` for durations of kind {name}"),
                    "only keys that this kind has",
                    "take it out, or change `kind`",
                );
                return None;
            }
            if wanted && !given {
                self.refuse(
                    at,
                    key,
                    format!("durations of kind {name} without `{field}`"),
                    &format!("`{field}`"),
                    "add it: mean = \"5s\", sigma = 1.0, shape = 2.0, path = \"seconds.txt\"",
                );
                return None;
            }
        }
        let mean = raw.mean.map(std).unwrap_or_default();
        if kind != File {
            let remedy = "write a mean such as \"5s\"";
            let seconds = mean.as_secs_f64();
            // A server may work on a request for some microseconds.
            let low = match self.kind {
                ServiceKind::Sip => 0.001,
                ServiceKind::Http => 1e-6,
                // Routes may change at once.
                ServiceKind::Anycast => 0.0,
            };
            self.range(at, &format!("{key}.mean"), seconds, (low, DAY), remedy);
        }
        let sigma = raw.sigma.unwrap_or_default();
        let remedy = "telephone calls have about 1";
        self.range(at, &format!("{key}.sigma"), sigma, (0.0, 5.0), remedy);
        let shape = raw.shape.unwrap_or(1.0);
        let remedy = "1 is the exponential; below it short and very long calls are many";
        self.range(at, &format!("{key}.shape"), shape, (0.1, 100.0), remedy);
        Some(match kind {
            Exponential => Durations::Exponential(mean),
            Fixed => Durations::Fixed(mean),
            Lognormal => Durations::Lognormal { mean, sigma },
            Gamma => Durations::Gamma { mean, shape },
            Weibull => Durations::Weibull { mean, shape },
            File => self.durations_of_file(at, key, raw.path.as_deref().unwrap_or_default())?,
        })
    }

    fn durations_of_file(
        &mut self,
        at: &Variant<'d, 't>,
        key: &str,
        path: &str,
    ) -> Option<Durations> {
        if !self.files.contains_key(path) {
            let durations = durations(path, self.read);
            self.files.insert(path.to_owned(), durations);
        }
        match self.files.get(path)? {
            Ok(durations) => Some(durations.clone()),
            Err((found, expected)) => {
                let remedy = "one duration in seconds on each line, where an empty line and what follows # are passed over; or call records, which `levee fit` says more about";
                let problem = at.problem(&format!("{key}.path"), found, *expected, remedy);
                self.problems.push(problem);
                None
            }
        }
    }
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
