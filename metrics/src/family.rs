// SPDX-License-Identifier: Apache-2.0
//! Families of metrics: constants, so that a sample cannot have other labels than its family.

/// Type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that rises and falls.
    Gauge,
    /// A total; its samples have the suffix `_total`.
    Counter,
    /// Text in labels; its sample has the suffix `_info` and is 1.
    Info,
    /// Observations in buckets; its samples have the suffixes `_bucket`, `_sum` and `_count`.
    Histogram,
}

impl Kind {
    /// Its name in the documentation, that of OpenMetrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Info => "info",
            Self::Histogram => "histogram",
        }
    }

    /// What the names of its samples have behind the family's; a histogram's have several.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Gauge | Self::Histogram => "",
            Self::Counter => "_total",
            Self::Info => "_info",
        }
    }
}

/// A family whose samples have `N` labels.
#[derive(Clone, Copy, Debug)]
pub struct Family<const N: usize> {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) kind: Kind,
    pub(crate) labels: [&'static str; N],
}

/// A family for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// Name without the suffix of its type.
    pub name: &'static str,
    /// What a sample is, as a sentence.
    pub help: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Names of the labels.
    pub labels: &'static [&'static str],
}

impl<const N: usize> Family<N> {
    /// A family of this type. `help` has neither a quote, a backslash nor a line break, which the formats would escape in two ways.
    pub const fn new(kind: Kind, name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        let bytes = help.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            assert!(bytes[i] != b'"' && bytes[i] != b'\\' && bytes[i] != b'\n');
            i += 1;
        }
        Self { name, help, kind, labels }
    }

    /// A gauge.
    pub const fn gauge(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self::new(Kind::Gauge, name, help, labels)
    }

    /// A counter; `name` is without `_total`.
    pub const fn counter(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self::new(Kind::Counter, name, help, labels)
    }

    /// For readers.
    pub const fn describe(&'static self) -> Description {
        Description { name: self.name, help: self.help, kind: self.kind, labels: &self.labels }
    }
}

impl Description {
    /// The name that queries have; of a histogram, the one of its buckets.
    pub fn query_name(&self) -> String {
        let suffix = if self.kind == Kind::Histogram { "_bucket" } else { self.kind.suffix() };
        format!("{}{suffix}", self.name)
    }
}
