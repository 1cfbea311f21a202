// SPDX-License-Identifier: Apache-2.0
//! Acts of operators that change no record but the audit.

use canopy_controller_core::audit::Action;
use canopy_controller_core::principal::{Principal, Written};
use canopy_controller_core::request_id::RequestId;
use canopy_store::StoreError;
use canopy_units::UnixTime;
use tokio::sync::oneshot;

use crate::books::Entry;
use crate::intent::Target;
use crate::task::{AuditedAct, Message, Task, failed, is_refusal};
use crate::{CommandError, Controller};

impl Controller {
    /// Adds an entry to the audit, durably; the act itself is the caller's, and follows.
    ///
    /// # Errors
    /// The store takes no change, or has failed.
    pub async fn audited(
        &self,
        target: Target,
        action: Action,
        by: Principal,
        request: Option<RequestId>,
    ) -> Result<(), CommandError> {
        let (answer, done) = oneshot::channel();
        self.send(Message::Audit(Box::new(AuditedAct { target, action, by, request, answer }))).await?;
        done.await.map_err(|_| CommandError::Stopping)?
    }
}

impl Task {
    /// Writes the entry; `Err` if the store has failed.
    pub(crate) async fn audit(&mut self, act: AuditedAct) -> Result<(), StoreError> {
        let AuditedAct { target, action, by, request, answer } = act;
        let done = self.note_act(&target, action, Written { at: UnixTime::now(), by: by.into(), request }).await;
        let failure = done.as_ref().err().filter(|error| !is_refusal(error)).map(failed);
        _ = answer.send(done.map_err(CommandError::Store));
        failure.map_or(Ok(()), Err)
    }

    async fn note_act(&mut self, target: &Target, act: Action, written: Written) -> Result<(), StoreError> {
        if let Some(path) = self.read_only.clone() {
            return Err(StoreError::Full { path });
        }
        let revision = self.controller.read(|d| d.revision());
        let entry = Entry { target, written: &written, old: None, new: None, act, uid: None, tenant: None, revision };
        let note = self.books.note(&entry);
        self.commit(note.ops.clone()).await?;
        self.books.keep(note);
        self.controller.audit_ends_at(self.books.next());
        Ok(())
    }
}
