/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* What the program of a host that sends path programs shares with its daemon. The Rust types are generated from this header's BTF; padding is named. */
#ifndef CANOPY_STEER_TABLES_H
#define CANOPY_STEER_TABLES_H

#include <linux/bpf.h>
#include "../common/ctx_tc.h"
#include "../common/wire.h"

/* Shares of a destination's packets; a power of two. */
#define STEER_SLOTS 64
/* In `flowlet`: the path id. One word, because an entry may become that of another flow while it is read. */
#define STEER_FLOWLET_ID 0xFFFFFFFFULL
/* Programs at once. Their place in the map is their path id. */
#define STEER_PROGRAMS 16384
/* Twice the destinations that the daemon has: a place is written anew long after the packets that have found it are gone. */
#define STEER_DESTINATIONS 8192
#define STEER_FLOWS 65536
#define STEER_ASKED 4096
/* The outer IPv6 header, and an SRH with three segments. */
#define STEER_HEADER 96
#define STEER_RING_BYTES (64 << 10)
/* Ways that are probed, by their numbers from 1, and probes of each whose times are kept. */
#define STEER_WAYS 4096
#define STEER_RING 64
/* In `back_ns`: a node had marked the probe (CE). */
#define STEER_PROBE_MARKED 1ULL

/* How a packet's slot is found. */
enum steer_mode {
	STEER_PINNED = 0,	/* a flow keeps its slot */
	STEER_FLOWLET = 1,	/* a flow takes another slot after a gap between two of its packets */
	STEER_SPRAY = 2,	/* each packet takes the next slot, if what receives it takes reordering; else as STEER_FLOWLET */
};

struct steer_control {
	struct canopy_net own;		/* prefix of the host: inner sources that its edge takes */
	struct canopy_net block;	/* of uSIDs */
	struct canopy_net hosts;	/* the least prefix that all hosts of the fabric are in */
	__u32 is_on;
	__u32 pad;
};

/* The key of a prefix of destinations: octets, so that it has no padding. */
struct steer_prefix {
	__u32 length;
	__u8 address[16];
};

/* How packets to a destination choose their path. The daemon writes it where it is, while packets read it. */
struct steer_choice {
	__u64 gap_ns;			/* between two flowlets */
	__u32 mode;			/* STEER_ */
	__u32 slots[STEER_SLOTS];	/* path ids */
	__u32 is_pinned;		/* a user has chosen the path: for the next process of the daemon */
};

/* A program under its path id. An entry that a slot names never changes. */
struct steer_program {
	__u32 length;			/* octets of `header` that are in use; 0: none */
	__u32 most;			/* longest inner packet, octets */
	__u32 is_left;			/* no slot names it any more: flowlets on it end */
	__u32 pad;
	__u8 header[STEER_HEADER];	/* IPv6 without traffic class and payload length, then the SRH if there is one */
};

struct steer_traffic {
	__u64 packets;
	__u64 octets;			/* of inner packets */
};

/* A probe of a way; its place is its sequence number modulo STEER_RING. */
struct steer_probe {
	__u64 left_ns;			/* CLOCK_MONOTONIC at the egress; 0: it has not left */
	__u64 back_ns;			/* the same at the ingress, with STEER_PROBE_MARKED in the place of its lowest bit; 0: it has not come back */
	__u32 sequence;
	__u32 is_written;		/* last, and first not: the fields above are those of one probe */
};

/* The last probes of a way. */
struct steer_way {
	struct steer_probe probes[STEER_RING];
};

struct steer_probing {
	struct canopy_addr own;		/* address that probes come from and lead to */
	__u64 secret;			/* octets, compared as one number */
	__u32 is_on;
	__u32 pad;
};

struct steer_flow {
	__u64 last_ns;
	__u64 flowlet;			/* of its present one: STEER_FLOWLET_ID, and the place of its destination above */
};

/* Counters; the index in the map `counters`. */
enum steer_count {
	STEER_ENCAPSULATED,
	STEER_NO_PROGRAM,	/* left without a program, because the slot had none */
	STEER_TOO_BIG,		/* dropped, because they are longer than their path takes */
	STEER_REFUSED,		/* left without a program, because the kernel made no room for the header: tunnels, UDP buffers */
	STEER_FAILED,		/* dropped, because the kernel did not write the header */
	STEER_RING_FULL,	/* destinations that the daemon was not asked for */
	STEER_COUNTERS
};

/* Anchor: BTF has only types that something uses, and the daemon reads the closed sets from BTF. */
struct steer_sets {
	enum steer_mode mode;
	enum steer_count count;
};

const volatile struct steer_sets steer_sets = {};

#define TABLE(NAME, TYPE, KEY, VALUE, MAX, FLAGS, PIN) \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_##TYPE);     \
		__uint(map_flags, FLAGS);              \
		__uint(pinning, PIN);                  \
		__uint(max_entries, MAX);              \
		__type(key, KEY);                      \
		__type(value, VALUE);                  \
	} NAME SEC(".maps")
/* Of this process alone, or for the next one, too. */
#define OWN LIBBPF_PIN_NONE
#define KEPT LIBBPF_PIN_BY_NAME

TABLE(control, ARRAY, __u32, struct steer_control, 1, 0, KEPT);
/* The place in `choices` of what has this prefix. */
TABLE(destinations, LPM_TRIE, struct steer_prefix, __u32, STEER_DESTINATIONS, BPF_F_NO_PREALLOC, KEPT);
TABLE(choices, ARRAY, __u32, struct steer_choice, STEER_DESTINATIONS, BPF_F_MMAPABLE, KEPT);
TABLE(programs, ARRAY, __u32, struct steer_program, STEER_PROGRAMS, BPF_F_MMAPABLE, KEPT);
TABLE(traffic, PERCPU_ARRAY, __u32, struct steer_traffic, STEER_PROGRAMS, 0, KEPT);
TABLE(flows, LRU_HASH, __u64, struct steer_flow, STEER_FLOWS, 0, KEPT);
TABLE(asked, LRU_HASH, struct canopy_addr, __u64, STEER_ASKED, 0, OWN);
TABLE(sprayed, PERCPU_ARRAY, __u32, __u32, 1, 0, OWN);
TABLE(answered, PERCPU_ARRAY, __u32, __u64, 1, 0, OWN);
TABLE(ways, ARRAY, __u32, struct steer_way, STEER_WAYS, BPF_F_MMAPABLE, OWN);
TABLE(probing, ARRAY, __u32, struct steer_probing, 1, 0, OWN);
TABLE(counters, PERCPU_ARRAY, __u32, __u64, STEER_COUNTERS, 0, KEPT);

/* Destinations without an entry, as addresses. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, STEER_RING_BYTES);
} unknown SEC(".maps");

static __always_inline void count(__u32 which)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		++*n;
}

static __always_inline struct steer_control *settings(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

#endif
