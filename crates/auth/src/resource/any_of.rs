//! [`AnyOf`]: several verifiers for one server.

use std::fmt;

use tsugite::transport::http::{
    ProtectedResource, TokenRequest, TokenScheme, Verified, VerifiedProof, VerifyError, VerifyErrorKind,
    VerifyFuture, VerifyToken,
};

use super::jwt::Jwt;

/// Accepts a token that one of several verifiers accepts, such as those of two issuers, or of an issuer and API keys.
///
/// A signed token is shown to the [`Jwt`] of its issuer and to no other verifier, so that it reaches no other issuer. Other
/// tokens are shown to the remaining verifiers in the order in which they were added. A key in a header of its own is shown to
/// those alone that read such a header, and so reaches no issuer. If none accepts a token and one of
/// them could not check it, the client gets 503 and not 401, and keeps its token.
///
/// ```
/// use tsugite::prelude::*;
/// use tsugite_auth::resource::{AnyOf, ApiKeys, Jwt};
///
/// let keys = ApiKeys::new().add("8b1f4c5e0d3a4b7c9e2f1a6d", Principal::new("build"));
/// let verifier = AnyOf::new().jwt(Jwt::issuer("https://one.example")).jwt(Jwt::issuer("https://two.example")).or(keys);
/// let server = Server::new("notes", "1.0.0").authorize(verifier);
/// # let _ = server;
/// ```
#[derive(Default)]
pub struct AnyOf {
    issuers: Vec<Jwt>,
    others: Vec<Box<dyn VerifyToken>>,
}

impl AnyOf {
    /// Accepts no token.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the verifier of one issuer's signed tokens.
    pub fn jwt(mut self, verifier: Jwt) -> Self {
        self.issuers.push(verifier);
        self
    }

    /// Adds another verifier.
    pub fn or(mut self, verifier: impl VerifyToken) -> Self {
        self.others.push(Box::new(verifier));
        self
    }

    async fn verify_token(&self, request: &TokenRequest) -> Result<Verified, VerifyError> {
        let is_key = request.scheme == TokenScheme::ApiKey;
        let issuer = self.issuers.iter().find(|issuer| issuer.claims_issuer_of(&request.token));
        if let Some(issuer) = issuer.filter(|_| !is_key) {
            return issuer.verify(request).await;
        }
        let mut refused = VerifyError::invalid_token();
        for (position, verifier) in self.others.iter().enumerate() {
            if is_key && verifier.key_headers().is_empty() {
                continue;
            }
            match verifier.verify(request).await {
                Ok(verified) => return Ok(verified.accepted_by(position)),
                Err(error) if refused.kind() == VerifyErrorKind::InvalidToken => refused = error,
                Err(_) => {}
            }
        }
        Err(refused)
    }

    /// Has the verifier that accepted the token verify its proof. A [`Jwt`] verifies none; with a `Dpop` around it, it is one of
    /// the others.
    async fn check_proof(
        &self,
        request: &TokenRequest,
        verified: &Verified,
    ) -> Result<VerifiedProof, VerifyError> {
        let accepted_by =
            verified.split_verifier().and_then(|(position, inner)| Some((self.others.get(position)?, inner)));
        match accepted_by {
            Some((verifier, inner)) => verifier.verify_proof(request, &inner).await,
            None => Err(VerifyError::invalid_proof("the issuer of the token accepts no DPoP proofs")),
        }
    }
}

impl VerifyToken for AnyOf {
    fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
        Box::pin(self.verify_token(request))
    }

    fn verify_proof<'a>(
        &'a self,
        request: &'a TokenRequest,
        verified: &'a Verified,
    ) -> VerifyFuture<'a, VerifiedProof> {
        Box::pin(self.check_proof(request, verified))
    }

    fn key_headers(&self) -> Vec<String> {
        self.others.iter().flat_map(|verifier| verifier.key_headers()).collect()
    }

    fn resource(&self) -> ProtectedResource {
        let issuers = self.issuers.iter().map(VerifyToken::resource);
        let others = self.others.iter().map(|verifier| verifier.resource());
        issuers.chain(others).reduce(ProtectedResource::merge).unwrap_or_default()
    }
}

impl fmt::Debug for AnyOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("AnyOf");
        shown.field("issuers", &self.issuers).field("others", &self.others.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::ApiKeys;
    use tsugite::server::Principal;

    async fn outcome(verifier: &AnyOf, token: &str) -> Result<String, VerifyErrorKind> {
        let request = TokenRequest::new(token, "https://h/mcp");
        let verified = verifier.verify(&request).await;
        verified.map(|verified| verified.principal().subject().to_owned()).map_err(|error| error.kind())
    }

    /// Accepts one token, and the proofs of one text.
    struct WithProof(&'static str, &'static str);

    impl VerifyToken for WithProof {
        fn verify<'a>(&'a self, request: &'a TokenRequest) -> VerifyFuture<'a, Verified> {
            let verified = Verified::new(Principal::new("ann")).bound_to_key("k");
            let outcome =
                if request.token == self.0 { Ok(verified) } else { Err(VerifyError::invalid_token()) };
            Box::pin(std::future::ready(outcome))
        }

        fn verify_proof<'a>(
            &'a self,
            request: &'a TokenRequest,
            _: &'a Verified,
        ) -> VerifyFuture<'a, VerifiedProof> {
            let outcome = match request.proofs == [self.1] {
                true => Ok(VerifiedProof::new()),
                false => Err(VerifyError::invalid_proof("wrong")),
            };
            Box::pin(std::future::ready(outcome))
        }
    }

    #[tokio::test]
    async fn proof_goes_to_the_verifier_of_its_token() {
        let inner = AnyOf::new().or(only("x", "eve")).or(WithProof("b", "pb"));
        let any = AnyOf::new().or(WithProof("a", "pa")).or(inner).or(WithProof("b", "never"));
        let accepts = async |token: &str, proof: &str| {
            let mut request = TokenRequest::new(token, "https://h/mcp");
            request.scheme = TokenScheme::Dpop;
            request.proofs = vec![proof.to_owned()];
            let verified = any.verify(&request).await.unwrap();
            any.verify_proof(&request, &verified).await.is_ok()
        };
        assert!(accepts("a", "pa").await && accepts("b", "pb").await);
        assert!(!accepts("a", "pb").await && !accepts("b", "pa").await && !accepts("x", "pa").await);
    }

    fn only(known: &'static str, owner: &'static str) -> impl VerifyToken {
        move |token: String| async move {
            match token == known {
                true => Ok(Principal::new(owner)),
                false => Err(VerifyError::invalid_token()),
            }
        }
    }

    #[tokio::test]
    async fn first_verifier_that_accepts_decides() {
        let any = AnyOf::new().or(only("a", "ann")).or(only("b", "bob")).or(only("b", "eve"));
        assert_eq!(outcome(&any, "a").await.as_deref(), Ok("ann"));
        assert_eq!(outcome(&any, "b").await.as_deref(), Ok("bob"));
        assert_eq!(outcome(&any, "c").await, Err(VerifyErrorKind::InvalidToken));
        assert_eq!(outcome(&AnyOf::new(), "a").await, Err(VerifyErrorKind::InvalidToken));
    }

    #[tokio::test]
    async fn verifier_that_could_not_check_is_remembered() {
        let down = async |_: String| Err::<Principal, _>(VerifyError::unavailable("down"));
        let any = AnyOf::new().or(down).or(only("a", "ann"));
        assert_eq!(outcome(&any, "a").await.as_deref(), Ok("ann"));
        assert_eq!(outcome(&any, "b").await, Err(VerifyErrorKind::Unavailable));
    }

    #[tokio::test]
    async fn signed_token_reaches_no_other_verifier() {
        let accepts_all = async |_: String| Ok::<_, VerifyError>(Principal::new("eve"));
        let any = AnyOf::new().jwt(Jwt::issuer("https://idp.example")).or(accepts_all);
        let part = |text: &str| tsugite::base64::encode_url(text.as_bytes());
        let claims = part(r#"{"iss":"https://idp.example"}"#);
        // Also a token that no verifier could verify: the algorithm is not supported, or the header is malformed.
        for header in [r#"{"alg":"HS256"}"#, r#"{"alg":"none"}"#, r#"{"alg":"ES256","crit":["x"]}"#, "{"] {
            let token = format!("{}.{claims}.c2ln", part(header));
            assert_eq!(outcome(&any, &token).await, Err(VerifyErrorKind::InvalidToken), "{header}");
        }
        let other = format!("{}.{}.c2ln", part(r#"{"alg":"HS256"}"#), part(r#"{"iss":"https://x.example"}"#));
        assert_eq!(outcome(&any, &other).await.as_deref(), Ok("eve"));
    }

    #[tokio::test]
    async fn key_reaches_no_other_verifier() {
        let accepts_all = async |_: String| Ok::<_, VerifyError>(Principal::new("eve"));
        let keys = ApiKeys::new().add("k1", Principal::new("ann")).header("X-Api-Key").unwrap();
        let any = AnyOf::new().or(accepts_all).or(keys);
        assert_eq!(any.key_headers(), ["X-Api-Key"]);
        let owner = async |token: &str| {
            let mut request = TokenRequest::new(token, "https://h/mcp");
            request.scheme = TokenScheme::ApiKey;
            any.verify(&request).await.map(|verified| verified.principal().subject().to_owned()).ok()
        };
        assert_eq!((owner("k1").await.as_deref(), owner("k2").await), (Some("ann"), None));
    }
}
