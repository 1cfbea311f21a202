/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Maps of the node's programs. Those that are pinned by name outlive the agent: configuration, which the agent writes again, and
 * state, which only the programs write.
 */
#ifndef CANOPY_MAPS_H
#define CANOPY_MAPS_H

#include "shared.h"
#include "decision.h"

#define MAX_GROUPS 16384
#define MAX_GROUP_BRANCHES (1 << 20)
#define MAX_PORTS 4096
#define MAX_NEIGHBOURS 65536
/* Global addresses of a node's interfaces. */
#define MAX_OWN 16384
/* uAs of a node, and as many uNs. */
#define MAX_PATH_LINKS 8192
/* Prefixes of hosts, and room for new ones beside those that they take the place of. */
#define MAX_PATH_ENDS (131072 + 4096)
/* MAXMIFS of the kernel. */
#define MAX_MIFS 32
/* Interfaces with a lower index are counted in an array, whose lookup costs no call; the others in a hash map. */
#define ARRAY_PORTS 1024
/* Flows that the agent did not announce, over all ports (LRU). */
#define MAX_LEARNED 65536
/* Flows that the agent announced; counted per egress port. The agent reads the whole table: a larger one takes longer. */
#define MAX_KNOWN 65536
#define MAX_KEPT MAX_KNOWN
/* Host pairs whose ACKs are forwarded by this node. */
#define MAX_ACKS 16384

#define PINNED(NAME, TYPE, FLAGS, KEY, VALUE, MAX)              \
	struct {                                                \
		__uint(type, BPF_MAP_TYPE_##TYPE);              \
		__uint(map_flags, FLAGS);                       \
		__uint(pinning, LIBBPF_PIN_BY_NAME);            \
		__uint(max_entries, MAX);                       \
		__type(key, KEY);                               \
		__type(value, VALUE);                           \
	} NAME SEC(".maps")

#define PINNED_RING(NAME, BYTES)                                \
	struct {                                                \
		__uint(type, BPF_MAP_TYPE_RINGBUF);             \
		__uint(pinning, LIBBPF_PIN_BY_NAME);            \
		__uint(max_entries, BYTES);                     \
	} NAME SEC(".maps")

#define LAZY BPF_F_NO_PREALLOC

/* Configuration of the groups. */
PINNED(node, ARRAY, 0, __u32, struct canopy_node, 1);
PINNED(groups, HASH, LAZY, __u32, struct canopy_group, MAX_GROUPS);
PINNED(proxies, HASH, LAZY, struct canopy_addr, struct canopy_proxy, MAX_GROUPS);
PINNED(qpns, HASH, LAZY, __u32, __u32, MAX_GROUPS);
PINNED(trees, HASH, LAZY, __u32, __u32, MAX_GROUPS);
/* IPv6 multicast addresses of the groups; also the record of which kernel multicast routes belong to the agent. */
PINNED(multicasts, HASH, LAZY, struct canopy_addr, __u32, MAX_GROUPS);
/* The kernel's multicast interfaces that the agent made: interface index, by MIF. No program reads it. */
PINNED(mifs, HASH, LAZY, __u32, __u32, MAX_MIFS);
PINNED(outers, HASH, LAZY, __u32, struct canopy_outer, MAX_GROUPS);
PINNED(hmacs, HASH, LAZY, __u32, struct canopy_hmac, MAX_GROUPS);
PINNED(branches, HASH, LAZY, struct canopy_slot_key, struct canopy_branch, MAX_GROUP_BRANCHES);
PINNED(peers, HASH, LAZY, struct canopy_peer_key, struct canopy_peer, MAX_GROUP_BRANCHES);

/* Ports of the topology, by interface index. */
PINNED(ports, HASH, LAZY, __u32, struct canopy_port, MAX_PORTS);
/* Link-layer addresses of receivers, where the kernel knows them. */
PINNED(neighbours, HASH, LAZY, struct canopy_addr, struct canopy_neighbour, MAX_NEIGHBOURS);
/* Addresses at which the node itself receives, on any interface, except link-local ones. The value has no meaning. */
PINNED(own_addresses, HASH, LAZY, struct canopy_addr, __u32, MAX_OWN);

/* Links that path programs lead over, by uSID. */
PINNED(path_links, HASH, LAZY, __u32, struct canopy_path_link, MAX_PATH_LINKS);
/* Prefixes of hosts: the uNs of the nodes that each is behind. Empty where no host of this node may send path programs. */
PINNED(path_ends, LPM_TRIE, LAZY, struct canopy_prefix, struct canopy_ends, MAX_PATH_ENDS);
/* uNs that path programs of hosts may have. */
PINNED(path_nodes, ARRAY, 0, __u32, struct canopy_uns, 1);
PINNED(path_packets, PERCPU_HASH, LAZY, struct canopy_path_key, __u64, MAX_PORTS * 2);

/* State of the groups. */
PINNED(states, HASH, LAZY, __u32, struct canopy_state, MAX_GROUPS);
PINNED(cnps, HASH, LAZY, __u32, struct canopy_cnp, MAX_GROUPS);
PINNED(drops, PERCPU_HASH, LAZY, struct canopy_drop_key, __u64, MAX_GROUPS * 4);
/* Drops at the boundary, by port: also at interfaces outside the topology. */
PINNED(port_drops, PERCPU_HASH, LAZY, struct canopy_port_drop_key, __u64, MAX_PORTS * 4);
PINNED_RING(events, 1 << 18);
/* CNP windows have events of their own: a flood of others does not hide them. */
PINNED_RING(cnp_events, 1 << 18);

/* Congestion. */
PINNED(eg_limits, HASH, LAZY, __u32, struct canopy_limits, MAX_PORTS);
PINNED(eg_stats, PERCPU_ARRAY, 0, __u32, struct canopy_port_stats, ARRAY_PORTS);
PINNED(eg_far_stats, PERCPU_HASH, LAZY, __u32, struct canopy_port_stats, MAX_PORTS);
/* Depth in octets of queues that the program cannot read; written by the agent. */
PINNED(eg_sampled, HASH, LAZY, __u32, __u64, MAX_PORTS);
PINNED(eg_known, HASH, LAZY, struct canopy_flow_key, __u32, MAX_KNOWN);
PINNED(eg_kept, HASH, LAZY, struct canopy_flow_key, struct canopy_flow, MAX_KEPT);
PINNED(eg_flows, LRU_HASH, 0, struct canopy_flow_key, struct canopy_flow, MAX_LEARNED);
/* Time of the last ACK, by the addresses and DestQP of the ACK itself. */
PINNED(eg_acks, LRU_HASH, 0, struct canopy_flow_key, __u64, MAX_ACKS);
/* struct canopy_congested */
PINNED_RING(eg_events, 1 << 16);
/* struct canopy_cm. If it is full, the source QP is learned from ACKs. */
PINNED_RING(eg_cms, 1 << 16);

/*
 * The capture that is armed, and what it got. Not pinned: nothing stays armed when an agent starts.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct canopy_capture);
} capturing SEC(".maps");

/* struct canopy_captured: room for a packet and its copies to all branches. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} captured SEC(".maps");

/* What canopy_summarize wrote: by number, not by group. Not pinned: nothing in it outlives one run. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_GROUPS);
	__type(key, __u32);
	__type(value, struct canopy_summary);
} summaries SEC(".maps");

/*
 * The decision about the packet that this processor is working on: from a role to canopy_forward. Pinned, because loading replaces
 * the programs of the roles one by one: a new role and an old canopy_forward must mean the same entry.
 */
PINNED(decisions, PERCPU_ARRAY, 0, __u32, struct decision, 1);

#endif
