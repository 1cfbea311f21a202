/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* End.MT TLVs of the SRH: to which receivers of this edge a packet goes (decisions 2.4, 2.6, 2.7). */
#ifndef CANOPY_TLV_H
#define CANOPY_TLV_H

#include "../common/ctx_tc.h"
#include "maps.h"
#include "slots.h"

/* End.MT TLV up to its receivers. */
struct end_mt_head {
	__u8 align[4];		/* not on the wire */
	__u8 type;
	__u8 len;
	__u16 reserved;
	struct canopy_addr edge;
	__u8 count;
	__u8 reserved2[3];
};

#define END_MT_HEAD_LEN 24

struct end_mt_receiver {
	struct canopy_addr address;
	__be32 qpn;		/* QPN in the upper 24 bits */
};

#define END_MT_RECEIVER_LEN 20

struct tlv_walk {
	canopy_ctx *ctx;
	struct canopy_addr edge;
	__u32 group_id;
	__u32 off;
	__u32 end;
	__u32 drop;
	__u32 found;
	struct canopy_slots slots;
};

/* One receiver of a TLV of this edge; accepted only if the controller provisioned it. Returns 0 or a drop reason. */
static __noinline __u32 tlv_receiver(struct tlv_walk *w, __u32 off)
{
	struct end_mt_receiver r;
	struct canopy_peer_key key = { .group_id = w->group_id };
	struct canopy_slot_key slot_key = { .group_id = w->group_id };
	struct canopy_branch *b;
	struct canopy_peer *peer;

	if (ctx_load(w->ctx, off, &r, END_MT_RECEIVER_LEN))
		return DROP_TRUNCATED;
	key.address = r.address;
	peer = bpf_map_lookup_elem(&peers, &key);
	if (!peer)
		return DROP_TLV_UNPROVISIONED;
	slot_key.slot = peer->slot;
	b = bpf_map_lookup_elem(&branches, &slot_key);
	if (!b || b->kind != BRANCH_RECEIVER || b->qpn != bpf_ntohl(r.qpn) >> 8)
		return DROP_TLV_UNPROVISIONED;
	slot_add(&w->slots, slot_key.slot);
	return 0;
}

/* Returns 1 to stop. */
static long tlv_step(__u32 i, struct tlv_walk *w)
{
	struct end_mt_head h;
	__u32 left;
	__u16 type_len;

	if (w->off >= w->end)
		return 1;
	left = w->end - w->off;
	if (ctx_load(w->ctx, w->off, &h.type, 1)) {
		w->drop = DROP_TRUNCATED;
		return 1;
	}
	if (h.type == TLV_PAD1) {
		w->off += 1;
		return 0;
	}
	if (left < 2 || ctx_load(w->ctx, w->off, &type_len, 2)) {
		w->drop = DROP_TLV_MALFORMED;
		return 1;
	}
	h.len = bpf_ntohs(type_len) & 0xFF;
	if (left < 2u + h.len) {
		w->drop = DROP_TLV_MALFORMED;
		return 1;
	}
	if (h.type == TLV_END_MT) {
		if (h.len < END_MT_HEAD_LEN - 2 || ctx_load(w->ctx, w->off, &h.type, END_MT_HEAD_LEN) ||
		    h.len != END_MT_HEAD_LEN - 2 + END_MT_RECEIVER_LEN * h.count || h.count == 0) {
			w->drop = DROP_TLV_MALFORMED;
			return 1;
		}
		if (addr_eq(&h.edge, &w->edge)) {
			w->found = 1;
			for (__u32 n = 0; n < CANOPY_TLV_RECEIVERS && n < h.count; n++) {
				__u32 at = w->off + END_MT_HEAD_LEN + n * END_MT_RECEIVER_LEN;

				w->drop = tlv_receiver(w, at);
				if (w->drop)
					return 1;
			}
		}
	}
	w->off += 2 + h.len;
	return 0;
}

/*
 * Sets `here` to the receivers of this edge: those that the TLVs after `srh` name, or as provisioned. `outer_len` is the length of the
 * outer IPv6 header with the SRH. Returns 0 or a drop reason.
 */
static __noinline __u32 receivers_here(canopy_ctx *ctx, const struct canopy_group *g, const struct srh *srh, __u32 outer_len,
				       struct canopy_slots *here)
{
	struct tlv_walk w = { .ctx = ctx, .group_id = g->group_id };
	const struct canopy_node *n;
	__u32 zero = 0;

	n = bpf_map_lookup_elem(&node, &zero);
	if (!n)
		return DROP_STATE_MISSING;
	w.edge = n->address;
	w.off = ETH_LEN + IP6_LEN + sizeof(*srh) + (srh->last_entry + 1) * 16;
	w.end = ETH_LEN + outer_len;
	bpf_loop(CANOPY_MAX_TLVS, tlv_step, &w, 0);
	if (w.drop)
		return w.drop;
	if (w.off != w.end)
		return DROP_TLV_MALFORMED;
	if (w.found)
		*here = w.slots;
	else if (g->flags & GROUP_PROVISIONED)
		*here = g->receivers;
	else
		return DROP_TLV_NONE;
	return 0;
}

#endif
