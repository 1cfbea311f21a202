/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Role: path SIDs of this node, uN and uA with NEXT-CSID, PSP and USD (decisions 5; RFC 9800 section 4.1, RFC 8986 section 4.16). Behind
 * the block B, a packet's destination has uSIDs of 16 bits:
 *
 *   B:N:M:..   own uN             -> B:M:.., over the only link to node M
 *   B:F:..     uA of a port here  -> B:..,   over the link of that port
 *   B:N:F:..   both               -> B:..,   the same
 *
 * Where nothing follows, the next segment of the SRH takes the place of the destination, and the SRH goes with the last one (PSP). Behind
 * the last segment, the inner packet is forwarded: by the node's routes behind a uN, over the link behind a uA (USD).
 *
 * The packet leaves over the link that its header names or not at all: no route decides, least of all a repaired one.
 */
#ifndef CANOPY_PATH_H
#define CANOPY_PATH_H

#include "boundary.h"
#include "encapsulated.h"

/* A packet to a path SID. */
struct path {
	struct ip6 ip6;			/* outer header */
	struct srh srh;			/* Segments Left is 0 without one */
	__u32 srh_len;			/* 0 = none */
	__u32 loaded;			/* a segment of the SRH became the destination here */
	__u64 hi, lo;			/* destination in host byte order, as it is now */
};

/* Ports that have an entry at the same time; others replace them. A power of two. */
#define PATH_HOPS 1024

/* The next hops of path programs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PATH_HOPS);
	__type(key, __u32);
	__type(value, struct known_hop);
} path_hops SEC(".maps");

/* Reads the outer IPv6 header, and the SRH if one follows. Returns 0 or a drop reason. */
static __always_inline __u32 read_path(canopy_ctx *ctx, struct path *p)
{
	struct srh *srh = &p->srh;
	__u32 payload;

	if (ctx_load(ctx, ETH_LEN, &p->ip6, IP6_LEN))
		return DROP_TRUNCATED;
	payload = bpf_ntohs(p->ip6.payload_len);
	if (ETH_LEN + IP6_LEN + payload > ctx_len(ctx))
		return DROP_TRUNCATED;
	p->hi = bpf_be64_to_cpu(p->ip6.dst.hi);
	p->lo = bpf_be64_to_cpu(p->ip6.dst.lo);
	if (p->ip6.nexthdr != NEXTHDR_ROUTING)
		return 0;
	if (ctx_load(ctx, ETH_LEN + IP6_LEN, srh, sizeof(*srh)))
		return DROP_TRUNCATED;
	p->srh_len = (srh->hdrlen + 1) * 8;
	/* RFC 8754 section 4.1.1: the first segment of a reduced SRH is in the destination only. */
	if (srh->type != SRH_TYPE || srh->segments_left > srh->last_entry + 1 ||
	    sizeof(*srh) + (srh->last_entry + 1) * 16 > p->srh_len)
		return DROP_SRH_MALFORMED;
	return p->srh_len > payload ? DROP_TRUNCATED : 0;
}

/* The first uSID of the destination. */
static __always_inline __u32 active_usid(const struct path *p)
{
	return p->hi >> 16 & 0xFFFF;
}

/* What is behind the uAs in the number plan is no key of `path_links`. */
static __always_inline bool is_ua(__u32 usid)
{
	return usid > USID_BEFORE_UA;
}

static __always_inline const struct canopy_path_link *link_of(__u32 usid)
{
	return bpf_map_lookup_elem(&path_links, &usid);
}

/*
 * Removes the first uSID: the others become the destination, or else the next segment does. `ended` if there is neither. Returns 0 or a drop
 * reason.
 */
static __always_inline __u32 advance(canopy_ctx *ctx, const struct canopy_node *n, struct path *p, bool *ended)
{
	struct canopy_addr segment = {};

	if ((p->hi & 0xFFFF) | p->lo) {
		p->hi = (p->hi & 0xFFFFFFFF00000000) | (p->hi << 16 & 0xFFFF0000) | p->lo >> 48;
		p->lo <<= 16;
		return 0;
	}
	*ended = !p->srh.segments_left;
	if (*ended)
		return 0;
	p->srh.segments_left -= 1;
	p->loaded = true;
	if (ctx_load(ctx, ETH_LEN + IP6_LEN + sizeof(p->srh) + p->srh.segments_left * 16, &segment, sizeof(segment)))
		return DROP_TRUNCATED;
	if (!addr_in(&segment, &n->block))
		return DROP_PATH_NO_LINK;
	p->hi = bpf_be64_to_cpu(segment.hi);
	p->lo = bpf_be64_to_cpu(segment.lo);
	return 0;
}

/*
 * Carries out the uSIDs that are this node's. `link` is the one that the packet leaves over; none, if the program ended behind the node's
 * uN. Returns 0 or a drop reason.
 */
static __always_inline __u32 carry_out(canopy_ctx *ctx, const struct canopy_node *n, struct path *p, bool *ended,
				       const struct canopy_path_link **link)
{
	bool is_node = active_usid(p) == n->usid;
	__u32 drop;

	*link = NULL;
	if (is_node) {
		drop = advance(ctx, n, p, ended);
		if (drop || *ended)
			return drop;
	} else if (!is_ua(active_usid(p))) {
		return DROP_PATH_SID;
	}
	*link = link_of(active_usid(p));
	if (!*link)
		return is_node ? DROP_PATH_NO_LINK : DROP_PATH_SID;
	if (is_ua(active_usid(p))) {
		drop = advance(ctx, n, p, ended);
		if (drop)
			return drop;
	}
	/* A host has no uSID: nothing may follow the uA of its port. */
	return *ended || (*link)->kind == PORT_FABRIC ? 0 : DROP_PATH_NO_LINK;
}

/* Writes the packet whose first header is `ip6` as it leaves over a link between nodes. Returns 0 or a drop reason. */
static __always_inline __u32 address_to(canopy_ctx *ctx, const struct canopy_path_link *link, const struct ip6 *ip6)
{
	__u32 index = link->ifindex & (PATH_HOPS - 1), len = IP6_LEN + bpf_ntohs(ip6->payload_len), drop;
	struct known_hop *known = bpf_map_lookup_elem(&path_hops, &index);
	struct hop hop = {};

	if (!known)
		return DROP_STATE_MISSING;
	drop = resolve_known(ctx, known, bpf_ktime_get_ns(), link->ifindex, &link->next_hop, len, &hop);
	if (drop)
		return drop == DROP_MTU ? DROP_PATH_MTU : DROP_PATH_LINK_DOWN;
	if (ctx_trim(ctx, ETH_LEN + len))
		return DROP_NO_ROOM;
	return ctx_write(ctx, 0, &hop.macs, sizeof(hop.macs)) || ctx_write(ctx, ETH_LEN, ip6, IP6_LEN) ? DROP_TRUNCATED : 0;
}

/* Makes the packet what the node behind `link` gets. Returns 0 or a drop reason. */
static __always_inline __u32 follow(canopy_ctx *ctx, struct path *p, const struct canopy_path_link *link)
{
	__u8 left = p->srh.segments_left;

	if (p->ip6.hop_limit <= 1)
		return DROP_HOP_LIMIT;
	p->ip6.hop_limit -= 1;
	p->ip6.dst.hi = bpf_cpu_to_be64(p->hi);
	p->ip6.dst.lo = bpf_cpu_to_be64(p->lo);
	if (p->loaded && left) {
		if (ctx_write(ctx, ETH_LEN + IP6_LEN + offsetof(struct srh, segments_left), &left, sizeof(left)))
			return DROP_TRUNCATED;
	} else if (p->loaded) {
		/* PSP. The first octets go, and the outer header is written anew behind them. */
		if (ctx_resize(ctx, -(__s32)p->srh_len))
			return DROP_NO_ROOM;
		p->ip6.nexthdr = p->srh.nexthdr;
		p->ip6.payload_len = bpf_htons(bpf_ntohs(p->ip6.payload_len) - p->srh_len);
	}
	return address_to(ctx, link, &p->ip6);
}

/*
 * Whether a packet that a path program brought here may be forwarded: as one of a host to another host (decisions 5.8). In a tunnel it
 * could otherwise be a program, feedback or neighbour discovery that no port would have let in. Returns 0 or a drop reason. A global
 * function: verified once.
 */
__noinline __u32 canopy_admit_inner(struct __sk_buff *ctx, const struct canopy_node *n, const struct ip6 *ip6)
{
	struct upper u = {};

	if (!n || !ip6)
		return DROP_PATH_INNER;
	if (is_in_domain(n, &ip6->src) || is_in_domain(n, &ip6->dst) || addr_is_link_local(&ip6->src) ||
	    addr_is_link_local(&ip6->dst) || addr_is_multicast(&ip6->dst) || has_address(&own_addresses, &ip6->dst))
		return DROP_PATH_INNER;
	return find_upper(ctx, ip6, 0, &u) ? DROP_PATH_INNER : 0;
}

/* USD: removes the outer headers. `inner` is then the packet's first header, with the congestion mark. Returns 0 or a drop reason. */
static __always_inline __u32 expose(canopy_ctx *ctx, const struct canopy_node *n, const struct path *p, struct ip6 *inner)
{
	__u8 next = p->srh_len ? p->srh.nexthdr : p->ip6.nexthdr;
	__u32 len = IP6_LEN + p->srh_len, drop;

	if (next != NEXTHDR_IPV6)
		return DROP_PATH_END;
	if (ctx_load(ctx, ETH_LEN + len, inner, sizeof(*inner)))
		return DROP_TRUNCATED;
	/* What is behind the inner packet would be behind it for the host, too. */
	if (bpf_ntohl(inner->vtf) >> 28 != 6 ||
	    p->srh_len + IP6_LEN + bpf_ntohs(inner->payload_len) != bpf_ntohs(p->ip6.payload_len))
		return DROP_INNER_MALFORMED;
	drop = ecn_inward(inner, p->ip6.vtf);
	if (drop)
		return drop;
	return ctx_resize(ctx, -(__s32)len) ? DROP_NO_ROOM : canopy_admit_inner(ctx, n, inner);
}

/* Whether the host behind `link` has the address. */
static __always_inline bool is_host_behind(const struct canopy_path_link *link, const struct canopy_addr *a)
{
	const struct canopy_port *port = bpf_map_lookup_elem(&ports, &link->ifindex);

	return port && addr_in(a, &port->host);
}

/*
 * The program ended: the inner packet leaves over `link`, or by the node's routes where that is none. `to` is the port that it leaves
 * through; 0, if the kernel sends it. Returns 0 or a drop reason.
 */
static __always_inline __u32 deliver(canopy_ctx *ctx, const struct canopy_node *n, const struct path *p,
				     const struct canopy_path_link *link, __u32 *to)
{
	struct ip6 inner = {};
	__u32 drop = expose(ctx, n, p, &inner);

	if (drop)
		return drop;
	if (link && link->kind == PORT_FABRIC) {
		if (inner.hop_limit <= 1)
			return DROP_HOP_LIMIT;
		inner.hop_limit -= 1;
		*to = link->ifindex;
		return address_to(ctx, link, &inner);
	}
	/* The route of a host's prefix leads to its port only; the kernel finds the host there. */
	if (link && !is_host_behind(link, &inner.dst))
		return DROP_PATH_NO_LINK;
	return bpf_skb_store_bytes(ctx, ETH_LEN, &inner.vtf, sizeof(inner.vtf), BPF_F_RECOMPUTE_CSUM) ? DROP_TRUNCATED : 0;
}

static __always_inline void count_path(__u32 ifindex, enum canopy_path_action action)
{
	struct canopy_path_key key = { .ifindex = ifindex, .action = action };

	count(&path_packets, &key);
}

SEC("tc")
int canopy_path(struct __sk_buff *skb)
{
	const struct canopy_path_link *link;
	const struct canopy_node *n;
	__u32 zero = 0, to = 0, drop;
	struct path p = {};
	bool ended = false;

	n = bpf_map_lookup_elem(&node, &zero);
	if (!n)
		return count_port_drop(ctx_port(skb), DROP_STATE_MISSING);
	drop = read_path(skb, &p);
	if (!drop)
		drop = carry_out(skb, n, &p, &ended, &link);
	if (drop)
		return count_port_drop(ctx_port(skb), drop);
	if (ended) {
		drop = deliver(skb, n, &p, link, &to);
	} else {
		/* carry_out() found a link; the verifier does not know that. */
		drop = link ? follow(skb, &p, link) : DROP_PATH_NO_LINK;
		to = link ? link->ifindex : 0;
	}
	if (drop)
		return count_port_drop(ctx_port(skb), drop);
	count_path(ctx_port(skb), ended ? PATH_ENDED : PATH_FORWARDED);
	return to ? ctx_send_to(skb, to) : ctx_pass_to_fabric(skb);
}

#endif
