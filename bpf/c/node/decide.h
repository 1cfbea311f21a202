/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What every role that decides about data does: take the group's configuration, read the inner packet, hand over to forwarding. */
#ifndef CANOPY_DECIDE_H
#define CANOPY_DECIDE_H

#include "../common/ctx_tc.h"
#include "decision.h"
#include "drop.h"
#include "maps.h"
#include "roles.h"
#include "slots.h"

static __always_inline struct decision *decision_of(const struct canopy_group *g)
{
	__u32 zero = 0;
	struct decision *d = bpf_map_lookup_elem(&decisions, &zero);

	if (!d)
		return NULL;
	d->group_id = g->group_id;
	d->flags = g->flags;
	d->dqpn = g->dqpn;
	d->encapsulate = 0;
	d->proxy = g->proxy;
	d->source = g->source;
	d->start = g->start;
	d->window = g->window;
	d->flight = g->flight;
	d->write_base = g->write_base;
	d->branches = g->branches;
	d->now = bpf_ktime_get_ns();
	d->children = g->children;
	d->standby = g->standby;
	d->receivers = g->receivers;
	d->outer_len = 0;
	d->hop_limit = 0;
	return d;
}

/*
 * Reads the inner packet, whose IPv6 header is at `off`, and checks that it is data of this group. Returns 0 or a drop reason. A
 * global function: the verifier checks it once, and not at every call.
 */
__noinline __u32 canopy_read_inner(struct __sk_buff *ctx, struct decision *d, __u32 off)
{
	struct roce *h;
	__be32 reth[4];
	__u32 len, at;

	if (!d)
		return DROP_STATE_MISSING;
	h = &d->head;
	if (ctx_load(ctx, off - ETH_LEN, h->eth, ROCE_LEN))
		return DROP_TRUNCATED;
	len = bpf_ntohs(h->ip6.payload_len);
	if (bpf_ntohl(h->ip6.vtf) >> 28 != 6 || h->ip6.nexthdr != NEXTHDR_UDP || h->udp.dport != bpf_htons(ROCE_PORT) ||
	    h->udp.len != h->ip6.payload_len || len < UDP_LEN + BTH_LEN + ICRC_LEN || h->bth.flags & BTH_VERSION)
		return DROP_INNER_MALFORMED;
	if (off + IP6_LEN + len > ctx_len(ctx))
		return DROP_TRUNCATED;
	if (!addr_eq(&h->ip6.dst, &d->proxy))
		return DROP_INNER_MALFORMED;
	if (!addr_eq(&h->ip6.src, &d->source) || bth_qpn(&h->bth) != d->dqpn)
		return DROP_SOURCE_UNREGISTERED;
	if (!op_multicast(h->bth.opcode))
		return DROP_OPCODE_REFUSED;
	if (h->ip6.hop_limit <= 1)
		return DROP_HOP_LIMIT;
	d->udp_check = h->udp.check;
	d->psn = h->bth.psn;
	d->tail = len - UDP_LEN - BTH_LEN - ICRC_LEN;
	if (d->tail >= CANOPY_MAX_TAIL)
		return DROP_MTU;
	at = off + IP6_LEN + UDP_LEN + BTH_LEN;
	if (ctx_load(ctx, at + d->tail, &d->icrc, ICRC_LEN))
		return DROP_TRUNCATED;
	if (op_has_reth(h->bth.opcode)) {
		if (d->tail < RETH_LEN || ctx_load(ctx, at, reth, RETH_LEN))
			return DROP_INNER_MALFORMED;
		d->va = (__u64)bpf_ntohl(reth[0]) << 32 | bpf_ntohl(reth[1]);
		d->rkey = bpf_ntohl(reth[2]);
		d->dma_len = bpf_ntohl(reth[3]);
	}
	/* Link-layer header of the copies to receivers; the addresses differ. */
	h->eth[12] = ETH_IPV6 >> 8;
	h->eth[13] = ETH_IPV6 & 0xFF;
	return 0;
}

/* Decisions 2.8: an RDMA WRITE must fit the smallest memory region that the receivers here registered. */
static __always_inline bool write_allowed(const struct decision *d, const struct canopy_group *g)
{
	__u64 at = d->va - g->write_base;

	return !op_has_reth(d->head.bth.opcode) ||
	       (d->rkey == g->write_rkey && at <= g->write_length && d->dma_len <= g->write_length - at);
}

#endif
