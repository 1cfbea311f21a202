// SPDX-License-Identifier: Apache-2.0
//! Layers of the map as they were last read, so that many readers cost one pass over the fabric a second, and each gets what changed.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use canopy_controller_actor::{CommandError, Controller};
use canopy_controller_api::map::{LayerPart, MapLayer};
use canopy_controller_core::map::{Layer, LayerView};
use tokio::sync::Mutex;

use crate::error::ApiError;

/// Time between two passes over the fabric for one layer, at least. Agents report once a second.
const PACE: Duration = Duration::from_secs(1);
/// A pass takes one part of so many of the time, at most.
const PARTS: u32 = 20;
/// A change takes as many octets in JSON as this many values in base64.
const OCTETS_OF_A_CHANGE: usize = 8;

/// The layers of one controller; clones share them.
#[derive(Clone, Default)]
pub(crate) struct MapLayers([Arc<Mutex<Option<Kept>>>; Layer::ALL.len()]);

/// A layer, and when each of its values changed.
struct Kept {
    /// Names this book: revisions of another one are not known here.
    boot: u64,
    /// The next pass is made then.
    due: Instant,
    view: LayerView,
    revision: u64,
    /// The first revision since which changes are known.
    first: u64,
    /// By value: the revision that it is of.
    changed: Vec<u64>,
}

impl MapLayers {
    /// The layer, or what changed since the revision `since`; `None` before a topology was declared.
    ///
    /// # Errors
    /// 400: `since` is no revision. 503: the controller stops.
    pub(crate) async fn read(
        &self,
        controller: &Controller,
        layer: Layer,
        since: Option<&str>,
    ) -> Result<Option<MapLayer>, ApiError> {
        let since = since.map(parse).transpose()?;
        let place = Layer::ALL.iter().position(|one| *one == layer).unwrap_or_default();
        // Also for those that wait: one of them makes the pass, the others take it. It goes with the pass, which does not end with a reader
        // that goes away: there is never a second one beside it.
        let mut kept = self.0[place].clone().lock_owned().await;
        let controller = controller.clone();
        let answer = move || {
            let began = Instant::now();
            if kept.as_ref().is_none_or(|kept| began >= kept.due) {
                *kept = controller.map_layer(layer).map(|view| {
                    let due = began + PACE.max(began.elapsed() * PARTS);
                    match kept.take() {
                        Some(before) => before.next(view, due),
                        None => Kept::first(view, due),
                    }
                });
            }
            kept.as_ref().map(|kept| {
                let revision = format!("{:016x}.{}", kept.boot, kept.revision);
                MapLayer::new(layer, &kept.view, revision, kept.part(since))
            })
        };
        tokio::task::spawn_blocking(answer).await.map_err(|_| CommandError::Stopping.into())
    }
}

/// The two parts of a revision.
fn parse(text: &str) -> Result<(u64, u64), ApiError> {
    let parts = text.split_once('.').and_then(|(boot, revision)| {
        let boot = Some(boot).filter(|boot| boot.len() == 16).and_then(|boot| u64::from_str_radix(boot, 16).ok())?;
        Some((boot, revision.parse().ok()?))
    });
    parts.ok_or_else(|| {
        let detail = format!("{text:?} is no revision of a layer: use that of the last answer, or leave it out");
        ApiError::bad_request("since", detail)
    })
}

impl Kept {
    fn first(view: LayerView, due: Instant) -> Self {
        let changed = vec![0; view.values.len()];
        // Keys of the standard library's hashes are random, and differ from one to the next.
        Self { boot: RandomState::new().hash_one(()), due, view, revision: 0, first: 0, changed }
    }

    /// With what was read now. Another topology has other directions at the same places.
    fn next(mut self, view: LayerView, due: Instant) -> Self {
        if view.version != self.view.version || view.values.len() != self.view.values.len() {
            let revision = self.revision + 1;
            let changed = vec![revision; view.values.len()];
            return Self { view, due, revision, first: revision, changed, ..self };
        }
        if view.values != self.view.values {
            self.revision += 1;
            let pairs = view.values.iter().zip(&self.view.values);
            for (changed, _) in self.changed.iter_mut().zip(pairs).filter(|(_, (now, before))| now != before) {
                *changed = self.revision;
            }
        }
        Self { view, due, ..self }
    }

    fn part(&self, since: Option<(u64, u64)>) -> LayerPart {
        let values = &self.view.values;
        let known =
            since.filter(|(boot, revision)| *boot == self.boot && (self.first..=self.revision).contains(revision));
        if let Some((_, since)) = known {
            let all = self.changed.iter().zip(values).enumerate().filter(|(_, (changed, _))| **changed > since);
            let changes: Vec<[u32; 2]> = all.map(|(at, (_, value))| [at as u32, u32::from(*value)]).collect();
            if changes.len() <= values.len() / OCTETS_OF_A_CHANGE {
                return LayerPart::Changes(changes);
            }
        }
        LayerPart::Whole(STANDARD.encode(values))
    }
}

#[cfg(test)]
mod tests {
    use canopy_controller_core::map::Version;
    use canopy_controller_core::uid::Uid;

    use super::*;

    fn view(generation: u64, values: &[u8]) -> LayerView {
        LayerView { version: Version::new(Uid::default(), generation), values: values.to_vec() }
    }

    fn whole(values: &[u8]) -> LayerPart {
        LayerPart::Whole(STANDARD.encode(values))
    }

    /// Catches a change that is not sent, one that is sent twice, and changes between two topologies.
    #[test]
    fn a_reader_gets_what_changed_since_its_revision() {
        let now = Instant::now();
        let mut values = vec![0; 64];
        let kept = Kept::first(view(1, &values), now);
        let boot = kept.boot;
        assert_eq!(kept.part(None), whole(&values));
        assert_eq!(kept.part(Some((boot, 0))), LayerPart::Changes(vec![]));
        assert_eq!(kept.part(Some((boot ^ 1, 0))), whole(&values), "of a controller before this one");
        assert_eq!(kept.part(Some((boot, 1))), whole(&values), "of a revision that there was not");
        values[3] = 7;
        let kept = kept.next(view(1, &values), now);
        values[5] = 9;
        let kept = kept.next(view(1, &values), now).next(view(1, &values), now);
        assert_eq!(kept.revision, 2, "nothing changed in the third pass");
        let part = |since| kept.part(Some((boot, since)));
        assert_eq!([part(0), part(1), part(2)], [vec![[3, 7], [5, 9]], vec![[5, 9]], vec![]].map(LayerPart::Changes));
        let kept = kept.next(view(2, &values), now);
        assert_eq!(kept.part(Some((boot, 2))), whole(&values), "of another topology");
        assert_eq!(kept.part(Some((boot, 3))), LayerPart::Changes(vec![]));
    }

    /// Catches an answer that is longer than all values.
    #[test]
    fn many_changes_are_sent_whole() {
        let now = Instant::now();
        let kept = Kept::first(view(1, &[0; 64]), now);
        let boot = kept.boot;
        let kept = kept.next(view(1, &[1; 64]), now);
        assert_eq!(kept.part(Some((boot, 0))), whole(&[1; 64]));
    }

    #[test]
    fn what_is_no_revision_is_refused() {
        assert_eq!(parse("00000000000000ff.12").ok(), Some((255, 12)));
        for text in ["", "12", "ff.12", "00000000000000ff.", "00000000000000ff.x", "00000000000000fg.1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
