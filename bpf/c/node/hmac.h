/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The HMAC TLV of a group's packets (RFC 8754 section 2.1.2). What it covers is the same in every packet of a group, so nothing is
 * computed here: the fields that it covers, and the HMAC itself, are compared with those that the agent computed.
 */
#ifndef CANOPY_HMAC_H
#define CANOPY_HMAC_H

#include "decide.h"

/* The HMAC TLV: the last one of the SRH. */
struct hmac_tlv {
	__u8 type;
	__u8 len;
	__u16 d_reserved;		/* not covered, and ignored */
	__be32 key_id;
	__u64 hmac[CANOPY_HMAC_WORDS];
};

struct segments {
	struct canopy_addr at[CANOPY_SEGMENTS];
};

/*
 * Checks the SRH of `srh_len` octets with these first words, behind an outer header from `source`. Returns 0 or a drop reason. A
 * global function: the verifier checks it once, and not at every call.
 */
__noinline __u32 canopy_hmac(struct __sk_buff *ctx, const struct canopy_hmac *want, const struct srh *srh, const struct canopy_addr *source,
			     __u32 srh_len)
{
	struct segments list;
	const struct canopy_hmac_key *key;
	struct hmac_tlv tlv;
	__u64 wrong = 0;

	if (!want || !srh || !source)
		return DROP_HMAC_KEY;
	if (srh_len < sizeof(*srh) + sizeof(list) + sizeof(tlv) ||
	    ctx_read(ctx, ETH_LEN + IP6_LEN + srh_len - sizeof(tlv), &tlv) || tlv.type != TLV_HMAC || tlv.len != sizeof(tlv) - 2)
		return DROP_HMAC_MISSING;
	key = &want->keys[0];
	if (tlv.key_id != key->id)
		key = &want->keys[1];
	if (!tlv.key_id || tlv.key_id != key->id)
		return DROP_HMAC_KEY;
	if (srh->last_entry != CANOPY_SEGMENTS - 1 || srh->flags != key->flags || !addr_eq(source, &want->source) ||
	    ctx_read(ctx, ETH_LEN + IP6_LEN + sizeof(*srh), &list))
		return DROP_HMAC_MISMATCH;
	for (__u32 i = 0; i < CANOPY_SEGMENTS; i++)
		wrong |= (list.at[i].hi ^ want->segments[i].hi) | (list.at[i].lo ^ want->segments[i].lo);
	for (__u32 i = 0; i < CANOPY_HMAC_WORDS; i++)
		wrong |= tlv.hmac[i] ^ key->hmac[i];
	return wrong ? DROP_HMAC_MISMATCH : 0;
}

/* Checks the HMAC TLV of a group that requires one. Returns 0 or a drop reason. */
static __always_inline __u32 authentic(canopy_ctx *ctx, const struct canopy_group *g, const struct ip6 *ip6, const struct srh *srh,
				       __u32 srh_len)
{
	if (!(g->flags & GROUP_HMAC))
		return 0;
	return canopy_hmac(ctx, bpf_map_lookup_elem(&hmacs, &g->group_id), srh, &ip6->src, srh_len);
}

#endif
