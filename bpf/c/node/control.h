/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Control program, run by the agent through BPF_PROG_TEST_RUN: changes under the lock of the group's state, and the feedback that
 * follows from them.
 */
#ifndef CANOPY_CONTROL_H
#define CANOPY_CONTROL_H

#include "cnp.h"

SEC("tc")
int canopy_control(struct __sk_buff *ctx)
{
	__u32 op = ctx->cb[0], group_id = ctx->cb[1], slot = ctx->cb[2] & 0xFF, flags = ctx->cb[3], since = ctx->cb[4];
	__u32 msn_base = ctx->cb[2] >> 8;
	const struct canopy_group *g = bpf_map_lookup_elem(&groups, &group_id);
	struct canopy_state *s = bpf_map_lookup_elem(&states, &group_id);
	struct canopy_feedback out = {};
	__u64 now = bpf_ktime_get_ns();
	__u32 drop = 0;

	if (!g || !s || slot >= CANOPY_MAX_BRANCHES)
		return CTX_NEXT;
	if (op == CONTROL_JOIN) {
		bpf_spin_lock(&s->lock);
		branch_join(s, slot, flags, since, msn_base);
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
			carry_branch(s, old, slot, flags);
		bpf_spin_unlock(&s->lock);
		if (op == CONTROL_CARRY)
			return CTX_PASS;
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
	} else if (op == CONTROL_CNP) {
		struct canopy_cnp *c = bpf_map_lookup_elem(&cnps, &group_id);
		bool ended;

		if (!c)
			return CTX_NEXT;
		bpf_spin_lock(&s->lock);
		ended = cnp_window_close(c, now);
		bpf_spin_unlock(&s->lock);
		if (!ended)
			return CTX_PASS;
		drop = canopy_write_cnp(ctx, g);
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
