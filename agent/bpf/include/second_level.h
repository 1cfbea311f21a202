/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Events for user space: of a queue above K_max, once per flow and RTT_est and rate limited per port; of a queue above K_min,
 * once per port and RTT_est.
 */
#ifndef CANOPY_SECOND_LEVEL_H
#define CANOPY_SECOND_LEVEL_H

/* True for one packet of the flow per RTT_est, also if packets of it are on several processors. */
static __always_inline bool flow_may_emit(struct canopy_flow *flow, __u64 rtt_ns, __u64 now)
{
	__u64 last = flow->event_ns;

	if (last && now - last < rtt_ns)
		return false;
	return __sync_val_compare_and_swap(&flow->event_ns, last, now) == last;
}

/* Token bucket in nanoseconds: `bucket_ns` rises by event_ns per event and may be at most event_burst_ns ahead of `now`. */
static __always_inline bool port_may_emit(struct canopy_port_state *state, const struct canopy_limits *limits,
					  __u64 now)
{
	__u64 paid = state->bucket_ns, from = paid > now ? paid : now;

	if (from + limits->event_ns > now + limits->event_burst_ns)
		return false;
	return __sync_val_compare_and_swap(&state->bucket_ns, paid, from + limits->event_ns) == paid;
}

/* A function of its own, so that the event's layout is in the BTF from which the agent's types are generated. */
static __noinline int output_event(const struct canopy_second_level *event)
{
	return bpf_ringbuf_output(&eg_events, (void *)event, sizeof(*event), 0);
}

static __always_inline void emit_event(const struct canopy_flow_key *key, struct canopy_flow *flow,
				       struct canopy_port_state *state, struct canopy_port_stats *stats,
				       const struct canopy_limits *limits, __u64 depth, __u64 now)
{
	struct canopy_second_level event = { .time_ns = now, .depth = depth, .flow = *key };

	if (!flow_may_emit(flow, limits->rtt_ns, now)) {
		stats->flow_limited += 1;
		return;
	}
	if (!port_may_emit(state, limits, now)) {
		/* An event that the port's limit suppresses does not count against the flow's limit. */
		flow->event_ns = 0;
		stats->port_limited += 1;
		return;
	}
	if (output_event(&event)) {
		stats->lost += 1;
		return;
	}
	stats->events += 1;
}

/* First level, above K_min: user space polls more often from now on. The event names no flow. */
static __always_inline void emit_first_level(__u32 port, struct canopy_port_state *state,
					     const struct canopy_limits *limits, __u64 depth, __u64 now)
{
	struct canopy_second_level event = { .time_ns = now, .depth = depth, .flow.ifindex = port };

	if (state->first_level_ns && now - state->first_level_ns < limits->rtt_ns)
		return;
	state->first_level_ns = now;
	output_event(&event);
}

#endif
