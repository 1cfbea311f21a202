// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Canopy's datapath: one program at the TC ingress of every port.
 *
 *   outer DA = Replication-SID  -> replicate            (RFC 9524)
 *   outer DA = End.MT SID       -> strip, copy, rewrite (draft-li section 6)
 *   outer DA = group's ff3e::   -> the same; the kernel's multicast routes replicate to child nodes (decisions 2.3)
 *   DA = Proxy Address          -> headend if SA is the source, otherwise feedback of a receiver
 *   DA = node address, RoCEv2   -> feedback of a child node
 *   anything else               -> the kernel's stack
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <stddef.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#include "include/shared.h"
#include "include/maps.h"
#include "include/drop.h"
#include "include/icrc.h"
#include "include/parse.h"
#include "include/ctx_tc.h"
#include "include/nexthop.h"
#include "include/aggregate.h"
#include "include/feedback.h"
#include "include/tlv.h"
#include "include/forward.h"
#include "include/downstream.h"
#include "include/control.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static __always_inline const struct canopy_group *group_of(const __u32 *id)
{
	return id ? bpf_map_lookup_elem(&groups, id) : NULL;
}

SEC("tc")
int canopy_ingress(struct __sk_buff *skb)
{
	const struct canopy_group *g;
	const struct canopy_node *n;
	__u32 zero = 0, number;
	struct ip6 ip6;
	__be16 dport;
	__be32 word;

	if (ctx_is_for_kernel(skb))
		return TC_ACT_OK;
	if (skb->protocol != bpf_htons(0x86DD) || ctx_load(skb, ETH_LEN, &ip6, IP6_LEN))
		return TC_ACT_OK;
	n = bpf_map_lookup_elem(&node, &zero);
	if (!n || !n->address.hi)
		return TC_ACT_OK;
	if (ip6.dst.hi == n->replicate_hi) {
		number = bpf_ntohl((__u32)ip6.dst.lo);
		g = group_of(bpf_map_lookup_elem(&trees, &number));
		return g ? replicate(skb, n, g, &ip6) : count_drop(0, DROP_GROUP_UNKNOWN);
	}
	if (addr_eq(&ip6.dst, &n->end_mt) ||
	    (addr_is_multicast(&ip6.dst) && bpf_map_lookup_elem(&multicasts, &ip6.dst)))
		return end_mt(skb, n, &ip6);
	if (ip6.nexthdr != NEXTHDR_UDP || ctx_load(skb, ETH_LEN + IP6_LEN + 2, &dport, 2) ||
	    dport != bpf_htons(ROCE_PORT))
		return TC_ACT_OK;
	if (addr_eq(&ip6.dst, &n->address)) {
		if (ctx_load(skb, ETH_LEN + IP6_LEN + UDP_LEN + 4, &word, 4))
			return count_drop(0, DROP_TRUNCATED);
		number = bpf_ntohl(word) & 0xFFFFFF;
		g = group_of(bpf_map_lookup_elem(&qpns, &number));
		return g ? feedback(skb, g) : count_drop(0, DROP_GROUP_UNKNOWN);
	}
	g = group_of(bpf_map_lookup_elem(&proxies, &ip6.dst));
	if (!g)
		return TC_ACT_OK;
	return addr_eq(&ip6.src, &g->source) ? headend(skb, g) : feedback(skb, g);
}

/* Run by the agent through BPF_PROG_TEST_RUN: membership changes, and frames that user space sends upstream. */
SEC("tc")
int canopy_control(struct __sk_buff *skb)
{
	__u32 op = skb->cb[0], group_id = skb->cb[1], slot = skb->cb[2];

	return control(skb, group_id, op, slot, skb->cb[3], skb->cb[4]);
}
