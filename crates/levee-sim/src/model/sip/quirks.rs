//! Where the released model departs from the paper's text.

use crate::scenario::{ModelSettings, Preset};

/// A name in `[model].quirks` that no quirk has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no quirk is named {name:?}; they are {}", Quirks::names().collect::<Vec<_>>().join(", "))]
pub struct UnknownQuirk {
    /// As it was written.
    pub name: String,
}

/// Fields of [`Quirks`], and what goes over them.
macro_rules! quirks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Where the released model departs from the paper's text, one switch each. docs/presets.md has what each does.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Quirks {
            $($(#[$doc])* pub $name: bool,)*
        }

        impl Quirks {
            /// None of them: the paper's text.
            pub const NONE: Self = Self { $($name: false,)* };

            /// All of them: the released model.
            pub const RELEASED: Self = Self { $($name: true,)* };

            /// The names of all.
            pub fn names() -> impl Iterator<Item = &'static str> {
                [$(stringify!($name),)*].into_iter()
            }

            /// The switch of this name.
            pub fn switch(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

quirks! {
    /// (a) The victim is drawn twice: the call that is removed and the one that is told are independent draws.
    victim_drawn_twice,
    /// (b) The duration that is noted and the one that is lived are independent draws.
    duration_drawn_twice,
    /// (c) Lognormal durations of mean 5 and variance 131301: units are mixed up, the median is 0.07.
    lognormal_units_mixed,
    /// (d) Roulette: a call longer than usual has `d + 1` slots, and the last call one less.
    roulette_slots_shifted,
    /// (e) Tournament: the call that leaves the pool is not the one that enters, so entrants repeat.
    entrants_repeat,
    /// (f) `P1 = k / (k + 1 + n)` for the `n`-th overload of a round: `PMod` starts at 1.
    pmod_starts_at_one,
    /// (g) A round is 200 ms.
    round_doubled,
    /// (h) Arrivals at fixed intervals.
    even_arrivals,
    /// (i) Of the messages of one instant the last is served first.
    last_in_first_out,
    /// (j) All WAITING calls ring from the end of the round, and the server has them INCALL before their callers do.
    rings_from_round_end,
    /// (k) The drop factor past the mean is `floor(waiting + exp(..))`: its scale is 1, not 0.453.
    drop_factor_truncated,
    /// (l) A caller that is told of its drop before it is connected takes no notice; if RINGING is under way it is connected
    /// all the same, to nobody, and counts as complete.
    setup_drop_unheard,
}

impl Quirks {
    /// Those of a scenario's `[model]` table; `None` if it has none, and [`Sip`](super::Sip) runs it. Any quirk takes
    /// [`Released`](super::released::Released), whose other rules are then the paper's.
    ///
    /// # Errors
    ///
    /// If there is no quirk of a name.
    pub fn of(model: &ModelSettings) -> Result<Option<Self>, UnknownQuirk> {
        let mut quirks = match model.preset {
            Preset::AsReleased => Self::RELEASED,
            Preset::Corrected | Preset::Paper => Self::NONE,
        };
        for name in &model.quirks {
            match quirks.switch(name) {
                Some(switch) => *switch = true,
                None => return Err(UnknownQuirk { name: name.clone() }),
            }
        }
        Ok(Some(quirks).filter(|quirks| *quirks != Self::NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(preset: Preset, names: &[&str], expect: &Result<Option<Quirks>, UnknownQuirk>) {
        let model = ModelSettings {
            preset,
            quirks: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(&Quirks::of(&model), expect);
    }

    #[test]
    fn quirks_of_a_scenario() {
        use Preset::{AsReleased, Corrected, Paper};
        let twice = Quirks {
            victim_drawn_twice: true,
            ..Quirks::NONE
        };
        check(Corrected, &[], &Ok(None));
        check(Paper, &[], &Ok(None));
        check(AsReleased, &[], &Ok(Some(Quirks::RELEASED)));
        check(Paper, &["victim_drawn_twice"], &Ok(Some(twice)));
        check(
            AsReleased,
            &["victim_drawn_twice"],
            &Ok(Some(Quirks::RELEASED)),
        );
        let all: Vec<_> = Quirks::names().collect();
        check(Paper, &all, &Ok(Some(Quirks::RELEASED)));
        let name = "victim_drawn_thrice".to_owned();
        check(Paper, &["victim_drawn_thrice"], &Err(UnknownQuirk { name }));
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_there_are() {
        let name = "speed".to_owned();
        let text = UnknownQuirk { name }.to_string();
        assert!(
            text.contains("\"speed\"") && text.contains("setup_drop_unheard"),
            "{text}"
        );
    }
}
