/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * One packet of a group, captured: the headers of the frame as it arrived, and of every copy as it leaves. While nothing is armed, a data
 * packet costs one read of the entry where it arrives, and one where a copy of it leaves.
 */
#ifndef CANOPY_CAPTURE_H
#define CANOPY_CAPTURE_H

#include "../common/ctx_tc.h"
#include "decision.h"
#include "flow.h"
#include "maps.h"

/* The armed capture; NULL if there is none. */
static __always_inline struct canopy_capture *armed(void)
{
	__u32 zero = 0;
	struct canopy_capture *c = bpf_map_lookup_elem(&capturing, &zero);

	return c && c->group_id ? c : NULL;
}

/* Reads the headers of the frame. A function of its own, so that the event's layout is in BTF. */
static __noinline int read_headers(canopy_ctx *ctx, struct canopy_captured *e, __u32 inner)
{
	__u64 len = (__u64)inner + CANOPY_CAPTURE_INNER;

	if (ctx_load(ctx, inner, e->inner, CANOPY_CAPTURE_INNER))
		return -1;
	e->time_ns = bpf_ktime_get_ns();
	e->length = ctx_len(ctx);
	e->inner_at = inner;
	e->pad = 0;
	if (len >= CANOPY_CAPTURE_HEAD) {
		e->head_len = CANOPY_CAPTURE_HEAD;
		return ctx_load(ctx, 0, e->head, CANOPY_CAPTURE_HEAD);
	}
	e->head_len = len;
	return ctx_load_some(ctx, 0, e->head, len);
}

/* Sends the agent the headers of the frame, whose innermost IPv6 header is at `inner`. */
static __always_inline void output_headers(canopy_ctx *ctx, struct canopy_capture *c, enum canopy_capture_direction direction,
					   __u32 ifindex, __u32 inner)
{
	struct canopy_captured *e = bpf_ringbuf_reserve(&captured, sizeof(*e), 0);

	if (!e) {
		__sync_fetch_and_add(&c->lost, 1);
		return;
	}
	e->id = c->id;
	e->direction = direction;
	e->ifindex = ifindex;
	if (read_headers(ctx, e, inner))
		bpf_ringbuf_discard(e, 0);
	else
		bpf_ringbuf_submit(e, 0);
}

/* The armed packet arrived. Returns the name of the capture that its copies are part of, 0 if it arrived before. */
__noinline __u32 canopy_capture_arrival(struct __sk_buff *ctx, __u32 inner)
{
	struct canopy_capture *c = armed();

	if (!c || __sync_val_compare_and_swap(&c->taken, 0, 1))
		return 0;
	output_headers(ctx, c, CAPTURE_IN, ctx_port(ctx), inner);
	return c->id;
}

/* Captures a decided packet, not changed yet, if it is the armed one, and marks the copies that are made of it from now on. */
static __always_inline void capture_arrival(canopy_ctx *ctx, const struct decision *d)
{
	struct canopy_capture *c = armed();
	__u32 id = 0;

	if (c && c->group_id == d->group_id && c->psn == bth_psn(&d->head.bth))
		id = canopy_capture_arrival(ctx, ETH_LEN + d->outer_len);
	ctx->cb[CTX_CAPTURE] = id;
}

/* A copy of the kernel's multicast routes, which clear the mark: its inner headers are still the source's. */
static __always_inline bool kernel_copied(canopy_ctx *ctx, const struct canopy_capture *c, const struct canopy_flow_key *key,
					  const struct found *at)
{
	__be32 psn;

	return c->flags & GROUP_MULTICAST && at->outer && key->qpn == c->dqpn && addr_eq(&key->dst, &c->proxy) &&
	       !ctx_load(ctx, at->behind - sizeof(psn), &psn, sizeof(psn)) && (bpf_ntohl(psn) & PSN_MASK) == c->psn;
}

/* Captures the frame if it is a copy of the armed packet. */
__noinline int canopy_capture_copy(struct __sk_buff *ctx)
{
	struct canopy_capture *c = armed();
	struct canopy_flow_key key = {};
	struct found at = {};

	if (!c || !c->taken || find_flow(ctx, &key, &at) != PASSING_DATA)
		return 0;
	if ((ctx_is_copy(ctx) && ctx->cb[CTX_CAPTURE] == c->id) || kernel_copied(ctx, c, &key, &at))
		output_headers(ctx, c, CAPTURE_OUT, ctx->ifindex, at.inner);
	return 0;
}

static __always_inline void capture_copy(canopy_ctx *ctx)
{
	if (armed())
		canopy_capture_copy(ctx);
}

#endif
