// SPDX-License-Identifier: Apache-2.0
//! `recovered` beside the database: that acknowledged commits are lost, until an operator has taken note of it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::replace::{replace, sync_dir_of};
use crate::{Revision, StoreError};

/// Recovery from a damaged database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// When it was found, seconds since 1970.
    pub time: u64,
    /// New path of the damaged database; `None` = it was missing, or it was kept.
    pub quarantined: Option<PathBuf>,
    /// The backup that was restored; `None` = the database was kept, without its end.
    pub restored_from: Option<PathBuf>,
    /// Revision of what there is: later commits are lost.
    pub restored_revision: Revision,
    /// The damage found.
    pub detail: String,
}

impl std::fmt::Display for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { restored_revision, detail, .. } = self;
        write!(f, "changes after revision {restored_revision} are lost, make them again: {detail}")?;
        if let Some(backup) = &self.restored_from {
            write!(f, "; restored from {}", backup.display())?;
        }
        if let Some(damaged) = &self.quarantined {
            write!(f, "; the damaged database is kept in {}", damaged.display())?;
        }
        Ok(())
    }
}

const FILE: &str = "recovered";

/// The recovery that is recorded in the store's directory `dir`.
pub(crate) fn recorded(dir: &Path) -> Option<Recovery> {
    let path = dir.join(FILE);
    let text = fs::read(&path).ok()?;
    // What cannot be read was a recovery all the same.
    Some(serde_json::from_slice(&text).unwrap_or_else(|e| Recovery {
        time: 0,
        quarantined: None,
        restored_from: None,
        restored_revision: 0,
        detail: format!("{} cannot be read: {e}", path.display()),
    }))
}

/// Records a recovery durably, in the place of an earlier one; the log has both.
pub(crate) fn record(dir: &Path, recovery: &Recovery) -> Result<(), StoreError> {
    let path = dir.join(FILE);
    let text = serde_json::to_vec(recovery).expect("it has only strings and numbers");
    replace(&path, |mut file| file.write_all(&text)).map_err(StoreError::io("writing", path))
}

/// Removes the record, because an operator has taken note of it, and returns it. A controller may have the store open meanwhile.
///
/// # Errors
/// The file cannot be removed.
pub fn acknowledge_recovery(dir: &Path) -> Result<Option<Recovery>, StoreError> {
    let Some(recovery) = recorded(dir) else { return Ok(None) };
    let path = dir.join(FILE);
    let removed = fs::remove_file(&path).and_then(|()| sync_dir_of(&path));
    removed.map_err(StoreError::io("removing", path))?;
    Ok(Some(recovery))
}
