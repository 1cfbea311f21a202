/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps of the egress program, pinned by name next to those of the ingress program. */
#ifndef CANOPY_EGRESS_MAPS_H
#define CANOPY_EGRESS_MAPS_H

#define MAX_PORTS 4096
/* Flows that the agent did not announce, over all ports (LRU). */
#define MAX_LEARNED 65536
/* Flows that the agent announced; counted per egress port. The agent reads the whole table: a larger one takes longer. */
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

/* Host pairs whose ACKs are forwarded by this node. */
#define MAX_ACKS 16384

#define LAZY BPF_F_NO_PREALLOC

EGRESS_MAP(eg_limits, BPF_MAP_TYPE_HASH, LAZY, __u32, struct canopy_limits, MAX_PORTS);
EGRESS_MAP(eg_stats, BPF_MAP_TYPE_PERCPU_HASH, LAZY, __u32, struct canopy_port_stats, MAX_PORTS);
EGRESS_MAP(eg_states, BPF_MAP_TYPE_HASH, LAZY, __u32, struct canopy_port_state, MAX_PORTS);
/* Depth in octets of queues that the program cannot read; written by the agent. */
EGRESS_MAP(eg_sampled, BPF_MAP_TYPE_HASH, LAZY, __u32, __u64, MAX_PORTS);

EGRESS_MAP(eg_known, BPF_MAP_TYPE_HASH, LAZY, struct canopy_flow_key, __u32, MAX_KNOWN);
EGRESS_MAP(eg_kept, BPF_MAP_TYPE_HASH, LAZY, struct canopy_flow_key, struct canopy_flow, MAX_KEPT);
EGRESS_MAP(eg_flows, BPF_MAP_TYPE_LRU_HASH, 0, struct canopy_flow_key, struct canopy_flow, MAX_LEARNED);
/* Time of the last ACK, by the addresses and DestQP of the ACK itself. */
EGRESS_MAP(eg_acks, BPF_MAP_TYPE_LRU_HASH, 0, struct canopy_flow_key, __u64, MAX_ACKS);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__uint(max_entries, 1 << 18);
} eg_events SEC(".maps");

/* struct canopy_cm. If it is full, the source QP is learned from ACKs. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__uint(max_entries, 1 << 16);
} eg_cms SEC(".maps");

#endif
