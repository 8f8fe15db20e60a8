//! The responder's steps in words.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};

use super::{Playbook, Range, SiteId, Step, Why, estimate};

/// A step as a person would tell it, without its time: one line.
#[must_use]
pub fn tell(step: &Step, playbook: &Playbook) -> String {
    let sites = |ids: &[SiteId]| {
        let names: Vec<&str> = ids.iter().map(|id| playbook.sites().name(*id)).collect();
        names.join(", ")
    };
    let site = |id: &SiteId| playbook.sites().name(*id);
    let play = |number: &usize| {
        let play = playbook.plays().get(*number);
        play.map_or("?", |play| play.routing.name.as_str())
    };
    match step {
        Step::Level {
            site: id,
            level: Some(level),
        } => format!("{} is at level {level}", site(id)),
        Step::Level { site: id, .. } => format!("{} is at no level any more", site(id)),
        Step::Silent { site: id } => format!("{} does not report", site(id)),
        Step::Heard { site: id } => format!("{} reports again", site(id)),
        Step::AttackBegan { sites: ids } => format!("under attack: {}", sites(ids)),
        Step::Estimated { offered, .. } => {
            format!("offered in all: {}", load(estimate::total(offered)))
        }
        Step::Waiting { play: p, until } => {
            format!("{} is best, and has to wait: {}", play(p), until.reason)
        }
        Step::Deploying {
            play: p, why, over, ..
        } => {
            let why = match why {
                Why::Mitigate => "the best for this load",
                Why::RollBack => "the attack is over",
                Why::Forced => "the operator says so",
            };
            let over = if over.is_empty() {
                String::new()
            } else {
                format!("; over capacity even so: {}", sites(over))
            };
            format!("announce {}: {why}{over}", play(p))
        }
        Step::Deployed { play: p } => format!("{} is announced; its routes settle", play(p)),
        Step::DeployFailed {
            play: p, reason, ..
        } => {
            format!("{} could not be announced: {reason}", play(p))
        }
        Step::GaveUp { failures, .. } => {
            format!("{failures} announcements in a row failed: a person has to look")
        }
        Step::Judged {
            play: p,
            mitigated,
            wrong,
            over,
        } => {
            let wrong = if *wrong {
                "; the playbook was wrong about it"
            } else {
                ""
            };
            if *mitigated {
                format!("{} works: no site is over capacity{wrong}", play(p))
            } else {
                format!(
                    "{} is not enough: {} over capacity{wrong}",
                    play(p),
                    sites(over)
                )
            }
        }
        Step::NextLine { sites: ids } => format!(
            "no play does better: {} need the next line of defence, thinner or SeVen",
            sites(ids)
        ),
        Step::NextLineOver => "the next line of defence is not needed any more".to_string(),
        Step::AttackOver => "the attack is over".to_string(),
        Step::Held => "the operator holds: nothing is changed".to_string(),
        Step::Forced { play: p } => format!("the operator wants {}", play(p)),
        Step::Released => "the operator lets it go on by itself".to_string(),
        Step::Refused { play: p } => format!("there is no configuration {p} to force"),
    }
}

/// A load with its interval, such as `350k (320k to 390k)`.
#[must_use]
pub fn load(range: Range) -> String {
    let Range { low, likely, high } = range;
    if high.is_infinite() {
        format!("at least {}", short(low))
    } else if low == high {
        short(likely)
    } else {
        format!("{} ({} to {})", short(likely), short(low), short(high))
    }
}

/// A number with three digits and a suffix: `950`, `12.3k`, `4.56M`.
#[must_use]
pub fn short(number: f64) -> String {
    const SUFFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    let mut number = number;
    let mut suffixes = SUFFIXES.iter().peekable();
    // What would be rounded to 1000 takes the next suffix.
    while number >= 999.5 && suffixes.len() > 1 {
        number /= 1000.0;
        suffixes.next();
    }
    let suffix = suffixes.peek().copied().unwrap_or(&"");
    if suffix.is_empty() || number >= 99.95 {
        format!("{number:.0}{suffix}")
    } else if number >= 9.995 {
        format!("{number:.1}{suffix}")
    } else {
        format!("{number:.2}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, expect) in [
            (0.0, "0"),
            (950.4, "950"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (99_960.0, "100k"),
            (350_000.0, "350k"),
            (4_560_000.0, "4.56M"),
            (1e15, "1000T"),
        ] {
            assert_eq!(short(number), expect);
        }
    }

    #[test]
    fn a_load_tells_what_is_known_of_it() {
        let range = |low, likely, high| Range { low, likely, high };
        assert_eq!(load(Range::exactly(5.0)), "5");
        assert_eq!(load(range(320e3, 350e3, 390e3)), "350k (320k to 390k)");
        assert_eq!(
            load(range(1e6, f64::INFINITY, f64::INFINITY)),
            "at least 1.00M"
        );
    }
}
