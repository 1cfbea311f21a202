/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Path programs of hosts at their edge port (decisions 5.8). A program is let in whole or not at all:
 *
 *   uN of this node, then uNs, each with at most one uA behind it, and last the uN of the node that the inner destination is behind
 *
 * The uSIDs are those of the destination and of the segments that nodes will load. uNs are those of nodes that the host's programs may lead
 * over; no function of a multicast group, no service and nothing reserved is among them. A packet passes few links more than once: the number
 * of uNs is bounded, and a program turns back once at most, as that of a probe does. The inner packet is checked like any other of the host.
 */
#ifndef CANOPY_PROGRAM_H
#define CANOPY_PROGRAM_H

#include "boundary.h"

/* Segments of an SRH that nodes will load, at most: 24 uSIDs with those of the destination. */
#define MAX_HOST_SEGMENTS 3
/* uSIDs of an address. */
#define USIDS 6
/* Times that a program leads from a node straight back to the one before it. */
#define MAX_TURNS 1

/* The uSIDs of a program as far as they were read. */
struct walk {
	__u32 last;			/* uSID; 0 = none yet */
	__u32 node;			/* the last uN.. */
	__u32 before;			/* ..and the one before it */
	__u32 nodes;			/* uNs */
	__u32 turns;
};

static __always_inline bool has_un(const struct canopy_uns *uns, __u32 usid)
{
	return uns->word[usid / 64] >> (usid % 64) & 1;
}

/*
 * Reads the uSIDs of an address, which is in host byte order. Returns whether a host may send them. A global function: the verifier checks it
 * once, and not for each segment.
 */
__noinline int canopy_walk(struct walk *w, __u64 hi, __u64 lo)
{
	__u64 rest = hi << 32 | lo >> 32, behind = lo << 32;
	const struct canopy_uns *uns;
	__u32 usid, zero = 0;
	bool ended = false;

	uns = bpf_map_lookup_elem(&path_nodes, &zero);
	if (!w || !uns)
		return false;
	for (int i = 0; i < USIDS; i++) {
		usid = rest >> 48;
		rest = rest << 16 | behind >> 48;
		behind <<= 16;
		if (!usid && i) {
			ended = true;
			continue;
		}
		if (ended)
			return false;
		if (has_un(uns, usid)) {
			w->turns += usid == w->before;
			w->before = w->node;
			w->node = usid;
			w->nodes += 1;
		} else if (!w->nodes || w->last != w->node || usid <= USID_BEFORE_UA || usid > USID_LAST_UA) {
			return false;
		}
		w->last = usid;
	}
	return true;
}

/* The same for an address in wire order. */
static __always_inline bool walk(struct walk *w, const struct canopy_addr *a)
{
	return canopy_walk(w, bpf_be64_to_cpu(a->hi), bpf_be64_to_cpu(a->lo));
}

/* Reads the segments that nodes will load. Returns whether a host may send them. */
static __always_inline bool walk_segments(canopy_ctx *ctx, const struct canopy_node *n, const struct srh *srh, struct walk *w)
{
	struct canopy_addr segment = {};
	__u32 left = srh->segments_left;

	for (int i = 0; i < MAX_HOST_SEGMENTS && left; i++) {
		left -= 1;
		if (ctx_load_network(ctx, IP6_LEN + sizeof(*srh) + (left & 3) * sizeof(segment), &segment, sizeof(segment)) ||
		    !addr_in(&segment, &n->block) || !walk(w, &segment))
			return false;
	}
	return true;
}

/* Whether the host with this address is behind the node with this uN. */
static __always_inline bool ends_at(const struct canopy_addr *a, __u32 un)
{
	struct canopy_prefix key = { .length = 128 };
	const struct canopy_ends *ends;

	__builtin_memcpy(key.address, a, sizeof(key.address));
	ends = bpf_map_lookup_elem(&path_ends, &key);
	for (int i = 0; ends && i < CANOPY_HOST_LINKS; i++)
		if (ends->un[i] == un)
			return un;
	return false;
}

/*
 * Checks a packet to the block from a host that may send path programs. Returns 0 or a drop reason. A global function: verified once.
 */
__noinline __u32 canopy_admit_program(struct __sk_buff *ctx, const struct canopy_node *n, const struct canopy_port *p,
				      const struct ip6 *ip6)
{
	__u32 inner_at = IP6_LEN;
	struct ip6 inner = {};
	struct walk w = {};
	struct srh srh = {};
	__u8 next;

	if (!n || !p || !ip6 || bpf_ntohl(ip6->vtf) >> 28 != 6)
		return DROP_EDGE_FRAME;
	if (!may_send_from(p, &ip6->src))
		return DROP_EDGE_SOURCE;
	if ((bpf_be64_to_cpu(ip6->dst.hi) >> 16 & 0xFFFF) != n->usid || !walk(&w, &ip6->dst))
		return DROP_EDGE_PROGRAM;
	next = ip6->nexthdr;
	if (next == NEXTHDR_ROUTING) {
		if (ctx_load_network(ctx, IP6_LEN, &srh, sizeof(srh)))
			return DROP_EDGE_HEADERS;
		/* No TLVs are behind the list, which may be reduced (RFC 8754 section 4.1.1). */
		if (srh.type != SRH_TYPE || srh.flags || srh.segments_left > MAX_HOST_SEGMENTS ||
		    srh.segments_left > srh.last_entry + 1 || srh.hdrlen != 2 * (srh.last_entry + 1) ||
		    !walk_segments(ctx, n, &srh, &w))
			return DROP_EDGE_PROGRAM;
		inner_at += (srh.hdrlen + 1) * 8;
		next = srh.nexthdr;
	}
	if (w.nodes > n->program_nodes || w.turns > MAX_TURNS || next != NEXTHDR_IPV6)
		return DROP_EDGE_PROGRAM;
	if (ctx_load_network(ctx, inner_at, &inner, sizeof(inner)) ||
	    inner_at + bpf_ntohs(inner.payload_len) != bpf_ntohs(ip6->payload_len))
		return DROP_EDGE_HEADERS;
	if (!ends_at(&inner.dst, w.last))
		return DROP_EDGE_PROGRAM_END;
	return canopy_admit(ctx, n, p, &inner, inner_at);
}

#endif
