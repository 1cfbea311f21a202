/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * TC ingress of every interface: the boundary of the domain first; then the role of a packet, whose program continues.
 *
 *   outer DA = Replication-SID  -> replicate            (RFC 9524)
 *   outer DA = End.MT SID       -> strip, copy, rewrite (draft-li section 6)
 *   outer DA = group's ff3e::   -> the same; the kernel's multicast routes replicate to child nodes (decisions 2.3)
 *   DA elsewhere in the block   -> path, a program of uSIDs (decisions 5)
 *   DA = Proxy Address          -> headend if SA is the source, otherwise feedback of a receiver
 *   DA = node address, RoCEv2   -> feedback of a child node
 *   anything else               -> the kernel's stack
 */
#ifndef CANOPY_DISPATCH_H
#define CANOPY_DISPATCH_H

#include "program.h"
#include "roles.h"

/* Continues with the role, on one packet and not on a buffer of several. `group_id` is 0 where only the role finds the group. */
static __always_inline int enter_once(canopy_ctx *ctx, enum canopy_role role, __u32 group_id)
{
	return ctx_is_gso(ctx) ? count_drop(group_id, DROP_GSO) : enter(ctx, role, group_id);
}

static __always_inline int enter_by(canopy_ctx *ctx, enum canopy_role role, const __u32 *group_id)
{
	return group_id ? enter_once(ctx, role, *group_id) : count_drop(0, DROP_GROUP_UNKNOWN);
}

/* Whether programs come from this address: a node's, or where hosts may send them, one that a host can have: its edge has checked them. */
static __always_inline bool sends_programs(const struct canopy_node *n, const struct canopy_addr *src)
{
	if (addr_in(src, &n->nodes))
		return true;
	return n->program_nodes && !is_in_domain(n, src) && !addr_is_link_local(src) && !addr_is_multicast(src) &&
	       (src->hi | src->lo) && !has_address(&own_addresses, src);
}

/* An IPv6 packet that passed the boundary. */
static __always_inline int receive(canopy_ctx *ctx, const struct canopy_node *n, const struct ip6 *ip6)
{
	const struct canopy_proxy *proxy;
	__be16 dport;
	__u32 number;
	__be32 word;

	if (ip6->dst.hi == n->replicate_hi) {
		/* The whole address is the SID (decisions 6.3). */
		if (ip6->dst.lo >> 32)
			return count_drop(0, DROP_GROUP_UNKNOWN);
		number = bpf_ntohl((__u32)ip6->dst.lo);
		return enter_by(ctx, ROLE_REPLICATE, bpf_map_lookup_elem(&trees, &number));
	}
	if (addr_eq(&ip6->dst, &n->end_mt) ||
	    (addr_is_multicast(&ip6->dst) && bpf_map_lookup_elem(&multicasts, &ip6->dst)))
		return enter_once(ctx, ROLE_END_MT, 0);
	/* The kernel has routes to other nodes' SIDs, which a path program must not take: none of these packets is left to it. */
	if (addr_in(&ip6->dst, &n->block))
		return sends_programs(n, &ip6->src) ? enter_once(ctx, ROLE_PATH, 0) :
						      count_port_drop(ctx_port(ctx), DROP_FABRIC_SOURCE);
	if (ip6->nexthdr != NEXTHDR_UDP || ctx_read(ctx, ETH_LEN + IP6_LEN + 2, &dport) || dport != bpf_htons(ROCE_PORT))
		return ctx_pass_to_fabric(ctx);
	if (addr_eq(&ip6->dst, &n->address)) {
		if (ctx_read(ctx, ETH_LEN + IP6_LEN + UDP_LEN + 4, &word))
			return count_drop(0, DROP_TRUNCATED);
		number = bpf_ntohl(word) & QPN_MASK;
		return enter_by(ctx, ROLE_FEEDBACK, bpf_map_lookup_elem(&qpns, &number));
	}
	proxy = bpf_map_lookup_elem(&proxies, &ip6->dst);
	if (!proxy)
		return ctx_pass_to_fabric(ctx);
	return enter_once(ctx, addr_eq(&ip6->src, &proxy->source) ? ROLE_HEADEND : ROLE_FEEDBACK, proxy->group_id);
}

SEC("tc")
int canopy_dispatch(struct __sk_buff *skb)
{
	const struct canopy_port *port;
	const struct canopy_node *n;
	__u32 zero = 0, ifindex;
	struct ip6 ip6 = {};
	bool plain;
	__u32 drop;

	ctx_mark_copy(skb, false);
	if (ctx_is_own(skb))
		return ctx_pass(skb);
	if (ctx_is_for_kernel(skb))
		return ctx_pass_to_fabric(skb);
	n = bpf_map_lookup_elem(&node, &zero);
	if (!n || !n->address.hi)
		return ctx_pass(skb);
	ifindex = ctx_port(skb);
	port = bpf_map_lookup_elem(&ports, &ifindex);
	if (!port)
		return receive_outside(skb, n);
	if (ctx_is_for_another(skb))
		return port->kind == PORT_EDGE ? count_port_drop(ifindex, DROP_EDGE_OTHER_MAC) : ctx_pass(skb);
	plain = skb->protocol == bpf_htons(ETH_IPV6) && !ctx_read(skb, ETH_LEN, &ip6);
	if (port->kind == PORT_EDGE) {
		if (!plain || !ctx_untag(skb))
			return count_port_drop(ifindex, DROP_EDGE_FRAME);
		drop = port->programs && addr_in(&ip6.dst, &n->block) ? canopy_admit_program(skb, n, port, &ip6) :
									canopy_admit(skb, n, port, &ip6, 0);
		if (drop)
			return count_port_drop(ifindex, drop);
	} else if (!plain || ctx_in_vlan(skb) || !ctx_untag(skb)) {
		/* Another network's frame on the same cable is the VLAN interface's, which has a filter of its own. */
		return ctx_pass(skb);
	}
	return receive(skb, n, &ip6);
}

#endif
