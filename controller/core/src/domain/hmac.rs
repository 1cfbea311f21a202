// SPDX-License-Identifier: Apache-2.0
//! Commands on the keys of the SRH HMAC TLV.

use canopy_model::ids::Generation;
use canopy_model::srh_hmac::{HmacKey, HmacPhase, MINOR_VERSION, SrhHmac};
use canopy_model::status::ItemKind;

use super::change::{Effect, Prepared};
use super::state::State;
use crate::command::{Outcome, Write};
use crate::error::DomainError;
use crate::hmac::{Next, next, phase, with_next};
use crate::record::{HmacRecord, Record, hmac_key};
use crate::resource::Node;
use crate::topology::NodeIx;
use crate::view::{HmacKeyView, HmacView, HmacWait};

/// Most nodes that a view names.
const MAX_NAMED: usize = 100;

/// Checks commands on the keys against a state.
pub(super) struct HmacCommands<'a>(pub(super) &'a State);

impl HmacCommands<'_> {
    /// [`crate::Command::RotateHmac`].
    pub(super) fn rotate(&self) -> Result<Prepared, DomainError> {
        let hmac = &self.0.hmac;
        match phase(hmac.keys.as_ref(), hmac.settings) {
            HmacPhase::On => Ok(self.prepared(Some(self.drawn()))),
            HmacPhase::Off => Err(DomainError::field(
                "hmac.enabled",
                "is false in the controller's configuration: there is no key to replace",
            )),
            phase => Err(DomainError::InUse {
                kind: "hmac",
                name: "default".to_owned(),
                detail: format!(
                    "it is in phase {phase:?}: wait until it is On (canopyctl hmac status names the nodes that have not confirmed)"
                ),
            }),
        }
    }

    /// [`crate::Command::AdvanceHmac`].
    pub(super) fn advance(&self) -> Prepared {
        match self.due() {
            None => Prepared::noop(self.0, self.generation()),
            Some(Next::Draw) => self.prepared(Some(self.drawn())),
            Some(Next::Now(keys)) => self.prepared(Some(keys)),
            Some(Next::Confirmed(keys)) => self.prepared(keys),
        }
    }

    /// See [`super::Domain::hmac_is_due`].
    pub(super) fn is_due(&self) -> bool {
        self.due().is_some()
    }

    fn due(&self) -> Option<Next> {
        let hmac = &self.0.hmac;
        let next = next(hmac.keys.as_ref(), hmac.settings)?;
        let waits = matches!(next, Next::Confirmed(_)) && first_lacking(self.0).is_some();
        (!waits).then_some(next)
    }

    fn drawn(&self) -> SrhHmac {
        let hmac = &self.0.hmac;
        let used: Vec<_> = hmac.keys.iter().flat_map(SrhHmac::keys).map(|key| key.id).collect();
        let (id, secret) = self.0.pools.hmac_key(self.0.revision + 1, &used);
        with_next(hmac.keys.as_ref(), HmacKey { id, secret, flag_bit: hmac.settings.flag_bit })
    }

    fn prepared(&self, keys: Option<SrhHmac>) -> Prepared {
        let revision = self.0.revision + 1;
        let write = match &keys {
            Some(keys) => Write::Put(Record::Hmac(HmacRecord::new(revision, keys))),
            None => Write::Delete { key: hmac_key() },
        };
        let effect = Effect::Hmac(keys);
        Prepared::change(self.0, Outcome::Updated, revision, vec![write], self.0.pools.cursors(), effect)
    }

    fn generation(&self) -> Generation {
        self.0.hmac.since
    }

    /// See [`super::Domain::hmac`].
    pub(super) fn view(&self) -> HmacView {
        let hmac = &self.0.hmac;
        let key = |key: &HmacKey| HmacKeyView {
            id: key.id.get(),
            flag_bit: key.flag_bit,
            sends: hmac.keys.as_ref().is_some_and(|h| h.sending().id == key.id),
        };
        let phase = phase(hmac.keys.as_ref(), hmac.settings);
        // A node that still signs while there are no keys does no harm, and nothing waits for it.
        let nodes = if phase == HmacPhase::Off { &[][..] } else { &self.0.nodes };
        let lacking: Vec<HmacWait> = nodes.iter().filter_map(|n| lacks(n, hmac.since)).collect();
        HmacView {
            phase,
            keys: hmac.keys.iter().flat_map(SrhHmac::keys).map(key).collect(),
            unconfirmed: lacking.len(),
            waiting: lacking.into_iter().take(MAX_NAMED).collect(),
        }
    }
}

/// The node that is waited for, if that still has to confirm, or else another one that has to.
fn first_lacking(state: &State) -> Option<NodeIx> {
    let (n, hmac) = (state.nodes.len(), &state.hmac);
    let at = |i| (hmac.waits_for + i) % n;
    (0..n).map(at).find(|&node| lacks(&state.nodes[node], hmac.since).is_some())
}

/// After a report: waits for another node if the one that was waited for has confirmed. So a phase checks each node about once, however many
/// reports there are.
pub(super) fn wait_for_another(state: &mut State) {
    let next = next(state.hmac.keys.as_ref(), state.hmac.settings);
    if let Some(node) = next.filter(|next| matches!(next, Next::Confirmed(_))).and_then(|_| first_lacking(state)) {
        state.hmac.waits_for = node;
    }
}

/// Why the node may still do as before `since`; `None` if it does not.
fn lacks(node: &Node, since: u64) -> Option<HmacWait> {
    #[cfg(test)]
    CHECKED.with(|count| count.set(count.get() + 1));
    if node.retired {
        return None;
    }
    let reason = match node.observed() {
        Some(observed) if observed >= since => {
            let status = node.status.as_ref()?;
            if status.minor_version < MINOR_VERSION {
                let reason = "its agent is of a version that does not know HMAC TLVs: upgrade it".to_owned();
                return Some(HmacWait { node: node.spec.base.name.clone(), reason });
            }
            let errors = &status.errors;
            // A group that was not applied keeps its entries, with the former key.
            errors.iter().find(|e| e.kind == ItemKind::Group)?.detail.clone()
        }
        _ if node.connected => "its agent has not confirmed it".to_owned(),
        _ => "its agent is not connected".to_owned(),
    };
    Some(HmacWait { node: node.spec.base.name.clone(), reason })
}

#[cfg(test)]
thread_local! {
    /// How often a node was checked.
    pub(super) static CHECKED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
