// SPDX-License-Identifier: Apache-2.0
//! Values above [`WHOLE_OCTETS`] in pages, so that a change of a large value writes the pages that it changes.
//!
//! ```text
//! store/page/<SHA-256>   the octets of a page
//! store/pages/<key>      the digests of the pages of the value of <key>, in order; nothing is at <key> itself
//! ```
//!
//! Where a page ends follows from its content (FastCDC), so that what is put in at one place moves the end of few pages; a page has the name of
//! its content, so that values share the pages that they have in common: a topology, and the one before it. Pages come and go with the
//! values, in their transactions.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use fastcdc::v2020::FastCDC;
use sha2::{Digest as _, Sha256};

use crate::Op;
use crate::engine::{Engine, EngineError};

/// What begins with this is no key of a caller.
pub(crate) const OWN: &str = "store/";
/// The least key behind those.
const BEHIND_OWN: &str = "store0";
const PAGE: &str = "store/page/";
const PAGES: &str = "store/pages/";
/// A value of more octets is kept in pages. Versions that do not know pages have no larger ones.
pub(crate) const WHOLE_OCTETS: usize = 1 << 20;
/// Octets of a page: at least, on average, and at most.
const PAGE_OCTETS: [usize; 3] = [16 << 10, 64 << 10, 256 << 10];
const DIGEST_OCTETS: usize = 32;

type Digest = [u8; DIGEST_OCTETS];
/// The pages of values that are written in pages; `None` of those that are not any more.
type Values = BTreeMap<String, Option<Vec<Digest>>>;

/// Which values are in pages, and which pages there are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    values: BTreeMap<String, Vec<Digest>>,
    /// How often the values have each page.
    uses: HashMap<Digest, u32>,
}

/// What a transaction does to the database, and then to [`Pages`].
#[derive(Default)]
pub(crate) struct Turned<'a> {
    pub(crate) ops: Cow<'a, [Op]>,
    pub(crate) values: Values,
}

impl Turned<'_> {
    /// Octets of the values written.
    pub(crate) fn octets(&self) -> u64 {
        self.ops.iter().map(|op| op.octets() as u64).sum()
    }

    /// Writes what versions without pages do not read.
    pub(crate) fn has_pages(&self) -> bool {
        self.values.values().any(Option::is_some)
    }
}

impl Pages {
    /// From all entries of a database.
    ///
    /// # Errors
    /// A value lacks a page, or a page has another digest than its name.
    pub(crate) fn of(entries: &[(String, Vec<u8>)]) -> Result<Self, EngineError> {
        let mut pages = Self::default();
        for (key, value) in entries {
            if let Some(name) = key.strip_prefix(PAGE) {
                let digest = digest_of(value);
                if hex::encode(digest) != name {
                    return Err(EngineError::damage(format!("page {name} has another digest")));
                }
                pages.uses.insert(digest, 0);
            }
        }
        for (key, value) in entries.iter().filter_map(|(key, value)| Some((key.strip_prefix(PAGES)?, value))) {
            let (digests, rest) = value.as_chunks::<DIGEST_OCTETS>();
            for digest in digests {
                let lost = || EngineError::damage(format!("the value of {key:?} lacks page {}", hex::encode(digest)));
                *pages.uses.get_mut(digest).ok_or_else(lost)? += 1;
            }
            if !rest.is_empty() {
                return Err(EngineError::damage(format!("the list of the pages of {key:?} is cut")));
            }
            pages.values.insert(key.to_owned(), digests.to_vec());
        }
        Ok(pages)
    }

    /// No value is in pages.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The transaction as the database carries it out.
    pub(crate) fn turn<'a>(&self, ops: &'a [Op]) -> Turned<'a> {
        let concerns = |op: &Op| op.octets() > WHOLE_OCTETS || self.values.contains_key(op.key());
        if !ops.iter().any(concerns) {
            return Turned { ops: Cow::Borrowed(ops), values: BTreeMap::new() };
        }
        // The last operation on a key wins.
        let last: BTreeMap<&str, &Op> = ops.iter().map(|op| (op.key(), op)).collect();
        let (mut turned, mut values) = (Vec::new(), BTreeMap::new());
        let mut contents: HashMap<Digest, &[u8]> = HashMap::new();
        for (key, op) in last {
            match op {
                Op::Put { value, .. } if value.len() > WHOLE_OCTETS => {
                    let digests = cut(value).map(|page| {
                        let digest = digest_of(page);
                        contents.insert(digest, page);
                        digest
                    });
                    let digests: Vec<Digest> = digests.collect();
                    turned.push(Op::Put { key: format!("{PAGES}{key}"), value: digests.concat() });
                    turned.push(Op::Delete { key: key.to_owned() });
                    values.insert(key.to_owned(), Some(digests));
                    continue;
                }
                op => turned.push(op.clone()),
            }
            if self.values.contains_key(key) {
                turned.push(Op::Delete { key: format!("{PAGES}{key}") });
                values.insert(key.to_owned(), None);
            }
        }
        for (digest, (were, are)) in self.uses_with(&values) {
            let key = || format!("{PAGE}{}", hex::encode(digest));
            match contents.get(&digest) {
                Some(page) if were == 0 && are > 0 => turned.push(Op::Put { key: key(), value: page.to_vec() }),
                _ if were > 0 && are == 0 => turned.push(Op::Delete { key: key() }),
                _ => {}
            }
        }
        Turned { ops: Cow::Owned(turned), values }
    }

    /// Takes note of a transaction that was carried out.
    pub(crate) fn keep(&mut self, values: Values) {
        for (digest, (_, are)) in self.uses_with(&values) {
            if are == 0 {
                self.uses.remove(&digest);
            } else {
                self.uses.insert(digest, are);
            }
        }
        for (key, digests) in values {
            match digests {
                Some(digests) => _ = self.values.insert(key, digests),
                None => _ = self.values.remove(&key),
            }
        }
    }

    /// Of each page that these values concern: how often it is used, and how often with them.
    fn uses_with(&self, values: &Values) -> HashMap<Digest, (u32, u32)> {
        let mut uses = HashMap::new();
        let present = |digest: &Digest| self.uses.get(digest).copied().unwrap_or(0);
        for digest in values.values().flatten().flatten() {
            uses.entry(*digest).or_insert_with(|| (present(digest), present(digest))).1 += 1;
        }
        for digest in values.keys().filter_map(|key| self.values.get(key)).flatten() {
            uses.entry(*digest).or_insert_with(|| (present(digest), present(digest))).1 -= 1;
        }
        uses
    }

    /// Adds the values in pages whose keys begin with `prefix` to entries of the database, and leaves out what is the store's own.
    ///
    /// # Errors
    /// The database lacks a page.
    pub(crate) fn join(
        &self,
        prefix: &str,
        entries: Vec<(String, Vec<u8>)>,
        engine: &dyn Engine,
    ) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        if self.is_empty() {
            return Ok(entries);
        }
        // All entries have the pages, too: they are not read a second time.
        let (own, mut entries): (HashMap<String, Vec<u8>>, Vec<_>) = {
            let (own, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(key, _)| key.starts_with(OWN));
            (own.into_iter().collect(), others)
        };
        let values = self.values.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        for (key, digests) in values {
            entries.push((key.clone(), value(digests, &own, engine)?));
        }
        // Two sorted runs.
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(entries)
    }

    /// The newest `limit` entries of which the keys are in `from..to`, the highest key first.
    ///
    /// # Errors
    /// The database cannot be read, or lacks a page.
    pub(crate) fn newest(
        &self,
        (from, to): (&str, &str),
        limit: usize,
        engine: &dyn Engine,
    ) -> Result<Vec<(String, Vec<u8>)>, EngineError> {
        // Above what is the store's own, then below it.
        let above = from.max(BEHIND_OWN);
        let mut entries = if above < to { engine.newest(above, to, limit)? } else { Vec::new() };
        let below = to.min(OWN);
        if from < below {
            entries.extend(engine.newest(from, below, limit - entries.len())?);
        }
        let values = self.values.range::<str, _>((std::ops::Bound::Included(from), std::ops::Bound::Excluded(to)));
        for (key, digests) in values.rev().take(limit) {
            let at = entries.partition_point(|(other, _)| other > key);
            if at < limit {
                entries.insert(at, (key.clone(), value(digests, &HashMap::new(), engine)?));
                entries.truncate(limit);
            }
        }
        Ok(entries)
    }
}

/// The value of these pages, each from `known` or from the database.
fn value(digests: &[Digest], known: &HashMap<String, Vec<u8>>, engine: &dyn Engine) -> Result<Vec<u8>, EngineError> {
    let mut value = Vec::new();
    for digest in digests {
        let key = format!("{PAGE}{}", hex::encode(digest));
        match known.get(&key) {
            Some(page) => value.extend(page),
            None => {
                let page = engine.entries(&key)?.pop();
                let (_, page) = page.ok_or_else(|| EngineError::damage(format!("{key} is missing")))?;
                value.extend(page);
            }
        }
    }
    Ok(value)
}

fn digest_of(page: &[u8]) -> Digest {
    Sha256::digest(page).into()
}

/// The pages of a value.
fn cut(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let [min, average, max] = PAGE_OCTETS;
    FastCDC::new(value, min, average, max).map(|chunk| &value[chunk.offset..chunk.offset + chunk.length])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmbeddedStore, EngineKind, Store, StoreError};

    /// A document of `items`, as a topology is one.
    fn document(items: impl Iterator<Item = u64>) -> Vec<u8> {
        let item = |n: u64| {
            format!(
                "{{\"a\":\"leaf{n}\",\"b\":\"spine{}\",\"id\":\"{:016x}\"}},",
                n % 61,
                n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            )
        };
        items.map(item).collect::<String>().into_bytes()
    }

    fn put(key: &str, value: &[u8]) -> Op {
        Op::Put { key: key.into(), value: value.into() }
    }

    /// Octets that a change writes where the value was `old`.
    fn written(old: &[u8], new: &[u8]) -> u64 {
        let mut pages = Pages::default();
        let before = [put("topology", old)];
        let values = pages.turn(&before).values;
        pages.keep(values);
        pages.turn(&[put("topology", new)]).octets()
    }

    /// Catches a link that comes to a topology of 100,000 and writes all of it.
    #[test]
    fn a_change_of_a_large_value_writes_the_pages_that_it_changes() {
        let whole = document(0..100_000);
        let all = written(&[], &whole);
        assert!(all > whole.len() as u64, "{all}");
        let [_, _, largest] = PAGE_OCTETS.map(|octets| octets as u64);
        let list = whole.len() as u64 / (PAGE_OCTETS[0] as u64) * DIGEST_OCTETS as u64;
        for at in [0, 1, 49_999, 99_999] {
            let without = document((0..100_000).filter(|n| *n != at));
            for (old, new) in [(&whole, &without), (&without, &whole)] {
                let octets = written(old, new);
                assert!(octets <= 3 * largest + list, "{at}: {octets} of {all}");
            }
        }
        // A value that is not as it was only in its last item, beside it.
        let mut pages = Pages::default();
        let ops = [put("topology", &whole), put("version", &document((0..99_999).chain([7])))];
        let octets = pages.turn(&ops).octets();
        assert!(octets < all + 3 * largest + list, "{octets}, one is {all}");
        let values = pages.turn(&ops).values;
        pages.keep(values);
        assert!(pages.uses.values().filter(|uses| **uses == 2).count() > 20);
    }

    /// Everything in the database of a store of this kind in `dir`.
    fn raw(dir: &std::path::Path, kind: EngineKind) -> Vec<(String, Vec<u8>)> {
        kind.open(&dir.join(kind.dir())).unwrap().entries("").unwrap()
    }

    /// Catches pages that stay when no value has them any more, and those that go although one has.
    #[test]
    fn pages_go_with_the_last_value_that_has_them() {
        for kind in EngineKind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let (first, second) = (document(0..40_000), document((0..40_000).filter(|n| *n != 20_000)));
            let steps: [(&[Op], usize); 6] = [
                (&[put("a", &first), put("b", &second)], 2),
                (&[put("a", &second)], 2),
                (&[put("b", b"small")], 1),
                (&[Op::Delete { key: "a".into() }, put("b", &first)], 1),
                (&[put("b", &second), put("b", &first)], 1),
                (&[Op::Delete { key: "b".into() }], 0),
            ];
            for (at, (ops, values)) in steps.into_iter().enumerate() {
                let store = EmbeddedStore::open(dir.path(), kind).unwrap();
                store.commit(at as u64, ops).unwrap();
                drop(store);
                let entries = raw(dir.path(), kind);
                let pages = Pages::of(&entries).unwrap();
                assert_eq!(pages.values.len(), values, "{kind}, step {at}");
                assert!(pages.uses.values().all(|uses| *uses > 0), "{kind}, step {at}: a page that nothing has");
                let most = entries.iter().map(|(_, value)| value.len()).max().unwrap_or(0);
                assert!(most <= PAGE_OCTETS[2], "{kind}, step {at}: {most} octets");
            }
            assert_eq!(raw(dir.path(), kind), []);
        }
    }

    #[test]
    fn a_page_that_is_missing_or_another_one_is_damage() {
        let mut engine = EngineKind::Redb.open(&tempfile::tempdir().unwrap().path().join("db")).unwrap();
        let ops = [put("a", &document(0..40_000))];
        engine.write(1, &Pages::default().turn(&ops).ops).unwrap();
        let whole = engine.entries("").unwrap();
        Pages::of(&whole).unwrap();
        let refusal = |entries: &[(String, Vec<u8>)]| Pages::of(entries).unwrap_err().to_string();
        let page = whole.iter().position(|(key, _)| key.starts_with(PAGE)).unwrap();
        let mut without = whole.clone();
        let (lost, _) = without.remove(page);
        let lost = lost.strip_prefix(PAGE).unwrap();
        assert_eq!(refusal(&without), format!("the value of \"a\" lacks page {lost}"));
        let mut other = whole.clone();
        other[page].1[7] ^= 1;
        assert_eq!(refusal(&other), format!("page {lost} has another digest"));
        let mut cut = whole;
        cut.iter_mut().find(|(key, _)| key.starts_with(PAGES)).unwrap().1.pop();
        assert_eq!(refusal(&cut), "the list of the pages of \"a\" is cut");
    }

    /// Catches an earlier version that starts without the topology because it does not see its pages, and one that refuses a store that has none.
    #[test]
    fn an_earlier_version_refuses_a_store_with_pages_and_returns_to_what_was_before_them() {
        for kind in EngineKind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let earlier = || EmbeddedStore::open_at(dir.path(), kind, 1, 1);
            let store = EmbeddedStore::open(dir.path(), kind).unwrap();
            store.commit(0, &[put("a", &[7; WHOLE_OCTETS])]).unwrap();
            drop(store);
            assert_eq!(earlier().unwrap().commit(1, &[put("b", b"x")]).unwrap(), 2);
            let store = EmbeddedStore::open(dir.path(), kind).unwrap();
            let large = document(0..40_000);
            store.commit(2, &[put("b", &large)]).unwrap();
            store.checkpoint().unwrap();
            let exported = store.scan("").unwrap();
            drop(store);
            let refused = earlier().map(|_| ()).unwrap_err();
            assert!(matches!(refused, StoreError::LaterFormat { format: 2, .. }), "{refused}");
            // Also once no value is in pages: this version reads them, and so its backups.
            let again = EmbeddedStore::open(dir.path(), kind).unwrap();
            assert!(again.scan("").unwrap() == exported && again.recovery().is_none());
            drop(again);
            EmbeddedStore::return_as(dir.path(), kind, 1).unwrap();
            let before = earlier().unwrap().scan("").unwrap().entries;
            assert!(before == [("a".to_owned(), vec![7; WHOLE_OCTETS]), ("b".to_owned(), b"x".to_vec())], "{kind}");
        }
    }

    /// Catches a backup that lost the values in pages, or that their format keeps from being read.
    #[test]
    fn a_damaged_database_is_restored_with_its_pages() {
        for kind in EngineKind::ALL {
            let dir = tempfile::tempdir().unwrap();
            let store = EmbeddedStore::open(dir.path(), kind).unwrap();
            store.commit(0, &[put("a", &document(0..40_000)), put("b", b"x")]).unwrap();
            store.checkpoint().unwrap();
            let kept = store.scan("").unwrap().entries;
            drop(store);
            std::fs::remove_dir_all(dir.path().join(kind.dir())).unwrap();
            let store = EmbeddedStore::open(dir.path(), kind).unwrap();
            assert!(store.recovery().is_some());
            assert!(store.scan("").unwrap().entries == kept, "{kind}");
            // Its pages are known: they go with it.
            store.commit(store.revision().unwrap(), &[Op::Delete { key: "a".into() }]).unwrap();
            drop(store);
            assert_eq!(raw(dir.path(), kind), [("b".to_owned(), b"x".to_vec())]);
        }
    }
}
