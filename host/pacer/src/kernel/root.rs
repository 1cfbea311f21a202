// SPDX-License-Identifier: Apache-2.0
//! The qdisc at the root of the interface: ours while the daemon runs, and before and after what it was.

use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use super::netlink::{Existing, Netlink, Refused, kind};
use super::options;

/// Our qdiscs have this handle, so that a daemon which starts again knows what another one left.
pub(super) const MAJOR: u16 = 0xCA9A;
/// The class above all others: the line.
pub(super) const LINE_CLASS: u16 = 0xFFFE;
/// The class of what is not paced.
pub(super) const DEFAULT_CLASS: u16 = 0xFFFF;

/// What we put there, and what is to come back.
pub(super) struct Root {
    ifindex: u32,
    ours: bool,
    before: Option<TcMessage>,
}

/// Why it cannot be put there.
pub(super) enum Failure {
    /// The kernel has no such qdisc.
    NoSuchKind,
    /// An administrator's is there.
    Taken(String),
    Other(anyhow::Error),
}

impl Failure {
    pub(super) fn into_error(self, wanted: &str) -> anyhow::Error {
        match self {
            Self::NoSuchKind => anyhow::anyhow!(
                "this kernel has no {wanted}: load it (modprobe sch_{wanted}), use a kernel with CONFIG_NET_SCH_{}, or let \
                 the NIC or the application pace (--no-kernel-pacing)",
                wanted.to_uppercase()
            ),
            Self::Taken(kind) => anyhow::anyhow!(
                "somebody put a {kind} qdisc at the root of this interface (`tc qdisc show`), and {wanted} has to be there: \
                 remove it, or let it be replaced while this runs (--replace-qdisc)"
            ),
            Self::Other(error) => error.context(format!("putting {wanted} at the root of the interface")),
        }
    }
}

impl Root {
    /// fq; one that is there already is used as it is.
    pub(super) async fn fq(netlink: &mut Netlink, ifindex: u32, replace: bool) -> Result<Self, Failure> {
        let found = clear_ours(netlink, ifindex).await?;
        if found.as_ref().is_some_and(|found| kind(found) == "fq" && found.header.handle.major != 0) {
            return Ok(Self { ifindex, ours: false, before: None });
        }
        put(netlink, ifindex, ("fq", options::fq()), found, replace).await
    }

    /// HTB without classes.
    pub(super) async fn htb(netlink: &mut Netlink, ifindex: u32, replace: bool) -> Result<Self, Failure> {
        let found = clear_ours(netlink, ifindex).await?;
        put(netlink, ifindex, ("htb", options::htb(DEFAULT_CLASS)), found, replace).await
    }

    /// Takes ours away. The kernel puts its default in its place; an administrator's comes back without its classes.
    pub(super) async fn restore(self, netlink: &mut Netlink) {
        if !self.ours {
            return;
        }
        if let Err(error) = netlink.delete_qdisc(root_message(self.ifindex, TcHandle::default())).await {
            tracing::warn!(?error, "the root qdisc cannot be removed: `tc qdisc del dev DEV root` does it");
        }
        if let Some(before) = self.before {
            let kind = kind(&before).to_owned();
            match netlink.set_qdisc(before, Existing::Replace).await {
                Ok(()) => tracing::info!(kind, "the qdisc from before is back; classes and filters it had are not"),
                Err(error) => tracing::warn!(kind, ?error, "the qdisc from before cannot be put back"),
            }
        }
    }
}

/// What is at the root; what an earlier daemon left there is removed first.
async fn clear_ours(netlink: &mut Netlink, ifindex: u32) -> Result<Option<TcMessage>, Failure> {
    let found = netlink.root(ifindex).await.map_err(Failure::Other)?;
    if found.as_ref().is_some_and(|found| found.header.handle.major == MAJOR) {
        let removed = netlink.delete_qdisc(root_message(ifindex, TcHandle::default())).await;
        removed.map_err(|error| Failure::Other(error.into()))?;
        tracing::info!("removed the root qdisc that an earlier run left");
        return netlink.root(ifindex).await.map_err(Failure::Other);
    }
    Ok(found)
}

async fn put(
    netlink: &mut Netlink,
    ifindex: u32,
    (name, options): (&str, TcAttribute),
    found: Option<TcMessage>,
    replace: bool,
) -> Result<Root, Failure> {
    // The kernel's default has no handle.
    let foreign = found.filter(|found| found.header.handle.major != 0);
    let mut message = root_message(ifindex, TcHandle { major: MAJOR, minor: 0 });
    message.attributes = vec![TcAttribute::Kind(name.to_owned()), options];
    let existing = match &foreign {
        Some(found) if !replace => return Err(Failure::Taken(kind(found).to_owned())),
        Some(_) => Existing::Replace,
        None => Existing::Refuse,
    };
    match netlink.set_qdisc(message, existing).await {
        Ok(()) => Ok(Root { ifindex, ours: true, before: foreign.map(as_request) }),
        Err(Refused::NotFound) => Err(Failure::NoSuchKind),
        // Somebody came in between.
        Err(Refused::Exists) => Err(Failure::Taken("new".to_owned())),
        Err(Refused::Other(error)) => Err(Failure::Other(error)),
    }
}

fn root_message(ifindex: u32, handle: TcHandle) -> TcMessage {
    let mut message = TcMessage::with_index(ifindex as i32);
    message.header.parent = TcHandle::ROOT;
    message.header.handle = handle;
    message
}

/// What makes the same qdisc again.
fn as_request(mut found: TcMessage) -> TcMessage {
    found.header.info = 0;
    found.attributes.retain(|a| matches!(a, TcAttribute::Kind(_) | TcAttribute::Options(_)));
    for attribute in &mut found.attributes {
        // Of kinds that the netlink crate does not know, it keeps the whole attribute in the place of its content.
        if let TcAttribute::Options(options) = attribute
            && let [TcOption::Other(whole)] = options.as_slice()
        {
            *attribute = TcAttribute::Other(whole.clone());
        }
    }
    found
}
