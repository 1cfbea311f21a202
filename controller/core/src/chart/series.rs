// SPDX-License-Identifier: Apache-2.0
//! What is charted, of which object and in which unit.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Something that has charts. Its text is `fleet`, `group/G`, `branch/G/NODE/ADDRESS`, `link/NODE/PORT` or `node/NODE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ChartObject {
    /// The whole domain.
    Fleet,
    /// A group, as its headend counts it.
    Group(String),
    /// A branch of a group at a node.
    Branch {
        /// The group's name.
        group: String,
        /// The node's name.
        node: String,
        /// The child's node address or the receiver's address.
        address: Ipv6Addr,
    },
    /// A link direction, by its sending port.
    Link {
        /// The node's name.
        node: String,
        /// The port's name.
        port: String,
    },
    /// A node.
    Node(String),
}

impl ChartObject {
    /// Octets of its names on the heap.
    pub(crate) fn octets(&self) -> usize {
        match self {
            Self::Fleet => 0,
            Self::Group(name) | Self::Node(name) => name.len(),
            Self::Branch { group, node, .. } => group.len() + node.len(),
            Self::Link { node, port } => node.len() + port.len(),
        }
    }
}

impl fmt::Display for ChartObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fleet => f.write_str("fleet"),
            Self::Group(name) => write!(f, "group/{name}"),
            Self::Branch { group, node, address } => write!(f, "branch/{group}/{node}/{address}"),
            Self::Link { node, port } => write!(f, "link/{node}/{port}"),
            Self::Node(name) => write!(f, "node/{name}"),
        }
    }
}

impl From<ChartObject> for String {
    fn from(object: ChartObject) -> Self {
        object.to_string()
    }
}

impl TryFrom<String> for ChartObject {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for ChartObject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let is_whole = parts.iter().all(|part| !part.is_empty());
        match parts[..] {
            ["fleet"] => Ok(Self::Fleet),
            ["group", name] if is_whole => Ok(Self::Group(name.to_owned())),
            ["node", name] if is_whole => Ok(Self::Node(name.to_owned())),
            ["link", node, port] if is_whole => Ok(Self::Link { node: node.to_owned(), port: port.to_owned() }),
            ["branch", group, node, address] if is_whole => {
                let address = address.parse().map_err(|_| format!("{address:?} is not an IPv6 address"))?;
                Ok(Self::Branch { group: group.to_owned(), node: node.to_owned(), address })
            }
            _ => Err(format!(
                "{text:?} names no object with charts: use fleet, group/G, branch/G/NODE/ADDRESS, link/NODE/PORT or node/NODE"
            )),
        }
    }
}

/// Unit of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Octets per second.
    BytesPerSecond,
    /// Things per second.
    PerSecond,
    /// Packets.
    Packets,
    /// Octets.
    Bytes,
    /// Seconds.
    Seconds,
    /// 0 to 1.
    Share,
    /// A number of things.
    Count,
}

macro_rules! series {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $unit:ident;)*) => {
        /// One thing that is measured. The names are stable: they appear in the API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Series {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Series {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As in the API.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Its unit.
            pub const fn unit(self) -> Unit {
                match self { $(Self::$name => Unit::$unit,)* }
            }
        }
    };
}

series! {
    /// Octets of data: of a group from its source, of a link to the wire, of the fleet from all sources.
    Bytes = "bytes", BytesPerSecond;
    /// Octets that every receiver of a group has acknowledged.
    Goodput = "goodput", BytesPerSecond;
    /// Octets that unicast would have sent over links, less those that the trees sent.
    Saved = "saved", BytesPerSecond;
    /// Data packets.
    Packets = "packets", PerSecond;
    /// Data packets of a group that its source had sent before.
    Retransmissions = "retransmissions", PerSecond;
    /// NAKs from branches at the headend.
    Naks = "naks", PerSecond;
    /// CNPs from branches at the headend.
    Cnps = "cnps", PerSecond;
    /// Packets of a group that were sent and that not every receiver has acknowledged.
    Outstanding = "outstanding", Packets;
    /// Packets that were sent and that a branch has not acknowledged.
    Lag = "lag", Packets;
    /// Share of the PSNs by which a branch raised the minimum of its node: all other branches had acknowledged them before.
    Waited = "waited", Share;
    /// Packets marked CE at a port.
    Marks = "marks", PerSecond;
    /// Share of the Echo Requests over a link without a reply.
    Loss = "loss", Share;
    /// Round-trip time of a link.
    Rtt = "rtt", Seconds;
    /// Depth of a port's queue; the maximum is the largest of the window.
    Queue = "queue", Bytes;
    /// Packets that a port's queue, or a node for any reason, dropped.
    Drops = "drops", PerSecond;
    /// Groups whose phase is Ready.
    GroupsReady = "groupsReady", Count;
    /// Problems that no other one explains.
    Problems = "problems", Count;
}

impl FromStr for Series {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|series| series.name() == text);
        found.copied().ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|series| series.name()).collect();
            format!("{text:?} is no series: use {}", all.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_refused() {
        for text in ["fleet", "group/g1", "branch/g1/n2/2001:db8::1", "link/n1/eth1", "node/n1"] {
            assert_eq!(text.parse::<ChartObject>().unwrap().to_string(), text);
        }
        for bad in ["", "fleet/x", "group", "group/", "group/a/b", "branch/g/n/x", "link/n1", "pod/x", "node//"] {
            assert!(bad.parse::<ChartObject>().is_err(), "{bad}");
        }
        for series in Series::ALL {
            assert_eq!(series.name().parse(), Ok(*series));
            assert_eq!(serde_json::to_value(series).unwrap(), series.name());
        }
        assert!("byte".parse::<Series>().unwrap_err().contains("use bytes, goodput"));
    }
}
