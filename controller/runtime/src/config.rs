// SPDX-License-Identifier: Apache-2.0
//! Settings of the controller; `canopy_daemon::config` describes their sources and how keys are written.

mod kubernetes;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use canopy_controller_access::{Roles, TenantRoles, UnixRoles};
use canopy_controller_authority::MAX_LIFETIME;
use canopy_controller_core::hmac::HmacSettings;
use canopy_controller_core::quota::Quotas;
use canopy_controller_core::role::Role;
use canopy_controller_core::threshold::{
    DEFAULT_ALPHA_PERMILLE, DEFAULT_K_BASE, DEFAULT_MIN_RTT, DEFAULT_V_ECN_PERMILLE, MAX_RTT, MIN_K_BASE,
    ThresholdSettings, V_ECN_PERMILLE,
};
use canopy_daemon::config::{Faults, Settings, list, text};
use canopy_daemon::log::LogConfig;
use canopy_daemon::otlp::check_endpoint;
use canopy_identity::TrustDomain;
use canopy_model::addressing::AddressPlan;
use canopy_model::ids::check_name;
use canopy_model::srh_hmac::FlagBit;
use canopy_store::EngineKind;
use canopy_units::Octets;
use serde::{Deserialize, Serialize};

use crate::listen::Listen;
use crate::oidc::OidcConfig;
use crate::web::WebConfig;

pub use kubernetes::KubernetesConfig;

/// Read if it exists.
pub const SYSTEM_FILE: &str = "/etc/canopy/controller.toml";

/// Possible values of `identity.certificate_lifetime`.
const CERTIFICATE_LIFETIME: RangeInclusive<Duration> = Duration::from_secs(60)..=MAX_LIFETIME;

/// Groups with one role, at most: each is looked up for each connection.
const MAX_GROUPS: usize = 16;

/// Tenants with groups of users, at most: those of all are looked up for each connection.
const MAX_TENANTS: usize = 64;

/// Possible values of `grpc.lease_grace`.
const LEASE_GRACE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3600);

/// Listen addresses per API, at most.
const MAX_LISTENERS: usize = 16;

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The store of the intents.
    pub store: StoreConfig,
    /// Southbound API, for agents and RDMA applications.
    pub grpc: GrpcConfig,
    /// Certificates of agents that connect over TLS.
    pub identity: IdentityConfig,
    /// Agents that enroll with tokens of Kubernetes.
    pub kubernetes: KubernetesConfig,
    /// Northbound API, for operators.
    pub rest: RestConfig,
    /// Addresses for browsers on other machines.
    pub web: WebConfig,
    /// Single sign-on there.
    pub oidc: OidcConfig,
    /// Who may do what through the northbound API.
    pub authorization: AuthorizationConfig,
    /// How much tenants may have.
    pub quotas: Quotas,
    /// Prefixes that addresses and SIDs are allocated from. Must not be changed while groups exist.
    pub addressing: AddressPlan,
    /// Queue thresholds of links that do not have their own settings.
    pub thresholds: ThresholdConfig,
    /// The SRH HMAC TLV.
    pub hmac: HmacConfig,
    /// Traces of requests.
    pub traces: TraceConfig,
    /// Logging.
    pub log: LogConfig,
}

/// Section `traces`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// An OpenTelemetry collector that takes OTLP over gRPC, `http://host:port`; empty: no traces are made.
    pub endpoint: String,
}

/// Section `store`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Directory of the embedded store.
    pub path: PathBuf,
    /// Database of the embedded store. Another one cannot read what is there: export and import it.
    pub engine: EngineKind,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { path: "/var/lib/canopy/controller".into(), engine: EngineKind::default() }
    }
}

/// Section `grpc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrpcConfig {
    /// `unix:/path`, or `address:port` for TLS; one or a list.
    #[serde(deserialize_with = "list")]
    pub listen: Vec<Listen>,
    /// How long a membership with a lease outlasts the connection of its host's agent, 1 s ..= 1 h.
    #[serde(with = "humantime_serde")]
    pub lease_grace: Duration,
}

impl Config {
    /// An address is served over TLS, for which the controller needs its authority.
    pub fn has_tls(&self) -> bool {
        self.grpc.listen.iter().any(|listen| matches!(listen, Listen::Tcp(_)))
            || self.rest.listen.iter().any(Listen::is_remote)
    }
}

impl Default for GrpcConfig {
    fn default() -> Self {
        let listen = vec![Listen::Unix("/run/canopy/controller.sock".into())];
        Self { listen, lease_grace: Duration::from_secs(60) }
    }
}

/// Section `identity`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityConfig {
    /// Directory of the authority: its key, its certificate and what is revoked. Not in backups of the store.
    pub directory: PathBuf,
    /// SPIFFE trust domain; another one makes every certificate worthless.
    #[serde(with = "text")]
    pub trust_domain: TrustDomain,
    /// How long a certificate is valid, 1 min ..= 30 days; agents renew it at half of that.
    #[serde(with = "humantime_serde")]
    pub certificate_lifetime: Duration,
}

impl Default for IdentityConfig {
    fn default() -> Self {
        Self {
            directory: "/var/lib/canopy/identity".into(),
            trust_domain: "canopy".parse().expect("it is a trust domain"),
            certificate_lifetime: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

impl From<IdentityConfig> for canopy_controller_authority::Settings {
    fn from(config: IdentityConfig) -> Self {
        Self { directory: config.directory, domain: config.trust_domain, lifetime: config.certificate_lifetime }
    }
}

/// Section `rest`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestConfig {
    /// `unix:/path`, a loopback address with a port, or another one for TLS; one or a list.
    #[serde(deserialize_with = "list")]
    pub listen: Vec<Listen>,
}

impl Default for RestConfig {
    fn default() -> Self {
        Self { listen: vec![Listen::Unix("/run/canopy/rest.sock".into())] }
    }
}

/// Section `authorization`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorizationConfig {
    /// Users of this machine, by their groups.
    pub unix: UnixRoles,
    /// The same with roles in single tenants, by the tenant's name.
    #[serde(default)]
    pub tenants: BTreeMap<String, TenantRoles>,
}

impl From<AuthorizationConfig> for Roles {
    fn from(AuthorizationConfig { unix, tenants }: AuthorizationConfig) -> Self {
        Self { domain: unix, tenants }
    }
}

/// Section `thresholds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdConfig {
    /// alpha in thousandths, 1..=65535.
    pub alpha: u16,
    /// K_base in octets, 4198 and more.
    pub k_base_bytes: u64,
    /// Measured round-trip times below this are refused; 1ns..=10s.
    #[serde(with = "humantime_serde")]
    pub min_rtt: Duration,
    /// V_ecn in packets per thousand, 1..=1000.
    pub v_ecn: u16,
    /// V_growth in octets per millisecond; 0: from K_min to K_max in one RTT_est.
    pub v_growth_bytes_per_ms: u64,
}

impl Default for ThresholdConfig {
    fn default() -> Self {
        Self {
            alpha: DEFAULT_ALPHA_PERMILLE,
            k_base_bytes: DEFAULT_K_BASE.get(),
            min_rtt: DEFAULT_MIN_RTT,
            v_ecn: DEFAULT_V_ECN_PERMILLE,
            v_growth_bytes_per_ms: 0,
        }
    }
}

/// Section `hmac`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HmacConfig {
    /// Headends sign the SRH of every packet, and all nodes require it.
    pub enabled: bool,
    /// Flags of signed SRHs: "rfc8754", none, or "linux", 0x08.
    pub flag_bit: FlagBit,
}

impl From<HmacConfig> for HmacSettings {
    fn from(HmacConfig { enabled, flag_bit }: HmacConfig) -> Self {
        Self { enabled, flag_bit }
    }
}

impl From<ThresholdConfig> for ThresholdSettings {
    fn from(config: ThresholdConfig) -> Self {
        Self {
            alpha_permille: config.alpha,
            k_base: Octets(config.k_base_bytes),
            min_rtt: config.min_rtt,
            v_ecn_permille: config.v_ecn,
            v_growth: Some(Octets(config.v_growth_bytes_per_ms)).filter(|octets| *octets > Octets::ZERO),
        }
    }
}

impl Settings for Config {
    const RENAMED: &'static [(&'static str, &'static str)] = &[("log.filter", "log.level")];
    const NAMED: &'static [&'static str] = &[
        "authorization.tenants",
        "oidc.tenants",
        "quotas.tenants",
        "kubernetes.nodes",
        "kubernetes.hosts",
        "kubernetes.roles",
    ];

    fn check(&self, faults: &mut Faults) {
        for error in self.addressing.validate().err().into_iter().flat_map(|errors| errors.0) {
            faults.push(error.field, error.detail);
        }
        if !self.store.path.is_absolute() {
            faults.push("store.path", format!("{:?} is not an absolute path", self.store.path));
        }
        if self.thresholds.alpha == 0 {
            faults.push("thresholds.alpha", "is 0: use thousandths, 1..=65535");
        }
        if self.thresholds.k_base_bytes < MIN_K_BASE.get() {
            let why = format!("{} octets hold no frame: use {MIN_K_BASE} or more", self.thresholds.k_base_bytes);
            faults.push("thresholds.k_base_bytes", why);
        }
        if self.thresholds.min_rtt.is_zero() || self.thresholds.min_rtt > MAX_RTT {
            let why = format!("{:?} is outside 1ns..=10s", self.thresholds.min_rtt);
            faults.push("thresholds.min_rtt", why);
        }
        if !V_ECN_PERMILLE.contains(&self.thresholds.v_ecn) {
            let why = format!("{} packets per thousand: use 1..=1000", self.thresholds.v_ecn);
            faults.push("thresholds.v_ecn", why);
        }
        if self.grpc.listen.is_empty() {
            faults.push("grpc.listen", "is empty: no agent could connect");
        }
        let grace = self.grpc.lease_grace;
        if !LEASE_GRACE.contains(&grace) {
            let why = format!("{} is out of range: use 1s to 1h", humantime::format_duration(grace));
            faults.push("grpc.lease_grace", why);
        }
        if !self.identity.directory.is_absolute() {
            faults.push("identity.directory", format!("{:?} is not an absolute path", self.identity.directory));
        }
        let life = self.identity.certificate_lifetime;
        if !CERTIFICATE_LIFETIME.contains(&life) {
            let why = format!("{} is out of range: use 1m to 30d", humantime::format_duration(life));
            faults.push("identity.certificate_lifetime", why);
        }
        self.kubernetes.check(self.has_tls(), faults);
        self.web.check(faults);
        self.oidc.check(!self.web.listen.is_empty(), faults);
        let all =
            [("grpc.listen", &self.grpc.listen), ("rest.listen", &self.rest.listen), ("web.listen", &self.web.listen)];
        for (key, listen) in all {
            if listen.len() > MAX_LISTENERS {
                faults.push(key, format!("{} addresses, at most {MAX_LISTENERS} are possible", listen.len()));
            }
            listen.iter().for_each(|listen| faults.check(key, listen.check_path()));
        }
        let AuthorizationConfig { unix, tenants } = &self.authorization;
        if tenants.len() > MAX_TENANTS {
            let why = format!("{} tenants, at most {MAX_TENANTS} can have groups of users", tenants.len());
            faults.push("authorization.tenants", why);
        }
        for role in Role::ALL {
            let in_tenants =
                tenants.iter().map(|(tenant, roles)| (format!("authorization.tenants.{tenant}"), roles.groups(role)));
            for (section, groups) in in_tenants.chain([("authorization.unix".to_owned(), unix.groups(role))]) {
                if groups.len() > MAX_GROUPS || groups.iter().any(String::is_empty) {
                    let why = format!("use at most {MAX_GROUPS} names of groups, none of them empty");
                    faults.push(format!("{section}.{role}_groups"), why);
                }
            }
        }
        let named = [
            ("authorization.tenants", tenants.keys().collect()),
            ("oidc.tenants", self.oidc.tenants.keys().collect()),
            ("quotas.tenants", self.quotas.tenants.keys().collect::<Vec<_>>()),
        ];
        for (section, names) in named {
            for name in names {
                let key = format!("{section}.{name}");
                faults.check(&key, check_name(&key, name).map_err(|error| error.detail));
            }
        }
        faults.check("traces.endpoint", check_endpoint(&self.traces.endpoint));
        faults.check("log.level", self.log.check_level());
        faults.check("log.endpoint", self.log.check_endpoint());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canopy_daemon::config::{Sources, load};

    fn read(text: &str) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("controller.toml");
        std::fs::write(&file, text).unwrap();
        let loaded = load(&Config::default(), Sources { file: Some(file), ..Sources::default() });
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_valid_and_local() {
        let config = read("").unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(config.rest.listen[0].to_string(), "unix:/run/canopy/rest.sock");
        assert_eq!(config.grpc.listen[0].to_string(), "unix:/run/canopy/controller.sock");
    }

    /// The documented file has every key, with its default.
    #[test]
    fn the_example_is_the_defaults() {
        let example = include_str!("../../../docs/config/controller.toml");
        assert_eq!(read(example).unwrap(), Config::default());
        let keys = |text: &str| {
            let table: toml::Table = text.parse().unwrap();
            table
                .into_iter()
                .flat_map(|(section, keys)| {
                    keys.as_table().unwrap().keys().map(|key| format!("{section}.{key}")).collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(example), keys(&toml::to_string(&Config::default()).unwrap()));
    }

    #[test]
    fn a_file_of_an_earlier_version_still_works() {
        let old = "[thresholds]\nkBaseBytes = 64001\n[addressing]\nnodePrefix = \"fcfd::/48\"\n[log]\nfilter = \"warn\"\n[grpc]\nlisten = \"unix:/x\"";
        let config = read(old).unwrap();
        assert_eq!((config.thresholds.k_base_bytes, config.log.level.as_str()), (64_001, "warn"));
        assert_eq!(config.addressing.node_prefix, "fcfd::/48".parse().unwrap());
        assert_eq!(config.grpc.listen, [Listen::Unix("/x".into())]);
    }

    /// Catches a tenant's name that is taken for a key of an earlier version.
    #[test]
    fn tenants_have_their_names_as_they_are_written() {
        let text = "[authorization.tenants.team-a]\noperator_groups = [\"a\"]\n[quotas]\nmax_groups = 7\n[quotas.tenants.team-a]\nmax-receivers = 9\nmax_groups = 0";
        let config = read(text).unwrap();
        assert_eq!(config.authorization.tenants["team-a"].operator_groups, ["a"]);
        let (of_a, of_b) = (config.quotas.of("team-a"), config.quotas.of("b"));
        assert_eq!((of_a.groups, of_a.receivers, of_b.groups, of_b.receivers), (None, Some(9), Some(7), None));
    }

    #[test]
    fn addresses_that_others_can_reach_are_served_over_tls() {
        for (text, has_tls) in [
            ("rest.listen = \"0.0.0.0:8642\"", true),
            ("rest.listen = [\"unix:/tmp/a\", \"[::]:8642\"]", true),
            ("rest.listen = \"192.0.2.1:8642\"", true),
            ("rest.listen = [\"[::1]:8640\", \"127.9.9.9:0\"]", false),
            ("grpc.listen = [\"unix:/tmp/a\", \"[::]:8641\"]", true),
            ("grpc.listen = \"127.0.0.1:8641\"", true),
            ("", false),
        ] {
            assert_eq!(read(text).unwrap().has_tls(), has_tls, "{text}");
        }
    }

    /// A file with a provider, and with these lines about it.
    fn of_oidc(lines: &str) -> String {
        let web = "[web]\nlisten = '[::]:1'\ncertificate = '/c'\nkey = '/k'\norigins = 'https://a'\n";
        format!("{web}[oidc]\nissuer = 'https://idp.example'\n{lines}")
    }

    #[test]
    fn each_fault_names_its_key() {
        assert!(read(&of_oidc("client_id = 'c'\nclient_secret_file = '/s'")).is_ok());
        let account = format!("canopy/{}", "a".repeat(107));
        let (long_account, its_key) =
            (format!("kubernetes.roles.'{account}' = 'admin'"), format!("kubernetes.roles.{account}"));
        for (text, key) in [
            ("store.path = \"a\"", "store.path"),
            ("grpc.listen = []", "grpc.listen"),
            ("grpc.lease_grace = '10ms'", "grpc.lease_grace"),
            ("rest.listen = \"nonsense\"", "rest.listen"),
            ("identity.directory = \"a\"", "identity.directory"),
            ("identity.trust_domain = \"Canopy\"", "identity.trust_domain"),
            ("identity.certificate_lifetime = \"59s\"", "identity.certificate_lifetime"),
            ("kubernetes.api = \"kubernetes\"", "kubernetes.api"),
            ("kubernetes.api = \"in-cluster\"", "kubernetes.api"),
            ("kubernetes.ca_file = \"ca.crt\"", "kubernetes.ca_file"),
            ("kubernetes.token_file = \"\"", "kubernetes.token_file"),
            ("kubernetes.audience = \"\"", "kubernetes.audience"),
            ("kubernetes.node_agents = \"agent\"", "kubernetes.node_agents"),
            ("kubernetes.host_agents = \"canopy/canopy-agent\"", "kubernetes.host_agents"),
            ("kubernetes.publish = \"canopy\"", "kubernetes.publish"),
            ("kubernetes.nodes.w1 = \"N_1\"", "kubernetes.nodes.w1"),
            ("kubernetes.roles.cleanup = \"admin\"", "kubernetes.roles.cleanup"),
            ("kubernetes.roles.'canopy/cleanup' = \"root\"", "kubernetes.roles.canopy/cleanup"),
            (&long_account, &its_key),
            ("[kubernetes.hosts]\nw1 = \"h\"\nw2 = \"h\"", "kubernetes.hosts.w2"),
            ("authorization.unix.admin_groups = [\"\"]", "authorization.unix.admin_groups"),
            ("authorization.tenants.acme.admin_groups = [\"\"]", "authorization.tenants.acme.admin_groups"),
            ("authorization.tenants.A_b.admin_groups = [\"a\"]", "authorization.tenants.A_b"),
            ("quotas.tenants.'a b'.max_groups = 1", "quotas.tenants.a b"),
            ("quotas.tenants.acme.max_trees = 1", "quotas.tenants.acme.max_trees"),
            ("quotas.max_groups = -1", "quotas.max_groups"),
            (
                "web.listen = \"unix:/x\"\nweb.certificate = '/c'\nweb.key = '/k'\nweb.origins = 'https://a'",
                "web.listen",
            ),
            (
                "web.listen = \"[::]:1\"\nweb.certificate = ''\nweb.key = '/k'\nweb.origins = 'https://a'",
                "web.certificate",
            ),
            ("web.listen = \"[::]:1\"\nweb.certificate = '/c'\nweb.key = 'k'\nweb.origins = 'https://a'", "web.key"),
            ("web.listen = \"[::]:1\"\nweb.certificate = '/c'\nweb.key = '/k'\nweb.origins = []", "web.origins"),
            ("web.origins = 'http://a'", "web.origins"),
            ("oidc.issuer = 'http://idp.example'", "oidc.issuer"),
            (
                "oidc.issuer = 'https://idp.example'\noidc.client_id = 'c'\noidc.client_secret_file = '/s'",
                "oidc.issuer",
            ),
            (&of_oidc("client_id = ''\nclient_secret_file = '/s'"), "oidc.client_id"),
            (&of_oidc("client_id = 'c'\nclient_secret_file = 's'"), "oidc.client_secret_file"),
            (&of_oidc("client_id = 'c'\nclient_secret_file = '/s'\nca_file = 'c'"), "oidc.ca_file"),
            (&of_oidc("client_id = 'c'\nclient_secret_file = '/s'\nusername_claim = ''"), "oidc.username_claim"),
            ("oidc.roles.admin_groups = ['']", "oidc.roles.admin_groups"),
            ("oidc.tenants.acme.viewer_groups = ['']", "oidc.tenants.acme.viewer_groups"),
            ("oidc.tenants.A_b.viewer_groups = ['a']", "oidc.tenants.A_b"),
            ("oidc.secret = 's'", "oidc.secret"),
            ("authorization.unix.root = [\"a\"]", "authorization.unix.root"),
            ("identity.certificate_lifetime = \"31d\"", "identity.certificate_lifetime"),
            ("addressing.block = \"5f00::/40\"", "addressing.block"),
            ("addressing.node_prefix = \"fcfd::/40\"", "addressing.node_prefix"),
            ("log.level = \"a=b=c\"", "log.level"),
            ("thresholds.alpha = 0", "thresholds.alpha"),
            ("thresholds.alpha = 65536", "thresholds.alpha"),
            ("thresholds.min_rtt = \"0s\"", "thresholds.min_rtt"),
            ("thresholds.min_rtt = \"11s\"", "thresholds.min_rtt"),
            ("thresholds.k_base_bytes = \"4197\"", "thresholds.k_base_bytes"),
            ("thresholds.v_ecn = 0", "thresholds.v_ecn"),
            ("thresholds.v_ecn = 1001", "thresholds.v_ecn"),
            ("hmac.flag_bit = \"both\"", "hmac.flag_bit"),
            ("hmac.enabled = 7", "hmac.enabled"),
            ("thresholds.v_growth_bytes_per_ms = -1", "thresholds.v_growth_bytes_per_ms"),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.starts_with(&format!("{key} (from ")) && error.contains("controller.toml"),
                "{text}: {error}"
            );
        }
    }
}
