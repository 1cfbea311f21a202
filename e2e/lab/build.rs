// SPDX-License-Identifier: Apache-2.0
//! Compiles the loss program and generates its skeleton.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};
use libbpf_cargo::SkeletonBuilder;

const SOURCE: &str = "bpf/loss.bpf.c";

fn main() -> Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is set by cargo")?).join("loss.skel.rs");
    let mut args = vec!["-Wall".to_owned(), "-Werror".to_owned()];
    // Debian keeps asm/types.h under the multiarch triple, which clang does not search when it targets BPF.
    let arch = env::var("CARGO_CFG_TARGET_ARCH")?;
    args.push(format!("-I/usr/include/{arch}-linux-gnu"));
    SkeletonBuilder::new()
        .source(SOURCE)
        .clang_args(args)
        .build_and_generate(&out)
        .with_context(|| format!("building {SOURCE} (needs clang and linux-libc-dev)"))?;
    println!("cargo:rerun-if-changed={SOURCE}");
    Ok(())
}
