/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Role: End.MT (draft-li section 6, S01..S15). The next segment is the Proxy Address, which identifies the group. */
#ifndef CANOPY_END_MT_H
#define CANOPY_END_MT_H

#include "encapsulated.h"

/* Decisions 2.3: with multicast replication the outer DA is the multicast address of the group, otherwise it is unicast. */
static __always_inline bool addressed_as_planned(const struct canopy_group *g, const struct canopy_addr *dst)
{
	const __u32 *id;

	if (!addr_is_multicast(dst))
		return !(g->flags & GROUP_MULTICAST);
	id = bpf_map_lookup_elem(&multicasts, dst);
	return g->flags & GROUP_MULTICAST && id && *id == g->group_id;
}

SEC("tc")
int canopy_end_mt(struct __sk_buff *skb)
{
	const struct canopy_group *g;
	struct canopy_proxy *known;
	struct canopy_addr proxy;
	struct outer outer;
	__u32 drop = read_outer(skb, &outer);

	if (drop)
		return count_drop(0, drop);
	if (ctx_load(skb, ETH_LEN + IP6_LEN + sizeof(outer.srh) + (outer.srh.segments_left - 1) * 16, &proxy, sizeof(proxy)))
		return count_drop(0, DROP_TRUNCATED);
	known = bpf_map_lookup_elem(&proxies, &proxy);
	g = known ? bpf_map_lookup_elem(&groups, &known->group_id) : NULL;
	if (!g || !addressed_as_planned(g, &outer.ip6.dst))
		return count_drop(0, DROP_GROUP_UNKNOWN);
	return decide_encapsulated(skb, g, &outer);
}

#endif
