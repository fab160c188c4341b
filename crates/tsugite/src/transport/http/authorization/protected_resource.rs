//! [`ProtectedResource`]: the description of a protected server.

/// The description of a protected server for clients that have no token yet (RFC 9728).
///
/// Without an authorization server no document is served: clients must have got their token elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[doc(alias("oauth-protected-resource", "resource_metadata"))]
pub struct ProtectedResource {
    pub(crate) authorization_servers: Vec<String>,
    pub(crate) scopes_supported: Vec<String>,
    pub(crate) scopes_required: Vec<String>,
    pub(crate) dpop_algorithms: Vec<String>,
    pub(crate) dpop_required: bool,
    pub(crate) name: Option<String>,
    pub(crate) documentation: Option<String>,
}

impl ProtectedResource {
    /// A resource of which nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an authorization server, by its issuer identifier, that issues tokens for this server.
    #[must_use]
    pub fn authorization_server(mut self, issuer: impl Into<String>) -> Self {
        self.authorization_servers.push(issuer.into());
        self
    }

    /// Adds scopes that clients may ask for. List those that most clients need and no more: some clients ask for all of
    /// them at once. `offline_access` is no scope of a resource and left out.
    #[must_use]
    pub fn scopes_supported<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes_supported.extend(without_offline_access(scopes));
        self
    }

    /// Adds scopes without which a token is good for nothing here. A 401 names them.
    #[must_use]
    pub fn scopes_required<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes_required.extend(without_offline_access(scopes));
        self
    }

    /// Says that DPoP proofs signed by these algorithms are accepted.
    #[must_use]
    pub fn dpop_algorithms<S: Into<String>>(mut self, algorithms: impl IntoIterator<Item = S>) -> Self {
        self.dpop_algorithms.extend(algorithms.into_iter().map(Into::into));
        self
    }

    /// Says that only tokens that are bound to a key are accepted.
    #[must_use]
    pub fn dpop_required(mut self) -> Self {
        self.dpop_required = true;
        self
    }

    /// Sets the name that consent pages show.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds what another description says, for a verifier that is made of several. This name and documentation take
    /// precedence; keys are required only if both require them.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        let merge = |known: &mut Vec<String>, more: Vec<String>| {
            for item in more {
                if !known.contains(&item) {
                    known.push(item);
                }
            }
        };
        merge(&mut self.authorization_servers, other.authorization_servers);
        merge(&mut self.scopes_supported, other.scopes_supported);
        merge(&mut self.scopes_required, other.scopes_required);
        merge(&mut self.dpop_algorithms, other.dpop_algorithms);
        self.dpop_required &= other.dpop_required;
        self.name = self.name.or(other.name);
        self.documentation = self.documentation.or(other.documentation);
        self
    }

    /// Sets the URL of a page for developers.
    #[must_use]
    pub fn documentation(mut self, url: impl Into<String>) -> Self {
        self.documentation = Some(url.into());
        self
    }
}

fn without_offline_access<S: Into<String>>(
    scopes: impl IntoIterator<Item = S>,
) -> impl Iterator<Item = String> {
    scopes.into_iter().map(Into::into).filter(|scope| scope != "offline_access")
}
