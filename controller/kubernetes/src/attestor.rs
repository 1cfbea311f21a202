// SPDX-License-Identifier: Apache-2.0
//! Whether a token makes its sender the agent that it wants to be.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_identity::{AuthorityHash, Subject};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use hyper::{Method, StatusCode};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::publish::publish;
use crate::review::{self, Review, Status};
use crate::{Account, Outcome, Settings, api};

/// Reviews at once: the API server has others to answer.
const AT_ONCE: usize = 16;
/// How long a token waits for its review.
const WAIT: Duration = Duration::from_secs(5);
/// Reviews at once of tokens that are no agents': strangers cause these, and they take no place of an agent.
const OF_OTHERS: usize = 4;
/// Reviews at once of tokens that applications have shown to their agents, which ask once for each.
const OF_PODS: usize = 8;
/// How long the account of a token is known without another review. The API server remembers its own answer for as long.
const FRESH: Duration = Duration::from_secs(10);
/// How long after a review that is enough while the API server does not answer: the life of a projected token by default.
const KNOWN: Duration = Duration::from_secs(3600);
/// Tokens that are known at once.
const MAX_KNOWN: usize = 256;
/// Longest token, octets; a request of an agent has 4 KiB.
const MAX_TOKEN: usize = 3 << 10;

/// What the API server confirmed of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attested {
    /// Whose it is.
    pub account: Account,
    /// Node of Kubernetes that the pod runs on.
    pub node: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID: another pod of this name has another one.
    pub pod_uid: String,
}

/// For events: `service account canopy/canopy-agent, pod canopy-agent-x2x on node worker-1`.
impl fmt::Display for Attested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service account {}, pod {} on node {}", self.account, self.pod, self.node)
    }
}

/// Why a token makes no agent. No message has a part of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not the text of a token.
    #[error("kubernetes_token: not a token: 1 to {MAX_TOKEN} octets of A-Z, a-z, 0-9, '-', '_' and '.'")]
    NotAToken,
    /// The API server cannot be asked now.
    #[error(
        "the API server of Kubernetes at {0}, which confirms tokens, did not answer: {1}; try again: an agent does so by itself"
    )]
    Unavailable(String, String),
    /// Too many are asked for.
    #[error(
        "as many tokens are being confirmed as may be at once, and none of them was done within {WAIT:?}: try again; an agent does so by itself"
    )]
    Busy,
    /// The API server refused to examine it.
    #[error(
        "the API server of Kubernetes refused to confirm a token ({0}): the controller's service account needs `create` on `tokenreviews`"
    )]
    NotPermitted(u16),
    /// It is not valid.
    #[error("Kubernetes does not accept the token for audience {audience:?}: {why}")]
    NotAccepted {
        /// Of the configuration.
        audience: String,
        /// The API server's reason.
        why: String,
    },
    /// It is of no service account, or bound to no pod.
    #[error(
        "the token names no {0}: mount a projected service account token into the agent's pod; Kubernetes 1.32 and later names the node in it"
    )]
    Unbound(&'static str),
    /// It is of a pod that is not the agent that it wants to be.
    #[error("a token of {found} does not make {wanted}: {may}")]
    Other {
        /// Of the token.
        found: Box<Attested>,
        /// In the request.
        wanted: Subject,
        /// What the token makes.
        may: String,
    },
    /// It is of a pod on another node than that of the agent that it was shown to.
    #[error("a token of {found} is not of a pod at {agent}: {why}")]
    Elsewhere {
        /// Of the token.
        found: Box<Attested>,
        /// Who was shown it.
        agent: Subject,
        /// What that node is.
        why: String,
    },
}

impl Refusal {
    /// Whether nothing is known of the token, because the API server was not asked, or did not examine it.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::Unavailable(..) | Self::Busy | Self::NotPermitted(_))
    }
}

/// Asks the API server about tokens.
#[derive(Debug)]
pub struct Attestor {
    settings: Settings,
    places: Semaphore,
    of_others: Semaphore,
    of_pods: Semaphore,
    /// By the digest of the token.
    known: Mutex<BTreeMap<[u8; 32], Known>>,
    /// What the API server is asked now, by the digest of the token: all who show it wait for one answer.
    asked: Mutex<BTreeMap<[u8; 32], WeakShared<Asked>>>,
}

type Asked = BoxFuture<'static, Result<Account, Refusal>>;

/// The account of a token that the API server has confirmed.
#[derive(Clone, Debug)]
struct Known {
    account: Account,
    /// When it was last confirmed.
    confirmed: Instant,
    /// The API server is asked again then.
    ask: Instant,
}

impl Attestor {
    /// Of these settings; nothing is asked yet.
    pub fn new(settings: Settings) -> Self {
        let [places, of_others, of_pods] = [AT_ONCE, OF_OTHERS, OF_PODS].map(Semaphore::new);
        Self { settings, places, of_others, of_pods, known: Mutex::default(), asked: Mutex::default() }
    }

    /// Writes the hashes of the authority where agents find them, if that is configured; tries until it succeeds.
    pub async fn publish(&self, authorities: &[AuthorityHash]) {
        if let Some(target) = &self.settings.publish {
            publish(&self.settings, target, authorities).await;
        }
    }

    /// Whether the token makes its sender `subject`.
    ///
    /// # Errors
    /// It does not, or the API server cannot be asked.
    pub async fn attest(&self, token: &str, subject: &Subject) -> Result<Attested, Refusal> {
        let answer = match self.confirm(token, &self.places).await {
            Ok(attested) => self.permit(attested, subject),
            Err(refusal) => Err(refusal),
        };
        let outcome = match &answer {
            Ok(_) => Outcome::Accepted,
            Err(refusal) if refusal.is_unanswered() => Outcome::Unavailable,
            Err(_) => Outcome::Refused,
        };
        outcome.count();
        answer
    }

    /// Which pod a token is of that was shown to `agent`. Nothing is remembered: the agent does.
    ///
    /// # Errors
    /// It is not valid, or of a pod on another node than the agent's, or the API server cannot be asked.
    pub async fn identify(&self, token: &str, agent: &Subject) -> Result<Attested, Refusal> {
        self.admit(self.confirm(token, &self.of_pods).await?, agent)
    }

    /// The service account of a token. The API server is asked again after 10 s; while it does not answer, what it has confirmed counts for an
    /// hour. Only accounts that `counts` is true for are remembered: others, which a stranger may have many of, are asked for each time.
    ///
    /// # Errors
    /// It is not valid, or the API server cannot be asked and has not confirmed it.
    pub async fn account(self: &Arc<Self>, token: &str, counts: impl Fn(&Account) -> bool) -> Result<Account, Refusal> {
        let (digest, now) = (Sha256::digest(token.as_bytes()).into(), Instant::now());
        if let Some(account) = self.fresh(&digest) {
            return Ok(account);
        }
        match self.ask(digest, token).await {
            Ok(account) => {
                if counts(&account) {
                    self.keep(digest, Known { account: account.clone(), confirmed: now, ask: now + FRESH });
                }
                Ok(account)
            }
            Err(refusal) if matches!(refusal, Refusal::Unavailable(..) | Refusal::Busy) => {
                // Another request may have been answered meanwhile: what was refused is not here any more.
                self.stale(&digest, &refusal).ok_or(refusal)
            }
            Err(refusal) => {
                self.known().remove(&digest);
                Err(refusal)
            }
        }
    }

    /// The API server's answer about a token, asked for once for all requests that wait for it.
    fn ask(self: &Arc<Self>, digest: [u8; 32], token: &str) -> Shared<Asked> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = asked.get(&digest).and_then(WeakShared::upgrade) {
            return present;
        }
        let (attestor, token) = (self.clone(), token.to_owned());
        let review =
            async move { attestor.confirm(&token, &attestor.of_others).await.map(|attested| attested.account) };
        let review = review.boxed().shared();
        // As many as wait for the places of others; each has its request behind it.
        asked.retain(|_, review| review.upgrade().is_some());
        asked.extend(review.downgrade().map(|weak| (digest, weak)));
        review
    }

    /// An account that need not be asked for yet.
    fn fresh(&self, digest: &[u8; 32]) -> Option<Account> {
        let now = Instant::now();
        self.known().get(digest).filter(|known| now < known.ask).map(|known| known.account.clone())
    }

    /// An account that cannot be asked for now, and was confirmed in the last hour.
    fn stale(&self, digest: &[u8; 32], refusal: &Refusal) -> Option<Account> {
        let now = Instant::now();
        let mut all = self.known();
        let known = all.get_mut(digest).filter(|known| now < known.confirmed + KNOWN)?;
        if known.ask <= now {
            known.ask = now + FRESH;
            tracing::warn!(account = %known.account, %refusal, "cannot confirm a token again: its service account keeps its role until an hour after the last answer");
        }
        Some(known.account.clone())
    }

    /// Without room, in the place of the one that was confirmed first.
    fn keep(&self, digest: [u8; 32], one: Known) {
        let mut known = self.known();
        known.retain(|_, known| one.ask < known.confirmed + KNOWN);
        let is_full = known.len() >= MAX_KNOWN && !known.contains_key(&digest);
        let oldest =
            known.iter().filter(|_| is_full).min_by_key(|(_, known)| known.confirmed).map(|(digest, _)| *digest);
        oldest.and_then(|oldest| known.remove(&oldest));
        known.insert(digest, one);
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(&self, attested: Attested, subject: &Subject) -> Result<Attested, Refusal> {
        let subjects = self.settings.subjects(&attested.account, &attested.node);
        if subjects.contains(subject) {
            return Ok(attested);
        }
        let may = match subjects.as_slice() {
            [] => "it makes nothing: see kubernetes.node_agents, host_agents, nodes and hosts of the controller"
                .to_owned(),
            [first, ..] => format!(
                "it makes {first}: set `node` or `host` of the agent, or kubernetes.nodes or hosts of the controller"
            ),
        };
        Err(Refusal::Other { found: Box::new(attested), wanted: subject.clone(), may })
    }

    /// Whether the pod runs on the node of this agent.
    fn admit(&self, attested: Attested, agent: &Subject) -> Result<Attested, Refusal> {
        let (own, is_at) = match agent {
            Subject::Node(own) => (own, self.settings.node_at(&attested.node)),
            Subject::Host(own) => (own, self.settings.host_at(&attested.node)),
            Subject::Operator(_) | Subject::Controller => (&attested.node, None),
        };
        if is_at == Some(own.as_str()) {
            return Ok(attested);
        }
        let why = match (agent, is_at) {
            (Subject::Node(_), Some(node)) => format!("its node is node/{node}"),
            (Subject::Host(_), Some(host)) => format!("its node is host/{host}"),
            _ => "kubernetes.nodes and hosts of the controller give its node no name".to_owned(),
        };
        Err(Refusal::Elsewhere { found: Box::new(attested), agent: agent.clone(), why })
    }

    /// What the API server confirms of a token.
    async fn confirm(&self, token: &str, places: &Semaphore) -> Result<Attested, Refusal> {
        let is_token = (1..=MAX_TOKEN).contains(&token.len())
            && token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if !is_token {
            return Err(Refusal::NotAToken);
        }
        let _place = match tokio::time::timeout(WAIT, places.acquire()).await {
            Ok(Ok(place)) => place,
            _ => return Err(Refusal::Busy),
        };
        let audience = &self.settings.audience;
        let body = review::request(token, audience);
        let unavailable = |why: String| Refusal::Unavailable(self.settings.api.to_string(), why);
        let answer = api::call(&self.settings, Method::POST, review::PATH, "application/json", body).await;
        let (status, body) = answer.map_err(|error| unavailable(error.to_string()))?;
        match status {
            StatusCode::OK | StatusCode::CREATED => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(Refusal::NotPermitted(status.as_u16())),
            other => return Err(unavailable(format!("it answered {other}"))),
        }
        let review: Review = serde_json::from_slice(&body)
            .map_err(|error| unavailable(format!("its answer is no TokenReview: {error}")))?;
        read(review.status, audience)
    }
}

/// What an answer confirms.
fn read(status: Status, audience: &str) -> Result<Attested, Refusal> {
    let refuse = |why: &str| Refusal::NotAccepted { audience: audience.to_owned(), why: why.to_owned() };
    if !status.authenticated {
        return Err(refuse(if status.error.is_empty() {
            "it is not authenticated"
        } else {
            "it has ended, is of another audience, or its pod is gone"
        }));
    }
    // An API server that ignored the audience would accept tokens that were meant for other programs.
    if !status.audiences.iter().any(|found| found == audience) {
        return Err(refuse("it is of another audience"));
    }
    let account = status.user.account().ok_or(Refusal::Unbound("service account"))?;
    let text = |found: Option<&str>, what| found.map(str::to_owned).ok_or(Refusal::Unbound(what));
    Ok(Attested {
        account,
        node: text(status.user.node(), "node")?,
        pod: text(status.user.pod(), "pod")?,
        pod_uid: text(status.user.pod_uid(), "pod")?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// As an API server of 1.36 answers for a projected token of a pod.
    const ANSWER: &str = r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","metadata":{"creationTimestamp":null},
        "spec":{"token":"x","audiences":["canopy"]},"status":{"authenticated":true,"user":{"username":"system:serviceaccount:canopy:canopy-agent",
        "uid":"u","groups":["system:serviceaccounts"],"extra":{"authentication.kubernetes.io/credential-id":["JTI=1"],
        "authentication.kubernetes.io/node-name":["worker-1"],"authentication.kubernetes.io/node-uid":["n"],
        "authentication.kubernetes.io/pod-name":["canopy-agent-x"],"authentication.kubernetes.io/pod-uid":["p"]}},"audiences":["canopy"]}}"#;

    fn answered(from: &str, to: &str) -> Result<Attested, Refusal> {
        let text = ANSWER.replace(from, to);
        assert!(from.is_empty() || text != ANSWER, "{from} is not there");
        let review: Review = serde_json::from_str(&text).unwrap();
        read(review.status, "canopy")
    }

    fn attestor() -> Arc<Attestor> {
        let account = |text: &str| Some(text.parse().unwrap());
        Arc::new(Attestor::new(Settings {
            api: "https://127.0.0.1:1".parse().unwrap(),
            ca_file: "/nonexistent".into(),
            token_file: "/nonexistent".into(),
            audience: "canopy".into(),
            node_agents: account("canopy/canopy-agent"),
            host_agents: account("canopy/canopy-host-agent"),
            publish: None,
            nodes: [("worker-1".to_owned(), "n1".to_owned())].into(),
            hosts: Default::default(),
        }))
    }

    #[test]
    fn an_answer_counts_only_if_it_is_authenticated_for_the_audience_and_names_pod_and_node() {
        let attested = answered("", "").unwrap();
        assert_eq!(attested.to_string(), "service account canopy/canopy-agent, pod canopy-agent-x on node worker-1");
        assert_eq!(attested.pod_uid, "p");
        let not_accepted = |answer| matches!(answer, Err(Refusal::NotAccepted { .. }));
        assert!(not_accepted(answered("\"authenticated\":true", "\"authenticated\":false")));
        assert!(not_accepted(answered("\"authenticated\":true,", "")));
        assert!(not_accepted(answered(",\"audiences\":[\"canopy\"]}}", "}}")), "an authenticator without audiences");
        assert!(not_accepted(answered("\"audiences\":[\"canopy\"]}}", "\"audiences\":[\"api\"]}}")));
        let unbound = |answer, what| assert_eq!(answer, Err(Refusal::Unbound(what)));
        unbound(answered("system:serviceaccount:canopy:canopy-agent", "system:node:worker-1"), "service account");
        unbound(answered("node-name\":[\"worker-1\"]", "node-name\":[\"worker-1\",\"worker-2\"]"), "node");
        unbound(answered("node-name", "name-of-node"), "node");
        unbound(answered("pod-uid", "uid-of-pod"), "pod");
    }

    #[test]
    fn a_token_makes_the_agent_of_its_own_node_and_kind_alone() {
        let (attestor, own) = (attestor(), answered("", "").unwrap());
        let permit = |of: &Attested, subject: &str| attestor.permit(of.clone(), &subject.parse().unwrap()).is_ok();
        assert!(permit(&own, "node/n1"));
        assert!(!permit(&own, "node/worker-1"), "the configuration gives it another name");
        assert!(!permit(&own, "node/n2") && !permit(&own, "host/n1") && !permit(&own, "host/worker-1"));
        assert!(!permit(&own, "controller"));
        let host = Attested { account: "canopy/canopy-host-agent".parse().unwrap(), ..own.clone() };
        assert!(permit(&host, "host/worker-1") && !permit(&host, "node/n1"));
        let other = Attested { account: "default/canopy-agent".parse().unwrap(), ..own.clone() };
        assert!(!permit(&other, "node/n1"));
        let refusal = attestor.permit(own, &"node/n2".parse().unwrap()).unwrap_err().to_string();
        assert!(refusal.contains("worker-1") && refusal.contains("it makes node/n1"), "{refusal}");
    }

    /// Catches an agent that takes pods of other nodes for its own, and one that is taken for the node of the same name.
    #[test]
    fn a_pod_is_at_the_agents_of_its_own_node_alone() {
        let (attestor, own) = (attestor(), answered("canopy:canopy-agent", "default:trainer").unwrap());
        let admit = |subject: &str| attestor.admit(own.clone(), &subject.parse().unwrap());
        assert!(admit("node/n1").is_ok() && admit("host/worker-1").is_ok());
        for elsewhere in ["node/worker-1", "node/n2", "host/n1", "controller"] {
            let refusal = admit(elsewhere).unwrap_err().to_string();
            assert!(refusal.contains("default/trainer") && refusal.contains(elsewhere), "{refusal}");
        }
        assert!(admit("node/n2").unwrap_err().to_string().contains("its node is node/n1"));
    }

    /// Catches an outage of the API server that ends sessions and streams of confirmed accounts, and one that makes a token work for ever.
    #[tokio::test(start_paused = true)]
    async fn a_confirmed_account_counts_for_an_hour_while_the_api_server_is_away() {
        let attestor = attestor();
        let account: Account = "monitoring/prometheus".parse().unwrap();
        let know = |token: &str| {
            let now = Instant::now();
            let known = Known { account: account.clone(), confirmed: now, ask: now + FRESH };
            attestor.keep(Sha256::digest(token.as_bytes()).into(), known);
        };
        know("a.b.c");
        for _ in 0..3 {
            tokio::time::advance(FRESH * 2).await;
            assert_eq!(attestor.account("a.b.c", |_| true).await, Ok(account.clone()));
        }
        tokio::time::advance(KNOWN - FRESH).await;
        assert!(matches!(attestor.account("a.b.c", |_| true).await, Err(Refusal::Unavailable(..))));
        // One that has become invalid does not work any more, whatever happens after that.
        know("no token");
        tokio::time::advance(FRESH).await;
        assert_eq!(attestor.account("no token", |_| true).await, Err(Refusal::NotAToken));
        assert!(attestor.known().is_empty(), "{:?}", attestor.known());
        // Beyond the room, the one that was confirmed first goes.
        for n in 0..=MAX_KNOWN {
            know(&format!("of.{n}"));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(attestor.known().len(), MAX_KNOWN);
        assert_eq!(attestor.account("of.1", |_| true).await, Ok(account.clone()));
        assert!(attestor.account("of.0", |_| true).await.is_err());
    }

    #[tokio::test]
    async fn what_is_no_token_is_not_sent_and_no_refusal_shows_one() {
        let attestor = attestor();
        let subject = "node/n1".parse().unwrap();
        for bad in ["", "a b", "secret\n", "secret\"", &"x".repeat(MAX_TOKEN + 1)] {
            assert_eq!(attestor.attest(bad, &subject).await, Err(Refusal::NotAToken));
        }
        let refusal = attestor.attest("secret.token.text", &subject).await.unwrap_err();
        assert!(matches!(&refusal, Refusal::Unavailable(..)), "{refusal}");
        assert!(!format!("{refusal} {refusal:?}").contains("secret"), "{refusal}");
    }
}
