// SPDX-License-Identifier: Apache-2.0
//! Durable records. This crate defines their content and their keys, the caller their encoding.
//!
//! Keys: `topology/default`, of a large one `links/default` for what changes with its links, `drain/<name>`, `silence/<name>`, `retirement/<node>`, `group/<name>`, `member/<group>/<host>`, `rtt/<node>` for the measured round-trip times in force, and
//! `domain/hmac` for the keys of the SRH HMAC TLV, `domain/state` for the revision and the allocators. A group's record holds the numbers allocated to it, so that nothing can leak: a number that is in no
//! record is free.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use canopy_model::FieldError;
use canopy_model::group::GroupSpec;
use canopy_model::ids::Qpn;
use canopy_model::member::Role;
use canopy_model::rfc3339;
use canopy_model::srh_hmac::{FlagBit, HmacKey, HmacKeyId, HmacSecret, SrhHmac};
use canopy_model::topology::{Endpoint, TopologySpec};
use canopy_units::UnixTime;
use serde::{Deserialize, Deserializer, Serialize};

use crate::alloc::{Allocation, Cursors};
use crate::metadata::Metadata;
use crate::resource::{Confirmed, Drain, Silence};
use crate::retirement::Retirement;
use crate::secret::Secret;
use crate::uid::Uid;
use crate::view::Evicted;

mod member;

pub(crate) use member::Common;
pub use member::MemberRecord;

/// Name of the one topology of a domain.
pub(crate) const TOPOLOGY_NAME: &str = "default";
/// What changes with the links of a topology has a record of its own where the topology has certainly more octets: a link that goes out of
/// service does not write all others. Controllers that would not read that record refuse a store with so large a value.
pub(crate) const APART_ABOVE: usize = 1 << 20;
/// Key of [`LinksRecord`].
const LINKS_KEY: &str = "links/default";
/// Key of [`HmacRecord`].
const HMAC_KEY: &str = "domain/hmac";
/// Key of [`StateRecord`].
const STATE_KEY: &str = "domain/state";

/// A durable record of any kind; its key names the kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Record {
    /// The topology.
    Topology(Box<TopologyRecord>),
    /// What changes with the links of a large topology.
    Links(Box<LinksRecord>),
    /// A drain.
    Drain(Box<DrainRecord>),
    /// A silence.
    Silence(Box<SilenceRecord>),
    /// A node that leaves for good.
    Retirement(Box<RetirementRecord>),
    /// A group.
    Group(Box<GroupRecord>),
    /// A membership.
    Member(Box<MemberRecord>),
    /// A node's measured round-trip times.
    Rtt(RttRecord),
    /// The keys of the SRH HMAC TLV.
    Hmac(HmacRecord),
    /// What no resource holds.
    State(StateRecord),
}

impl Record {
    /// Reads the record at `key` from any format that describes itself; `None` if the key is not the domain's.
    ///
    /// # Errors
    /// The content is not that of a record at `key`.
    pub fn read<'de, D: Deserializer<'de>>(key: &str, from: D) -> Result<Option<Self>, D::Error> {
        let kind = key.split_once('/').map_or("", |(kind, _)| kind);
        Ok(Some(match kind {
            "topology" => Self::Topology(Deserialize::deserialize(from)?),
            "links" => Self::Links(Deserialize::deserialize(from)?),
            "drain" => Self::Drain(Deserialize::deserialize(from)?),
            "silence" => Self::Silence(Deserialize::deserialize(from)?),
            "retirement" => Self::Retirement(Deserialize::deserialize(from)?),
            "group" => Self::Group(Deserialize::deserialize(from)?),
            "member" => Self::Member(Deserialize::deserialize(from)?),
            "rtt" => Self::Rtt(Deserialize::deserialize(from)?),
            "domain" if key == HMAC_KEY => Self::Hmac(Deserialize::deserialize(from)?),
            "domain" if key == STATE_KEY => Self::State(Deserialize::deserialize(from)?),
            _ => return Ok(None),
        }))
    }

    /// Where the record belongs.
    pub fn key(&self) -> String {
        match self {
            Self::Topology(_) => topology_key(),
            Self::Links(_) => links_key(),
            Self::Drain(record) => drain_key(&record.drain.metadata.name),
            Self::Silence(record) => silence_key(&record.silence.metadata.name),
            Self::Retirement(record) => retirement_key(&record.retirement.node),
            Self::Group(record) => group_key(&record.metadata.name),
            Self::Member(record) => member_key(&record.group, &record.spec.host),
            Self::Rtt(record) => rtt_key(&record.node),
            Self::Hmac(_) => hmac_key(),
            Self::State(_) => STATE_KEY.to_owned(),
        }
    }

    /// Gives the resource of a version without uids one: the same at every start, until it is stored with the resource's next change.
    pub(crate) fn name_for_ever(&mut self, secret: &Secret) {
        // One change writes a group and a member, or a topology and a drain, with one revision.
        let (metadata, revision, part) = match self {
            Self::Group(record) => (&mut record.metadata, record.revision, 0),
            Self::Member(record) => (&mut record.metadata, record.revision, 1),
            Self::Topology(record) => (&mut record.metadata, record.revision, 2),
            Self::Drain(record) => (&mut record.drain.metadata, record.revision, 3),
            // No version without uids has written one.
            Self::Links(_) | Self::Silence(_) | Self::Retirement(_) | Self::Rtt(_) | Self::Hmac(_) | Self::State(_) => {
                return;
            }
        };
        if metadata.uid.is_absent() {
            metadata.uid = Uid::of(secret, 0, revision, part);
        }
    }

    /// Revision of the domain that wrote it.
    pub(crate) fn revision(&self) -> u64 {
        match self {
            Self::Topology(record) => record.revision,
            Self::Links(record) => record.revision,
            Self::Drain(record) => record.revision,
            Self::Silence(record) => record.revision,
            Self::Retirement(record) => record.revision,
            Self::Group(record) => record.revision,
            Self::Member(record) => record.revision,
            Self::Rtt(record) => record.revision,
            Self::Hmac(record) => record.revision,
            Self::State(record) => record.revision,
        }
    }
}

/// Durable form of a drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRecord {
    pub(crate) revision: u64,
    /// Without its end, which versions that do not know it would refuse in a spec.
    #[serde(flatten)]
    drain: Drain,
    /// See [`DrainSpec::until`](canopy_model::drain::DrainSpec::until).
    #[serde(default, with = "rfc3339::option", skip_serializing_if = "Option::is_none")]
    until: Option<UnixTime>,
}

impl DrainRecord {
    pub(crate) fn new(revision: u64, mut drain: Drain) -> Self {
        let until = drain.spec.until.take();
        Self { revision, drain, until }
    }

    pub(crate) fn into_drain(mut self) -> Drain {
        self.drain.spec.until = self.until;
        self.drain
    }
}

/// Durable form of a silence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SilenceRecord {
    pub(crate) revision: u64,
    #[serde(flatten)]
    pub(crate) silence: Silence,
}

/// Durable form of a retirement. A version that does not know it leaves it where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetirementRecord {
    pub(crate) revision: u64,
    #[serde(flatten)]
    pub(crate) retirement: Retirement,
}

/// Durable form of the topology.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyRecord {
    pub(crate) metadata: Metadata,
    pub(crate) revision: u64,
    pub(crate) spec: Arc<TopologySpec>,
    /// Epochs of the groups (by id) whose trees topology changes have moved since their own records were written. Kept
    /// here because one transaction cannot rewrite the records of a million groups.
    #[serde(default)]
    pub(crate) moved: BTreeMap<u32, u32>,
    /// Groups (by id) whose tree in force is not the one over these links, with that tree; without it where it is the one in the
    /// group's record.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) behind: BTreeMap<u32, Option<TreeRecord>>,
    /// Digests of the trees of the groups in `moved` that are not behind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) digests: BTreeMap<u32, u64>,
    /// Of groups (by id) that are newer here than in their own records: [`Group::displaced`](crate::resource::Group::displaced). `None`
    /// in the record of a version that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) displaced: Option<BTreeMap<u32, u32>>,
    /// Ports without a carrier, as last reported by their nodes.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) down: BTreeSet<Endpoint>,
    /// Those of them whose links lost every packet although their carriers were up: they are used again only once the link has answered.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) silent: BTreeSet<Endpoint>,
}

/// What changes with the links of a topology: of a large one a record of its own, whose topology then has nothing of it. Fields as in
/// [`TopologyRecord`], which cannot have them as one field that is flattened: serde reads no numbers from the keys of such maps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksRecord {
    pub(crate) revision: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) moved: BTreeMap<u32, u32>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) behind: BTreeMap<u32, Option<TreeRecord>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) digests: BTreeMap<u32, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) displaced: Option<BTreeMap<u32, u32>>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) down: BTreeSet<Endpoint>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) silent: BTreeSet<Endpoint>,
}

impl TopologyRecord {
    /// `links`: what changes with links, unless it has a record of its own.
    pub(crate) fn new(metadata: Metadata, revision: u64, spec: Arc<TopologySpec>, links: Option<LinksRecord>) -> Self {
        let LinksRecord { moved, behind, digests, displaced, down, silent, .. } = links.unwrap_or_default();
        Self { metadata, revision, spec, moved, behind, digests, displaced, down, silent }
    }

    /// Takes out what changes with links.
    pub(crate) fn take_links(&mut self) -> LinksRecord {
        LinksRecord {
            revision: self.revision,
            moved: std::mem::take(&mut self.moved),
            behind: std::mem::take(&mut self.behind),
            digests: std::mem::take(&mut self.digests),
            displaced: self.displaced.take(),
            down: std::mem::take(&mut self.down),
            silent: std::mem::take(&mut self.silent),
        }
    }
}

/// Octets that a topology has at least as JSON, without its serialisation: names, and what stands around them.
pub(crate) fn least_octets(spec: &TopologySpec) -> usize {
    const NODE: usize = r#"{"name":"","id":1},"#.len();
    const HOST: usize = r#"{"name":"","prefix":"::/0","address":"::"},"#.len();
    const LINK: usize = r#"{"a":"/","b":"/"},"#.len();
    let end = |end: &Endpoint| end.device.len() + end.port.len();
    spec.nodes.iter().map(|node| NODE + node.name.len()).sum::<usize>()
        + spec.hosts.iter().map(|host| HOST + host.name.len()).sum::<usize>()
        + spec.links.iter().map(|link| LINK + end(&link.a) + end(&link.b)).sum::<usize>()
}

/// A tree in force. A controller that starts, of whatever version, continues with it, and moves it in two steps to the one that it would
/// plan itself (decisions 3.14).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TreeRecord {
    pub(crate) epoch: u32,
    pub(crate) moved: u32,
    /// See [`Tree::uplinks`](crate::tree::Tree::uplinks).
    pub(crate) uplinks: Vec<Endpoint>,
    /// Of the tree's nodes: of the node's program, and since which its feedback counts at its parent
    /// ([`Epochs`](crate::epochs::Epochs)). Empty where both follow from `epoch` and `moved`, as those of a version that did not know
    /// them do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) epochs: Vec<(u32, u32)>,
}

/// Durable form of a group; its members have records of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    pub(crate) metadata: Metadata,
    pub(crate) revision: u64,
    pub(crate) epoch: u32,
    #[serde(default)]
    pub(crate) moved: u32,
    /// See [`Group::displaced`](crate::resource::Group::displaced); `None` in the record of a version that did not know it: `moved`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) displaced: Option<u32>,
    /// See [`Group::opened`](crate::resource::Group::opened); `None` in the record of a version that did not know it, or of a restored copy: the present session counts as open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) opened: Option<u32>,
    /// See [`Group::session`](crate::resource::Group::session).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) session: u32,
    /// See [`Group::ended`](crate::resource::Group::ended).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ended: BTreeMap<u32, Qpn>,
    /// The tree in force; `None` without one, and in the record of a version that did not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tree: Option<TreeRecord>,
    /// See [`Group::confirmed`](crate::resource::Group::confirmed).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) confirmed: Option<Confirmed>,
    pub(crate) spec: GroupSpec,
    pub(crate) allocation: Allocation,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<String>,
    /// See [`Group::deleting`](crate::resource::Group::deleting). A version that did not know it puts the group back into force.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deleting: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) evicted: Vec<Evicted>,
}

#[cfg(test)]
impl Record {
    /// Removes what versions without trees in records do not know.
    pub(crate) fn forget_trees(&mut self) {
        match self {
            Self::Group(record) => (record.tree, record.displaced) = Default::default(),
            Self::Topology(record) => (record.behind, record.digests, record.displaced) = Default::default(),
            Self::Links(record) => (record.behind, record.digests, record.displaced) = Default::default(),
            Self::Drain(_)
            | Self::Silence(_)
            | Self::Retirement(_)
            | Self::Member(_)
            | Self::Rtt(_)
            | Self::Hmac(_)
            | Self::State(_) => {}
        }
    }
}

#[cfg(test)]
impl GroupRecord {
    /// Removes what versions with one epoch per tree do not know.
    pub(crate) fn forget_epochs(&mut self) {
        self.tree.iter_mut().for_each(|tree| tree.epochs.clear());
    }

    /// Sets it to a later epoch.
    pub(crate) fn age(&mut self, epochs: u32) {
        self.epoch += epochs;
        if let Some(tree) = &mut self.tree {
            tree.epoch += epochs;
        }
    }
}

/// The measured round-trip times that the thresholds of a node's ports were computed from: those of a controller that starts are the same.
/// Written when one of them is pushed, which a link at rest never causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RttRecord {
    pub(crate) node: String,
    pub(crate) revision: u64,
    /// By port name.
    pub(crate) rtts: BTreeMap<String, RecordedRtt>,
}

/// A measured round-trip time in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RecordedRtt {
    /// The far end: the path to another one is another path.
    pub(crate) to: Endpoint,
    /// Nanoseconds.
    pub(crate) rtt_ns: u64,
}

/// The keys of the SRH HMAC TLV in the present phase; there is none while there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HmacRecord {
    pub(crate) revision: u64,
    keys: Vec<RecordedKey>,
    sending: u32,
    required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedKey {
    id: u32,
    #[serde(with = "hex")]
    secret: HmacSecret,
    flag_bit: FlagBit,
}

impl HmacRecord {
    pub(crate) fn new(revision: u64, hmac: &SrhHmac) -> Self {
        let key = |key: &HmacKey| RecordedKey { id: key.id.get(), secret: key.secret.clone(), flag_bit: key.flag_bit };
        Self {
            revision,
            keys: hmac.keys().iter().map(key).collect(),
            sending: hmac.sending().id.get(),
            required: hmac.required,
        }
    }

    /// The keys.
    ///
    /// # Errors
    /// They are none that [`HmacRecord::new`] was given.
    pub(crate) fn read(self) -> Result<SrhHmac, FieldError> {
        let key =
            |RecordedKey { id, secret, flag_bit }| Ok(HmacKey { id: HmacKeyId::new("keys.id", id)?, secret, flag_bit });
        let keys = self.keys.into_iter().map(key).collect::<Result<_, FieldError>>()?;
        SrhHmac::new(keys, HmacKeyId::new("sending", self.sending)?, self.required)
    }
}

/// A secret as hexadecimal digits.
mod hex {
    use canopy_model::srh_hmac::{HmacSecret, SECRET_LEN};
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(secret: &HmacSecret, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&secret.reveal().iter().map(|octet| format!("{octet:02x}")).collect::<String>())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<HmacSecret, D::Error> {
        let digits = String::deserialize(from)?;
        let octet = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
        let octets: Option<Vec<u8>> = pairs.iter().map(octet).collect();
        let octets = octets.filter(|_| rest.is_empty()).and_then(|octets| <[u8; SECRET_LEN]>::try_from(octets).ok());
        // Without the digits: an error is logged.
        octets
            .map(HmacSecret::new)
            .ok_or_else(|| D::Error::custom(format!("a secret is not {SECRET_LEN} octets in hexadecimal digits")))
    }
}

/// State that must survive although no resource holds it: deletions must not decrease the revision, nor make the
/// allocators reuse what was just freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    pub(crate) revision: u64,
    pub(crate) cursors: Cursors,
}

/// Makes the groups that have a source count as open (decisions 3.13) in the records of a copy of a store: data may have passed since the
/// copy was made, and who joins now does not have it. Returns the records that changed; until they are written, another start has to do
/// the same.
pub fn assume_open(records: &mut [(String, Record)]) -> Vec<Record> {
    let source = |(_, record): &(String, Record)| match record {
        Record::Member(m) if m.spec.role == Role::Source => Some((m.group.clone(), m.since)),
        _ => None,
    };
    let sources: BTreeMap<String, u32> = records.iter().filter_map(source).collect();
    let mut changed = Vec::new();
    for (_, record) in records {
        let Record::Group(group) = record else { continue };
        let since = sources.get(&group.metadata.name);
        if since.is_some_and(|since| group.opened.is_some_and(|opened| opened != *since)) {
            // As in the record of a version that did not know it.
            group.opened = None;
            changed.push(record.clone());
        }
    }
    changed
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Key of the record of a node's round-trip times.
pub(crate) fn rtt_key(node: &str) -> String {
    format!("rtt/{node}")
}

/// Key of the record of the keys of the SRH HMAC TLV.
pub(crate) fn hmac_key() -> String {
    HMAC_KEY.to_owned()
}

/// Key of the topology's record.
pub(crate) fn topology_key() -> String {
    format!("topology/{TOPOLOGY_NAME}")
}

/// Key of the record of what changes with the links of a large topology.
pub(crate) fn links_key() -> String {
    LINKS_KEY.to_owned()
}

/// Key of a silence's record.
pub(crate) fn silence_key(name: &str) -> String {
    format!("silence/{name}")
}

/// Key of a retirement's record.
pub(crate) fn retirement_key(node: &str) -> String {
    format!("retirement/{node}")
}

/// Key of a group's record.
pub(crate) fn drain_key(name: &str) -> String {
    format!("drain/{name}")
}

pub(crate) fn group_key(name: &str) -> String {
    format!("group/{name}")
}

/// Key of a membership's record.
pub(crate) fn member_key(group: &str, host: &str) -> String {
    format!("member/{group}/{host}")
}
