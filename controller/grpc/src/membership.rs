// SPDX-License-Identifier: Apache-2.0
//! MembershipService: RDMA applications join groups here instead of exchanging QPNs with each other.

use std::num::NonZeroU64;
use std::pin::Pin;
use std::time::Duration;

use canopy_control::pb::membership_service_server::MembershipService;
use canopy_control::pb::{
    Evicted, GroupPhase, HoldMembershipRequest, HoldMembershipResponse, JoinRequest, JoinResponse, LeaveRequest,
    LeaveResponse, WatchGroupRequest, WatchGroupResponse,
};
use canopy_controller_actor::{CommandError, Controller, Done, Order};
use canopy_controller_core::trace::Trace;
use canopy_controller_core::{Command, DomainError};
use canopy_model::ids::{GroupId, check_name};
use canopy_model::member::MemberSpec;
use futures::Stream;
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tracing::Instrument;

use crate::by::By;
use crate::caller::Caller;
use crate::closing::closed;
use crate::error;
use crate::keys::Keys;
use crate::leases::Leases;
use crate::traced::Traced;

/// Longest duration of a unary call.
const UNARY_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Membership {
    controller: Controller,
    keys: Keys,
    leases: Leases,
    closing: watch::Receiver<bool>,
}

impl Membership {
    pub(crate) fn new(controller: Controller, keys: Keys, leases: Leases, closing: watch::Receiver<bool>) -> Self {
        Self { controller, keys, leases, closing }
    }

    async fn execute(&self, command: Command, by: By, trace: Option<Trace>) -> Result<Done, Status> {
        let request = trace.map(|trace| trace.id);
        let order = Order { scope: by.scope, request, trace, ..Order::new(command, by.principal) };
        match tokio::time::timeout(UNARY_TIMEOUT, self.controller.carry_out(order)).await {
            Ok(done) => done.map_err(error::command),
            Err(_) => Err(Status::deadline_exceeded(format!(
                "not answered within {UNARY_TIMEOUT:?}: joining and leaving again is safe"
            ))),
        }
    }

    fn snapshot(&self, group: &str) -> Option<(GroupId, WatchGroupResponse)> {
        let now = self.controller.read(|d| d.group_summary(group))?;
        let state = WatchGroupResponse {
            phase: GroupPhase::from(now.phase).into(),
            reason: now.reason,
            receivers: now.receivers,
            write_length: now.connection.write_length,
            session: now.connection.session,
            evicted: now.evicted.into_iter().map(|e| Evicted { host: e.host, reason: e.reason }).collect(),
        };
        Some((now.group_id, state))
    }
}

impl Membership {
    async fn joined(
        &self,
        request: Request<JoinRequest>,
        trace: Option<Trace>,
    ) -> Result<Response<JoinResponse>, Status> {
        let caller = Caller::of(&request)?;
        let span = tracing::info_span!(
            "join",
            request_id = trace.map(|trace| tracing::field::display(trace.id)),
            group = request.get_ref().group,
            host = request.get_ref().host,
            %caller
        );
        let request = request.into_inner();
        let lease = Some(request.lease);
        let by = By::at(&request.host, request.uid, &request.account)?;
        let instance = NonZeroU64::new(request.instance);
        let (group, spec) = <(String, MemberSpec)>::try_from(request).map_err(error::field)?;
        let host = spec.host.clone();
        caller.as_host(&self.controller, &self.keys, &host)?;
        let command = Command::PutMember { group: group.clone(), spec, create_only: true, instance, lease };
        async {
            // Until the join is carried out, and from then on for the time in which it is to be held; also if the caller goes away meanwhile.
            let joining = self.leases.hold((group.clone(), host.clone()))?;
            let this = self.clone();
            let joined = tokio::spawn(
                async move {
                    let _joining = joining;
                    this.execute(command, by, trace).await
                }
                .in_current_span(),
            );
            let done = joined.await.map_err(|_| error::stopping())??;
            tracing::info!(outcome = ?done.outcome, "joined");
            let connection = self.controller.read(|d| d.connection_of(&group, &host));
            self.controller.settled().await.map_err(error::command)?;
            connection.map(|c| Response::new((&c).into())).ok_or_else(|| {
                Status::aborted(format!(
                    "the session of group {group:?} that {host} joined has ended meanwhile: join again"
                ))
            })
        }
        .instrument(span)
        .await
    }

    async fn left(
        &self,
        request: Request<LeaveRequest>,
        trace: Option<Trace>,
    ) -> Result<Response<LeaveResponse>, Status> {
        let caller = Caller::of(&request)?;
        let span = tracing::info_span!(
            "leave",
            request_id = trace.map(|trace| tracing::field::display(trace.id)),
            group = request.get_ref().group,
            host = request.get_ref().host,
            %caller
        );
        let LeaveRequest { group, host, uid, account } = request.into_inner();
        check_name("group", &group).map_err(error::field)?;
        check_name("host", &host).map_err(error::field)?;
        caller.as_host(&self.controller, &self.keys, &host)?;
        let by = By::at(&host, uid, &account)?;
        async {
            self.execute(Command::DeleteMember { group, host }, by, trace).await?;
            tracing::info!("left");
            Ok(Response::new(LeaveResponse {}))
        }
        .instrument(span)
        .await
    }
}

#[tonic::async_trait]
impl MembershipService for Membership {
    async fn join(&self, request: Request<JoinRequest>) -> Result<Response<JoinResponse>, Status> {
        let traced = Traced::begin(&self.controller, request.metadata(), "Join");
        let done = self.joined(request, traced.as_ref().map(Traced::trace)).await;
        if let Some(traced) = traced {
            traced.end(&done);
        }
        done
    }

    async fn leave(&self, request: Request<LeaveRequest>) -> Result<Response<LeaveResponse>, Status> {
        let traced = Traced::begin(&self.controller, request.metadata(), "Leave");
        let done = self.left(request, traced.as_ref().map(Traced::trace)).await;
        if let Some(traced) = traced {
            traced.end(&done);
        }
        done
    }

    type HoldMembershipStream = Pin<Box<dyn Stream<Item = Result<HoldMembershipResponse, Status>> + Send>>;

    async fn hold_membership(
        &self,
        request: Request<HoldMembershipRequest>,
    ) -> Result<Response<Self::HoldMembershipStream>, Status> {
        let caller = Caller::of(&request)?;
        let HoldMembershipRequest { group, host } = request.into_inner();
        check_name("group", &group).map_err(error::field)?;
        check_name("host", &host).map_err(error::field)?;
        caller.as_host(&self.controller, &self.keys, &host)?;
        // Subscribed before the first check, so that no change in between is missed.
        let mut changes = self.controller.group_changes(&group);
        let hold = self.leases.hold((group.clone(), host.clone()))?;
        let (controller, keys, mut closing) = (self.controller.clone(), self.keys.clone(), self.closing.clone());
        let stream = async_stream::stream! {
            let _hold = hold;
            let mut sent = None;
            loop {
                let (is_held, flow) = controller.read(|d| (d.has_lease(&group, &host), d.source_flow(&group, &host)));
                if !is_held {
                    break;
                }
                if sent.is_none() || (flow.is_some() && sent != Some(flow.clone())) {
                    sent = Some(flow.clone());
                    yield Ok(HoldMembershipResponse { flow: flow.map(Into::into) });
                }
                tokio::select! {
                    () = changes.changed() => {}
                    () = closed(&mut closing) => { yield Err(error::stopping()); return; }
                }
                // The host may be on another node's port by now.
                if let Err(refused) = caller.as_host(&controller, &keys, &host) {
                    yield Err(refused);
                    return;
                }
            }
            yield Err(Status::not_found(format!("{host} has no membership with a lease in group {group}")));
        };
        Ok(Response::new(Box::pin(stream)))
    }

    type WatchGroupStream = Pin<Box<dyn Stream<Item = Result<WatchGroupResponse, Status>> + Send>>;

    async fn watch_group(
        &self,
        request: Request<WatchGroupRequest>,
    ) -> Result<Response<Self::WatchGroupStream>, Status> {
        Caller::of(&request)?.as_reader()?;
        let WatchGroupRequest { group, account } = request.into_inner();
        check_name("group", &group).map_err(error::field)?;
        let scope = By::at("", None, &account)?.scope;
        // Subscribed before the first snapshot, so that no change in between is missed.
        let mut changes = self.controller.group_changes(&group);
        let missing =
            || error::command(CommandError::Domain(DomainError::NotFound { kind: "group", name: group.clone() }));
        if !self.controller.read(|d| d.tenant_of(&group).is_some_and(|tenant| scope.has(tenant))) {
            return Err(missing());
        }
        let (id, mut sent) = self.snapshot(&group).ok_or_else(missing)?;
        self.controller.settled().await.map_err(error::command)?;
        let deleted = Status::not_found(format!("group {group:?} was deleted"));
        let this = Self {
            controller: self.controller.clone(),
            keys: self.keys.clone(),
            leases: self.leases.clone(),
            closing: self.closing.clone(),
        };
        let mut closing = self.closing.clone();
        let stream = async_stream::stream! {
            yield Ok(sent.clone());
            loop {
                tokio::select! {
                    () = changes.changed() => {}
                    () = closed(&mut closing) => { yield Err(error::stopping()); return; }
                }
                let now = this.snapshot(&group);
                if let Err(stopping) = this.controller.settled().await {
                    yield Err(error::command(stopping));
                    return;
                }
                match now {
                    // A group of the same name that was created again is another group.
                    Some((now_id, now)) if now_id == id => if now != sent {
                        sent = now.clone();
                        yield Ok(now);
                    },
                    _ => { yield Err(deleted); return }
                }
            }
        };
        Ok(Response::new(Box::pin(stream)))
    }
}
