// SPDX-License-Identifier: Apache-2.0
//! The invariants, judged by what receivers really hold. It sees what is on the wire at the source and at the receivers,
//! and the members of the group; it knows nothing of nodes, branches or epochs, and shares no code with them.

use crate::net::Feedback;

/// Violations kept as text; more are only counted.
const KEPT: usize = 8;

/// What the oracle knows of one receiver.
#[derive(Clone, Debug)]
struct Witness {
    /// It joined after the group was opened: it may start with a later message.
    late: bool,
    /// It is a member.
    current: bool,
    /// The source waited for it before it sent anything.
    awaited: bool,
    /// Number of the packet that it starts with: of the first packet that was sent to it with its first PSN.
    first: Option<u64>,
    /// Every packet from the first one up to here was delivered, by number.
    below: u64,
    /// Smallest and largest credits that it announced.
    credits: Option<(u8, u8)>,
    /// First PSN that its queue pair expects.
    start_psn: u32,
}

/// What the source sends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stream {
    /// Packets in all.
    pub packets: u64,
    /// Packets in a message.
    pub message: u64,
    /// Packets that may be unacknowledged.
    pub window: u64,
}

impl Stream {
    /// Messages that end before packet `below`.
    fn messages(&self, below: u64) -> u64 {
        if below >= self.packets { self.packets.div_ceil(self.message) } else { below / self.message }
    }
}

/// Judges a run.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    /// The first violations, as text.
    pub violations: Vec<String>,
    /// All of them.
    pub count: u64,
    stream: Stream,
    witnesses: Vec<Witness>,
    /// Number of the last packet that a receiver asked for in a NAK, and those before. NAKs have no credits: a branch that is known by its
    /// NAK alone limits none, and it has acknowledged no packet from that number on.
    asked_for: Option<u64>,
    /// The MSN has its lower bound also while a late receiver has not started.
    strict_msn: bool,
}

impl Oracle {
    /// Nothing seen.
    pub fn new(stream: Stream, strict_msn: bool) -> Self {
        Self { stream, strict_msn, ..Self::default() }
    }

    /// Records a violation.
    pub fn violated(&mut self, at: u64, what: &str) {
        self.count += 1;
        if self.violations.len() < KEPT {
            self.violations.push(format!("at {at} ns: {what}"));
        }
    }

    /// A receiver joins; they are numbered in the order of joining. `late`: the group was open.
    pub fn joins(&mut self, late: bool, start_psn: u32) {
        let first = (!late).then_some(0);
        self.witnesses.push(Witness { late, current: true, awaited: false, first, below: 0, credits: None, start_psn });
    }

    /// The source begins to send, after it has waited for every member: from the first packet on each of them counts.
    pub fn begins(&mut self) {
        self.witnesses.iter_mut().for_each(|w| w.awaited = w.current);
    }

    /// A receiver is no member any more: what the source is sent does not cover it.
    pub fn leaves(&mut self, receiver: usize) {
        self.witnesses[receiver].current = false;
    }

    /// The receiver joined after the group was opened.
    pub fn is_late(&self, receiver: usize) -> bool {
        self.witnesses[receiver].late
    }

    /// Receivers that were sent a packet later than the first as their first one.
    pub fn late_starts(&self) -> u64 {
        self.witnesses.iter().filter(|w| w.first.is_some_and(|first| first > 0)).count() as u64
    }

    /// Packets are sent to a receiver on its own link: `count` of them from packet `number` and `psn` on.
    pub fn sent_to(&mut self, receiver: usize, (number, psn, count): (u64, u32, u32), at: u64) {
        let w = &mut self.witnesses[receiver];
        let into = w.start_psn.wrapping_sub(psn) & 0xFF_FFFF;
        if w.first.is_some() || into >= count {
            return;
        }
        let first = number + u64::from(into);
        (w.first, w.below) = (Some(first), first);
        let is_left_out = w.awaited && first > 0;
        if first % self.stream.message != 0 {
            self.violated(at, &format!("receiver {receiver} starts with packet {first}, within a message"));
        }
        if is_left_out {
            self.violated(at, &format!("the source waited for receiver {receiver}, which starts with packet {first}"));
        }
    }

    /// Packet `number` was delivered to the application of a receiver.
    pub fn delivered(&mut self, receiver: usize, number: u64, at: u64) {
        let w = &mut self.witnesses[receiver];
        let expected = w.below;
        w.below += 1;
        if w.first.is_none() || expected != number {
            self.violated(at, &format!("I5: receiver {receiver} is delivered packet {number} in place of {expected}"));
        }
    }

    /// A receiver sends an ACK or a NAK.
    pub fn answers(&mut self, receiver: usize, feedback: &Feedback) {
        let w = &mut self.witnesses[receiver];
        let credits = feedback.syndrome;
        match feedback.is_ack() {
            true => w.credits = Some(w.credits.map_or((credits, credits), |(a, b)| (a.min(credits), b.max(credits)))),
            false => self.asked_for = self.asked_for.max(Some(w.below)),
        }
    }

    /// Feedback reaches the source, where its PSN stands for packet `number`.
    pub fn judge(&mut self, feedback: &Feedback, number: i64, at: u64) {
        let is_ack = feedback.is_ack();
        // The feedback acknowledges every packet below this for every receiver.
        let below = (number + i64::from(is_ack)).max(0) as u64;
        let (rule, kind) = if is_ack { ("I1", "ACK") } else { ("I2", "NAK") };
        let stream = self.stream;
        let mut wrong = Vec::new();
        let mut least = 31;
        // Messages before the latest start: a late receiver counts at least its own.
        let mut before = 0;
        let naked = self.asked_for.is_some_and(|number| number >= below);
        for (receiver, w) in self.witnesses.iter().enumerate() {
            least = least.min(w.credits.map_or(31, |(least, _)| least));
            before = before.max(w.first.map_or(0, |first| stream.messages(first)));
            let Some(first) = w.first.filter(|_| w.current) else { continue };
            if w.below < below && first < below {
                let holds = w.below;
                wrong.push(format!(
                    "{rule}: {kind} of packet {number}, but receiver {receiver} holds {first}..{holds} only"
                ));
            }
            if first >= below {
                continue;
            }
            if ahead(feedback.msn, stream.messages(w.below)) > 0 {
                let holds = stream.messages(w.below);
                wrong.push(format!(
                    "MSN {} of packet {number}, but receiver {receiver} has {holds} messages",
                    feedback.msn
                ));
            }
            let most = w.credits.filter(|_| !naked).map_or(31, |(_, most)| most);
            if is_ack && feedback.syndrome > most {
                wrong.push(format!("credits {}, but receiver {receiver} announced at most {most}", feedback.syndrome));
            }
        }
        // A late receiver counts from where the slowest branch was when it started, and a node that resets a child's branch forgets from
        // where its receivers count (`--late after-first`, seed 558: MSN 2 after 19 messages and more): then its own messages are left.
        let acked = stream.messages(below).saturating_sub(before);
        // A node with nothing but late receivers that have not started does not know how many messages the group has completed.
        let waits = self.witnesses.iter().any(|w| w.late && w.first.is_none());
        if ahead(feedback.msn, acked) < 0 && (self.strict_msn || !waits) {
            wrong.push(format!(
                "MSN {} with packet {number}, which ends {acked} messages of the latest receiver",
                feedback.msn
            ));
        }
        if is_ack && feedback.syndrome < least {
            wrong.push(format!("credits {}, but no receiver announced less than {least}", feedback.syndrome));
        }
        wrong.iter().for_each(|what| self.violated(at, what));
    }

    /// The source has finished. `settled`: packets first sent from here on were sent after everything was in force. A late
    /// receiver starts with a message after that, once every packet that others started with is acknowledged: within a
    /// window.
    pub fn finished(&mut self, settled: Option<u64>, at: u64) {
        let Stream { packets, message, window } = self.stream;
        let boundary = settled.map_or(packets, |from| (from + message + window).div_ceil(message) * message);
        let mut wrong = Vec::new();
        for (receiver, w) in self.witnesses.iter().enumerate().filter(|(_, w)| w.current) {
            match w.first {
                Some(first) if w.below != packets => {
                    wrong.push(format!(
                        "I1: the source has finished, but receiver {receiver} holds {first}..{} only",
                        w.below
                    ));
                }
                None if w.awaited => {
                    wrong.push(format!("I4: the source waited for receiver {receiver}, which never started"));
                }
                None if boundary < packets => {
                    wrong.push(format!("I4: receiver {receiver} never started, although message {boundary} was sent"));
                }
                _ => {}
            }
        }
        wrong.iter().for_each(|what| self.violated(at, what));
    }
}

/// How far a 24-bit number is ahead of `of`, as a serial number.
fn ahead(number: u32, of: u64) -> i32 {
    (number.wrapping_sub(of as u32) << 8) as i32 >> 8
}
