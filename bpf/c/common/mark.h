/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Values of skb->mark, by which the programs and the kernel's routing agree about a packet. The kernel clears the mark of packets that
 * arrive over a wire or from another namespace.
 */
#ifndef CANOPY_MARK_H
#define CANOPY_MARK_H

enum canopy_mark {
	/* An encapsulated copy that was reinjected into its own port for the kernel's stack: dispatch passes it once. */
	MARK_KERNEL = 0xCA09CA57,
	/*
	 * The packet passed the boundary of the domain: the routes of the fabric are in a table that only these packets reach, and those
	 * of the node itself. So nothing is forwarded where this program does not run.
	 */
	MARK_FABRIC = 0xCA09FAB1,
};

#endif
