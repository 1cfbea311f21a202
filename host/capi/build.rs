// SPDX-License-Identifier: Apache-2.0
//! The name by which programs that link to the shared library find it when they start. Packages give it its ABI's version by
//! `CANOPY_HOST_SONAME`; without the variable it has none, and programs find it by its file name.

fn main() {
    println!("cargo::rerun-if-env-changed=CANOPY_HOST_SONAME");
    if let Ok(name) = std::env::var("CANOPY_HOST_SONAME") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{name}");
    }
}
