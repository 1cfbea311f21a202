// SPDX-License-Identifier: Apache-2.0
//! Spans as whole numbers in stored records and in JSON, for serde's `with`: each module is named by its unit.

/// Nanoseconds, or nothing.
pub mod optional_nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the number, or null.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        span.map(crate::nanos).serialize(to)
    }

    /// Reads the number or null.
    ///
    /// # Errors
    /// It is neither null nor a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
    }
}
