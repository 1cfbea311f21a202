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

/* How packets to a destination choose their path, and where that is written. */
struct chosen {
	struct steer_choice *by;
	__u32 place;
};

static __always_inline struct chosen choice_of(const struct canopy_addr *to)
{
	struct steer_prefix key = { .length = 128 };
	struct chosen found = {};
	__u32 *place;

	__builtin_memcpy(key.address, to, sizeof(key.address));
	place = bpf_map_lookup_elem(&destinations, &key);
	if (place) {
		found.place = *place;
		found.by = bpf_map_lookup_elem(&choices, &found.place);
	}
	return found;
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

static __always_inline __u32 id_in(const struct steer_choice *by, __u32 slot)
{
	return by->slots[slot % STEER_SLOTS];
}

static __always_inline bool is_left(__u32 id)
{
	struct steer_program *program = bpf_map_lookup_elem(&programs, &id);

	return !program || !program->length || program->is_left;
}

static __always_inline __u64 flowlet_on(const struct chosen *to, __u32 slot)
{
	return (__u64)to->place << 32 | id_in(to->by, slot);
}

/*
 * The path of a flow's present flowlet. It is kept until there is a gap, so that other shares of the paths reorder nothing, unless no
 * packet should take it any more.
 */
static __always_inline __u32 flowlet(__u64 hash, const struct chosen *to)
{
	struct steer_flow fresh = { .last_ns = bpf_ktime_get_ns() };
	struct steer_flow *known = bpf_map_lookup_elem(&flows, &hash);
	__u64 now;
	__s64 since;

	if (!known) {
		fresh.flowlet = flowlet_on(to, hash);
		bpf_map_update_elem(&flows, &hash, &fresh, BPF_NOEXIST);
		return fresh.flowlet & STEER_FLOWLET_ID;
	}
	/* Another processor may have sent a later packet of the flow. */
	since = fresh.last_ns - known->last_ns;
	now = *(volatile __u64 *)&known->flowlet;
	if (since >= (__s64)to->by->gap_ns || now >> 32 != to->place || is_left(now)) {
		now = flowlet_on(to, bpf_get_prandom_u32());
		*(volatile __u64 *)&known->flowlet = now;
	}
	if (since > 0)
		known->last_ns = fresh.last_ns;
	return now & STEER_FLOWLET_ID;
}

static __always_inline __u32 next_slot(void)
{
	__u32 zero = 0, *n = bpf_map_lookup_elem(&sprayed, &zero);

	return n ? (*n)++ * SPRAY_STEP : 0;
}

/* The path id of a packet. */
static __always_inline __u32 choose(struct __sk_buff *skb, const struct chosen *to, const struct ip6 *ip6)
{
	struct flow_id flow = flow_of(skb, ip6);

	if (to->by->mode == STEER_SPRAY && flow.takes_reordering)
		return id_in(to->by, next_slot());
	return to->by->mode == STEER_PINNED ? id_in(to->by, flow.hash) : flowlet(flow.hash, to);
}

#endif
