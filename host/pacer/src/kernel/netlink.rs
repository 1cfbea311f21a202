// SPDX-License-Identifier: Apache-2.0
//! Queueing disciplines and classes by netlink.

use anyhow::{Context, bail};
use futures::StreamExt;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::LinkMessage;
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

/// An error answer of the kernel.
#[derive(Debug)]
pub(super) enum Refused {
    /// ENOENT: no such kind, class or qdisc.
    NotFound,
    /// EEXIST: another object exists.
    Exists,
    /// Anything else.
    Other(anyhow::Error),
}

impl From<Refused> for anyhow::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotFound => anyhow::anyhow!("no such object (ENOENT)"),
            Refused::Exists => anyhow::anyhow!("another object exists (EEXIST)"),
            Refused::Other(error) => error,
        }
    }
}

/// How to handle an object that exists.
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

    /// Creates or changes a qdisc.
    pub(super) async fn set_qdisc(&mut self, message: TcMessage, existing: Existing) -> Result<(), Refused> {
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(message), flags(existing)).await
    }

    /// Creates or changes a class.
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

    /// Removes the clsact qdisc, unless there are filters in it: they are those of another program.
    pub(super) async fn remove_unused_clsact(&mut self, ifindex: u32) -> anyhow::Result<()> {
        if self.has_filters(ifindex).await? {
            return Ok(());
        }
        let mut message = TcMessage::with_index(ifindex as i32);
        message.header.parent = CLSACT;
        Ok(self.delete_qdisc(message).await?)
    }

    /// Whether the TC hooks of an interface have filters, of anyone.
    async fn has_filters(&mut self, ifindex: u32) -> anyhow::Result<bool> {
        let filters = || self.handle.traffic_filter(ifindex as i32).get();
        for mut found in [filters().ingress().execute(), filters().egress().execute()] {
            if let Some(filter) = found.next().await {
                return filter.map(|_| true).context("listing filters");
            }
        }
        Ok(false)
    }

    /// The link of this name.
    pub(super) async fn link(&mut self, name: &str) -> anyhow::Result<LinkMessage> {
        let mut found = self.handle.link().get().match_name(name.to_owned()).execute();
        match found.next().await {
            Some(Ok(link)) => Ok(link),
            _ => bail!("interface: there is no {name:?} in this network namespace (`ip link` lists them)"),
        }
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
    let mut kinds = message.attributes.iter().filter_map(|attribute| match attribute {
        TcAttribute::Kind(kind) => Some(kind.as_str()),
        _ => None,
    });
    kinds.next().unwrap_or_default()
}
