// SPDX-License-Identifier: Apache-2.0
//! Spans as whole numbers in stored records and in JSON, for serde's `with`: each module is named by its unit.

/// Milliseconds, 32 bits.
pub mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the number, rounded down.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        u32::try_from(span.as_millis()).unwrap_or(u32::MAX).serialize(to)
    }

    /// Reads the number.
    ///
    /// # Errors
    /// It is not a whole number of 32 bits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_millis(u32::deserialize(from)?.into()))
    }
}

/// Microseconds, 32 bits.
pub mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the number, rounded down.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        u32::try_from(span.as_micros()).unwrap_or(u32::MAX).serialize(to)
    }

    /// Reads the number.
    ///
    /// # Errors
    /// It is not a whole number of 32 bits.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_micros(u32::deserialize(from)?.into()))
    }
}

/// Microseconds, or nothing.
pub mod optional_micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the number, rounded down, or null.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        span.map(|span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX)).serialize(to)
    }

    /// Reads the number or null.
    ///
    /// # Errors
    /// It is neither null nor a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_micros))
    }
}

/// Nanoseconds.
pub mod nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes the number.
    ///
    /// # Errors
    /// Those of the format.
    pub fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        crate::nanos(*span).serialize(to)
    }

    /// Reads the number.
    ///
    /// # Errors
    /// It is not a whole number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Ok(Duration::from_nanos(u64::deserialize(from)?))
    }
}

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
