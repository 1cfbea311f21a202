// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The egress of a host that sends path programs: packets to hosts of the fabric get the outer header of a program that the daemon has
 * composed (H.Encaps.Red, RFC 8986 section 5.2; decisions 5). What has no program leaves as it is. At its ingress, probes of its paths end.
 */
#include <linux/bpf.h>

#include "steer/tables.h"
#include "steer/choose.h"
#include "steer/encapsulate.h"
#include "steer/probe.h"
#include "steer/too_big.h"

/* A packet that may get a program: from the host's own prefix, to a unicast address, and not one that has a program already. */
static __always_inline bool may_steer(const struct steer_control *set, const struct ip6 *ip6)
{
	return addr_in(&ip6->src, &set->own) && !addr_in(&ip6->dst, &set->block) && !addr_in(&ip6->dst, &set->own) &&
	       !addr_is_multicast(&ip6->dst) && !addr_is_link_local(&ip6->dst);
}

SEC("tc")
int steer_egress(struct __sk_buff *skb)
{
	struct steer_control *set = settings();
	struct steer_program *program;
	struct chosen to;
	struct ip6 ip6;
	__u32 id, most;

	if (skb->mark == PROBE_MARK)
		return probe_leaves(skb);
	if (!set || !set->is_on || skb->vlan_present || skb->protocol != bpf_htons(ETH_IPV6) ||
	    ctx_load(skb, ETH_LEN, &ip6, sizeof(ip6)) || !may_steer(set, &ip6))
		return CTX_NEXT;
	to = choice_of(&ip6.dst);
	if (!to.by) {
		if (addr_in(&ip6.dst, &set->hosts))
			ask(&ip6.dst);
		return CTX_NEXT;
	}
	id = choose(skb, &to, &ip6);
	program = bpf_map_lookup_elem(&programs, &id);
	if (!program || !program->length) {
		count(STEER_NO_PROGRAM);
		return CTX_NEXT;
	}
	most = most_of(skb, program);
	if (length_of(skb, &ip6) > most)
		return too_big(skb, &ip6, most);
	return encapsulate(skb, &ip6, id, program);
}

SEC("tc")
int steer_ingress(struct __sk_buff *skb)
{
	return probe_arrives(skb);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
