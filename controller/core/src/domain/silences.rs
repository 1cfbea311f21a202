// SPDX-License-Identifier: Apache-2.0
//! Silences by name, by what they are about, and in the order in which they end.

use std::collections::{BTreeMap, BTreeSet};

use canopy_model::silence::SilenceTarget;
use canopy_units::UnixTime;

use crate::health::ProblemKey;
use crate::problem::Object;
use crate::resource::Silence;
use crate::view::SilenceView;

impl From<&Silence> for SilenceView {
    fn from(silence: &Silence) -> Self {
        Self { metadata: silence.metadata.clone(), spec: silence.spec.clone() }
    }
}

/// Which problems operators know of.
#[derive(Clone, Debug, Default)]
pub(super) struct Silences {
    by_name: BTreeMap<String, Silence>,
    /// Names by [`key`] of the target.
    by_target: BTreeMap<String, BTreeSet<String>>,
    /// Of those that end by themselves.
    by_end: BTreeSet<(UnixTime, String)>,
    /// Counts changes.
    version: u64,
}

impl Silences {
    pub(super) fn get(&self, name: &str) -> Option<&Silence> {
        self.by_name.get(name)
    }

    /// In name order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Silence> {
        self.by_name.values()
    }

    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Adds a silence, or replaces the one of its name.
    pub(super) fn insert(&mut self, silence: Silence) {
        let name = silence.metadata.name.clone();
        self.remove(&name);
        self.by_end.extend(silence.spec.until.map(|until| (until, name.clone())));
        if let Some(target) = silence.spec.target() {
            self.by_target.entry(key(target)).or_default().insert(name.clone());
        }
        self.by_name.insert(name, silence);
        self.version += 1;
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<Silence> {
        let silence = self.by_name.remove(name)?;
        if let Some(until) = silence.spec.until {
            self.by_end.remove(&(until, name.to_owned()));
        }
        if let Some(key) = silence.spec.target().map(key)
            && let Some(names) = self.by_target.get_mut(&key)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_target.remove(&key);
            }
        }
        self.version += 1;
        Some(silence)
    }

    /// The silence that is in force for a problem: of several the one that ends last.
    pub(super) fn of(&self, problem: &ProblemKey, now: UnixTime) -> Option<&Silence> {
        if self.by_name.is_empty() {
            return None;
        }
        let keys = std::iter::once(key(SilenceTarget::Problem(&problem.id()))).chain(keys_of(&problem.object));
        let names = keys.filter_map(|key| self.by_target.get(&key)).flatten();
        let all = names.filter_map(|name| self.by_name.get(name)).filter(|silence| silence.spec.is_active(now));
        all.max_by_key(|silence| silence.spec.until.map_or(u64::MAX, UnixTime::nanos))
    }

    /// Those whose time has passed.
    pub(super) fn ended(&self, now: UnixTime) -> impl Iterator<Item = &str> {
        self.by_end.iter().take_while(move |(until, _)| *until <= now).map(|(_, name)| name.as_str())
    }

    /// Another number whenever another problem may be silenced.
    pub(super) fn version(&self, now: UnixTime) -> u64 {
        // How many have begun, and how many have ended: where one ends as another begins, as many are in force as before.
        let begun = self.all().filter(|silence| silence.spec.from.is_none_or(|from| from <= now)).count() as u64;
        (self.version << 16) + begun + self.ended(now).count() as u64
    }
}

fn key(target: SilenceTarget<'_>) -> String {
    let (kind, name) = match target {
        SilenceTarget::Problem(id) => ("problem", id),
        SilenceTarget::Node(name) => ("node", name),
        SilenceTarget::Link(name) => ("link", name),
        SilenceTarget::Group(name) => ("group", name),
        SilenceTarget::Host(name) => ("host", name),
    };
    format!("{kind}/{name}")
}

/// What a silence of this object may be about.
fn keys_of(object: &Object) -> Vec<String> {
    let node = |end: &str| key(SilenceTarget::Node(end.split('/').next().unwrap_or_default()));
    match object {
        Object::Controller => Vec::new(),
        Object::Node(name) => vec![key(SilenceTarget::Node(name))],
        Object::Port(port) => vec![node(port)],
        Object::Link(link) => {
            std::iter::once(key(SilenceTarget::Link(link))).chain(link.split("--").map(node)).collect()
        }
        Object::Group(name) => vec![key(SilenceTarget::Group(name))],
        Object::Member { group, host } => vec![key(SilenceTarget::Group(group)), key(SilenceTarget::Host(host))],
    }
}
