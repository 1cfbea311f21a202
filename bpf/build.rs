// SPDX-License-Identifier: Apache-2.0
//! Compiles the BPF objects and generates their skeletons and types.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=c");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut args = vec!["-Wall".into(), "-Wextra".into(), "-Wno-unused-parameter".into(), "-mcpu=v3".into()];
    // Kernel headers include <asm/types.h>, which Debian keeps in the multiarch directory.
    if let Ok(o) = Command::new("gcc").arg("-print-multiarch").output() {
        args.push(format!("-I/usr/include/{}", String::from_utf8_lossy(&o.stdout).trim()));
    }
    for name in ["node", "pacer", "steer"] {
        let source = Path::new("c").join(format!("{name}.bpf.c"));
        let (object, skeleton) = (out.join(format!("{name}.bpf.o")), out.join(format!("{name}.skel.rs")));
        let mut builder = SkeletonBuilder::new();
        // Tests read the layout of the maps' types from the object.
        if let Err(e) = builder.source(&source).obj(&object).clang_args(args.clone()).build_and_generate(&skeleton) {
            panic!("cannot compile bpf/{} (needs clang >= 14, linux-libc-dev): {e:#}", source.display());
        }
    }
    if std::env::var_os("CARGO_FEATURE_TESTBED").is_some() {
        let other = (other_layout(&out.join("other")), out.join("other.bpf.o"));
        for (source, object) in [other, ("c/by_hand.bpf.c".into(), out.join("by_hand.bpf.o"))] {
            if let Err(e) = SkeletonBuilder::new().source(&source).obj(&object).clang_args(args.clone()).build() {
                panic!("cannot compile {}: {e:#}", source.display());
            }
        }
    }
}

/// Writes the node's C with the maps of another version: fields in another order, one that this version does not have, other numbers of
/// the roles, and two maps that only one of the versions has.
fn other_layout(to: &Path) -> PathBuf {
    const CHANGES: [(&str, &str); 7] = [
        ("\t__u32 group_id;\n\t__u32 epoch;\n", "\t__u64 of_another_version;\n\t__u32 epoch;\n\t__u32 group_id;\n"),
        ("\t__u64 high;\t\t\t/* highest data PSN forwarded + 1; 0 = no data yet */\n", ""),
        ("\t__u64 late_from;\n", "\t__u64 of_another_version;\n\t__u64 late_from;\n\t__u64 high;\n"),
        (
            "\t__u64 packets;\n\t__u64 bytes;\n\t__u64 last_received_ns;",
            "\t__u64 bytes;\n\t__u64 packets;\n\t__u64 of_another_version;\n\t__u64 last_received_ns;",
        ),
        ("\t__u64 key;\n\t__u64 msn;\n\t__u64 credits;\n", "\t__u64 credits;\n\t__u64 msn;\n\t__u64 key;\n"),
        ("ROLE_HEADEND = 0,", "ROLE_HEADEND = 4,"),
        ("ROLE_FEEDBACK = 4,", "ROLE_FEEDBACK = 0,"),
    ];
    const MAPS: [(&str, &str); 3] =
        [("own_addresses", "own_elsewhere"), ("&neighbours", "&adjacent"), ("PINNED(neighbours,", "PINNED(adjacent,")];
    for part in ["", "common", "node"] {
        fs::create_dir_all(to.join(part)).expect("OUT_DIR is writable");
        for file in fs::read_dir(Path::new("c").join(part)).expect("bpf/c is there") {
            let from = file.expect("bpf/c is readable").path();
            if let (true, Some(name)) = (from.is_file(), from.file_name()) {
                let text = fs::read_to_string(&from).expect("C is text");
                let text = MAPS.iter().fold(text, |text, (was, is)| text.replace(was, is));
                fs::write(to.join(part).join(name), text).expect("OUT_DIR is writable");
            }
        }
    }
    let shared = to.join("node/shared.h");
    let mut text = fs::read_to_string(&shared).expect("bpf/c/node/shared.h is there");
    for (was, is) in CHANGES {
        assert!(text.contains(was), "bpf/build.rs: shared.h has no {was:?} to change");
        text = text.replacen(was, is, 1);
    }
    fs::write(&shared, text).expect("OUT_DIR is writable");
    to.join("node.bpf.c")
}
