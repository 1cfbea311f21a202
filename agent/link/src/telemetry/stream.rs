// SPDX-License-Identifier: Apache-2.0
//! Drains the queue into one client stream per session.

use std::convert::Infallible;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::node_service_client::NodeServiceClient;
use canopy_model::congestion::PortCongestion;
use canopy_model::telemetry::GroupTelemetry;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::{BRANCHES_PER_MESSAGE, Taken, TelemetryQueue};
use crate::{Backoff, MAX_SENT_BYTES, Random, Session, brief};

/// The contract's minor version from which on a sample may leave out groups at rest.
const AT_REST_MINOR_VERSION: u32 = 9;

/// Streams while a session is up; ends when `session`'s sender is gone. What is on its way when a connection
/// breaks is lost: the next sample supersedes a sample, and events are also in the agent's log.
pub(crate) async fn run(
    channel: Channel,
    node: String,
    queue: TelemetryQueue,
    mut session: watch::Receiver<Session>,
    random: Random,
) {
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(15));
    let mut opened = 0;
    loop {
        // Entries stay in the queue until a session is up.
        match session.wait_for(|session| session.up).await {
            Ok(now) if now.opened != opened => {
                opened = now.opened;
                backoff.reset();
            }
            Ok(_) => {}
            Err(_) => return,
        }
        // One message: beyond it, HTTP/2 flow control holds back and the queue drops its oldest.
        let (sender, receiver) = mpsc::channel(1);
        let mut client = NodeServiceClient::new(channel.clone()).max_encoding_message_size(MAX_SENT_BYTES);
        let answer = tokio::select! {
            biased;
            // A controller that this session opened to may be another one, or have counted what was before as another agent's: the first
            // sample of the next stream has all groups.
            () = another(session.clone(), opened) => continue,
            answer = client.stream_telemetry(ReceiverStream::new(receiver)) => answer,
            never = feed(&node, &queue, &sender, &session) => match never {},
        };
        let delay = backoff.next_delay(random());
        match answer {
            Ok(_) => tracing::warn!(retry_in = ?delay, "the controller ended the telemetry stream"),
            Err(error) => tracing::warn!(error = brief(&error), retry_in = ?delay, "the telemetry stream broke"),
        }
        tokio::time::sleep(delay).await;
    }
}

/// Waits until another session than `opened` is up.
async fn another(mut session: watch::Receiver<Session>, opened: u64) {
    if session.wait_for(|session| session.up && session.opened != opened).await.is_err() {
        // The agent ends; so does what is awaited beside this.
        std::future::pending().await
    }
}

/// Moves queue entries into the stream as fast as it takes them; once the stream has had all groups, and the session's version is known,
/// without groups at rest.
async fn feed(
    node: &str,
    queue: &TelemetryQueue,
    stream: &mpsc::Sender<pb::StreamTelemetryRequest>,
    session: &watch::Receiver<Session>,
) -> Infallible {
    // As of the last sample; what was dropped since may have been the last that a group had before it came to rest.
    let mut dropped = None;
    while let Ok(mut permit) = stream.reserve().await {
        let taken = queue.pop().await;
        let now = queue.dropped();
        let leaves_out = session.borrow().minor_version >= AT_REST_MINOR_VERSION;
        let others_at_rest = leaves_out && taken.is_read && dropped == Some(now);
        if taken.is_read {
            dropped = Some(now);
        }
        for message in messages(node, taken, others_at_rest) {
            permit.send(message);
            permit = match stream.reserve().await {
                Ok(next) => next,
                Err(_) => break,
            };
        }
    }
    // The call has dropped its receiver and is about to return its status.
    std::future::pending().await
}

/// Splits a sample so that no message nears the size limit. Events, captured frames, round-trip times, losses and queues go with the first
/// part; node drops are totals and go with every part. With `others_at_rest` groups at rest are left out, as the last part has it.
fn messages(
    node: &str,
    Taken { sample, events, captured, .. }: Taken,
    others_at_rest: bool,
) -> Vec<pb::StreamTelemetryRequest> {
    let node_drops: Vec<pb::DropCount> = sample.node_drops.iter().map(Into::into).collect();
    let part = || pb::StreamTelemetryRequest {
        node: node.to_owned(),
        time_unix_ns: sample.time.nanos(),
        groups: vec![],
        events: vec![],
        node_drops: node_drops.clone(),
        link_rtts: vec![],
        congestion: None,
        link_losses: vec![],
        captured: vec![],
        others_at_rest: false,
    };
    let mut parts = vec![part()];
    parts[0].events = events.iter().map(Into::into).collect();
    parts[0].captured = captured.iter().map(Into::into).collect();
    parts[0].link_rtts = sample.link_rtts.iter().map(Into::into).collect();
    parts[0].link_losses = sample.link_losses.iter().map(Into::into).collect();
    let ports = |ports: &Vec<PortCongestion>| pb::Congestion { ports: ports.iter().map(Into::into).collect() };
    parts[0].congestion = sample.congestion.as_ref().map(ports);
    let mut weight = 0;
    for group in sample.groups.iter().filter(|group| !others_at_rest || !sample.at_rest.contains(&group.group_id)) {
        let own = weigh(group);
        if weight > 0 && weight + own > BRANCHES_PER_MESSAGE {
            parts.push(part());
            weight = 0;
        }
        weight += own;
        if let Some(last) = parts.last_mut() {
            last.groups.push(group.into());
        }
    }
    if let Some(last) = parts.last_mut() {
        last.others_at_rest = others_at_rest;
    }
    parts
}

/// A group's size on the wire, in branches: its own counters weigh about two.
fn weigh(group: &GroupTelemetry) -> usize {
    2 + group.branches.len() + group.drops.len()
}

#[cfg(test)]
mod tests {
    use canopy_model::capture::{CaptureDirection, CapturedFrame, INNER};
    use canopy_model::congestion::{FlowOrigin, FlowTelemetry, MAX_REPORTED_FLOWS, QueueTelemetry};
    use canopy_model::ids::{GroupId, PortIndex, Qpn};
    use canopy_model::telemetry::{BranchTelemetry, EventCode, LinkLoss, LinkRtt};
    use canopy_units::{Octets, Rate, UnixTime, UnwrappedPsn};

    use super::*;
    use crate::TelemetrySample;
    use canopy_model::telemetry::Event;

    fn event(n: u64) -> Event {
        Event {
            time: UnixTime::from_nanos(n),
            code: EventCode::FatalNak,
            group: None,
            branch: None,
            epoch: None,
            detail: String::new(),
            reach: None,
        }
    }

    fn frame(n: u64) -> CapturedFrame {
        CapturedFrame {
            id: std::num::NonZeroU32::MIN,
            direction: CaptureDirection::In,
            port: "eth1".into(),
            time: UnixTime::from_nanos(n),
            length: 100,
            inner_at: 14,
            head: vec![0; 74],
            inner: [0; INNER],
        }
    }

    fn sample(n: u64, groups: u64, branches: u16) -> TelemetrySample {
        let branch = |n: u16| BranchTelemetry {
            address: [0xfcff, 0, 0, n, 0, 0, 0, 1].into(),
            next: Some(UnwrappedPsn(u64::MAX)),
            unconfirmed: false,
            ack_psn: Some(0xFF_FFFF),
            epsn: Some(0xFF_FFFF),
            fatal: None,
            late: None,
            start: None,
            ccount: u32::MAX,
            last_feedback: Some(Duration::from_nanos(u64::MAX)),
            packets: u64::MAX,
            octets: Octets::MAX,
            completed_min: Some(u64::MAX),
        };
        let group = |id| GroupTelemetry {
            group_id: GroupId::new("group", id).unwrap(),
            epoch: u32::MAX,
            high: UnwrappedPsn(u64::MAX),
            min_next: Some(UnwrappedPsn(u64::MAX)),
            acks_in: u64::MAX,
            acks_out: u64::MAX,
            naks_in: u64::MAX,
            naks_out: u64::MAX,
            cnps_in: u64::MAX,
            cnps_out: u64::MAX,
            data_packets: u64::MAX,
            fresh_packets: Some(u64::MAX),
            data_octets: Octets::MAX,
            branches: (0..branches).map(branch).collect(),
            drops: vec![],
        };
        let port = PortIndex::new("port", 1).unwrap();
        let link_rtts = vec![LinkRtt { port, rtt: Some(Duration::from_nanos(n + 1)), samples: n, lost: 0 }];
        let link_losses = vec![LinkLoss { port, requests: n, lost: 0, queue_drops: 0 }];
        let groups = (1..=groups).map(group).collect();
        let congestion = Some((1..=256).map(queue).collect());
        TelemetrySample {
            time: UnixTime::from_nanos(n),
            groups,
            at_rest: Default::default(),
            node_drops: vec![],
            link_rtts,
            link_losses,
            congestion,
        }
    }

    /// The first port has as many flows as a node reports at most.
    fn queue(port: u64) -> PortCongestion {
        let qp = Qpn::new("qp", 0xFF_FFFE).unwrap();
        let most = u64::MAX;
        let counts =
            canopy_model::congestion::CnpCounts { suppressed: most, rate_limited_flow: most, ..Default::default() };
        let flow = FlowTelemetry {
            src: [0xfcff, 0, 0, 1, 0, 0, 0, 1].into(),
            dst: [0xfcff, 0, 0, 2, 0, 0, 0, 1].into(),
            dst_qp: qp,
            src_qp: Some(qp),
            origin: FlowOrigin::Provisioned,
            packets: most,
            octets: Octets::MAX,
            ce: most,
            rate: Rate::from_bps(most),
            share_permille: 1_000,
            counts,
        };
        let queue =
            QueueTelemetry { queue: Octets::MAX, packets: most, octets: Octets::MAX, counts, ..Default::default() };
        PortCongestion {
            port: PortIndex::new("port", port).unwrap(),
            queue,
            flows: vec![flow; if port == 1 { MAX_REPORTED_FLOWS } else { 0 }],
        }
    }

    #[test]
    fn a_full_node_fits_the_message_limit_and_loses_no_group() {
        let taken =
            Taken { sample: sample(7, 2000, 64), is_read: true, events: vec![event(1)], captured: vec![frame(1)] };
        let parts = messages("n1", taken, false);
        assert!(parts.len() > 1);
        assert_eq!(parts.iter().map(|part| part.groups.len()).sum::<usize>(), 2000);
        assert_eq!(parts.iter().map(|part| part.events.len()).sum::<usize>(), 1);
        assert_eq!(parts.iter().map(|part| part.captured.len()).sum::<usize>(), 1, "sent once");
        assert_eq!(parts.iter().map(|part| part.link_rtts.len()).sum::<usize>(), 1, "sent once");
        assert_eq!(parts.iter().map(|part| part.link_losses.len()).sum::<usize>(), 1, "sent once");
        let queues: Vec<_> = parts.iter().flat_map(|part| &part.congestion).collect();
        assert_eq!((queues.len(), queues[0].ports.len()), (1, 256), "sent once");
        assert!(parts.iter().all(|part| part.time_unix_ns == 7 && part.node == "n1"));
        assert!(parts.iter().all(|part| prost::Message::encoded_len(part) < MAX_SENT_BYTES / 2));
    }

    #[tokio::test]
    async fn a_full_queue_drops_the_oldest_and_reports_it() {
        let queue = TelemetryQueue::default();
        (0..6).for_each(|n| queue.push_sample(sample(n, 1, 1)));
        assert_eq!(queue.dropped(), 2);
        let Taken { sample: oldest, events, .. } = queue.pop().await;
        assert_eq!(oldest.time.nanos(), 2);
        assert_eq!(events[0].code, EventCode::TelemetryDropped);
        assert!(events[0].detail.starts_with("2 "), "{}", events[0].detail);
        assert!(queue.pop().await.events.is_empty(), "a loss is announced once");
    }

    #[tokio::test]
    async fn events_do_not_wait_for_a_sample_and_stay_bounded() {
        let queue = TelemetryQueue::default();
        (0..300).for_each(|n| queue.push_event(event(n)));
        let Taken { sample, events, .. } = queue.pop().await;
        assert_eq!((sample.time.nanos(), sample.groups.len()), (299, 0));
        assert_eq!((events[0].time.nanos(), events.len()), (44, 257));
    }

    #[tokio::test]
    async fn captured_frames_do_not_wait_for_a_sample_and_stay_bounded() {
        let queue = TelemetryQueue::default();
        (0..300).for_each(|n| queue.push_captured(frame(n)));
        let Taken { sample, captured, .. } = queue.pop().await;
        assert_eq!((sample.time.nanos(), sample.groups.len()), (299, 0));
        assert_eq!((captured[0].time.nanos(), captured.len(), queue.dropped()), (42, 258, 42));
    }

    /// Catches a group that a controller never gets: of the first sample of a stream, or of one after which its last change was dropped.
    #[tokio::test]
    async fn groups_at_rest_are_left_out_once_the_stream_has_had_them() {
        let at_rest = |n| {
            let mut sample = sample(n, 3, 1);
            sample.at_rest = [1, 3].map(|id| GroupId::new("group", id).unwrap()).into();
            sample
        };
        let queue = TelemetryQueue::default();
        let sent = async |minor_version,
                          first: &mut dyn FnMut(&TelemetryQueue),
                          more: &mut dyn FnMut(&TelemetryQueue, u64)| {
            let (sender, mut stream) = mpsc::channel(1);
            // The version is known once the controller's first update is there.
            let (negotiated, session) = watch::channel(Session { opened: 1, up: true, minor_version: 0 });
            let mut got = Vec::new();
            first(&queue);
            let read = async {
                for n in 1..=4 {
                    let message: pb::StreamTelemetryRequest = stream.recv().await.unwrap();
                    negotiated.send_modify(|session| session.minor_version = minor_version);
                    let groups: Vec<u32> = message.groups.iter().map(|g| g.group_id).collect();
                    got.push((message.others_at_rest, groups));
                    more(&queue, n);
                }
            };
            tokio::select! {
                () = read => {}
                never = feed("n1", &queue, &sender, &session) => match never {},
            }
            got
        };
        let all = (false, vec![1, 2, 3]);
        let moved = (true, vec![2]);
        let mut first = |queue: &TelemetryQueue| queue.push_sample(at_rest(0));
        let mut next = |queue: &TelemetryQueue, n: u64| match n {
            // Nothing was read: nothing is known of the groups.
            2 => queue.push_event(event(n)),
            _ => queue.push_sample(at_rest(n)),
        };
        for _ in 0..2 {
            assert_eq!(
                sent(AT_REST_MINOR_VERSION, &mut first, &mut next).await,
                [all.clone(), moved.clone(), (false, vec![]), moved.clone()]
            );
            queue.with(|state| state.samples.clear());
        }
        assert_eq!(
            sent(AT_REST_MINOR_VERSION - 1, &mut first, &mut next).await,
            [all.clone(), all.clone(), (false, vec![]), all.clone()]
        );
        queue.with(|state| state.samples.clear());
        // Five more than the queue holds: one is dropped.
        let mut burst = |queue: &TelemetryQueue, n: u64| {
            if n == 1 {
                (1..=5).for_each(|n| queue.push_sample(at_rest(n)));
            }
        };
        assert_eq!(sent(AT_REST_MINOR_VERSION, &mut first, &mut burst).await, [all.clone(), all, moved.clone(), moved]);
    }
}
