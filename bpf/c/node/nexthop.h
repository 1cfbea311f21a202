/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Next hops in the kernel's FIB and neighbour table, and those that a processor keeps for a while. */
#ifndef CANOPY_NEXTHOP_H
#define CANOPY_NEXTHOP_H

#include "../common/ctx_tc.h"
#include "maps.h"
#include "shared.h"

#define FAMILY_INET6 10
/* A processor uses a next hop for so long: a change in the kernel's route and neighbour tables is noticed at the latest then. */
#define NEXT_HOP_NS 1000000

/* Link-layer addresses of a frame. */
struct macs {
	__u8 dst[6];
	__u8 src[6];
};

/* A next hop as the kernel's tables have it. */
struct hop {
	struct macs macs;
	__u32 mtu;			/* of its route */
};

/*
 * Fills `hop` for `next_hop` on `ifindex`. Returns 0 or a drop reason. `next_hop` is a global address: the
 * kernel's lookup refuses link-local ones, and resolves the link-local gateway of the route itself. A global function: the verifier
 * checks it once, and not at every call.
 */
__noinline __u32 canopy_resolve(struct __sk_buff *ctx, __u32 ifindex, const struct canopy_addr *next_hop, __u32 l3_len,
				struct hop *hop)
{
	struct bpf_fib_lookup fib = {};
	long rc;

	if (!next_hop || !hop)
		return DROP_NO_ROUTE;
	fib.family = FAMILY_INET6;
	fib.ifindex = ifindex;
	fib.tot_len = l3_len;
	__builtin_memcpy(fib.ipv6_dst, next_hop, 16);
	rc = bpf_fib_lookup(ctx, &fib, sizeof(fib), BPF_FIB_LOOKUP_OUTPUT);
	if (rc == BPF_FIB_LKUP_RET_NO_NEIGH)
		return DROP_NO_NEIGHBOUR;
	if (rc == BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return DROP_MTU;
	if (rc != BPF_FIB_LKUP_RET_SUCCESS || fib.ifindex != ifindex)
		return DROP_NO_ROUTE;
	__builtin_memcpy(hop->macs.dst, fib.dmac, sizeof(hop->macs.dst));
	__builtin_memcpy(hop->macs.src, fib.smac, sizeof(hop->macs.src));
	hop->mtu = fib.mtu_result;
	return 0;
}

/* A next hop as this processor found it last. */
struct known_hop {
	struct hop hop;
	__u32 ifindex;
	struct canopy_addr address;
	__u64 until_ns;			/* CLOCK_MONOTONIC; the fields above are valid until then */
};

/* As canopy_resolve(), from `known` as long as that is valid at `now`. */
static __always_inline __u32 resolve_known(canopy_ctx *ctx, struct known_hop *known, __u64 now, __u32 ifindex,
					   const struct canopy_addr *next_hop, __u32 l3_len, struct hop *hop)
{
	if (now >= known->until_ns || known->ifindex != ifindex || !addr_eq(&known->address, next_hop)) {
		__u32 drop;

		known->until_ns = 0;
		drop = canopy_resolve(ctx, ifindex, next_hop, l3_len, &known->hop);
		if (drop)
			return drop;
		known->ifindex = ifindex;
		known->address = *next_hop;
		known->until_ns = now + NEXT_HOP_NS;
	}
	*hop = known->hop;
	return l3_len > hop->mtu ? DROP_MTU : 0;
}

/* Whether the kernel's route to an address, for packets of the node itself, leads through a port of the topology. */
static __always_inline bool leads_through_port(canopy_ctx *ctx, const struct canopy_addr *to)
{
	struct bpf_fib_lookup fib = { .family = FAMILY_INET6, .ifindex = ctx_port(ctx) };
	__u32 ifindex;
	long rc;

	__builtin_memcpy(fib.ipv6_dst, to, sizeof(*to));
	rc = bpf_fib_lookup(ctx, &fib, sizeof(fib), BPF_FIB_LOOKUP_OUTPUT);
	if (rc != BPF_FIB_LKUP_RET_SUCCESS && rc != BPF_FIB_LKUP_RET_NO_NEIGH && rc != BPF_FIB_LKUP_RET_FRAG_NEEDED)
		return false;
	ifindex = fib.ifindex;
	return bpf_map_lookup_elem(&ports, &ifindex);
}

#endif
