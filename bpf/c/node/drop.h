/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* One counter per group and drop reason; a drop is counted where it is decided. */
#ifndef CANOPY_DROP_H
#define CANOPY_DROP_H

#include "../common/ctx_tc.h"
#include "maps.h"

static __noinline int count_drop(__u32 group_id, enum canopy_drop reason)
{
	struct canopy_drop_key key = { .group_id = group_id, .reason = reason };
	__u64 *n = bpf_map_lookup_elem(&drops, &key);

	if (n) {
		*n += 1;
	} else {
		__u64 one = 1;

		bpf_map_update_elem(&drops, &key, &one, BPF_NOEXIST);
	}
	return CTX_DROP;
}

#endif
