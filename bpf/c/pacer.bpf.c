// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * A source host's interface, both directions. Ingress copies congestion notifications to the daemon and records which peer
 * answers which QP; egress counts the flows of RC requesters and paces those that the daemon has slowed down. Every packet
 * continues to the next filter.
 */
#include <linux/bpf.h>
#include <linux/if_packet.h>

#include "pacer/ingress.h"
#include "pacer/pace.h"

static __always_inline bool load_ip6(struct __sk_buff *skb, struct ip6 *ip6)
{
	return skb->protocol == bpf_htons(ETH_IPV6) && !ctx_load(skb, ETH_LEN, ip6, sizeof(*ip6));
}

static __always_inline bool load_roce(struct __sk_buff *skb, const struct ip6 *ip6, struct transport *roce)
{
	return ip6->nexthdr == NEXTHDR_UDP && !ctx_load(skb, ETH_LEN + sizeof(*ip6), roce, sizeof(*roce)) &&
	       roce->udp.dport == bpf_htons(ROCE_PORT);
}

SEC("tc")
int pacer_ingress(struct __sk_buff *skb)
{
	struct ip6 ip6;
	struct transport roce;
	__u8 type;

	if (skb->pkt_type != PACKET_HOST || !load_ip6(skb, &ip6))
		return CTX_NEXT;
	if (ip6.nexthdr == NEXTHDR_ICMPV6) {
		if (!ctx_load(skb, ETH_LEN + sizeof(ip6), &type, 1) && type == ICMPV6_LONG_HAUL) {
			count(COUNT_ICMPV6, 1);
			copy_to_daemon(skb, &ip6);
		}
	} else if (load_roce(skb, &ip6, &roce)) {
		if (roce.bth.opcode == OP_CNP) {
			count(COUNT_ROCE, 1);
			copy_to_daemon(skb, &ip6);
		} else if (op_answer(roce.bth.opcode)) {
			note_answer(&ip6, &roce);
		}
	}
	return CTX_NEXT;
}

SEC("tc")
int pacer_egress(struct __sk_buff *skb)
{
	struct ip6 ip6;
	struct transport roce;

	if (load_ip6(skb, &ip6) && load_roce(skb, &ip6, &roce) && op_request(roce.bth.opcode))
		pace_request(skb, &ip6, &roce);
	return CTX_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
