// SPDX-License-Identifier: Apache-2.0
//! Conversion of flows to map keys and back.

use canopy_agent_core::congestion::FlowKey;
use canopy_bpf::node::types;
use canopy_model::ids::Qpn;

/// Map key of a flow at a port.
pub(crate) fn of(flow: &FlowKey, ifindex: u32) -> types::canopy_flow_key {
    types::canopy_flow_key { src: flow.src.into(), dst: flow.dst.into(), qpn: flow.dst_qp.get(), ifindex }
}

/// The flow of a key; `None` if its DestQP is no valid QPN, which the program never writes.
pub(crate) fn flow(key: &types::canopy_flow_key) -> Option<FlowKey> {
    let dst_qp = Qpn::new("DestQP", key.qpn.into()).ok()?;
    Some(FlowKey { src: key.src.into(), dst: key.dst.into(), dst_qp })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_comes_back_as_the_flow_and_its_octets_are_those_on_the_wire() {
        let flow_key = FlowKey {
            src: "2001:db8:1:2:3:4:5:6".parse().unwrap(),
            dst: "ff3e::1".parse().unwrap(),
            dst_qp: Qpn::new("q", 0xAB_CDEF).unwrap(),
        };
        let key = of(&flow_key, 7);
        assert_eq!(canopy_bpf::bytes(&key)[..16], flow_key.src.octets());
        assert_eq!(canopy_bpf::bytes(&key)[16..32], flow_key.dst.octets());
        assert_eq!((flow(&key), key.ifindex), (Some(flow_key), 7));
    }
}
