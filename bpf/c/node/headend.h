/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Role: a packet of the source (decisions 2.1), accepted on the port of the source only. */
#ifndef CANOPY_HEADEND_H
#define CANOPY_HEADEND_H

#include "decide.h"

SEC("tc")
int canopy_headend(struct __sk_buff *skb)
{
	const struct canopy_group *g = entered_for(skb);
	struct decision *d;
	__u32 drop;

	if (!g)
		return count_drop(0, DROP_GROUP_UNKNOWN);
	if (!(g->flags & GROUP_HEADEND))
		return count_drop(g->group_id, DROP_SOURCE_UNREGISTERED);
	if (g->source_ifindex != ctx_port(skb))
		return count_drop(g->group_id, DROP_WRONG_PORT);
	/* Decisions 3.13: who joins before the first packet passes gets that packet. */
	if (g->flags & GROUP_CLOSED)
		return count_drop(g->group_id, DROP_NOT_OPEN);
	if (g->flags & GROUP_HELD)
		return count_drop(g->group_id, DROP_NO_RECEIVER);
	d = decision_of(g);
	if (!d)
		return count_drop(g->group_id, DROP_STATE_MISSING);
	drop = canopy_read_inner(skb, d, ETH_LEN);
	if (drop)
		return count_drop(g->group_id, drop);
	if (slots_any(&g->receivers) && !write_allowed(d, g))
		return count_drop(g->group_id, DROP_WRITE_REFUSED);
	d->l3_len = IP6_LEN + bpf_ntohs(d->head.ip6.payload_len);
	d->head.ip6.hop_limit -= 1;
	d->hop_limit = d->head.ip6.hop_limit;
	d->encapsulate = slots_any(&g->children);
	return enter(skb, ROLE_FORWARD, g->group_id);
}

#endif
