/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Encapsulated packets from the parent node: the SRH, and the common part of the roles replicate and End.MT. */
#ifndef CANOPY_ENCAPSULATED_H
#define CANOPY_ENCAPSULATED_H

#include "decide.h"
#include "hmac.h"
#include "tlv.h"

/* An outer header with its SRH. */
struct outer {
	struct ip6 ip6;
	struct srh srh;
	__u32 len;			/* of both */
};

/* Reads the outer IPv6 header and checks the SRH after it. Returns 0 or a drop reason. */
static __always_inline __u32 read_outer(canopy_ctx *ctx, struct outer *o)
{
	struct srh *srh = &o->srh;
	__u32 len, payload;

	if (ctx_load(ctx, ETH_LEN, &o->ip6, IP6_LEN))
		return DROP_TRUNCATED;
	payload = bpf_ntohs(o->ip6.payload_len);
	if (o->ip6.nexthdr != NEXTHDR_ROUTING)
		return DROP_NO_SRH;
	if (ETH_LEN + IP6_LEN + payload > ctx_len(ctx) || ctx_load(ctx, ETH_LEN + IP6_LEN, srh, sizeof(*srh)))
		return DROP_TRUNCATED;
	len = (srh->hdrlen + 1) * 8;
	if (srh->type != SRH_TYPE || srh->nexthdr != NEXTHDR_IPV6 || srh->segments_left > srh->last_entry ||
	    sizeof(*srh) + (srh->last_entry + 1) * 16 > len)
		return DROP_SRH_MALFORMED;
	if (srh->segments_left == 0)
		return DROP_NO_SRH;
	o->len = IP6_LEN + len;
	if (len + IP6_LEN + UDP_LEN + BTH_LEN + ICRC_LEN > payload || o->len > CANOPY_MAX_OUTER)
		return DROP_TRUNCATED;
	return 0;
}

/* RFC 6040 section 4.2, figure 4: decapsulation. Returns 0 or a drop reason. */
static __always_inline __u32 ecn_inward(struct ip6 *inner, __be32 outer_vtf)
{
	__u32 tc = traffic_class(inner->vtf), is = tc & ECN_MASK, outer = traffic_class(outer_vtf) & ECN_MASK;

	if (outer == ECN_CE && !is)
		return DROP_ECN;
	if (outer == ECN_CE || (outer == ECN_ECT_1 && is == ECN_ECT_0))
		inner->vtf = with_traffic_class(inner->vtf, (tc & ~ECN_MASK) | outer);
	return 0;
}

/* Decides about an encapsulated packet of the group; returns the verdict of forwarding it, or of dropping it. */
static __always_inline int decide_encapsulated(canopy_ctx *ctx, const struct canopy_group *g, const struct outer *o)
{
	struct decision *d;
	__u32 drop;

	if (g->up_ifindex != ctx_port(ctx) && g->alternate_ifindex != ctx_port(ctx))
		return count_drop(g->group_id, DROP_WRONG_PORT);
	drop = authentic(ctx, g, &o->ip6, &o->srh, o->len - IP6_LEN);
	if (drop)
		return count_drop(g->group_id, drop);
	if (g->headend.hi && !addr_eq(&o->ip6.src, &g->headend))
		return count_drop(g->group_id, DROP_FABRIC_SOURCE);
	if (o->ip6.hop_limit <= 1)
		return count_drop(g->group_id, DROP_HOP_LIMIT);
	d = decision_of(g);
	if (!d)
		return count_drop(g->group_id, DROP_STATE_MISSING);
	drop = canopy_read_inner(ctx, d, ETH_LEN + o->len);
	if (drop)
		return count_drop(g->group_id, drop);
	d->outer_len = o->len;
	d->l3_len = IP6_LEN + bpf_ntohs(o->ip6.payload_len);
	/* What is behind the inner packet would be behind the copies to receivers. */
	if (d->l3_len != o->len + IP6_LEN + bpf_ntohs(d->head.ip6.payload_len))
		return count_drop(g->group_id, DROP_INNER_MALFORMED);
	if (slots_any(&g->receivers)) {
		drop = receivers_here(ctx, g, &o->srh, o->len, &d->receivers);
		if (!drop && !write_allowed(d, g))
			drop = DROP_WRITE_REFUSED;
		if (!drop)
			drop = ecn_inward(&d->head.ip6, o->ip6.vtf);
		if (drop)
			return count_drop(g->group_id, drop);
		d->head.ip6.hop_limit -= 1;
	}
	/* The kernel's multicast forwarding decrements the hop limit itself. */
	if (!(g->flags & GROUP_MULTICAST))
		d->hop_limit = o->ip6.hop_limit - 1;
	return enter(ctx, ROLE_FORWARD, g->group_id);
}

#endif
