// SPDX-License-Identifier: Apache-2.0
//! The keys of the SRH HMAC TLV and their rotation. Their secrets are in no answer.

use canopy_controller_core::view;
use canopy_model::srh_hmac::{FlagBit, HmacPhase};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The keys of the SRH HMAC TLV, and how far they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hmac {
    /// What headends and nodes do.
    pub phase: HmacPhase,
    /// The keys that nodes accept, the oldest first.
    pub keys: Vec<HmacKey>,
    /// Nodes that have not confirmed the phase; the next one waits for them.
    pub unconfirmed: usize,
    /// The first 100 of them.
    pub waiting: Vec<HmacWait>,
}

impl From<view::HmacView> for Hmac {
    fn from(view::HmacView { phase, keys, unconfirmed, waiting }: view::HmacView) -> Self {
        let key = |view::HmacKeyView { id, flag_bit, sends }| HmacKey { id, flag_bit, sends };
        Self {
            phase,
            keys: keys.into_iter().map(key).collect(),
            unconfirmed,
            waiting: waiting.into_iter().map(Into::into).collect(),
        }
    }
}

/// A key, without its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HmacKey {
    /// HMAC Key ID.
    pub id: u32,
    /// Flags of the SRHs that are signed with it.
    pub flag_bit: FlagBit,
    /// Headends sign with it.
    pub sends: bool,
}

/// A node that has not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HmacWait {
    /// Its name.
    pub node: String,
    /// Why not, for people.
    pub reason: String,
}

from_fields!(view::HmacWait { node, reason });
