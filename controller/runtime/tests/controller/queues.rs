// SPDX-License-Identifier: Apache-2.0
//! Queue state that an agent streams is shown by REST and canopyctl, and removed when it is stale.

use std::time::Instant;

use canopy_control::pb::{
    CnpCounts, Congestion, DepthSource, FlowCongestion, FlowOrigin, PortCongestion, StreamTelemetryRequest,
};
use serde_json::{Value, json};
use tonic::Code;

use crate::support::{Agent, Controller, DEADLINE, LAB};

fn counts() -> CnpCounts {
    CnpCounts {
        notify: 1,
        pause: 2,
        rate_reduce: 3,
        resume: 4,
        failed: 5,
        suppressed: 6,
        rate_limited_flow: 7,
        rate_limited_port: 8,
        unknown_source_qp: 9,
    }
}

fn flow(last: u8, rate_bps: u64) -> FlowCongestion {
    let address = |last| [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].to_vec();
    FlowCongestion {
        src: address(last),
        dst: address(99),
        dst_qp: 18,
        src_qp: Some(17),
        origin: FlowOrigin::Learned.into(),
        packets: 10,
        bytes: 10_000,
        ce: 2,
        rate_bps,
        share_permille: 457,
        counts: Some(counts()),
    }
}

fn port(port: u32, flows: Vec<FlowCongestion>) -> PortCongestion {
    PortCongestion {
        port,
        queue_bytes: 130_000_000,
        peak_queue_bytes: 140_000_000,
        depth_source: DepthSource::Sampled.into(),
        sampled_every_ms: 10,
        level: 180,
        peak_level: 186,
        emr_permille: 250,
        qgr_bytes_per_ms: 4_000,
        packets: 1_000,
        bytes: 1_000_000,
        marked: 70,
        ce: 80,
        not_ect: 3,
        counts: Some(counts()),
        flows,
    }
}

fn sample(ports: Vec<PortCongestion>) -> StreamTelemetryRequest {
    StreamTelemetryRequest {
        node: "n1".into(),
        time_unix_ns: 1,
        congestion: Some(Congestion { ports }),
        ..Default::default()
    }
}

async fn send(controller: &Controller, sample: StreamTelemetryRequest) -> Result<(), tonic::Status> {
    controller.nodes().await.stream_telemetry(tokio_stream::iter([sample])).await.map(drop)
}

async fn congestion(controller: &Controller, link: &str) -> Value {
    controller.get(&["links", link]).await["status"]["congestion"].clone()
}

#[tokio::test]
async fn queues_and_flows_are_shown_and_vanish() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let agent = Agent::connect(&controller, "n1", None).await.unwrap();
    send(&controller, sample(vec![port(1, vec![flow(1, 5_000), flow(2, 9_000)]), port(2, vec![])])).await.unwrap();

    let mut shown = congestion(&controller, "n1/eth1").await;
    let ago = shown.as_object_mut().unwrap().remove("reportedAgoNs").unwrap().as_u64().unwrap();
    assert!(u128::from(ago) < DEADLINE.as_nanos(), "{ago}");
    let cnps = json!({"notify": 1, "pause": 2, "rateReduce": 3, "resume": 4, "failed": 5});
    let expected = json!({"queueBytes": 130_000_000, "peakQueueBytes": 140_000_000, "depthSource": "sampled, 10 ms",
        "level": 180, "peakLevel": 186, "emrPermille": 250, "qgrBytesPerMs": 4_000, "packets": 1_000, "bytes": 1_000_000,
        "marked": 70, "ce": 80, "notEct": 3, "cnps": cnps, "suppressed": 6, "rateLimitedFlow": 7, "rateLimitedPort": 8,
        "unknownSourceQp": 9, "state": "Unknown", "loadBps": null});
    assert_eq!(shown, expected);
    let mut flows = controller.get(&["flows", "n1/eth1"]).await["items"].as_array().unwrap().clone();
    flows.iter_mut().for_each(|flow| _ = flow.as_object_mut().unwrap().remove("reportedAgoNs").unwrap());
    let expected = |src: &str, host: Option<&str>, rate: u64| {
        json!({"node": "n1", "port": "eth1", "host": host, "group": null, "src": src, "dst": "2001:db8:1::63", "dstQp": 18, "srcQp": 17,
            "origin": "learned", "packets": 10, "bytes": 10_000, "ce": 2, "rateBps": rate, "sharePermille": 457,
            "cnps": cnps, "suppressed": 6, "rateLimitedFlow": 7, "rateLimitedPort": 8, "unknownSourceQp": 9})
    };
    assert_eq!(
        flows,
        [expected("2001:db8:1::2", None, 9_000), expected("2001:db8:1::1", Some("s1"), 5_000)],
        "in descending order of rate"
    );
    for (of, so_many) in [("n1", 2), ("n1/eth2", 0), ("n2", 0)] {
        assert_eq!(controller.get(&["flows", of]).await["items"].as_array().unwrap().len(), so_many, "{of}");
    }
    assert_eq!(controller.ctl(&["get", "flows", "n1/eth9"]).await.unwrap_err().0, 3);
    assert_eq!(controller.ctl(&["get", "flows", "n9"]).await.unwrap_err().0, 3);

    for (args, words) in [
        (&["get", "links"][..], &["QUEUE", "LEVEL", "MARKED", "130000000", "180", "70"][..]),
        (&["get", "flows"], &["n1/eth1", "2001:db8:1::2", "45.7 %", "10", "35"]),
        (
            &["describe", "link", "n1/eth1"],
            &["sampled, 10 ms", "Rate Reduce:", "140000000", "2001:db8:1::2", "learned"],
        ),
        (&["describe", "link", "n2/eth1"], &["not reported"]),
    ] {
        let text = controller.ctl(args).await.unwrap();
        words.iter().for_each(|word| assert!(text.contains(word), "{word} is not in\n{text}"));
        let widest = text.lines().map(str::len).max().unwrap();
        assert!(args[0] == "describe" || widest <= 120, "{widest} columns:\n{text}");
    }

    // A port that is no longer reported; a message without congestion data changes nothing.
    send(&controller, sample(vec![port(1, vec![flow(1, 5_000)])])).await.unwrap();
    assert_eq!(congestion(&controller, "n1/eth2").await, Value::Null);
    send(&controller, StreamTelemetryRequest { congestion: None, ..sample(vec![]) }).await.unwrap();
    assert_eq!(congestion(&controller, "n1/eth1").await["level"], 180);
    // The agent disconnects.
    drop(agent);
    let deadline = Instant::now() + DEADLINE;
    while congestion(&controller, "n1/eth1").await != Value::Null {
        assert!(Instant::now() < deadline, "it is shown for ever");
        tokio::task::yield_now().await;
    }
    assert!(controller.get(&["flows"]).await["items"].as_array().unwrap().is_empty());
    controller.stop().await;
}

#[tokio::test]
async fn what_an_agent_cannot_mean_is_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    let _agent = Agent::connect(&controller, "n1", None).await.unwrap();
    let bad = FlowCongestion { share_permille: 1_001, ..flow(1, 1) };
    let refused = send(&controller, sample(vec![port(2, vec![]), port(1, vec![bad])])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("congestion.ports[1].flows[0].share_permille"), "{refused}");
    assert_eq!(congestion(&controller, "n1/eth2").await, Value::Null, "nothing of it is taken");
    controller.stop().await;
}
