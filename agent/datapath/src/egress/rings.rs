// SPDX-License-Identifier: Apache-2.0
//! The ring buffers of the egress program.

use std::cell::RefCell;

use canopy_agent_core::congestion::{CmKind, CmMessage};
use canopy_bpf::node::types::{self, canopy_cm_kind as Kind};
use canopy_bpf::{Context, Result, read};
use canopy_model::ids::Qpn;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use super::Egress;

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
    pub(crate) fn open(egress: &Egress) -> Result<Self> {
        Ok(Self([egress.bpf.congested()?, egress.bpf.cms()?]))
    }

    /// The ring buffers as one; polling it adds to `events`.
    pub(crate) fn into<'a>(&'a self, received: &'a RingEvents) -> Result<RingBuffer<'a>> {
        let [events, cms] = &self.0;
        let mut builder = RingBufferBuilder::new();
        let alarm = |data: &[u8]| {
            received.alarms.borrow_mut().extend(read::<types::canopy_congested>(data).map(|e| e.ifindex));
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
    let kind = match Kind(cm.kind) {
        Kind::CM_REQUEST => CmKind::Request { local_id: cm.id, qpn },
        Kind::CM_REPLY => CmKind::Reply { remote_id: cm.id, qpn },
        _ => return None,
    };
    Some(CmMessage { from: cm.src.into(), to: cm.dst.into(), kind })
}
