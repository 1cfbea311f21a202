/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The boundary of the SRv6 domain (decisions 6; RFC 8402 section 8.2, RFC 8754 section 5.1, BCP 38), before any role sees a packet. An
 * edge port passes what a host is known to need and drops the rest.
 */
#ifndef CANOPY_BOUNDARY_H
#define CANOPY_BOUNDARY_H

#include "../common/ctx_tc.h"
#include "drop.h"
#include "maps.h"
#include "nexthop.h"
#include "shared.h"

/* Longest chain of extension headers from a host. */
#define MAX_CHAIN_HEADERS 4
#define MAX_CHAIN_OCTETS 256
/* RFC 4861: neighbour discovery never crosses a router. */
#define DISCOVERY_HOP_LIMIT 255

/* The header behind the extension headers of a packet. */
struct upper {
	__u32 off;			/* from the network header on */
	__u32 end;			/* of the packet, likewise */
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

/* The addresses of the packet that an ICMPv6 error is about. */
struct quoted {
	struct canopy_addr src;
	struct canopy_addr dst;
};

/*
 * Walks the chain of extension headers of the packet `at` octets behind the network header, which ends within the packet's own length: what
 * is behind it, another part of a fragmented packet may contradict. Returns 0 or a drop reason.
 */
static __always_inline __u32 find_upper(canopy_ctx *ctx, const struct ip6 *ip6, __u32 at, struct upper *u)
{
	__u32 first = at + IP6_LEN, len;
	struct extension x;

	u->off = first;
	u->end = first + bpf_ntohs(ip6->payload_len);
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
		if (i == MAX_CHAIN_HEADERS || ctx_load_network(ctx, u->off, &x, sizeof(x)))
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
		if (u->off > first + MAX_CHAIN_OCTETS || u->off > u->end)
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

	if (ip6->hop_limit != DISCOVERY_HOP_LIMIT || u->off != IP6_LEN)
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
	if (ctx_load_network(ctx, u->off + 8, &target, sizeof(target)))
		return DROP_EDGE_NEIGHBOUR;
	if (is_hosts_own(p, &target))
		return 0;
	/* A host asks for the node's addresses; it does not claim them, nor try whether they are free. */
	return type == ICMPV6_NEIGHBOUR_SOLICIT && !detection && is_nodes_own(p, &target) ? 0 : DROP_EDGE_NEIGHBOUR;
}

/* The ICMPv6 type at `u`; -1 if the packet ends before it. */
static __always_inline int read_icmpv6_type(canopy_ctx *ctx, const struct upper *u)
{
	__u8 type;

	if (u->off >= u->end || ctx_load_network(ctx, u->off, &type, sizeof(type)))
		return -1;
	return type;
}

/* Reads the addresses of the packet that the ICMPv6 error at `u` is about. False if they are not in this packet. */
static __always_inline bool read_quoted(canopy_ctx *ctx, const struct upper *u, struct quoted *q)
{
	__u32 off = u->off + ICMPV6_QUOTED + offsetof(struct ip6, src);

	return off + sizeof(*q) <= u->end && !ctx_load_network(ctx, off, q, sizeof(*q));
}

/*
 * Whether an ICMPv6 error of a host is about a packet to that host. The kernel believes errors about any destination: one about the
 * path to another would make the node take that path's MTU for as small as the host likes.
 */
static __always_inline bool is_hosts_error(canopy_ctx *ctx, const struct canopy_port *p, const struct upper *u)
{
	struct quoted q = {};

	return !u->fragment && read_quoted(ctx, u, &q) && addr_in(&q.dst, &p->host);
}

/* Whether `map` has the address: from the stack, where a key may be on every kernel. */
static __always_inline bool has_address(void *map, const struct canopy_addr *a)
{
	struct canopy_addr key = *a;

	return bpf_map_lookup_elem(map, &key);
}

/* Whether the host on the port may send from an address to others. */
static __always_inline bool may_send_from(const struct canopy_port *p, const struct canopy_addr *a)
{
	return addr_in(a, &p->host) && !is_nodes_own(p, a) && !has_address(&own_addresses, a);
}

/*
 * Checks an IPv6 packet from a host, which is `at` octets behind the network header: in a path program it is the inner one. Returns 0 or a
 * drop reason. A global function: the verifier checks it once, and not at every call.
 */
__noinline __u32 canopy_admit(struct __sk_buff *ctx, const struct canopy_node *n, const struct canopy_port *p, const struct ip6 *ip6,
			      __u32 at)
{
	struct upper u = {};
	__be16 dport = 0;
	int type = ICMPV6_INFORMATIONAL;
	__u32 drop;

	if (!n || !p || !ip6)
		return DROP_EDGE_FRAME;
	if (bpf_ntohl(ip6->vtf) >> 28 != 6)
		return DROP_EDGE_FRAME;
	drop = find_upper(ctx, ip6, at, &u);
	if (drop)
		return drop;
	if (u.protocol == NEXTHDR_ICMPV6 && !u.missing) {
		type = read_icmpv6_type(ctx, &u);
		if (type < 0)
			return DROP_EDGE_HEADERS;
		if (type >= ICMPV6_ROUTER_SOLICIT && type <= ICMPV6_REDIRECT)
			return admit_discovery(ctx, p, ip6, &u, type);
	}
	if (!may_send_from(p, &ip6->src))
		return addr_is_link_local(&ip6->src) || !(ip6->src.hi | ip6->src.lo) ? DROP_EDGE_LINK_LOCAL : DROP_EDGE_SOURCE;
	if (addr_in(&ip6->dst, &n->block))
		return DROP_EDGE_SID;
	if (addr_in(&ip6->dst, &n->nodes))
		return DROP_EDGE_NODE;
	if (addr_is_multicast(&ip6->dst))
		return DROP_EDGE_LINK_LOCAL;
	if (!addr_in(&ip6->dst, &n->proxies)) {
		if (has_address(&own_addresses, &ip6->dst))
			return DROP_EDGE_OWN_ADDRESS;
		return type < ICMPV6_INFORMATIONAL && !is_hosts_error(ctx, p, &u) ? DROP_EDGE_ICMP_ERROR : 0;
	}
	/* The roles expect UDP behind IPv6; and a group that has another node, or no node, is none of this host's. */
	if (at || ip6->nexthdr != NEXTHDR_UDP || ctx_read(ctx, ETH_LEN + IP6_LEN + 2, &dport) || dport != bpf_htons(ROCE_PORT) ||
	    !has_address(&proxies, &ip6->dst))
		return DROP_EDGE_PROXY;
	return 0;
}

static __always_inline bool is_in_domain(const struct canopy_node *n, const struct canopy_addr *a)
{
	return addr_in(a, &n->block) || addr_in(a, &n->nodes) || addr_in(a, &n->proxies) || addr_in(a, &n->multicast);
}

/*
 * Whether a packet on an interface outside the topology is for the domain, or an ICMPv6 error about a packet of the domain or a path
 * in it: the first fragment of an error is refused, because it may hide what it is about. A global function: verified once.
 */
__noinline int canopy_concerns_domain(struct __sk_buff *ctx, const struct canopy_node *n, const struct ip6 *ip6)
{
	struct upper u = {};
	struct quoted q = {};

	if (!n || !ip6)
		return true;
	if (is_in_domain(n, &ip6->dst))
		return true;
	if (find_upper(ctx, ip6, 0, &u) || u.protocol != NEXTHDR_ICMPV6 || u.missing ||
	    read_icmpv6_type(ctx, &u) >= ICMPV6_INFORMATIONAL)
		return false;
	if (u.fragment)
		return true;
	if (!read_quoted(ctx, &u, &q))
		return false;
	return is_in_domain(n, &q.src) || is_in_domain(n, &q.dst) || leads_through_port(ctx, &q.dst);
}

/*
 * A packet that arrived on an interface outside the topology. Its stack remains the node's own business, but no packet to the domain
 * passes.
 */
static __always_inline int receive_outside(canopy_ctx *ctx, const struct canopy_node *n)
{
	struct ip6 ip6 = {};

	/* Behind a priority tag the kernel removes further ones, and no program sees the frame again. */
	if (ctx->vlan_present && !(ctx->vlan_tci & 0xFFF) &&
	    (ctx->protocol == bpf_htons(ETH_VLAN) || ctx->protocol == bpf_htons(ETH_SERVICE_VLAN)))
		return count_port_drop(ctx_port(ctx), DROP_OUTSIDE);
	if (ctx->protocol != bpf_htons(ETH_IPV6) || ctx_load_network(ctx, 0, &ip6, sizeof(ip6)))
		return ctx_pass(ctx);
	if (canopy_concerns_domain(ctx, n, &ip6))
		return count_port_drop(ctx_port(ctx), DROP_OUTSIDE);
	return ctx_pass(ctx);
}

#endif
