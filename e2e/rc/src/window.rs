// SPDX-License-Identifier: Apache-2.0
//! The congestion window in packets: halved by a CNP, grown by one packet per acknowledged window.
//!
//! Far simpler than DCQCN: enough for the lab to observe that a CNP had an effect.

/// Packets that may be in flight.
#[derive(Debug, Clone)]
pub struct Window {
    packets: u32,
    floor: u32,
    ceiling: u32,
    /// Packets acknowledged since the window last grew.
    credit: u64,
    /// No second reduction before this packet is acknowledged: CNPs for one congested queue come in bursts.
    barrier: u64,
}

impl Window {
    /// Starts at `ceiling`; CNPs never reduce it below `floor`.
    pub fn new(floor: u32, ceiling: u32) -> Self {
        Self { packets: ceiling, floor: floor.min(ceiling), ceiling, credit: 0, barrier: 0 }
    }

    /// Packets that may be in flight now.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// A CNP arrived while `acked` packets were acknowledged and `sent` sent.
    pub fn on_cnp(&mut self, acked: u64, sent: u64) {
        if acked >= self.barrier {
            self.packets = (self.packets / 2).max(self.floor);
            self.barrier = sent;
            self.credit = 0;
        }
    }

    /// Handles `count` newly acknowledged packets.
    pub fn on_progress(&mut self, count: u64) {
        if self.packets == self.ceiling {
            return;
        }
        self.credit += count;
        while self.credit >= u64::from(self.packets) && self.packets < self.ceiling {
            self.credit -= u64::from(self.packets);
            self.packets += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_cnps_halves_once_until_what_was_in_flight_is_acknowledged() {
        let mut window = Window::new(4, 64);
        window.on_cnp(0, 64);
        window.on_cnp(10, 70);
        assert_eq!(window.packets(), 32);
        window.on_cnp(64, 90);
        assert_eq!(window.packets(), 16);
    }

    #[test]
    fn it_never_falls_below_its_floor_nor_grows_past_its_ceiling() {
        let mut window = Window::new(4, 6);
        for acked in 0..10 {
            window.on_cnp(acked, acked);
        }
        assert_eq!(window.packets(), 4);
        window.on_progress(4);
        assert_eq!(window.packets(), 5);
        window.on_progress(4);
        assert_eq!(window.packets(), 5);
        window.on_progress(1000);
        assert_eq!(window.packets(), 6);
    }
}
