// SPDX-License-Identifier: Apache-2.0
//! Lists the files of the web UI, so that they are part of the controller's program. They are checked in, built: a build of the
//! controller needs neither Node nor a network.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dist = Path::new("../../web/dist").canonicalize()?;
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    collect(&dist, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let path = file.strip_prefix(&dist)?.to_str().ok_or("the name of a file is not UTF-8")?;
        writeln!(table, "(\"/{path}\", include_bytes!({file:?}).as_slice()),")?;
    }
    table.push(']');
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("ui_files.rs"), table)?;
    Ok(())
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
