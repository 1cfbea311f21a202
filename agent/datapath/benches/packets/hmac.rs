// SPDX-License-Identifier: Apache-2.0
//! What the SRH HMAC TLV costs per packet: the same packets without and with it.

use canopy_datapath::testbed::*;
use canopy_model::srh_hmac::{FlagBit, HmacKey, HmacKeyId, HmacSecret, SrhHmac};
use canopy_packet::bth::Opcode;

const RUNS: u32 = 4000;

pub(crate) fn run() {
    println!("\n{:<34} {:>8} {:>8} {:>8} {:>8}  HMAC TLV", "entry, 1024 octets", "q1 ns", "median", "q3 ns", "runs");
    let sent = |psn| data(Opcode::SEND_MIDDLE, psn, &[7; 1024]);
    let headend = Shape { receivers: 0, children: 2, headend: true, ..Shape::default() };
    compare("headend, two children", &headend, &sent);
    let transit = Shape { receivers: 0, children: 2, ..Shape::default() };
    compare("End.Replicate, two children", &transit, &|psn| encapsulated(&sent(psn), replication(), vec![], 0));
    let edge = Shape { receivers: 2, ..Shape::default() };
    compare("End.MT, two receivers", &edge, &|psn| encapsulated(&sent(psn), end_mt(), list(0..2), 0));
}

fn compare(entry: &str, shape: &Shape, packet: &dyn Fn(u32) -> Vec<u8>) {
    let Ok(id) = HmacKeyId::new("id", 1) else { return };
    let key = HmacKey { id, secret: HmacSecret::new([7; 32]), flag_bit: FlagBit::Rfc8754 };
    let hmac = SrhHmac::new(vec![key.clone()], id, true).ok();
    for (kind, hmac) in [("none", None), ("compared", hmac)] {
        let signs = hmac.is_some() && !shape.headend;
        let bed = Testbed::without_far_boundary(&Shape { hmac, ..shape.clone() });
        let packets: Vec<_> =
            (0..RUNS).map(|i| packet(100 + i)).map(|p| if signs { signed(&p, &key) } else { p }).collect();
        let mut ns: Vec<u128> = packets.iter().map(|p| bed.run("u0", p).2.as_nanos()).collect();
        ns.sort_unstable();
        let at = |q: usize| ns[ns.len() * q / 4];
        println!("{entry:<34} {:>8} {:>8} {:>8} {RUNS:>8}  {kind}", at(1), at(2), at(3));
    }
}
