// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
//
// Random loss and counting for one end of a lab link, at clsact egress.
//
// The verdict is TC_ACT_UNSPEC or TC_ACT_SHOT: UNSPEC lets any later filter decide, so that the lab never
// hides a packet from the programs under test. Egress runs before the root qdisc: what a rate limit drops
// afterwards was counted here as passed.

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_helpers.h>

// [0]: a packet is dropped when 32 random bits are below this: 0 never, 1 << 32 always. [1]: only if it has more bytes than this.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} threshold SEC(".maps");

// Packets and bytes (Ethernet header included, frame check sequence not), by verdict.
struct counters {
	__u64 passed_packets;
	__u64 passed_bytes;
	__u64 dropped_packets;
	__u64 dropped_bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters SEC(".maps");

SEC("tc")
int lose(struct __sk_buff *skb)
{
	__u32 zero = 0, one = 1;
	__u64 *limit = bpf_map_lookup_elem(&threshold, &zero), *length = bpf_map_lookup_elem(&threshold, &one);
	struct counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (!limit || !length || !c)
		return TC_ACT_UNSPEC;
	if (*limit && skb->len > *length && (__u64)bpf_get_prandom_u32() < *limit) {
		c->dropped_packets++;
		c->dropped_bytes += skb->len;
		return TC_ACT_SHOT;
	}
	c->passed_packets++;
	c->passed_bytes += skb->len;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "GPL";
