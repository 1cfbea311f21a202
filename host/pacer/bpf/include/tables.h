/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Maps shared by the programs and the daemon. The daemon checks their sizes when it loads them; padding fields are named. */
#ifndef CANOPY_PACER_TABLES_H
#define CANOPY_PACER_TABLES_H

#define MAX_FLOWS 16384
#define MAX_QPS 65536
#define MAX_SENDERS (MAX_QPS + 4096)
#define NOTICE_DATA 256
#define RING_BYTES (1 << 20)

enum { PACE_NOT, PACE_EDT, PACE_HTB };

/* A peer and a QP number: DestQP of a flow, or the local QP that an answer is for. */
struct flow_key {
	__u8 peer[16];
	__u32 qpn;
};

struct control {
	__u64 alive_until_ns;	/* past it no packet is paced: the daemon has ended */
	__u64 limit_known;	/* notifications per second from senders in `senders` */
	__u64 limit_unknown;	/* and from all others together */
	__u32 mode;
	__u32 pad;
};

struct pace {
	__u64 octets_per_s;
	__u64 pause_until_ns;
	__u32 class_id;		/* HTB: major and minor */
	__u32 pad;
};

struct flow {
	__u64 octets;
	__u64 packets;
	__u64 first_ns;
	__u64 last_ns;
	__u64 next_ns;		/* EDT: when the next packet may leave */
	__u64 probe_ns;		/* when probe_psn left; 0: no packet is timed */
	__u32 probe_psn;
	__u32 pad;
};

struct answers {
	__u64 first_ns;
	__u64 last_ns;
	__u64 window_ns;	/* since when `least_ns` is the least RTT */
	__u64 least_ns;
	__u64 before_ns;	/* the least of the window before; 0: none */
};

/* The flow that the answers for a local QP belong to. */
struct binding {
	__u64 since_ns;		/* only packets that left later give an RTT */
	__u32 dest_qpn;
	__u32 pad;
};

struct window {
	__u64 since_ns;
	__u64 count;
};

struct notice {
	__u64 time_ns;
	__u32 length;		/* of the packet, from its IPv6 header on */
	__u32 captured;
	__u8 data[NOTICE_DATA];
};

enum {
	COUNT_ICMPV6,
	COUNT_ROCE,
	COUNT_RING_FULL,
	COUNT_LIMITED,
	COUNT_PACED_PACKETS,
	COUNT_PACED_OCTETS,
	COUNT_CLAMPED,
	COUNTERS
};

#define TABLE(NAME, TYPE, KEY, VALUE, MAX, FLAGS)   \
	struct {                                    \
		__uint(type, BPF_MAP_TYPE_##TYPE);  \
		__uint(map_flags, FLAGS);           \
		__uint(max_entries, MAX);           \
		__type(key, KEY);                   \
		__type(value, VALUE);               \
	} NAME SEC(".maps")

struct address {
	__u8 octets[16];
};

TABLE(control, ARRAY, __u32, struct control, 1, 0);
TABLE(pace_of, HASH, struct flow_key, struct pace, MAX_QPS, BPF_F_NO_PREALLOC);
TABLE(flows, LRU_HASH, struct flow_key, struct flow, MAX_FLOWS, 0);
TABLE(answers, LRU_HASH, struct flow_key, struct answers, MAX_FLOWS, 0);
TABLE(bound, HASH, struct flow_key, struct binding, MAX_QPS, BPF_F_NO_PREALLOC);
TABLE(senders, HASH, struct address, __u32, MAX_SENDERS, BPF_F_NO_PREALLOC);
TABLE(windows, ARRAY, __u32, struct window, 2, 0);
TABLE(counters, PERCPU_ARRAY, __u32, __u64, COUNTERS, 0);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} notices SEC(".maps");

static __always_inline void count(__u32 which, __u64 by)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		*n += by;
}

static __always_inline struct control *settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

#endif
