// SPDX-License-Identifier: Apache-2.0
//! Errors of parsing and encoding. Both name the header and the field.

use core::fmt;

/// Octets that are not a valid header of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseError {
    /// The header, as its specification calls it, e.g. `SRH`.
    pub header: &'static str,
    /// The field of that header, e.g. `Last Entry`.
    pub field: &'static str,
    /// The error in the field.
    pub problem: Problem,
}

/// A value that has no encoding, or a buffer that cannot hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmitError {
    /// The header, as its specification calls it.
    pub header: &'static str,
    /// The field of that header, or `buffer`.
    pub field: &'static str,
    /// The error in the field.
    pub problem: Problem,
}

/// An error in a field. Lengths are in octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The field ends after the last octet given.
    Truncated {
        /// Octets that the header needs up to the end of this field.
        needed: usize,
        /// Octets present.
        available: usize,
    },
    /// The field has one valid value only, and this is not it.
    Expected {
        /// The only acceptable value.
        expected: u64,
        /// The value found.
        found: u64,
    },
    /// The value is outside the field's range.
    OutOfRange {
        /// Smallest acceptable value.
        min: u64,
        /// Largest acceptable value.
        max: u64,
        /// The value found.
        found: u64,
    },
    /// The field is required for this packet, and is absent.
    Missing,
    /// The field is not allowed for this packet, or not twice.
    Unwanted,
    /// The value has no assigned meaning that this crate supports.
    Unsupported {
        /// The value found.
        found: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { needed, available } => {
                write!(f, "needs {needed} octets, only {available} are there")
            }
            Self::Expected { expected, found } => write!(f, "must be {expected}, is {found}"),
            Self::OutOfRange { min, max, found } => {
                write!(f, "must be in {min}..={max}, is {found}")
            }
            Self::Missing => f.write_str("must be present in this packet, is not"),
            Self::Unwanted => f.write_str("must not be present, or not twice, in this packet"),
            Self::Unsupported { found } => write!(f, "value {found} is not supported"),
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot parse {}: {}: {}", self.header, self.field, self.problem)
    }
}

impl fmt::Display for EmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot emit {}: {}: {}", self.header, self.field, self.problem)
    }
}

impl core::error::Error for ParseError {}
impl core::error::Error for EmitError {}

#[cfg(feature = "std")]
impl From<ParseError> for std::io::Error {
    fn from(error: ParseError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

#[cfg(feature = "std")]
impl From<EmitError> for std::io::Error {
    fn from(error: EmitError) -> Self {
        Self::new(std::io::ErrorKind::InvalidInput, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_message_names_header_field_and_remedy() {
        let error =
            ParseError { header: "BTH", field: "PSN", problem: Problem::Truncated { needed: 12, available: 3 } };
        assert_eq!(error.to_string(), "cannot parse BTH: PSN: needs 12 octets, only 3 are there");
    }

    #[test]
    fn every_problem_has_a_message_of_its_own() {
        for (problem, message) in [
            (Problem::Expected { expected: 6, found: 4 }, "must be 6, is 4"),
            (Problem::OutOfRange { min: 1, max: 127, found: 128 }, "must be in 1..=127, is 128"),
            (Problem::Missing, "must be present in this packet, is not"),
            (Problem::Unwanted, "must not be present, or not twice, in this packet"),
            (Problem::Unsupported { found: 21 }, "value 21 is not supported"),
        ] {
            let error = EmitError { header: "SRH", field: "Segment List", problem };
            assert_eq!(error.to_string(), std::format!("cannot emit SRH: Segment List: {message}"));
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn an_io_error_is_of_the_data_or_of_the_input_and_keeps_the_message() {
        use std::io::{Error, ErrorKind};
        let parse = ParseError { header: "CNP", field: "length", problem: Problem::Missing };
        let emit = EmitError { header: "CNP", field: "buffer", problem: Problem::Missing };
        let (data, input) = (Error::from(parse), Error::from(emit));
        assert_eq!((data.kind(), data.to_string()), (ErrorKind::InvalidData, parse.to_string()));
        assert_eq!((input.kind(), input.to_string()), (ErrorKind::InvalidInput, emit.to_string()));
    }
}
