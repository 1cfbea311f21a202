// SPDX-License-Identifier: Apache-2.0
//! What survives a restart: the last accepted spec with its term, so that a node forwards without a controller
//! and never follows an older one.
//!
//! `spec.pb` is 8 bytes of magic, a CRC32 (big endian) of the rest, and the rest: a `WatchResponse` with a
//! snapshot, which is term, generation, digest and spec. It is read through the same door as one from the wire.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use canopy_control::pb;
use canopy_model::node_spec::NodeSpec;
use prost::Message;

/// File format 1.
const MAGIC: &[u8; 8] = b"CNPYLDG1";
const HEADER: usize = MAGIC.len() + size_of::<u32>();
/// Room for a little more than the largest spec that the link accepts.
const MAX_BYTES: u64 = canopy_agent_link::MAX_SPEC_BYTES as u64 + 4096;

/// The state directory, held by this process alone while it lives.
#[derive(Debug)]
pub struct Ledger {
    dir: PathBuf,
    _lock: File,
}

/// The state directory could not be used; says for what.
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
        Ok(Self { dir: state_dir.to_owned(), _lock: lock })
    }

    /// The stored spec. A file that is damaged, or belongs to another node than `node`, is renamed to
    /// `spec.pb.damaged` with a warning and counts as absent.
    ///
    /// # Errors
    /// The file exists and cannot be read, or cannot be renamed.
    pub fn load(&self, node: &str) -> Result<Option<NodeSpec>, LedgerError> {
        let path = self.path();
        let bytes = match read_bounded(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(LedgerError { doing: "cannot read", path, source }),
        };
        let reason = match decode(&bytes) {
            Ok(spec) if spec.base.name == node => return Ok(Some(spec)),
            Ok(spec) => format!("it is of node {:?} and this node is {node:?}", spec.base.name),
            Err(reason) => reason,
        };
        let aside = self.dir.join("spec.pb.damaged");
        tracing::error!(
            ledger = %path.display(), moved_to = %aside.display(), %reason,
            "THE LEDGER CANNOT BE USED: until a controller answers, this node is not managed, and the highest \
             term that it had accepted is forgotten. What the kernel holds keeps forwarding"
        );
        match fs::rename(&path, &aside).and_then(|()| sync_dir(&self.dir)) {
            Ok(()) => Ok(None),
            Err(source) => Err(LedgerError { doing: "cannot rename the unusable", path, source }),
        }
    }

    /// Replaces the stored spec; once this returns, it survives a power cut. After an error the old one is intact.
    ///
    /// # Errors
    /// What could not be done.
    pub fn store(&self, spec: &NodeSpec) -> Result<(), LedgerError> {
        let temporary = self.dir.join("spec.pb.tmp");
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(&encode(spec))?;
            file.sync_all()
        });
        written.map_err(|source| LedgerError { doing: "cannot write", path: temporary.clone(), source })?;
        let path = self.path();
        let replaced = fs::rename(&temporary, &path).and_then(|()| sync_dir(&self.dir));
        replaced.map_err(|source| LedgerError { doing: "cannot replace", path, source })
    }

    fn path(&self) -> PathBuf {
        self.dir.join("spec.pb")
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

fn encode(spec: &NodeSpec) -> Vec<u8> {
    let body = canopy_control::snapshot_response(spec).encode_to_vec();
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn decode(bytes: &[u8]) -> Result<NodeSpec, String> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or("it does not start with the format's magic number")?;
    let (crc, body) = rest.split_first_chunk().ok_or("it ends within its header")?;
    if u32::from_be_bytes(*crc) != crc32fast::hash(body) {
        return Err("its checksum does not match".to_owned());
    }
    let message = pb::WatchResponse::decode(body).map_err(|error| error.to_string())?;
    canopy_control::apply_update(None, message).map_err(|error| error.to_string())
}
