// SPDX-License-Identifier: Apache-2.0
//! Parts of the kernel that may be built in, be modules, or be absent.

use std::path::Path;

use crate::{Check, Machine};

/// Where a part of the kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    BuiltIn,
    Module,
    Absent,
    Unknown,
}

impl Machine<'_> {
    /// The kernel has the queueing discipline and the classifier by which programs of nodes are attached.
    pub(crate) fn traffic_control(&self) -> Check {
        let name = "traffic control";
        let parts = [("sch_ingress", "clsact_init", "NET_SCH_INGRESS"), ("cls_bpf", "cls_bpf_classify", "NET_CLS_BPF")];
        let places = parts.map(|(module, symbol, config)| (module, config, self.place(module, symbol)));
        let of = |wanted: Place| {
            let found = places.iter().filter(|(.., place)| *place == wanted);
            found.map(|(module, config, _)| (*module, *config)).collect::<Vec<_>>()
        };
        let names = |parts: &[(&str, &str)]| parts.iter().map(|part| part.0).collect::<Vec<_>>().join(", ");
        let (absent, unknown) = (of(Place::Absent), of(Place::Unknown));
        if !absent.is_empty() {
            let wanted: Vec<String> = absent.iter().map(|(_, config)| format!("CONFIG_{config}=y or =m")).collect();
            let fix = format!("boot a kernel that was built with {}", wanted.join(" and "));
            return Check::missing(name, format!("{} not in this kernel", names(&absent)), fix);
        }
        if !unknown.is_empty() {
            let found = format!("{} not loaded, and no list of modules here", names(&unknown));
            return Check::unknown(
                name,
                found,
                format!("on the host of the container: modprobe -a {}", names(&unknown).replace(',', "")),
            );
        }
        Check::met(name, format!("{} present", parts.map(|part| part.0).join(", ")))
    }

    /// The kernel has lightweight tunnels of SRv6, which the routes of a node to its SIDs are.
    pub(crate) fn srv6(&self) -> Check {
        let name = "SRv6";
        match self.symbol("seg6_local_input") {
            Some(true) => Check::met(name, "present"),
            Some(false) => Check::missing(
                name,
                "no seg6_local_input in this kernel",
                "boot a kernel that was built with CONFIG_IPV6_SEG6_LWTUNNEL=y",
            ),
            None => Check::unknown(
                name,
                "/proc/kallsyms has no names here",
                "on the host of the container: grep SEG6_LWTUNNEL /boot/config-$(uname -r)",
            ),
        }
    }

    fn place(&self, module: &str, symbol: &str) -> Place {
        if self.within(Path::new("/sys/module")).join(module).exists() {
            return Place::Module;
        }
        let lists = format!("lib/modules/{}", self.kernel_release());
        let file = format!("/{module}.ko");
        let lists = |list: &str| self.read(&format!("{lists}/{list}")).ok().map(|names| names.contains(&file));
        match (lists("modules.builtin"), lists("modules.dep"), self.symbol(symbol)) {
            (Some(true), ..) | (.., Some(true)) => Place::BuiltIn,
            (_, Some(true), _) => Place::Module,
            (_, Some(false), _) => Place::Absent,
            (_, None, _) => Place::Unknown,
        }
    }

    /// Whether the running kernel has this symbol; `None` if it names none.
    fn symbol(&self, symbol: &str) -> Option<bool> {
        let names = self.read("proc/kallsyms").ok().filter(|names| !names.is_empty())?;
        Some(names.lines().any(|line| line.split_ascii_whitespace().nth(2) == Some(symbol)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::root;

    const RELEASE: (&str, &str) = ("proc/sys/kernel/osrelease", "6.1.0\n");
    const SYMBOLS: &str = "proc/kallsyms";
    const BUILT_IN: &str = "lib/modules/6.1.0/modules.builtin";
    const MODULES: &str = "lib/modules/6.1.0/modules.dep";

    fn traffic_control(files: &[(&str, &str)]) -> Check {
        Machine::at(root(&[&[RELEASE], files].concat()).path()).traffic_control()
    }

    #[test]
    fn traffic_control_may_be_built_in_loaded_or_a_module() {
        let both = "kernel/net/sched/sch_ingress.ko.xz:\nkernel/net/sched/cls_bpf.ko.xz:\n";
        for files in [
            &[(SYMBOLS, "0000 t clsact_init\n0000 T cls_bpf_classify\n")][..],
            &[(BUILT_IN, both)],
            &[(MODULES, both)],
            &[("sys/module/sch_ingress/refcnt", ""), ("sys/module/cls_bpf/refcnt", ""), (MODULES, "")],
            &[("sys/module/sch_ingress/refcnt", ""), (SYMBOLS, "0000 T cls_bpf_classify [cls_bpf]\n")],
        ] {
            assert!(traffic_control(files).is_met(), "{files:?}");
        }
    }

    /// Catches a part whose absence nothing proves and that counts as present, or as absent.
    #[test]
    fn a_part_is_absent_only_where_the_kernel_lists_its_modules() {
        let absent = traffic_control(&[(SYMBOLS, "0000 t clsact_init\n"), (MODULES, "kernel/x.ko:\n")]);
        assert_eq!(absent.found, "cls_bpf not in this kernel");
        assert_eq!(
            absent.verdict,
            Verdict::Missing("boot a kernel that was built with CONFIG_NET_CLS_BPF=y or =m".into())
        );
        let unknown = traffic_control(&[(SYMBOLS, "0000 t clsact_init\n")]);
        assert!(matches!(unknown.verdict, Verdict::Unknown(how) if how.ends_with("modprobe -a cls_bpf")));
    }

    #[test]
    fn srv6_is_known_by_the_symbols_of_the_kernel() {
        let srv6 = |symbols: &str| Machine::at(root(&[(SYMBOLS, symbols)]).path()).srv6().verdict;
        assert_eq!(srv6("0000 t seg6_local_input\n"), Verdict::Met);
        assert!(matches!(srv6("0000 t seg6_local_input_core\n"), Verdict::Missing(_)));
        assert!(matches!(srv6(""), Verdict::Unknown(_)));
    }
}
