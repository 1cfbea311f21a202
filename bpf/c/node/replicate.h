/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Role: RFC 9524 End.Replicate. */
#ifndef CANOPY_REPLICATE_H
#define CANOPY_REPLICATE_H

#include "encapsulated.h"

SEC("tc")
int canopy_replicate(struct __sk_buff *skb)
{
	const struct canopy_group *g = entered_for(skb);
	struct outer outer;
	__u32 drop;

	if (!g)
		return count_drop(0, DROP_GROUP_UNKNOWN);
	drop = read_outer(skb, &outer);
	if (drop)
		return count_drop(g->group_id, drop);
	return decide_encapsulated(skb, g, &outer);
}

#endif
