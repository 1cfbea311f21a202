// SPDX-License-Identifier: Apache-2.0
//! The lab file: a topology plus the properties of each simulated link (MTU, rate, loss, delay).

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use canopy_model::FieldErrors;
use canopy_model::ids::check_name;
use canopy_model::topology::{Endpoint, HostDecl, LinkBuffer, LinkDecl, NodeDecl, TopologySpec};
use canopy_units::{Octets, nanos};
use serde::{Deserialize, Serialize};

use crate::units::{Delay, Loss, Rate};

/// Most nodes and hosts of one lab, which all run on one kernel.
pub const MAX_DEVICES: usize = 1024;
/// Links of one lab.
pub const MAX_LINKS: usize = 4096;
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A lab as its author writes it, `kind: Lab`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LabFile {
    /// Always `canopy/v1`.
    pub api_version: String,
    /// Always `Lab`.
    pub kind: String,
    /// The lab's name.
    pub metadata: Metadata,
    /// Devices and wires.
    pub spec: LabSpec,
}

/// The metadata of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// A DNS label.
    pub name: String,
}

/// Devices and wires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct LabSpec {
    /// Forwarding nodes; each gets a real agent.
    pub nodes: Vec<NodeDecl>,
    /// RDMA hosts.
    #[serde(default)]
    pub hosts: Vec<HostDecl>,
    /// Properties of links that do not set their own.
    #[serde(default)]
    pub defaults: Defaults,
    /// Point-to-point wires.
    pub links: Vec<Wire>,
}

/// Properties of links that do not set their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// IPv6 MTU, bytes; 9000 if absent.
    #[serde(default = "default_mtu")]
    pub mtu: u32,
    /// Rate of each direction; unlimited if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Probability of loss, each direction.
    #[serde(default)]
    pub loss: Loss,
    /// One-way delay, each direction; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

fn default_mtu() -> u32 {
    9000
}

impl Default for Defaults {
    fn default() -> Self {
        Self { mtu: default_mtu(), rate: None, loss: Loss::default(), delay: None }
    }
}

/// One wire as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    /// One end, `device/port`.
    pub a: Endpoint,
    /// The other end.
    pub b: Endpoint,
    /// IPv6 MTU, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Rate of each direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Probability of loss, each direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// One-way delay, each direction. `0ms` is a link whose delay can be changed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// One wire with the defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// One end.
    pub a: Endpoint,
    /// The other end.
    pub b: Endpoint,
    /// IPv6 MTU, bytes.
    pub mtu: u32,
    /// Rate of each direction, if limited.
    pub rate: Option<Rate>,
    /// Probability of loss, each direction.
    pub loss: Loss,
    /// One-way delay, each direction; `None` = a plain link, whose delay cannot be changed.
    pub delay: Option<Delay>,
}

impl Link {
    /// `a--b`, the name that the API and the metrics use too.
    pub fn label(&self) -> String {
        format!("{}--{}", self.a, self.b)
    }

    /// What each end can queue: 50 ms at the rate, or three round-trip times if that is more, at least a few
    /// packets. `None` without a rate: nothing is queued.
    pub fn buffer(&self) -> Option<Octets> {
        let per_ms = Octets(self.rate?.get().bps() / 8_000);
        let time = self.delay.map_or(Duration::ZERO, |d| 6 * d.get()).max(Duration::from_millis(50));
        let few = Octets(u64::from(self.mtu) + 14) * 32;
        Some((per_ms * (nanos(time) / 1_000_000)).max(few).clamp(Octets(131_072), Octets(1 << 30)))
    }
}

impl LabFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Unreadable or larger than 4 MiB; not YAML of this shape (unknown keys are named with their path); every
    /// problem that [`LabFile::validate`] finds.
    pub fn read(path: &Path) -> Result<Self> {
        let mut text = String::new();
        let file = std::fs::File::open(path).with_context(|| format!("opening lab file {}", path.display()))?;
        let read = file
            .take(MAX_FILE_BYTES + 1)
            .read_to_string(&mut text)
            .with_context(|| format!("reading lab file {}", path.display()))?;
        if read as u64 > MAX_FILE_BYTES {
            bail!("lab file {} is larger than {MAX_FILE_BYTES} bytes", path.display());
        }
        Self::parse(&text).with_context(|| format!("lab file {}", path.display()))
    }

    /// Parses and checks a document.
    ///
    /// # Errors
    /// As [`LabFile::read`].
    pub fn parse(text: &str) -> Result<Self> {
        let file: Self = serde_yaml_ng::from_str(text)?;
        file.validate()?;
        Ok(file)
    }

    /// Checks what a lab needs beyond a valid topology, and the topology.
    ///
    /// # Errors
    /// Every problem found, each naming its field.
    pub fn validate(&self) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if self.api_version != "canopy/v1" {
            errors.push("apiVersion", format!("{:?} is not supported: use canopy/v1", self.api_version));
        }
        if self.kind != "Lab" {
            errors.push("kind", format!("{:?} is not a lab file: use kind Lab", self.kind));
        }
        if let Err(e) = check_name("metadata.name", &self.metadata.name) {
            errors.0.push(e);
        }
        if self.spec.nodes.len() + self.spec.hosts.len() > MAX_DEVICES {
            errors.push("spec.nodes", format!("more than {MAX_DEVICES} nodes and hosts do not fit one machine"));
        }
        if self.spec.links.len() > MAX_LINKS {
            errors.push("spec.links", format!("more than {MAX_LINKS} links do not fit one machine"));
        }
        for (i, wire) in self.spec.links.iter().enumerate() {
            for (side, end) in [("a", &wire.a), ("b", &wire.b)] {
                if !is_interface_name(&end.port) {
                    let why = "is not an interface name for a lab: use letters, digits, '_', '-' and '.', not lo, all or default";
                    errors.push(format!("spec.links[{i}].{side}"), format!("{:?} {why}", end.port));
                }
            }
        }
        if let Err(more) = self.topology().validate() {
            errors.0.extend(more.0);
        }
        errors.into_result()
    }

    /// The same network as a Topology document of the API.
    pub fn topology(&self) -> TopologySpec {
        let links = self.links().map(|l| LinkDecl {
            mtu: l.mtu,
            rate: l.rate.map(Rate::get).unwrap_or_default(),
            buffer: l.buffer().map(LinkBuffer::Both),
            ..LinkDecl::new(l.a, l.b)
        });
        TopologySpec { nodes: self.spec.nodes.clone(), hosts: self.spec.hosts.clone(), links: links.collect() }
    }

    /// The wires with the defaults filled in, in the file's order.
    pub fn links(&self) -> impl Iterator<Item = Link> + '_ {
        let d = self.spec.defaults;
        self.spec.links.iter().map(move |w| Link {
            a: w.a.clone(),
            b: w.b.clone(),
            mtu: w.mtu.unwrap_or(d.mtu),
            rate: w.rate.or(d.rate),
            loss: w.loss.unwrap_or(d.loss),
            delay: w.delay.or(d.delay),
        })
    }

    /// Sets the loss of every link; overrides the lab file.
    pub fn override_loss(&mut self, loss: Loss) {
        self.spec.defaults.loss = loss;
        self.spec.links.iter_mut().for_each(|w| w.loss = None);
    }

    /// Sets the MTU of every link in bytes; overrides the lab file. Call `validate` again afterwards.
    pub fn override_mtu(&mut self, mtu: u32) {
        self.spec.defaults.mtu = mtu;
        self.spec.links.iter_mut().for_each(|w| w.mtu = None);
    }
}

/// Names that are safe in `ip -batch`, in /proc/sys and as the last part of a path.
fn is_interface_name(name: &str) -> bool {
    !["lo", "all", "default", ".", ".."].contains(&name)
        && !name.starts_with('-')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "
apiVersion: canopy/v1
kind: Lab
metadata: {name: small}
spec:
  nodes: [{name: n1, id: 1}]
  hosts:
    - {name: s1, prefix: '2001:db8:1::/64', address: '2001:db8:1::1'}
    - {name: r1, prefix: '2001:db8:2::/64', address: '2001:db8:2::1'}
  defaults: {mtu: 4500, rate: 1Gbit, loss: 1%}
  links:
    - {a: s1/eth0, b: n1/eth1}
    - {a: r1/eth0, b: n1/eth2, mtu: 1500, rate: 10Mbit, loss: 0%}
";

    fn problem(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from));
        format!("{:#}", LabFile::parse(&SMALL.replacen(from, to, 1)).unwrap_err())
    }

    #[test]
    fn links_take_missing_fields_from_the_defaults() {
        let file = LabFile::parse(SMALL).unwrap();
        let links: Vec<Link> = file.links().collect();
        assert_eq!(
            (links[0].mtu, links[0].rate.unwrap().get().bps(), links[0].loss.percent()),
            (4500, 1_000_000_000, 1.0)
        );
        assert_eq!(
            (links[1].mtu, links[1].rate.unwrap().get().bps(), links[1].loss.percent()),
            (1500, 10_000_000, 0.0)
        );
        assert_eq!(file.topology().links[1].rate.bps(), 10_000_000);
        assert_eq!(file.topology().links[1].mtu, 1500);
    }

    #[test]
    fn a_delay_is_the_links_own_or_the_defaults_or_none() {
        let delays =
            |text: &str| LabFile::parse(text).unwrap().links().map(|l| l.delay.map(Delay::get)).collect::<Vec<_>>();
        let us = |us| Some(Duration::from_micros(us));
        assert_eq!(delays(SMALL), [None, None]);
        let one = SMALL.replace("rate: 10Mbit", "rate: 10Mbit, delay: 40ms");
        assert_eq!(delays(&one), [None, us(40_000)]);
        let both = one.replace("loss: 1%}", "loss: 1%, delay: 250us}");
        assert_eq!(delays(&both), [us(250), us(40_000)]);
    }

    #[test]
    fn a_queue_holds_50_ms_or_three_round_trips_and_is_reported_to_the_controller() {
        let buffers = |text: &str| {
            let file = LabFile::parse(text).unwrap();
            let reported: Vec<_> = file.topology().links.iter().map(|l| l.buffer).collect();
            let held: Vec<_> = file.links().map(|l| l.buffer()).collect();
            assert_eq!(reported, held.iter().map(|b| b.map(LinkBuffer::Both)).collect::<Vec<_>>());
            held
        };
        assert_eq!(buffers(SMALL), [6_250_000, 131_072].map(|octets| Some(Octets(octets))));
        let long = SMALL.replace("rate: 10Mbit", "rate: 10Mbit, delay: 40ms").replace(", rate: 1Gbit", "");
        assert_eq!(buffers(&long).last(), Some(&Some(Octets(300_000))));
    }

    #[test]
    fn overrides_win_over_the_links_own_fields() {
        let mut file = LabFile::parse(SMALL).unwrap();
        file.override_loss("5%".parse().unwrap());
        file.override_mtu(2000);
        assert!(file.links().all(|l| l.loss.percent() == 5.0 && l.mtu == 2000));
    }

    #[test]
    fn every_mistake_is_reported_with_its_field() {
        assert!(
            problem("mtu: 1500, rate: 10Mbit", "mtu: 1500, colour: red")
                .contains("spec.links[1]: unknown field `colour`")
        );
        assert!(
            problem("metadata: {name: small}", "metadata: {name: small, x: 1}").contains("metadata: unknown field `x`")
        );
        assert!(problem("loss: 1%", "loss: 1").contains("spec.defaults: loss: \"1\" is not a loss"));
        for bad in ["-1ms", "10.5s", "10", "soon"] {
            let error = problem("rate: 10Mbit", &format!("delay: '{bad}'"));
            assert!(
                error.contains(&format!("spec.links[1]: delay: \"{bad}\" is not a delay: use 0ms to 10s")),
                "{error}"
            );
        }
        assert!(problem("loss: 1%", "delay: 11s").contains("spec.defaults: delay: \"11s\" is not a delay"));
        assert!(problem("10Mbit", "quick").contains("spec.links[1]: rate: \"quick\" is not a rate"));
        assert!(problem("b: n1/eth2", "b: n9/eth2").contains("spec.links[1].b: unknown node or host \"n9\""));
        assert!(problem("mtu: 1500", "mtu: 1000").contains("spec.links[1].mtu"));
        assert!(problem("kind: Lab", "kind: Topology").contains("kind: \"Topology\""));
        assert!(problem("a: s1/eth0", "a: s1").contains("spec.links[0]: endpoint: \"s1\" is not device/port"));
        assert!(problem("a: s1/eth0", "a: s1/lo").contains("spec.links[0].a: \"lo\" is not an interface name"));
        assert!(problem("a: s1/eth0", "a: \"s1/x\\ny\"").contains("spec.links[0].a"));
        assert!(problem("id: 1", "id: 57344").contains("spec.nodes[0]: NodeId: 57344 is not a node id"));
    }
}
