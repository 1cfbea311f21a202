/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The only layout of what the egress program and the agent both touch, like shared.h for the ingress program.
 * Rust types are generated from this header's BTF and their sizes asserted. Host order, but for addresses.
 */
#ifndef CANOPY_EGRESS_SHARED_H
#define CANOPY_EGRESS_SHARED_H

/* A flow at one egress port: what a data packet shows, inside SRv6 the inner headers. */
struct canopy_flow_key {
	struct canopy_addr src;
	struct canopy_addr dst;
	__u32 qpn;			/* DestQP */
	__u32 ifindex;			/* egress port; 0 in eg_known and eg_acks */
};

struct canopy_flow {
	__u64 packets;
	__u64 bytes;			/* from the Ethernet header on, as they stand in a queue */
	__u64 ce;			/* packets that left marked CE */
	__u64 came;			/* octets that came marked CE */
	__u64 seen_ns;			/* CLOCK_MONOTONIC */
	__u64 event_ns;			/* when it was last told to user space; 0 = never */
};

/* What to compare a port's queue with; a port without an entry marks nothing. */
struct canopy_limits {
	__u64 k_min;			/* octets: above, packets are marked */
	__u64 k_max;			/* octets: above, user space is told */
	__u64 rtt_ns;			/* RTT_est: one event per flow in this time */
	__u64 event_ns;			/* one event of the port in this time, over long */
	__u64 event_burst_ns;		/* event_ns times the events at once */
};

/* Counters of a port, per processor. */
struct canopy_port_stats {
	__u64 packets;			/* data packets */
	__u64 bytes;
	__u64 marked;			/* marked CE here */
	__u64 ce;			/* left marked CE, here or before */
	__u64 not_ect;			/* above K_min but not ECN capable */
	__u64 events;
	__u64 flow_limited;		/* events held back: the flow's last one is less than an RTT ago */
	__u64 port_limited;		/* events held back: the port's rate */
	__u64 lost;			/* events that found the ring buffer full */
};

#define DEPTH_SAMPLED 0
#define DEPTH_KERNEL 1

/* Queue of a port as the program last saw it, and the events' rate. */
struct canopy_port_state {
	__u64 depth;			/* octets */
	__u64 seen_ns;
	__u64 bucket_ns;		/* events are paid until then */
	__u64 woke_ns;			/* last event of the first level */
	__u32 source;			/* DEPTH_ */
	__u32 pad;
};

/* A data packet met a queue above K_max; or above K_min only: then without its flow, all zero but the port. */
struct canopy_second_level {
	__u64 time_ns;			/* CLOCK_MONOTONIC */
	__u64 depth;			/* octets */
	struct canopy_flow_key flow;
};

#define CM_REQUEST 0x10			/* attribute identifiers of ConnectRequest and ConnectReply */
#define CM_REPLY 0x13

/* A QP that RDMA-CM names. */
struct canopy_cm {
	struct canopy_addr src;		/* who names its QP */
	struct canopy_addr dst;
	__u32 kind;			/* CM_ */
	__u32 id;			/* communication identifier of whoever asked */
	__u32 qpn;
	__u32 pad;
};

#endif
