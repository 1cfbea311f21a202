/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps of the egress program, pinned by name beside those of the ingress program. */
#ifndef CANOPY_EGRESS_MAPS_H
#define CANOPY_EGRESS_MAPS_H

#define MAX_PORTS 4096
/* Flows that nobody announced, over all ports: the least recently used one leaves for another. */
#define MAX_LEARNED 65536
/* Flows that the agent announced; their counters are per port that they leave by. Larger tables take longer to be read. */
#define MAX_KNOWN 65536
#define MAX_KEPT MAX_KNOWN

#define EGRESS_MAP(NAME, TYPE, FLAGS, KEY, VALUE, MAX)          \
	struct {                                                \
		__uint(type, TYPE);                             \
		__uint(map_flags, FLAGS);                       \
		__uint(pinning, LIBBPF_PIN_BY_NAME);            \
		__uint(max_entries, MAX);                       \
		__type(key, KEY);                               \
		__type(value, VALUE);                           \
	} NAME SEC(".maps")

/* Pairs of hosts whose ACKs pass here. */
#define MAX_ACKS 16384

#define LAZY BPF_F_NO_PREALLOC

EGRESS_MAP(eg_limits, BPF_MAP_TYPE_HASH, LAZY, __u32, struct canopy_limits, MAX_PORTS);
EGRESS_MAP(eg_stats, BPF_MAP_TYPE_PERCPU_HASH, LAZY, __u32, struct canopy_port_stats, MAX_PORTS);
EGRESS_MAP(eg_states, BPF_MAP_TYPE_HASH, LAZY, __u32, struct canopy_port_state, MAX_PORTS);
/* Depth in octets of ports whose queue the program cannot read; the agent fills it in. */
EGRESS_MAP(eg_sampled, BPF_MAP_TYPE_HASH, LAZY, __u32, __u64, MAX_PORTS);

EGRESS_MAP(eg_known, BPF_MAP_TYPE_HASH, LAZY, struct canopy_flow_key, __u32, MAX_KNOWN);
EGRESS_MAP(eg_kept, BPF_MAP_TYPE_HASH, LAZY, struct canopy_flow_key, struct canopy_flow, MAX_KEPT);
EGRESS_MAP(eg_flows, BPF_MAP_TYPE_LRU_HASH, 0, struct canopy_flow_key, struct canopy_flow, MAX_LEARNED);
/* ACKs, by their own addresses and DestQP: when last seen. */
EGRESS_MAP(eg_acks, BPF_MAP_TYPE_LRU_HASH, 0, struct canopy_flow_key, __u64, MAX_ACKS);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__uint(max_entries, 1 << 18);
} eg_events SEC(".maps");

/* struct canopy_cm; where it is full, connections are learned by their ACKs. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__uint(max_entries, 1 << 16);
} eg_cms SEC(".maps");

#endif
