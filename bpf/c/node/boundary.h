/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The boundary of the SRv6 domain (decisions 6; RFC 8402 section 8.2, RFC 8754 section 5.1, BCP 38), before any role sees a packet. An
 * edge port passes what a host is known to need and drops the rest.
 */
#ifndef CANOPY_BOUNDARY_H
#define CANOPY_BOUNDARY_H

#include "../common/ctx_tc.h"
#include "drop.h"
#include "shared.h"

/* Longest chain of extension headers from a host. */
#define MAX_CHAIN_HEADERS 4
#define MAX_CHAIN_OCTETS 256
/* RFC 4861: neighbour discovery never crosses a router. */
#define DISCOVERY_HOP_LIMIT 255

/* The header behind the extension headers of a packet from a host. */
struct upper {
	__u32 off;
	__u32 protocol;
	bool fragment;			/* it is in the first fragment.. */
	bool missing;			/* ..or not in this one */
};

/* The first octets of an extension header. */
struct extension {
	__u8 nexthdr;
	__u8 hdrlen;
	__be16 fragment;		/* Fragment header: offset, reserved, M */
};

/* Walks the chain of extension headers. Returns 0 or a drop reason. */
static __always_inline __u32 find_upper(canopy_ctx *ctx, const struct ip6 *ip6, struct upper *u)
{
	struct extension x;
	__u32 len;

	u->off = ETH_LEN + IP6_LEN;
	u->protocol = ip6->nexthdr;
	for (int i = 0; i <= MAX_CHAIN_HEADERS; i++) {
		switch (u->protocol) {
		case NEXTHDR_ROUTING:
		case NEXTHDR_IPV6:
		case NEXTHDR_IPV4:
			return DROP_EDGE_TUNNEL;
		case NEXTHDR_HOP_BY_HOP:
		case NEXTHDR_DESTINATION:
		case NEXTHDR_AUTHENTICATION:
		case NEXTHDR_FRAGMENT:
			break;
		default:
			return 0;
		}
		if (i == MAX_CHAIN_HEADERS || ctx_load(ctx, u->off, &x, sizeof(x)))
			return DROP_EDGE_HEADERS;
		len = (x.hdrlen + 1) * 8;
		if (u->protocol == NEXTHDR_AUTHENTICATION)
			len = (x.hdrlen + 2) * 4;
		if (u->protocol == NEXTHDR_FRAGMENT) {
			len = 8;
			u->fragment = true;
			u->missing = x.fragment & bpf_htons(0xFFF8);
		}
		u->off += len;
		u->protocol = x.nexthdr;
		if (u->off > ETH_LEN + IP6_LEN + MAX_CHAIN_OCTETS)
			return DROP_EDGE_HEADERS;
		if (u->missing)
			return 0;
	}
	return DROP_EDGE_HEADERS;
}

static __always_inline bool is_nodes_own(const struct canopy_port *p, const struct canopy_addr *a)
{
	return addr_eq(a, &p->link_local) || addr_eq(a, &p->gateway);
}

/* Whether a host may use an address as its own on the link: of its prefix, or link-local and not the node's. */
static __always_inline bool is_hosts_own(const struct canopy_port *p, const struct canopy_addr *a)
{
	return (addr_in(a, &p->host) || addr_is_link_local(a)) && !is_nodes_own(p, a);
}

/*
 * Neighbour discovery of a host: solicitations and advertisements for its own addresses, and solicitations of its neighbours. Never
 * what only routers send. Returns 0 or a drop reason.
 */
static __always_inline __u32 admit_discovery(canopy_ctx *ctx, const struct canopy_port *p, const struct ip6 *ip6,
					     const struct upper *u, __u32 type)
{
	struct canopy_addr target = {};
	bool detection = !(ip6->src.hi | ip6->src.lo);

	if (ip6->hop_limit != DISCOVERY_HOP_LIMIT || u->off != ETH_LEN + IP6_LEN)
		return DROP_EDGE_NEIGHBOUR;
	if (!detection && !is_hosts_own(p, &ip6->src))
		return DROP_EDGE_NEIGHBOUR;
	/* Link-local destinations only: nothing of this is forwarded. */
	if (!addr_is_link_local(&ip6->dst) && (__u16)ip6->dst.hi != bpf_htons(0xFF02))
		return DROP_EDGE_NEIGHBOUR;
	if (type == ICMPV6_ROUTER_SOLICIT)
		return 0;
	if (type != ICMPV6_NEIGHBOUR_SOLICIT && type != ICMPV6_NEIGHBOUR_ADVERT)
		return DROP_EDGE_NEIGHBOUR;
	if (ctx_load(ctx, u->off + 8, &target, sizeof(target)))
		return DROP_EDGE_NEIGHBOUR;
	if (is_hosts_own(p, &target))
		return 0;
	/* A host asks for the node's addresses; it does not claim them, nor try whether they are free. */
	return type == ICMPV6_NEIGHBOUR_SOLICIT && !detection && is_nodes_own(p, &target) ? 0 : DROP_EDGE_NEIGHBOUR;
}

/*
 * Checks an IPv6 packet from a host. Returns 0 or a drop reason. A global function: the verifier checks it once, and not at every
 * call.
 */
__noinline __u32 canopy_admit(struct __sk_buff *ctx, const struct canopy_node *n, const struct canopy_port *p, const struct ip6 *ip6)
{
	struct upper u = {};
	__be16 dport = 0;
	__be16 icmp = 0;
	__u32 drop, type;

	if (!n || !p || !ip6)
		return DROP_EDGE_FRAME;
	if (bpf_ntohl(ip6->vtf) >> 28 != 6)
		return DROP_EDGE_FRAME;
	drop = find_upper(ctx, ip6, &u);
	if (drop)
		return drop;
	if (u.protocol == NEXTHDR_ICMPV6 && !u.missing) {
		if (ctx_load(ctx, u.off, &icmp, sizeof(icmp)))
			return DROP_EDGE_HEADERS;
		type = bpf_ntohs(icmp) >> 8;
		if (type >= ICMPV6_ROUTER_SOLICIT && type <= ICMPV6_REDIRECT)
			return admit_discovery(ctx, p, ip6, &u, type);
	}
	if (!addr_in(&ip6->src, &p->host) || is_nodes_own(p, &ip6->src))
		return addr_is_link_local(&ip6->src) || !(ip6->src.hi | ip6->src.lo) ? DROP_EDGE_LINK_LOCAL : DROP_EDGE_SOURCE;
	if (addr_in(&ip6->dst, &n->block))
		return DROP_EDGE_SID;
	if (addr_in(&ip6->dst, &n->nodes))
		return DROP_EDGE_NODE;
	if (addr_is_multicast(&ip6->dst))
		return DROP_EDGE_LINK_LOCAL;
	if (!addr_in(&ip6->dst, &n->proxies))
		return 0;
	if (u.protocol != NEXTHDR_UDP || u.fragment || ctx_read(ctx, u.off + 2, &dport) ||
	    dport != bpf_htons(ROCE_PORT))
		return DROP_EDGE_PROXY;
	return 0;
}

/*
 * A packet that arrived on an interface outside the topology. Its stack remains the node's own business, but no packet to the domain
 * passes.
 */
static __always_inline int receive_outside(canopy_ctx *ctx, const struct canopy_node *n)
{
	struct canopy_addr dst;

	/* Behind a priority tag the kernel removes further ones, and no program sees the frame again. */
	if (ctx->vlan_present && !(ctx->vlan_tci & 0xFFF) &&
	    (ctx->protocol == bpf_htons(ETH_VLAN) || ctx->protocol == bpf_htons(ETH_SERVICE_VLAN)))
		return count_port_drop(ctx_port(ctx), DROP_OUTSIDE);
	if (ctx->protocol != bpf_htons(ETH_IPV6) || ctx_load_network(ctx, 24, &dst, sizeof(dst)))
		return ctx_pass(ctx);
	if (addr_in(&dst, &n->block) || addr_in(&dst, &n->nodes) || addr_in(&dst, &n->proxies) || addr_in(&dst, &n->multicast))
		return count_port_drop(ctx_port(ctx), DROP_OUTSIDE);
	return ctx_pass(ctx);
}

#endif
