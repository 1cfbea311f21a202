// SPDX-License-Identifier: Apache-2.0
//! Small files of lines under a first line `FORMAT CRC32`, replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

const MAX_BYTES: u64 = 4 << 20;

/// The entries of a file; none if there is no file. An unusable file is renamed, and an error with the `consequence` logged.
pub(super) fn load<T>(path: &Path, format: &str, entry: fn(&str) -> Option<T>, consequence: &str) -> Vec<T> {
    read(path, format, entry).unwrap_or_else(|reason| {
        let moved = fs::rename(path, path.with_extension("damaged"));
        tracing::error!(file = %path.display(), %reason, ?moved, "cannot use the file: {consequence}");
        Vec::new()
    })
}

fn read<T>(path: &Path, format: &str, entry: fn(&str) -> Option<T>) -> Result<Vec<T>, String> {
    match fs::metadata(path) {
        Ok(found) if found.len() > MAX_BYTES => return Err(format!("it is larger than {MAX_BYTES} bytes")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        _ => {}
    }
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let (head, lines) = text.split_once('\n').ok_or("it has no first line")?;
    if head != format!("{format} {:08x}", crc32fast::hash(lines.as_bytes())) {
        return Err("its first line does not match its content".to_owned());
    }
    lines.lines().map(|line| entry(line).ok_or_else(|| format!("line {line:?}"))).collect()
}

/// Replaces the file, which the agent's user alone can read; after an error the old one is intact.
pub(super) fn store(path: &Path, format: &str, lines: &str) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    // One that an agent of an earlier version has left has another mode.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    write!(file, "{format} {:08x}\n{lines}", crc32fast::hash(lines.as_bytes()))?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
