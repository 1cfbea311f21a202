/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The only layout: everything that BPF programs and the agent both touch.
 * Rust types are generated from this header's BTF and their sizes asserted.
 * Multi-byte fields are host order unless a comment says wire order.
 */
#ifndef CANOPY_SHARED_H
#define CANOPY_SHARED_H

/* Branches of one group at one node; a power of two (the minimum tree has that many leaves). */
#define CANOPY_MAX_BRANCHES 128
/* Outer IPv6 header plus an SRH of at most 2048 bytes. */
#define CANOPY_MAX_OUTER 2088
/* Bytes behind a BTH that the ICRC table reaches. */
#define CANOPY_MAX_TAIL 9216
/* TLVs looked at in one SRH. */
#define CANOPY_MAX_TLVS 128
/* Receivers in one End.MT TLV: 22 + 20n <= 255. */
#define CANOPY_TLV_RECEIVERS 11
/* An unwrapped PSN starts one turn above zero, so that nothing underflows. */
#define CANOPY_PSN_TURN (1ULL << 24)

/* Drop reasons: numbers are never reused. Keep the names: they appear in metrics. */
enum canopy_drop {
	DROP_NONE = 0,
	DROP_TRUNCATED = 1,		/* shorter than its headers say */
	DROP_NO_SRH = 2,		/* to End.MT or a Replication-SID without an SRH, or Segments Left 0 */
	DROP_SRH_MALFORMED = 3,		/* routing type, lengths or Last Entry do not agree */
	DROP_TLV_MALFORMED = 4,		/* an SRH TLV does not fit, or its counts do not agree */
	DROP_TLV_NONE = 5,		/* no End.MT TLV for this edge and no provisioned list */
	DROP_TLV_UNPROVISIONED = 6,	/* a (receiver, QPN) that the controller did not provision */
	DROP_GROUP_UNKNOWN = 7,		/* tree, Proxy Address or Designated QPN of no group here */
	DROP_INNER_MALFORMED = 8,	/* inner packet is not the group's RoCEv2 */
	DROP_SOURCE_UNREGISTERED = 9,	/* data that is not from the group's source QP */
	DROP_WRONG_PORT = 10,		/* arrived where it cannot come from */
	DROP_OPCODE_REFUSED = 11,	/* READ, atomics and everything that cannot be multicast */
	DROP_PSN_WINDOW = 12,		/* data PSN further than the window from the newest one */
	DROP_HOP_LIMIT = 13,		/* hop limit exhausted */
	DROP_ECN = 14,			/* outer CE on an inner packet that is not ECN capable (RFC 6040) */
	DROP_NO_NEIGHBOUR = 15,		/* next hop's link-layer address not resolved */
	DROP_NO_ROUTE = 16,		/* FIB gives no way to the next hop on the planned port */
	DROP_MTU = 17,			/* does not fit the output port */
	DROP_NO_ROOM = 18,		/* the kernel refused to grow or shrink the packet */
	DROP_BRANCH_UNKNOWN = 19,	/* feedback from no current branch */
	DROP_FEEDBACK_MALFORMED = 20,	/* lengths, opcode or syndrome of no feedback */
	DROP_FEEDBACK_ICRC = 21,	/* feedback whose ICRC is wrong */
	DROP_FEEDBACK_WINDOW = 22,	/* PSN outside [base - W, high], or before any data */
	DROP_NAK_GHOST = 23,		/* NAK below what the branch acknowledged since */
	DROP_NAK_FATAL = 24,		/* not merged: told as an event */
	DROP_CNP_RATE = 25,		/* faster than one branch may speak */
	DROP_WRITE_REFUSED = 26,	/* R_Key or range of an RDMA WRITE is not the group's */
	DROP_STATE_MISSING = 27,	/* group is configured but its state is not there yet */
	DROP_BRANCH_INACTIVE = 28,	/* feedback from a branch that has not started */
	DROP_EPOCH_OLD = 29,		/* said by a child node before receivers moved behind it */
	DROP_CNP_TIMER = 30,		/* the kernel had no timer for the CNP's window */
	DROP_EPOCH_AHEAD = 31,		/* feedback of a child node whose program is newer than this node's */
	DROP_REASONS
};

/* An IPv6 address as it lies on the wire. */
struct canopy_addr {
	__u64 hi;
	__u64 lo;
};

/* What does not depend on groups; one entry. */
struct canopy_node {
	struct canopy_addr address;	/* node address: feedback from children comes here */
	struct canopy_addr end_mt;	/* End.MT SID */
	__u64 replicate_hi;		/* first 64 bits of every Replication-SID, wire order */
};

#define GROUP_HEADEND 1		/* encapsulates the source's packets */
#define GROUP_PROVISIONED 2	/* End.MT without a TLV uses all receivers */
#define GROUP_MULTICAST 4	/* child nodes get their copies by the kernel's IPv6 multicast routes */

/*
 * skb->mark of an encapsulated copy that our program put back into its own port for the kernel: it is let past once. The kernel
 * clears the mark of what arrives over a wire or from another namespace.
 */
#define CANOPY_MARK_KERNEL 0xCA09CA57

/* A set of branch slots. */
struct canopy_slots {
	__u64 word[CANOPY_MAX_BRANCHES / 64];
};

/* A group's finished decisions at this node. */
struct canopy_group {
	__u32 group_id;
	__u32 epoch;
	__u32 flags;
	__u32 dqpn;			/* Designated QPN */
	struct canopy_addr proxy;
	struct canopy_addr source;
	__u32 source_ifindex;		/* headend: port of the source host */
	__u32 up_ifindex;		/* port towards the parent, or the source */
	__u32 also_ifindex;		/* port of the node that is about to become the parent; 0 = none */
	__u32 pad;
	struct canopy_addr up_sa;
	struct canopy_addr up_da;
	__u32 up_qpn;
	__u32 source_qpn;		/* with the source's address: another QP starts the group over */
	__u32 up_sport;			/* UDP source port upstream; between nodes its low 14 bits are the epoch */
	__u32 ack_seed;			/* CRC register after an upstream ACK's bytes before AckReq|PSN */
	__u64 start;			/* unwrapped start PSN */
	struct canopy_slots children;
	struct canopy_slots receivers;
	struct canopy_slots warming;	/* children that get copies and do not count yet */
	__u64 write_base;
	__u64 write_length;		/* smallest region of the receivers here */
	__u32 write_rkey;
	__u32 window;
	__u64 reack_ns;
	__u64 nak_merge_ns;
	__u64 cnp_window_ns;
	__u64 cnp_min_ns;
};

/* Outer IPv6 + SRH of the headend, complete but for lengths and traffic class. */
struct canopy_outer {
	__u32 len;
	__u32 pad;
	__u8 bytes[CANOPY_MAX_OUTER];
};

struct canopy_slot_key {
	__u32 group_id;
	__u32 slot;
};

struct canopy_peer_key {
	__u32 group_id;
	__u32 pad;
	struct canopy_addr address;
};

/* Where feedback of an address belongs. */
struct canopy_peer {
	__u32 slot;
	__u32 ifindex;
};

#define BRANCH_NODE 1
#define BRANCH_RECEIVER 2

/* A branch's finished decisions. */
struct canopy_branch {
	__u32 kind;
	__u32 ifindex;
	struct canopy_addr address;	/* child's node address, or the receiver: where its FIB entry leads */
	struct canopy_addr dst;		/* child's SID, or the receiver */
	__u32 qpn;			/* receiver's */
	__u32 icrc_delta;		/* register difference after the BTH that the rewrite makes */
	__u64 va;
	__u64 length;			/* 0 = no memory registered */
	__u32 rkey;
	__u32 pad;
};

/* Per branch counters. */
struct canopy_branch_stats {
	__u64 packets;
	__u64 bytes;
	__u64 last_heard_ns;
};

/*
 * A node of the minimum tree. key = next << 6 | kind, so that one comparison finds the lowest
 * `next` and, among equals, the branch that has most to say: kind 0..31 RNR NAK with the longest
 * timer first, 62 PSN sequence NAK at `next`, 63 nothing outstanding. MSN is unwrapped like a PSN.
 * An empty leaf is all ones.
 */
struct canopy_min {
	__u64 key;
	__u64 msn;
	__u64 credits;
};

#define KIND_NAK 62
#define KIND_NONE 63
#define KEY_EMPTY (~0ULL)

/* Aggregation state of a group; survives the agent. */
struct canopy_state {
	struct bpf_spin_lock lock;
	__u32 pad;
	__u64 high;			/* highest data PSN sent down + 1; 0 = nothing yet */
	__u64 sent_next;		/* upstream was told: everything below is held by all; 0 = tell the minimum */
	__u64 nak_key;			/* the last NAK told upstream, as root key */
	__u64 nak_ns;			/* when; 0 = a retransmission has passed since */
	__u64 reack_ns;			/* when the last repeated ACK was sent */
	__u64 retx_from;		/* where the latest go-back began */
	__u64 retx_ns;
	__u64 position;			/* PSN of the last data packet + 1 */
	__u64 acks_in, acks_out, naks_in, naks_out;
	__u64 data_packets, data_bytes;
	struct canopy_slots active;	/* branches that count and are sent to */
	struct canopy_slots pending;	/* start with the next message */
	struct canopy_slots unheard;	/* active, but what they hold is not known: nothing is said upstream */
	struct canopy_slots late;	/* started last: what is sent again from below late_from is none of theirs */
	__u64 late_from;
	__u64 msn_told;			/* as last said upstream; 0 = nothing was */
	__u64 vacant_at;		/* data packets when it was last looked whether nobody counts */
	struct canopy_slots receivers;	/* receivers rather than child nodes */
	__u32 since[CANOPY_MAX_BRANCHES];	/* epoch that brought the branch in, or moved receivers behind it */
	__u32 shift[CANOPY_MAX_BRANCHES];	/* a late receiver counts PSNs from the start: this far behind */
	__u32 msn_base[CANOPY_MAX_BRANCHES];	/* messages completed before a late branch began to count */
	__u64 nak_heard_ns[CANOPY_MAX_BRANCHES];
	struct canopy_min tree[2 * CANOPY_MAX_BRANCHES];
};

/* CNPs of one group within the window T. */
struct canopy_cnp {
	struct bpf_timer timer;
	__u64 window;			/* number of the window; a slot's count holds for one window */
	__u32 running;
	__u32 best_count;
	__u32 best_slot;
	__u32 pad;
	__u64 cnps_in, cnps_out;
	__u64 slot_window[CANOPY_MAX_BRANCHES];
	__u64 slot_last_ns[CANOPY_MAX_BRANCHES];
	__u32 slot_count[CANOPY_MAX_BRANCHES];
};

struct canopy_drop_key {
	__u32 group_id;			/* 0 = no group */
	__u32 reason;
};

#define EVENT_CNP 1
#define EVENT_FATAL_NAK 2
#define EVENT_FIRST_DATA 3	/* at the headend: from now on who joins is late */

/* What must be spoken or told from user space. */
struct canopy_event {
	__u64 time_ns;			/* CLOCK_MONOTONIC */
	__u32 kind;
	__u32 group_id;
	__u32 slot;
	__u32 value;			/* CNP count, or the syndrome */
};

/* Operations of the control program; parameters travel in skb->cb. */
#define CONTROL_REMOVE 1	/* cb: op, group, slot; the frame becomes the ACK if the minimum rises */
#define CONTROL_JOIN 2		/* cb: op, group, slot, JOIN_ flags, since */
#define JOIN_AT_BOUNDARY 1
#define JOIN_RECEIVER 2
#define CONTROL_SPEAK 3		/* cb: op, group; the frame goes upstream as it is */
#define CONTROL_VACANT 4	/* cb: op, group; the frame becomes an ACK if nobody counts yet and somebody waits */
#define CONTROL_REPEAT 5	/* cb: op, group; the frame becomes the last ACK or NAK that went upstream, if there was one */

#endif
