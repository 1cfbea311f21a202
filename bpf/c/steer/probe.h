/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Probes of the host's own paths (decisions 5.6): STAMP Session-Sender packets in loopback, behind a program that leads there and back.
 * The daemon writes each probe's cell and sends it; the time at which it leaves and that at which it comes back are written here, which
 * no stop of the daemon disturbs. The daemon reads the cells where they are, without a system call.
 */
#ifndef CANOPY_STEER_PROBE_H
#define CANOPY_STEER_PROBE_H

#include "tables.h"

/* Mark of the daemon's socket: no other packet is read to see whether it is a probe. */
#define PROBE_MARK 0x57AC9B0E
/* IANA stamp; both ports of a probe, which comes from and to the same address. */
#define STAMP_PORT 862
/* Extra Padding TLV, RFC 8972 section 4.1. */
#define TLV_PADDING 1
/* CE, in the first word of an IPv6 header. */
#define CE_MASK 0x00300000
/* An SRH has at most three segments, each of two units of 8 octets. */
#define SRH_MOST 6

/* RFC 8762 section 4.2.1 with the Session Identifier of RFC 8972 section 3, and the TLV that the daemon adds. */
struct stamp {
	__be32 sequence;
	__be32 timestamp[2];
	__be16 error_estimate;
	__be16 session;			/* number of the way */
	__u8 mbz[28];
	__u8 flags;
	__u8 type;
	__be16 length;
	__u64 secret;			/* octets, compared as one number */
};

static __always_inline struct steer_probe *cell_of(const struct stamp *stamp)
{
	__u32 way = bpf_ntohs(stamp->session), sequence = bpf_ntohl(stamp->sequence);
	struct steer_way *of = bpf_map_lookup_elem(&ways, &way);
	struct steer_probe *cell;

	if (!of)
		return 0;
	cell = &of->probes[sequence % STEER_RING];
	return cell->sequence == sequence && cell->is_written ? cell : 0;
}

static __always_inline struct steer_probing *probing_now(void)
{
	__u32 zero = 0;
	struct steer_probing *set = bpf_map_lookup_elem(&probing, &zero);

	return set && set->is_on ? set : 0;
}

/* A packet of the daemon's socket leaves; another process may have set the same mark. */
static __always_inline int probe_leaves(struct __sk_buff *skb)
{
	struct steer_probing *set = probing_now();
	__u32 off = ETH_LEN + IP6_LEN;
	struct steer_probe *cell;
	struct stamp stamp;
	struct srh srh;
	struct ip6 ip6;

	skb->mark = 0;
	if (ctx_load(skb, ETH_LEN, &ip6, sizeof(ip6)))
		return CTX_NEXT;
	if (ip6.nexthdr == NEXTHDR_ROUTING) {
		if (ctx_load(skb, off, &srh, sizeof(srh)) || srh.hdrlen > SRH_MOST)
			return CTX_NEXT;
		off += sizeof(srh) + srh.hdrlen * 8;
	}
	if (!set || ctx_load(skb, off + IP6_LEN + UDP_LEN, &stamp, sizeof(stamp)) || stamp.secret != set->secret)
		return CTX_NEXT;
	cell = cell_of(&stamp);
	if (cell)
		cell->left_ns = bpf_ktime_get_ns();
	return CTX_NEXT;
}

/* Whether a packet from the edge is a probe that this daemon has sent: its secret shows it, and its cell waits for it. */
static __always_inline int probe_arrives(struct __sk_buff *skb)
{
	struct steer_probing *set = probing_now();
	struct steer_probe *cell;
	struct {
		struct ip6 ip6;
		struct udp udp;
	} p;
	struct stamp stamp;

	if (!set || skb->vlan_present || skb->protocol != bpf_htons(ETH_IPV6) ||
	    ctx_load(skb, ETH_LEN, &p, sizeof(p)) || p.ip6.nexthdr != NEXTHDR_UDP || p.udp.dport != bpf_htons(STAMP_PORT) ||
	    !addr_eq(&p.ip6.dst, &set->own) || !addr_eq(&p.ip6.src, &set->own) ||
	    ctx_load(skb, ETH_LEN + sizeof(p), &stamp, sizeof(stamp)) || stamp.type != TLV_PADDING ||
	    stamp.secret != set->secret)
		return CTX_NEXT;
	cell = cell_of(&stamp);
	if (cell && !cell->back_ns) {
		__u64 is_marked = (p.ip6.vtf & bpf_htonl(CE_MASK)) == bpf_htonl(CE_MASK);

		/* One write of 64 bits: the daemon sees both or none. */
		cell->back_ns = (bpf_ktime_get_ns() & ~STEER_PROBE_MARKED) | is_marked;
	}
	return CTX_DROP;
}

#endif
