/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Packet access in a TC program. An XDP entry would provide the same names over struct xdp_md. */
#ifndef CANOPY_CTX_H
#define CANOPY_CTX_H

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include "mark.h"

/* Verdicts of a program on a packet. */
enum ctx_verdict {
	CTX_NEXT = TC_ACT_UNSPEC,	/* the next filter decides */
	CTX_PASS = TC_ACT_OK,		/* to the kernel's stack */
	CTX_DROP = TC_ACT_SHOT,		/* dropped, merged, or sent as copies only */
};

/*
 * Words of the packet's control block that programs hand on to each other. A word never gets another meaning: while an agent is
 * replaced, a program of one version continues with one of another.
 */
enum ctx_word {
	CTX_GROUP = 0,			/* dispatch to a role: the group's identifier */
	CTX_CAPTURE = 3,		/* forwarding to egress, of copies only: the capture that they are part of, or 0 */
	CTX_COPY = 4,			/* forwarding to egress: COPY_OF_GROUP */
};

/* The packet is a copy of a group's packet. Cleared on arrival: the kernel keeps the word over a veth pair. */
#define COPY_OF_GROUP 0xCA09C0B1

typedef struct __sk_buff canopy_ctx;

static __always_inline __u32 ctx_len(const canopy_ctx *ctx)
{
	return ctx->len;
}

/* The port on which the packet arrived. */
static __always_inline __u32 ctx_port(const canopy_ctx *ctx)
{
	return ctx->ingress_ifindex ?: ctx->ifindex;
}

static __always_inline int ctx_load(canopy_ctx *ctx, __u32 off, void *to, __u32 len)
{
	return bpf_skb_load_bytes(ctx, off, to, len);
}

/*
 * ctx_load() of what `to` points to, at an offset below 16,384: without a call if it is in the packet's first part. Both processors for
 * which this is built read words at any address.
 */
#define ctx_read(ctx, off, to)                                                                     \
	({                                                                                         \
		const typeof(*(to)) *at = (const void *)((const __u8 *)(long)(ctx)->data + ((off) & 0x3FFF)); \
		int missing = 0;                                                                   \
                                                                                                   \
		if ((const void *)(at + 1) <= (const void *)(long)(ctx)->data_end)                 \
			*(to) = *at;                                                               \
		else                                                                               \
			missing = ctx_load(ctx, off, to, sizeof(*(to)));                           \
		missing;                                                                           \
	})

/* ctx_load() of a length that varies: as a 64-bit number, because Linux 6.1 loses the bounds of one that is converted to 32 bits. */
static __always_inline int ctx_load_some(canopy_ctx *ctx, __u32 off, void *to, __u64 len)
{
	long (*load)(const void *, __u32, void *, __u64) = (void *)BPF_FUNC_skb_load_bytes;

	return load(ctx, off, to, len);
}

/* The octet at `off`, without a call if it is in the packet's first part; -1 if it does not exist. */
static __always_inline int ctx_octet(canopy_ctx *ctx, __u32 off)
{
	const __u8 *first = (const __u8 *)(long)ctx->data;
	__u8 octet;

	if (first + off + 1 <= (const __u8 *)(long)ctx->data_end)
		return first[off];
	return bpf_skb_load_bytes(ctx, off, &octet, 1) ? -1 : octet;
}

/* As ctx_load(), from the network header on: for interfaces that may have no link-layer header. */
static __always_inline int ctx_load_network(canopy_ctx *ctx, __u32 off, void *to, __u32 len)
{
	return bpf_skb_load_bytes_relative(ctx, off, to, len, BPF_HDR_START_NET);
}

static __always_inline int ctx_store(canopy_ctx *ctx, __u32 off, const void *from, __u32 len)
{
	return bpf_skb_store_bytes(ctx, off, from, len, 0);
}

/*
 * ctx_store() of a length that is known when this is compiled, at a variable `off` below 16,384: without a call if the octets are in the
 * packet's first part, which the kernel never shares with a clone while a program writes.
 */
static __always_inline int ctx_write(canopy_ctx *ctx, __u32 off, const void *from, __u32 len)
{
	__u8 *at = (__u8 *)(long)ctx->data + (off & 0x3FFF);

	if (at + len > (__u8 *)(long)ctx->data_end)
		return ctx_store(ctx, off, from, len);
	__builtin_memcpy(at, from, len);
	return 0;
}

/* Inserts (positive) or removes (negative) bytes after the Ethernet header. */
static __always_inline int ctx_resize(canopy_ctx *ctx, __s32 by)
{
	return bpf_skb_adjust_room(ctx, by, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO);
}

/* Sends a copy of the packet in its current form through `ifindex`. */
static __always_inline int ctx_copy_to(canopy_ctx *ctx, __u32 ifindex)
{
	return bpf_clone_redirect(ctx, ifindex, 0);
}

/* Passes a copy of the packet in its current form to the kernel's stack; this program ignores that copy. */
static __always_inline int ctx_copy_to_kernel(canopy_ctx *ctx)
{
	int rc;

	ctx->mark = MARK_KERNEL;
	rc = bpf_clone_redirect(ctx, ctx_port(ctx), BPF_F_INGRESS);
	ctx->mark = 0;
	return rc;
}

/* True for a copy from ctx_copy_to_kernel(). */
static __always_inline bool ctx_is_for_kernel(canopy_ctx *ctx)
{
	if (ctx->mark != MARK_KERNEL)
		return false;
	ctx->mark = 0;
	return true;
}

/* Passes the packet to the kernel's stack, which may forward it in the fabric. */
static __always_inline int ctx_pass_to_fabric(canopy_ctx *ctx)
{
	ctx->mark = MARK_FABRIC;
	return CTX_PASS;
}

/* Passes the packet to the kernel's stack, which does not forward it in the fabric. */
static __always_inline int ctx_pass(canopy_ctx *ctx)
{
	if (ctx->mark == MARK_FABRIC)
		ctx->mark = 0;
	return CTX_PASS;
}

/* linux/if_packet.h, which needs headers of the C library: a multicast packet that this node sent and receives itself. */
#define PACKET_LOOPBACK 5

/* True for a multicast packet of the node itself: it arrives on the port that it left through, without a link-layer header. */
static __always_inline bool ctx_is_own(const canopy_ctx *ctx)
{
	return ctx->pkt_type == PACKET_LOOPBACK;
}

/* linux/if_packet.h: a frame to another link-layer address, which the port received because it is promiscuous or a switch floods it. */
#define PACKET_OTHERHOST 3

static __always_inline bool ctx_is_for_another(const canopy_ctx *ctx)
{
	return ctx->pkt_type == PACKET_OTHERHOST;
}

/* True for a buffer of several packets, of which only the first has headers: the kernel or the NIC divides it when it leaves. */
static __always_inline bool ctx_is_gso(const canopy_ctx *ctx)
{
	return ctx->gso_size;
}

/* Removes the octets behind the first `len`: padding, or whatever else is behind the payload of IPv6. */
static __always_inline int ctx_trim(canopy_ctx *ctx, __u32 len)
{
	return ctx_len(ctx) > len ? bpf_skb_change_tail(ctx, len, 0) : 0;
}

/*
 * Updates the UDP checksum at `off` for two differences of bpf_csum_diff(): of the pseudo-header, and of what the checksum covers besides.
 * Where the frame's sender left the checksum to the hardware (CHECKSUM_PARTIAL), the field holds the sum of the pseudo-header alone, and
 * the kernel leaves the second one out: no program sees which it is. 0 becomes all ones (RFC 768).
 */
static __always_inline int ctx_update_udp_check(canopy_ctx *ctx, __u32 off, __s64 pseudo, __s64 covered)
{
	return bpf_l4_csum_replace(ctx, off, 0, (__u32)pseudo, BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0) ||
	       bpf_l4_csum_replace(ctx, off, 0, (__u32)covered, BPF_F_MARK_MANGLED_0);
}

/* True for a frame without a VLAN tag, or with a priority tag (VID 0), which is removed. Further tags are the frame's protocol. */
static __always_inline bool ctx_untag(canopy_ctx *ctx)
{
	if (!ctx->vlan_present)
		return true;
	return !(ctx->vlan_tci & 0xFFF) && !bpf_skb_vlan_pop(ctx);
}

/* True for a frame of a VLAN: it is one of another network on the same cable. */
static __always_inline bool ctx_in_vlan(const canopy_ctx *ctx)
{
	return ctx->vlan_present && ctx->vlan_tci & 0xFFF;
}

/* Marks the packet, and the clones made of it from now on, as copies of a group's packet. */
static __always_inline void ctx_mark_copy(canopy_ctx *ctx, bool copy)
{
	ctx->cb[CTX_COPY] = copy ? COPY_OF_GROUP : 0;
}

static __always_inline bool ctx_is_copy(const canopy_ctx *ctx)
{
	return ctx->cb[CTX_COPY] == COPY_OF_GROUP;
}

/* Sends the packet itself through `ifindex`; the program must return the result. */
static __always_inline int ctx_send_to(canopy_ctx *ctx, __u32 ifindex)
{
	return bpf_redirect(ifindex, 0);
}

#endif
