// SPDX-License-Identifier: Apache-2.0
//! Queueing disciplines and classes by netlink.

use std::fs;
use std::path::Path;

use anyhow::Context;
use futures::StreamExt;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use rtnetlink::Handle;
use tokio::task::AbortHandle;

/// The parent of the clsact qdisc (TC_H_CLSACT).
const CLSACT: TcHandle = TcHandle { major: 0xFFFF, minor: 0xFFF1 };
const NOT_FOUND: i32 = 2;
const EXISTS: i32 = 17;

/// A socket for requests.
pub(super) struct Netlink {
    handle: Handle,
    task: AbortHandle,
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What the kernel answered.
#[derive(Debug)]
pub(super) enum Refused {
    /// ENOENT: no such kind, class or qdisc.
    NotFound,
    /// EEXIST: another one is there.
    Exists,
    /// Anything else.
    Other(anyhow::Error),
}

impl From<Refused> for anyhow::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotFound => anyhow::anyhow!("the kernel knows no such thing (ENOENT)"),
            Refused::Exists => anyhow::anyhow!("there is another one (EEXIST)"),
            Refused::Other(error) => error,
        }
    }
}

/// What is to be made of something that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Existing {
    /// It is an error.
    Refuse,
    /// It is changed.
    Change,
    /// It is replaced.
    Replace,
}

impl Netlink {
    pub(super) fn open() -> anyhow::Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection().context("opening a netlink socket")?;
        Ok(Self { handle, task: tokio::spawn(connection).abort_handle() })
    }

    /// Makes or changes a qdisc.
    pub(super) async fn set_qdisc(&mut self, message: TcMessage, existing: Existing) -> Result<(), Refused> {
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(message), flags(existing)).await
    }

    /// Makes or changes a class.
    pub(super) async fn set_class(&mut self, message: TcMessage) -> Result<(), Refused> {
        self.ask(RouteNetlinkMessage::NewTrafficClass(message), flags(Existing::Change)).await
    }

    pub(super) async fn delete_class(&mut self, message: TcMessage) -> Result<(), Refused> {
        self.ask(RouteNetlinkMessage::DelTrafficClass(message), 0).await
    }

    pub(super) async fn delete_qdisc(&mut self, message: TcMessage) -> Result<(), Refused> {
        self.ask(RouteNetlinkMessage::DelQueueDiscipline(message), 0).await
    }

    /// The qdisc at the root of an interface.
    pub(super) async fn root(&mut self, ifindex: u32) -> anyhow::Result<Option<TcMessage>> {
        Ok(self.qdiscs(ifindex).await?.into_iter().find(|message| message.header.parent == TcHandle::ROOT))
    }

    pub(super) async fn has_clsact(&mut self, ifindex: u32) -> anyhow::Result<bool> {
        Ok(self.qdiscs(ifindex).await?.iter().any(|message| message.header.parent == CLSACT))
    }

    pub(super) async fn remove_clsact(&mut self, ifindex: u32) -> anyhow::Result<()> {
        let mut message = TcMessage::with_index(ifindex as i32);
        message.header.parent = CLSACT;
        Ok(self.delete_qdisc(message).await?)
    }

    async fn qdiscs(&mut self, ifindex: u32) -> anyhow::Result<Vec<TcMessage>> {
        let ask = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::with_index(ifindex as i32));
        let mut request = NetlinkMessage::from(ask);
        request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        let mut answers = self.handle.request(request).context("listing queueing disciplines")?;
        let mut all = Vec::new();
        while let Some(answer) = answers.next().await {
            match answer.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewQueueDiscipline(message))
                    if message.header.index == ifindex as i32 =>
                {
                    all.push(message);
                }
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(error.to_io()).context("listing queueing disciplines");
                }
                _ => {}
            }
        }
        Ok(all)
    }

    async fn ask(&mut self, message: RouteNetlinkMessage, extra: u16) -> Result<(), Refused> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | NLM_F_ACK | extra;
        let mut answers = self.handle.request(request).map_err(|error| Refused::Other(error.into()))?;
        while let Some(answer) = answers.next().await {
            if let NetlinkPayload::Error(error) = answer.payload
                && let Some(code) = error.code
            {
                return Err(match -code.get() {
                    NOT_FOUND => Refused::NotFound,
                    EXISTS => Refused::Exists,
                    _ => Refused::Other(error.to_io().into()),
                });
            }
        }
        Ok(())
    }
}

fn flags(existing: Existing) -> u16 {
    match existing {
        Existing::Refuse => NLM_F_CREATE | NLM_F_EXCL,
        Existing::Change => NLM_F_CREATE,
        Existing::Replace => NLM_F_CREATE | NLM_F_REPLACE,
    }
}

/// The kind of a qdisc, such as `htb`.
pub(super) fn kind(message: &TcMessage) -> &str {
    let kinds = message.attributes.iter().filter_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    });
    kinds.last().unwrap_or_default()
}

/// Index, MTU and, where the driver knows it, rate in bits per second of an interface.
///
/// # Errors
/// There is no such interface, or its packets have no Ethernet header.
pub(crate) fn interface(name: &str) -> anyhow::Result<(u32, u32, Option<u64>)> {
    let dir = Path::new("/sys/class/net").join(name);
    let number = |file: &str| -> anyhow::Result<i64> {
        let text = fs::read_to_string(dir.join(file)).with_context(|| format!("reading {file}"))?;
        text.trim().parse().with_context(|| format!("{file}: {text:?}"))
    };
    let index = nix::net::if_::if_nametoindex(name)
        .with_context(|| format!("interface: there is no {name:?} here (`ip link` lists them)"))?;
    // A process that entered a network namespace may see another's sysfs.
    let here = number("ifindex").is_ok_and(|there| there == i64::from(index));
    if !here {
        anyhow::bail!(
            "interface: /sys shows another network namespace than the one that has {name}: \
             start this with `ip netns exec`, which mounts the right one"
        );
    }
    const ETHERNET: i64 = 1;
    if number("type")? != ETHERNET {
        anyhow::bail!("interface: {name} is no Ethernet interface");
    }
    let mtu = u32::try_from(number("mtu")?).context("mtu")?;
    // Absent, -1 or an error where there is no carrier, or nothing to know.
    let mbps = number("speed").ok().and_then(|mbps| u64::try_from(mbps).ok()).filter(|mbps| *mbps > 0);
    Ok((index, mtu, mbps.map(|mbps| mbps * 1_000_000)))
}
