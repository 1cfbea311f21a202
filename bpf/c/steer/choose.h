/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Which path a packet takes. */
#ifndef CANOPY_STEER_CHOOSE_H
#define CANOPY_STEER_CHOOSE_H

#include "tables.h"

/* The daemon is asked for one destination at most this often. */
#define ASK_AGAIN_NS (5 * 1000000000ULL)
/* An odd step through the slots: packets behind each other take slots that are far apart. */
#define SPRAY_STEP 27
#define PORTS_LEN 4
#define NEXTHDR_TCP 6

static __always_inline struct steer_destination *destination_of(const struct canopy_addr *to)
{
	struct steer_prefix key = { .length = 128 };

	__builtin_memcpy(key.address, to, sizeof(key.address));
	return bpf_map_lookup_elem(&destinations, &key);
}

/* Asks the daemon for a destination that has no entry. */
static __always_inline void ask(const struct canopy_addr *to)
{
	__u64 now = bpf_ktime_get_ns(), *last = bpf_map_lookup_elem(&asked, to);

	if (last && now - *last < ASK_AGAIN_NS)
		return;
	if (bpf_ringbuf_output(&unknown, (void *)to, sizeof(*to), 0))
		count(STEER_RING_FULL);
	else
		bpf_map_update_elem(&asked, to, &now, BPF_ANY);
}

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9E3779B97F4A7C15;
	return hash ^ hash >> 32;
}

/* What of a packet shows its flow, and whether it may overtake others of it. */
struct flow_id {
	__u64 hash;
	bool takes_reordering;
};

/*
 * UDP takes reordering, except RoCEv2 of the transports that count every PSN: RC and UC. A queue pair is a flow of its own, also where a
 * NIC gives all of them one UDP port.
 */
static __always_inline struct flow_id flow_of(struct __sk_buff *skb, const struct ip6 *ip6)
{
	struct flow_id flow = {};
	struct transport roce;
	__u32 ports = 0;

	flow.hash = mix(mix(ip6->src.hi, ip6->src.lo), mix(ip6->dst.hi, ip6->dst.lo) ^ ip6->nexthdr);
	if (ip6->nexthdr != NEXTHDR_UDP && ip6->nexthdr != NEXTHDR_TCP)
		return flow;
	if (!ctx_load(skb, ETH_LEN + IP6_LEN, &ports, PORTS_LEN))
		flow.hash = mix(flow.hash, ports);
	flow.takes_reordering = ip6->nexthdr == NEXTHDR_UDP;
	if (flow.takes_reordering && bpf_ntohl(ports) % 0x10000 == ROCE_PORT) {
		flow.takes_reordering = false;
		if (!ctx_load(skb, ETH_LEN + IP6_LEN, &roce, sizeof(roce))) {
			flow.hash = mix(flow.hash, bth_qpn(&roce.bth));
			flow.takes_reordering = (roce.bth.opcode & OP_CLASS) == OP_CLASS_UD;
		}
	}
	return flow;
}

/* The slot of a flow's present flowlet. */
static __always_inline __u32 flowlet(__u64 hash, __u64 gap_ns)
{
	struct steer_flow fresh = { .last_ns = bpf_ktime_get_ns(), .slot = hash };
	struct steer_flow *known = bpf_map_lookup_elem(&flows, &hash);
	__s64 since;

	if (!known) {
		bpf_map_update_elem(&flows, &hash, &fresh, BPF_NOEXIST);
		return fresh.slot;
	}
	/* Another processor may have sent a later packet of the flow. */
	since = fresh.last_ns - known->last_ns;
	if (since >= (__s64)gap_ns)
		known->slot = bpf_get_prandom_u32();
	if (since > 0)
		known->last_ns = fresh.last_ns;
	return known->slot;
}

static __always_inline __u32 next_slot(void)
{
	__u32 zero = 0, *n = bpf_map_lookup_elem(&sprayed, &zero);

	return n ? (*n)++ * SPRAY_STEP : 0;
}

/* The path id of a packet. */
static __always_inline __u32 choose(struct __sk_buff *skb, const struct steer_destination *to, const struct ip6 *ip6)
{
	struct flow_id flow = flow_of(skb, ip6);
	__u32 slot = flow.hash;

	if (to->mode == STEER_SPRAY && flow.takes_reordering)
		slot = next_slot();
	else if (to->mode != STEER_PINNED)
		slot = flowlet(flow.hash, to->gap_ns);
	return to->slots[slot % STEER_SLOTS];
}

#endif
