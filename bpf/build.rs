// SPDX-License-Identifier: Apache-2.0
//! Compiles the BPF objects and generates their skeletons and types.

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
    for name in ["node", "pacer"] {
        let source = Path::new("c").join(format!("{name}.bpf.c"));
        let (object, skeleton) = (out.join(format!("{name}.bpf.o")), out.join(format!("{name}.skel.rs")));
        let mut builder = SkeletonBuilder::new();
        // Tests read the layout of the maps' types from the object.
        if let Err(e) = builder.source(&source).obj(&object).clang_args(args.clone()).build_and_generate(&skeleton) {
            panic!("cannot compile bpf/{} (needs clang >= 14, linux-libc-dev): {e:#}", source.display());
        }
    }
}
