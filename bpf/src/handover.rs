// SPDX-License-Identifier: Apache-2.0
//! From programs and maps of one layout to those of another, under traffic and without losing a packet.
//!
//! 1. [`Handover::copy`]: the new maps get what the old ones have, field by field by name. Copied groups are marked `carrying`: they
//!    send no feedback upstream and start no pending branch, and they accept feedback for packets that the old programs forwarded.
//! 2. The caller brings the configuration in the new maps up to date.
//! 3. [`Handover::switch`]: the old array of roles gets the new programs, below filters that stay attached. Feedback goes first, so
//!    that no programs drop feedback for a packet that others forwarded. Then the state that the old programs left is merged into the
//!    new one (`carry_branch()` in `aggregate.h`), group by group, and each sends its last ACK or NAK again.
//! 4. The caller replaces the filters, and [`Handover::finish`] removes the old pins.
//!
//! A process that dies before 3 leaves the old programs in control. One that dies later leaves groups in the middle: the next one repeats
//! 3 and 4.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use libbpf_rs::btf::Btf;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapInfo, MapType};

use crate::batch::raw_batch;
use crate::error::{Context, Result};
use crate::layout::{Conversion, Layout, enumerators};
use crate::pins::{self, LAST, Place};
use crate::run::{self, run};

/// Roles in the order in which they are switched.
const SWITCHED: [&str; 4] = ["ROLE_FEEDBACK", "ROLE_HEADEND", "ROLE_REPLICATE", "ROLE_END_MT"];
/// The program of a role is `canopy_` and the role's name.
const ROLE: (&str, &str) = ("ROLE_", "canopy_");
/// Counters of a group's state: they start at 0 and are added at the end.
const STATE_COUNTERS: [&str; 7] =
    ["acks_in", "acks_out", "naks_in", "naks_out", "data_packets", "data_bytes", "fresh_packets"];
/// Counters of the branches in a group's state: they start at 0 and are added at the end, those of each branch with its slot.
static BRANCH_COUNTERS: LazyLock<Vec<[String; 3]>> = LazyLock::new(|| {
    (0..SLOTS).map(|i| ["packets", "bytes", "completed_min"].map(|name| format!("stats[{i}].{name}"))).collect()
});
/// `CANOPY_MAX_BRANCHES`.
const SLOTS: u32 = 128;
/// `CANOPY_CARRIED`: the group in whose place the state to merge is.
const CARRIED: u32 = 0;
/// The state lacks what the programs before it did.
const CARRYING: &str = "carrying";
/// Branches of a state, in words of 64 slots.
const ACTIVE: &str = "active.word";
/// Maps that are not copied as they are: the two whose entries are merged at the end, and what is decided about a packet in progress.
const NOT_COPIED: [&str; 3] = ["states", "drops", "decisions"];
/// Length of an upstream ACK frame, the longest frame that the control program writes.
const ACK_FRAME: usize = 82;
/// How long no program runs, by far, where the kernel does not report when all have ended.
const LONGEST_RUN: Duration = Duration::from_millis(100);

/// The replacement of the programs and maps of another layout, or of what is left of it.
#[derive(Debug)]
pub struct Handover {
    place: Place,
    /// One for each old directory, the last one at the end: those before it are left of handovers that were interrupted.
    sources: Vec<Source>,
    control: OwnedFd,
    ops: (u32, u32),
    switched: bool,
}

/// The maps of the groups' state in an old directory.
#[derive(Debug)]
struct Source {
    states: Pair,
    drops: Pair,
}

/// A map of both sides.
#[derive(Debug)]
struct Pair {
    name: String,
    old: MapHandle,
    new: MapHandle,
    key: Conversion,
    value: Conversion,
    old_key: Layout,
    old_value: Layout,
    new_key: Layout,
    new_value: Layout,
}

impl Pair {
    fn open(name: &str, old: &(PathBuf, Btf<'static>), new: &(PathBuf, Btf<'static>)) -> Result<Self> {
        let side = |(dir, btf): &(PathBuf, Btf<'static>)| -> Result<_> {
            let map = pins::map(dir, name)?;
            let info = MapInfo::new(map.as_fd()).with_context(|| format!("reading the types of map {name}"))?.info;
            let (key, value) = (Layout::of(btf, info.btf_key_type_id)?, Layout::of(btf, info.btf_value_type_id)?);
            Ok((map, key, value))
        };
        let ((old, old_key, old_value), (new, new_key, new_value)) = (side(old)?, side(new)?);
        let matching = || format!("matching the layouts of map {name}");
        let key = Conversion::between(&old_key, &new_key).with_context(matching)?;
        let value = Conversion::between(&old_value, &new_value).with_context(matching)?;
        Ok(Self { name: name.to_owned(), old, new, key, value, old_key, old_value, new_key, new_value })
    }

    fn flags(layout: &Layout) -> MapFlags {
        if layout.locked { MapFlags::LOCK } else { MapFlags::ANY }
    }

    /// Every entry of the old map, converted; of a per-processor map, the values of all processors.
    fn converted(&self, mut each: impl FnMut(Vec<u8>, Vec<Vec<u8>>) -> Result<()>) -> Result<()> {
        let processors = match self.old.map_type() {
            MapType::PercpuHash | MapType::PercpuArray => {
                libbpf_rs::num_possible_cpus().context("counting processors")?
            }
            _ => 1,
        };
        let mut done = Ok(());
        let size = self.old.value_size() as usize;
        raw_batch(&self.old, Self::flags(&self.old_value).bits(), processors, |key, values| {
            if done.is_ok() {
                let entry = || -> Result<_, String> {
                    let values = values.map(|v| self.value.convert(&v[..size])).collect::<Result<_, _>>()?;
                    Ok((self.key.convert(key)?, values))
                };
                done = entry()
                    .with_context(|| format!("converting an entry of map {}", self.name))
                    .and_then(|(k, v)| each(k, v));
            }
        })?;
        done
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let written = self.new.update(key, value, MapFlags::ANY);
        written.with_context(|| format!("writing map {}", self.name))
    }

    /// A value of the old map, converted.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let reading = || format!("reading map {}", self.name);
        let value = self.old.lookup(key, Self::flags(&self.old_value)).with_context(reading)?;
        value.map(|v| self.value.convert(&v)).transpose().with_context(reading)
    }

    fn get_new(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.new.lookup(key, Self::flags(&self.new_value));
        value.with_context(|| format!("reading map {}", self.name))
    }

    fn key(layout: &Layout, len: u32, fields: &[(&str, u32)]) -> Vec<u8> {
        let mut key = vec![0; len as usize];
        fields.iter().for_each(|(path, n)| layout.set(&mut key, path, (*n).into()));
        key
    }
}

impl Handover {
    /// `None` if there is nothing to hand over.
    pub(crate) fn new(place: Place) -> Result<Option<Self>> {
        if place.old.is_empty() {
            return Ok(None);
        }
        let new = side(&place.dir)?;
        let source = |old: &PathBuf| -> Result<Source> {
            let opening = || format!("handing over from {}", old.display());
            let old = side(old).with_context(opening)?;
            let pair = |name| Pair::open(name, &old, &new).with_context(opening);
            Ok(Source { states: pair("states")?, drops: pair("drops")? })
        };
        let ops = enumerators(&new.1, "canopy_control");
        let op = |name: &str| {
            ops.get(name).map(|n| *n as u32).ok_or("it is unknown").with_context(|| format!("finding {name}"))
        };
        Ok(Some(Self {
            sources: place.old.iter().map(source).collect::<Result<_>>()?,
            control: pins::program(&place.dir, "canopy_control")?,
            ops: (op("CONTROL_CARRY")?, op("CONTROL_CARRIED")?),
            switched: place.reused,
            place,
        }))
    }

    /// Fills the new maps, to which no packet comes yet. Nothing to do where an earlier process got further.
    ///
    /// # Errors
    /// A map is full, or a value does not fit.
    pub fn copy(&self) -> Result<()> {
        let Some((old, source)) = self.last().filter(|_| !self.switched) else { return Ok(()) };
        let sides = (side(old)?, side(&self.place.dir)?);
        for entry in std::fs::read_dir(&self.place.dir).context("reading the pins")? {
            let name = entry.context("reading the pins")?.file_name().to_string_lossy().into_owned();
            let Ok(map) = pins::map(&self.place.dir, &name) else { continue };
            if !old.join(&name).exists() || NOT_COPIED.contains(&&*name) {
                continue;
            }
            match map.map_type() {
                MapType::Hash | MapType::LpmTrie => {
                    let pair = Pair::open(&name, &sides.0, &sides.1)?;
                    pair.converted(|key, value| pair.put(&key, &value[0]))?;
                }
                kind @ (MapType::PercpuHash | MapType::PercpuArray) => {
                    let pair = Pair::open(&name, &sides.0, &sides.1)?;
                    let all = pair.new.max_entries();
                    let has_room = |key: &[u8]| key.first_chunk().is_some_and(|i| u32::from_ne_bytes(*i) < all);
                    pair.converted(|key, values| {
                        // All entries of an array exist.
                        let counted = values.iter().flatten().any(|octet| *octet != 0);
                        if kind == MapType::PercpuArray && !(counted && has_room(&key)) {
                            return Ok(());
                        }
                        let written = pair.new.update_percpu(&key, &values, MapFlags::ANY);
                        written.with_context(|| format!("writing map {name}"))
                    })?;
                }
                MapType::Array => {
                    let pair = Pair::open(&name, &sides.0, &sides.1)?;
                    let key = 0u32.to_ne_bytes();
                    pair.get(&key)?.map_or(Ok(()), |value| pair.put(&key, &value))?;
                }
                // Events, the programs, and what is learned again.
                _ => {}
            }
        }
        let states = &source.states;
        states.converted(|key, mut value| {
            let counters = STATE_COUNTERS.into_iter().chain(BRANCH_COUNTERS.iter().flatten().map(String::as_str));
            counters.for_each(|name| states.new_value.set(&mut value[0], name, 0));
            states.new_value.set(&mut value[0], CARRYING, 1);
            states.new_value.set(&mut value[0], "sent_next", 0);
            states.put(&key, &value[0])
        })
    }

    /// Lets the new programs take over, and merges what the old ones did until then. Called again after an error, it continues.
    ///
    /// # Errors
    /// The kernel refuses. Groups that are not merged send no feedback upstream.
    pub fn switch(&mut self) -> Result<()> {
        self.begin()?;
        wait_for_programs();
        self.merge(true)
    }

    /// The first half of [`Handover::switch`]: afterwards the new programs work, with what the old ones had shortly before.
    ///
    /// # Errors
    /// As there.
    pub fn begin(&mut self) -> Result<()> {
        // Shortly before: how far the old programs can be ahead is how long the switch takes, also if an earlier process began it.
        self.merge(false)?;
        if !self.switched {
            if self.place.dir != self.place.live {
                pins::rename(&self.place.dir, &self.place.live)?;
                self.place.dir.clone_from(&self.place.live);
            }
            self.switched = true;
        }
        self.place.old.iter().try_for_each(|old| self.replace_roles(old))
    }

    /// Removes the old pins, after the new filters are attached: an array of roles that nothing pins is cleared.
    ///
    /// # Errors
    /// A directory cannot be removed.
    pub fn finish(&self) -> Result<()> {
        self.place.old.iter().try_for_each(|old| pins::remove(old))
    }

    /// The directory from which the state comes, and the one to which it goes.
    pub fn between(&self) -> (&Path, &Path) {
        (self.place.old.last().unwrap_or(&self.place.live), &self.place.live)
    }

    fn replace_roles(&self, old: &Path) -> Result<()> {
        let roles = pins::map(old, "roles")?;
        let numbers = enumerators(&side(old)?.1, "canopy_role");
        for role in SWITCHED {
            let name = role.replace(ROLE.0, ROLE.1).to_lowercase();
            let Some(number) = numbers.get(role) else { continue };
            let program = pins::program(&self.place.dir, &name)?;
            let written =
                roles.update(&(*number as u32).to_ne_bytes(), &program.as_raw_fd().to_ne_bytes(), MapFlags::ANY);
            written.with_context(|| format!("replacing {name} in {}", old.join("roles").display()))?;
        }
        Ok(())
    }

    fn last(&self) -> Option<(&Path, &Source)> {
        Some((self.place.old.last()?, self.sources.last()?))
    }

    /// Merges every group that is still carried; `last`: the old programs have stopped, so the groups are whole afterwards.
    fn merge(&self, last: bool) -> Result<()> {
        let Some((_, Source { states, .. })) = self.last() else { return Ok(()) };
        let mut ids = Vec::new();
        raw_batch(&states.old, Pair::flags(&states.old_value).bits(), 1, |key, _| {
            ids.push(states.old_key.get(key, "", 0) as u32);
        })?;
        let mut failed = None;
        for id in ids.into_iter().filter(|id| *id != CARRIED) {
            if let Err(e) = self.merge_group(id, last) {
                failed.get_or_insert(e);
            }
        }
        let carried = Pair::key(&states.new_key, states.new.key_size(), &[]);
        states.new.delete(&carried).or_else(ignore_missing).context("deleting from map states")?;
        if let Some(e) = failed {
            return Err(e);
        }
        if last { self.sources.iter().try_for_each(Source::add_drops) } else { Ok(()) }
    }

    /// Merges what every old directory has of a group, up to the last one whose state was whole.
    fn merge_group(&self, id: u32, last: bool) -> Result<()> {
        let mut whole = None;
        for (i, source) in self.sources.iter().enumerate().rev() {
            let Some(old) = source.state(id)? else { break };
            whole = Some(i);
            if !old.1 {
                break;
            }
        }
        let (Some(whole), Some((_, Source { states, .. }))) = (whole, self.last()) else { return Ok(()) };
        let new_key = Pair::key(&states.new_key, states.new.key_size(), &[("", id)]);
        let carried = |s: &Vec<u8>| states.new_value.get(s, CARRYING, 0) != 0;
        let Some(new) = states.get_new(&new_key)?.filter(carried) else { return Ok(()) };
        let carried = Pair::key(&states.new_key, states.new.key_size(), &[]);
        let mut counted = vec![0; STATE_COUNTERS.len()];
        for source in &self.sources[whole..] {
            let Some((mut old, _)) = source.state(id)? else { continue };
            for (sum, name) in counted.iter_mut().zip(STATE_COUNTERS) {
                *sum += states.new_value.get(&old, name, 0);
                states.new_value.set(&mut old, name, *sum);
            }
            states.put(&carried, &old)?;
            // Also those that are active here only: carry_branch() bounds what they acknowledged.
            let active = |slot: &u32| {
                let word = |s| states.new_value.get(s, ACTIVE, (slot / u64::BITS) as usize);
                (word(&old) | word(&new)) >> (slot % u64::BITS) & 1 == 1
            };
            let counts = |slot: &u32| {
                last && BRANCH_COUNTERS[*slot as usize].iter().any(|name| states.new_value.get(&old, name, 0) != 0)
            };
            for slot in (0..SLOTS).filter(|slot| active(slot) || counts(slot)) {
                self.control(self.ops.0, id, slot, last)?;
            }
        }
        if last { self.control(self.ops.1, id, 0, true) } else { Ok(()) }
    }

    fn control(&self, op: u32, group: u32, slot: u32, last: bool) -> Result<()> {
        let context = run::Context { cb: [op, group, slot, last.into(), 0], ..run::Context::default() };
        let doing = || format!("merging the state of group {group}");
        match run(self.control.as_fd(), context, &[0; ACK_FRAME]).with_context(doing)?.verdict {
            0 => Ok(()),
            other => Err(format!("the control program returned {other}")).with_context(doing),
        }
    }
}

impl Source {
    /// The state of a group as the new programs understand it, and whether it was itself carried and is not whole.
    fn state(&self, id: u32) -> Result<Option<(Vec<u8>, bool)>> {
        let states = &self.states;
        let state = states.get(&Pair::key(&states.old_key, states.old.key_size(), &[("", id)]))?;
        Ok(state.map(|s| (states.new_value.get(&s, CARRYING, 0) != 0, s)).map(|(carrying, s)| (s, carrying)))
    }

    fn add_drops(&self) -> Result<()> {
        let drops = &self.drops;
        drops.converted(|key, old| {
            let there = drops.new.lookup_percpu(&key, MapFlags::ANY).context("reading map drops")?.unwrap_or_default();
            let number = |v: &[u8]| v.first_chunk().map_or(0, |n| u64::from_ne_bytes(*n));
            let sum = |(i, old): (usize, &Vec<u8>)| number(old) + there.get(i).map_or(0, |new| number(new));
            let sums: Vec<_> = old.iter().enumerate().map(|each| sum(each).to_ne_bytes().to_vec()).collect();
            drops.new.update_percpu(&key, &sums, MapFlags::ANY).context("writing map drops")
        })
    }
}

fn side(dir: &Path) -> Result<(PathBuf, Btf<'static>)> {
    let reading = || format!("reading the BTF of the programs in {}", dir.display());
    let number = pins::loaded(dir).ok_or(format!("{LAST} is not pinned there")).with_context(reading)?;
    Ok((dir.to_owned(), Btf::from_prog_id(number as u32).with_context(reading)?))
}

fn ignore_missing(e: libbpf_rs::Error) -> libbpf_rs::Result<()> {
    if e.kind() == libbpf_rs::ErrorKind::NotFound { Ok(()) } else { Err(e) }
}

/// Returns when every program that was running has ended.
fn wait_for_programs() {
    // SAFETY: the call takes numbers only. MEMBARRIER_CMD_GLOBAL = 1 waits for a grace period of RCU, within which programs run.
    let waited = unsafe { libc::syscall(libc::SYS_membarrier, 1, 0, 0) };
    if waited != 0 {
        std::thread::sleep(LONGEST_RUN);
    }
}
