// SPDX-License-Identifier: Apache-2.0
//! `canopyctl packet` with the real controller and sockets; the agents are simulated, and report frames that the test makes.

use canopy_control::pb;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::support::{Agent, Controller, LAB};

/// An agent that reports no frames, and passes on which PSNs it is asked for.
async fn blind(controller: &Controller, node: &str, armed: UnboundedSender<u32>) {
    let mut agent = Agent::connect(controller, node, None).await.unwrap();
    tokio::spawn(async move {
        while let Ok(Some(message)) = agent.next().await {
            agent.report().await;
            // The test may have ended.
            message.capture.into_iter().for_each(|order| _ = armed.send(order.psn));
        }
    });
}

/// A ready group, and the PSNs that agents are asked for while they report nothing.
async fn lab(dir: &std::path::Path, sees: bool) -> (Controller, UnboundedReceiver<u32>) {
    let (armed, orders) = unbounded_channel();
    let controller = Controller::start(dir).await;
    controller.apply(LAB).await.unwrap();
    for node in ["n1", "n2"] {
        match sees {
            true => _ = Agent::connect(&controller, node, None).await.unwrap().capture_all(controller.nodes().await),
            false => blind(&controller, node, armed.clone()).await,
        }
    }
    controller.ctl(&["wait", "group", "g1", "--timeout", "30s"]).await.unwrap();
    (controller, orders)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_is_shown_at_every_hop_with_what_each_node_changed() {
    let dir = tempfile::tempdir().unwrap();
    let (controller, _orders) = lab(dir.path(), true).await;
    let text = controller.ctl(&["packet", "g1", "--psn", "4711", "--timeout", "1s"]).await.unwrap();
    let row = |start: &[&str]| {
        let found = text.lines().find(|l| l.split_whitespace().take(start.len()).eq(start.iter().copied()));
        found.unwrap_or_else(|| panic!("no row {start:?} in\n{text}")).to_owned()
    };
    assert!(text.starts_with("group g1, PSN 4711: seen at 3 of 4 places\n"), "{text}");
    assert!(row(&["n1", "in", "eth2", "s1"]).ends_with(" 4711"), "{text}");
    assert!(row(&["n1", "out", "eth1", "n2"]).contains("not seen"), "{text}");
    assert!(row(&["n2", "out", "eth2", "r1", "-", "-", "-", "2001:db8:2::1", "0x000011"]).ends_with(" 4711"), "{text}");
    assert!(text.contains("\nn2/eth2 out: changed\n"), "{text}");
    assert!(row(&["destination"]).ends_with("-> 2001:db8:2::1  End.MT: TLV entry 1, r1"), "{text}");
    let qpn = row(&["destQp"]);
    assert!(qpn.contains(" -> 0x000011 ") && qpn.ends_with(" End.MT: QPN of r1"), "{text}");

    let file = dir.path().join("packet.pcapng");
    let args = ["packet", "g1", "--timeout", "1s", "-o", "json", "--pcapng", file.to_str().unwrap()];
    let answer: serde_json::Value = serde_json::from_str(&controller.ctl(&args).await.unwrap()).unwrap();
    assert_eq!((answer["kind"].as_str(), answer["hops"].as_array().unwrap().len()), (Some("Capture"), 4));
    assert!(std::fs::read(file).unwrap().starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]));
    controller.stop().await;
}

/// The headend's sample with this highest PSN.
async fn report(controller: &Controller, high: u64) {
    let group_id = controller.get(&["groups", "g1"]).await["status"]["groupId"].as_u64().unwrap() as u32;
    let group = pb::GroupTelemetry { group_id, epoch: 1, high, ..Default::default() };
    let sample =
        pb::StreamTelemetryRequest { node: "n1".into(), time_unix_ns: 1, groups: vec![group], ..Default::default() };
    controller.nodes().await.stream_telemetry(tokio_stream::iter([sample])).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nothing_passes_the_error_has_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (controller, _orders) = lab(dir.path(), false).await;
    let packet =
        async |args: &[&str]| controller.ctl(&[&["packet", "g1", "--timeout", "1s"], args].concat()).await.unwrap_err();
    let (code, silent) = packet(&[]).await;
    assert!(code == 5 && silent.contains("and the headend does not report"), "{code} {silent}");
    report(&controller, 1 << 24).await;
    let (code, idle) = packet(&[]).await;
    assert!(code == 5 && idle.contains("its source sent nothing within 1s: send data"), "{code} {idle}");
    let (code, absent) = controller.ctl(&["packet", "g9"]).await.unwrap_err();
    assert!(code == 3 && absent.contains("g9"), "{code} {absent}");
    let (code, wrong) = packet(&["--psn", "16777216"]).await;
    assert!(code == 1 && wrong.contains("psn: 16777216 is not a PSN"), "{code} {wrong}");
    controller.stop().await;
}

/// The source sends, and not the packet that was waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_packet_that_is_not_reached_is_no_idle_group() {
    let dir = tempfile::tempdir().unwrap();
    let (controller, mut orders) = lab(dir.path(), false).await;
    report(&controller, 1 << 24).await;
    let asked = controller.ctl(&["packet", "g1", "--timeout", "2s", "--psn", "9"]);
    let sends = async {
        assert_eq!(orders.recv().await, Some(9));
        report(&controller, (1 << 24) + 30).await;
    };
    let (answer, ()) = tokio::join!(asked, sends);
    let (code, text) = answer.unwrap_err();
    assert!(code == 5 && text.contains("PSN 9 did not pass within 2s, although the source sent 30 PSNs"), "{text}");
    controller.stop().await;
}
