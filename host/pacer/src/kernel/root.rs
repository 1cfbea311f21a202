// SPDX-License-Identifier: Apache-2.0
//! The root qdisc of the interface: ours while the daemon runs, restored afterwards.

use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};

use super::netlink::{Existing, Netlink, Refused, kind};
use super::options;

/// Major handle of our qdiscs, by which a daemon recognizes those of an earlier one.
pub(super) const MAJOR: u16 = 0xCA9A;
/// The parent class of all others: the line.
pub(super) const LINE_CLASS: u16 = 0xFFFE;
/// The class of traffic that is not paced.
pub(super) const DEFAULT_CLASS: u16 = 0xFFFF;

/// The qdisc that we installed, and the one to restore.
pub(super) struct Root {
    ifindex: u32,
    ours: bool,
    before: Option<TcMessage>,
}

/// Why it cannot be installed.
pub(super) enum Failure {
    /// The kernel has no such qdisc.
    NoSuchKind,
    /// An administrator's qdisc is installed.
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
                "the root qdisc of this interface is a configured {kind} (`tc qdisc show`), but pacing needs {wanted} there: \
                 remove it, or let it be replaced while this runs (--replace-qdisc)"
            ),
            Self::Other(error) => error.context(format!("putting {wanted} at the root of the interface")),
        }
    }
}

impl Root {
    /// Installs fq; uses an existing fq as it is.
    pub(super) async fn fq(netlink: &mut Netlink, ifindex: u32, replace: bool) -> Result<Self, Failure> {
        let found = clear_ours(netlink, ifindex).await?;
        if found.as_ref().is_some_and(|found| kind(found) == "fq" && found.header.handle.major != 0) {
            return Ok(Self { ifindex, ours: false, before: None });
        }
        put(netlink, ifindex, ("fq", options::fq()), found, replace).await
    }

    /// Installs HTB without classes.
    pub(super) async fn htb(netlink: &mut Netlink, ifindex: u32, replace: bool) -> Result<Self, Failure> {
        let found = clear_ours(netlink, ifindex).await?;
        put(netlink, ifindex, ("htb", options::htb(DEFAULT_CLASS)), found, replace).await
    }

    /// Removes our qdisc. The kernel installs its default; an administrator's is restored without its classes.
    pub(super) async fn restore(self, netlink: &mut Netlink) {
        if !self.ours {
            return;
        }
        if let Err(error) = netlink.delete_qdisc(root_message(self.ifindex, TcHandle::default())).await {
            tracing::warn!(?error, "the root qdisc cannot be removed: remove it with `tc qdisc del dev DEV root`");
        }
        if let Some(before) = self.before {
            let kind = kind(&before).to_owned();
            match netlink.set_qdisc(before, Existing::Replace).await {
                Ok(()) => tracing::info!(kind, "restored the previous root qdisc, without its classes and filters"),
                Err(error) => tracing::warn!(kind, ?error, "the previous root qdisc cannot be restored"),
            }
        }
    }
}

/// Returns the root qdisc, after removing one that an earlier daemon left.
async fn clear_ours(netlink: &mut Netlink, ifindex: u32) -> Result<Option<TcMessage>, Failure> {
    let found = netlink.root(ifindex).await.map_err(Failure::Other)?;
    if found.as_ref().is_some_and(|found| found.header.handle.major == MAJOR) {
        let removed = netlink.delete_qdisc(root_message(ifindex, TcHandle::default())).await;
        removed.map_err(|error| Failure::Other(error.into()))?;
        tracing::info!("removed the root qdisc of an earlier run");
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
    // The kernel's default qdisc has no handle.
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
        // Another process installed one in between.
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

/// A request that creates the same qdisc again.
fn as_request(mut found: TcMessage) -> TcMessage {
    found.header.info = 0;
    found.attributes.retain(|a| matches!(a, TcAttribute::Kind(_) | TcAttribute::Options(_)));
    for attribute in &mut found.attributes {
        // For kinds that the netlink crate does not know, it stores the whole attribute instead of its content.
        if let TcAttribute::Options(options) = attribute
            && let [TcOption::Other(whole)] = options.as_slice()
        {
            *attribute = TcAttribute::Other(whole.clone());
        }
    }
    found
}
