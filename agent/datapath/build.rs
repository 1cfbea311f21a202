// SPDX-License-Identifier: Apache-2.0
//! Compiles the BPF programs and generates their skeleton and types.

use std::path::PathBuf;
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let bpf = PathBuf::from("../bpf");
    println!("cargo:rerun-if-changed={}", bpf.display());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut args = vec!["-Wall".into(), "-Wextra".into(), "-Wno-unused-parameter".into(), "-mcpu=v3".into()];
    // Kernel headers include <asm/types.h>, which Debian keeps in the multiarch directory.
    if let Ok(o) = Command::new("gcc").arg("-print-multiarch").output() {
        args.push(format!("-I/usr/include/{}", String::from_utf8_lossy(&o.stdout).trim()));
    }
    for name in ["ingress", "egress"] {
        let (source, skeleton) = (bpf.join(format!("{name}.bpf.c")), out.join(format!("{name}.skel.rs")));
        if let Err(e) = SkeletonBuilder::new().source(source).clang_args(args.clone()).build_and_generate(&skeleton) {
            panic!("cannot compile agent/bpf/{name}.bpf.c (needs clang >= 14, linux-libc-dev): {e:#}");
        }
    }
}
