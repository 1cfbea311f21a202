/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Ingress: copies notifications to the daemon, records answers. No packet is consumed. */
#ifndef CANOPY_PACER_INGRESS_H
#define CANOPY_PACER_INGRESS_H

#define SECOND_NS 1000000000ULL
/* The RTT is the minimum of the last 5 to 10 seconds. */
#define RTT_WINDOW_NS (5 * SECOND_NS)

/* Limits notifications per second; unknown senders have a limit of their own, so that they cannot use up that of the known. */
static __always_inline bool within_limit(const struct ip6 *ip6, __u64 now)
{
	struct control *set = settings();
	struct address from;
	struct window *window;
	__u32 unknown;

	__builtin_memcpy(&from, ip6->src, sizeof(from));
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
	__u32 length = skb->len - ETH_LEN, captured = length;
	struct notice *notice;

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
	if (captured > NOTICE_DATA)
		captured = NOTICE_DATA;
	/* The verifier needs the bounds of this register. */
	asm volatile("" : "+r"(captured));
	if (captured < 1 || captured > NOTICE_DATA ||
	    bpf_skb_load_bytes(skb, ETH_LEN, notice->data, captured)) {
		bpf_ringbuf_discard(notice, 0);
		return;
	}
	notice->captured = captured;
	bpf_ringbuf_submit(notice, 0);
}

static __always_inline void sample_rtt(struct answers *seen, const struct flow_key *key, __u32 psn, __u64 now)
{
	struct flow_key flow_key = *key;
	struct binding *binding = bpf_map_lookup_elem(&bound, key);
	struct flow *flow;
	__u64 sent, rtt;

	if (!binding)
		return;
	flow_key.qpn = binding->dest_qpn;
	flow = bpf_map_lookup_elem(&flows, &flow_key);
	if (!flow)
		return;
	sent = flow->probe_ns;
	if (!sent || ((psn - flow->probe_psn) & QPN_MASK) >= 0x800000)
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

static __always_inline void note_answer(const struct ip6 *ip6, const struct roce *roce)
{
	__u64 now = bpf_ktime_get_ns();
	struct answers fresh = { .first_ns = now, .last_ns = now }, *seen;
	struct flow_key key;

	__builtin_memcpy(key.peer, ip6->src, sizeof(key.peer));
	key.qpn = bpf_ntohl(roce->qpn) & QPN_MASK;
	seen = bpf_map_lookup_elem(&answers, &key);
	if (!seen) {
		bpf_map_update_elem(&answers, &key, &fresh, BPF_NOEXIST);
		return;
	}
	seen->last_ns = now;
	sample_rtt(seen, &key, bpf_ntohl(roce->psn) & QPN_MASK, now);
}

#endif
