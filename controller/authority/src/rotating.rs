// SPDX-License-Identifier: Apache-2.0
//! One authority replaces another: what operators order, what that waits for, and what agents are instructed to do.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use canopy_identity::{AuthorityHash, Certificate, CertificateDer, Subject};
use canopy_units::UnixTime;

use crate::holder::Holder;
use crate::holders::unlisted;
use crate::standing::{Progress, Standing, Step};
use crate::{AuthorityError, Registrar};

/// Agents renew within this once another authority signs, or within a sixteenth of a certificate's life.
const SPREAD: Duration = Duration::from_secs(600);
/// A step that lasts longer waits for something; also one that lasts half of a certificate's life, after which every agent has renewed.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Names in one text.
const NAMED: usize = 20;

/// What an operator orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Make the next authority, and let agents trust it.
    Announce,
    /// Let it sign.
    Issue,
    /// Trust the former one no more.
    Finish,
    /// Drop the next one, which has signed nothing.
    Cancel,
}

/// Why a step was not taken.
#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    /// It does not follow the present one.
    #[error("{0}")]
    Order(&'static str),
    /// The controller has not made the authority.
    #[error(
        "authority.pem is not one that the controller has made for this domain: the controller replaces none but its own; put the other authority's files there yourself, and enroll every agent again"
    )]
    Foreign,
    /// Agents would be left behind.
    #[error("{}", .0.text)]
    Loss(Box<Loss>),
    /// A file cannot be written: the step is not taken, or is completed by a restart.
    #[error(transparent)]
    Failed(#[from] AuthorityError),
}

/// The agents that a step would leave behind.
#[derive(Debug)]
pub struct Loss {
    text: String,
}

/// What is known of one agent with a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderStatus {
    /// Its name.
    pub subject: Subject,
    /// It has a connection.
    pub is_connected: bool,
    /// It needs nothing more for the next step.
    pub is_ready: bool,
    /// It trusts the authority that replaces the other, or the only one.
    pub trusts: bool,
    /// Which authority has signed its certificate.
    pub authority: AuthorityHash,
    /// When that ends.
    pub not_after: UnixTime,
    /// Its key is that of an enrollment here; otherwise the one that it has shown first.
    pub is_enrolled: bool,
    /// When a certificate of its name with another key was shown first: of the agent before it was enrolled again, or of another process.
    pub other_key: Option<UnixTime>,
}

/// The authority, its replacement, and the agents whose certificates are valid or renewable and not revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotationStatus {
    /// The one that signs.
    pub authority: AuthorityHash,
    /// What is under way.
    pub progress: Option<Progress>,
    /// Since when agents are listed.
    pub listed_since: UnixTime,
    /// By name.
    pub holders: Vec<HolderStatus>,
}

/// What an agent has to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Store these authorities, in DER, instead of those before, and report it; none: nothing is to change.
    pub trust: Vec<Vec<u8>>,
    /// Renew the certificate within this time.
    pub renew_within: Option<Duration>,
}

impl Instruction {
    /// Nothing is to do.
    pub fn is_empty(&self) -> bool {
        self.trust.is_empty() && self.renew_within.is_none()
    }
}

impl RotationStatus {
    /// The agents that a step would leave behind.
    pub fn left_by(&self, act: Act) -> Vec<&Subject> {
        let is_left = |holder: &&HolderStatus| match act {
            Act::Issue => !holder.is_ready && holder.is_connected,
            Act::Finish => !holder.is_ready,
            Act::Announce | Act::Cancel => false,
        };
        self.holders.iter().filter(is_left).map(|holder| &holder.subject).collect()
    }
}

/// Counts an agent's connection while it lasts.
pub struct Connected {
    registrar: Arc<Registrar>,
    subject: Subject,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.registrar.holders.disconnected(&self.subject);
    }
}

impl Registrar {
    /// Takes a step, durably. Agents that it leaves behind must be among `accepted`. Returns those that it has left behind.
    ///
    /// # Errors
    /// It is not the next step, or would leave others behind; or a file cannot be written.
    pub fn rotate(&self, act: Act, accepted: &[Subject], now: UnixTime) -> Result<Vec<Subject>, RotationError> {
        let _one_at_a_time = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        self.complete(now)?;
        let left = self.permits(act, accepted, now)?;
        let present = self.standing.borrow().clone();
        let next = match act {
            Act::Announce => Standing::announce(&self.settings, now)?,
            Act::Issue => present.issue(&self.settings, now)?,
            Act::Finish | Act::Cancel => Standing::end(&self.settings, now)?,
        };
        // The controller's new certificate first: an agent that is instructed to renew finds it.
        self.serve(&next, now)?;
        self.standing.send_replace(Arc::new(next));
        Ok(left)
    }

    /// Completes a step that has failed in the middle, as a restart does: the next one starts from what the files are.
    fn complete(&self, now: UnixTime) -> Result<(), RotationError> {
        let stored = Standing::open(&self.settings, now)?;
        let present = self.standing.borrow().clone();
        if (stored.signing.hash(), stored.progress()) == (present.signing.hash(), present.progress()) {
            return Ok(());
        }
        self.serve(&stored, now)?;
        self.standing.send_replace(Arc::new(stored));
        Err(RotationError::Order(
            "the step before had failed in the middle and was completed now: see `canopyctl ca status`, then order again",
        ))
    }

    /// Whether a step can be taken. Returns the agents that it would leave behind.
    ///
    /// # Errors
    /// As [`Registrar::rotate`], which nothing has been written for.
    pub fn permits(&self, act: Act, accepted: &[Subject], now: UnixTime) -> Result<Vec<Subject>, RotationError> {
        let status = self.rotation(now);
        in_order(act, status.progress.map(|progress| progress.step))?;
        if act == Act::Announce && !self.standing.borrow().signing.is_own() {
            return Err(RotationError::Foreign);
        }
        let left: Vec<Subject> = status.left_by(act).into_iter().cloned().collect();
        let missing: Vec<&Subject> = left.iter().filter(|subject| !accepted.contains(subject)).collect();
        if !missing.is_empty() {
            return Err(RotationError::Loss(Box::new(Loss { text: loss(act, &missing) })));
        }
        Ok(left)
    }

    /// How far the replacement of the authority is, and what it waits for.
    pub fn rotation(&self, now: UnixTime) -> RotationStatus {
        let standing = self.standing.borrow().clone();
        let (authority, progress) = (standing.signing.hash(), standing.progress());
        let revocations = self.revocations.borrow().clone();
        let is_revoked = |subject: &Subject, of: &Holder| revocations.at(subject).is_some_and(|at| of.not_before < at);
        let to = progress.map_or(authority, |progress| progress.to);
        let is_announced = progress.is_some_and(|progress| progress.step == Step::Announced);
        let one = |(subject, holder, is_connected): (Subject, Holder, bool)| HolderStatus {
            subject,
            is_connected,
            is_ready: holder.trusts(to) && (is_announced || holder.authority == to),
            trusts: holder.trusts(to),
            authority: holder.authority,
            not_after: holder.not_after,
            is_enrolled: holder.key_shown.is_none(),
            other_key: holder.other_key,
        };
        let all = self.holders.all(now).into_iter().filter(|(subject, holder, _)| !is_revoked(subject, holder));
        RotationStatus { authority, progress, listed_since: self.holders.since(), holders: all.map(one).collect() }
    }

    /// Why the replacement of the authority is not finished, if it has lasted long.
    pub fn overdue(&self, now: UnixTime) -> Option<String> {
        let Progress { step, since, .. } = self.standing.borrow().progress()?;
        let patience = PATIENCE.min(self.settings.lifetime / 2);
        if now < since + patience {
            return None;
        }
        let status = self.rotation(now);
        let (act, command) = match step {
            Step::Announced => (Act::Issue, "canopyctl ca issue"),
            Step::Issuing => (Act::Finish, "canopyctl ca finish"),
        };
        let left = status.left_by(act);
        let waits = match left.is_empty() {
            true => format!("it waits for nothing: `{command}` takes the next step"),
            false => format!("`{command}` waits for {}", names(&left)),
        };
        let hours = Duration::from_nanos(now.nanos() - since.nanos()).as_secs() / 3600;
        Some(format!("the authority is being replaced, step {step} for {hours} h: {waits}"))
    }

    /// Whether an agent with a certificate that can be used or renewed is connected; `None`: there is none with this name.
    pub fn is_connected(&self, subject: &Subject) -> Option<bool> {
        let not_before = self.holders.valid_from(subject)?;
        let is_revoked = self.revocations.borrow().at(subject).is_some_and(|at| not_before < at);
        (!is_revoked).then(|| self.holders.is_connected(subject))
    }

    /// Notes a connection of an agent with a certificate of an accepted authority.
    pub fn connected(self: &Arc<Self>, shown: &Certificate, authority: AuthorityHash, now: UnixTime) -> Connected {
        self.holders.connected(&shown.subject);
        unlisted(self.holders.shown(shown, authority, now));
        Connected { registrar: Arc::clone(self), subject: shown.subject.clone() }
    }

    /// Notes what an agent has stored. Returns which authority has signed its certificate; `None`: none that is accepted, or it is not valid, of
    /// another agent, or of another key than the one of the connection.
    pub fn reported(
        &self,
        caller: &Certificate,
        own: &CertificateDer<'_>,
        trusts: &[AuthorityHash],
        now: UnixTime,
    ) -> Option<AuthorityHash> {
        let authority = self.standing.borrow().signer(own)?;
        let is_own =
            |own: &Certificate| (&own.subject, own.key) == (&caller.subject, caller.key) && own.not_after > now;
        let certificate = Certificate::read(own).ok().filter(is_own)?;
        unlisted(self.holders.reported(&certificate, authority, trusts.to_vec(), now));
        Some(authority)
    }

    /// What an agent has to do that has a certificate of this authority and trusts these.
    pub fn instruction(&self, authority: AuthorityHash, trusts: &[AuthorityHash]) -> Instruction {
        let standing = self.standing.borrow().clone();
        let wanted = standing.trusted();
        let octets = |hashes: &mut dyn Iterator<Item = AuthorityHash>| hashes.map(|of| of.0).collect::<BTreeSet<_>>();
        let is_same = octets(&mut wanted.iter().map(|(hash, _)| *hash)) == octets(&mut trusts.iter().copied());
        Instruction {
            trust: if is_same { vec![] } else { wanted.into_iter().map(|(_, der)| der.to_vec()).collect() },
            renew_within: (authority != standing.signing.hash()).then(|| SPREAD.min(self.settings.lifetime / 16)),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Announced => "announced",
            Self::Issuing => "issuing",
        })
    }
}

fn in_order(act: Act, present: Option<Step>) -> Result<(), RotationError> {
    let why = match (act, present) {
        (Act::Announce, None)
        | (Act::Issue | Act::Cancel, Some(Step::Announced))
        | (Act::Finish, Some(Step::Issuing)) => return Ok(()),
        (Act::Announce, Some(_)) => "the authority is being replaced already: see `canopyctl ca status`",
        (_, None) => "the authority is not being replaced: `canopyctl ca rotate` begins",
        (Act::Finish, Some(Step::Announced)) => {
            "the next authority has signed nothing yet: `canopyctl ca issue` comes before finishing"
        }
        (Act::Issue, Some(Step::Issuing)) => "the next authority signs already: `canopyctl ca finish` is the next step",
        (Act::Cancel, Some(Step::Issuing)) => {
            "the next authority has signed and the key of the former one is gone: finish, then rotate again"
        }
    };
    Err(RotationError::Order(why))
}

fn loss(act: Act, missing: &[&Subject]) -> String {
    let names = names(missing);
    match act {
        Act::Issue => format!(
            "connected agents do not trust the next authority yet: {names}; wait for them, upgrade those of an earlier version, or name them with --accept-loss"
        ),
        _ => format!(
            "agents would have to be enrolled again, because they have no certificate of the new authority, or do not trust it: {names}; wait for them, revoke those that are gone, or name them with --accept-loss"
        ),
    }
}

/// The first [`NAMED`], and how many more.
pub(crate) fn names(subjects: &[&Subject]) -> String {
    let mut text = subjects.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if let Some(more) = subjects.len().checked_sub(NAMED).filter(|more| *more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
