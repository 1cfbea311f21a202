// SPDX-License-Identifier: Apache-2.0
//! Values that many records have in common, each kept once.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// Least number of values at which those that nothing else has are forgotten.
const LEAST: usize = 1_024;

/// Values, each of which is kept while something has it, and a while longer.
#[derive(Clone, Debug)]
pub struct Shared<T: ?Sized> {
    all: HashSet<Arc<T>>,
    /// Those that nothing else has are forgotten when there are more.
    most: usize,
}

impl<T: ?Sized> Default for Shared<T> {
    fn default() -> Self {
        Self { all: HashSet::new(), most: LEAST }
    }
}

impl<T: ?Sized + Eq + Hash> Shared<T> {
    /// The value that equals this one, as others have it.
    pub fn share<V: Borrow<T> + Into<Arc<T>>>(&mut self, value: V) -> Arc<T> {
        if let Some(there) = self.all.get(value.borrow()) {
            return Arc::clone(there);
        }
        if self.all.len() >= self.most {
            self.all.retain(|there| Arc::strong_count(there) > 1);
            self.most = LEAST.max(2 * self.all.len());
        }
        let new: Arc<T> = value.into();
        self.all.insert(Arc::clone(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_and_those_that_nothing_has_are_forgotten() {
        let mut shared = Shared::<str>::default();
        let held: Vec<Arc<str>> = (0..2 * LEAST).map(|i| shared.share(i.to_string())).collect();
        assert!(held.iter().all(|value| Arc::ptr_eq(value, &shared.share(&**value))));
        assert_eq!(shared.all.len(), 2 * LEAST);
        for i in 0..10 * LEAST {
            assert_eq!(*shared.share(format!("passing {i}")), *format!("passing {i}"));
            assert!(shared.all.len() <= 4 * LEAST, "{} values are kept", shared.all.len());
        }
        assert!(held.iter().all(|value| Arc::ptr_eq(value, &shared.share(&**value))));
    }
}
