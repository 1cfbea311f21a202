/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The only definition of what the egress program shares with the agent, like shared.h for the ingress program. The Rust
 * types are generated from this header's BTF, and their sizes are asserted. Host byte order, except for addresses.
 */
#ifndef CANOPY_EGRESS_SHARED_H
#define CANOPY_EGRESS_SHARED_H

/* A flow at one egress port, by the headers of its data packets; for SRv6 and IPv6-in-IPv6, by the inner headers. */
struct canopy_flow_key {
	struct canopy_addr src;
	struct canopy_addr dst;
	__u32 qpn;			/* DestQP */
	__u32 ifindex;			/* egress port; 0 in eg_known and eg_acks */
};

struct canopy_flow {
	__u64 packets;
	__u64 bytes;			/* frame length, with the Ethernet header and any encapsulation */
	__u64 ce;			/* packets sent with CE */
	__u64 ce_in_bytes;		/* octets received with CE */
	__u64 seen_ns;			/* CLOCK_MONOTONIC */
	__u64 event_ns;			/* last event for user space; 0 = none */
};

/* Thresholds of a port's queue; the packets of a port without an entry are not marked. */
struct canopy_limits {
	__u64 k_min;			/* octets: above it, packets are marked CE */
	__u64 k_max;			/* octets: above it, user space gets events */
	__u64 rtt_ns;			/* RTT_est: at most one event per flow in this time */
	__u64 event_ns;			/* average time between events of the port, at least */
	__u64 event_burst_ns;		/* burst: event_ns times the number of events at once */
};

/* Counters of a port, per processor. */
struct canopy_port_stats {
	__u64 packets;			/* data packets */
	__u64 bytes;
	__u64 marked;			/* marked CE by this node */
	__u64 ce;			/* sent with CE, marked by this node or upstream */
	__u64 not_ect;			/* above K_min but not ECN capable */
	__u64 events;
	__u64 flow_limited;		/* events suppressed: the last one of the flow is less than RTT_est ago */
	__u64 port_limited;		/* events suppressed by the rate limit of the port */
	__u64 lost;			/* events lost because the ring buffer was full */
};

#define DEPTH_SAMPLED 0
#define DEPTH_KERNEL 1

/* Queue of a port at its last data packet, and the token bucket of its events. */
struct canopy_port_state {
	__u64 depth;			/* octets */
	__u64 seen_ns;
	__u64 bucket_ns;		/* token bucket: rises by event_ns per event */
	__u64 first_level_ns;		/* last event of the first level (above K_min) */
	__u32 source;			/* DEPTH_ */
	__u32 pad;
};

/* Event: a data packet met a queue above K_max; or above K_min only, then the flow is zero except for the port. */
struct canopy_second_level {
	__u64 time_ns;			/* CLOCK_MONOTONIC */
	__u64 depth;			/* octets */
	struct canopy_flow_key flow;
};

#define CM_REQUEST 0x10			/* attribute identifiers of ConnectRequest and ConnectReply */
#define CM_REPLY 0x13

/* Event: an RDMA-CM message with a QPN. */
struct canopy_cm {
	struct canopy_addr src;		/* sender of the message: the QP is its own */
	struct canopy_addr dst;
	__u32 kind;			/* CM_ */
	__u32 id;			/* communication identifier of the requester */
	__u32 qpn;
	__u32 pad;
};

#endif
