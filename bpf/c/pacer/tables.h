/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What the pacer's programs share with its daemon. The Rust types are generated from this header's BTF; padding is named. */
#ifndef CANOPY_PACER_TABLES_H
#define CANOPY_PACER_TABLES_H

#include <linux/bpf.h>
#include "../common/wire.h"

#define MAX_FLOWS 16384
#define MAX_QPS 65536
#define MAX_SENDERS (MAX_QPS + 4096)
/* A power of two. */
#define NOTICE_DATA 256
#define RING_BYTES (1 << 20)

/* How packets are paced. */
enum pacer_mode {
	PACE_NOT = 0,
	PACE_EDT = 1,
	PACE_HTB = 2,
};

/* A peer and a QP number: DestQP of a flow, or the local QP that an answer is for. */
struct pacer_key {
	struct canopy_addr peer;
	__u32 qpn;
	__u32 pad;
};

struct pacer_control {
	__u64 alive_until_ns;	/* past it no packet is paced: the daemon has ended */
	__u64 limit_known;	/* notifications per second from senders in `senders` */
	__u64 limit_unknown;	/* and from all others together */
	__u32 mode;		/* PACE_ */
	__u32 pad;
};

struct pacer_pace {
	__u64 octets_per_s;
	__u64 pause_until_ns;
	__u32 class_id;		/* HTB: major and minor */
	__u32 pad;
};

struct pacer_flow {
	__u64 octets;
	__u64 packets;
	__u64 first_ns;
	__u64 last_ns;
	__u64 next_ns;		/* EDT: when the next packet may leave */
	__u64 probe_ns;		/* when probe_psn left; 0: no packet is timed */
	__u32 probe_psn;
	__u32 pad;
};

struct pacer_answers {
	__u64 first_ns;
	__u64 last_ns;
	__u64 window_ns;	/* since when `least_ns` is the least RTT */
	__u64 least_ns;
	__u64 before_ns;	/* the least of the window before; 0: none */
};

/* The flow that the answers for a local QP belong to. */
struct pacer_binding {
	__u64 since_ns;		/* only packets that left later give an RTT */
	__u32 dest_qpn;
	__u32 pad;
};

struct pacer_window {
	__u64 since_ns;
	__u64 count;
};

struct pacer_notice {
	__u64 time_ns;
	__u32 length;		/* of the packet, from its IPv6 header on */
	__u32 captured;
	__u8 data[NOTICE_DATA];
};

/* Counters; the index in the map `counters`. */
enum pacer_count {
	COUNT_ICMPV6,		/* Long-haul CNPs in ICMPv6 */
	COUNT_ROCE,		/* CNPs */
	COUNT_RING_FULL,
	COUNT_LIMITED,
	COUNT_PACED_PACKETS,
	COUNT_PACED_OCTETS,
	COUNT_CLAMPED,
	COUNTERS
};

/* Anchor: BTF has only types that something uses, and the daemon reads the closed sets from BTF. */
struct pacer_sets {
	enum pacer_mode mode;
	enum pacer_count count;
	struct pacer_notice notice[0];
};

const volatile struct pacer_sets pacer_sets = {};

#define TABLE(NAME, TYPE, KEY, VALUE, MAX, FLAGS)   \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_##TYPE);  \
		__uint(map_flags, FLAGS);           \
		__uint(max_entries, MAX);           \
		__type(key, KEY);                   \
		__type(value, VALUE);               \
	} NAME SEC(".maps")

TABLE(control, ARRAY, __u32, struct pacer_control, 1, 0);
TABLE(pace_of, HASH, struct pacer_key, struct pacer_pace, MAX_QPS, BPF_F_NO_PREALLOC);
TABLE(flows, LRU_HASH, struct pacer_key, struct pacer_flow, MAX_FLOWS, 0);
TABLE(answers, LRU_HASH, struct pacer_key, struct pacer_answers, MAX_FLOWS, 0);
TABLE(bound, HASH, struct pacer_key, struct pacer_binding, MAX_QPS, BPF_F_NO_PREALLOC);
TABLE(senders, HASH, struct canopy_addr, __u32, MAX_SENDERS, BPF_F_NO_PREALLOC);
TABLE(windows, ARRAY, __u32, struct pacer_window, 2, 0);
TABLE(counters, PERCPU_ARRAY, __u32, __u64, COUNTERS, 0);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} notices SEC(".maps");

#define SECOND_NS 1000000000ULL

static __always_inline void count(__u32 which, __u64 by)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		*n += by;
}

static __always_inline struct pacer_control *settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

#endif
