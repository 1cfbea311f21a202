// SPDX-License-Identifier: Apache-2.0
//! Which agents do not renew their certificates although they are connected.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use canopy_identity::Subject;
use canopy_units::UnixTime;

use crate::Registrar;
use crate::holder::Holder;
use crate::rotating::names;

/// Agents renew at half of a certificate's life. One of which less than this part is left is late.
const LEFT: u32 = 4;
/// How often the list is read.
const FRESH: Duration = Duration::from_secs(60);

/// The last answer, and when it was read.
#[derive(Default)]
pub(crate) struct NotRenewed(Mutex<Option<(UnixTime, Option<String>)>>);

impl Registrar {
    /// Which connected agents have not renewed certificates that end soon, the first end first. The answer may be a minute old, or a 64th of a
    /// certificate's life: it may be asked for often.
    pub fn not_renewed(&self, now: UnixTime) -> Option<String> {
        let mut last = self.not_renewed.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = FRESH.min(self.settings.lifetime / 64);
        match &*last {
            // A clock that was set back makes an answer old.
            Some((at, answer)) if (*at..*at + fresh).contains(&now) => answer.clone(),
            _ => last.insert((now, self.read_not_renewed(now))).1.clone(),
        }
    }

    fn read_not_renewed(&self, now: UnixTime) -> Option<String> {
        let revocations = self.revocations.borrow().clone();
        let is_late = |subject: &Subject, holder: &Holder| {
            let is_revoked = revocations.at(subject).is_some_and(|at| holder.not_before < at);
            !is_revoked && is_late(holder, now)
        };
        let mut late: Vec<(UnixTime, Subject)> = self.holders.connected_where(is_late);
        late.sort_unstable();
        let (first, _) = late.first()?;
        let hours = Duration::from_nanos(first.nanos().saturating_sub(now.nanos())).as_secs() / 3600;
        let names = names(&late.iter().map(|(_, subject)| subject).collect::<Vec<_>>());
        Some(format!(
            "connected agents have not renewed their certificates, the first of which ends in {hours} h: {names}"
        ))
    }
}

/// Whether less than a quarter of its certificate's life is left. One that was made since and not shown does not count: the agent may not have
/// stored it.
fn is_late(holder: &Holder, now: UnixTime) -> bool {
    let life = Duration::from_nanos(holder.not_after.nanos().saturating_sub(holder.not_before.nanos()));
    now + life / LEFT > holder.not_after
}
