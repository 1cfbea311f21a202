/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The flow of a RoCEv2 packet, also if it is encapsulated in IPv6 or SRv6. */
#ifndef CANOPY_FLOW_H
#define CANOPY_FLOW_H

#include "../common/ctx_tc.h"
#include "drop.h"
#include "maps.h"

/* The low two bits of the traffic class, in the second octet of the header. */
#define ECN_SHIFT 4

enum passing { PASSING_OTHER, PASSING_DATA, PASSING_ACK, PASSING_CM };

/* Offsets of the headers of a packet. */
struct found {
	__u32 inner;		/* the IPv6 header before UDP */
	__u32 outer;		/* the encapsulating IPv6 header; 0 = none */
	__u32 behind;		/* the first octet after the BTH */
	__u8 inner_octet;	/* second octet of each header: low half of the traffic class */
	__u8 outer_octet;
};

static __always_inline __u8 second_octet(const struct ip6 *ip6)
{
	return ((const __u8 *)&ip6->vtf)[1];
}

static __always_inline __u32 ecn(__u8 octet)
{
	return (octet >> ECN_SHIFT) & ECN_MASK;
}

/* CNPs and responses are not data: they are small, and slowing them down does not shorten a queue. */
static __always_inline enum passing passing_of(__u8 opcode)
{
	__u8 kind = opcode & OP_KIND, class = opcode & OP_CLASS;

	if (opcode == OP_CNP)
		return PASSING_OTHER;
	if (class != OP_CLASS_UC && class != OP_CLASS_UD && (kind == OP_ACK || kind == OP_ATOMIC_ACK))
		return PASSING_ACK;
	return PASSING_DATA;
}

/* Fills `key` except for the port. */
static __noinline enum passing find_flow(canopy_ctx *ctx, struct canopy_flow_key *key, struct found *at)
{
	struct transport l4;
	struct ip6 ip6;
	struct srh srh;
	__u32 off = ETH_LEN;
	__u8 next;

	if (ctx_load(ctx, off, &ip6, IP6_LEN))
		return PASSING_OTHER;
	at->inner = off;
	off += IP6_LEN;
	next = ip6.nexthdr;
	if (next == NEXTHDR_ROUTING) {
		if (ctx_load(ctx, off, &srh, sizeof(srh)) || srh.type != SRH_TYPE || srh.nexthdr != NEXTHDR_IPV6)
			return PASSING_OTHER;
		off += ((__u32)srh.hdrlen + 1) * 8;
		next = srh.nexthdr;
	}
	if (next == NEXTHDR_IPV6) {
		at->outer = at->inner;
		at->outer_octet = second_octet(&ip6);
		if (ctx_load(ctx, off, &ip6, IP6_LEN))
			return PASSING_OTHER;
		at->inner = off;
		off += IP6_LEN;
		next = ip6.nexthdr;
	}
	at->inner_octet = second_octet(&ip6);
	if (next != NEXTHDR_UDP || ctx_load(ctx, off, &l4, sizeof(l4)) || l4.udp.dport != bpf_htons(ROCE_PORT))
		return PASSING_OTHER;
	key->src = ip6.src;
	key->dst = ip6.dst;
	key->qpn = bth_qpn(&l4.bth);
	at->behind = off + sizeof(l4);
	if (l4.bth.opcode == OP_UD_SEND_ONLY && key->qpn == QP1)
		return PASSING_CM;
	return passing_of(l4.bth.opcode);
}

/* The table entry of a flow, created if there is none; announced flows have a table of their own. */
static __always_inline struct canopy_flow *flow_entry(const struct canopy_flow_key *key)
{
	struct canopy_flow_key anywhere = *key;
	struct canopy_flow fresh = {}, *flow;

	anywhere.ifindex = 0;
	if (bpf_map_lookup_elem(&eg_known, &anywhere)) {
		flow = bpf_map_lookup_elem(&eg_kept, key);
		if (flow)
			return flow;
		bpf_map_update_elem(&eg_kept, key, &fresh, BPF_NOEXIST);
		flow = bpf_map_lookup_elem(&eg_kept, key);
		if (!flow)
			count_port_drop(key->ifindex, DROP_FLOW_UNCOUNTED);
		return flow;
	}
	flow = bpf_map_lookup_elem(&eg_flows, key);
	if (flow)
		return flow;
	bpf_map_update_elem(&eg_flows, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&eg_flows, key);
}

#endif
