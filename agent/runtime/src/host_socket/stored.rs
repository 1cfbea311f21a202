// SPDX-License-Identifier: Apache-2.0
//! Files, most of them of lines, under a first line `FORMAT CRC32`, replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Of a file of lines.
const MAX_BYTES: u64 = 4 << 20;

/// The entries of a file; none if there is no file. An unusable file is renamed, and an error with the `consequence` logged.
pub(super) fn load<T>(path: &Path, format: &str, entry: fn(&str) -> Option<T>, consequence: &str) -> Vec<T> {
    let lines = |octets| {
        let text = String::from_utf8(octets).map_err(|error| error.to_string())?;
        text.lines().map(|line| entry(line).ok_or_else(|| format!("line {line:?}"))).collect()
    };
    load_octets(path, format, MAX_BYTES, lines, consequence).unwrap_or_default()
}

/// What is behind the first line of a file of at most `most` octets, as `made` of it; `None` if there is no file. An unusable file is renamed,
/// and an error with the `consequence` logged.
pub(super) fn load_octets<T>(
    path: &Path,
    format: &str,
    most: u64,
    made: impl FnOnce(Vec<u8>) -> Result<T, String>,
    consequence: &str,
) -> Option<T> {
    let read = read(path, format, most).and_then(|octets| octets.map(made).transpose());
    read.unwrap_or_else(|reason| {
        let moved = fs::rename(path, path.with_extension("damaged"));
        tracing::error!(file = %path.display(), %reason, ?moved, "cannot use the file: {consequence}");
        None
    })
}

fn read(path: &Path, format: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
    match fs::metadata(path) {
        Ok(found) if found.len() > most => return Err(format!("it is larger than {most} bytes")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let mut head = fs::read(path).map_err(|error| error.to_string())?;
    let end = head.iter().position(|octet| *octet == b'\n').ok_or("it has no first line")?;
    let content = head.split_off(end + 1);
    if head != first_line(format, &content).as_bytes() {
        return Err("its first line does not match its content".to_owned());
    }
    Ok(Some(content))
}

fn first_line(format: &str, content: &[u8]) -> String {
    format!("{format} {:08x}\n", crc32fast::hash(content))
}

/// Replaces the file, which the agent's user alone can read; after an error the old one is intact.
pub(super) fn store(path: &Path, format: &str, content: impl AsRef<[u8]>) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    // One that an agent of an earlier version has left has another mode.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(first_line(format, content.as_ref()).as_bytes())?;
    file.write_all(content.as_ref())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
