// SPDX-License-Identifier: Apache-2.0
//! Generates the gRPC code from `proto/`.

fn main() -> std::io::Result<()> {
    tonic_prost_build::configure()
        // Items are shared, not copied, between what a node holds, what travels and what the ledger stores.
        .bytes(".canopy.v1.GroupItem.program")
        .bytes(".canopy.v1.FabricItem.content")
        .bytes(".canopy.v1.NodeDelta.base")
        .bytes(".canopy.v1.SnapshotPage.base")
        // They have a secret: `srh_hmac.rs` and `identity.rs` have their Debug forms.
        .skip_debug([".canopy.v1.SrhHmacKey", ".canopy.v1.EnrollRequest", ".canopy.v1.IdentifyPodRequest"])
        .compile_protos(
            &[
                "proto/canopy/v1/node.proto",
                "proto/canopy/v1/membership.proto",
                "proto/canopy/v1/pacer.proto",
                "proto/canopy/v1/steer.proto",
                "proto/canopy/v1/identity.proto",
                "proto/canopy/v1/fabric.proto",
            ],
            &["proto"],
        )
}
