// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The least that copies of one fixed stream cost in a TC program, to compare End.MT with: it removes an outer header of known length,
 * stores the addresses, DestQP and ICRC that each receiver needs, worked out beforehand, and clones. It checks nothing, counts
 * nothing and does no lookup. For benchmarks only.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include "common/wire.h"

#define MAX_COPIES 16

/* What one receiver's copy differs in. */
struct by_hand_copy {
	__u8 macs[12];
	__u32 ifindex;
	struct canopy_addr src;
	struct canopy_addr dst;
	__be32 qpn;
	__u32 icrc_xor;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_COPIES);
	__type(key, __u32);
	__type(value, struct by_hand_copy);
} by_hand_copies SEC(".maps");

struct by_hand_stream {
	__u32 copies;
	__u32 outer_len;
	__u32 icrc_at;			/* in the frame without the outer header */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct by_hand_stream);
} by_hand_streams SEC(".maps");

SEC("tc")
int by_hand(struct __sk_buff *skb)
{
	__u32 zero = 0, icrc, out;
	const struct by_hand_stream *s = bpf_map_lookup_elem(&by_hand_streams, &zero);

	if (!s || bpf_skb_adjust_room(skb, -(__s32)s->outer_len, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO) ||
	    bpf_skb_load_bytes(skb, s->icrc_at, &icrc, ICRC_LEN))
		return TC_ACT_SHOT;
#pragma unroll
	for (__u32 i = 0; i < MAX_COPIES; i++) {
		__u32 key = i;
		const struct by_hand_copy *c = bpf_map_lookup_elem(&by_hand_copies, &key);

		if (!c)
			return TC_ACT_SHOT;
		out = icrc ^ c->icrc_xor;
		if (bpf_skb_store_bytes(skb, 0, c->macs, sizeof(c->macs), 0) ||
		    bpf_skb_store_bytes(skb, ETH_LEN + offsetof(struct ip6, src), &c->src, 2 * sizeof(c->src), 0) ||
		    bpf_skb_store_bytes(skb, ETH_LEN + IP6_LEN + UDP_LEN + offsetof(struct bth, qpn), &c->qpn, sizeof(c->qpn), 0) ||
		    bpf_skb_store_bytes(skb, s->icrc_at, &out, ICRC_LEN, 0))
			return TC_ACT_SHOT;
		if (i + 1 >= s->copies)
			return bpf_redirect(c->ifindex, 0);
		bpf_clone_redirect(skb, c->ifindex, 0);
	}
	return TC_ACT_SHOT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
