// SPDX-License-Identifier: Apache-2.0
//! Command line options, their defaults and their formats.

use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use humantime::parse_duration;

use crate::units::{parse_24_bits, parse_number, parse_size};

/// A software RoCEv2 Reliable Connection endpoint on a raw socket.
#[derive(Debug, Parser)]
#[command(name = "canopy-rc", version)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Sends bytes to a group, or to one peer.
    Send(Box<SendArgs>),
    /// Receives bytes from a group's source, or from one peer.
    Receive(Box<ReceiveArgs>),
}

/// Options of both ends.
#[derive(Debug, Args)]
pub(super) struct EndArgs {
    /// The controller: unix:/path or http://host:port.
    #[arg(long, required_unless_present = "unicast", conflicts_with = "unicast")]
    pub(super) controller: Option<String>,
    /// The group to join.
    #[arg(long, required_unless_present = "unicast", conflicts_with = "unicast")]
    pub(super) group: Option<String>,
    /// This host's name in the topology.
    #[arg(long, required_unless_present = "unicast", conflicts_with = "unicast")]
    pub(super) host: Option<String>,
    /// Join with a lease, at the agent's socket: the host leaves when this process ends.
    #[arg(long, requires = "controller")]
    pub(super) lease: bool,
    /// No controller: a plain connection with ADDRESS,QPN,PSN of the peer (PSN is that of the first request).
    #[arg(long, value_name = "ADDRESS,QPN,PSN", value_parser = parse_peer)]
    pub(super) unicast: Option<Peer>,
    /// Own address; by default the only global address of this host.
    #[arg(long)]
    pub(super) address: Option<Ipv6Addr>,
    /// Own QPN, 24 bits, or "random".
    #[arg(long, default_value = "random", value_parser = parse_qpn)]
    pub(super) qpn: Qpn,
    /// SEND or RDMA WRITE.
    #[arg(long, value_enum, default_value_t = Op::Send)]
    pub(super) op: Op,
    /// Path MTU of a unicast connection, octets; the controller sends that of a group.
    #[arg(long, default_value = "1024", value_parser = parse_size)]
    pub(super) mtu: u64,
    /// Virtual address of the receiver's memory, for WRITE. A sender needs it for unicast only.
    #[arg(long, value_parser = parse_number)]
    pub(super) va: Option<u64>,
    /// R_Key of the receiver's memory, for WRITE. A sender needs it for unicast only.
    #[arg(long, value_parser = parse_key)]
    pub(super) rkey: Option<u32>,
    /// Length of the receiver's memory, for WRITE; by default all bytes.
    #[arg(long, value_parser = parse_size)]
    pub(super) memory: Option<u64>,
    /// IPv6 traffic class of the packets sent; 2 is ECT(0), so that a congested node can mark.
    #[arg(long, default_value_t = 2)]
    pub(super) traffic_class: u8,
    /// What the frames sent are like.
    #[arg(long, value_enum, default_value_t = Frames::Raw)]
    pub(super) frames: Frames,
    /// Link-layer address of the node, for frames that the kernel does not make.
    #[arg(long, value_name = "MAC", value_parser = parse_mac, required_if_eq_any = [("frames", "tagged"), ("frames", "padded")])]
    pub(super) next_hop: Option<[u8; 6]>,
    /// Time limit for reaching the controller.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub(super) join_timeout: Duration,
    /// Leave the group at the end.
    #[arg(long)]
    pub(super) leave: bool,
    /// Print reports as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    #[command(flatten)]
    pub(super) end: EndArgs,
    /// Bytes to send, pseudo-random; suffixes KiB, MiB, GiB, kB, MB, GB.
    #[arg(long, value_parser = parse_size, required_unless_present = "file", conflicts_with = "file")]
    pub(super) bytes: Option<u64>,
    /// A file to send in place of pseudo-random bytes.
    #[arg(long)]
    pub(super) file: Option<PathBuf>,
    /// Seed of the pseudo-random bytes.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Bytes per message.
    #[arg(long, default_value = "1MiB", value_parser = parse_size)]
    pub(super) message_size: u64,
    /// Immediate data with every message.
    #[arg(long)]
    pub(super) imm: bool,
    /// Packets in flight.
    #[arg(long, default_value_t = 128)]
    pub(super) window: u32,
    /// Set AckReq at least once per this many packets.
    #[arg(long, default_value_t = 16)]
    pub(super) ack_every: u32,
    /// Ignore CNPs: another component paces the queue pair.
    #[arg(long)]
    pub(super) ignore_cnps: bool,
    /// Retry timer; doubles up to eightfold while nothing is acknowledged.
    #[arg(long, default_value = "20ms", value_parser = parse_duration)]
    pub(super) timeout: Duration,
    /// Consecutive retransmissions without progress before giving up; 0 is unlimited.
    #[arg(long, default_value_t = 0)]
    pub(super) retries: u32,
    /// Give up this long after the first packet.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    pub(super) deadline: Duration,
    /// Start at once, whether the group is ready or not. For SEND: a WRITE needs the length of the receivers' memory.
    #[arg(long)]
    pub(super) at_once: bool,
    /// Start when the group is ready with at least this many receivers.
    #[arg(long, default_value_t = 1)]
    pub(super) wait_receivers: u32,
    /// Time limit for the group to become ready.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub(super) ready_timeout: Duration,
    /// A progress bar, when stderr is a terminal.
    #[arg(long)]
    pub(super) progress: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReceiveArgs {
    #[command(flatten)]
    pub(super) end: EndArgs,
    /// Complete after this many bytes; suffixes KiB, MiB, GiB, kB, MB, GB.
    #[arg(long, value_parser = parse_size)]
    pub(super) bytes: u64,
    /// Write received bytes to this file: SENDs as they arrive, the memory at the end.
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
    /// Written once this end can receive: JSON with address, qpn, peer, peer_qpn and start_psn.
    #[arg(long)]
    pub(super) ready_file: Option<PathBuf>,
    /// Keep answering duplicates this long after the last packet, because the last acknowledgement may be lost.
    #[arg(long, default_value = "500ms", value_parser = parse_duration)]
    pub(super) linger: Duration,
    /// Fail if the bytes have not arrived this long after joining; by default never.
    #[arg(long, value_parser = parse_duration)]
    pub(super) deadline: Option<Duration>,
    /// Answer every n-th message with an RNR NAK the first time; 0 is never.
    #[arg(long, default_value_t = 0)]
    pub(super) rnr_every: u64,
    /// Timer code of those RNR NAKs.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u8).range(0..=31))]
    pub(super) rnr_timer: u8,
    /// Stop answering after this many bytes, like a host that died.
    #[arg(long, value_parser = parse_size)]
    pub(super) stop_after: Option<u64>,
}

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Op {
    Send,
    Write,
}

/// What frames are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Frames {
    /// Of a raw socket, without a UDP checksum.
    Raw,
    /// Of a UDP socket, whose checksum the kernel leaves to the interface if that can compute it.
    Udp,
    /// With a priority tag (VID 0).
    Tagged,
    /// With a UDP checksum, and octets behind the packet.
    Padded,
}

/// The far end of a unicast connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) address: Ipv6Addr,
    pub(super) qpn: u32,
    pub(super) psn: u32,
}

/// The own QPN: given, or random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Qpn {
    Random,
    Fixed(u32),
}

fn parse_peer(text: &str) -> Result<Peer, String> {
    let [address, qpn, psn] = text.split(',').collect::<Vec<_>>()[..] else {
        return Err(format!("{text:?} is not ADDRESS,QPN,PSN"));
    };
    let address = address.parse().map_err(|_| format!("{address:?} is no IPv6 address"))?;
    Ok(Peer { address, qpn: parse_24_bits(qpn)?, psn: parse_24_bits(psn)? })
}

fn parse_mac(text: &str) -> Result<[u8; 6], String> {
    let octets: Option<Vec<_>> = text.split(':').map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets
        .and_then(|o| o.try_into().ok())
        .ok_or_else(|| format!("{text:?} is no link-layer address such as 02:00:00:00:00:01"))
}

fn parse_qpn(text: &str) -> Result<Qpn, String> {
    if text == "random" {
        return Ok(Qpn::Random);
    }
    let reserved = |qpn: u32| matches!(qpn, 0 | 1 | 0xff_ffff);
    match parse_24_bits(text)? {
        qpn if reserved(qpn) => Err(format!("QPN {qpn:#x} is reserved; use 2..=0xfffffe")),
        qpn => Ok(Qpn::Fixed(qpn)),
    }
}

fn parse_key(text: &str) -> Result<u32, String> {
    let number = parse_number(text)?;
    u32::try_from(number).map_err(|_| format!("{text:?} does not fit 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_group_needs_all_of_its_names_and_unicast_none() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        let group = "canopy-rc receive --controller unix:/c --group g --host r1 --bytes 1MiB";
        assert!(parse(group).is_ok());
        assert!(parse(&group.replace(" --group g", "")).is_err());
        assert!(parse("canopy-rc receive --unicast fd00::1,0x11,5 --bytes 1").is_ok());
        assert!(parse(&format!("{group} --unicast fd00::1,0x11,5")).is_err());
    }

    #[test]
    fn peers_and_qpns() {
        let address = "fd00::1".parse().unwrap();
        assert_eq!(parse_peer("fd00::1,0x11,5"), Ok(Peer { address, qpn: 0x11, psn: 5 }));
        for wrong in ["fd00::1,0x11", "fd00::1,1,2,3", "10.0.0.1,1,2", "fd00::1,0x1000000,0"] {
            assert!(parse_peer(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_qpn("0x12"), Ok(Qpn::Fixed(0x12)));
        assert!(parse_qpn("1").is_err());
        assert!(parse_qpn("0xffffff").is_err());
    }
}
