// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Long-haul congestion at the TC egress of every port (draft-tian-ccwg-long-haul-cnp-00 section 5). It stands in front of the
 * port's queue, so the depth that a packet meets is the one that it is judged by:
 *
 *   every data packet       -> counted, in its port and its flow
 *   depth above K_min       -> CE, on packets that are ECN capable, and an event
 *   RDMA-CM names a QP      -> an event, so that the agent knows sources by their QPs
 *   depth above K_max       -> an event, within the limits per flow and port
 *
 * Nothing is ever dropped or held here.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "include/shared.h"
#include "include/egress_shared.h"
#include "include/egress_maps.h"
#include "include/parse.h"
#include "include/ctx_tc.h"
#include "include/depth.h"
#include "include/flow.h"
#include "include/second_level.h"
#include "include/cm.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline struct canopy_port_stats *stats_of(__u32 ifindex)
{
	struct canopy_port_stats *stats = bpf_map_lookup_elem(&eg_stats, &ifindex);

	if (!stats) {
		struct canopy_port_stats fresh = {};

		bpf_map_update_elem(&eg_stats, &ifindex, &fresh, BPF_NOEXIST);
		stats = bpf_map_lookup_elem(&eg_stats, &ifindex);
	}
	return stats;
}

static __always_inline struct canopy_port_state *state_of(__u32 ifindex)
{
	struct canopy_port_state *state = bpf_map_lookup_elem(&eg_states, &ifindex);

	if (!state) {
		struct canopy_port_state fresh = {};

		bpf_map_update_elem(&eg_states, &ifindex, &fresh, BPF_NOEXIST);
		state = bpf_map_lookup_elem(&eg_states, &ifindex);
	}
	return state;
}

/* The octet at `at` says CE from now on. Masked in the ICRC, and in no checksum but the packet's own running one. */
static __always_inline bool set_ce(canopy_ctx *ctx, __u32 at, __u8 octet)
{
	octet |= ECN_CE << ECN_SHIFT;
	return !bpf_skb_store_bytes(ctx, at + 1, &octet, 1, BPF_F_RECOMPUTE_CSUM);
}

/* Both headers, so that no way of decapsulating loses the mark; an outer header that is not ECN capable stays so. */
static __always_inline bool mark(canopy_ctx *ctx, const struct found *at)
{
	if (!set_ce(ctx, at->inner, at->inner_octet))
		return false;
	if (at->outer && ecn(at->outer_octet))
		set_ce(ctx, at->outer, at->outer_octet);
	return true;
}

static __always_inline void note_ack(struct canopy_flow_key *key, __u64 now)
{
	key->ifindex = 0;
	bpf_map_update_elem(&eg_acks, key, &now, BPF_ANY);
}

SEC("tc")
int canopy_egress(struct __sk_buff *skb)
{
	__u64 depth = 0, *sampled, now, packets, bytes;
	const struct canopy_limits *limits;
	struct canopy_port_state *state;
	struct canopy_port_stats *stats;
	struct canopy_flow_key key = {};
	__u32 port = skb->ifindex;
	struct canopy_flow *flow;
	struct found at = {};
	enum passing passing;
	bool by_kernel, ce, came;

	if (skb->protocol != bpf_htons(0x86DD))
		return TC_ACT_UNSPEC;
	passing = find_flow(skb, &key, &at);
	if (passing == PASSING_OTHER)
		return TC_ACT_UNSPEC;
	if (passing == PASSING_CM) {
		note_cm(skb, &key, at.behind);
		return TC_ACT_UNSPEC;
	}
	now = bpf_ktime_get_ns();
	if (passing == PASSING_ACK) {
		note_ack(&key, now);
		return TC_ACT_UNSPEC;
	}
	key.ifindex = port;
	stats = stats_of(port);
	state = state_of(port);
	if (!stats || !state)
		return TC_ACT_UNSPEC;
	by_kernel = kernel_depth(skb, &depth);
	if (!by_kernel) {
		sampled = bpf_map_lookup_elem(&eg_sampled, &port);
		depth = sampled ? *sampled : 0;
	}
	state->depth = depth;
	state->seen_ns = now;
	state->source = by_kernel ? DEPTH_KERNEL : DEPTH_SAMPLED;
	limits = bpf_map_lookup_elem(&eg_limits, &port);

	/* One buffer may stand for several packets that the device is to cut. */
	packets = skb->gso_segs ?: 1;
	bytes = skb->len;
	ce = ecn(at.inner_octet) == ECN_CE || (at.outer && ecn(at.inner_octet) && ecn(at.outer_octet) == ECN_CE);
	came = ce;
	if (limits && depth > limits->k_min && !ce) {
		if (!ecn(at.inner_octet)) {
			stats->not_ect += packets;
		} else if (mark(skb, &at)) {
			ce = true;
			stats->marked += packets;
		}
	}
	stats->packets += packets;
	stats->bytes += bytes;
	if (ce)
		stats->ce += packets;

	flow = flow_entry(&key);
	if (!flow)
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(&flow->packets, packets);
	__sync_fetch_and_add(&flow->bytes, bytes);
	if (ce)
		__sync_fetch_and_add(&flow->ce, packets);
	if (came)
		__sync_fetch_and_add(&flow->came, bytes);
	flow->seen_ns = now;
	if (limits && depth > limits->k_max)
		tell(&key, flow, state, stats, limits, depth, now);
	else if (limits && depth > limits->k_min)
		wake(port, state, limits, depth, now);
	return TC_ACT_UNSPEC;
}
