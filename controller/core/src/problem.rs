// SPDX-License-Identifier: Apache-2.0
//! The registry of problems: what can be wrong in a domain, with the texts that the API, `canopyctl`, the alert rules and
//! `docs/problems.md` show. A code is never used again for something else.

use std::fmt;
use std::time::Duration;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Data does not reach a receiver, or nothing can be changed.
    Critical,
    /// Data reaches every receiver; something is slower, less redundant or less observed than it should be.
    Warning,
    /// A limit is in force that was not asked for.
    Info,
}

impl fmt::Display for Severity {
    /// As in the API and in the labels of metrics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Info => "info",
        })
    }
}

/// What a problem is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// The controller itself.
    Controller,
    /// A node, by its name.
    Node(String),
    /// A link between two nodes, `a--b` as the topology lists it.
    Link(String),
    /// A node's port, `n1/eth1`.
    Port(String),
    /// A group, by its name.
    Group(String),
    /// A membership.
    Member {
        /// The group's name.
        group: String,
        /// The host's name.
        host: String,
    },
}

/// Kind of an [`Object`], without its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// [`Object::Controller`].
    Controller,
    /// [`Object::Node`].
    Node,
    /// [`Object::Link`].
    Link,
    /// [`Object::Port`].
    Port,
    /// [`Object::Group`].
    Group,
    /// [`Object::Member`].
    Member,
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> ObjectKind {
        match self {
            Self::Controller => ObjectKind::Controller,
            Self::Node(_) => ObjectKind::Node,
            Self::Link(_) => ObjectKind::Link,
            Self::Port(_) => ObjectKind::Port,
            Self::Group(_) => ObjectKind::Group,
            Self::Member { .. } => ObjectKind::Member,
        }
    }

    /// The name of the group, of one or of a member of one.
    pub fn group(&self) -> Option<&str> {
        match self {
            Self::Group(group) | Self::Member { group, .. } => Some(group),
            Self::Controller | Self::Node(_) | Self::Link(_) | Self::Port(_) => None,
        }
    }

    /// Its name without its kind; a membership's is `group/host`.
    pub fn name(&self) -> String {
        match self {
            Self::Controller => "controller".to_owned(),
            Self::Node(name) | Self::Link(name) | Self::Port(name) | Self::Group(name) => name.clone(),
            Self::Member { group, host } => format!("{group}/{host}"),
        }
    }
}

impl fmt::Display for ObjectKind {
    /// As in the API and in the labels of metrics.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controller => "controller",
            Self::Node => "node",
            Self::Link => "link",
            Self::Port => "port",
            Self::Group => "group",
            Self::Member => "member",
        })
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => f.write_str("the controller"),
            Self::Member { group, host } => write!(f, "receiver {host} of group {group}"),
            of => write!(f, "{} {}", of.kind(), of.name()),
        }
    }
}

/// What is known of one kind of problem.
#[derive(Clone, Copy, Debug)]
pub struct ProblemInfo {
    /// The code.
    pub code: ProblemCode,
    /// How bad it is.
    pub severity: Severity,
    /// What its object is.
    pub object: ObjectKind,
    /// One sentence without a subject: follows the object's name.
    pub title: &'static str,
    /// What it means for the domain, and how it is found.
    pub meaning: &'static str,
    /// What to do.
    pub remedy: &'static str,
    /// How long a symptom lasts before the problem opens.
    pub opens_after: Duration,
    /// How long no symptom is seen before the problem closes; if one returns in between, it is the same problem.
    pub closes_after: Duration,
}

macro_rules! problems {
    ($($(#[doc = $doc:literal])+ $code:ident: $severity:ident $object:ident, opens $opens:literal ms, closes $closes:literal ms, $title:literal, $meaning:literal, $remedy:literal;)+) => {
        /// What can be wrong. The names are stable: they appear in the API, in metrics and in alerts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProblemCode {
            $($(#[doc = $doc])+ $code,)+
        }

        impl ProblemCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$code,)+];

            /// What is known of it.
            pub const fn info(self) -> ProblemInfo {
                match self {
                    $(Self::$code => ProblemInfo {
                        code: self,
                        severity: Severity::$severity,
                        object: ObjectKind::$object,
                        title: $title,
                        meaning: $meaning,
                        remedy: $remedy,
                        opens_after: Duration::from_millis($opens),
                        closes_after: Duration::from_millis($closes),
                    },)+
                }
            }

            /// Whether its remedy is to drain its object, which is a link.
            pub const fn is_mended_by_drain(self) -> bool {
                matches!(self, Self::LinkLossy)
            }

            /// The code with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.to_string() == name)
            }
        }
    };
}

problems! {
    /// The store's disk is full.
    StoreReadOnly: Critical Controller, opens 0 ms, closes 0 ms,
        "takes no changes: the disk of its store is full",
        "Every write of the API, every join and every leave is refused with 507 StoreFull. Nodes continue to forward, and trees do not leave broken links.",
        "Free space on the disk of store.path; the controller takes changes again by itself within 5 s.";
    /// Acknowledged commits are lost.
    StoreLostCommits: Warning Controller, opens 0 ms, closes 0 ms,
        "has lost commits that it had acknowledged: its store was damaged",
        "The store was recovered from what was left of it. Changes since then may be missing, and clients were answered that they were made.",
        "Compare the domain with what operators and hosts asked for, apply what is missing, then run `canopy-controller store acknowledge`.";
    /// A confirmed commit is about to be rolled back.
    CommitExpiring: Warning Controller, opens 0 ms, closes 0 ms,
        "is about to take a commit back",
        "A confirmed commit has less than a fifth of its time left. Unless it is confirmed or gets more time, its changes are taken back.",
        "`canopyctl commit status` has its changes; then run `canopyctl commit confirm`, `commit extend 10m` or `commit cancel`.";
    /// A rollback could not put resources back.
    RollbackRefused: Warning Controller, opens 0 ms, closes 0 ms,
        "could not put back everything that a commit had changed",
        "A confirmed commit was rolled back, and the domain refused to write some resources again as they were before: they are as the commit left them.",
        "`canopyctl commit status` names them with the reason, `canopyctl history` has their versions; put them back by hand. It closes once each of them was written or deleted, or with the next commit.";
    /// The replacement of the authority is not finished.
    AuthorityReplacementLate: Warning Controller, opens 0 ms, closes 0 ms,
        "has not finished the replacement of its authority",
        "A step of the replacement has lasted for a day, or for half of the life of a certificate. Nothing is given up: both authorities are trusted, and data does not suffer. The former key, if it is why the authority is replaced, can still be used by a thief.",
        "`canopyctl ca status` names the agents that the next step waits for. Start those that are away, upgrade those of an earlier version, revoke those that are gone; or take the step without them (`canopyctl ca finish --accept-loss node/NAME`) and enroll them again.";
    /// Agents do not renew their certificates.
    CertificateNotRenewed: Warning Controller, opens 300000 ms, closes 0 ms,
        "has connected agents that do not renew their certificates",
        "An agent renews its certificate at half of its life. These have less than a quarter of theirs left, and keep their connections until they end. The nodes continue to forward, and what has expired can still be renewed for 30 days.",
        "Read the log of the agents that the evidence names: a full disk or a state directory that cannot be written to, most often. `canopyctl ca status` has the end of every certificate.";
    /// The controller's wall clock is not that of most nodes.
    ControllerClockDiffers: Warning Controller, opens 5000 ms, closes 3000 ms,
        "has a wall clock that is not that of most nodes",
        "The clocks of more than half of the connected nodes, of at least three, differ from the controller's by more than 5 s to the same side. Its events, audit and history have wrong times, drains and silences end at wrong ones, and certificates may count as expired or as not valid yet. Data does not suffer.",
        "Let chrony or systemd-timesyncd set the clock of the controller's machine (`timedatectl status`).";
    /// A node's agent is not connected.
    AgentDisconnected: Critical Node, opens 3000 ms, closes 0 ms,
        "has no connection to its agent",
        "The node continues to forward what it has. Changes do not reach it, and its failures are not seen: groups through it can be neither changed nor observed. An agent that was stopped has had 60 s to come back, one that was killed 10 s.",
        "Start canopy-agent on the node (`systemctl status canopy-agent`), or mend its path to the controller.";
    /// A node's agent is connected and sends no telemetry.
    AgentSilent: Critical Node, opens 0 ms, closes 1000 ms,
        "has an agent that is connected but sends nothing",
        "No telemetry has arrived for three of the agent's intervals, at least 3 s. The agent hangs, or gets no CPU. The node continues to forward.",
        "Read the agent's log and check the load of the node; restart canopy-agent, which interrupts nothing.";
    /// A node's wall clock is not the controller's.
    ClockDiffers: Warning Node, opens 5000 ms, closes 3000 ms,
        "has a wall clock that is not the controller's",
        "The clocks differ by more than 5 s, as the time stamps of its telemetry show. Its events, log lines, captures and spans have wrong times, and a certificate may count as expired or as not valid yet. Data does not suffer: no decision of the data path depends on a wall clock.",
        "Compare `date --utc` on both machines with a third one: with fewer than three nodes it may be the controller's clock that is wrong. Let chrony or systemd-timesyncd set it (`timedatectl status`).";
    /// A node has not applied its desired state.
    NodeBehind: Warning Node, opens 10000 ms, closes 1000 ms,
        "has not applied its desired state",
        "The agent is connected, and the generation that it reports is not the desired one.",
        "Read the node's errors (`canopyctl describe node`) and the agent's log.";
    /// A node that is to leave for good has not left in time.
    RetirementLate: Warning Node, opens 0 ms, closes 0 ms,
        "has not left in the time that its retirement was given",
        "A node is being retired, and a step waits for something. Nothing is given up: it continues once that has come. Data does not suffer.",
        "`canopyctl describe node` has the step and what it waits for. Mend that, let it continue without the agent (`canopyctl node retire --without-agent`), or take it back (`--cancel`) while it is drained.";
    /// A program of the datapath, or the agent itself, does not work.
    ProgramNotLoaded: Critical Node, opens 0 ms, closes 1000 ms,
        "does not run a program of the datapath",
        "The agent could not load or attach a BPF program. What that program does is not done at this node.",
        "The evidence has the kernel's message; see the requirements in docs/datapath.md.";
    /// A group's program could not be written.
    ProgramRefused: Critical Group, opens 0 ms, closes 1000 ms,
        "has a node that cannot run its program",
        "The agent could not write the group's entries into the maps of the datapath.",
        "The evidence names the node and the cause; a full map needs a higher limit in the agent's configuration.";
    /// A route is missing in a node's kernel.
    RouteMissing: Critical Node, opens 2000 ms, closes 1000 ms,
        "lacks a route of the fabric",
        "The kernel refused a route or does not have it any more. Packets that need it are dropped.",
        "The evidence has the route and the kernel's message; find the program that changes routes of protocol 201.";
    /// An item of a node's desired state is missing, of a kind without a code of its own.
    ItemMissing: Warning Node, opens 2000 ms, closes 1000 ms,
        "reports something that is not as desired",
        "The agent compares the kernel with the desired state and found a difference that it could not mend.",
        "The evidence has the item and what to do.";
    /// A port's interface has too small an MTU, or could not be set up.
    PortMisconfigured: Critical Port, opens 0 ms, closes 1000 ms,
        "has an interface that is not as the topology wants it",
        "Its MTU is smaller than that of its link, so that large packets are dropped there, or the agent could not set it up or give it its addresses.",
        "The evidence has the difference. Raise the MTU of the interface, or lower that of the link in the topology.";
    /// A port to a host has no interface or no carrier.
    PortDown: Critical Port, opens 0 ms, closes 1000 ms,
        "has no interface or no carrier",
        "The host behind it is cut off, or has a link less.",
        "Check the interface, the cable and the host.";
    /// A link between nodes carries nothing: an interface or the carrier is missing at an end.
    LinkDown: Warning Link, opens 0 ms, closes 1000 ms,
        "carries nothing: an interface or its carrier is missing at an end",
        "Trees and routes avoid it where another path exists. Groups without another path are among what it affects.",
        "Check the interfaces at both ends and the cable.";
    /// A link loses every packet although its carrier is up.
    LinkBlackHole: Warning Link, opens 0 ms, closes 1000 ms,
        "loses every packet, or every packet of data, although its carrier is up",
        "Echo Requests over the link have no reply, or data that one end sends does not arrive at the other. Trees and routes avoid the link where another path exists.",
        "Check what is between the ends: MTU, policers, VLANs, optics. The evidence states whether small packets pass.";
    /// A link loses a part of its packets.
    LinkLossy: Warning Link, opens 0 ms, closes 1000 ms,
        "loses packets although its carrier is up",
        "Losses of Echo Requests or of data are above the threshold, and the queues at both ends did not drop that many. Retransmissions slow down every group over the link.",
        "Check optics, cables and counters at both ends. Drain the link to move its trees away.";
    /// A port's queue stays above K_max.
    LinkCongested: Warning Port, opens 2000 ms, closes 5000 ms,
        "has a queue above K_max",
        "The largest queue of the last windows was above K_max. Sources of its heaviest flows get Long-haul CNPs.",
        "`canopyctl get flows` names the sources. If they are paced and the queue stays, the link is too slow for what is asked of it.";
    /// K_max is smaller than the path needs.
    ThresholdClamped: Info Port, opens 0 ms, closes 0 ms,
        "has a K_max that its buffer limits",
        "The port can queue less than the bandwidth-delay product asks for. Sources are slowed down earlier than the link needs.",
        "Give the port a larger queue and set bufferBytes of the link, or accept it.";
    /// A next hop or a host does not answer neighbour discovery.
    NeighbourUnresolved: Critical Port, opens 1000 ms, closes 1000 ms,
        "leads to a neighbour that does not answer neighbour discovery",
        "Without a link-layer address no packet can be sent there.",
        "Check that the host or node behind the port is up and has the address of the topology.";
    /// No tree is possible.
    GroupInfeasible: Critical Group, opens 0 ms, closes 0 ms,
        "has no tree",
        "No path leads from the source to every receiver, or a limit prevents the tree.",
        "The evidence has the reason. Undrain or mend links, or change the group.";
    /// The stall policy ended the group.
    GroupFailed: Critical Group, opens 0 ms, closes 0 ms,
        "was stopped by its stall policy",
        "The policy is `fail`, and a receiver did not acknowledge. Nothing is forwarded until every member has left.",
        "Find out what was wrong with the receiver that the evidence names; then let the members leave and join again.";
    /// Nodes have not confirmed the group's programs.
    GroupNotProgrammed: Critical Group, opens 5000 ms, closes 0 ms,
        "waits for nodes to confirm their programs",
        "The headend takes no data, or a change of the group is not in force, until every node of the tree has confirmed.",
        "The evidence names the nodes.";
    /// A node reports an error that concerns the group, or its tree leads over a broken link.
    GroupDegraded: Critical Group, opens 0 ms, closes 500 ms,
        "has a tree that a part of does not work",
        "A node of the tree reports something that the group needs, or the tree leads over a broken link that is the only way to a receiver.",
        "Follow the cause.";
    /// A tree could not be moved.
    MoveGivenUp: Warning Group, opens 0 ms, closes 0 ms,
        "has a tree that could not be moved",
        "A node did not confirm the next tree in time. The tree in force carries the data, on a path that it should leave.",
        "The evidence names the node. The move is tried again by itself.";
    /// Data is outstanding and nothing of it is acknowledged.
    GroupStalled: Critical Group, opens 0 ms, closes 1000 ms,
        "makes no progress",
        "The headend has unacknowledged data, and its AckPSN has not advanced for stallAfterMs. The source waits.",
        "Follow the cause: the branch that holds the minimum leads to a receiver, a link or a node.";
    /// Nothing is known of a group's progress.
    GroupUnobserved: Warning Group, opens 1000 ms, closes 0 ms,
        "may be stalled: its headend sends no telemetry",
        "The headend continues to forward, but the controller does not see whether receivers acknowledge.",
        "Mend the agent of the headend.";
    /// A receiver acknowledges nothing.
    ReceiverStalled: Critical Member, opens 0 ms, closes 1000 ms,
        "acknowledges nothing",
        "Its edge forwards data to it and gets no ACK. The host is down, its MTU is smaller than the packets, its queue pair has another number or is not ready to receive. The edge sends the host at most three Echo Requests, small ones and as large as the data: the evidence has what the answers show.",
        "On the host: is it up, does its interface take packets of the path MTU, does the queue pair exist and is it in RTR or RTS? The policy `evict` removes such receivers.";
    /// The source waits for one receiver.
    ReceiverSlow: Warning Member, opens 5000 ms, closes 3000 ms,
        "slows its group down: the source waits for it",
        "Nearly all PSNs of the last seconds were acknowledged by every other receiver before, and data waits at its edge for its ACK by 20 ms or more. The source sends no faster than this receiver acknowledges.",
        "On the host: does the application post receives fast enough, is a CPU or the disk behind it busy? `canopyctl top group NAME` has the shares of all receivers. Evict the receiver if the others must not wait.";
    /// A receiver's queue pair is in error.
    ReceiverFailed: Critical Member, opens 0 ms, closes 1000 ms,
        "refused data with a fatal NAK: its queue pair is in error",
        "Retransmission does not help: the queue pair stays in error until its application resets it.",
        "The syndrome names the cause: remote access (wrong R_Key or address), invalid request (wrong length or opcode) or an error of the host. Reset the queue pair and join again.";
    /// A branch to a child node acknowledges nothing, and nothing below it explains that.
    BranchSilent: Critical Link, opens 500 ms, closes 1000 ms,
        "leads to a node from which no acknowledgement arrives",
        "The parent forwards data there. No receiver behind the child is known to be the cause, so data or acknowledgements are lost between the two, or the child does not forward.",
        "Check the link in both directions, then the child's agent and its drop counters (`canopyctl describe node`).";
    /// Packets that no headend made arrive at a node.
    PacketsForged: Warning Node, opens 2000 ms, closes 10000 ms,
        "drops packets that do not fit what was provisioned",
        "SRHs, receiver lists, sources or HMACs are not those of the headends of its groups: a host or node sends to SIDs of the domain by itself, or a node runs another state than the controller desires.",
        "The evidence has the drop reasons (docs/datapath.md). If all nodes are in sync, capture at the node and follow the link-layer source.";
    /// Flows are not counted.
    FlowTableFull: Warning Node, opens 2000 ms, closes 10000 ms,
        "does not count all flows: its table of flows is full",
        "The table has 65,536 entries, one for each flow of a group and port, or fewer where the memory limit of the agent is reached before. Data is forwarded, and marked above K_min; flows without an entry are in no report, get no Long-haul CNP, and are not paced.",
        "Raise the memory limit of the agent if it has one. Delete groups that are not used, or move some to other nodes by draining links: `canopyctl get flows` shows what the node counts.";
    /// The headend drops what the source sends.
    SourceRefused: Warning Group, opens 3000 ms, closes 10000 ms,
        "has a source whose packets the headend drops",
        "The source sends before the group is open, from another port, queue pair or PSN than it joined with, or operations that cannot be multicast.",
        "The evidence has the drop reasons (docs/datapath.md). Compare the queue pair with the connection in `canopyctl describe group`.";
    /// The source does not send again what is unacknowledged.
    SourceGaveUp: Critical Group, opens 0 ms, closes 1000 ms,
        "has a source that gave up: it does not send again what is not acknowledged",
        "Data is not acknowledged, and the headend has taken no packet of the source for 10 s, while RC sends again after each ACK timeout. The queue pair of the source is in error, as after too many tries for a receiver that did not answer, or its application has ended. Data does not flow again by itself, also when the receiver is back.",
        "Mend the cause first, if there is one. Then let the application of the source connect again: restart it, or have it leave and join. If it has ended, end the memberships (`canopyctl delete member`).";
    /// Copies cannot be forwarded.
    CopiesNotForwarded: Critical Group, opens 1000 ms, closes 3000 ms,
        "has copies that a node cannot forward",
        "The FIB or the neighbour table of the node has no next hop for a branch.",
        "Follow the cause, or compare `ip -6 route show table 4791` and `ip -6 neigh` at the node with `canopyctl describe node`.";
    /// Copies are larger than a path of the tree.
    CopiesTooLarge: Critical Group, opens 1000 ms, closes 3000 ms,
        "has copies that are larger than a path of its tree",
        "The MTU of a port is smaller than the source's packets with their encapsulation.",
        "Raise the MTU of the links, or lower pathMtu of the group.";
    /// A host sends what the boundary refuses.
    HostRefused: Warning Port, opens 3000 ms, closes 10000 ms,
        "drops packets at the boundary of the domain",
        "What is behind the port sends frames, addresses or destinations that it must not: it is misconfigured or hostile. Its groups are not affected by that.",
        "The evidence has the drop reasons (docs/datapath.md); `tcpdump -i PORT` at the node shows the packets.";
    /// A receiver that joined late has not brought its queue pair up.
    ReceiverNotReady: Warning Member, opens 10000 ms, closes 0 ms,
        "joined late and does not answer the probe of its queue pair",
        "It gets no data until its queue pair answers as one that expects the start PSN. The other receivers are not affected.",
        "Bring its queue pair to RTR with the start PSN of the group as rq_psn.";
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The variants' names are the API's.
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_texts_that_stand_alone() {
        for code in ProblemCode::ALL {
            let info = code.info();
            assert_eq!((info.code, ProblemCode::from_name(&code.to_string())), (*code, Some(*code)));
            for text in [info.meaning, info.remedy] {
                assert!(
                    text.ends_with('.') && text.starts_with(|c: char| c.is_uppercase() || c == '`'),
                    "{code}: {text}"
                );
            }
            let drains = info.remedy.contains("Drain the link");
            assert_eq!(code.is_mended_by_drain(), drains && info.object == ObjectKind::Link, "{code}");
            assert!(info.title.starts_with(char::is_lowercase) && !info.title.ends_with('.'), "{code}: {}", info.title);
        }
        assert_eq!(ProblemCode::from_name("Nothing"), None);
    }

    #[test]
    fn severities_are_words_of_the_metrics() {
        let all = [Severity::Critical, Severity::Warning, Severity::Info];
        assert_eq!(all.map(|severity| severity.to_string()), ["critical", "warning", "info"]);
    }
}
