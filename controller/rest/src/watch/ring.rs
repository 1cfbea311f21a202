// SPDX-License-Identifier: Apache-2.0
//! The last changes of one kind of resource, serialised once, for any number of watchers.
//!
//! A watcher is a number, its cursor: how many changes it has been sent. It has no queue, so a slow one costs nothing: it falls out.
//!
//! ```text
//! forgotten | oldest kept ... newest published | not published yet
//!           ^ cursors from here on can continue; those before have fallen out
//! ```

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use axum::body::Bytes;
use canopy_controller_core::tenant::Scope;
use tokio::sync::watch;

use super::frame::{Change, frame};

/// Changes that a watcher gets at once: it holds so many while its connection takes none.
const BATCH: usize = 64;
/// The same in octets; a single change may be larger.
const BATCH_OCTETS: usize = 256 << 10;

/// What a ring keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) changes: usize,
    /// Except for the newest change, which may be larger.
    pub(crate) octets: usize,
}

pub(crate) const BOUNDS: Bounds = Bounds { changes: 16_384, octets: 64 << 20 };

/// The tenant that a change belongs to; `None`: the domain, of which the watchers of tenants get nothing.
pub(crate) type Owner = Option<Arc<str>>;

/// The ring. One task writes it.
pub(crate) struct Ring {
    /// Names this ring: no other one, of another kind or of an earlier process, has the same.
    boot: u64,
    bounds: Bounds,
    kept: RwLock<Kept>,
    published: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    /// How many changes there were, forgotten ones included.
    newest: u64,
    frames: VecDeque<(Owner, Bytes)>,
    octets: usize,
    mark: u64,
}

/// The cursor's next change is not kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Ring {
    pub(crate) fn new(bounds: Bounds) -> Self {
        // Keys of the standard library's hashes are random, and differ from one to the next.
        let boot = RandomState::new().hash_one(());
        Self { boot, bounds, kept: RwLock::default(), published: watch::Sender::new(0) }
    }

    /// Adds a change. Watchers see it after [`Ring::publish`].
    pub(crate) fn push(&self, change: Change, owner: Owner, json: &[u8]) {
        let sequence = self.kept().newest + 1;
        let frame = frame(change.name(), Some(&self.token(sequence)), json);
        let mut kept = self.kept_mut();
        kept.newest = sequence;
        kept.octets += frame.len();
        kept.frames.push_back((owner, frame));
        while kept.frames.len() > self.bounds.changes || (kept.octets > self.bounds.octets && kept.frames.len() > 1) {
            let oldest = kept.frames.pop_front();
            kept.octets -= oldest.map_or(0, |(_, frame)| frame.len());
        }
    }

    /// Wakes the watchers, if there is a change. `mark` is up to where the source is in the ring.
    pub(crate) fn publish(&self, mark: u64) {
        let newest = {
            let mut kept = self.kept_mut();
            kept.mark = mark;
            kept.newest
        };
        self.published.send_if_modified(|known| std::mem::replace(known, newest) != newest);
    }

    /// Forgets every change, and counts one that no watcher gets: all cursors of before have fallen out.
    pub(crate) fn forget(&self) {
        let mut kept = self.kept_mut();
        kept.newest += 1;
        kept.octets = 0;
        kept.frames.clear();
    }

    /// The cursor of a watcher that begins now, and the mark there.
    pub(crate) fn now(&self) -> (u64, u64) {
        let kept = self.kept();
        (kept.newest, kept.mark)
    }

    /// Changes within the scope behind the cursor, and the cursor behind them; none if there is none.
    ///
    /// Of changes outside of the scope it examines what the ring keeps, each once: their owners alone.
    pub(crate) fn after(&self, cursor: u64, scope: &Scope) -> Result<(Vec<Bytes>, u64), Gone> {
        let kept = self.kept();
        let missing = kept.newest.checked_sub(cursor).and_then(|n| usize::try_from(n).ok()).ok_or(Gone)?;
        let skipped = kept.frames.len().checked_sub(missing).ok_or(Gone)?;
        let (mut frames, mut octets, mut examined) = (Vec::new(), 0, 0);
        for (owner, frame) in kept.frames.range(skipped..) {
            if scope.has_of(owner.as_deref()) {
                octets += frame.len();
                if frames.len() == BATCH || (octets > BATCH_OCTETS && !frames.is_empty()) {
                    break;
                }
                frames.push(frame.clone());
            }
            examined += 1;
        }
        Ok((frames, cursor + examined))
    }

    /// Notes every [`Ring::publish`] with a change.
    pub(crate) fn published(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// The cursor, for a client.
    pub(crate) fn token(&self, cursor: u64) -> String {
        format!("{:016x}.{cursor}", self.boot)
    }

    /// The cursor of a token; `Ok(None)` if it is of another ring.
    ///
    /// # Errors
    /// The text is not a token.
    pub(crate) fn cursor(&self, token: &str) -> Result<Option<u64>, String> {
        let malformed = || {
            format!("{token:?} is not a token of this API: use the id of the last event, or leave it out to begin anew")
        };
        let (boot, cursor) = token.split_once('.').ok_or_else(malformed)?;
        let boot = u64::from_str_radix(boot, 16).map_err(|_| malformed())?;
        let cursor = cursor.parse().map_err(|_| malformed())?;
        Ok((boot == self.boot).then_some(cursor))
    }

    fn kept(&self) -> RwLockReadGuard<'_, Kept> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept_mut(&self) -> RwLockWriteGuard<'_, Kept> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(changes: usize, octets: usize) -> Ring {
        Ring::new(Bounds { changes, octets })
    }

    fn push(ring: &Ring, numbers: std::ops::RangeInclusive<u64>) {
        numbers.for_each(|n| ring.push(Change::Modified, None, n.to_string().as_bytes()));
        ring.publish(0);
    }

    fn data(ring: &Ring, cursor: u64) -> Result<Vec<u64>, Gone> {
        let (frames, _) = ring.after(cursor, &Scope::Domain)?;
        let number = |frame: &Bytes| {
            let text = std::str::from_utf8(frame).unwrap();
            text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().parse().unwrap()
        };
        Ok(frames.iter().map(number).collect())
    }

    /// Catches a cursor that skips or repeats a change at the edge of what is kept.
    #[test]
    fn a_cursor_continues_until_its_next_change_is_forgotten() {
        let ring = small(4, 1 << 20);
        assert_eq!(data(&ring, 0), Ok(vec![]));
        assert_eq!(data(&ring, 1), Err(Gone), "a cursor of the future is none of this ring");
        push(&ring, 1..=4);
        assert_eq!(data(&ring, 0), Ok(vec![1, 2, 3, 4]));
        push(&ring, 5..=6);
        assert_eq!(data(&ring, 1), Err(Gone));
        assert_eq!(data(&ring, 2), Ok(vec![3, 4, 5, 6]));
        assert_eq!(data(&ring, 6), Ok(vec![]));
        assert_eq!(ring.now(), (6, 0));
        ring.forget();
        assert_eq!((data(&ring, 6), data(&ring, 7)), (Err(Gone), Ok(vec![])));
        push(&ring, 8..=8);
        assert_eq!(data(&ring, 7), Ok(vec![8]));
    }

    /// Catches a ring of few large changes that grows without a bound, and one that loses its only change.
    #[test]
    fn octets_are_bounded_and_the_newest_is_kept() {
        let ring = small(100, 4096);
        let large = vec![b'7'; 1000];
        (0..10).for_each(|_| ring.push(Change::Added, None, &large));
        assert!(ring.kept().octets <= 4096 && ring.kept().frames.len() == 3);
        assert_eq!(ring.after(6, &Scope::Domain), Err(Gone));
        assert_eq!(ring.after(7, &Scope::Domain).unwrap().0.len(), 3);
        ring.push(Change::Added, None, &vec![b'7'; 10_000]);
        assert_eq!((ring.after(10, &Scope::Domain).unwrap().0.len(), ring.after(9, &Scope::Domain)), (1, Err(Gone)));
        push(&ring, 1..=1);
        assert_eq!(ring.kept().octets, ring.after(11, &Scope::Domain).unwrap().0[0].len());
    }

    /// Catches a batch that holds megabytes for a watcher that does not read.
    #[test]
    fn a_batch_is_bounded_and_the_next_one_continues_it() {
        let ring = small(1000, 1 << 30);
        push(&ring, 1..=100);
        let (first, cursor) = ring.after(0, &Scope::Domain).unwrap();
        assert_eq!((first.len(), cursor), (BATCH, BATCH as u64));
        assert_eq!(data(&ring, cursor).unwrap(), (65..=100).collect::<Vec<_>>());
        (0..3).for_each(|_| ring.push(Change::Added, None, &vec![b'7'; BATCH_OCTETS / 2]));
        assert_eq!(ring.after(100, &Scope::Domain).unwrap().1, 101);
        ring.push(Change::Added, None, &vec![b'7'; BATCH_OCTETS * 2]);
        assert_eq!(ring.after(103, &Scope::Domain).unwrap().1, 104);
    }

    /// Catches a token of another kind or process that is taken for a cursor of this ring.
    #[test]
    fn tokens_are_of_one_ring() {
        let (ring, other) = (small(4, 100), small(4, 100));
        assert_eq!(ring.cursor(&ring.token(7)), Ok(Some(7)));
        assert_eq!(ring.cursor(&other.token(7)), Ok(None));
        for bad in ["", "7", "x.7", "1.x", "1.-1", "1.2.3"] {
            assert!(ring.cursor(bad).unwrap_err().contains(&format!("{bad:?}")), "{bad}");
        }
    }

    /// Catches watchers that are woken for nothing.
    #[test]
    fn watchers_are_woken_once_per_publication() {
        let ring = small(4, 1 << 20);
        let mut published = ring.published();
        ring.push(Change::Added, None, b"1");
        ring.push(Change::Added, None, b"2");
        assert!(!published.has_changed().unwrap());
        ring.publish(3);
        assert_eq!((*published.borrow_and_update(), ring.now()), (2, (2, 3)));
        ring.publish(4);
        assert!(!published.has_changed().unwrap());
    }

    /// Catches a change of another tenant, one of the domain that a tenant gets, and a watcher that falls out because others change.
    #[test]
    fn watchers_of_a_tenant_get_its_changes_and_pass_over_those_of_others() {
        let ring = small(300, 1 << 20);
        let acme = Scope::Tenants(["acme".to_owned()].into());
        for (number, owner) in [Some("acme"), None, Some("other"), Some("acme"), Some("other")].into_iter().enumerate()
        {
            ring.push(Change::Added, owner.map(Arc::from), number.to_string().as_bytes());
        }
        let of = |cursor, scope: &Scope| {
            let (frames, cursor) = ring.after(cursor, scope).unwrap();
            let data =
                |frame: &Bytes| std::str::from_utf8(frame).unwrap().split("data: ").nth(1).unwrap().trim().to_owned();
            (frames.iter().map(data).collect::<Vec<_>>().join(" "), cursor)
        };
        assert_eq!(of(0, &acme), ("0 3".into(), 5));
        assert_eq!(of(1, &acme), ("3".into(), 5));
        assert_eq!(of(0, &Scope::Domain), ("0 1 2 3 4".into(), 5));
        assert_eq!(of(4, &acme), (String::new(), 5), "the cursor passes over what is of others");
        (0..200).for_each(|_| ring.push(Change::Added, Some("acme".into()), b"x"));
        assert_eq!(of(5, &acme).1, 5 + BATCH as u64);
    }
}
