// SPDX-License-Identifier: Apache-2.0
//! Tokens of pods that the controller has confirmed, by their digests, and how long that counts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use canopy_units::Monotonic;
use sha2::{Digest as _, Sha256};

use super::owner::{Owner, Pod};

/// How long a token counts without another question.
pub(super) const FRESH: Duration = Duration::from_secs(10);
/// How long after its last confirmation it counts while the controller or the API server does not answer.
const LASTS: Duration = Duration::from_secs(3600);
/// Tokens that are known at once.
const MAX: usize = 1024;
/// Of one pod: its own, the one before, and those of its other containers.
const MAX_OF_POD: usize = 8;
/// A confirmation is written to the file again this long after it was written: after a restart it counts for less, by as much at most.
const WRITTEN: Duration = Duration::from_secs(300);

/// SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }
}

/// The tokens.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<Digest, Confirmed>);

#[derive(Clone, Debug)]
struct Confirmed {
    pod: Pod,
    at: Monotonic,
    /// The controller is asked again then.
    ask: Monotonic,
    /// What the file has.
    written: Monotonic,
}

impl Known {
    /// Whose token it is, if the controller need not be asked.
    pub(super) fn fresh(&self, token: Digest, now: Monotonic) -> Option<Pod> {
        self.0.get(&token).filter(|known| now < known.ask).map(|known| known.pod.clone())
    }

    /// Whose token it is, if the controller was asked now and has not answered. It is asked again after a while.
    pub(super) fn unanswered(&mut self, token: Digest, now: Monotonic) -> Option<Pod> {
        let known = self.0.get_mut(&token).filter(|known| now < known.at + LASTS)?;
        known.ask = now + FRESH;
        Some(known.pod.clone())
    }

    /// Whether it was confirmed at all.
    pub(super) fn has(&self, token: Digest) -> bool {
        self.0.contains_key(&token)
    }

    /// The controller has confirmed a token. Returns whether the file has to be written.
    pub(super) fn confirm(&mut self, token: Digest, pod: Pod, now: Monotonic) -> bool {
        let before = self.0.len();
        self.0.retain(|_, known| now < known.at + LASTS);
        let mut is_changed = self.0.len() != before;
        let present = self.0.get(&token).filter(|known| known.pod == pod);
        let written = present.map(|known| known.written).filter(|written| now < *written + WRITTEN);
        if !self.0.contains_key(&token) {
            is_changed |= self.make_room(&pod);
        }
        self.0.insert(token, Confirmed { pod, at: now, ask: now + FRESH, written: written.unwrap_or(now) });
        is_changed || written.is_none()
    }

    /// The token is not valid any more. Returns whether the file has to be written.
    pub(super) fn refuse(&mut self, token: Digest) -> bool {
        self.0.remove(&token).is_some()
    }

    /// In the place of the token of the same pod that was confirmed first, or of all.
    fn make_room(&mut self, pod: &Pod) -> bool {
        let of_pod = self.0.values().filter(|known| known.pod == *pod).count();
        let is_full = self.0.len() >= MAX;
        if of_pod < MAX_OF_POD && !is_full {
            return false;
        }
        let candidates = self.0.iter().filter(|(_, known)| of_pod < MAX_OF_POD || known.pod == *pod);
        let oldest = candidates.min_by_key(|(_, known)| known.at).map(|(token, _)| *token);
        oldest.and_then(|oldest| self.0.remove(&oldest)).is_some()
    }

    /// Lines of the file. Instants mean nothing after the machine has started again: `boot` is that start.
    pub(super) fn lines(&self, boot: &str) -> String {
        let line =
            |(token, known): (&Digest, &Confirmed)| format!("{boot} {token} {} {}\n", known.written.nanos(), known.pod);
        self.0.iter().map(line).collect()
    }

    /// Takes up what an agent before has written since this start of the machine.
    pub(super) fn restore(&mut self, lines: Vec<Line>, boot: &str, now: Monotonic) {
        for Line { boot: of, token, at, pod } in lines {
            if of == boot && at <= now && now < at + LASTS && self.0.len() < MAX {
                self.0.insert(token, Confirmed { pod, at, ask: now, written: at });
            }
        }
    }
}

/// A line of the file.
#[derive(Debug)]
pub(super) struct Line {
    boot: String,
    token: Digest,
    at: Monotonic,
    pod: Pod,
}

impl Line {
    pub(super) fn read(line: &str) -> Option<Self> {
        let [boot, token, at, owner] = line.splitn(4, ' ').collect::<Vec<_>>().try_into().ok()?;
        let Ok(Owner::Pod(pod)) = owner.parse() else { return None };
        let octet = |n: usize| token.get(2 * n..2 * n + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let octets = (0..32).map(octet).collect::<Option<Vec<u8>>>().filter(|_| token.len() == 64)?;
        let token = Digest(octets.try_into().ok()?);
        Some(Self { boot: boot.to_owned(), token, at: Monotonic::from_nanos(at.parse().ok()?), pod })
    }
}

/// In hexadecimal.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

#[cfg(test)]
mod tests;
