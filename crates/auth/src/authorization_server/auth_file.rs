//! [`AuthFile`]: the settings of an authorization server in a JSON file, as `tsugite serve --auth` reads them.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    AuthorizationServer, AuthorizationServerBuilder, ConfiguredClient, OpenIdProvider, TrustedIssuer,
    UserFile,
};
use crate::error::{AuthError, Result};
use crate::private_file::PrivateFile;

/// The settings of an authorization server in a JSON file of mode 0600, with its users.
///
/// All members are optional. A member that is not known is an error.
///
/// ```json
/// {
///   "issuer": "https://example.com",
///   "name": "Example",
///   "scopes": { "notes:read": "Read your notes" },
///   "registration": true,
///   "users": [{ "name": "ann", "password": "$argon2id$…" }],
///   "clients": [{ "client_id": "my-app", "redirect_uris": ["http://127.0.0.1/callback"] }],
///   "issuers": [{ "issuer": "https://idp.example", "kind": "identity_provider", "clients": ["my-app"] }],
///   "provider": { "issuer": "https://accounts.google.com", "client_id": "…", "client_secret": "…",
///                 "allow": { "email_domains": ["example.com"] } }
/// }
/// ```
pub struct AuthFile {
    path: PathBuf,
    content: Content,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    issuer: Option<String>,
    resource: Option<String>,
    name: Option<String>,
    #[serde(default)]
    scopes: Map<String, Value>,
    #[serde(default = "yes")]
    registration: bool,
    #[serde(default = "yes")]
    client_metadata_documents: bool,
    users: Option<Vec<Value>>,
    #[serde(default)]
    clients: Vec<ClientEntry>,
    #[serde(default)]
    issuers: Vec<IssuerEntry>,
    provider: Option<ProviderEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientEntry {
    client_id: String,
    client_name: Option<String>,
    client_secret: Option<String>,
    jwks: Option<Map<String, Value>>,
    #[serde(default)]
    redirect_uris: Vec<String>,
    scopes: Option<Vec<String>>,
    /// Whether the client gets tokens for itself.
    #[serde(default)]
    client_credentials: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IssuerEntry {
    issuer: String,
    kind: IssuerKind,
    jwks_uri: Option<String>,
    jwks: Option<Map<String, Value>>,
    #[serde(default)]
    clients: Vec<String>,
    #[serde(default)]
    subjects: Vec<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum IssuerKind {
    IdentityProvider,
    Workloads,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderEntry {
    issuer: String,
    client_id: String,
    client_secret: String,
    name: Option<String>,
    scopes: Option<Vec<String>>,
    #[serde(default)]
    allow: AllowEntry,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct AllowEntry {
    #[serde(default)]
    everyone: bool,
    #[serde(default)]
    subjects: Vec<String>,
    #[serde(default)]
    emails: Vec<String>,
    #[serde(default)]
    email_domains: Vec<String>,
}

impl AuthFile {
    /// Reads a file. Fails if there is none, if others can read it, if it has a member that is not known, or if the password of
    /// a user is no hash.
    pub fn read(path: impl Into<PathBuf>) -> Result<Self> {
        let file = PrivateFile::new(path);
        let text = file.read()?.ok_or_else(|| file.error("there is no such file"))?;
        let content = serde_json::from_str(&text).map_err(|error| {
            // The names of members, never their values.
            let reason = error.to_string();
            match reason.starts_with("unknown field") || reason.starts_with("missing field") {
                true => file.error(reason),
                false => file.malformed(&error),
            }
        })?;
        UserFile::new(file.path()).check()?;
        Ok(Self { path: file.path().to_owned(), content })
    }

    /// The issuer, if the file names one.
    pub fn issuer(&self) -> Option<&str> {
        self.content.issuer.as_deref()
    }

    /// The URL of the protected server, if the file names one.
    pub fn resource(&self) -> Option<&str> {
        self.content.resource.as_deref()
    }

    /// Whether no person can log in yet: the file has neither a user nor a provider.
    pub fn is_without_people(&self) -> bool {
        self.content.provider.is_none() && self.content.users.as_ref().is_none_or(Vec::is_empty)
    }

    /// Whether users who are added to the file can log in without a restart. They cannot if the file names a provider and has no
    /// `users` yet: then the server asks for no password.
    pub fn follows_new_users(&self) -> bool {
        self.content.users.is_some() || self.content.provider.is_none()
    }

    /// The settings, without resources, for the issuer of the file or else for this one. Fails if a key set is unusable.
    pub fn builder(&self, default_issuer: &str) -> Result<AuthorizationServerBuilder> {
        let content = &self.content;
        let mut builder = AuthorizationServer::builder(self.issuer().unwrap_or(default_issuer))
            .registration(content.registration)
            .client_metadata_documents(content.client_metadata_documents);
        if let Some(name) = &content.name {
            builder = builder.name(name);
        }
        for (scope, description) in &content.scopes {
            builder = builder.scope(scope, description.as_str().unwrap_or_default());
        }
        if self.follows_new_users() {
            builder = builder.users(UserFile::new(&self.path));
        }
        for client in &content.clients {
            builder = builder.client(client.to_client()?);
        }
        for issuer in &content.issuers {
            builder = builder.trusted_issuer(issuer.to_issuer()?);
        }
        Ok(match &content.provider {
            Some(provider) => builder.provider(provider.to_provider()),
            None => builder,
        })
    }
}

impl ClientEntry {
    fn to_client(&self) -> Result<ConfiguredClient> {
        let id = self.client_id.as_str();
        let mut client = match (&self.client_secret, &self.jwks) {
            (None, None) => ConfiguredClient::public(id),
            (Some(secret), None) => ConfiguredClient::secret(id, secret.as_str()),
            (None, Some(keys)) => ConfiguredClient::keys(id, &Value::Object(keys.clone()).to_string())?,
            (Some(_), Some(_)) => {
                return Err(AuthError::config(format!(
                    "the client {id:?} has a secret and keys; use one of them"
                )));
            }
        };
        client = self.client_name.iter().fold(client, ConfiguredClient::name);
        client = self.redirect_uris.iter().fold(client, ConfiguredClient::redirect_uri);
        Ok(match (self.client_credentials, &self.scopes) {
            (true, scopes) => client.client_credentials(scopes.clone().unwrap_or_default()),
            (false, Some(scopes)) => client.scopes(scopes.clone()),
            (false, None) => client,
        })
    }
}

impl IssuerEntry {
    fn to_issuer(&self) -> Result<TrustedIssuer> {
        let mut issuer = match self.kind {
            IssuerKind::IdentityProvider => TrustedIssuer::identity_provider(&self.issuer),
            IssuerKind::Workloads => TrustedIssuer::workloads(&self.issuer),
        };
        issuer = self.jwks_uri.iter().fold(issuer, TrustedIssuer::keys_at);
        if let Some(keys) = &self.jwks {
            issuer = issuer.keys(&Value::Object(keys.clone()).to_string())?;
        }
        issuer = self.clients.iter().fold(issuer, TrustedIssuer::client);
        issuer = self.subjects.iter().fold(issuer, TrustedIssuer::subject);
        Ok(issuer.scopes(self.scopes.clone()))
    }
}

impl ProviderEntry {
    fn to_provider(&self) -> OpenIdProvider {
        let secret = self.client_secret.as_str();
        let mut provider = OpenIdProvider::new(&self.issuer, &self.client_id, secret);
        provider = self.name.iter().fold(provider, OpenIdProvider::name);
        if let Some(scopes) = &self.scopes {
            provider = provider.scopes(scopes.clone());
        }
        let AllowEntry { everyone, subjects, emails, email_domains } = &self.allow;
        if *everyone {
            provider = provider.allow_everyone();
        }
        provider = subjects.iter().fold(provider, OpenIdProvider::allow_subject);
        provider = emails.iter().fold(provider, OpenIdProvider::allow_email);
        email_domains.iter().fold(provider, OpenIdProvider::allow_email_domain)
    }
}

impl fmt::Debug for AuthFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthFile").field("path", &self.path).finish_non_exhaustive()
    }
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file that only its owner can read.
    fn write(name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("tsugite-auth-file-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut options = std::fs::OpenOptions::new();
        let mut file = crate::private::private(options.write(true).create_new(true)).open(&path).unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        path
    }

    /// Reads a file with this text.
    fn read(name: &str, text: &str) -> Result<AuthFile> {
        let path = write(name, text);
        let file = AuthFile::read(&path);
        std::fs::remove_file(&path).unwrap();
        file
    }

    #[test]
    fn file_is_read_as_documented() {
        let text = r#"{
            "issuer": "https://example.com", "name": "Example", "scopes": {"notes:read": "Read your notes"},
            "users": [{"name": "ann", "password": "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo"}],
            "clients": [{"client_id": "a", "redirect_uris": ["http://127.0.0.1/cb"]},
                        {"client_id": "m", "client_secret": "a secret of the test", "client_credentials": true, "scopes": ["notes:read"]}],
            "issuers": [{"issuer": "https://idp.example", "kind": "identity_provider", "clients": ["m"]}],
            "provider": {"issuer": "https://op.example", "client_id": "i", "client_secret": "s",
                         "allow": {"email_domains": ["example.com"]}}
        }"#;
        let file = read("full", text).unwrap();
        assert_eq!((file.issuer(), file.is_without_people()), (Some("https://example.com"), false));
        let server = file.builder("http://127.0.0.1:1").unwrap().resource("https://example.com/mcp").build();
        assert_eq!(server.unwrap().issuer(), "https://example.com");
        assert!(file.follows_new_users());
        let only_provider =
            r#"{"provider": {"issuer": "https://op.example", "client_id": "i", "client_secret": "s"}}"#;
        assert!(!read("provider", only_provider).unwrap().follows_new_users());
        let empty = read("empty", "{}").unwrap();
        assert!(empty.is_without_people());
        assert!(
            empty.builder("http://127.0.0.1:1").unwrap().resource("http://127.0.0.1:1/mcp").build().is_ok()
        );
    }

    #[test]
    fn wrong_files_are_refused_without_their_secrets() {
        for (name, text, reason) in [
            ("typo", r#"{"user": [{"password": "hunter2"}]}"#, "unknown field `user`"),
            ("type", r#"{"name": ["hunter2"]}"#, "malformed at line 1"),
            (
                "plain",
                r#"{"users": [{"name": "ann", "password": "hunter2"}]}"#,
                "password` of the user \"ann\"",
            ),
            ("salt", r#"{"users": [{"name": "ann", "password": "$argon2id$x"}]}"#, "PHC"),
            ("kind", r#"{"issuers": [{"issuer": "x", "kind": "hunter2"}]}"#, "malformed"),
        ] {
            let error = read(name, text).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("hunter2"), "{error}");
        }
        assert!(AuthFile::read("/nonexistent/auth.json").unwrap_err().to_string().contains("no such file"));
    }

    #[cfg(unix)]
    #[test]
    fn file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let path = write("open", "{}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let error = AuthFile::read(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("others can read it"), "{error}");
    }
}
