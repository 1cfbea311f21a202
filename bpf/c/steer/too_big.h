/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Packet Too Big (RFC 4443 section 3.2) to the host itself, for a packet that is longer than its path takes. */
#ifndef CANOPY_STEER_TOO_BIG_H
#define CANOPY_STEER_TOO_BIG_H

#include "tables.h"

#define ICMPV6_TOO_BIG 2
/* Octets of the packet that the message has, so that one call sums it up. The packet is longer: a path's MTU is 1280 or more. */
#define QUOTED 504
/* Between two messages. */
#define ANSWER_NS 1000000

struct icmpv6_too_big {
	__u8 type;
	__u8 code;
	__sum16 check;
	__be32 mtu;
};

struct too_big_message {
	__u8 align[2];
	__u8 eth[ETH_LEN];
	struct ip6 ip6;
	struct icmpv6_too_big icmp;
};

/* The checksum of `length` octets of ICMPv6 that sum up to `sum`, with the pseudo-header. */
static __always_inline __sum16 icmpv6_check(const struct ip6 *ip6, __u32 length, __s64 sum)
{
	struct {
		struct canopy_addr src, dst;
		__be32 length, nexthdr;
	} pseudo = { ip6->src, ip6->dst, bpf_htonl(length), bpf_htonl(NEXTHDR_ICMPV6) };
	__u32 folded;

	sum = bpf_csum_diff(0, 0, (void *)&pseudo, sizeof(pseudo), (__u32)sum);
	folded = ((__u32)sum >> 16) + ((__u32)sum & 0xFFFF);
	folded += folded >> 16;
	return ~folded;
}

/*
 * Turns the packet into the message, which arrives at the interface as from the edge: from the address that every edge has at ports of hosts.
 * An ICMPv6 error gets none, and there is at most one each millisecond on a processor (RFC 4443 section 2.4).
 */
static __always_inline int too_big(struct __sk_buff *skb, const struct ip6 *inner, __u32 most)
{
	__u32 zero = 0;
	__u64 now = bpf_ktime_get_ns(), *last = bpf_map_lookup_elem(&answered, &zero);
	struct too_big_message message = {};
	void *data, *end;
	__u8 type = 0;
	__s64 sum;

	count(STEER_TOO_BIG);
	if (inner->nexthdr == NEXTHDR_ICMPV6 &&
	    (ctx_load(skb, ETH_LEN + IP6_LEN, &type, 1) || type < ICMPV6_INFORMATIONAL))
		return CTX_DROP;
	if (!last || now - *last < ANSWER_NS)
		return CTX_DROP;
	*last = now;
	/* The interface is the destination of what it sends to itself. */
	if (ctx_load(skb, 0, message.eth + 6, 6) || ctx_load(skb, 6, message.eth, 6) ||
	    bpf_skb_change_tail(skb, ETH_LEN + QUOTED, 0) ||
	    bpf_skb_adjust_room(skb, sizeof(message) - sizeof(message.align) - ETH_LEN, BPF_ADJ_ROOM_MAC, 0) ||
	    bpf_skb_pull_data(skb, ETH_LEN + IP6_LEN + sizeof(message.icmp) + QUOTED))
		return CTX_DROP;
	message.eth[12] = ETH_IPV6 >> 8;
	message.eth[13] = ETH_IPV6 & 0xFF;
	message.ip6.vtf = bpf_htonl(6 << 28);
	message.ip6.payload_len = bpf_htons(sizeof(message.icmp) + QUOTED);
	message.ip6.nexthdr = NEXTHDR_ICMPV6;
	message.ip6.hop_limit = 255;
	message.ip6.src.hi = bpf_cpu_to_be64(0xFE80000000000000);
	message.ip6.src.lo = bpf_cpu_to_be64(1);
	message.ip6.dst = inner->src;
	message.icmp.type = ICMPV6_TOO_BIG;
	message.icmp.mtu = bpf_htonl(most);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	data += ETH_LEN + IP6_LEN + sizeof(message.icmp);
	if (data + QUOTED > end)
		return CTX_DROP;
	sum = bpf_csum_diff(0, 0, data, QUOTED, 0);
	sum = bpf_csum_diff(0, 0, (void *)&message.icmp, sizeof(message.icmp), (__u32)sum);
	message.icmp.check = icmpv6_check(&message.ip6, sizeof(message.icmp) + QUOTED, sum);
	if (ctx_store(skb, 0, message.eth, sizeof(message) - sizeof(message.align)))
		return CTX_DROP;
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

#endif
