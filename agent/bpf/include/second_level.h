/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Telling user space of a queue above K_max, once per flow and RTT_est, and at a limited rate per port; and of one above K_min. */
#ifndef CANOPY_SECOND_LEVEL_H
#define CANOPY_SECOND_LEVEL_H

/* The flow's turn: of packets on several processors one takes it. */
static __always_inline bool flow_may_tell(struct canopy_flow *flow, __u64 rtt_ns, __u64 now)
{
	__u64 last = flow->event_ns;

	if (last && now - last < rtt_ns)
		return false;
	return __sync_val_compare_and_swap(&flow->event_ns, last, now) == last;
}

/* A bucket of nanoseconds: full at `bucket_ns`; further behind than a burst is the same as empty of debts. */
static __always_inline bool port_may_tell(struct canopy_port_state *state, const struct canopy_limits *limits,
					  __u64 now)
{
	__u64 paid = state->bucket_ns, from = paid > now ? paid : now;

	if (from + limits->event_ns > now + limits->event_burst_ns)
		return false;
	return __sync_val_compare_and_swap(&state->bucket_ns, paid, from + limits->event_ns) == paid;
}

/* A function of its own, so that the event's layout is in the BTF that the agent's types come from. */
static __noinline int submit(const struct canopy_second_level *event)
{
	return bpf_ringbuf_output(&eg_events, (void *)event, sizeof(*event), 0);
}

static __always_inline void tell(const struct canopy_flow_key *key, struct canopy_flow *flow,
				 struct canopy_port_state *state, struct canopy_port_stats *stats,
				 const struct canopy_limits *limits, __u64 depth, __u64 now)
{
	struct canopy_second_level event = { .time_ns = now, .depth = depth, .flow = *key };

	if (!flow_may_tell(flow, limits->rtt_ns, now)) {
		stats->flow_limited += 1;
		return;
	}
	if (!port_may_tell(state, limits, now)) {
		/* The flow's turn is not used up by what the port holds back. */
		flow->event_ns = 0;
		stats->port_limited += 1;
		return;
	}
	if (submit(&event)) {
		stats->lost += 1;
		return;
	}
	stats->events += 1;
}

/* First level: user space begins to look often, once per RTT_est; it is nobody's fault yet. */
static __always_inline void wake(__u32 port, struct canopy_port_state *state, const struct canopy_limits *limits,
				 __u64 depth, __u64 now)
{
	struct canopy_second_level event = { .time_ns = now, .depth = depth, .flow.ifindex = port };

	if (state->woke_ns && now - state->woke_ns < limits->rtt_ns)
		return;
	state->woke_ns = now;
	submit(&event);
}

#endif
