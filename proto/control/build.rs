// SPDX-License-Identifier: Apache-2.0
//! Generates the gRPC code from `proto/`.

fn main() -> std::io::Result<()> {
    tonic_prost_build::configure().compile_protos(
        &["proto/canopy/v1/node.proto", "proto/canopy/v1/membership.proto", "proto/canopy/v1/pacer.proto"],
        &["proto"],
    )
}
