// SPDX-License-Identifier: Apache-2.0
//! Named servers in `canopy/contexts.yaml` below the user's configuration directory, and which server a command line means.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use canopy_controller_api::sign_in::Credential;
use canopy_identity::{AuthorityHash, Credentials};
use canopy_units::UnixTime;
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};

/// Used if nothing names a server and a controller serves there: the default of its `rest.listen`.
const SOCKET: &str = "/run/canopy/rest.sock";
/// Used else: the address of the lab.
const LOOPBACK: &str = "http://127.0.0.1:8640";

/// Reads a variable of the environment; an empty one counts as none.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What the file has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The one that is used if nothing else names a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    /// By name.
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// A named server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Its address, as `--server` takes it.
    pub server: String,
    /// A file with the token to send to it, absolute.
    #[serde(default, rename = "tokenFile", skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A file with the certificate to show it and the key of that, absolute.
    #[serde(default, rename = "certificateFile", skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<PathBuf>,
    /// The hash of its authority, hexadecimal, where the address is https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
}

/// The server of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// With what belongs to it.
    pub context: Context,
    /// What names it.
    pub from: Named,
}

/// What names the server of a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// `--server` or `CANOPY_SERVER`.
    ByAddress,
    /// A context, which has its own token or none.
    ByContext,
    /// Nothing does: it is the default.
    Not,
}

impl From<&str> for Context {
    fn from(server: &str) -> Self {
        Self { server: server.to_owned(), token_file: None, certificate_file: None, authority: None }
    }
}

/// The file of one user.
pub struct File {
    path: PathBuf,
}

impl File {
    /// `$XDG_CONFIG_HOME/canopy/contexts.yaml`, else `~/.config/canopy/contexts.yaml`; `None` without a home.
    pub fn of(env: Env<'_>) -> Option<Self> {
        // The specification of XDG has relative paths ignored.
        let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
        Some(Self { path: base.join("canopy/contexts.yaml") })
    }

    /// What it has; nothing if there is no file.
    ///
    /// # Errors
    /// It cannot be read, is not what this program writes, or others can change it.
    pub fn read(&self) -> Result<Contexts, Failure> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Contexts::default()),
            Err(e) => return Err(self.failure(&format!("cannot be read: {e}"))),
        };
        let mode = fs::metadata(&self.path).map_err(|e| self.failure(&format!("cannot be read: {e}")))?.mode();
        if mode & 0o022 != 0 {
            let mode = mode & 0o777;
            return Err(self.failure(&format!(
                "can be changed by other users (mode {mode:04o}), who could lead commands to another controller: chmod 600 it"
            )));
        }
        serde_yaml_ng::from_str(&text).map_err(|e| {
            self.failure(&format!(
                "is not a file of contexts: {e}; mend it, or move it away and use `canopyctl context set`"
            ))
        })
    }

    /// Replaces the file; others cannot read it. A reader gets the old or the new one, never a part.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, contexts: &Contexts) -> Result<(), Failure> {
        let text = serde_yaml_ng::to_string(contexts).map_err(|e| self.failure(&format!("cannot be written: {e}")))?;
        self.replace(&text).map_err(|e| self.failure(&format!("cannot be written: {e}")))
    }

    fn replace(&self, text: &str) -> std::io::Result<()> {
        if let Some(directory) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let new = self.path.with_extension(format!("yaml.{}", std::process::id()));
        let written = (|| {
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &self.path)
        })();
        if written.is_err() {
            _ = fs::remove_file(&new);
        }
        written
    }

    /// The context of this name.
    ///
    /// # Errors
    /// As [`File::read`], and there is none: names the others.
    pub fn context(&self, name: &str) -> Result<Context, Failure> {
        let mut contexts = self.read()?.contexts;
        contexts.remove(name).ok_or_else(|| self.unknown(name, &contexts))
    }

    /// The failure of a name that is not in the file.
    pub fn unknown(&self, name: &str, contexts: &BTreeMap<String, Context>) -> Failure {
        let names: Vec<&str> = contexts.keys().map(String::as_str).collect();
        let what = match names.as_slice() {
            [] => "has no contexts: `canopyctl context set NAME SERVER` adds one".to_owned(),
            names => format!("has no context {name:?}, but {}", names.join(", ")),
        };
        Failure::new(Exit::NotFound, format!("{} {what}", self.path.display()))
    }

    fn failure(&self, why: &str) -> Failure {
        Failure::new(Exit::Usage, format!("{} {why}", self.path.display()))
    }
}

/// The server that a command line means. A flag is before the environment, that before the current context, that before the default.
///
/// # Errors
/// Flags or variables exclude one another, or the context is not known.
pub fn server(server: Option<&str>, context: Option<&str>, env: Env<'_>) -> Result<Chosen, Failure> {
    let file = File::of(env);
    let at = |address: &str| Ok(Chosen { context: address.into(), from: Named::ByAddress });
    let named = |name: &str| match &file {
        Some(file) => file.context(name).map(|context| Chosen { context, from: Named::ByContext }),
        None => Err(no_home()),
    };
    match (server, context) {
        (Some(_), Some(_)) => return Err(both("--server and --context")),
        (Some(server), None) => return at(server),
        (None, Some(context)) => return named(context),
        (None, None) => {}
    }
    match (env("CANOPY_SERVER"), env("CANOPY_CONTEXT")) {
        (Some(_), Some(_)) => return Err(both("CANOPY_SERVER and CANOPY_CONTEXT")),
        (Some(server), None) => return at(&server),
        (None, Some(context)) => return named(&context),
        (None, None) => {}
    }
    let default = || Chosen { context: default_server(Path::new(SOCKET)), from: Named::Not };
    let Some(file) = &file else { return Ok(default()) };
    match file.read()?.current {
        Some(current) => named(&current),
        None => Ok(default()),
    }
}

fn default_server(socket: &Path) -> Context {
    if socket.exists() { format!("unix:{}", socket.display()).as_str().into() } else { LOOPBACK.into() }
}

/// The authority of a server: of the flag, else of the variable, else of its context. Of several lines, as a ConfigMap has them while the authority
/// is replaced, the first one counts.
///
/// # Errors
/// It is not the hash of one.
pub fn authority(
    flag: Option<String>,
    of_context: Option<String>,
    env: Env<'_>,
) -> Result<Option<AuthorityHash>, Failure> {
    let text = flag.or_else(|| env("CANOPY_AUTHORITY")).or(of_context);
    let first = text.map(|text| text.trim().lines().next().unwrap_or_default().to_owned());
    let hash = first.map(|text| text.parse::<AuthorityHash>()).transpose();
    hash.map_err(|e| Failure::new(Exit::Usage, e.to_string()))
}

/// The token to send to a server: of the flag, else of its context, or of the variable where an address names it. What a variable has is not
/// for the server of a context, and nothing is for one that only a port stands for: another user may listen there.
///
/// # Errors
/// The file cannot be read, others can read it, it has no token, or nothing names the server.
pub fn token(flag: Option<PathBuf>, chosen: &Chosen, env: Env<'_>) -> Result<Option<Credential>, Failure> {
    let variable = || env("CANOPY_TOKEN_FILE").map(PathBuf::from);
    let path = match chosen.from {
        Named::ByContext => flag.or_else(|| chosen.context.token_file.clone()),
        Named::ByAddress | Named::Not => flag.or_else(variable),
    };
    let Some(path) = path else { return Ok(None) };
    if chosen.from == Named::Not && chosen.context.server == LOOPBACK {
        let why = format!("a token is not sent to a server that nothing names: --server {LOOPBACK}, if that is meant");
        return Err(Failure::new(Exit::Usage, why));
    }
    let failure = |why: String| Failure::new(Exit::Usage, format!("token file {} {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|e| failure(format!("cannot be read: {e}")))?;
    let mode = fs::metadata(&path).map_err(|e| failure(format!("cannot be read: {e}")))?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(failure(format!("can be read or changed by other users (mode {mode:04o}): chmod 600 it")));
    }
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(failure("has no token: one line as `canopyctl token create` prints it".to_owned()));
    }
    Ok(Some(Credential(token.to_owned())))
}

/// The certificate to show to a server, and its key: of the flag, else of its context, or of the variable where an address names it.
///
/// # Errors
/// The file cannot be read, others can read it, or it has no key, or no certificate that is still valid.
pub fn certificate(flag: Option<PathBuf>, chosen: &Chosen, env: Env<'_>) -> Result<Option<Credentials>, Failure> {
    let variable = || env("CANOPY_CERTIFICATE_FILE").map(PathBuf::from);
    let path = match chosen.from {
        Named::ByContext => flag.or_else(|| chosen.context.certificate_file.clone()),
        Named::ByAddress | Named::Not => flag.or_else(variable),
    };
    let Some(path) = path else { return Ok(None) };
    let failure = |why: String| Failure::new(Exit::Usage, format!("certificate file {why}"));
    let own = Credentials::read_file(&path).map_err(|e| failure(e.to_string()))?;
    let ended = own.certificate.not_after;
    if ended <= UnixTime::now() {
        let at = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_nanos(ended.nanos()));
        let path = path.display();
        return Err(failure(format!(
            "{path} has ended at {at}: make another, see `canopyctl certificate request --help`"
        )));
    }
    Ok(Some(own))
}

/// There is no place for the file.
pub fn no_home() -> Failure {
    Failure::new(Exit::Usage, "contexts are kept below XDG_CONFIG_HOME or HOME, and neither is an absolute path")
}

fn both(what: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{what} name a server both: give one"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(directory: &tempfile::TempDir, text: &str) -> File {
        let home = directory.path().to_str().unwrap().to_owned();
        let file = File::of(&|name| (name == "XDG_CONFIG_HOME").then(|| home.clone())).unwrap();
        fs::create_dir_all(file.path.parent().unwrap()).unwrap();
        fs::write(&file.path, text).unwrap();
        file
    }

    /// Catches a variable that is before a flag, and a current context that is before a variable.
    #[test]
    fn a_flag_is_before_the_environment_and_that_before_the_file() {
        let directory = tempfile::tempdir().unwrap();
        with(&directory, "current: a\ncontexts: {a: {server: 'unix:/a'}, b: {server: 'unix:/b'}}");
        let home = directory.path().to_str().unwrap();
        let chosen = |server_flag, context_flag, variables: &[(&str, &str)]| {
            let env = |name: &str| {
                let own = variables.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned());
                own.or_else(|| (name == "XDG_CONFIG_HOME").then(|| home.to_owned()))
            };
            server(server_flag, context_flag, &env).map(|chosen| chosen.context.server).map_err(|f| f.message)
        };
        assert_eq!(chosen(None, None, &[]).unwrap(), "unix:/a");
        assert_eq!(chosen(None, None, &[("CANOPY_CONTEXT", "b")]).unwrap(), "unix:/b");
        assert_eq!(chosen(None, None, &[("CANOPY_SERVER", "unix:/s")]).unwrap(), "unix:/s");
        assert_eq!(chosen(None, Some("b"), &[("CANOPY_SERVER", "unix:/s")]).unwrap(), "unix:/b");
        assert_eq!(chosen(Some("unix:/f"), None, &[("CANOPY_CONTEXT", "b")]).unwrap(), "unix:/f");
        assert!(chosen(Some("unix:/f"), Some("a"), &[]).unwrap_err().contains("--server and --context"));
        let both = [("CANOPY_SERVER", "x"), ("CANOPY_CONTEXT", "b")];
        assert!(chosen(None, None, &both).unwrap_err().contains("CANOPY_CONTEXT"));
        let unknown = chosen(None, Some("c"), &[]).unwrap_err();
        assert!(unknown.contains("contexts.yaml has no context \"c\", but a, b"), "{unknown}");
        let socket = directory.path().join("rest.sock");
        assert_eq!(default_server(&socket), LOOPBACK.into());
        fs::write(&socket, "").unwrap();
        assert_eq!(default_server(&socket).server, format!("unix:{}", socket.display()));
    }

    /// Catches a variable that a ConfigMap fills, with the line's end, and with the next authority while one is replaced.
    #[test]
    fn the_first_line_of_an_authority_counts() {
        let (hash, next) = ("ab".repeat(32), "cd".repeat(32));
        let of = |text: String| {
            authority(None, None, &move |_| Some(text.clone())).map(|found| found.map(|of| of.to_string()))
        };
        for text in [hash.clone(), format!("{hash}\n"), format!("{hash}\n{next}\n")] {
            assert_eq!(of(text).unwrap().as_ref(), Some(&hash));
        }
        assert!(of(format!("{hash} {next}")).is_err() && of("\n".into()).is_err());
    }

    /// Catches a file that others could have changed and that is used all the same, and an error that does not name the file.
    #[test]
    fn a_file_that_cannot_be_trusted_or_read_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        for (text, why) in [("contexts: [", "is not a file of contexts"), ("servers: {}", "unknown field `servers`")] {
            let message = with(&directory, text).read().unwrap_err().message;
            assert!(message.contains("canopy/contexts.yaml") && message.contains(why), "{message}");
        }
        let file = with(&directory, "contexts: {}");
        fs::set_permissions(&file.path, fs::Permissions::from_mode(0o664)).unwrap();
        let message = file.read().unwrap_err().message;
        assert!(message.contains("mode 0664") && message.contains("chmod 600"), "{message}");
        // Written anew, it is the user's own.
        file.write(&Contexts::default()).unwrap();
        assert_eq!(fs::metadata(&file.path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(file.read().unwrap(), Contexts::default());
        assert_eq!(fs::read_dir(file.path.parent().unwrap()).unwrap().count(), 1, "a file is left over");
    }
    /// Catches a token of a context that is sent to another server, and one from a file that others can read.
    #[test]
    fn a_token_is_of_the_flag_the_variable_or_the_context_and_its_users_alone() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let [flag, variable, context] =
            ["flag", "variable", "context"].map(|name| write(name, &format!("{name}\n"), 0o600));
        let env = |name: &str| (name == "CANOPY_TOKEN_FILE").then(|| variable.to_str().unwrap().to_owned());
        let none = |_: &str| None;
        let of = |flag: Option<&PathBuf>, chosen: &Chosen, env: Env<'_>| {
            token(flag.cloned(), chosen, env).map(|token| token.map(|token| token.0)).map_err(|f| f.message)
        };
        let at = |server: &str, from, token_file: Option<&PathBuf>| Chosen {
            context: Context { token_file: token_file.cloned(), ..server.into() },
            from,
        };
        let (address, own) = (at("unix:/a", Named::ByAddress, None), at("unix:/a", Named::ByContext, Some(&context)));
        assert_eq!(of(Some(&flag), &own, &env).unwrap().unwrap(), "flag");
        assert_eq!(of(None, &own, &env).unwrap().unwrap(), "context");
        assert_eq!(of(None, &at("unix:/a", Named::ByContext, None), &env).unwrap(), None);
        assert_eq!(of(None, &address, &env).unwrap().unwrap(), "variable");
        assert_eq!(of(None, &address, &none).unwrap(), None);
        // Another user may listen at the default port.
        assert!(of(None, &at(LOOPBACK, Named::Not, None), &env).unwrap_err().contains("nothing names"));
        assert_eq!(of(None, &at("unix:/a", Named::Not, None), &env).unwrap().unwrap(), "variable");
        for (name, text, mode, why) in [
            ("open", "t", 0o640, "mode 0640"),
            ("empty", "\n", 0o600, "has no token"),
            ("two", "a b", 0o600, "has no token"),
        ] {
            let message = of(Some(&write(name, text, mode)), &address, &none).unwrap_err();
            assert!(message.contains(name) && message.contains(why), "{message}");
        }
        let text = format!("contexts: {{a: {{server: 'unix:/a', tokenFile: {}}}}}", context.display());
        let home = tempfile::tempdir().unwrap();
        let file = with(&home, &text);
        assert_eq!(file.context("a").unwrap().token_file.as_ref(), Some(&context));
        let at_home = |name: &str| (name == "XDG_CONFIG_HOME").then(|| home.path().to_str().unwrap().to_owned());
        assert_eq!(server(Some("unix:/b"), None, &at_home).unwrap().context.token_file, None);
    }
}
