// SPDX-License-Identifier: Apache-2.0
//! The ring buffers of the egress program.

use std::cell::RefCell;

use canopy_agent_core::DatapathError;
use canopy_agent_core::congestion::{CmKind, CmMessage};
use canopy_model::ids::Qpn;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use super::keys;
use super::object::EgressBpf;
use crate::egress_skel::types;
use crate::error::Context;
use crate::plain::read;

/// CM_REQUEST and CM_REPLY of egress_shared.h.
const REQUEST: u32 = 0x10;
const REPLY: u32 = 0x13;

/// Events that were read but not handled yet, oldest first.
#[derive(Debug, Default)]
pub(crate) struct RingEvents {
    /// Interfaces with a queue above K_min.
    pub(crate) alarms: RefCell<Vec<u32>>,
    /// RDMA-CM messages.
    pub(crate) cms: RefCell<Vec<CmMessage>>,
}

/// The ring buffers themselves.
pub(crate) struct Rings([MapHandle; 2]);

impl Rings {
    pub(crate) fn open(egress: &EgressBpf) -> Result<Self, DatapathError> {
        let open = |path: std::path::PathBuf| {
            MapHandle::from_pinned_path(&path).with_context(|| format!("opening {}", path.display()))
        };
        Ok(Self([open(egress.events_path())?, open(egress.cms_path())?]))
    }

    /// The ring buffers as one; polling it adds to `events`.
    pub(crate) fn into<'a>(&'a self, received: &'a RingEvents) -> Result<RingBuffer<'a>, DatapathError> {
        let [events, cms] = &self.0;
        let mut builder = RingBufferBuilder::new();
        let alarm = |data: &[u8]| {
            received.alarms.borrow_mut().extend(read::<types::canopy_second_level>(data).map(|e| e.flow.ifindex));
            0
        };
        let connection = |data: &[u8]| {
            received.cms.borrow_mut().extend(read(data).as_ref().and_then(message));
            0
        };
        builder.add(events, alarm).context("reading the ring buffer of congestion events")?;
        builder.add(cms, connection).context("reading the ring buffer of RDMA-CM messages")?;
        builder.build().context("reading the ring buffers of the egress program")
    }
}

/// The message of an event; `None` if its QPN is invalid, which only a broken host sends.
pub(crate) fn message(cm: &types::canopy_cm) -> Option<CmMessage> {
    let qpn = Qpn::new("Local QPN", cm.qpn.into()).ok()?;
    let kind = match cm.kind {
        REQUEST => CmKind::Request { local_id: cm.id, qpn },
        REPLY => CmKind::Reply { remote_id: cm.id, qpn },
        _ => return None,
    };
    Some(CmMessage { from: keys::address(&cm.src), to: keys::address(&cm.dst), kind })
}
