/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The downstream entries: headend, replication and End.MT. */
#ifndef CANOPY_DOWNSTREAM_H
#define CANOPY_DOWNSTREAM_H

/*
 * Accounts for a data packet in the group's state and sets `to` to the branches that get a copy. Returns 0 or a drop reason. A
 * global function: the verifier checks it once, and not at every call.
 */
__noinline __u32 canopy_pass(__u32 group_id, __u32 psn, __u32 message_start, __u32 bytes, struct canopy_slots *to)
{
	const struct canopy_group *g = bpf_map_lookup_elem(&groups, &group_id);
	struct canopy_state *s = bpf_map_lookup_elem(&states, &group_id);
	__u64 now = bpf_ktime_get_ns();
	__u32 drop;
	bool first;

	if (!g || !s || !to)
		return DROP_STATE_MISSING;
	bpf_spin_lock(&s->lock);
	first = !s->high;
	drop = data_passes(s, g, psn, message_start, bytes, now, to);
	bpf_spin_unlock(&s->lock);
	if (first && g->flags & GROUP_HEADEND)
		emit_event(EVENT_FIRST_DATA, group_id, 0, psn, now);
	return drop;
}

static __always_inline __u32 pass(const struct down *d, struct canopy_slots *to)
{
	return canopy_pass(d->g->group_id, bth_psn(&d->head.bth), op_starts_message(d->head.bth.opcode), d->l3_len, to);
}

/* Prepends the prepared outer header with the inner traffic class (RFC 6040 normal mode). Returns its length, 0 on failure. */
static __noinline __u32 encapsulate(canopy_ctx *ctx, const struct canopy_group *g, __be32 inner_vtf, __u32 inner_len)
{
	struct canopy_outer *o = bpf_map_lookup_elem(&outers, &g->group_id);
	struct {
		__be32 vtf;
		__be16 payload_len;
	} front;
	__u32 len;

	if (!o)
		return 0;
	len = o->len;
	if (len < IP6_LEN || len > CANOPY_MAX_OUTER)
		return 0;
	if (ctx_resize(ctx, len) || ctx_store(ctx, ETH_LEN, o->bytes, len))
		return 0;
	__builtin_memcpy(&front.vtf, o->bytes, 4);
	front.vtf = with_traffic_class(front.vtf, traffic_class(inner_vtf));
	front.payload_len = bpf_htons(len - IP6_LEN + inner_len);
	return ctx_store(ctx, ETH_LEN, &front, 6) ? 0 : len;
}

/* A packet of the source (decisions 2.1); accepted on the port of the source only. */
static __noinline int headend(canopy_ctx *ctx, const struct canopy_group *g)
{
	struct down d = { .ctx = ctx, .g = g };
	struct canopy_slots to = {};
	__u32 drop;
	__u8 hop_limit;

	if (!(g->flags & GROUP_HEADEND))
		return count_drop(g->group_id, DROP_SOURCE_UNREGISTERED);
	if (g->source_ifindex != ctx_port(ctx))
		return count_drop(g->group_id, DROP_WRONG_PORT);
	drop = read_inner(&d, ETH_LEN);
	if (drop)
		return count_drop(g->group_id, drop);
	d.l3_len = IP6_LEN + bpf_ntohs(d.head.ip6.payload_len);
	if ((g->receivers.word[0] | g->receivers.word[1]) && !write_allowed(&d))
		return count_drop(g->group_id, DROP_WRITE_REFUSED);
	drop = pass(&d, &to);
	if (drop)
		return count_drop(g->group_id, drop);
	hop_limit = d.head.ip6.hop_limit - 1;
	d.head.ip6.hop_limit = hop_limit;
	if (ctx_store(ctx, ETH_LEN + 7, &hop_limit, 1))
		return count_drop(g->group_id, DROP_TRUNCATED);
	if (g->children.word[0] | g->children.word[1]) {
		d.outer_len = encapsulate(ctx, g, d.head.ip6.vtf, d.l3_len);
		if (!d.outer_len)
			return count_drop(g->group_id, DROP_NO_ROOM);
		d.l3_len += d.outer_len;
	}
	return send_down(&d, &to, &g->receivers);
}

/* Checks the SRH after the outer header `ip6` and sets `d->outer_len` to the length of both. Returns 0 or a drop reason. */
static __noinline __u32 read_srh(struct down *d, const struct ip6 *ip6, struct srh *srh)
{
	__u32 len, payload = bpf_ntohs(ip6->payload_len);

	if (ip6->nexthdr != NEXTHDR_ROUTING)
		return DROP_NO_SRH;
	if (ETH_LEN + IP6_LEN + payload > ctx_len(d->ctx) || ctx_load(d->ctx, ETH_LEN + IP6_LEN, srh, sizeof(*srh)))
		return DROP_TRUNCATED;
	len = (srh->hdrlen + 1) * 8;
	if (srh->type != SRH_TYPE || srh->nexthdr != NEXTHDR_IPV6 || srh->segments_left > srh->last_entry ||
	    sizeof(*srh) + (srh->last_entry + 1) * 16 > len)
		return DROP_SRH_MALFORMED;
	if (srh->segments_left == 0)
		return DROP_NO_SRH;
	d->outer_len = IP6_LEN + len;
	d->l3_len = IP6_LEN + payload;
	if (len + IP6_LEN + UDP_LEN + BTH_LEN + ICRC_LEN > payload || d->outer_len > CANOPY_MAX_OUTER)
		return DROP_TRUNCATED;
	return 0;
}

/* Sets `here` to the receivers of this edge: from the TLVs of the packet, or as provisioned. Returns 0 or a drop reason. */
static __noinline __u32 receivers_here(struct down *d, const struct canopy_node *n, const struct srh *srh,
				       struct canopy_slots *here)
{
	struct tlv_walk w = { .ctx = d->ctx, .edge = n->address, .group_id = d->g->group_id };
	__u32 drop;

	w.off = ETH_LEN + IP6_LEN + sizeof(*srh) + (srh->last_entry + 1) * 16;
	w.end = ETH_LEN + d->outer_len;
	drop = tlv_receivers(&w, d->g);
	*here = w.slots;
	return drop;
}

/* RFC 6040 decapsulation. Returns 0 or a drop reason. */
static __always_inline __u32 ecn_inward(struct roce *inner, __be32 outer_vtf)
{
	__u32 tc = traffic_class(inner->ip6.vtf);

	if ((traffic_class(outer_vtf) & 3) != 3)
		return 0;
	if ((tc & 3) == 0)
		return DROP_ECN;
	inner->ip6.vtf = with_traffic_class(inner->ip6.vtf, tc | 3);
	return 0;
}

/* The common part of replication and End.MT: an encapsulated packet from the parent node. */
static __always_inline int encapsulated(struct down *d, const struct canopy_node *n, const struct ip6 *outer,
					const struct srh *srh)
{
	const struct canopy_group *g = d->g;
	struct canopy_slots to = {}, here = {};
	__u32 drop;
	__u8 hop_limit = outer->hop_limit - 1;

	if (g->up_ifindex != ctx_port(d->ctx) && g->alternate_ifindex != ctx_port(d->ctx))
		return count_drop(g->group_id, DROP_WRONG_PORT);
	if (outer->hop_limit <= 1)
		return count_drop(g->group_id, DROP_HOP_LIMIT);
	drop = read_inner(d, ETH_LEN + d->outer_len);
	if (drop)
		return count_drop(g->group_id, drop);
	if (g->receivers.word[0] | g->receivers.word[1]) {
		drop = receivers_here(d, n, srh, &here);
		if (!drop && !write_allowed(d))
			drop = DROP_WRITE_REFUSED;
		if (!drop)
			drop = ecn_inward(&d->head, outer->vtf);
		if (drop)
			return count_drop(g->group_id, drop);
		d->head.ip6.hop_limit -= 1;
	}
	drop = pass(d, &to);
	if (drop)
		return count_drop(g->group_id, drop);
	/* The kernel's multicast forwarding decrements the hop limit itself. */
	if (!(g->flags & GROUP_MULTICAST) && ctx_store(d->ctx, ETH_LEN + 7, &hop_limit, 1))
		return count_drop(g->group_id, DROP_TRUNCATED);
	return send_down(d, &to, &here);
}

/* RFC 9524 End.Replicate. */
static __noinline int replicate(canopy_ctx *ctx, const struct canopy_node *n, const struct canopy_group *g,
				const struct ip6 *outer)
{
	struct down d = { .ctx = ctx, .g = g };
	struct srh srh;
	__u32 drop = read_srh(&d, outer, &srh);

	if (drop)
		return count_drop(g->group_id, drop);
	return encapsulated(&d, n, outer, &srh);
}

/* Decisions 2.3: with multicast replication the outer DA is the multicast address of the group, otherwise it is unicast. */
static __always_inline bool addressed_as_planned(const struct canopy_group *g, const struct canopy_addr *dst)
{
	const __u32 *id;

	if (!addr_is_multicast(dst))
		return !(g->flags & GROUP_MULTICAST);
	id = bpf_map_lookup_elem(&multicasts, dst);
	return g->flags & GROUP_MULTICAST && id && *id == g->group_id;
}

/* draft-li section 6: S01..S15. The next segment is the Proxy Address, which identifies the group. */
static __noinline int end_mt(canopy_ctx *ctx, const struct canopy_node *n, const struct ip6 *outer)
{
	struct down d = { .ctx = ctx };
	struct canopy_addr proxy;
	struct srh srh;
	__u32 *id, drop = read_srh(&d, outer, &srh);

	if (drop)
		return count_drop(0, drop);
	if (ctx_load(ctx, ETH_LEN + IP6_LEN + sizeof(srh) + (srh.segments_left - 1) * 16, &proxy, sizeof(proxy)))
		return count_drop(0, DROP_TRUNCATED);
	id = bpf_map_lookup_elem(&proxies, &proxy);
	d.g = id ? bpf_map_lookup_elem(&groups, id) : NULL;
	if (!d.g || !addressed_as_planned(d.g, &outer->dst))
		return count_drop(0, DROP_GROUP_UNKNOWN);
	return encapsulated(&d, n, outer, &srh);
}

#endif
