/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Long-haul congestion at the TC egress of every port (draft-tian-ccwg-long-haul-cnp-00 section 5). The program runs in front of
 * the port's queue and compares the depth that a packet finds there with the port's K_min:
 *
 *   every data packet       -> counted per port, and per flow unless it is a group's copy at a short queue
 *   depth above K_min       -> CE on ECN-capable packets, and an event that wakes the agent
 *   RDMA-CM with a QPN      -> an event, from which the agent learns the source QP of a flow
 *   copy that is captured   -> an event with its headers, as it leaves
 *
 * The program never drops or delays a packet.
 */
#ifndef CANOPY_EGRESS_H
#define CANOPY_EGRESS_H

#include "../common/ctx_tc.h"
#include "capture.h"
#include "cm.h"
#include "depth.h"
#include "drop.h"
#include "flow.h"

static __always_inline struct canopy_port_stats *stats_of(__u32 ifindex)
{
	struct canopy_port_stats *stats = bpf_map_lookup_elem(&eg_stats, &ifindex);

	if (stats)
		return stats;
	stats = bpf_map_lookup_elem(&eg_far_stats, &ifindex);
	if (!stats) {
		struct canopy_port_stats fresh = {};

		bpf_map_update_elem(&eg_far_stats, &ifindex, &fresh, BPF_NOEXIST);
		stats = bpf_map_lookup_elem(&eg_far_stats, &ifindex);
	}
	return stats;
}

/* Counts the packet, which is `packets` ones if it is a GSO buffer, and records the depth that it finds. */
static __always_inline __u64 count_and_measure(struct __sk_buff *skb, struct canopy_port_stats *stats, __u64 packets)
{
	__u32 port = skb->ifindex;
	__u64 depth = 0, *sampled;
	bool by_kernel = kernel_depth(skb, &depth);

	if (!by_kernel) {
		sampled = bpf_map_lookup_elem(&eg_sampled, &port);
		depth = sampled ? *sampled : 0;
	}
	stats->depth = depth;
	stats->seen_ns = bpf_ktime_get_coarse_ns();
	stats->source = by_kernel ? DEPTH_KERNEL : DEPTH_SAMPLED;
	stats->packets += packets;
	stats->bytes += skb->len;
	return depth;
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

/* Whether the packet's first header has CE; that of an encapsulated copy is the inner one's too. */
static __always_inline bool arrived_marked(canopy_ctx *ctx)
{
	int octet = ctx_octet(ctx, ETH_LEN + 1);

	return octet >= 0 && ecn(octet) == ECN_CE;
}

static __always_inline void note_ack(struct canopy_flow_key *key, __u64 now)
{
	key->ifindex = 0;
	bpf_map_update_elem(&eg_acks, key, &now, BPF_ANY);
}

/* A function of its own, so that the event's layout is in BTF. */
static __noinline int output_congested(const struct canopy_congested *event)
{
	return bpf_ringbuf_output(&eg_events, (void *)event, sizeof(*event), 0);
}

/* Wakes the agent, once per RTT_est and processor: it polls more often from now on. */
static __always_inline void wake(__u32 port, struct canopy_port_stats *stats, const struct canopy_limits *limits, __u64 depth,
				 __u64 now)
{
	struct canopy_congested event = { .time_ns = now, .depth = depth, .ifindex = port };

	if (stats->woken_ns && now - stats->woken_ns < limits->rtt_ns)
		return;
	stats->woken_ns = now;
	if (output_congested(&event))
		count_port_drop(port, DROP_EVENT_LOST);
}

/* Marks a data packet that met a queue above K_min, and counts it under its flow. */
static __always_inline void count_flow(struct __sk_buff *skb, const struct canopy_flow_key *key, const struct found *at,
				       struct canopy_port_stats *stats, bool congested, __u64 packets, __u64 now)
{
	bool ce_in = ecn(at->inner_octet) == ECN_CE || (at->outer && ecn(at->inner_octet) && ecn(at->outer_octet) == ECN_CE);
	bool ce = ce_in;
	struct canopy_flow *flow;

	if (congested && !ce) {
		if (!ecn(at->inner_octet)) {
			stats->not_ect += packets;
		} else if (mark(skb, at)) {
			ce = true;
			stats->marked += packets;
		}
	}
	if (ce)
		stats->ce += packets;
	flow = flow_entry(key);
	if (!flow)
		return;
	__sync_fetch_and_add(&flow->packets, packets);
	__sync_fetch_and_add(&flow->bytes, skb->len);
	if (ce)
		__sync_fetch_and_add(&flow->ce, packets);
	if (ce_in)
		__sync_fetch_and_add(&flow->ce_in_bytes, skb->len);
	flow->seen_ns = now;
}

/* Whether `depth` is above the port's K_min; `limits` is set then. An empty queue is above none. */
static __always_inline bool is_congested(__u32 port, __u64 depth, const struct canopy_limits **limits)
{
	if (!depth)
		return false;
	*limits = bpf_map_lookup_elem(&eg_limits, &port);
	return *limits && depth > (*limits)->k_min;
}

/* Counts a data packet, and marks it if its queue is above K_min. */
static __always_inline void count_and_mark(struct __sk_buff *skb)
{
	const struct canopy_limits *limits = NULL;
	bool copy = ctx_is_copy(skb), congested;
	struct canopy_port_stats *stats;
	struct canopy_flow_key key = {};
	__u64 depth, now, packets;
	__u32 port = skb->ifindex;
	struct found at = {};
	enum passing passing;

	if (!copy) {
		passing = find_flow(skb, &key, &at);
		if (passing == PASSING_CM)
			note_cm(skb, &key, at.behind);
		if (passing == PASSING_ACK)
			note_ack(&key, bpf_ktime_get_ns());
		if (passing != PASSING_DATA)
			return;
	}
	stats = stats_of(port);
	if (!stats)
		return;
	/* A GSO buffer is several packets. */
	packets = skb->gso_segs ?: 1;
	depth = count_and_measure(skb, stats, packets);
	congested = is_congested(port, depth, &limits);
	if (copy && !congested) {
		if (arrived_marked(skb))
			stats->ce += packets;
		return;
	}
	if (copy && find_flow(skb, &key, &at) != PASSING_DATA)
		return;
	now = bpf_ktime_get_ns();
	key.ifindex = port;
	count_flow(skb, &key, &at, stats, congested, packets, now);
	if (congested)
		wake(port, stats, limits, depth, now);
}

SEC("tc")
int canopy_egress(struct __sk_buff *skb)
{
	if (skb->protocol == bpf_htons(ETH_IPV6)) {
		count_and_mark(skb);
		capture_copy(skb);
	}
	return CTX_NEXT;
}

#endif
