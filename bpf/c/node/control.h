/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Control program, run by the agent through BPF_PROG_TEST_RUN: membership changes under the lock of the group's state, and frames
 * that user space has composed.
 */
#ifndef CANOPY_CONTROL_H
#define CANOPY_CONTROL_H

#include "upstream.h"

/* Adds the counters of a carried branch to those of the group's. */
static __always_inline void carry_counters(__u32 group_id, __u32 slot)
{
	struct canopy_slot_key from = { .group_id = CANOPY_CARRIED, .slot = slot };
	struct canopy_slot_key to = { .group_id = group_id, .slot = slot };
	const struct canopy_branch_stats *old = bpf_map_lookup_elem(&stats, &from);
	struct canopy_branch_stats *s = bpf_map_lookup_elem(&stats, &to);

	if (!old || !s)
		return;
	__sync_fetch_and_add(&s->packets, old->packets);
	__sync_fetch_and_add(&s->bytes, old->bytes);
	if (s->last_received_ns < old->last_received_ns)
		s->last_received_ns = old->last_received_ns;
}

SEC("tc")
int canopy_control(struct __sk_buff *ctx)
{
	__u32 op = ctx->cb[0], group_id = ctx->cb[1], slot = ctx->cb[2], flags = ctx->cb[3], since = ctx->cb[4];
	const struct canopy_group *g = bpf_map_lookup_elem(&groups, &group_id);
	struct canopy_state *s = bpf_map_lookup_elem(&states, &group_id);
	struct canopy_feedback out = {};
	__u64 now = bpf_ktime_get_ns();
	__u32 drop = 0;
	struct macs macs = {};

	if (!g || !s || slot >= CANOPY_MAX_BRANCHES)
		return CTX_NEXT;
	if (op == CONTROL_JOIN) {
		bpf_spin_lock(&s->lock);
		branch_join(s, slot, flags, since);
		bpf_spin_unlock(&s->lock);
		return CTX_PASS;
	}
	if (op == CONTROL_CARRY || op == CONTROL_CARRIED) {
		__u32 carried = CANOPY_CARRIED;
		const struct canopy_state *old = bpf_map_lookup_elem(&states, &carried);

		if (!old)
			return CTX_NEXT;
		bpf_spin_lock(&s->lock);
		carry_group(s, old, op == CONTROL_CARRIED);
		if (op == CONTROL_CARRY)
			carry_branch(s, old, slot);
		bpf_spin_unlock(&s->lock);
		if (op == CONTROL_CARRY) {
			carry_counters(group_id, slot);
			return CTX_PASS;
		}
		op = CONTROL_REPEAT;
	}
	if (op == CONTROL_REMOVE || op == CONTROL_PENDING_ONLY || op == CONTROL_REPEAT) {
		bpf_spin_lock(&s->lock);
		if (op == CONTROL_REMOVE)
			branch_leave(s, slot, now, &out);
		else if (op == CONTROL_PENDING_ONLY)
			pending_only(s, &out);
		else
			repeat_upstream(s, now, &out);
		bpf_spin_unlock(&s->lock);
		if (out.kind == FEEDBACK_NONE)
			return CTX_PASS;
		drop = canopy_write_upstream(ctx, g, &out);
	} else if (op == CONTROL_SEND) {
		drop = canopy_resolve(ctx, g->up_ifindex, &g->up_da, ctx_len(ctx) - ETH_LEN, &macs);
		if (!drop && ctx_store(ctx, 0, &macs, sizeof(macs)))
			drop = DROP_TRUNCATED;
	} else {
		return CTX_NEXT;
	}
	/* The operation itself succeeded: a frame that cannot be sent is counted as a drop. */
	if (drop)
		count_drop(group_id, drop);
	else
		ctx_copy_to(ctx, g->up_ifindex);
	return CTX_PASS;
}

#endif
