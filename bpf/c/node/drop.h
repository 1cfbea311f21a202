/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* One counter per group and drop reason; a drop is counted where it is decided. */
#ifndef CANOPY_DROP_H
#define CANOPY_DROP_H

#include "../common/ctx_tc.h"
#include "maps.h"

static __always_inline int count(void *drops_by, const void *key)
{
	__u64 *n = bpf_map_lookup_elem(drops_by, key);
	__u64 zero = 0;

	if (!n) {
		/* Another processor may make the entry at the same time. */
		bpf_map_update_elem(drops_by, key, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(drops_by, key);
	}
	if (n)
		*n += 1;
	return CTX_DROP;
}

static __noinline int count_drop(__u32 group_id, enum canopy_drop reason)
{
	struct canopy_drop_key key = { .group_id = group_id, .reason = reason };

	return count(&drops, &key);
}

/* Counts a drop at the boundary of the domain at the port on which the packet arrived, or an event of a port that found no room. */
static __noinline int count_port_drop(__u32 ifindex, enum canopy_drop reason)
{
	struct canopy_port_drop_key key = { .ifindex = ifindex, .reason = reason };

	return count(&port_drops, &key);
}

#endif
