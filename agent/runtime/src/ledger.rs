// SPDX-License-Identifier: Apache-2.0
//! What survives a restart: the last accepted spec with its term, so that a node forwards without a controller
//! and never follows an older one.
//!
//! `spec.log` is 8 bytes of magic and records: the length of the body and its CRC32 (big endian), and the body, a
//! `WatchResponse`. The first records are the pages of a snapshot, later ones are deltas: a change of one group costs one group.
//! Items are stored as they were received, and read through the same door as those from the wire, so that fields of a later
//! version survive a restart. The log is written anew when its deltas are longer than its snapshot.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use canopy_control::{Accepted, HeldSpec, Staged, apply_update, delta_response, pb, snapshot_responses};
use prost::Message;

/// File format 2.
const MAGIC: &[u8; 8] = b"CNPYLDG2";
const RECORD_HEADER: usize = 2 * size_of::<u32>();
/// Longest log that is read: the largest snapshot twice, and its headers.
const MAX_BYTES: u64 = 3 * canopy_control::staged::MAX_SNAPSHOT_OCTETS as u64;
/// Deltas that never cause a new log, however short the snapshot, octets.
const MIN_DELTAS: u64 = 64 << 10;

/// The state directory, held by this process alone while it lives.
#[derive(Debug)]
pub struct Ledger {
    dir: PathBuf,
    log: Mutex<Option<Log>>,
    _lock: File,
}

/// The log that is being appended to.
#[derive(Debug)]
struct Log {
    file: File,
    held: HeldSpec,
    /// Octets of magic and snapshot, and of everything.
    snapshot: u64,
    length: u64,
}

/// An operation on the state directory failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {}", path.display())]
pub struct LedgerError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl Ledger {
    /// Opens `state_dir`, making it if need be.
    ///
    /// # Errors
    /// The directory cannot be made, or another agent holds it.
    pub fn open(state_dir: &Path) -> Result<Self, LedgerError> {
        let fail = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| LedgerError { doing, path, source }
        };
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(state_dir);
        made.map_err(fail("cannot make state_dir", state_dir))?;
        let path = state_dir.join("agent.lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(fail("cannot open", &path))?;
        lock.try_lock()
            .map_err(io::Error::from)
            .map_err(fail("is another canopy-agent running? Cannot lock", &path))?;
        Ok(Self { dir: state_dir.to_owned(), log: Mutex::new(None), _lock: lock })
    }

    /// The stored spec. A last record that was not written whole is dropped with a warning: nothing was done with it. A file that
    /// is damaged, or belongs to another node than `node`, is renamed to `spec.log.damaged` with an error and counts as absent.
    ///
    /// # Errors
    /// The file exists and cannot be read, or cannot be renamed.
    pub fn load(&self, node: &str) -> Result<Option<HeldSpec>, LedgerError> {
        let path = self.path();
        let bytes = match read_bounded(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(LedgerError { doing: "cannot read", path, source }),
        };
        let reason = match replay(&bytes) {
            Ok((held, dropped)) if held.spec().base.name == node => {
                if dropped > 0 {
                    let (term, generation) = (held.spec().term, held.spec().generation);
                    tracing::warn!(
                        ledger = %path.display(), dropped, term, generation,
                        "the last record of the ledger was not written whole; the node continues from the one before it"
                    );
                }
                return Ok(Some(held));
            }
            Ok((held, _)) => format!("it belongs to node {:?} and this node is {node:?}", held.spec().base.name),
            Err(reason) => reason,
        };
        let aside = self.dir.join("spec.log.damaged");
        tracing::error!(
            ledger = %path.display(), moved_to = %aside.display(), %reason,
            "cannot use the ledger: the node is not managed until a controller answers, and the highest term that it had \
             accepted is lost. What the kernel holds continues to forward"
        );
        match fs::rename(&path, &aside).and_then(|()| sync_dir(&self.dir)) {
            Ok(()) => Ok(None),
            Err(source) => Err(LedgerError { doing: "cannot rename the unusable", path, source }),
        }
    }

    /// Stores `held`; once this returns, it survives a power cut. After an error what was stored before is intact. Costs what
    /// changed since the last call, and now and then, after that many changes, the whole.
    ///
    /// # Errors
    /// What could not be done.
    pub fn store(&self, held: &HeldSpec) -> Result<(), LedgerError> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // A log that a write failed on is not appended to again.
        if let Some(mut open) = log.take()
            && open.length - open.snapshot < MIN_DELTAS.max(open.snapshot)
        {
            let failed = |source| LedgerError { doing: "cannot append to", path: self.path(), source };
            open.append(held).map_err(failed)?;
            *log = Some(open);
            return Ok(());
        }
        *log = Some(self.write_anew(held)?);
        Ok(())
    }

    /// Removes what is stored: the node has left, and one of its name that comes back starts with nothing.
    ///
    /// # Errors
    /// The file is there and stays.
    pub fn forget(&self) -> Result<(), LedgerError> {
        *self.log.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let path = self.path();
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => {
                let removed = removed.and_then(|()| sync_dir(&self.dir));
                removed.map_err(|source| LedgerError { doing: "cannot remove", path, source })
            }
        }
    }

    /// Size of the log on the disk; `None` while there is none.
    pub fn octets(&self) -> Option<u64> {
        fs::metadata(self.path()).ok().map(|file| file.len())
    }

    fn write_anew(&self, held: &HeldSpec) -> Result<Log, LedgerError> {
        let temporary = self.dir.join("spec.log.tmp");
        let written = (|| {
            let mut file = File::options().create(true).truncate(true).read(true).write(true).open(&temporary)?;
            let mut bytes = MAGIC.to_vec();
            snapshot_responses(held).iter().for_each(|page| bytes.extend(record(page)));
            file.write_all(&bytes)?;
            file.sync_all()?;
            Ok((file, bytes.len() as u64))
        })();
        let (file, length) =
            written.map_err(|source| LedgerError { doing: "cannot write", path: temporary.clone(), source })?;
        let path = self.path();
        let replaced = fs::rename(&temporary, &path).and_then(|()| sync_dir(&self.dir));
        replaced.map_err(|source| LedgerError { doing: "cannot replace", path, source })?;
        Ok(Log { file, held: held.clone(), snapshot: length, length })
    }

    fn path(&self) -> PathBuf {
        self.dir.join("spec.log")
    }
}

impl Log {
    /// On an error the file is as long as before, or its last record is one that [`replay`] drops.
    fn append(&mut self, held: &HeldSpec) -> io::Result<()> {
        let name = (held.spec().term, held.spec().generation);
        let bytes = record(&delta_response(name, self.held.items(), held.items()));
        let appended = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| {
            self.file.write_all(&bytes)?;
            self.file.sync_data()
        });
        if appended.is_err() {
            _ = self.file.set_len(self.length);
        }
        appended?;
        self.length += bytes.len() as u64;
        self.held = held.clone();
        Ok(())
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A rename is durable only once its directory is.
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn record(update: &pb::WatchResponse) -> Vec<u8> {
    let body = update.encode_to_vec();
    let mut bytes = Vec::with_capacity(RECORD_HEADER + body.len());
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// The spec after all records, and the octets of a last record that was not written whole.
fn replay(bytes: &[u8]) -> Result<(HeldSpec, usize), String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let mut rest = bytes.strip_prefix(MAGIC).ok_or("it does not start with the format's magic number")?;
    let (mut held, mut staged): (Option<HeldSpec>, Option<Staged>) = (None, None);
    while !rest.is_empty() {
        let Some((body, behind)) = split_record(rest) else {
            return match held {
                Some(held) if is_torn(rest) => Ok((held, rest.len())),
                _ => Err("a record's checksum does not match".to_owned()),
            };
        };
        let message = pb::WatchResponse::decode(body).map_err(|error| error.to_string())?;
        if let Accepted::Spec(next) = apply_update(held.as_ref(), &mut staged, message).map_err(|e| e.to_string())? {
            held = Some(*next);
        }
        rest = behind;
    }
    match held {
        Some(held) if staged.is_none() => Ok((held, 0)),
        _ => Err("its snapshot is not complete".to_owned()),
    }
}

/// The body of the first record, if it is whole, and what is behind it.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (crc, rest) = rest.split_first_chunk()?;
    let (body, behind) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    (u32::from_be_bytes(*crc) == crc32fast::hash(body)).then_some((body, behind))
}

/// Nothing that was written whole can be behind the record that `bytes` begin with: it ends with the file, or beyond it.
fn is_torn(bytes: &[u8]) -> bool {
    let length = bytes.split_first_chunk().map_or(usize::MAX, |(length, _)| u32::from_be_bytes(*length) as usize);
    length.saturating_add(RECORD_HEADER) >= bytes.len()
}
