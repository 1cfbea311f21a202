// SPDX-License-Identifier: Apache-2.0
//! Commands on silences: which problems operators know of. They change nothing of nodes and groups.

use canopy_model::FieldErrors;
use canopy_model::silence::{SilenceSpec, SilenceTarget};

use super::change::{Effect, Prepared, SilenceEffect};
use super::links::{label, link_named};
use super::state::State;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::limits::MAX_SILENCES;
use crate::metadata::{Labels, Metadata, check_labels};
use crate::principal::Written;
use crate::record::{Record, SilenceRecord, silence_key};
use crate::resource::Silence;

/// Checks commands on silences against a state.
pub(super) struct SilenceCommands<'a>(pub(super) &'a State);

impl SilenceCommands<'_> {
    /// [`crate::Command::PutSilence`].
    pub(super) fn put(
        &self,
        name: String,
        labels: Labels,
        spec: SilenceSpec,
        create_only: bool,
        written: &Written,
    ) -> Result<Prepared, DomainError> {
        let old = self.0.silences.get(&name);
        if let Some(old) = old.filter(|_| create_only) {
            let detail = format!("its note is {:?}: choose another name, or delete it", old.spec.note);
            return Err(DomainError::AlreadyExists { kind: "silence", name, detail });
        }
        let mut errors = FieldErrors::default();
        check_labels(&labels, &mut errors);
        errors.into_result()?;
        spec.validate(&name)?;
        let spec = self.resolved(spec)?;
        if let Some(old) = old.filter(|old| old.metadata.labels == labels && old.spec == spec) {
            return Ok(Prepared::noop(self.0, old.metadata.generation));
        }
        if old.is_none() && self.0.silences.len() >= MAX_SILENCES {
            return Err(DomainError::Limit(format!("there are {MAX_SILENCES} silences already: delete some")));
        }
        let (metadata, outcome) = match old {
            Some(old) => (old.metadata.changed(labels, written), Outcome::Updated),
            None => (Metadata::created(&name, labels, self.0.new_uid(), written), Outcome::Created),
        };
        let silence = Silence { metadata, spec };
        let (revision, generation) = (self.0.revision + 1, silence.metadata.generation);
        let record = SilenceRecord { revision, silence: silence.clone() };
        let write = Write::Put(Record::Silence(Box::new(record)));
        Ok(self.change(outcome, generation, write, SilenceEffect::Put(Box::new(silence))))
    }

    /// [`crate::Command::DeleteSilence`].
    pub(super) fn delete(&self, name: String) -> Result<Prepared, DomainError> {
        let Some(old) = self.0.silences.get(&name) else {
            return Err(DomainError::NotFound { kind: "silence", name });
        };
        let write = Write::Delete { key: silence_key(&name) };
        Ok(self.change(Outcome::Deleted, old.metadata.generation, write, SilenceEffect::Remove(name)))
    }

    fn change(&self, outcome: Outcome, generation: u64, write: Write, effect: SilenceEffect) -> Prepared {
        Prepared::change(self.0, outcome, generation, vec![write], self.0.pools.cursors(), Effect::Silence(effect))
    }

    /// With the link as the topology lists it; whether the object exists.
    fn resolved(&self, spec: SilenceSpec) -> Result<SilenceSpec, DomainError> {
        let network = self.0.network();
        let absent = |field: &str, detail: String| Err(DomainError::field(field, detail));
        match spec.target() {
            Some(SilenceTarget::Node(node)) if network.and_then(|n| n.node(node)).is_none() => {
                absent("spec.node", format!("the topology has no node {node:?}"))
            }
            Some(SilenceTarget::Host(host)) if network.and_then(|n| n.host(host)).is_none() => {
                absent("spec.host", format!("the topology has no host {host:?}"))
            }
            Some(SilenceTarget::Group(group)) if self.0.groups.get(group).is_none() => {
                absent("spec.group", format!("there is no group {group:?}"))
            }
            Some(SilenceTarget::Link(wanted)) => {
                let found = network.and_then(|network| Some(label(network, link_named(network, wanted)?)));
                let Some(link) = found else {
                    let detail = format!("the topology has no link {wanted:?}: `canopyctl get links` lists them");
                    return absent("spec.link", detail);
                };
                Ok(SilenceSpec { link: Some(link), ..spec })
            }
            _ => Ok(spec),
        }
    }
}
