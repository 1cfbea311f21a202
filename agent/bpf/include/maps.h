/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Every map is pinned by name under the agent's pin directory and outlives the agent. */
#ifndef CANOPY_MAPS_H
#define CANOPY_MAPS_H

#define MAX_GROUPS 16384
#define MAX_GROUP_BRANCHES (1 << 20)

#define CANOPY_HASH(NAME, KEY, VALUE, MAX)                      \
	struct {                                                \
		__uint(type, BPF_MAP_TYPE_HASH);                \
		__uint(map_flags, BPF_F_NO_PREALLOC);           \
		__uint(pinning, LIBBPF_PIN_BY_NAME);            \
		__uint(max_entries, MAX);                       \
		__type(key, KEY);                               \
		__type(value, VALUE);                           \
	} NAME SEC(".maps")

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct canopy_node);
} node SEC(".maps");

CANOPY_HASH(groups, __u32, struct canopy_group, MAX_GROUPS);
CANOPY_HASH(proxies, struct canopy_addr, __u32, MAX_GROUPS);
CANOPY_HASH(qpns, __u32, __u32, MAX_GROUPS);
CANOPY_HASH(trees, __u32, __u32, MAX_GROUPS);
/* IPv6 multicast addresses of the groups; also the record of which kernel multicast routes belong to the agent. */
CANOPY_HASH(multicasts, struct canopy_addr, __u32, MAX_GROUPS);
CANOPY_HASH(outers, __u32, struct canopy_outer, MAX_GROUPS);
CANOPY_HASH(branches, struct canopy_slot_key, struct canopy_branch, MAX_GROUP_BRANCHES);
CANOPY_HASH(peers, struct canopy_peer_key, struct canopy_peer, MAX_GROUP_BRANCHES);
CANOPY_HASH(stats, struct canopy_slot_key, struct canopy_branch_stats, MAX_GROUP_BRANCHES);
CANOPY_HASH(states, __u32, struct canopy_state, MAX_GROUPS);

/* Whether maps with timers must be preallocated depends on the kernel version; all supported versions accept this map. */
CANOPY_HASH(cnps, __u32, struct canopy_cnp, MAX_GROUPS);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__uint(max_entries, MAX_GROUPS * 4);
	__type(key, struct canopy_drop_key);
	__type(value, __u64);
} drops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
	__uint(max_entries, 1 << 18);
} events SEC(".maps");

#endif
