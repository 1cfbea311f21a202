// SPDX-License-Identifier: Apache-2.0
//! Types of values that a file writes one way and a variable another.

use crate::socket;

/// For serde's `deserialize_with`: a list, or its items in one text between commas, each parsed by [`std::str::FromStr`].
///
/// # Errors
/// An item cannot be parsed.
pub fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected a list, or its items between commas")]
    enum Written {
        Text(String),
        Number(u64),
        List(Vec<Item>),
    }
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected a text or a number")]
    enum Item {
        Text(String),
        Number(u64),
    }
    let items: Vec<String> = match serde::Deserialize::deserialize(from)? {
        Written::Text(text) => {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        }
        Written::Number(number) => vec![number.to_string()],
        Written::List(list) => list
            .into_iter()
            .map(|item| match item {
                Item::Text(text) => text,
                Item::Number(number) => number.to_string(),
            })
            .collect(),
    };
    let parse = |item: &String| item.parse().map_err(|why| serde::de::Error::custom(format_args!("{item:?}: {why}")));
    items.iter().map(parse).collect()
}

/// For serde's `deserialize_with`: as [`list`], of users of this machine by their names or numbers. The values are their numbers.
///
/// # Errors
/// This machine has no such user.
pub fn users<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
    numbers(from, socket::user)
}

/// For serde's `deserialize_with`: the same of groups.
///
/// # Errors
/// This machine has no such group.
pub fn groups<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
    let number = |name: &str| socket::group(name)?.ok_or_else(|| "a group has a name or a number".to_owned());
    numbers(from, number)
}

fn numbers<'de, D: serde::Deserializer<'de>>(
    from: D,
    number: impl Fn(&str) -> Result<u32, String>,
) -> Result<Vec<u32>, D::Error> {
    let names: Vec<String> = list(from)?;
    names.iter().map(|name| number(name).map_err(serde::de::Error::custom)).collect()
}

/// For serde's `with`: a value whose text has items between commas, which a file may also write as a list.
pub mod joined {
    pub use super::text::serialize;

    /// # Errors
    /// The text, or the items of the list between commas, cannot be parsed.
    pub fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
    where
        D: serde::Deserializer<'de>,
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let items: Vec<String> = super::list(from)?;
        items.join(",").parse().map_err(serde::de::Error::custom)
    }
}

/// For serde's `with`: a value that is written as its text.
pub mod text {
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: serde::Serializer>(value: &impl std::fmt::Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    /// # Errors
    /// The text cannot be parsed.
    pub fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
    where
        D: serde::Deserializer<'de>,
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let text = <String as serde::Deserialize>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
