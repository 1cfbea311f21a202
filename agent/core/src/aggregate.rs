// SPDX-License-Identifier: Apache-2.0
//! The reverse path of one group at one node, as a machine to read: what the BPF programs must do, rule by rule.
//!
//! The kernel does the same with a minimum tree in constant steps (`agent/bpf/include/aggregate.h`); here every rule is written
//! down plainly, with the number of the protocol decision that it carries out. A differential test holds the two together.
//! PSNs are unwrapped to 64 bits.

use std::collections::{BTreeMap, BTreeSet};

/// Constants of a group.
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Unwrapped start PSN, at least 2^24.
    pub start: u64,
    /// W: how far below the minimum feedback may lie, and data from the newest, packets, < 2^22.
    pub window: u64,
    /// Shortest distance between repeated upstream ACKs, ns.
    pub reack_ns: u64,
    /// Identical NAKs are merged for this long, ns.
    pub nak_merge_ns: u64,
}

/// Why a branch does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nak {
    /// PSN sequence error (syndrome 0x60).
    Sequence,
    /// Receiver not ready, with the IBTA timer code 0..=31; 0 is the longest.
    Rnr(u8),
}

impl Nak {
    /// AETH syndrome.
    pub fn syndrome(self) -> u8 {
        match self {
            Self::Sequence => 0x60,
            Self::Rnr(timer) => 0x20 | timer,
        }
    }

    /// Lower speaks first among branches at one PSN: RNR before sequence errors, longer timers before shorter (3.7).
    fn rank(self) -> u8 {
        match self {
            Self::Rnr(0) => 0,
            Self::Rnr(timer) => 32 - timer,
            Self::Sequence => 62,
        }
    }
}

/// What arrives.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// A data packet passes down.
    Data {
        /// 24-bit PSN.
        psn: u32,
        /// FIRST or ONLY: a message begins.
        begins: bool,
    },
    /// A branch acknowledges everything up to `psn`.
    Ack {
        /// Which branch.
        branch: u32,
        /// BTH PSN, the acknowledged one.
        psn: u32,
        /// AETH MSN.
        msn: u32,
        /// AETH credit count, 0..=31.
        credits: u8,
    },
    /// A branch expects `psn` next and says why it does not have it.
    Nak {
        /// Which branch.
        branch: u32,
        /// BTH PSN, the expected one.
        psn: u32,
        /// AETH MSN.
        msn: u32,
        /// Why.
        nak: Nak,
    },
    /// A branch joins.
    Join(u32),
    /// A branch leaves.
    Leave(u32),
}

/// What goes upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speech {
    /// AETH syndrome: credits of an ACK, or a NAK code.
    pub syndrome: u8,
    /// BTH PSN, 24 bits.
    pub psn: u32,
    /// AETH MSN, 24 bits.
    pub msn: u32,
}

/// Why an input changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Feedback of a branch that has not started, or is none (I3).
    Inactive,
    /// PSN outside the window, or nothing was sent yet (3.3).
    Window,
    /// A NAK below what its branch has acknowledged since (3.4).
    Ghost,
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    /// Everything below is held.
    next: u64,
    nak: Option<Nak>,
    nak_heard: u64,
    msn: u64,
    credits: u8,
}

/// One group at one node.
#[derive(Clone, Debug)]
pub struct Aggregation {
    params: Params,
    high: u64,
    position: u64,
    told: u64,
    told_nak: Option<(u64, Nak, u64)>,
    last_nak_next: u64,
    repeated: u64,
    go_back: (u64, u64),
    branches: BTreeMap<u32, Branch>,
    pending: BTreeSet<u32>,
}

const TURN: u64 = 1 << 24;

/// The 64-bit number nearest to `base` whose low 24 bits are `low`.
fn unwrap24(base: u64, low: u32) -> u64 {
    let d = (low.wrapping_sub(base as u32) << 8) as i32 >> 8;
    base.wrapping_add_signed(d.into())
}

impl Aggregation {
    /// Nothing sent, nobody joined.
    pub fn new(params: Params) -> Self {
        let start = params.start;
        Self {
            params,
            high: start,
            position: start,
            told: start,
            told_nak: None,
            last_nak_next: 0,
            repeated: 0,
            go_back: (0, 0),
            branches: BTreeMap::new(),
            pending: BTreeSet::new(),
        }
    }

    /// The lowest `next`; `None` of no branches.
    pub fn minimum(&self) -> Option<u64> {
        self.branches.values().map(|b| b.next).min()
    }

    /// Highest data PSN sent down + 1.
    pub fn high(&self) -> u64 {
        self.high
    }

    /// Branches that data goes to.
    pub fn active(&self) -> impl Iterator<Item = u32> {
        self.branches.keys().copied()
    }

    /// Takes one input at `now` (ns, growing); returns what goes upstream.
    ///
    /// # Errors
    /// Why nothing changed.
    pub fn handle(&mut self, input: Input, now: u64) -> Result<Option<Speech>, Refusal> {
        match input {
            Input::Data { psn, begins } => self.data(psn, begins, now).map(|()| None),
            Input::Ack { branch, psn, msn, credits } => self.ack(branch, psn, msn, credits, now),
            Input::Nak { branch, psn, msn, nak } => self.nak(branch, psn, msn, nak, now),
            Input::Join(branch) => {
                self.join(branch);
                Ok(None)
            }
            // 3.9: the minimum is recomputed and told at once; of no branches there is no ACK.
            Input::Leave(branch) => {
                self.branches.remove(&branch);
                self.pending.remove(&branch);
                Ok(self.advance(now))
            }
        }
    }

    fn start_branch(&mut self, branch: u32, next: u64) {
        self.branches.insert(branch, Branch { next, nak: None, nak_heard: 0, msn: TURN, credits: 31 });
    }

    /// 3.9: at a message boundary; at once while nothing was sent.
    fn join(&mut self, branch: u32) {
        if self.branches.contains_key(&branch) {
            return;
        }
        if self.high == self.params.start {
            self.start_branch(branch, self.params.start);
        } else {
            self.pending.insert(branch);
        }
    }

    fn data(&mut self, psn: u32, begins: bool, now: u64) -> Result<(), Refusal> {
        let (p, v) = (self.params, unwrap24(self.high, psn));
        if v < p.start || v > self.high + p.window || v + p.window < self.high {
            return Err(Refusal::Window);
        }
        if v < self.position {
            self.go_back = (v, now);
            // 3.6: the retransmission is seen passing down.
            if v <= self.last_nak_next {
                self.told_nak = None;
            }
        }
        self.position = v + 1;
        if v >= self.high {
            if begins {
                for branch in std::mem::take(&mut self.pending) {
                    self.start_branch(branch, v);
                }
            }
            self.high = v + 1;
        }
        Ok(())
    }

    /// 3.3: unwrapped near the base, within [base - W, high], after something was sent.
    fn accept(&self, branch: u32, psn: u32, held_more: u64) -> Result<u64, Refusal> {
        let (Some(base), true) = (self.minimum(), self.branches.contains_key(&branch)) else {
            return Err(Refusal::Inactive);
        };
        let next = unwrap24(base, psn) + held_more;
        let ok = self.high != self.params.start && next <= self.high && next + self.params.window >= base;
        if ok { Ok(next) } else { Err(Refusal::Window) }
    }

    fn ack(&mut self, branch: u32, psn: u32, msn: u32, credits: u8, now: u64) -> Result<Option<Speech>, Refusal> {
        let next = self.accept(branch, psn, 1)?;
        let base = self.minimum().unwrap_or(next);
        let Some(b) = self.branches.get_mut(&branch) else { return Err(Refusal::Inactive) };
        if next > b.next {
            *b = Branch { next, nak: None, msn: unwrap24(b.msn, msn), credits, ..*b };
            return Ok(self.advance(now));
        }
        // 3.5: said again, because the upstream ACK may have been lost.
        if base > self.params.start && now - self.repeated >= self.params.reack_ns {
            self.repeated = now;
            return Ok(Some(self.say_ack()));
        }
        Ok(None)
    }

    fn nak(&mut self, branch: u32, psn: u32, msn: u32, nak: Nak, now: u64) -> Result<Option<Speech>, Refusal> {
        let next = self.accept(branch, psn, 0)?;
        let Some(b) = self.branches.get_mut(&branch) else { return Err(Refusal::Inactive) };
        if next < b.next {
            return Err(Refusal::Ghost);
        }
        // 3.4: a NAK acknowledges everything before it.
        *b = Branch { next, nak: Some(nak), nak_heard: now, msn: unwrap24(b.msn, msn), ..*b };
        if let Some(speech) = self.advance(now) {
            return Ok(Some(speech));
        }
        let Some((minimum, at)) = self.lowest() else { return Ok(None) };
        let say = match (nak, at.nak) {
            // 3.7: an RNR NAK waits until its PSN is the minimum.
            (Nak::Rnr(_), Some(Nak::Sequence) | None) => return Ok(None),
            (_, Some(said)) => said,
            // 3.6: the lowest branch has no NAK, its next is the ePSN.
            (Nak::Sequence, None) => Nak::Sequence,
        };
        if let Some((next, told, when)) = self.told_nak
            && (next, told) == (minimum, say)
            && now - when < self.params.nak_merge_ns
        {
            return Ok(None);
        }
        Ok(Some(self.say_nak(say, now)))
    }

    /// The lowest branch that has most to say.
    fn lowest(&self) -> Option<(u64, Branch)> {
        self.branches.values().min_by_key(|b| (b.next, b.nak.map_or(63, Nak::rank))).map(|b| (b.next, *b))
    }

    /// 3.5 when the minimum rose, and 3.6 for a NAK that was held until it became the minimum.
    fn advance(&mut self, now: u64) -> Option<Speech> {
        let (minimum, at) = self.lowest().filter(|(m, _)| *m > self.told)?;
        self.told = minimum;
        let (from, when) = self.go_back;
        let resent = when > at.nak_heard && from <= minimum && self.position > minimum;
        match at.nak {
            Some(Nak::Sequence) if resent => Some(self.say_ack()),
            Some(nak) => Some(self.say_nak(nak, now)),
            None => Some(self.say_ack()),
        }
    }

    /// 3.2: the serial minimum of MSN and the minimum of credits.
    fn speech(&self, syndrome: u8, psn: u64) -> Speech {
        let msn = self.branches.values().map(|b| b.msn).min().unwrap_or(0);
        Speech { syndrome, psn: psn as u32 & 0xFF_FFFF, msn: msn as u32 & 0xFF_FFFF }
    }

    fn say_ack(&self) -> Speech {
        let credits = self.branches.values().map(|b| b.credits).min().unwrap_or(31);
        self.speech(credits, self.minimum().unwrap_or(1) - 1)
    }

    fn say_nak(&mut self, nak: Nak, now: u64) -> Speech {
        let next = self.minimum().unwrap_or(0);
        self.told_nak = Some((next, nak, now));
        self.last_nak_next = next;
        self.speech(nak.syndrome(), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(branches: u32) -> Aggregation {
        let params = Params { start: TURN + 100, window: (1 << 22) - 1, reack_ns: 10, nak_merge_ns: 10 };
        let mut a = Aggregation::new(params);
        (0..branches).for_each(|b| a.join(b));
        for psn in 100..120 {
            a.handle(Input::Data { psn, begins: true }, u64::from(psn)).unwrap();
        }
        a
    }

    #[test]
    fn only_what_all_hold_is_acknowledged() {
        let mut a = machine(2);
        let ack = |branch, psn| Input::Ack { branch, psn, msn: 1, credits: 31 };
        assert_eq!(a.handle(ack(0, 110), 200), Ok(None));
        assert_eq!(a.handle(ack(1, 105), 201), Ok(Some(Speech { syndrome: 31, psn: 105, msn: 1 })));
        assert_eq!(a.handle(ack(2, 105), 202), Err(Refusal::Inactive));
        assert_eq!(a.handle(ack(1, 120), 203), Err(Refusal::Window));
    }

    #[test]
    fn an_rnr_of_the_longest_timer_outranks_all() {
        let mut ranks: Vec<u8> = (0..32).map(|t| Nak::Rnr(t).rank()).collect();
        ranks.push(Nak::Sequence.rank());
        assert_eq!(ranks.iter().min(), Some(&Nak::Rnr(0).rank()));
        assert!(Nak::Rnr(31).rank() < Nak::Rnr(1).rank());
        assert_eq!(ranks.iter().max(), Some(&Nak::Sequence.rank()));
    }
}
