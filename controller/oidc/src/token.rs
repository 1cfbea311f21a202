// SPDX-License-Identifier: Apache-2.0
//! What an ID token must have (OpenID Connect Core 1.0 section 3.1.3.7), on `now`.

use std::time::Duration;

use canopy_units::UnixTime;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;

/// The clocks of the provider and the controller differ by no more.
const SKEW: Duration = Duration::from_secs(60);
/// A token that is older is not that of this sign-in.
const OLDEST: Duration = Duration::from_secs(600);
/// Algorithms whose keys the provider alone has. With the others, who knows the client's secret, or nothing at all, could sign.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// Longest name of a person, octets: that of a principal, with what is before it.
const MAX_NAME: usize = 59;
/// Groups of a person that count.
const MAX_GROUPS: usize = 1000;

/// Who has signed in, as the provider asserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Unique at the provider, for the audit.
    pub name: String,
    /// Names of groups.
    pub groups: Vec<String>,
}

/// What a token is compared with.
pub(crate) struct Expected<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) username_claim: &'a str,
    pub(crate) groups_claim: &'a str,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Audience,
    #[serde(default)]
    azp: Option<String>,
    exp: f64,
    iat: f64,
    #[serde(default)]
    nbf: Option<f64>,
    nonce: String,
    #[serde(flatten)]
    others: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

/// The header of a token, if its algorithm is one that is accepted.
pub(crate) fn header(token: &str) -> Result<Header, &'static str> {
    let header = decode_header(token).map_err(|_| "it is not signed in a way that is known")?;
    if ALGORITHMS.contains(&header.alg) { Ok(header) } else { Err("it is not signed with a key of the provider alone") }
}

/// Who a token is about, if all of it is right.
pub(crate) fn person(
    token: &str,
    algorithm: Algorithm,
    key: &DecodingKey,
    expected: &Expected<'_>,
    now: UnixTime,
) -> Result<Person, String> {
    let mut validation = Validation::new(algorithm);
    // Everything else is compared below, with `now`.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let claims = decode::<Claims>(token, key, &validation).map_err(|error| error.to_string())?.claims;
    check(&claims, expected, now)?;
    let name = match claims.others.get(expected.username_claim) {
        Some(Value::String(name)) if is_name(name) => name.clone(),
        Some(Value::String(_)) => {
            return Err(format!("its {} is no name: 1 to {MAX_NAME} printed characters", expected.username_claim));
        }
        _ => return Err(format!("it has no {} (oidc.username_claim)", expected.username_claim)),
    };
    let groups = match claims.others.get(expected.groups_claim) {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => {
            groups.iter().filter_map(Value::as_str).map(str::to_owned).take(MAX_GROUPS).collect()
        }
        _ => Vec::new(),
    };
    Ok(Person { name, groups })
}

fn check(claims: &Claims, expected: &Expected<'_>, now: UnixTime) -> Result<(), String> {
    if claims.iss != expected.issuer {
        return Err("it is of another issuer".to_owned());
    }
    let (is_for_us, is_for_others) = match &claims.aud {
        Audience::One(aud) => (aud == expected.client, false),
        Audience::Several(all) => (all.iter().any(|aud| aud == expected.client), all.len() > 1),
    };
    let is_party = claims.azp.as_deref().map_or(!is_for_others, |azp| azp == expected.client);
    if !is_for_us || !is_party {
        return Err("it is for another client (oidc.client_id)".to_owned());
    }
    if claims.nonce != expected.nonce {
        return Err("its nonce is that of another sign-in".to_owned());
    }
    let (now, skew) = (seconds(now), SKEW.as_secs_f64());
    if now - skew >= claims.exp {
        return Err("it has expired: compare the clocks of the provider and the controller".to_owned());
    }
    if claims.iat > now + skew || claims.nbf.is_some_and(|nbf| nbf > now + skew) {
        return Err("it is of the future: compare the clocks of the provider and the controller".to_owned());
    }
    if claims.iat < now - skew - OLDEST.as_secs_f64() {
        return Err("it is of an earlier sign-in".to_owned());
    }
    Ok(())
}

fn seconds(at: UnixTime) -> f64 {
    Duration::from_nanos(at.nanos()).as_secs_f64()
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.chars().any(|c| c.is_control() || c.is_whitespace())
}

#[cfg(test)]
pub(crate) mod tests {
    use jsonwebtoken::jwk::Jwk;
    use jsonwebtoken::{EncodingKey, encode};
    use serde_json::json;

    use super::*;

    /// A provider's key.
    pub(crate) struct Signer(EncodingKey);

    impl Signer {
        pub(crate) fn new() -> Self {
            let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
            Self(EncodingKey::from_ec_der(key.serialized_der()))
        }

        pub(crate) fn jwk(&self, id: &str) -> Value {
            let mut jwk = Jwk::from_encoding_key(&self.0, Algorithm::ES256).unwrap();
            jwk.common.key_id = Some(id.to_owned());
            serde_json::to_value(jwk).unwrap()
        }

        fn key(&self) -> DecodingKey {
            DecodingKey::from_jwk(&serde_json::from_value(self.jwk("a")).unwrap()).unwrap()
        }

        fn sign(&self, claims: &Value) -> String {
            encode(&Header::new(Algorithm::ES256), claims, &self.0).unwrap()
        }
    }

    const NOW: u64 = 2_000_000_000;

    fn claims() -> Value {
        json!({"iss": "https://idp.example", "aud": "canopy", "sub": "7", "exp": NOW + 300, "iat": NOW - 5, "nonce": "n1",
            "preferred_username": "alice", "groups": ["ops", 7, "all"]})
    }

    fn read(signer: &Signer, token: &str) -> Result<Person, String> {
        let (username_claim, groups_claim) = ("preferred_username", "groups");
        let expected =
            Expected { issuer: "https://idp.example", client: "canopy", nonce: "n1", username_claim, groups_claim };
        let algorithm = header(token)?.alg;
        person(token, algorithm, &signer.key(), &expected, UnixTime::from_nanos(NOW * 1_000_000_000))
    }

    fn with(field: &str, value: Value) -> Value {
        let mut claims = claims();
        claims[field] = value;
        claims
    }

    /// Catches a token that another provider, sign-in, client or time has, and one that is refused without a reason.
    #[test]
    fn a_token_is_of_this_provider_client_sign_in_and_time() {
        let signer = Signer::new();
        let good = read(&signer, &signer.sign(&claims())).unwrap();
        assert_eq!(good, Person { name: "alice".into(), groups: vec!["ops".into(), "all".into()] });
        for (field, value) in [
            ("aud", json!(["canopy"])),
            ("groups", json!("ops")),
            ("groups", Value::Null),
            ("exp", json!(NOW - 59)),
            ("iat", json!(NOW + 59)),
            ("nbf", json!(NOW + 59)),
            ("azp", json!("canopy")),
        ] {
            assert!(read(&signer, &signer.sign(&with(field, value.clone()))).is_ok(), "{field} {value}");
        }
        for (field, value, why) in [
            ("iss", json!("https://idp.example/"), "another issuer"),
            ("iss", json!(["https://idp.example"]), ""),
            ("aud", json!("other"), "another client"),
            ("aud", json!([]), "another client"),
            ("aud", json!(["canopy", "other"]), "another client"),
            ("aud", Value::Null, ""),
            ("azp", json!("other"), "another client"),
            ("nonce", json!("n2"), "another sign-in"),
            ("nonce", Value::Null, ""),
            ("exp", json!(NOW - 60), "expired"),
            ("exp", Value::Null, ""),
            ("iat", json!(NOW + 61), "future"),
            ("iat", json!(NOW - 661), "earlier sign-in"),
            ("nbf", json!(NOW + 61), "future"),
            ("preferred_username", Value::Null, "no preferred_username"),
            ("preferred_username", json!(""), "no name"),
            ("preferred_username", json!("a\nb"), "no name"),
            ("preferred_username", json!("a".repeat(60)), "no name"),
        ] {
            let refused = read(&signer, &signer.sign(&with(field, value.clone()))).unwrap_err();
            assert!(refused.contains(why), "{field} {value}: {refused}");
        }
        let both = with("aud", json!(["canopy", "other"]));
        let party = {
            let mut both = both;
            both["azp"] = json!("canopy");
            both
        };
        assert!(read(&signer, &signer.sign(&party)).is_ok());
    }

    /// Catches a token without a signature, with one of a key that is not the provider's, or of one that the client has too.
    #[test]
    fn a_token_is_signed_by_the_provider_alone() {
        let signer = Signer::new();
        let good = signer.sign(&claims());
        assert!(read(&Signer::new(), &good).unwrap_err().contains("InvalidSignature"));
        let (head, rest) = good.split_once('.').unwrap();
        let (body, signature) = rest.split_once('.').unwrap();
        let encoded = |value: Value| {
            use base64::Engine;
            base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
        };
        for algorithm in ["none", "None", "HS256", "HS512"] {
            let head = encoded(json!({"alg": algorithm, "typ": "JWT"}));
            for signature in ["", signature] {
                assert!(read(&signer, &format!("{head}.{body}.{signature}")).is_err(), "{algorithm}");
            }
        }
        // Signed with what everybody can read, as if it were a secret.
        let public = signer.jwk("a").to_string();
        let hmac =
            encode(&Header::new(Algorithm::HS256), &claims(), &EncodingKey::from_secret(public.as_bytes())).unwrap();
        assert_eq!(read(&signer, &hmac).unwrap_err(), "it is not signed with a key of the provider alone");
        let other = encoded(with("preferred_username", json!("mallory")));
        for broken in
            [format!("{head}.{other}.{signature}"), format!("{head}.{body}."), format!("{head}.{body}"), String::new()]
        {
            assert!(read(&signer, &broken).is_err(), "{broken}");
        }
    }
}
