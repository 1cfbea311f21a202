/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Egress: counts flows, and paces those that the daemon configured. No packet is dropped. */
#ifndef CANOPY_PACER_PACE_H
#define CANOPY_PACER_PACE_H

#include "../common/ctx_tc.h"
#include "tables.h"

/* Maximum delay of a departure: fq drops packets beyond its own horizon of 10 s. */
#define HORIZON_NS (5 * SECOND_NS)
/* A timed packet that is not answered within this time makes room for another. */
#define PROBE_NS SECOND_NS

static __always_inline struct pacer_flow *flow_of(const struct pacer_key *key, __u64 now)
{
	struct pacer_flow fresh = { .first_ns = now }, *flow;

	flow = bpf_map_lookup_elem(&flows, key);
	if (flow)
		return flow;
	bpf_map_update_elem(&flows, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&flows, key);
}

/* Earliest departure time, for fq. */
static __always_inline __u64 depart(struct __sk_buff *skb, struct pacer_flow *flow, const struct pacer_pace *pace, __u64 now)
{
	__u64 at = now, rate = pace->octets_per_s;

	if (at < flow->next_ns)
		at = flow->next_ns;
	if (at < pace->pause_until_ns)
		at = pace->pause_until_ns;
	if (at > now + HORIZON_NS) {
		at = now + HORIZON_NS;
		count(COUNT_CLAMPED, 1);
	}
	flow->next_ns = at + (rate ? skb->len * SECOND_NS / rate : 0);
	if (at > now)
		bpf_skb_set_tstamp(skb, at, BPF_SKB_TSTAMP_DELIVERY_MONO);
	return at;
}

/* Times one packet with AckReq after the other; a retransmitted packet gives no sample. */
static __always_inline void probe(struct pacer_flow *flow, __u32 psn_word, __u64 leaves)
{
	__u32 psn = psn_word & PSN_MASK;

	if (flow->probe_ns && ((flow->probe_psn - psn) & PSN_MASK) < PSN_HALF) {
		flow->probe_ns = 0;
		return;
	}
	if (!(psn_word & ACK_REQUEST) || !leaves)
		return;
	if (!flow->probe_ns || leaves > flow->probe_ns + PROBE_NS) {
		flow->probe_psn = psn;
		flow->probe_ns = leaves;
	}
}

static __always_inline void pace_request(struct __sk_buff *skb, const struct ip6 *ip6, const struct transport *roce)
{
	__u64 now = bpf_ktime_get_ns(), leaves = now;
	struct pacer_control *set = settings();
	struct pacer_key key = {};
	struct pacer_flow *flow;
	struct pacer_pace *pace;

	key.peer = ip6->dst;
	key.qpn = bth_qpn(&roce->bth);
	flow = flow_of(&key, now);
	if (!flow || !set)
		return;
	__sync_fetch_and_add(&flow->octets, skb->len);
	__sync_fetch_and_add(&flow->packets, 1);
	flow->last_ns = now;
	pace = bpf_map_lookup_elem(&pace_of, &key);
	if (pace && now < set->alive_until_ns && set->mode != PACE_NOT) {
		count(COUNT_PACED_PACKETS, 1);
		count(COUNT_PACED_OCTETS, skb->len);
		if (set->mode == PACE_EDT) {
			leaves = depart(skb, flow, pace, now);
		} else {
			skb->priority = pace->class_id;
			/* The time when it leaves its HTB class is unknown here. */
			leaves = 0;
		}
	}
	probe(flow, bpf_ntohl(roce->bth.psn), leaves);
}

#endif
