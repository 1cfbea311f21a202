// SPDX-License-Identifier: Apache-2.0

use super::*;
use proptest::prelude::*;

const ERROR: ErrorEstimate = ErrorEstimate { synchronized: true, ptp: false, scale: 0x11, multiplier: 0x22 };

/// Octet by octet from the figure of RFC 8762 section 4.2.1.
const SENDER: [u8; LEN] = {
    let mut octets = [0; LEN];
    let front = [
        0x01, 0x02, 0x03, 0x04, // Sequence Number
        0xe9, 0x00, 0x00, 0x01, 0x80, 0x00, 0x00, 0x00, // Timestamp: half a second past the first
        0x91, 0x22, // Error Estimate: S, scale 0x11, multiplier 0x22
    ];
    let mut i = 0;
    while i < front.len() {
        octets[i] = front[i];
        i += 1;
    }
    octets
};

/// Octet by octet from the figure of RFC 8762 section 4.3.1.
const REFLECTOR: [u8; LEN] = [
    0x0a, 0x0b, 0x0c, 0x0d, // Sequence Number
    0xe9, 0x00, 0x00, 0x02, 0x40, 0x00, 0x00, 0x00, // Timestamp
    0x40, 0x01, // Error Estimate: Z, scale 0, multiplier 1
    0x00, 0x00, // MBZ
    0xe9, 0x00, 0x00, 0x02, 0x20, 0x00, 0x00, 0x00, // Receive Timestamp
    0x01, 0x02, 0x03, 0x04, // Session-Sender Sequence Number
    0xe9, 0x00, 0x00, 0x01, 0x80, 0x00, 0x00, 0x00, // Session-Sender Timestamp
    0x91, 0x22, // Session-Sender Error Estimate
    0x00, 0x00, // MBZ
    0x3f, // Ses-Sender TTL
    0x00, 0x00, 0x00, // MBZ
];

fn sender() -> SenderPacket {
    SenderPacket { sequence: 0x0102_0304, timestamp: 0xe900_0001_8000_0000, error_estimate: ERROR }
}

fn reflector() -> ReflectorPacket {
    ReflectorPacket {
        sequence: 0x0a0b_0c0d,
        timestamp: 0xe900_0002_4000_0000,
        error_estimate: ErrorEstimate { synchronized: false, ptp: true, scale: 0, multiplier: 1 },
        receive_timestamp: 0xe900_0002_2000_0000,
        sender: sender(),
        sender_ttl: 63,
    }
}

#[test]
fn the_packets_are_those_of_the_figures() {
    let mut out = [0xaa; LEN + 1];
    sender().emit(&mut out).unwrap();
    assert_eq!((&out[..LEN], out[LEN]), (&SENDER[..], 0xaa));
    reflector().emit(&mut out).unwrap();
    assert_eq!((&out[..LEN], out[LEN]), (&REFLECTOR[..], 0xaa));
    assert_eq!(SenderPacket::parse(&SENDER), Ok(sender()));
    assert_eq!(ReflectorPacket::parse(&REFLECTOR), Ok(reflector()));
    assert_eq!(ReflectorPacketView::parse(&out).unwrap().payload(), [0xaa]);
}

#[test]
fn short_packets_and_zero_multipliers_are_refused_and_mbz_is_ignored() {
    for len in 0..LEN {
        assert_eq!(SenderPacket::parse(&SENDER[..len]).unwrap_err().field, "length");
        assert_eq!(ReflectorPacket::parse(&REFLECTOR[..len]).unwrap_err().field, "length");
        assert_eq!(sender().emit(&mut [0; LEN][..len]).unwrap_err().field, "buffer");
        assert_eq!(reflector().emit(&mut [0; LEN][..len]).unwrap_err().field, "buffer");
    }
    let damage = |packet: [u8; LEN], at: usize, octet| {
        let mut packet = packet;
        packet[at] = octet;
        packet
    };
    let multiplier = "Error Estimate Multiplier";
    assert_eq!(SenderPacket::parse(&damage(SENDER, 13, 0)).unwrap_err().field, multiplier);
    assert_eq!(ReflectorPacket::parse(&damage(REFLECTOR, 13, 0)).unwrap_err().field, multiplier);
    assert_eq!(ReflectorPacket::parse(&damage(REFLECTOR, 37, 0)).unwrap_err().field, multiplier);
    for at in 14..LEN {
        assert_eq!(SenderPacket::parse(&damage(SENDER, at, 0xff)), Ok(sender()), "octet {at}");
    }
    for at in [14, 15, 38, 39, 41, 42, 43] {
        assert_eq!(ReflectorPacket::parse(&damage(REFLECTOR, at, 0xff)), Ok(reflector()), "octet {at}");
    }
}

#[test]
fn fields_beyond_their_limits_are_not_emitted() {
    let scale = SenderPacket { error_estimate: ErrorEstimate { scale: 64, ..ERROR }, ..sender() };
    assert_eq!(scale.emit(&mut [0; LEN]).unwrap_err().field, "Error Estimate Scale");
    let multiplier = ReflectorPacket { error_estimate: ErrorEstimate { multiplier: 0, ..ERROR }, ..reflector() };
    assert_eq!(multiplier.emit(&mut [0; LEN]).unwrap_err().field, "Error Estimate Multiplier");
    let inner = ReflectorPacket { sender: scale, ..reflector() };
    assert_eq!(inner.emit(&mut [0; LEN]).unwrap_err().field, "Error Estimate Scale");
}

fn any_sender() -> impl Strategy<Value = SenderPacket> {
    (any::<(u32, u64, bool, bool)>(), 0_u8..64, 1_u8..).prop_map(|((sequence, timestamp, s, z), scale, multiplier)| {
        let error_estimate = ErrorEstimate { synchronized: s, ptp: z, scale, multiplier };
        SenderPacket { sequence, timestamp, error_estimate }
    })
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed(own in any_sender(), sender in any_sender(), receive_timestamp: u64, sender_ttl: u8) {
        let mut out = [0xaa; LEN];
        own.emit(&mut out).unwrap();
        prop_assert_eq!(SenderPacket::parse(&out), Ok(own));
        let SenderPacket { sequence, timestamp, error_estimate } = own;
        let packet = ReflectorPacket { sequence, timestamp, error_estimate, receive_timestamp, sender, sender_ttl };
        packet.emit(&mut out).unwrap();
        prop_assert_eq!(ReflectorPacket::parse(&out), Ok(packet));
    }
}
