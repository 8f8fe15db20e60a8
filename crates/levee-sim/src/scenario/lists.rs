//! A list where one value could stand: it is swept.

use std::fmt;
use std::marker::PhantomData;

use levee_config::Document;
use levee_config::Problems;
use levee_policy::selective::{Config, Strategy};
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, SeqAccess,
    Visitor,
};

/// One value, or a list of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OneOrMany<T> {
    pub(super) values: Vec<T>,
    pub(super) is_list: bool,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One<T>(PhantomData<T>);

        impl<T> One<T> {
            fn of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMany<T>, D::Error>
            where
                T: Deserialize<'de>,
            {
                T::deserialize(deserializer).map(|value| OneOrMany {
                    values: vec![value],
                    is_list: false,
                })
            }
        }

        impl<'de, T: Deserialize<'de>> Visitor<'de> for One<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value, or a list of them")
            }

            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Self::Value, E> {
                Self::of(v.into_deserializer())
            }

            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Self::Value, E> {
                Self::of(v.into_deserializer())
            }

            fn visit_str<E: de::Error>(self, v: &str) -> Result<Self::Value, E> {
                Self::of(v.into_deserializer())
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Self::of(MapAccessDeserializer::new(map))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    values.push(value);
                }
                Ok(OneOrMany {
                    values,
                    is_list: true,
                })
            }
        }

        deserializer.deserialize_any(One(PhantomData))
    }
}

/// The `[defense]` table, once for each strategy if `strategy` is a list; and whether it is one.
pub(super) fn defenses(document: &Document<'_>) -> Result<(Vec<Config>, bool), Problems> {
    if document.len("defense.strategy") == 0 {
        return Ok((vec![document.read("defense")?], false));
    }
    let strategies: Vec<Strategy> = document.read("defense.strategy")?;
    let WithoutStrategy(base) = document.read("defense")?;
    let with = |strategy| Config {
        strategy,
        ..base.clone()
    };
    Ok((strategies.into_iter().map(with).collect(), true))
}

/// A `[defense]` table whose `strategy` is passed over.
struct WithoutStrategy(Config);

impl<'de> Deserialize<'de> for WithoutStrategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = Config;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Config, A::Error> {
                Config::deserialize(MapAccessDeserializer::new(PassOver(map)))
            }
        }
        deserializer.deserialize_map(Table).map(Self)
    }
}

struct PassOver<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for PassOver<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.0.next_key::<String>()? {
            if key == "strategy" {
                self.0.next_value::<de::IgnoredAny>()?;
            } else {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}
