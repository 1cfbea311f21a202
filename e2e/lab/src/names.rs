// SPDX-License-Identifier: Apache-2.0
//! Names and paths of one instance of a lab: namespaces, pins, directories.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use canopy_model::ids::check_name;
use canopy_model::topology::Endpoint;
use serde::{Deserialize, Serialize};

/// Default directory of labs.
pub(crate) const BASE: &str = "/run/canopy-lab";
/// Mount point of the BPF file system.
pub const BPFFS: &str = "/sys/fs/bpf";
/// The lab's own pins, one directory per instance.
pub(crate) const PINS: &str = "/sys/fs/bpf/canopy-lab";
const AGENT_PINS: &str = "/sys/fs/bpf/canopy";

/// A lab on this machine: the default instance, or a named one next to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Option<String>", into = "Option<String>")]
pub struct Instance(Option<String>);

impl Instance {
    /// An instance of this name (a DNS label of at most 32 bytes); `None` is the default one.
    ///
    /// # Errors
    /// Not a label, too long, or a word that the default instance uses.
    pub fn new(name: Option<String>) -> Result<Self> {
        if let Some(name) = &name {
            check_name("--instance", name)?;
            if name.len() > 32 {
                bail!("--instance: {name:?} is longer than 32 bytes");
            }
            if ["default", "lab"].contains(&name.as_str()) {
                bail!(
                    "--instance: {name:?} belongs to the instance without a name: leave --instance away or choose another name"
                );
            }
        }
        Ok(Self(name))
    }

    /// The name, `default` for the default one.
    pub fn label(&self) -> &str {
        self.0.as_deref().unwrap_or("default")
    }

    /// True for the instance without a name.
    pub fn is_default(&self) -> bool {
        self.0.is_none()
    }

    /// The network namespace of a node or host.
    pub fn namespace(&self, device: &str) -> String {
        match &self.0 {
            None => format!("cnp-{device}"),
            Some(i) => format!("cnp-{i}-{device}"),
        }
    }

    /// The network namespace of the delay lines' interfaces. Devices are DNS labels, which never contain '_'.
    pub(crate) fn lines_namespace(&self) -> String {
        self.namespace("_delay")
    }

    /// The default directory for state, configuration and logs.
    pub fn default_dir(&self) -> PathBuf {
        Path::new(BASE).join(self.label())
    }

    /// The directory of this instance's loss programs' maps.
    pub fn pins(&self) -> PathBuf {
        Path::new(PINS).join(self.label())
    }

    /// The maps of one end of a link. bpffs reserves '.', which interface names may contain; they never contain ':'.
    pub fn end_pins(&self, end: &Endpoint) -> PathBuf {
        self.pins().join(format!("{}-{}", self.namespace(&end.device), end.port.replace('.', ":")))
    }

    /// The directory under which this instance's agents pin, one directory per node.
    pub fn agent_pins(&self) -> PathBuf {
        Path::new(AGENT_PINS).join(self.0.as_deref().unwrap_or("lab"))
    }
}

impl TryFrom<Option<String>> for Instance {
    type Error = anyhow::Error;
    fn try_from(name: Option<String>) -> Result<Self> {
        Self::new(name)
    }
}

impl From<Instance> for Option<String> {
    fn from(i: Instance) -> Self {
        i.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_do_not_share_names() {
        let one = Instance::default();
        let two = Instance::new(Some("t7".into())).unwrap();
        assert_eq!(one.namespace("n1"), "cnp-n1");
        assert_eq!(two.namespace("n1"), "cnp-t7-n1");
        assert_ne!(one.pins(), two.pins());
        assert_ne!(one.agent_pins(), two.agent_pins());
        assert_ne!(one.default_dir(), two.default_dir());
        let end = Endpoint::try_from("n1/eth0.7".to_owned()).unwrap();
        assert_eq!(two.end_pins(&end), Path::new("/sys/fs/bpf/canopy-lab/t7/cnp-t7-n1-eth0:7"));
    }

    #[test]
    fn names_that_would_leave_their_directory_or_meet_the_default_are_refused() {
        for bad in ["../x", "default", "lab", "", "A", &"a".repeat(33)] {
            assert!(Instance::new(Some(bad.into())).is_err(), "{bad:?}");
        }
    }
}
