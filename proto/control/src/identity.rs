// SPDX-License-Identifier: Apache-2.0
//! Requests for certificates and about tokens: what they show of themselves.

use std::fmt;

use crate::pb;

/// Without the secret and the token.
impl fmt::Debug for pb::EnrollRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnrollRequest").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// Without the token.
impl fmt::Debug for pb::IdentifyPodRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdentifyPodRequest").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_does_not_show_its_secret() {
        let request = pb::EnrollRequest {
            secret: vec![199; 16],
            subject: "node/n4".into(),
            request: vec![1],
            kubernetes_token: "eyJhb".into(),
        };
        let shown = format!("{request:?}");
        assert!(shown.contains("node/n4") && !shown.contains("199") && !shown.contains("eyJ"), "{shown}");
        let shown = format!("{:?}", pb::IdentifyPodRequest { kubernetes_token: "eyJhb".into() });
        assert!(!shown.contains("eyJ"), "{shown}");
    }
}
