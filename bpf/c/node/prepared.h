/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What this processor worked out for the previous copy to a branch and most likely needs for the next one: the branch and its next
 * hop, which are looked up anew after a millisecond or when the group's branches changed, and the factor of the ICRC.
 */
#ifndef CANOPY_PREPARED_H
#define CANOPY_PREPARED_H

#include "decision.h"
#include "icrc.h"
#include "maps.h"
#include "nexthop.h"

struct prepared {
	struct canopy_branch branch;
	struct hop hop;
	__u32 pad;
	__u32 slot;
	__u64 branches;			/* digest of the group's branches */
	__u64 until_ns;			/* CLOCK_MONOTONIC; the fields above are valid until then */
	__u32 diff;			/* difference of the CRC register.. */
	__u32 tail;			/* ..moved over so many octets.. */
	__u32 icrc;			/* ..as difference of the ICRC, in wire order */
	__u32 pad2;
};

/* Branches that have an entry at the same time; others replace them. A power of two. */
#define PREPARED (8 * CANOPY_MAX_BRANCHES)

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PREPARED);
	__type(key, __u32);
	__type(value, struct prepared);
} prepared SEC(".maps");

/* The entry for a branch: the slots of one group do not collide. */
static __always_inline struct prepared *prepared_for(__u32 group_id, __u32 slot)
{
	__u32 index = (group_id * CANOPY_MAX_BRANCHES + slot) & (PREPARED - 1);

	return bpf_map_lookup_elem(&prepared, &index);
}

/*
 * Makes `p` what a copy of the decided packet to the branch in `slot` needs. Returns 0 or a drop reason. A global function: the
 * verifier checks it once, and not in every turn of the loop over branches.
 */
__noinline __u32 canopy_prepare(struct __sk_buff *ctx, const struct decision *d, struct prepared *p, __u32 slot)
{
	struct canopy_slot_key key = { .slot = slot };
	const struct canopy_branch *b;
	__u32 drop;

	if (!d || !p)
		return DROP_STATE_MISSING;
	if (d->now < p->until_ns && p->branches == d->branches && p->slot == slot)
		return d->l3_len > p->hop.mtu ? DROP_MTU : 0;
	p->until_ns = 0;
	key.group_id = d->group_id;
	b = bpf_map_lookup_elem(&branches, &key);
	if (!b)
		return DROP_STATE_MISSING;
	p->branch = *b;
	drop = canopy_resolve(ctx, p->branch.ifindex, &p->branch.address, d->l3_len, &p->hop);
	if (drop)
		return drop;
	p->slot = slot;
	p->branches = d->branches;
	p->until_ns = d->now + NEXT_HOP_NS;
	return 0;
}

/* The ICRC's difference for a difference `diff` of the CRC register with `tail` unchanged octets behind it, in wire order. */
static __always_inline __u32 prepare_icrc(struct prepared *p, __u32 diff, __u32 tail)
{
	if (p->diff != diff || p->tail != tail) {
		p->diff = diff;
		p->tail = tail;
		p->icrc = __builtin_bswap32(bpf_htonl(icrc_shift(diff, tail)));
	}
	return p->icrc;
}

#endif
