// SPDX-License-Identifier: Apache-2.0
//! The span of a call, where there is an exporter: the parent of what is done for a join or a leave, down to each node. Without one nothing
//! is measured.

use canopy_controller_actor::Controller;
use canopy_controller_actor::traces::{self, Span};
use canopy_controller_core::trace::{Trace, TraceParent};
use canopy_units::UnixTime;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

/// The service whose calls are traced.
const SERVICE: &str = "canopy.v1.MembershipService";

/// A call that is traced, until it is answered.
pub(crate) struct Traced {
    controller: Controller,
    method: &'static str,
    trace: Trace,
    caller: Option<TraceParent>,
}

impl Traced {
    /// `None` without an exporter, and for a caller whose own trace is not sampled: it wants none.
    pub(crate) fn begin(controller: &Controller, metadata: &MetadataMap, method: &'static str) -> Option<Self> {
        if !controller.traces().is_on() {
            return None;
        }
        let mut all = metadata.get_all("traceparent").iter();
        let only = all.next().filter(|_| all.next().is_none());
        let caller = only.and_then(|text| TraceParent::parse(text.to_str().ok()?));
        if caller.is_some_and(|caller| !caller.is_sampled) {
            return None;
        }
        let id = caller.map_or_else(traces::drawn_request, |caller| Some(caller.id))?;
        let trace = Trace { id, span: traces::drawn()?, arrived: (controller.now(), UnixTime::now()) };
        Some(Self { controller: controller.clone(), method, trace, caller })
    }

    /// What all of its spans have in common.
    pub(crate) fn trace(&self) -> Trace {
        self.trace
    }

    /// The call is answered.
    pub(crate) fn end<T>(self, done: &Result<T, Status>) {
        let Self { controller, method, trace, caller } = self;
        let code = done.as_ref().map_or_else(Status::code, |_| Code::Ok);
        let attributes = vec![
            ("rpc.system", "grpc".to_owned()),
            ("rpc.service", SERVICE.to_owned()),
            ("rpc.method", method.to_owned()),
            ("rpc.grpc.status_code", (code as i32).to_string()),
        ];
        let error = is_ours(code).then(|| code.description().to_owned());
        let span = Span::part(trace, format!("{SERVICE}/{method}"), trace.arrived.0, controller.now());
        controller.traces().record(span.map(|span| Span {
            id: trace.span,
            parent: caller.map(|caller| caller.span),
            is_request: true,
            attributes,
            error,
            ..span
        }));
    }
}

/// The fault is not the caller's (OpenTelemetry's conventions for gRPC servers).
fn is_ours(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}
