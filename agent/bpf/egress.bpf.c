// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Long-haul congestion at the TC egress of every port (draft-tian-ccwg-long-haul-cnp-00 section 5). The program runs in front of
 * the port's queue and compares the depth that a packet finds there with the port's thresholds:
 *
 *   every data packet       -> counted per port and per flow
 *   depth above K_min       -> CE on ECN-capable packets, and an event
 *   depth above K_max       -> an event, rate limited per flow and port
 *   RDMA-CM with a QPN      -> an event, from which the agent learns the source QP of a flow
 *
 * The program never drops or delays a packet.
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

/* Sets CE in the IPv6 header at `at`. ICRC and UDP checksum do not cover it; only skb->csum changes. */
static __always_inline bool set_ce(canopy_ctx *ctx, __u32 at, __u8 octet)
{
	octet |= ECN_CE << ECN_SHIFT;
	return !bpf_skb_store_bytes(ctx, at + 1, &octet, 1, BPF_F_RECOMPUTE_CSUM);
}

/* Marks the inner and the outer header, so that the mark survives any decapsulation; a Not-ECT outer header stays Not-ECT. */
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
	bool by_kernel, ce, ce_in;

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

	/* A GSO buffer is several packets. */
	packets = skb->gso_segs ?: 1;
	bytes = skb->len;
	ce = ecn(at.inner_octet) == ECN_CE || (at.outer && ecn(at.inner_octet) && ecn(at.outer_octet) == ECN_CE);
	ce_in = ce;
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
	if (ce_in)
		__sync_fetch_and_add(&flow->ce_in_bytes, bytes);
	flow->seen_ns = now;
	if (limits && depth > limits->k_max)
		emit_event(&key, flow, state, stats, limits, depth, now);
	else if (limits && depth > limits->k_min)
		emit_first_level(port, state, limits, depth, now);
	return TC_ACT_UNSPEC;
}
