/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* The outer header of a path program. */
#ifndef CANOPY_STEER_ENCAPSULATE_H
#define CANOPY_STEER_ENCAPSULATE_H

#include "choose.h"
#include "tables.h"

/* Octets of a TCP header before that with its length. */
#define TCP_OFFSET 12

/* Octets of an outer header with an SRH of so many segments. */
#define WITH_SRH(SEGMENTS) (IP6_LEN + sizeof(struct srh) + (SEGMENTS) * sizeof(struct canopy_addr))

/* Traffic class in the first word of an IPv6 header. */
#define CLASS_MASK 0x0FF00000

/* Octets of the packet, or of each that its GSO buffer is divided into. */
static __always_inline __u32 length_of(struct __sk_buff *skb, const struct ip6 *ip6)
{
	__u8 words = 0;

	if (!ctx_is_gso(skb))
		return IP6_LEN + bpf_ntohs(ip6->payload_len);
	if (ip6->nexthdr != NEXTHDR_TCP)
		return IP6_LEN + UDP_LEN + skb->gso_size;
	ctx_load(skb, ETH_LEN + IP6_LEN + TCP_OFFSET, &words, 1);
	return IP6_LEN + (words >> 4) * 4 + skb->gso_size;
}

/* The longest packet that the program's path, and the interface, carry behind its header. */
static __always_inline __u32 most_of(struct __sk_buff *skb, const struct steer_program *program)
{
	__u32 mtu = 0, most = program->most;

	bpf_check_mtu(skb, 0, &mtu, 0, 0);
	if (mtu > program->length && most > mtu - program->length)
		most = mtu - program->length;
	return most;
}

/* True for the length of an outer header: without an SRH, or with one of one to three segments. */
static __always_inline bool is_length(__u32 length)
{
	return length == IP6_LEN || length == WITH_SRH(1) || length == WITH_SRH(2) || length == WITH_SRH(3);
}

/* Writes the SRH, if there is one: by a length that is known when this is compiled, because Linux 6.12 loses the least of one that varies. */
static __always_inline int store_srh(struct __sk_buff *skb, const struct steer_program *program, __u32 length)
{
	const void *srh = program->header + IP6_LEN;

	switch (length) {
	case WITH_SRH(1):
		return ctx_store(skb, ETH_LEN + IP6_LEN, srh, WITH_SRH(1) - IP6_LEN);
	case WITH_SRH(2):
		return ctx_store(skb, ETH_LEN + IP6_LEN, srh, WITH_SRH(2) - IP6_LEN);
	case WITH_SRH(3):
		return ctx_store(skb, ETH_LEN + IP6_LEN, srh, WITH_SRH(3) - IP6_LEN);
	}
	return 0;
}

/*
 * The packet gets the outer header of `program`, with its own traffic class: DSCP and ECN are copied (RFC 6040 section 4.1, normal mode).
 * The kernel divides a GSO buffer later and gives every packet the outer header. What it makes no room in leaves without.
 */
static __always_inline int encapsulate(struct __sk_buff *skb, const struct ip6 *inner, __u32 id, const struct steer_program *program)
{
	__u32 length = program->length, size = IP6_LEN + bpf_ntohs(inner->payload_len);
	struct steer_traffic *traffic_of;
	struct ip6 outer;

	if (!is_length(length) ||
	    bpf_skb_adjust_room(skb, length, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_ENCAP_L3_IPV6 | BPF_F_ADJ_ROOM_FIXED_GSO)) {
		count(STEER_REFUSED);
		return CTX_NEXT;
	}
	__builtin_memcpy(&outer, program->header, sizeof(outer));
	outer.vtf |= inner->vtf & bpf_htonl(CLASS_MASK);
	outer.payload_len = bpf_htons(size + length - IP6_LEN);
	if (ctx_store(skb, ETH_LEN, &outer, sizeof(outer)))
		goto failed;
	if (store_srh(skb, program, length))
		goto failed;
	traffic_of = bpf_map_lookup_elem(&traffic, &id);
	if (traffic_of) {
		traffic_of->packets++;
		traffic_of->octets += size;
	}
	count(STEER_ENCAPSULATED);
	return CTX_NEXT;
failed:
	count(STEER_FAILED);
	return CTX_DROP;
}

#endif
