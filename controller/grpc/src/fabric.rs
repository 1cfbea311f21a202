// SPDX-License-Identifier: Apache-2.0
//! FabricService: what the agent of a host composes path programs from.
//!
//! A stream sends what is new to its host, newest state only: changes while a page waits for a slow agent are one change. It keeps what it
//! sent as references to what all streams share, and has one page in flight.

use std::pin::Pin;
use std::sync::Arc;

use canopy_control::fabric::{FabricDigest, FabricItems, FabricPages};
use canopy_control::pb;
use canopy_control::pb::fabric_service_server::FabricService;
use canopy_controller_actor::Controller;
use canopy_controller_core::fabric_now::{FabricNow, LinkEnd};
use canopy_daemon::limits::{Limit, Place, Places};
use canopy_model::fabric::{HostFabric, Sender};
use canopy_model::ids::check_name;
use futures::Stream;
use tokio::sync::{Mutex, watch};
use tokio::task::spawn_blocking;
use tonic::{Request, Response, Status};

use crate::caller::{Caller, Source};
use crate::closing::closed;
use crate::error;
use crate::keys::Keys;

/// Streams at once, together and of one certificate: an agent has one, and some that it has left. Each can have a page that is not read.
const STREAMS: (usize, usize) = (1 << 18, 16);

#[derive(Clone)]
pub(crate) struct Fabrics {
    controller: Controller,
    keys: Keys,
    encoded: Arc<Mutex<Option<Encoded>>>,
    streams: Places<Source>,
    closing: watch::Receiver<bool>,
}

/// The newest fabric as it travels: encoded once, and the pages of the whole and of the last change made once, for all streams.
struct Encoded {
    of: Arc<HostFabric>,
    items: Arc<FabricItems>,
    whole: Option<FabricPages>,
    /// From that of the streams which had the one before.
    change: Option<(Arc<FabricItems>, FabricPages)>,
}

/// What a host has been sent.
struct Sent {
    of: Arc<HostFabric>,
    items: Arc<FabricItems>,
    sender: Sender,
    unusable: Arc<[LinkEnd]>,
}

/// What it is to be sent next.
struct Next {
    of: Arc<HostFabric>,
    sender: Sender,
    unusable: Arc<[LinkEnd]>,
}

impl Fabrics {
    pub(crate) fn new(controller: Controller, keys: Keys, closing: watch::Receiver<bool>) -> Self {
        Self { controller, keys, encoded: Arc::default(), streams: Places::new(STREAMS.0, STREAMS.1), closing }
    }

    /// A place for a stream; programs of the machine need none.
    fn place(&self, source: Source) -> Result<Option<Place<Source>>, Status> {
        if source == Source::Machine {
            return Ok(None);
        }
        self.streams.take(source).map(Some).ok_or_else(|| {
            Limit::Calls.refuse();
            Status::resource_exhausted(format!(
                "calls: {} watches of the fabric are what one certificate may have",
                STREAMS.1
            ))
        })
    }

    /// The fabric as it travels, and the pages to it from what the host has: `sent`, or what has the digest `known`.
    async fn pages(
        &self,
        of: &Arc<HostFabric>,
        sent: Option<&Arc<FabricItems>>,
        known: Option<FabricDigest>,
    ) -> Result<(Arc<FabricItems>, FabricPages), Status> {
        // While one stream makes them, the others wait for what it makes.
        let mut place = self.encoded.lock().await;
        let mut encoded = match place.take() {
            Some(encoded) if Arc::ptr_eq(&encoded.of, of) => encoded,
            before => {
                let fabric = Arc::clone(of);
                let items = Arc::new(blocking(move || FabricItems::encode(&fabric)).await?);
                match before {
                    // Another topology with the same fabric.
                    Some(before) if before.items.digest() == items.digest() => Encoded { of: Arc::clone(of), ..before },
                    _ => Encoded { of: Arc::clone(of), items, whole: None, change: None },
                }
            }
        };
        let items = Arc::clone(&encoded.items);
        let pages = match sent {
            Some(sent) if sent.digest() == items.digest() => items.pages(Some(&items)),
            Some(sent) => match &encoded.change {
                Some((from, pages)) if Arc::ptr_eq(from, sent) => pages.clone(),
                _ => {
                    let (from, to) = (Arc::clone(sent), Arc::clone(&items));
                    let pages = blocking(move || to.pages(Some(&from))).await?;
                    encoded.change = Some((Arc::clone(sent), pages.clone()));
                    pages
                }
            },
            None if known == Some(items.digest()) => items.pages(Some(&items)),
            None => encoded.whole.get_or_insert_with(|| items.pages(None)).clone(),
        };
        *place = Some(encoded);
        Ok((items, pages))
    }
}

impl Next {
    /// `None`: the topology has no such host.
    fn of(now: &FabricNow, host: &str) -> Option<Self> {
        let (of, sender) = (Arc::clone(now.fabric()?), now.sender(host)?);
        Some(Self { of, sender, unusable: Arc::clone(now.unusable()) })
    }

    /// Whether the host has it all. A few comparisons, unless links came in or out of service.
    fn is(&self, sent: &Sent) -> bool {
        let same_links = || Arc::ptr_eq(&self.unusable, &sent.unusable) || self.unusable == sent.unusable;
        Arc::ptr_eq(&self.of, &sent.of) && self.sender == sent.sender && same_links()
    }
}

/// Encodes, or compares, apart from what answers other calls.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Status> {
    spawn_blocking(work).await.map_err(|_| error::stopping())
}

#[tonic::async_trait]
impl FabricService for Fabrics {
    type WatchFabricStream = Pin<Box<dyn Stream<Item = Result<pb::WatchFabricResponse, Status>> + Send>>;

    async fn watch_fabric(
        &self,
        request: Request<pb::WatchFabricRequest>,
    ) -> Result<Response<Self::WatchFabricStream>, Status> {
        let caller = Caller::of(&request)?;
        let source = Source::of(request.extensions());
        let pb::WatchFabricRequest { host, digest } = request.into_inner();
        check_name("host", &host).map_err(error::field)?;
        let known = FabricDigest::from_field("digest", &digest).map_err(error::field)?;
        caller.as_host(&self.controller, &self.keys, &host)?;
        let place = self.place(source)?;
        let this = self.clone();
        // Subscribed before what is there is read, so that no change in between is missed.
        let (mut changes, mut closing) = (self.controller.follow_fabric(), self.closing.clone());
        let unknown = || Status::not_found(format!("host: there is no host {host:?} in the topology: declare it"));
        if changes.borrow().sender(&host).is_none() {
            return Err(unknown());
        }
        let stream = async_stream::stream! {
            let _place = place;
            let mut sent: Option<Sent> = None;
            loop {
                let next = Next::of(&changes.borrow_and_update(), &host);
                let Some(next) = next else {
                    yield Err(Status::not_found(format!("host: {host:?} is no longer in the topology")));
                    return;
                };
                if !sent.as_ref().is_some_and(|sent| next.is(sent)) {
                    // A host gets nothing that a power cut can take back.
                    if let Err(stopping) = this.controller.settled().await {
                        yield Err(error::command(stopping));
                        return;
                    }
                    let before = sent.as_ref().map(|sent| &sent.items);
                    let (items, pages) = match this.pages(&next.of, before, known).await {
                        Ok(made) => made,
                        Err(stopping) => { yield Err(stopping); return; }
                    };
                    let Next { of, sender, unusable } = next;
                    let is_new = sent.as_ref().is_none_or(|sent| {
                        sent.items.digest() != items.digest() || sent.sender != sender || sent.unusable != unusable
                    });
                    if is_new {
                        let whole = Sender { unusable: unusable.to_vec(), ..sender.clone() };
                        for page in pages.with_state((items.digest(), &whole).into()) {
                            yield Ok(page);
                        }
                    }
                    sent = Some(Sent { of, items, sender, unusable });
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { yield Err(error::stopping()); return; },
                    () = closed(&mut closing) => { yield Err(error::stopping()); return; }
                }
                // The host may be on another node's port by now.
                if let Err(refused) = caller.as_host(&this.controller, &this.keys, &host) {
                    yield Err(refused);
                    return;
                }
            }
        };
        Ok(Response::new(Box::pin(stream)))
    }
}
