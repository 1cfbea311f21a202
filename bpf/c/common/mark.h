/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Values of skb->mark, by which the programs and the kernel's routing agree about a packet. The kernel clears the mark of packets that
 * arrive over a wire or from another namespace.
 *
 * Netfilter rules of others match single bits: kube-proxy rewrites the source of each forwarded packet with 0x4000, and earlier versions drop
 * those with 0x8000. So no value has one of MARK_OF_OTHERS.
 */
#ifndef CANOPY_MARK_H
#define CANOPY_MARK_H

enum canopy_mark {
	/* An encapsulated copy that was reinjected into its own port for the kernel's stack: dispatch passes it once. */
	MARK_KERNEL = 0x104B,
	/*
	 * The packet passed the boundary of the domain: the routes of the fabric are in a table that only these packets reach, and those
	 * of the node itself. So nothing is forwarded where this program does not run.
	 */
	MARK_FABRIC = 0x1046,
	/* MARK_FABRIC of earlier versions, whose rules are removed. */
	MARK_FABRIC_BEFORE = 0xCA09FAB1,
};

/* Bits of Kubernetes (0xC000), the CNI plugin portmap (0x2000), Cilium (0x0F00), the VPC CNI of AWS (0x80), Calico and Tailscale (above). */
#define MARK_OF_OTHERS 0xFFFFEF80
_Static_assert(!((MARK_KERNEL | MARK_FABRIC) & MARK_OF_OTHERS), "a mark has a bit that netfilter rules of others match");

#endif
