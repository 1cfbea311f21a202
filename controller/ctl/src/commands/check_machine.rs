// SPDX-License-Identifier: Apache-2.0
//! `check --pre`: whether this machine has what it needs before anything of Canopy runs on it.

use std::io::Write;
use std::path::Path;

use canopy_machine::{Machine, Verdict};

use super::check::{Check, Outcome, report};
use crate::cli::{CheckArgs, MachineRole, PreArgs};
use crate::failure::{Exit, Failure};
use crate::output::clean;

/// Ports at which the documents let a controller listen: for agents, for programs, for browsers.
const PORTS: [u16; 3] = [8641, 8642, 8643];

/// See the module.
///
/// # Errors
/// A requirement is not met, or cannot be checked.
pub fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<(), Failure> {
    report(&checks(Path::new("/"), &args.machine), args.output, Exit::Error, out)
}

fn checks(root: &Path, args: &PreArgs) -> Vec<Check> {
    let machine = Machine::at(root);
    let (mut found, docs) = match args.role {
        MachineRole::Node => (machine.for_node(), "docs/installation.md#a-node"),
        MachineRole::Host => (machine.for_host(), "docs/installation.md#a-host"),
        MachineRole::Controller => {
            let ports = if args.port.is_empty() { &PORTS } else { args.port.as_slice() };
            (machine.for_controller(&args.state_dir, ports), "docs/installation.md#a-controller")
        }
    };
    found.extend(args.interface.iter().map(|name| machine.interface(name, args.mtu)));
    let line = |check: canopy_machine::Check| {
        let (result, hint) = match check.verdict {
            Verdict::Met => (Outcome::Ok, String::new()),
            Verdict::Missing(fix) => (Outcome::Fails, fix),
            Verdict::Unknown(how) => (Outcome::CannotBeChecked, how),
        };
        Check { name: check.name, result, detail: clean(&check.found), hint: hint.into(), docs }
    };
    found.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{CheckOutput, Cli, Command};

    fn args(line: &str) -> CheckArgs {
        match Cli::try_parse_from(format!("canopyctl check --pre {line}").split_whitespace()).ok().unwrap().command {
            Command::Check(args) => args,
            _ => unreachable!(),
        }
    }

    fn results(root: &Path, line: &str) -> Vec<(&'static str, Outcome)> {
        checks(root, &args(line).machine).into_iter().map(|check| (check.name, check.result)).collect()
    }

    /// Catches a role that has the checks of another one, and what cannot be read that counts as met.
    #[test]
    fn on_a_machine_of_which_nothing_is_known_no_check_is_ok() {
        use Outcome::{CannotBeChecked, Fails};
        let root = tempfile::tempdir().unwrap();
        let of = |line: &str| results(root.path(), line);
        assert_eq!(
            of(""),
            [
                ("kernel release", Fails),
                ("kernel BTF", Fails),
                ("traffic control", CannotBeChecked),
                ("SRv6", CannotBeChecked),
                ("bpffs", CannotBeChecked),
                ("capabilities", CannotBeChecked),
                ("IPv6", Fails),
                ("switches of the network", Fails),
                ("UDP port", CannotBeChecked),
            ]
        );
        assert_eq!(
            of("--role host --interface eth1"),
            [
                ("IPv6", Fails),
                ("RDMA device", Fails),
                ("GID of RoCEv2", Fails),
                ("locked memory", CannotBeChecked),
                ("interface", Fails)
            ]
        );
        let controller = of("--role controller");
        let names: Vec<_> = controller.iter().map(|(name, _)| *name).collect();
        let expected =
            ["state directory", "free space", "TCP port", "TCP port", "TCP port", "clock", "memory", "open files"];
        assert_eq!(names, expected);
        // The clock is this machine's, and there is space where the root is.
        let read = controller.iter().filter(|(name, _)| !["clock", "free space"].contains(name));
        assert!(read.clone().all(|(_, result)| *result != Outcome::Ok), "{controller:?}");
        assert_eq!(of("--role controller --port 1 --port 2").len(), 7);
    }

    #[test]
    fn what_is_missing_has_a_hint_and_where_to_read_on() {
        let root = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        let found = checks(root.path(), &args("").machine);
        let failure = report(&found, CheckOutput::Text, Exit::Error, &mut out).unwrap_err();
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Error, "of 9 checks 4 fail and 5 cannot be made"));
        let text = String::from_utf8(out).unwrap();
        let line = "cannot be checked  bpffs                    the mounts cannot be read\n";
        let hint = format!("{:44}mount /proc; see docs/installation.md#a-node\n", "");
        assert!(text.contains(&format!("{line}{hint}")), "{text}");
    }
}
