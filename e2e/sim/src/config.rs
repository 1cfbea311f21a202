// SPDX-License-Identifier: Apache-2.0
//! The configuration of a run, and the parameters that its seed determines.

use crate::chance::Chance;
use crate::machine::Mutant;
use crate::net::Links;
use crate::receiver::{Habits, MTU};
use crate::shape::Shape;

/// When receivers join late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Window {
    /// After the group was opened, before the first packet.
    BeforeFirst,
    /// The same, and the source waits until all of them are reported to get data. Links are good then: an edge that has late receivers only
    /// cannot know that a first packet was lost on the way to it.
    Awaited,
    /// While the first packet is on its way.
    WhileFirst,
    /// After the first packet.
    AfterFirst,
    /// After the controller restarted.
    ControllerRestarted,
    /// After the agent of a node restarted.
    AgentRestarted,
    /// After a node lost its pins.
    PinsLost,
}

/// Options; the seed determines those that are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Config {
    /// Receivers at the start, 1 to 1024
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub receivers: Option<u32>,
    /// Packets to transfer
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub packets: Option<u64>,
    /// Packets in a message
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub message: Option<u32>,
    /// PSN of the first packet
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=0xff_ffff))]
    pub start_psn: Option<u32>,
    /// Loss on every link, both directions, in millionths
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=500_000))]
    pub loss: Option<u64>,
    /// AckReq is set every n packets, and the window is 4 times n
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub ack_every: Option<u32>,
    /// Packets that travel as one event
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub burst: u32,
    /// No fault of any kind; receivers neither join nor leave
    #[arg(long)]
    pub no_faults: bool,
    /// Only links have faults: receivers neither join, leave, die nor move
    #[arg(long)]
    pub only_links: bool,
    /// How nodes are connected
    #[arg(long, value_enum)]
    pub shape: Option<Shape>,
    /// Receivers join late in this window; links have faults and agents are late, nothing else happens
    #[arg(long, value_enum)]
    pub late: Option<Window>,
    /// Hosts of late receivers stay connected to their nodes
    #[arg(long)]
    pub late_hosts_stay: bool,
    /// The MSN has its lower bound also while a late receiver has not started
    ///
    /// A node with no other receivers sends MSN 0 then.
    #[arg(long)]
    pub strict_msn: bool,
    /// Every receiver loses this packet once
    #[arg(long)]
    pub all_lose: Option<u64>,
    /// Forged frames injected after each feedback that arrives at a node
    #[arg(long)]
    pub forged: Option<u32>,
    /// A deliberately wrong aggregation
    #[arg(long, value_enum, default_value_t = Mutant::None)]
    pub mutant: Mutant,
}

impl Config {
    /// The defaults of the command line.
    pub fn plain() -> Self {
        Self { burst: 1, ..Self::default() }
    }

    /// The command line options of this configuration, each with a space before it.
    pub fn options(&self) -> String {
        let given = |name: &str, value: Option<String>| value.map_or(String::new(), |v| format!(" --{name} {v}"));
        let flag = |name: &str, on: bool| if on { format!(" --{name}") } else { String::new() };
        let mutant = (self.mutant != Mutant::None).then(|| name(self.mutant));
        [
            given("receivers", self.receivers.map(|v| v.to_string())),
            given("packets", self.packets.map(|v| v.to_string())),
            given("message", self.message.map(|v| v.to_string())),
            given("start-psn", self.start_psn.map(|v| v.to_string())),
            given("loss", self.loss.map(|v| v.to_string())),
            given("ack-every", self.ack_every.map(|v| v.to_string())),
            given("burst", (self.burst != 1).then(|| self.burst.to_string())),
            flag("no-faults", self.no_faults),
            flag("only-links", self.only_links),
            given("shape", self.shape.map(name)),
            given("late", self.late.map(name)),
            flag("late-hosts-stay", self.late_hosts_stay),
            flag("strict-msn", self.strict_msn),
            given("all-lose", self.all_lose.map(|v| v.to_string())),
            given("forged", self.forged.map(|v| v.to_string())),
            given("mutant", mutant),
        ]
        .concat()
    }
}

/// The name of an option's value on the command line.
fn name(value: impl clap::ValueEnum) -> String {
    value.to_possible_value().map_or(String::new(), |v| v.get_name().to_owned())
}

/// All parameters that are fixed before the run starts, except the network and the faults.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Receivers at the start.
    pub receivers: u32,
    /// Packets to transfer.
    pub packets: u64,
    /// Packets in a message.
    pub message: u32,
    /// PSN of the first packet.
    pub start_psn: u32,
    /// Packets that may be unacknowledged.
    pub window: u32,
    /// AckReq is set every n packets.
    pub ack_every: u32,
    /// Retry timer, ns.
    pub timeout: u64,
    /// Time between packets at the source, ns.
    pub gap: u64,
    /// Packets that travel as one event.
    pub burst: u32,
    /// Links until faults stop.
    pub links: Links,
    /// What receivers do until faults stop.
    pub habits: Habits,
    /// Longest time, ns, that a spec or a report is on its way until faults stop.
    pub slowest: u64,
    /// Longest time, ns, between two steps of an agent.
    pub step: u64,
    /// When faults stop, ns.
    pub calm: u64,
    /// The application posts the last packet at this time, ns, and the others evenly before it.
    pub posts: u64,
    /// Packets at the end that it posts only once everything is in force after faults stopped.
    pub rest: u64,
    /// The group's epoch when the first member joins: epochs wrap too.
    pub epoch: u32,
    /// Longest time, ns, that a next tree is made, as in `canopy-controller-actor`, or less.
    pub making: u64,
    /// The group's path MTU: its packets do not fit links of the smaller MTU that operators choose, or fit all.
    pub path_mtu: u32,
    /// How often the group has many changes elsewhere.
    pub ages: u64,
    /// How nodes are connected.
    pub shape: Shape,
    /// Forged frames after each feedback that arrives at a node.
    pub forged: u32,
    /// The aggregation variant.
    pub mutant: Mutant,
}

/// Longest times, ns, that a next tree is made: the product's, and one within which runs end.
pub const MAKING: [u64; 2] = [2_000_000_000, 30_000_000_000];

/// PSNs near a wrap or the sign change of a PSN distance.
pub const STARTS: [u32; 5] = [0, 0x7F_FFFF, 0x80_0000, 0xFF_FFF0, 0xFF_FFFF];

impl Setup {
    /// Takes the parameters of `config`, and draws the others.
    pub fn draw(config: &Config, chance: &mut Chance) -> Self {
        let drawn = match chance.below(100) {
            0..60 => chance.between(1, 12),
            60..97 => chance.between(8, 40),
            _ => chance.between(40, 200),
        };
        let receivers = config.receivers.unwrap_or(drawn as u32).clamp(1, 1024);
        let ack_every = config.ack_every.unwrap_or(1 << chance.below(6));
        let window = if config.ack_every.is_some() { ack_every * 4 } else { 1 << chance.between(4, 7) };
        let packets = config.packets.unwrap_or(chance.between(20, 20 + 6 * u64::from(window.min(64))));
        let any = chance.below(1 << 24) as u32;
        let start_psn = config.start_psn.unwrap_or(chance.pick(&STARTS).filter(|_| any & 3 > 0).unwrap_or(any));
        let message = config.message.unwrap_or(chance.between(1, 12) as u32);
        // Half the seeds have links far better than the worst, so that results between the extremes occur.
        let worst = if chance.below(2) == 0 { 30_000 } else { 200_000 };
        let loss = |chance: &mut Chance| if chance.below(4) == 0 { 0 } else { chance.below(worst + 1) };
        let delay = chance.between(1_000, 20_000);
        let jitter = chance.pick(&[0, 0, 500, 5_000, 20_000]).unwrap_or(0);
        let repeat = chance.pick(&[0, 0, 0, 5_000, 50_000]).unwrap_or(0);
        let (loss_down, loss_up) = (loss(chance), loss(chance));
        let links = Links { delay, jitter, loss_down, loss_up, repeat };
        let rnr = (chance.pick(&[0, 0, 20_000, 200_000]).unwrap_or(0), chance.between(1, 14) as u8);
        let habit = |chance: &mut Chance| chance.pick(&[0, 0, 50_000, 500_000]).unwrap_or(0);
        let (more_naks, unsolicited, credits) = (habit(chance), habit(chance), habit(chance));
        let habits = Habits { rnr, more_naks, unsolicited, credits };
        // At the time scale of a round trip, or far slower.
        let slowest = chance.pick(&[50_000, 5_000_000, 300_000_000, 3_000_000_000]).unwrap_or(0);
        let step = chance.pick(&[0, 1_000, 100_000, 2_000_000]).unwrap_or(0);
        let calm = chance.between(3_000_000, 40_000_000) + slowest + chance.below(4 * slowest);
        let posts = chance.pick(&[0, calm / 2, calm, calm]).unwrap_or(0);
        let whole = u64::from(window) + 3 * u64::from(message);
        let (rest, packets) = match (config.packets, chance.below(2)) {
            (None, 0) => (whole, packets + whole),
            (None, _) if config.late.is_some() => (whole, packets + whole),
            _ => (0, packets),
        };
        let epoch = chance.pick(&[1, 0x1FFE, 0x3FFD, 0x3FFF, 0x7FFF_FFF0]).unwrap_or(1);
        let shapes =
            [Shape::Chain, Shape::Ring, Shape::Ring, Shape::Fan, Shape::Clos, Shape::Clos, Shape::Clos, Shape::Wide];
        let shape = chance.pick(&shapes).unwrap_or(Shape::Clos);
        let many = receivers > 100;
        // A sequence of its own: what is drawn for the others depends on the seed as before.
        let mut own = Chance::new(start_psn.into());
        let making = own.pick(&MAKING).unwrap_or(0);
        let path_mtu = own.pick(&[MTU, MTU, 4096]).unwrap_or(MTU);
        let ages = own.pick(&[0, 0, 0, 4, 8]).unwrap_or(0);
        let forged = if chance.below(8) == 0 { 1 } else { 0 };
        let mut setup = Self {
            receivers,
            packets,
            message,
            start_psn,
            window: window.min(1 << 20),
            ack_every,
            timeout: chance.between(4_000_000, 12_000_000),
            gap: chance.between(500, 5_000),
            burst: config.burst.max(1),
            links,
            habits,
            slowest,
            step,
            calm,
            posts,
            rest,
            epoch,
            making,
            path_mtu,
            // With late joins nothing else happens: joins wait for nodes that are far behind.
            ages: if config.late.is_some() { 0 } else { ages },
            shape: config.shape.unwrap_or(if many { Shape::Fan } else { shape }),
            forged: config.forged.unwrap_or(forged),
            mutant: config.mutant,
        };
        if config.late == Some(Window::Awaited) {
            setup.links = Links { delay, ..Links::default() };
        }
        if let Some(loss) = config.loss {
            (setup.links.loss_down, setup.links.loss_up) = (loss, loss);
        }
        if config.only_links {
            (setup.slowest, setup.step, setup.posts, setup.rest) = (0, 0, 0, 0);
        }
        if config.no_faults {
            setup.links = Links { delay, ..Links::default() };
            (setup.habits, setup.slowest, setup.step) = (Habits::default(), 0, 0);
            (setup.calm, setup.posts, setup.rest) = (0, 0, 0);
        }
        setup
    }
}
