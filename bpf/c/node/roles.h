/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The programs of the roles, each of which is verified, timed and replaced alone. */
#ifndef CANOPY_ROLES_H
#define CANOPY_ROLES_H

#include "../common/ctx_tc.h"
#include "drop.h"
#include "shared.h"

int canopy_headend(struct __sk_buff *skb);
int canopy_replicate(struct __sk_buff *skb);
int canopy_end_mt(struct __sk_buff *skb);
int canopy_forward(struct __sk_buff *skb);
int canopy_feedback(struct __sk_buff *skb);
int canopy_path(struct __sk_buff *skb);

/* Loading an object with the same layout replaces the programs one by one, below filters that stay attached. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__uint(max_entries, ROLES);
	__uint(key_size, sizeof(__u32));
	__array(values, int(void *));
} roles SEC(".maps") = {
	.values = {
		[ROLE_HEADEND] = (void *)&canopy_headend,
		[ROLE_REPLICATE] = (void *)&canopy_replicate,
		[ROLE_END_MT] = (void *)&canopy_end_mt,
		[ROLE_FORWARD] = (void *)&canopy_forward,
		[ROLE_FEEDBACK] = (void *)&canopy_feedback,
		[ROLE_PATH] = (void *)&canopy_path,
	},
};

/* Continues with the program of `role`; returns only if it is not loaded. */
static __always_inline int enter(canopy_ctx *ctx, enum canopy_role role, __u32 group_id)
{
	ctx->cb[CTX_GROUP] = group_id;
	bpf_tail_call(ctx, &roles, role);
	return count_drop(group_id, DROP_ROLE_MISSING);
}

/* The group that dispatch found. */
static __always_inline const struct canopy_group *entered_for(const canopy_ctx *ctx)
{
	__u32 group_id = ctx->cb[CTX_GROUP];

	return bpf_map_lookup_elem(&groups, &group_id);
}

#endif
