/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The only definition of what the node's programs share with the agent: structs, and every closed set as an enum. The Rust types
 * are generated from this header's BTF. Multi-byte fields are in host byte order unless a comment names wire order; padding is
 * named.
 */
#ifndef CANOPY_SHARED_H
#define CANOPY_SHARED_H

#include <linux/bpf.h>
#include "../common/mark.h"
#include "../common/wire.h"

/* Branches of one group at one node; a power of two (the minimum tree has that many leaves). */
#define CANOPY_MAX_BRANCHES 128
/* Outer IPv6 header plus an SRH of at most 2048 bytes. */
#define CANOPY_MAX_OUTER 2088
/* Longest payload, in bytes after the BTH, that the ICRC table covers. */
#define CANOPY_MAX_TAIL 9216
/* TLVs parsed in one SRH. */
#define CANOPY_MAX_TLVS 128
/* Receivers in one End.MT TLV: 22 + 20n <= 255. */
#define CANOPY_TLV_RECEIVERS 11
/* Segments of a group's packets: the Proxy Address and the tree's first SID. */
#define CANOPY_SEGMENTS 2
/* Keys that are accepted at a time: two during a rotation. */
#define CANOPY_HMAC_KEYS 2
/* 64-bit words of an HMAC. */
#define CANOPY_HMAC_WORDS 4
/* A bit for each value that 16 bits have: any of them is within the set. */
#define CANOPY_UN_WORDS 1024
/* Unwrapped PSNs and MSNs start at 2^24, so that subtractions do not underflow. */
#define CANOPY_PSN_TURN (1ULL << 24)

/* Drop reasons: numbers are never reused. Keep the names: they appear in metrics. */
enum canopy_drop {
	DROP_NONE = 0,
	DROP_TRUNCATED = 1,		/* shorter than the lengths in its headers */
	DROP_NO_SRH = 2,		/* to End.MT or a Replication-SID without an SRH, or Segments Left 0 */
	DROP_SRH_MALFORMED = 3,		/* routing type, lengths or Last Entry are inconsistent */
	DROP_TLV_MALFORMED = 4,		/* an SRH TLV does not fit, or its counts are inconsistent */
	DROP_TLV_NONE = 5,		/* no End.MT TLV for this edge and no provisioned list */
	DROP_TLV_UNPROVISIONED = 6,	/* a (receiver, QPN) that the controller did not provision */
	DROP_GROUP_UNKNOWN = 7,		/* no group here has this tree, Proxy Address or Designated QPN */
	DROP_INNER_MALFORMED = 8,	/* inner packet is not RoCEv2 to the group's Proxy Address */
	DROP_SOURCE_UNREGISTERED = 9,	/* data that is not from the group's source QP */
	DROP_WRONG_PORT = 10,		/* arrived on a port other than the planned one */
	DROP_OPCODE_REFUSED = 11,	/* READ, atomics and other opcodes that cannot be multicast */
	DROP_PSN_WINDOW = 12,		/* data PSN further than the window from the highest one */
	DROP_HOP_LIMIT = 13,		/* hop limit exhausted */
	DROP_ECN = 14,			/* outer CE on an inner packet that is not ECN capable (RFC 6040) */
	DROP_NO_NEIGHBOUR = 15,		/* next hop's link-layer address not resolved */
	DROP_NO_ROUTE = 16,		/* the FIB has no route to the next hop through the planned port */
	DROP_MTU = 17,			/* does not fit the output port */
	DROP_NO_ROOM = 18,		/* the kernel refused to grow or shrink the packet */
	DROP_BRANCH_UNKNOWN = 19,	/* feedback from an address that is no current branch */
	DROP_FEEDBACK_MALFORMED = 20,	/* invalid length, opcode or syndrome */
	DROP_FEEDBACK_ICRC = 21,	/* feedback whose ICRC is wrong */
	DROP_FEEDBACK_WINDOW = 22,	/* PSN outside [base - W, high], or before any data */
	DROP_NAK_GHOST = 23,		/* NAK for a PSN that the branch has acknowledged since */
	DROP_NAK_FATAL = 24,		/* not merged: kept as state of the branch */
	DROP_CNP_RATE = 25,		/* CNPs of one branch above their rate limit */
	DROP_WRITE_REFUSED = 26,	/* R_Key or range of an RDMA WRITE is not the group's */
	DROP_STATE_MISSING = 27,	/* the group is configured but its state does not exist yet */
	DROP_BRANCH_INACTIVE = 28,	/* feedback from a branch that is not active yet */
	DROP_EPOCH_OLD = 29,		/* sent by a child node before receivers moved behind it */
	DROP_CNP_TIMER = 30,		/* no longer used: windows have no timer */
	DROP_EPOCH_AHEAD = 31,		/* feedback of a child node with a newer group epoch than this node's */
	DROP_ROLE_MISSING = 32,		/* the program of the packet's role is not loaded */
	DROP_EDGE_FRAME = 33,		/* edge port: neither IPv6 without a VLAN nor with one of VID 0 */
	DROP_EDGE_SOURCE = 34,		/* edge port: source address outside the host's prefix */
	DROP_EDGE_LINK_LOCAL = 35,	/* edge port: link-local or unspecified source, or multicast, that is not neighbour discovery */
	DROP_EDGE_NEIGHBOUR = 36,	/* edge port: neighbour discovery that a host has no right to send */
	DROP_EDGE_SID = 37,		/* edge port: to the SRv6 block, from a host that may not send path programs */
	DROP_EDGE_NODE = 38,		/* edge port: to the node prefix */
	DROP_EDGE_PROXY = 39,		/* edge port: to the Proxy prefix, but not a plain RoCEv2 packet, or to no group of this node */
	DROP_EDGE_TUNNEL = 40,		/* edge port: Routing header, or IP in IPv6 */
	DROP_EDGE_HEADERS = 41,		/* edge port: more than 4 extension headers or 256 octets of them, or truncated ones */
	DROP_FABRIC_SOURCE = 42,	/* to a SID from an address that is not a node's, nor a host's where hosts may send path programs, or not the headend's of the group */
	DROP_OUTSIDE = 43,		/* interface outside the topology: to a prefix of the domain, an error about one of its packets, or with nested VLAN tags of VID 0 */
	DROP_PSN_FLIGHT = 44,		/* headend: first PSN not within the source's flight of the start PSN, or a later one beyond it */
	DROP_EVENT_LOST = 45,		/* no packet: an event of the group or port for which its ring buffer had no room */
	DROP_NOT_OPEN = 46,		/* headend: not every node has confirmed its program of the source's session */
	DROP_EDGE_ICMP_ERROR = 47,	/* edge port: ICMPv6 error about a packet that was not sent to the host, or a fragment of one */
	DROP_EDGE_OWN_ADDRESS = 48,	/* edge port: to an address of the node itself */
	DROP_NO_RECEIVER = 49,		/* headend: data, or an answer to the source, while every receiver joined late and none has answered its probe */
	DROP_EDGE_OTHER_MAC = 50,	/* edge port: frame to another link-layer address than the port's */
	DROP_GSO = 51,			/* buffer of several packets (GSO or GRO), of which each needs its own rewriting */
	DROP_HMAC_MISSING = 53,		/* the group's packets have an HMAC TLV as their last one, and this one does not; 52 is not used */
	DROP_HMAC_KEY = 54,		/* HMAC TLV with a key that is not accepted */
	DROP_HMAC_MISMATCH = 55,	/* the HMAC, or something that it covers, is not what the headend sends */
	DROP_PATH_SID = 56,		/* to a path SID that is none of this node's: the first uSID is neither its uN nor a uA of one of its ports */
	DROP_PATH_NO_LINK = 57,		/* the next uSID names no link: not a uN with exactly one link to it, nor the uA of a port, or a host is behind it */
	DROP_PATH_LINK_DOWN = 58,	/* the link that the next uSID names is down, or its far end is not resolved */
	DROP_PATH_END = 59,		/* the path program ends here, and no IPv6 packet is in it */
	DROP_PATH_INNER = 60,		/* the packet behind a path program is from or to a prefix of the domain, the node itself or a link, or encapsulated again */
	DROP_PATH_MTU = 61,		/* does not fit the link that the next uSID names */
	DROP_FLOW_UNCOUNTED = 62,	/* no packet: one of a flow that the port does not count, because the table of announced flows is full */
	DROP_EDGE_PROGRAM = 63,		/* edge port: a path program of another form than hosts may send, or with something else than IPv6 in it */
	DROP_EDGE_PROGRAM_END = 64,	/* edge port: a path program that does not end at the node that the inner destination is behind */
	DROP_REASONS
};

/* Where a port leads. An interface without an entry in `ports` is outside the domain. */
enum canopy_port_kind {
	PORT_FABRIC = 1,		/* to another node */
	PORT_EDGE = 2,			/* to a host */
};

/* A port of the topology. */
struct canopy_port {
	__u32 kind;			/* PORT_ */
	__u32 programs;			/* edge: the host may send path programs */
	struct canopy_net host;		/* edge: the host's prefix */
	struct canopy_addr link_local;	/* edge: the node's own address on the port.. */
	struct canopy_addr gateway;	/* ..and the one that it answers for */
};

/* A packet that was dropped at the boundary of the domain. */
struct canopy_port_drop_key {
	__u32 ifindex;
	__u32 reason;			/* DROP_ */
};

/* Programs that dispatch or a role continues with; index in the map `roles`. */
enum canopy_role {
	ROLE_HEADEND = 0,		/* packet of a source: decides about it, then forwards */
	ROLE_REPLICATE = 1,		/* packet to a Replication-SID: the same */
	ROLE_END_MT = 2,		/* packet to the End.MT SID: the same */
	ROLE_FORWARD = 3,		/* accounts for a decided packet and sends its copies */
	ROLE_FEEDBACK = 4,		/* ACK, NAK or CNP of a branch */
	ROLE_PATH = 5,			/* packet to a path SID: carries out what its program has for this node */
	ROLES
};

/* Configuration that does not depend on groups; one entry. */
struct canopy_node {
	struct canopy_addr address;	/* node address: destination of feedback from child nodes */
	struct canopy_addr end_mt;	/* End.MT SID */
	__u64 replicate_hi;		/* first 64 bits of every Replication-SID, wire order */
	/* Prefixes of the SRv6 domain. */
	struct canopy_net block;	/* SIDs */
	struct canopy_net nodes;	/* node addresses */
	struct canopy_net proxies;	/* Proxy Addresses */
	struct canopy_net multicast;	/* groups that nodes forward as native IPv6 multicast */
	__u32 warm;			/* every group of a spec was applied since these maps exist; before that, the state of any may be lost */
	__u32 usid;			/* uN: its 16 bits in an address */
	__u32 program_nodes;		/* uNs of a path program of a host, at most; 0 = no host of the domain may send any */
	__u32 pad;
};

/* A set of uNs. */
struct canopy_uns {
	__u64 word[CANOPY_UN_WORDS];	/* bit N % 64 of word N / 64: the uN N */
};

/* Links of a host, at most. */
#define CANOPY_HOST_LINKS 8

/* The uNs of the nodes that a host is behind; 0 behind the last one. */
struct canopy_ends {
	__u16 un[CANOPY_HOST_LINKS];
};

/* A prefix, as a key of a trie. */
struct canopy_prefix {
	__u32 length;
	__u32 address[4];		/* in wire order */
};

/* A link that path programs lead over: by the uA of its port, and by the uN of the node behind it if no other link leads there. */
struct canopy_path_link {
	__u32 ifindex;
	__u32 kind;			/* PORT_ */
	struct canopy_addr next_hop;	/* fabric: the uA as a local SID; its route in the kernel leads over this link and no other */
};

/* What became of a packet to a path SID that was not dropped. */
enum canopy_path_action {
	PATH_FORWARDED = 1,		/* over the link that its next uSID names */
	PATH_ENDED = 2,			/* its program ended here: the inner packet was forwarded */
};

/* Packets to path SIDs, by the port on which they arrived. */
struct canopy_path_key {
	__u32 ifindex;
	__u32 action;			/* PATH_ */
};

/* Bits of canopy_group.flags. */
enum canopy_group_flag {
	GROUP_HEADEND = 1,		/* this node encapsulates the source's packets */
	GROUP_PROVISIONED = 2,		/* End.MT without a TLV delivers to all receivers here */
	GROUP_CLOSED = 8,		/* headend: data of the source is dropped */
	GROUP_HELD = 16,		/* headend: no receiver gets data: that of the source is dropped for now, and the source gets no answer */
	GROUP_MULTICAST = 4,		/* the kernel's IPv6 multicast routes replicate to child nodes */
	GROUP_HMAC = 32,		/* encapsulated packets are compared with the group's entry in `hmacs` */
};

/* A set of branch slots. */
struct canopy_slots {
	__u64 word[CANOPY_MAX_BRANCHES / 64];
};

/* Configuration of a group at this node. */
struct canopy_group {
	__u32 group_id;
	__u32 epoch;
	__u32 flags;
	__u32 dqpn;			/* Designated QPN */
	struct canopy_addr proxy;
	struct canopy_addr source;
	__u32 source_ifindex;		/* headend: port to the source host */
	__u32 up_ifindex;		/* port to the parent node, or to the source */
	__u32 alternate_ifindex;	/* alternate upstream: port to the node that becomes the parent; 0 = none */
	__u32 pad;
	struct canopy_addr headend;	/* node address: outer source of the group's packets; unspecified = any node's */
	struct canopy_addr up_sa;
	struct canopy_addr up_da;
	__u32 up_qpn;
	__u32 source_qpn;		/* a change of source address or QPN resets the group's state */
	__u32 up_sport;			/* UDP source port upstream; between nodes its low 14 bits are the epoch */
	__u32 ack_seed;			/* CRC register after the bytes of an upstream ACK before AckReq|PSN */
	__u64 start;			/* unwrapped start PSN */
	struct canopy_slots children;
	struct canopy_slots receivers;
	struct canopy_slots standby;	/* child nodes that get copies but are not counted in the minimum yet */
	__u64 branches;			/* digest of the group and its branches: written after them, and different if one of them is */
	__u64 write_base;
	__u64 write_length;		/* size of the smallest memory region of the receivers here */
	__u32 write_rkey;
	__u32 window;
	__u32 flight;			/* headend: packets that the source has in flight at most; 0 = not the headend */
	__u32 cnp_icrc;			/* ICRC of an upstream CNP, in wire order */
	__u64 reack_ns;
	__u64 nak_merge_ns;
	__u64 cnp_window_ns;
	__u64 cnp_min_ns;
};

/* The group of a Proxy Address, and the source, whose packets are data: everybody else's are feedback. */
struct canopy_proxy {
	__u32 group_id;
	__u32 pad;
	struct canopy_addr source;
};

/* Outer IPv6 header and SRH of the headend, complete except for payload length and traffic class. */
struct canopy_outer {
	__u32 len;
	__u32 pad;
	__u8 bytes[CANOPY_MAX_OUTER];
};

/* The HMAC of a group's packets with one key. */
struct canopy_hmac_key {
	__be32 id;			/* 0 = none */
	__u32 flags;			/* of the SRH */
	__u64 hmac[CANOPY_HMAC_WORDS];	/* in wire order */
};

/* What the HMAC TLV of a group's packets covers and is, at every node that gets such packets. */
struct canopy_hmac {
	struct canopy_addr source;	/* node address of the headend */
	struct canopy_addr segments[CANOPY_SEGMENTS];	/* in the order of the wire */
	struct canopy_hmac_key keys[CANOPY_HMAC_KEYS];
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

/* The branch of a feedback sender, and the port on which its feedback must arrive. */
struct canopy_peer {
	__u32 slot;
	__u32 ifindex;
};

/* A receiver in the kernel's neighbour table. */
struct canopy_neighbour {
	__u8 mac[6];
	__u16 pad;
	__u64 reported_ns;		/* CLOCK_MONOTONIC: last EVENT_OTHER_MAC; 0 = none. Written by the program */
};

enum canopy_branch_kind {
	BRANCH_NODE = 1,
	BRANCH_RECEIVER = 2,
};

/* Configuration of a branch. */
struct canopy_branch {
	__u32 kind;
	__u32 ifindex;
	struct canopy_addr address;	/* node address of the child, or the receiver: looked up in the FIB */
	struct canopy_addr dst;		/* destination of the copy: SID of the child, or the receiver */
	__u32 qpn;			/* of the receiver */
	__u32 icrc_delta;		/* difference of the CRC register after the BTH that the rewrite causes */
	__u64 va;
	__u64 length;			/* 0 = no memory region registered */
	__u32 rkey;
	__u32 pad;
};

/* Counters of a branch. */
struct canopy_branch_stats {
	__u64 packets;
	__u64 bytes;
	__u64 last_received_ns;		/* last accepted feedback, CLOCK_MONOTONIC; 0 = none */
	__u64 completed_min;		/* PSNs by which its feedback raised a known minimum: all other branches had acknowledged them. Changed under the lock */
};

/*
 * A node of the minimum tree. key = next PSN << 6 | kind: one comparison finds the lowest next PSN
 * and, among equal ones, the highest priority: kind 0..31 RNR NAK with the longest timer first,
 * 62 PSN sequence NAK at the next PSN, 63 no NAK outstanding. The MSN is unwrapped like a PSN.
 * An empty leaf is all ones.
 */
struct canopy_min {
	__u64 key;
	__u64 msn;
	__u64 credits;
};

/* Low bits of canopy_min.key. */
enum canopy_min_kind {
	KIND_NAK = 62,
	KIND_NONE = 63,
	KIND_BITS = 6,
};

#define KEY_EMPTY (~0ULL)

/* In canopy_state.shift, above the 24 bits of a PSN: the branch started here, so the agent reports from where. */
#define SHIFT_STARTED (1u << 31)

/* In canopy_state.nak_received_ns of a probing branch: see JOIN_LOST. */
#define PROBE_LOST 1
/* Its queue pair answered again, and not as a fresh one, longer than PROBE_FRESH_NS after it first did. */
#define PROBE_STALE 2

/* The key in `states` of the state that CONTROL_CARRY merges; no group has this identifier. */
#define CANOPY_CARRIED 0

/* Aggregation state of a group; kept while the agent restarts. */
struct canopy_state {
	struct bpf_spin_lock lock;
	__u32 carrying;			/* programs of another layout forwarded until now; CONTROL_CARRY ends it */
	__u32 lost;			/* the node lost the state of a session that may be open: it does not know whether its first packet was the session's */
	__u32 pad;
	__u64 high;			/* highest data PSN forwarded + 1; 0 = no data yet */
	__u64 sent_next;		/* next PSN last reported upstream; 0 = report the minimum once it is known */
	__u64 nak_key;			/* last NAK sent upstream, as a key of the minimum tree */
	__u64 nak_ns;			/* when it was sent; 0 = the retransmission has been forwarded since */
	__u64 reack_ns;			/* when the last repeated ACK was sent upstream */
	__u64 retx_from;		/* first PSN of the last go-back-N retransmission */
	__u64 retx_ns;			/* when it started */
	__u64 position;			/* PSN of the last forwarded data packet + 1 */
	__u64 acks_in, acks_out, naks_in, naks_out;
	__u64 data_packets, data_bytes;
	__u64 fresh_packets;		/* those that raised `high`: what this leaves of a rise of `high` was lost on the way here */
	struct canopy_slots active;	/* branches that get copies and count in the minimum */
	struct canopy_slots pending;	/* branches that become active at the next message start */
	struct canopy_slots probing;	/* late receivers whose queue pair has not answered a probe as a fresh one does: no branch yet */
	struct canopy_slots unconfirmed;	/* branches whose next PSN is unknown: they block upstream feedback; active ones, and probing ones whose start is lost */
	struct canopy_slots late;	/* activated last: they get no retransmission of PSNs below late_from */
	__u64 late_from;
	__u64 msn_sent;			/* last MSN sent upstream; 0 = none */
	__u64 pending_checked_at;	/* data_packets at the last CONTROL_PENDING_ONLY */
	__u64 repeat_checked_at;	/* acks_out + naks_out + data_packets at the last CONTROL_REPEAT */
	struct canopy_slots receivers;	/* branches that are receivers; the others are child nodes */
	__u32 since[CANOPY_MAX_BRANCHES];	/* epoch in which the branch joined, or in which receivers moved behind it */
	__u32 shift[CANOPY_MAX_BRANCHES];	/* late receiver: subtracted from PSNs, its QP expects the start PSN first; | SHIFT_STARTED */
	__u32 msn_base[CANOPY_MAX_BRANCHES];	/* messages completed before a late branch became active */
	__u32 fatal[CANOPY_MAX_BRANCHES];	/* first fatal NAK of a receiver: AETH syndrome << 24 | PSN; 0 = none */
	__u64 nak_received_ns[CANOPY_MAX_BRANCHES];	/* of a probing one: when it first answered as a queue pair that is not fresh, PROBE_STALE or PROBE_LOST */
	struct canopy_min tree[2 * CANOPY_MAX_BRANCHES];
	struct canopy_branch_stats stats[CANOPY_MAX_BRANCHES];	/* all but completed_min changed without the lock; zero where no branch is */
};

/* CNPs of one group within the window T. */
struct canopy_cnp {
	__u64 window;			/* number of the window; the count of a slot is valid in one window only */
	__u64 ends_ns;			/* from then on the open window has ended: its CNP goes upstream with the next one that arrives */
	__u32 running;
	__u32 best_count;
	__u32 best_slot;
	__u32 pad;
	__u64 cnps_in, cnps_out;
	__u64 slot_window[CANOPY_MAX_BRANCHES];
	__u64 slot_last_ns[CANOPY_MAX_BRANCHES];
	__u32 slot_count[CANOPY_MAX_BRANCHES];
};

/* What of a group's state shows that it changed, for the agent's samples; the two counters of CNPs are those of canopy_cnp. */
struct canopy_summary {
	__u32 group_id;
	__u32 epoch;			/* of the group's configuration */
	__u64 counted;			/* sum of the state's counters: it rises with every packet that changes the state, but for fatal NAKs */
	__u64 high;
	__u64 minimum;			/* key of the root of the minimum tree */
	__u32 waits;			/* a branch waits for a probe's answer or for a message, or another layout carries the group: the state may change without them */
	__u32 fatal;			/* sum of the first fatal NAKs of the branches */
};

struct canopy_drop_key {
	__u32 group_id;			/* 0 = no group */
	__u32 reason;
};

enum canopy_event_kind {
	EVENT_CNP = 1,			/* a CNP window opened, and none was open: the agent sends its CNP if no other CNP arrives after its end */
	EVENT_FIRST_DATA = 3,		/* headend: first data packet of the group; 2 is not used again */
	EVENT_OTHER_MAC = 4,		/* feedback of the receiver in `slot` from another link-layer address than its neighbour entry has */
};

/* Ring buffer event: the agent sends a packet or reports an event for it. */
struct canopy_event {
	__u64 time_ns;			/* CLOCK_MONOTONIC */
	__u32 kind;
	__u32 group_id;
	__u32 slot;
	__u32 value;			/* EVENT_FIRST_DATA: PSN */
};

/* Operations of the control program; parameters are in skb->cb. */
enum canopy_control {
	CONTROL_REMOVE = 1,		/* cb: op, group, slot; the frame becomes an ACK or NAK if the minimum rises */
	CONTROL_JOIN = 2,		/* cb: op, group, slot | msn_base << 8, JOIN_ flags | shift << 8, since */
	CONTROL_PENDING_ONLY = 4,	/* cb: op, group; the frame becomes an ACK if data was forwarded and all branches are pending */
	CONTROL_REPEAT = 5,		/* cb: op, group; the frame becomes the last ACK or NAK sent upstream, if neither feedback nor data passed since the last CONTROL_REPEAT */
	CONTROL_CARRY = 6,		/* cb: op, group, slot, last; merges one branch of the state in CANOPY_CARRIED, and with `last` its counters */
	CONTROL_CARRIED = 7,		/* cb: op, group; all branches are merged: the frame becomes the last ACK or NAK */
	CONTROL_CNP = 8,		/* cb: op, group; the frame becomes the CNP of an open window that has ended */
};

enum canopy_join_flag {
	JOIN_AT_BOUNDARY = 1,
	JOIN_RECEIVER = 2,
	JOIN_LOST = 4,			/* with both: it may have started here, but where is lost: it has to leave and join again */
	JOIN_FLAGS = 8,			/* bits of the flags; above them the shift of a receiver that joined late and whose edge lost it */
};

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
};

/* Thresholds of a port's queue; the packets of a port without an entry are not marked. */
struct canopy_limits {
	__u64 k_min;			/* octets: above it, packets are marked CE and the agent is woken */
	__u64 rtt_ns;			/* RTT_est: the agent is woken at most once in this time */
};

enum canopy_depth_source {
	DEPTH_SAMPLED = 0,
	DEPTH_KERNEL = 1,
};

/* Counters of a port, per processor, and its queue at the last data packet on that processor. */
struct canopy_port_stats {
	__u64 packets;			/* data packets */
	__u64 bytes;
	__u64 marked;			/* marked CE by this node */
	__u64 ce;			/* sent with CE, marked by this node or upstream */
	__u64 not_ect;			/* above K_min but not ECN capable */
	__u64 depth;			/* octets */
	__u64 seen_ns;			/* CLOCK_MONOTONIC_COARSE */
	__u64 woken_ns;			/* last event on this processor */
	__u32 source;			/* DEPTH_ */
	__u32 pad;
};

/* Event: a data packet met a queue above K_min. */
struct canopy_congested {
	__u64 time_ns;			/* CLOCK_MONOTONIC */
	__u64 depth;			/* octets */
	__u32 ifindex;
	__u32 pad;
};

/* Attribute identifiers of ConnectRequest and ConnectReply. */
enum canopy_cm_kind {
	CM_REQUEST = 0x10,
	CM_REPLY = 0x13,
};

/* Event: an RDMA-CM message with a QPN. */
struct canopy_cm {
	struct canopy_addr src;		/* sender of the message: the QP is its own */
	struct canopy_addr dst;
	__u32 kind;			/* CM_ */
	__u32 id;			/* communication identifier of the requester */
	__u32 qpn;
	__u32 pad;
};

/* Octets from the start of a frame that a capture has at most. */
#define CANOPY_CAPTURE_HEAD 192
/* Octets of the innermost headers: IPv6, UDP and BTH. */
#define CANOPY_CAPTURE_INNER 60

enum canopy_capture_direction {
	CAPTURE_IN = 1,			/* as it arrived, before the node changed it */
	CAPTURE_OUT = 2,		/* a copy, as it leaves */
};

/* One packet of a group that is captured, at arrival and per copy; one entry, and nothing is armed while its group is 0. */
struct canopy_capture {
	__u32 group_id;			/* 0 while the rest is written */
	__u32 id;			/* names the capture; not 0 */
	__u32 psn;			/* as the source sent it */
	__u32 dqpn;
	struct canopy_addr proxy;
	__u32 flags;			/* GROUP_ */
	__u32 pad;
	__u32 taken;			/* the packet arrived: a retransmission is not captured. Written by the program */
	__u32 lost;			/* frames for which the ring buffer had no room. Written by the program */
};

/*
 * Event: the headers of a captured frame. They end with the BTH: neither the payload nor what is next to it, a RETH with its R_Key, is
 * ever read. The innermost headers are there on their own because long SRHs push them behind the first octets.
 */
struct canopy_captured {
	__u64 time_ns;			/* CLOCK_MONOTONIC */
	__u32 id;			/* of the capture */
	__u32 direction;		/* CAPTURE_ */
	__u32 ifindex;
	__u32 length;			/* of the whole frame */
	__u32 inner_at;			/* where the innermost IPv6 header is in the frame */
	__u32 head_len;			/* valid octets of `head` */
	__u8 head[CANOPY_CAPTURE_HEAD];
	__u8 inner[CANOPY_CAPTURE_INNER];
	__u32 pad;
};

/* Anchor: BTF has only types that something uses, and the agent reads the closed sets from BTF. */
struct canopy_sets {
	enum canopy_drop drop;
	enum canopy_role role;
	enum canopy_port_kind port_kind;
	enum canopy_mark mark;
	enum canopy_path_action path_action;
	enum canopy_group_flag group_flag;
	enum canopy_branch_kind branch_kind;
	enum canopy_min_kind min_kind;
	enum canopy_event_kind event_kind;
	enum canopy_control control;
	enum canopy_join_flag join_flag;
	enum canopy_depth_source depth_source;
	enum canopy_cm_kind cm_kind;
	enum canopy_capture_direction capture_direction;
};

const volatile struct canopy_sets canopy_sets = {};

#endif
