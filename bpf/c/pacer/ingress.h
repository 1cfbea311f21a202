/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Ingress: copies notifications to the daemon, records answers. No packet is consumed. */
#ifndef CANOPY_PACER_INGRESS_H
#define CANOPY_PACER_INGRESS_H

#include "../common/ctx_tc.h"
#include "tables.h"

/* The RTT is the minimum of the last 5 to 10 seconds. */
#define RTT_WINDOW_NS (5 * SECOND_NS)

/* Limits notifications per second; unknown senders have a limit of their own, so that they cannot use up that of the known. */
static __always_inline bool within_limit(const struct ip6 *ip6, __u64 now)
{
	struct pacer_control *set = settings();
	struct canopy_addr from;
	struct pacer_window *window;
	__u32 unknown;

	from = ip6->src;
	unknown = !bpf_map_lookup_elem(&senders, &from);
	window = bpf_map_lookup_elem(&windows, &unknown);
	if (!set || !window)
		return false;
	if (now - window->since_ns >= SECOND_NS) {
		window->since_ns = now;
		window->count = 0;
	}
	return __sync_fetch_and_add(&window->count, 1) < (unknown ? set->limit_unknown : set->limit_known);
}

static __always_inline void copy_to_daemon(struct __sk_buff *skb, const struct ip6 *ip6)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 length = skb->len - ETH_LEN, captured, last;
	struct pacer_notice *notice;

	if (!within_limit(ip6, now)) {
		count(COUNT_LIMITED, 1);
		return;
	}
	notice = bpf_ringbuf_reserve(&notices, sizeof(*notice), 0);
	if (!notice) {
		count(COUNT_RING_FULL, 1);
		return;
	}
	notice->time_ns = now;
	notice->length = length;
	/*
	 * 1 to NOTICE_DATA octets, by a mask: Linux 6.1 learns no lower bound from a comparison with zero. The length is not zero, because
	 * an IPv6 header was read.
	 */
	last = (length > NOTICE_DATA ? NOTICE_DATA : length) - 1;
	barrier_var(last);
	captured = (last & (NOTICE_DATA - 1)) + 1;
	if (bpf_skb_load_bytes(skb, ETH_LEN, notice->data, captured)) {
		bpf_ringbuf_discard(notice, 0);
		return;
	}
	notice->captured = captured;
	bpf_ringbuf_submit(notice, 0);
}

static __always_inline void sample_rtt(struct pacer_answers *seen, const struct pacer_key *key, __u32 psn, __u64 now)
{
	struct pacer_key flow_key = *key;
	struct pacer_binding *binding = bpf_map_lookup_elem(&bound, key);
	struct pacer_flow *flow;
	__u64 sent, rtt;

	if (!binding)
		return;
	flow_key.qpn = binding->dest_qpn;
	flow = bpf_map_lookup_elem(&flows, &flow_key);
	if (!flow)
		return;
	sent = flow->probe_ns;
	if (!sent || ((psn - flow->probe_psn) & PSN_MASK) >= PSN_HALF)
		return;
	flow->probe_ns = 0;
	/*
	 * Earlier answers to a packet from before the binding may not have been recorded; and a delayed departure may be later
	 * than the answer to an earlier transmission.
	 */
	if (sent < binding->since_ns || now <= sent)
		return;
	rtt = now - sent;
	if (now - seen->window_ns > RTT_WINDOW_NS) {
		seen->before_ns = now - seen->window_ns > 2 * RTT_WINDOW_NS ? 0 : seen->least_ns;
		seen->window_ns = now;
		seen->least_ns = rtt;
	} else if (rtt < seen->least_ns) {
		seen->least_ns = rtt;
	}
}

static __always_inline void note_answer(const struct ip6 *ip6, const struct transport *roce)
{
	__u64 now = bpf_ktime_get_ns();
	struct pacer_answers fresh = { .first_ns = now, .last_ns = now }, *seen;
	struct pacer_key key = {};

	key.peer = ip6->src;
	key.qpn = bth_qpn(&roce->bth);
	seen = bpf_map_lookup_elem(&answers, &key);
	if (!seen) {
		bpf_map_update_elem(&answers, &key, &fresh, BPF_NOEXIST);
		return;
	}
	seen->last_ns = now;
	sample_rtt(seen, &key, bth_psn(&roce->bth), now);
}

#endif
