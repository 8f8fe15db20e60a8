//! From a fit to the settings of a scenario and of a defence.

use std::fmt::Write as _;

use super::estimate::Fit;
use super::law::Law;
use super::{Arrivals, Report};
use crate::erlang;

/// The share of calls that may find all places taken, by which places are counted.
pub const BLOCKING: f64 = 0.01;
/// Most places that are suggested.
const PLACES_MAX: u32 = 1_000_000;
/// What a scenario takes for a mean, in seconds, and for a `sigma` or `shape`.
const MEAN: (f64, f64) = (0.001, 86_400.0);
const SIGMA_MAX: f64 = 5.0;
const SHAPE: (f64, f64) = (0.1, 100.0);
/// What it takes for a rate, a second, and calls of one run; and a day.
const RATE: (f64, f64) = (2e-6, 1e5);
const CALLS_MAX: f64 = 4e6;
const DAY: f64 = 86_400.0;
/// Places where the records do not tell: those of the paper.
const PLACES: u32 = 24;

/// The fewest places at which Erlang's formula lets at most [`BLOCKING`] of the calls find none.
pub(super) fn places(erlang: f64) -> u32 {
    let mut blocked = 1.0;
    // The recursion of `erlang::blocking`, stopped at the first size that is enough.
    for n in 1..=PLACES_MAX {
        blocked = erlang * blocked / (f64::from(n) + erlang * blocked);
        if blocked <= BLOCKING {
            return n;
        }
    }
    PLACES_MAX
}

/// `duration` of `[honest]`; `None` if no scenario takes such a law.
#[must_use]
pub fn duration(fit: &Fit) -> Option<String> {
    let within = |value: f64, (low, high): (f64, f64)| (low..=high).contains(&value);
    let kind = fit.law.family().name();
    let mean = seconds(fit.mean);
    let form = match fit.law {
        Law::Exponential { .. } => String::new(),
        Law::Lognormal { sigma, .. } if sigma <= SIGMA_MAX => format!(", sigma = {sigma:.3}"),
        Law::Gamma { shape, .. } | Law::Weibull { shape, .. } if within(shape, SHAPE) => {
            format!(", shape = {shape:.3}")
        }
        _ => return None,
    };
    (fit.converged && within(fit.mean, MEAN))
        .then(|| format!("{{ kind = \"{kind}\", mean = \"{mean}\"{form} }}"))
}

/// `drop_factor` of a `[defense]`: the age of a call counts from its INVITE, so `mean_call` has its ringing too.
#[must_use]
pub fn drop_factor(report: &Report) -> String {
    let mean = report.sample.mean() + report.ring.unwrap_or_default().max(0.0);
    format!("{{ mean_call = \"{}\" }}", seconds(mean.max(0.001)))
}

/// A whole scenario, to be run as it is or to be pasted from.
#[must_use]
pub fn scenario(report: &Report) -> String {
    let mut out = String::new();
    let capacity = report.arrivals.as_ref().map(|a| {
        let why = format!(
            "blocks {:.0}% of {:.1} Erlang",
            BLOCKING * 100.0,
            a.busy.erlang
        );
        (a.places, why)
    });
    let (places, why) = capacity.unwrap_or_else(|| {
        (
            PLACES,
            "the records have no instants: write what your server can hold".to_owned(),
        )
    });
    writeln!(
        out,
        "[service]\nkind = \"sip\"\ncapacity = {places}  # {why}\n"
    )
    .ok();
    writeln!(out, "[defense]\nkind = \"seven\"").ok();
    writeln!(out, "drop_factor = {}\n", drop_factor(report)).ok();
    writeln!(out, "[honest]\n{}", rate(report.arrivals.as_ref())).ok();
    // The best that a scenario takes.
    let mut usable = report
        .fits
        .iter()
        .filter_map(|fit| Some((fit, duration(fit)?)));
    let usable = usable.next();
    match &usable {
        Some((_, text)) => writeln!(out, "duration = {text}\n").ok(),
        None => {
            let mean = seconds(report.sample.mean().clamp(MEAN.0, MEAN.1));
            writeln!(
                out,
                "duration = {{ kind = \"fixed\", mean = \"{mean}\" }}  # no fit is usable\n"
            )
            .ok()
        }
    };
    let mean = usable.map_or(report.sample.mean(), |(fit, _)| fit.mean);
    writeln!(
        out,
        "[run]\ntime = \"{}\"",
        time(report.arrivals.as_ref(), mean)
    )
    .ok();
    if let Some(ring) = report.ring.filter(|ring| *ring > 0.0 && *ring < DAY) {
        writeln!(out, "ring = \"{}\"", seconds(ring)).ok();
    }
    // Without a question `levee check` has nothing to do.
    out.push_str(QUERY);
    out
}

const QUERY: &str = "
[[query]]
name = \"complete\"
formula = \"honest.complete / honest.attempted\"
";

/// Calls a second in the busiest hour.
fn per_second(a: &Arrivals) -> f64 {
    (a.busy.calls.max(1) as f64 / a.busy.seconds).clamp(RATE.0, RATE.1)
}

fn rate(arrivals: Option<&Arrivals>) -> String {
    match arrivals {
        Some(a) => {
            let per_second = per_second(a);
            let (value, unit) = if per_second >= 1.0 {
                (per_second, "s")
            } else {
                (per_second * 3_600.0, "h")
            };
            format!(
                "rate = \"{}/{unit}\"  # the hour from {}",
                short(value),
                a.busy_start()
            )
        }
        None => format!(
            "rate = {{ erlang = {{ blocking = {BLOCKING} }} }}  # the records have no instants"
        ),
    }
}

/// An hour, or less where calls are so many that a run would be too large.
fn time(arrivals: Option<&Arrivals>, mean: f64) -> String {
    let rate = arrivals.map_or_else(
        || erlang::load_for(PLACES, BLOCKING) / mean.max(MEAN.0),
        per_second,
    );
    let most = CALLS_MAX / rate;
    if most >= 3_600.0 {
        "1h".to_owned()
    } else {
        seconds(most)
    }
}

/// `183.3s`: a length with four digits that count, as a configuration takes it.
pub(super) fn seconds(value: f64) -> String {
    if value < 1.0 {
        format!("{}ms", short(value * 1e3))
    } else {
        format!("{}s", short(value))
    }
}

/// A number with four digits that count, and no exponent.
fn short(value: f64) -> String {
    let whole = libm::log10(value.max(1e-9)) as i32;
    let digits = usize::try_from(3 - whole).unwrap_or(0).min(6);
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_by_the_published_tables() {
        // At 1%: 15.3 Erlang need 24 places, 4.46 need 10, 84.1 need 100; 0.01 Erlang need one.
        for (erlang, n) in [(15.29, 24), (4.46, 10), (84.06, 100), (0.01, 1), (0.0, 1)] {
            assert_eq!(places(erlang), n, "{erlang}");
        }
        assert!(places(15.35) > 24);
    }

    #[test]
    fn lengths_as_a_configuration_takes_them() {
        for (value, text) in [
            (183.274, "183.3s"),
            (5.0, "5s"),
            (0.25, "250ms"),
            (86_400.0, "86400s"),
            (1.0, "1s"),
            (0.001_234, "1.234ms"),
        ] {
            assert_eq!(seconds(value), text);
            assert!(text.parse::<levee_policy::Span>().is_ok());
        }
    }
}
