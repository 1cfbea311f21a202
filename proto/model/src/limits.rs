// SPDX-License-Identifier: Apache-2.0
//! Limits of the topology of one domain: the controller checks them where it is declared, and hosts where they receive it.

/// Forwarding nodes.
pub const MAX_NODES: usize = 16_384;
/// Hosts.
pub const MAX_HOSTS: usize = 131_072;
/// Links.
pub const MAX_LINKS: usize = 1_048_576;
