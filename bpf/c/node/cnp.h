/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The window of a group's CNPs, and the CNP that it sends to its parent node or to the source (draft-li, CNP Aggregation). */
#ifndef CANOPY_CNP_H
#define CANOPY_CNP_H

#include "upstream.h"

/* Traffic class of a CNP: DSCP 48, the default of hosts. */
#define CNP_TRAFFIC_CLASS (48 << 2)
/* BECN, in the first octet of the BTH's third word. */
#define CNP_BECN 0x40000000

/* A CNP frame from the Ethernet header to the ICRC. */
struct cnp_frame {
	ROCE_FIELDS;
	__u8 reserved[CNP_LEN];
	__u32 icrc;
};

/* Closes a window that has ended. True if one was open: its CNP has to be sent. Under the lock of the group's state. */
static __always_inline bool cnp_window_close(struct canopy_cnp *c, __u64 now)
{
	if (!c->running || now < c->ends_ns)
		return false;
	c->best_count = 0;
	c->running = 0;
	c->window += 1;
	return true;
}

/* Overwrites the packet with the upstream CNP, and counts it. Returns 0 or a drop reason. */
__noinline __u32 canopy_write_cnp(struct __sk_buff *ctx, const struct canopy_group *g)
{
	struct cnp_frame f = {};
	struct canopy_cnp *c;
	struct hop hop = {};
	__u32 group_id, drop;

	if (!g)
		return DROP_STATE_MISSING;
	/* Linux 6.1 takes no key from an argument of a global function. */
	group_id = g->group_id;
	c = bpf_map_lookup_elem(&cnps, &group_id);
	if (!c)
		return DROP_STATE_MISSING;
	drop = resolve_upstream(ctx, g, IP6_LEN + CNP_PAYLOAD, &hop);
	if (drop)
		return drop;
	fill_upstream((struct roce *)&f, g, &hop, CNP_PAYLOAD);
	f.ip6.vtf |= bpf_htonl(CNP_TRAFFIC_CLASS << 20);
	f.bth.opcode = OP_CNP;
	f.bth.qpn |= bpf_htonl(CNP_BECN);
	f.icrc = g->cnp_icrc;
	drop = overwrite(ctx, (struct roce *)&f, CNP_PAYLOAD);
	if (drop)
		return drop;
	__sync_fetch_and_add(&c->cnps_out, 1);
	return 0;
}

static __always_inline int send_cnp(canopy_ctx *ctx, const struct canopy_group *g)
{
	__u32 drop = canopy_write_cnp(ctx, g);

	return drop ? count_drop(g->group_id, drop) : ctx_send_to(ctx, g->up_ifindex);
}

#endif
