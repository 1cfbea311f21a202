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

/* Longest list of TLVs that is remembered, in octets: two End.MT TLVs of 11 receivers. */
#define MEMO_LEN 512
#define MEMO_WORDS (MEMO_LEN / 8)

/* The TLVs of a group's previous packet, and what they mean while the group has these branches. */
struct tlv_memo {
	__u64 branches;			/* digest of the group's branches */
	__u64 len;			/* octets; 0 = nothing is remembered */
	struct canopy_slots here;
	__u64 words[MEMO_WORDS];
};

/* Groups whose TLVs are remembered at the same time; others replace them. A power of two. */
#define MEMOS 256

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MEMOS + 1);
	__type(key, __u32);
	__type(value, struct tlv_memo);
} tlv_memos SEC(".maps");

static __always_inline struct tlv_memo *tlv_memo(__u32 index)
{
	return bpf_map_lookup_elem(&tlv_memos, &index);
}

/*
 * Reads the `len` octets of TLVs at `off` into `now`. True if they are those of `then`. A global function: the verifier checks it
 * once, and not for every length.
 */
__noinline int canopy_same_tlvs(struct __sk_buff *ctx, struct tlv_memo *now, const struct tlv_memo *then, __u32 off, __u64 len)
{
	if (!now || !then || len > MEMO_LEN)
		return false;
	barrier_var(len);	/* keeps the comparisons apart: Linux 6.1 does not see that one of a difference bounds both ends */
	if (len < sizeof(now->words[0]) || ctx_load_some(ctx, off, now->words, len))
		return false;
	now->len = len;
	if (then->len != len || then->branches != now->branches)
		return false;
	for (__u32 i = 0; i < MEMO_WORDS && 8 * i < len; i++)
		if (now->words[i] != then->words[i])
			return false;
	return true;
}

/*
 * Sets `here` to the receivers of this edge: those that the TLVs after `srh` name, or as provisioned. `outer_len` is the length of the
 * outer IPv6 header with the SRH. Returns 0 or a drop reason.
 */
static __noinline __u32 receivers_here(canopy_ctx *ctx, const struct canopy_group *g, const struct srh *srh, __u32 outer_len,
				       struct canopy_slots *here)
{
	struct tlv_walk w = { .ctx = ctx, .group_id = g->group_id };
	struct tlv_memo *now = tlv_memo(MEMOS), *then = tlv_memo(g->group_id & (MEMOS - 1));
	const struct canopy_node *n;
	__u32 zero = 0;

	n = bpf_map_lookup_elem(&node, &zero);
	if (!n || !now || !then)
		return DROP_STATE_MISSING;
	w.edge = n->address;
	w.off = ETH_LEN + IP6_LEN + sizeof(*srh) + (srh->last_entry + 1) * 16;
	w.end = ETH_LEN + outer_len;
	now->len = 0;
	now->branches = g->branches;
	if (canopy_same_tlvs(ctx, now, then, w.off, w.end - w.off)) {
		*here = then->here;
		return 0;
	}
	bpf_loop(CANOPY_MAX_TLVS, tlv_step, &w, 0);
	if (w.drop)
		return w.drop;
	if (w.off != w.end)
		return DROP_TLV_MALFORMED;
	if (w.found) {
		*here = w.slots;
		now->here = w.slots;
		*then = *now;
	} else if (g->flags & GROUP_PROVISIONED) {
		*here = g->receivers;
	} else {
		return DROP_TLV_NONE;
	}
	return 0;
}

#endif
