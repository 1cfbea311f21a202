// SPDX-License-Identifier: Apache-2.0
//! Compiles the BPF programs and embeds the object; maps are accessed by name, so that no skeleton is needed.

use std::path::PathBuf;
use std::process::Command;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("pacer.bpf.o");
    let mut args = vec!["-Wall".into(), "-Wextra".into(), "-Wno-unused-parameter".into(), "-mcpu=v3".into()];
    // Kernel headers include <asm/types.h>, which Debian keeps in the multiarch directory.
    if let Ok(o) = Command::new("gcc").arg("-print-multiarch").output() {
        args.push(format!("-I/usr/include/{}", String::from_utf8_lossy(&o.stdout).trim()));
    }
    if let Err(e) = SkeletonBuilder::new().source("bpf/pacer.bpf.c").obj(out).clang_args(args).build() {
        panic!("cannot compile host/pacer/bpf/pacer.bpf.c (needs clang >= 14, linux-libc-dev): {e:#}");
    }
}
