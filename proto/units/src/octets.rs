// SPDX-License-Identifier: Apache-2.0
//! Sizes.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul};

/// A size or a count of octets. Sums and products stop at [`Octets::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Octets(pub u64);

impl Octets {
    /// No octet.
    pub const ZERO: Self = Self(0);
    /// The largest number; also "no limit" where a caller documents it.
    pub const MAX: Self = Self(u64::MAX);

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self` less `other`, at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self` less `other`; `None` if `other` is more.
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(left) => Some(Self(left)),
            None => None,
        }
    }
}

impl Add for Octets {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Octets {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Mul<u64> for Octets {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }
}

/// Rounded down; by zero, [`Octets::MAX`].
impl Div<u64> for Octets {
    type Output = Self;
    fn div(self, divisor: u64) -> Self {
        Self(self.0.checked_div(divisor).unwrap_or(u64::MAX))
    }
}

impl Sum for Octets {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

/// The number alone: messages name the unit.
impl fmt::Display for Octets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stop_at_the_ends() {
        assert_eq!(Octets(1) + Octets::MAX, Octets::MAX);
        assert_eq!(Octets(1).saturating_sub(Octets(2)), Octets::ZERO);
        assert_eq!((Octets(3).checked_sub(Octets(2)), Octets(1).checked_sub(Octets(2))), (Some(Octets(1)), None));
        assert_eq!((Octets::MAX * 2, Octets(7) / 2, Octets(7) / 0), (Octets::MAX, Octets(3), Octets::MAX));
        assert_eq!([Octets(1), Octets(2)].into_iter().sum::<Octets>().to_string(), "3");
    }
}
