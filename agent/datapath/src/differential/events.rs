// SPDX-License-Identifier: Apache-2.0
//! Random inputs for a group: mostly plausible, near the bounds of what counts, at times far off.

use std::collections::VecDeque;

use canopy_reference::aggregate::{Aggregation, EPOCH_BITS, Entry, Input, Nak, Start};

use super::{BRANCHES, RECEIVERS, TURN};

/// Two epochs that differ by this much are neither before nor after each other.
const EPOCH_HALF: u32 = 1 << (EPOCH_BITS - 1);

/// xorshift64*: the same seed gives the same events.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number of 24 bits.
    fn wide(&mut self) -> u32 {
        self.below(1 << 24) as u32
    }
}

/// Draws one input after the other.
pub(super) struct Events {
    dice: Dice,
    start: u32,
    /// Highest data PSN drawn + 1.
    high: u64,
    /// The newest epoch of the group anywhere; this node and its children may be behind it.
    newest: u32,
    /// Inputs that belong together: they come before the next random one.
    queue: VecDeque<Input>,
}

impl Events {
    /// The first packet sets the PSN of the group, so it is not a random one. At times a receiver joins late before it, or is there only
    /// when it comes again.
    pub(super) fn new(seed: u64, start: u32, epoch: u32) -> Self {
        let mut dice = Dice(seed);
        let first = Input::Data { psn: start, begins: true };
        let late = Entry { at_boundary: true, receiver: true, since: epoch + 1, ..Entry::default() };
        let fresh = Input::Ack { branch: 1, epoch: 0, psn: start.wrapping_sub(1) & 0xFF_FFFF, msn: 0, credits: 31 };
        let mut queue = VecDeque::from([Input::Leave(1), Input::Adopt(epoch + 1), Input::Join(1, late), fresh, first]);
        if dice.one_in(2) {
            queue.insert(3, Input::Data { psn: (start + 1) & 0xFF_FFFF, begins: true });
        }
        Self { dice, start, high: TURN + u64::from(start), newest: epoch + 1, queue }
    }

    /// The next input, for a group in the state of `reference`.
    pub(super) fn next(&mut self, reference: &Aggregation) -> Input {
        // A random data packet within the window may raise the highest PSN.
        self.high = self.high.max(reference.high().unwrap_or(0));
        if let Some(input) = self.queue.pop_front() {
            return input;
        }
        let branch = self.dice.below(u64::from(BRANCHES)) as u32;
        if let Some(probed) = reference.probing().next().filter(|_| self.dice.one_in(8)) {
            return self.answer_to_probe(probed);
        }
        // Whose start is lost is removed in the end, because the group waits for that.
        if let Some(lost) = (0..BRANCHES).find(|b| reference.is_lost(*b)).filter(|_| self.dice.one_in(64)) {
            return Input::Leave(lost);
        }
        let waits = reference.pending().chain(reference.probing()).next().is_some();
        if waits && reference.active().next().is_none() && self.dice.one_in(8) {
            return if self.dice.one_in(2) { Input::PendingOnly } else { self.repeat() };
        }
        match self.dice.below(200) {
            0..60 => self.data(reference),
            60..64 => Input::Data { psn: self.dice.wide(), begins: true },
            64..184 => self.feedback(branch, reference),
            184..188 => Input::Leave(branch),
            188..193 => match self.dice.below(3) {
                0 => Input::PendingOnly,
                1 => self.repeat(),
                _ => self.adopt(),
            },
            193..199 => self.join(branch),
            _ => self.exchange(branch, reference),
        }
    }

    /// Mostly the next PSN, at times a retransmission.
    fn data(&mut self, reference: &Aggregation) -> Input {
        let (low, high) = (reference.minimum().unwrap_or(self.high), self.high);
        let v = match self.dice.below(16) {
            0 => low + self.dice.below(high - low + 1),
            1 => high.saturating_sub(1 + self.dice.below(3)),
            _ => high + self.dice.below(8) / 7,
        };
        self.high = high.max(v + 1);
        Input::Data { psn: v as u32 & 0xFF_FFFF, begins: self.dice.one_in(3) }
    }

    fn feedback(&mut self, branch: u32, reference: &Aggregation) -> Input {
        let (epoch, psn) = (self.epoch(branch, reference), self.psn(branch, reference));
        let msn = self.dice.wide();
        match self.dice.below(60) {
            0..2 => Input::Fatal { branch, epoch, psn, syndrome: 0x61 + self.dice.below(4) as u8 },
            2..41 => Input::Ack { branch, epoch, psn, msn, credits: self.dice.below(32) as u8 },
            41..53 => Input::Nak { branch, epoch, psn, msn, nak: Nak::Sequence },
            _ => Input::Nak { branch, epoch, psn, msn, nak: Nak::Rnr(self.dice.below(32) as u8) },
        }
    }

    /// A PSN, mostly in those of the branch.
    fn psn(&mut self, branch: u32, reference: &Aggregation) -> u32 {
        let (low, high) = (reference.minimum().unwrap_or(self.high), self.high);
        let shift = reference.copies().find(|(b, _)| *b == branch).map_or(0, |(_, shift)| shift as u32);
        let v = match self.dice.below(20) {
            0 => high + 1 + self.dice.below(4),
            1 => low.saturating_sub(self.dice.below(1 << 23)),
            2 => self.dice.below(1 << 26),
            _ => low + self.dice.below(high.saturating_sub(low) + 1),
        };
        (v as u32).wrapping_sub(shift) & 0xFF_FFFF
    }

    /// An epoch as a child node may send it: mostly the newest; too old, the oldest and the newest that count, ahead; as far as that
    /// the order turns round; any.
    fn epoch(&mut self, branch: u32, reference: &Aggregation) -> u32 {
        let (since, own) = (reference.since(branch).unwrap_or(self.newest), reference.epoch());
        let epoch = match self.dice.below(24) {
            0 => since.wrapping_sub(1 + self.dice.below(3) as u32),
            1 => since,
            2..5 => since.wrapping_add(self.dice.below(u64::from(own.saturating_sub(since)) + 1) as u32),
            5 => own,
            6 => own.wrapping_add(1 + self.dice.below(3) as u32),
            7 => since.wrapping_add(EPOCH_HALF - 1 + self.dice.below(2) as u32),
            8 => own.wrapping_sub(EPOCH_HALF - 1 + self.dice.below(3) as u32),
            9 => self.dice.wide(),
            _ => self.newest,
        };
        epoch & (2 * EPOCH_HALF - 1)
    }

    /// What a probed queue pair answers: at times that it is fresh.
    fn answer_to_probe(&mut self, branch: u32) -> Input {
        let psn = self.start;
        match self.dice.below(4) {
            0 => Input::Ack { branch, epoch: 0, psn: psn.wrapping_sub(1) & 0xFF_FFFF, msn: 0, credits: 31 },
            1 => Input::Nak { branch, epoch: 0, psn, msn: 0, nak: Nak::Sequence },
            2 => Input::Nak { branch, epoch: 0, psn, msn: 0, nak: Nak::Rnr(3) },
            _ => Input::Ack { branch, epoch: 0, psn, msn: 0, credits: 31 },
        }
    }

    /// Twice, because the first one only finds out that something passed before it; often a new program is what they follow.
    fn repeat(&mut self) -> Input {
        let adopted = self.adopt();
        self.queue.extend(self.dice.one_in(2).then_some(adopted));
        self.queue.extend(self.dice.below(3).ne(&0).then_some(Input::Repeat));
        Input::Repeat
    }

    /// At times an older epoch than that of the child nodes.
    fn adopt(&mut self) -> Input {
        Input::Adopt(self.newest.saturating_sub(self.dice.below(2) as u32))
    }

    /// A branch joins, mostly with the program that adds it, in a new epoch or not.
    fn join(&mut self, branch: u32) -> Input {
        self.newest += match self.dice.below(12) {
            0..4 => 1,
            4 => self.dice.below(2_000) as u32,
            _ => 0,
        };
        let receiver = branch < RECEIVERS;
        let at_boundary = self.dice.one_in(2);
        // At times a receiver whose node lost its state.
        let restored = receiver && !at_boundary && self.dice.one_in(2);
        let start = Start { shift: self.dice.wide(), msn_base: self.dice.wide() };
        let start = if restored { start } else { Start::default() };
        let lost = receiver && at_boundary && self.dice.one_in(16);
        let join = Input::Join(branch, Entry { at_boundary, receiver, since: self.newest, start, lost });
        if self.dice.one_in(4) {
            return join;
        }
        self.queue.push_back(join);
        Input::Adopt(self.newest)
    }

    /// At times all branches leave and others join: the group has only pending ones for a while.
    fn exchange(&mut self, branch: u32, reference: &Aggregation) -> Input {
        if self.dice.one_in(3) {
            self.queue.extend(reference.active().map(Input::Leave));
            for branch in [branch, (branch + 3) % BRANCHES] {
                let late =
                    Entry { at_boundary: true, receiver: branch < RECEIVERS, since: self.newest, ..Entry::default() };
                self.queue.push_back(Input::Join(branch, late));
            }
        }
        Input::PendingOnly
    }
}
