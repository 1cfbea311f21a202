// SPDX-License-Identifier: Apache-2.0
//! What the kernel's maps have, by group.

use std::collections::BTreeMap;

use canopy_bpf::node::{Node, types};
use canopy_bpf::{Plain, Result};

use crate::render::Entries;

/// What the maps have of one group.
#[derive(Clone, Default)]
pub(crate) struct Held {
    pub(crate) entries: Entries,
    pub(crate) state: Option<Box<types::canopy_state>>,
    pub(crate) has_cnps: bool,
}

/// Reads every map of the groups once, in batches.
pub(crate) fn all(bpf: &Node) -> Result<BTreeMap<u32, Held>> {
    let mut held: BTreeMap<u32, Held> = BTreeMap::new();
    for (id, group) in bpf.groups().entries()? {
        held.entry(id).or_default().entries.group = Some(group);
    }
    for (address, proxy) in bpf.proxies().entries()? {
        held.entry(proxy.group_id).or_default().entries.proxies.insert(address.into(), proxy);
    }
    for (qpn, id) in bpf.qpns().entries()? {
        held.entry(id).or_default().entries.qpns.insert(qpn);
    }
    for (tree, id) in bpf.trees().entries()? {
        held.entry(id).or_default().entries.trees.insert(tree);
    }
    for (address, id) in bpf.multicasts().entries()? {
        held.entry(id).or_default().entries.multicasts.insert(address.into());
    }
    for (id, outer) in bpf.outers().entries()? {
        held.entry(id).or_default().entries.outer = Some(Box::new(outer));
    }
    for (id, hmac) in bpf.hmacs().entries()? {
        held.entry(id).or_default().entries.hmac = Some(hmac);
    }
    for (key, branch) in bpf.branches().entries()? {
        held.entry(key.group_id).or_default().entries.branches.insert(key.slot, branch);
    }
    for (key, peer) in bpf.peers().entries()? {
        held.entry(key.group_id).or_default().entries.peers.insert(key.address.into(), peer);
    }
    for (id, state) in bpf.states().entries()? {
        held.entry(id).or_default().state = Some(Box::new(state));
    }
    for (id, _) in bpf.cnps().entries()? {
        held.entry(id).or_default().has_cnps = true;
    }
    Ok(held)
}

/// Reads the state of one group, whose configuration is `entries`.
pub(crate) fn state_of(bpf: &Node, id: u32, entries: Entries) -> Result<Held> {
    let state = bpf.states().get(&id)?.map(Box::new);
    let has_cnps = bpf.cnps().get(&id)?.is_some();
    Ok(Held { entries, state, has_cnps })
}

/// Names of the maps in which the configuration of a group is not `want`, read one by one.
pub(crate) fn differences(bpf: &Node, id: u32, want: &Entries) -> Result<Vec<&'static str>> {
    let mut wrong = Vec::new();
    let mut check = |map, there: bool| {
        if !there {
            wrong.push(map);
        }
    };
    check("groups", is(bpf.groups().get(&id)?.as_ref(), want.group.as_ref()));
    for (address, proxy) in &want.proxies {
        check("proxies", is(bpf.proxies().get(&(*address).into())?.as_ref(), Some(proxy)));
    }
    for qpn in &want.qpns {
        check("qpns", bpf.qpns().get(qpn)? == Some(id));
    }
    for tree in &want.trees {
        check("trees", bpf.trees().get(tree)? == Some(id));
    }
    for address in &want.multicasts {
        check("multicasts", bpf.multicasts().get(&(*address).into())? == Some(id));
    }
    check("outers", is(bpf.outers().get(&id)?.as_ref(), want.outer.as_deref()));
    check("hmacs", is(bpf.hmacs().get(&id)?.as_ref(), want.hmac.as_ref()));
    for (slot, branch) in &want.branches {
        let key = types::canopy_slot_key { group_id: id, slot: *slot };
        check("branches", is(bpf.branches().get(&key)?.as_ref(), Some(branch)));
    }
    for (address, peer) in &want.peers {
        let key = types::canopy_peer_key { group_id: id, pad: 0, address: (*address).into() };
        check("peers", is(bpf.peers().get(&key)?.as_ref(), Some(peer)));
    }
    Ok(wrong)
}

/// Whether a value is as wanted, or absent as wanted.
pub(crate) fn is<T: Plain>(there: Option<&T>, want: Option<&T>) -> bool {
    match (there, want) {
        (Some(there), Some(want)) => crate::render::same(there, want),
        (there, want) => there.is_none() && want.is_none(),
    }
}
