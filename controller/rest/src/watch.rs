// SPDX-License-Identifier: Apache-2.0
//! `?watch=true`: changes of a kind of resource as server-sent events.
//!
//! - [`ring`]: the last changes of one kind, shared by all watchers; [`feed`]: the task that fills it.
//! - [`stream`]: one watcher, a cursor in the ring; [`present`]: the state that it begins with; [`frame`]: events as bytes.

mod feed;
pub(crate) mod frame;
mod intents;
pub(crate) mod present;
mod ring;
mod stream;

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Once};
use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::{CommandError, Controller};
use canopy_controller_api::problem::Problem;
use canopy_controller_api::query::{TopicsQuery, WatchQuery};
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::Scope;
use canopy_daemon::limits::{HolderPlace, HolderPlaces, Limit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use self::feed::{Events, Named, Problems};
use self::frame::{CONTENT, frame};
use self::present::Present;
use self::ring::{BOUNDS, Ring};
use self::stream::{Begin, From, Watcher};
use crate::authorization;
use crate::caller::Sender;
use crate::error::ApiError;
use crate::extract::ApiQuery;
use crate::limits::{self, LATER};
use crate::map_layers::MapLayers;

/// Seconds that a stream lasts.
pub(crate) const LASTS: std::ops::RangeInclusive<u64> = 1..=3600;
const DEFAULT_LASTS: u64 = 300;
/// Streams at once, at all listeners, of all tokens of one maker and of one caller.
const STREAMS: (usize, usize) = (256, 128);

/// Kinds that can be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Groups,
    Nodes,
    Problems,
    Events,
    Topology,
    Drains,
    Commits,
    Audit,
}

impl Topic {
    pub(crate) const ALL: [Self; 8] = [
        Self::Groups,
        Self::Nodes,
        Self::Problems,
        Self::Events,
        Self::Topology,
        Self::Drains,
        Self::Commits,
        Self::Audit,
    ];

    /// As a client writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::Nodes => "nodes",
            Self::Problems => "problems",
            Self::Events => "events",
            Self::Topology => "topology",
            Self::Drains => "drains",
            Self::Commits => "commits",
            Self::Audit => "audit",
        }
    }

    /// Whether it has changes of what belongs to tenants, whose callers may watch it.
    pub(crate) fn is_of_tenants(self) -> bool {
        matches!(self, Self::Groups | Self::Problems | Self::Events | Self::Audit)
    }

    fn parse(text: &str) -> Result<Self, ApiError> {
        Self::ALL.into_iter().find(|topic| topic.name() == text).ok_or_else(|| {
            let all = Self::ALL.map(Self::name).join(", ");
            ApiError::bad_request("topics", format!("{text:?} is none of {all}"))
        })
    }
}

/// The streams of a controller, and the layers of its map: one for all its listeners. Rings and layers are shared, connection slots are not.
#[derive(Clone)]
pub struct Watches {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    closing: watch::Receiver<bool>,
}

struct Shared {
    groups: Feed,
    nodes: Feed,
    problems: Feed,
    events: Feed,
    topology: Feed,
    drains: Feed,
    commits: Feed,
    audit: Feed,
    layers: MapLayers,
    /// See [`Begin::turn`].
    turn: Arc<Semaphore>,
    /// By principal, at all listeners.
    streams: HolderPlaces,
}

/// The places of an open stream.
#[allow(dead_code, reason = "held, not read")]
struct Slot(OwnedSemaphorePermit, Option<HolderPlace>);

/// A ring, and whether the task that fills it has begun.
struct Feed {
    ring: Arc<Ring>,
    begun: Once,
}

impl Default for Feed {
    fn default() -> Self {
        Self { ring: Arc::new(Ring::new(BOUNDS)), begun: Once::new() }
    }
}

impl Watches {
    /// Streams end once `closing` is true, or its sender is dropped. `slots` may be open at once.
    pub fn new(closing: watch::Receiver<bool>, slots: usize) -> Self {
        let shared = Shared {
            groups: Feed::default(),
            nodes: Feed::default(),
            problems: Feed::default(),
            events: Feed::default(),
            topology: Feed::default(),
            drains: Feed::default(),
            commits: Feed::default(),
            audit: Feed::default(),
            layers: MapLayers::default(),
            turn: Arc::new(Semaphore::new(1)),
            streams: HolderPlaces::new(usize::MAX, STREAMS.0, STREAMS.1),
        };
        Self { shared: Arc::new(shared), slots: Arc::new(Semaphore::new(slots)), closing }
    }

    /// The same streams for another listener, which has as many slots of its own.
    #[must_use]
    pub fn with_slots(&self, slots: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(slots)), ..self.clone() }
    }

    /// The layers of the map.
    pub(crate) fn layers(&self) -> &MapLayers {
        &self.shared.layers
    }

    /// Answers a request for a stream. `others` are parameters of the list that a stream does not have, and whether they were given.
    pub(crate) fn open(
        &self,
        controller: &Controller,
        topic: Topic,
        scope: Scope,
        query: &WatchQuery,
        headers: &HeaderMap,
        others: &[(&str, bool)],
    ) -> Result<Response, ApiError> {
        if let Some((field, _)) = others.iter().find(|(_, is_given)| *is_given) {
            return Err(ApiError::bad_request(field, "is not possible with watch=true: a stream has everything"));
        }
        let lasts = lasts(query.timeout_seconds)?;
        let feed = self.shared.feed(topic);
        // A browser that connects again repeats the URL, and has the newer token in the header.
        let last = headers.get("last-event-id").map(|id| id.to_str().unwrap_or("?"));
        let token = last.map(|id| ("Last-Event-ID", id)).or(query.after.as_deref().map(|after| ("after", after)));
        let resumed = token
            .map(|(field, token)| feed.ring.cursor(token).map_err(|why| ApiError::bad_request(field, why)))
            .transpose()?;
        let slot = self.slot()?;
        self.begin(controller, topic);
        let (cursor, present) = match resumed {
            Some(cursor) => (cursor, None),
            None => {
                let (now, mark) = feed.ring.now();
                (Some(now), Some(Present::new(controller, topic, scope.clone(), mark)))
            }
        };
        let from = From { ring: feed.ring.clone(), cursor, present, topic: None };
        Ok(self.answer(controller, vec![from], scope, None, lasts, slot))
    }

    /// Answers a request for changes of several kinds in one stream, from now on.
    pub(crate) fn open_topics(
        &self,
        controller: &Controller,
        scope: Scope,
        query: &TopicsQuery,
    ) -> Result<Response, ApiError> {
        let lasts = lasts(query.timeout_seconds)?;
        let mut topics = Vec::new();
        for topic in query.topics.split(',') {
            let topic = Topic::parse(topic)?;
            if topics.contains(&topic) {
                return Err(ApiError::bad_request("topics", format!("{} is there twice", topic.name())));
            }
            if !scope.is_domain() && !topic.is_of_tenants() {
                return Err(authorization::of_domain(topic.name()));
            }
            topics.push(topic);
        }
        let slot = self.slot()?;
        let mut from = Vec::with_capacity(topics.len());
        for topic in topics {
            self.begin(controller, topic);
            let ring = self.shared.feed(topic).ring.clone();
            let (now, _) = ring.now();
            from.push(From { ring, cursor: Some(now), present: None, topic: Some(topic.name()) });
        }
        Ok(self.answer(controller, from, scope, Some(frame("synced", None, b"{}")), lasts, slot))
    }

    fn answer(
        &self,
        controller: &Controller,
        from: Vec<From>,
        scope: Scope,
        first: Option<Bytes>,
        lasts: Duration,
        slot: Slot,
    ) -> Response {
        let watcher = Watcher::new(Begin {
            controller: controller.clone(),
            from,
            scope,
            first,
            turn: self.shared.turn.clone(),
            lasts,
            closing: self.closing.clone(),
            slot,
        });
        let events = futures::stream::unfold(watcher, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((Ok::<_, Infallible>(event), watcher))
        });
        let headers = [(CONTENT_TYPE, CONTENT), (CACHE_CONTROL, "no-store")];
        (headers, Body::from_stream(events)).into_response()
    }

    /// A place for a stream of the caller whose request this is.
    fn slot(&self) -> Result<Slot, ApiError> {
        let detail = format!(
            "as many streams are open as one caller may have, {}, or all tokens of one user, {}",
            STREAMS.1, STREAMS.0
        );
        let own = limits::holder().map(|holder| self.shared.streams.take(&holder).ok_or(detail)).transpose();
        let slot = self.slots.clone().try_acquire_owned();
        let slot = slot.map_err(|_| "as many streams are open as this address may have".to_owned());
        own.and_then(|own| slot.map(|slot| Slot(slot, own))).map_err(|why| {
            Limit::Streams.refuse();
            let detail = format!("{why}: close one, or try again later");
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyStreams", detail).after(LATER)
        })
    }

    /// Starts the kind's feed, if this is the first watcher.
    fn begin(&self, controller: &Controller, topic: Topic) {
        let Feed { ring, begun } = self.shared.feed(topic);
        begun.call_once(|| {
            let (of, to) = (controller.clone(), ring.clone());
            match topic {
                Topic::Groups => self.spawn(Named::groups(controller).feed(of, to)),
                Topic::Nodes => self.spawn(Named::nodes(controller).feed(of, to)),
                Topic::Problems => self.spawn(Problems::new(controller).feed(of, to)),
                Topic::Events => self.spawn(Events::new(controller, ring).feed(of, to)),
                Topic::Topology => self.spawn(intents::Topology::new(controller).feed(of, to)),
                Topic::Drains => self.spawn(intents::Drains::new(controller).feed(of, to)),
                Topic::Commits => self.spawn(intents::Commits::new(controller).feed(of, to)),
                Topic::Audit => self.spawn(intents::Audit::new(controller, ring).feed(of, to)),
            }
        });
    }

    fn spawn(&self, feed: impl Future<Output = Result<(), CommandError>> + Send + 'static) {
        let mut closing = self.closing.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = closing.wait_for(|closing| *closing) => {}
                ended = feed => if let Err(error) = ended {
                    tracing::debug!(%error, "changes are not streamed any more");
                },
            }
        });
    }
}

impl Shared {
    fn feed(&self, topic: Topic) -> &Feed {
        match topic {
            Topic::Groups => &self.groups,
            Topic::Nodes => &self.nodes,
            Topic::Problems => &self.problems,
            Topic::Events => &self.events,
            Topic::Topology => &self.topology,
            Topic::Drains => &self.drains,
            Topic::Commits => &self.commits,
            Topic::Audit => &self.audit,
        }
    }
}

/// Changes of several kinds as server-sent events, from now on: read the lists after `synced`.
#[utoipa::path(get, path = "/api/v1/watch", tag = "watch", operation_id = "watchTopics", params(TopicsQuery),
    responses((status = 200, description = "a stream of changes", body = String, content_type = "text/event-stream"), (status = 400, body = Problem, description = "a parameter is wrong"), (status = 429, body = Problem, description = "too many streams are open")))]
pub(crate) async fn topics(
    State(controller): State<Controller>,
    Extension(watches): Extension<Watches>,
    Sender(by): Sender,
    ApiQuery(query): ApiQuery<TopicsQuery>,
) -> Result<Response, ApiError> {
    watches.open_topics(&controller, by.scope(Role::Viewer), &query)
}

fn lasts(seconds: Option<u64>) -> Result<Duration, ApiError> {
    let lasts = seconds.unwrap_or(DEFAULT_LASTS);
    if LASTS.contains(&lasts) {
        return Ok(Duration::from_secs(lasts));
    }
    let (least, most) = (LASTS.start(), LASTS.end());
    Err(ApiError::bad_request("timeoutSeconds", format!("{lasts} is outside {least}..={most}")))
}

/// Refuses parameters of a stream in a request for a list.
pub(crate) fn only_with_watch(query: &WatchQuery) -> Result<(), ApiError> {
    let given = [("after", query.after.is_some()), ("timeoutSeconds", query.timeout_seconds.is_some())];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((field, _)) => Err(ApiError::bad_request(field, "is possible with watch=true only")),
        None => Ok(()),
    }
}
