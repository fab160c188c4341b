//! One authorization request, and the check of the answer to it.

use crate::discovery::ServerMetadata;
use crate::error::{AuthError, Result, shown};
use crate::jose::{random_text, sha256_text};
use crate::net::{Trust, Url, decode_form};
use crate::scopes::OFFLINE_ACCESS;
use crate::secret::Secret;

/// The values of an authorization request.
pub(crate) struct AuthorizationParams<'a> {
    pub(crate) metadata: &'a ServerMetadata,
    pub(crate) client_id: &'a str,
    pub(crate) redirect_uri: &'a str,
    pub(crate) scopes: &'a [String],
    pub(crate) resource: &'a str,
    pub(crate) trust: Trust,
}

/// An authorization request that waits for its answer. The issuer is kept with the verifier and the state, so that the
/// answer of another server is recognized.
pub(crate) struct AuthorizationRequest {
    /// The URL that the browser opens.
    pub(crate) url: String,
    /// The PKCE verifier.
    pub(crate) verifier: Secret,
    state: Secret,
    issuer: String,
    iss_promised: bool,
}

/// An answer that arrived at the redirect URI.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It does not belong to this request, and is ignored.
    Unrelated,
    /// The code to exchange.
    Code(Secret),
    /// The login has failed.
    Failed(AuthError),
}

impl Answer {
    /// The code of a pasted answer.
    pub(crate) fn into_code(self) -> Result<Secret> {
        match self {
            Answer::Code(code) => Ok(code),
            Answer::Failed(error) => Err(error),
            Answer::Unrelated => Err(AuthError::login("the pasted text is no answer to this login")),
        }
    }
}

impl AuthorizationRequest {
    pub(crate) fn new(params: &AuthorizationParams<'_>) -> Result<Self> {
        let endpoint = params.metadata.authorization_endpoint()?;
        params.trust.check_url(&endpoint)?;
        let (verifier, state) = (random_text()?, random_text()?);
        let challenge = sha256_text(&verifier);
        let scope = params.scopes.join(" ");
        let mut query = vec![
            ("response_type", "code"),
            ("client_id", params.client_id),
            ("redirect_uri", params.redirect_uri),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", params.resource),
        ];
        if !scope.is_empty() {
            query.push(("scope", &scope));
        }
        // OpenID Connect Core, 11: without consent a refresh token need not be issued.
        if params.scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
            query.push(("prompt", "consent"));
        }
        Ok(Self {
            url: endpoint.with_query(&query),
            verifier: verifier.into(),
            state: state.into(),
            issuer: params.metadata.issuer.clone(),
            iss_promised: params.metadata.authorization_response_iss_parameter_supported,
        })
    }

    /// Checks the answer in the query of a redirect: first `state`, then `iss`, and only then anything else.
    pub(crate) fn check(&self, query: &str) -> Answer {
        let Some(params) = decode_form(query) else { return Answer::Unrelated };
        let param =
            |name: &str| params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        if param("state").map(Secret::from).as_ref() != Some(&self.state) {
            return Answer::Unrelated;
        }
        match param("iss") {
            // Byte for byte (RFC 9207, 2.4).
            Some(issuer) if issuer != self.issuer => {
                return failed(format!(
                    "the login was answered by another authorization server than {:?}; the answer was discarded",
                    shown(&self.issuer)
                ));
            }
            None if self.iss_promised => {
                return failed(format!(
                    "the answer does not name the authorization server {:?}, which promised to name itself",
                    shown(&self.issuer)
                ));
            }
            _ => {}
        }
        match (param("error"), param("code")) {
            (Some(code), _) => {
                let mut text = format!("the login failed: {}", shown(code));
                if let Some(description) = param("error_description") {
                    text.push_str(&format!(" ({})", shown(description)));
                }
                failed(text)
            }
            (None, Some(code)) if !code.is_empty() => Answer::Code(code.into()),
            (None, _) => failed("the answer to the login has no code".to_owned()),
        }
    }

    /// Checks an answer that a user has pasted: the URL of the redirect, or its query.
    pub(crate) fn check_pasted(&self, text: &str, redirect_uri: &str) -> Answer {
        let text = text.trim();
        let unrelated = || failed("the pasted text is no answer to this login".to_owned());
        let query = match text.split_once('?') {
            Some((place, query)) => {
                let same = Url::parse(place)
                    .and_then(|place| Ok((place, Url::parse(redirect_uri)?)))
                    .is_ok_and(|(one, two)| one.is_same_origin(&two) && one.path() == two.path());
                if !same {
                    return unrelated();
                }
                query.split('#').next().unwrap_or_default()
            }
            None => text,
        };
        match self.check(query) {
            Answer::Unrelated => unrelated(),
            answer => answer,
        }
    }
}

fn failed(message: String) -> Answer {
    Answer::Failed(AuthError::login(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::encode;

    fn request(iss_promised: bool) -> AuthorizationRequest {
        let metadata = ServerMetadata {
            issuer: "https://as.example.com".to_owned(),
            authorization_endpoint: Some("https://as.example.com/authorize?x=1".to_owned()),
            authorization_response_iss_parameter_supported: iss_promised,
            ..ServerMetadata::default()
        };
        let scopes = ["a".to_owned(), "b".to_owned()];
        let params = AuthorizationParams {
            metadata: &metadata,
            client_id: "id",
            redirect_uri: "http://127.0.0.1:1/callback",
            scopes: &scopes,
            resource: "https://h/mcp",
            trust: Trust::default(),
        };
        AuthorizationRequest::new(&params).unwrap()
    }

    fn params(url: &str) -> Vec<(String, String)> {
        decode_form(url.split_once('?').unwrap().1).unwrap()
    }

    fn value(url: &str, name: &str) -> String {
        params(url).into_iter().find(|(known, _)| known == name).unwrap().1
    }

    /// An answer with the right state.
    fn answer(request: &AuthorizationRequest, rest: &str) -> Answer {
        request.check(&format!("state={}&{rest}", request.state.expose()))
    }

    fn is_failure(answer: &Answer) -> bool {
        matches!(answer, Answer::Failed(_))
    }

    #[test]
    fn each_request_has_fresh_pkce_and_state() {
        // ACL-039, ACL-040, C-10
        let (one, two) = (request(false), request(false));
        assert_eq!(value(&one.url, "code_challenge_method"), "S256");
        assert_eq!(value(&one.url, "code_challenge"), sha256_text(one.verifier.expose()));
        assert!(one.verifier.expose().len() >= 43);
        assert_ne!(one.verifier, two.verifier);
        assert_ne!(value(&one.url, "state"), value(&two.url, "state"));
    }

    #[test]
    fn request_names_resource_scopes_and_redirect() {
        // ACL-031, C-07
        let url = request(false).url;
        assert!(url.starts_with("https://as.example.com/authorize?x=1&response_type=code"), "{url}");
        assert_eq!(value(&url, "resource"), "https://h/mcp");
        assert_eq!(
            (value(&url, "scope"), value(&url, "redirect_uri")),
            ("a b".into(), "http://127.0.0.1:1/callback".into())
        );
    }

    #[test]
    fn code_is_accepted_with_the_right_state_and_issuer() {
        for promised in [false, true] {
            let request = request(promised);
            let iss = encode("https://as.example.com");
            assert_eq!(answer(&request, &format!("code=c&iss={iss}")), Answer::Code("c".into()));
        }
        // ACL-047
        assert_eq!(answer(&request(false), "code=c"), Answer::Code("c".into()));
    }

    #[test]
    fn answer_with_another_state_is_ignored() {
        // ACL-044, C-11
        let request = request(false);
        for query in ["code=c", "code=c&state=", "code=c&state=x", "", "%", "state=x&error=access_denied"] {
            assert_eq!(request.check(query), Answer::Unrelated, "{query}");
        }
        let twice = format!("code=a&code=b&state={}", request.state.expose());
        assert_eq!(request.check(&twice), Answer::Unrelated);
    }

    #[test]
    fn answer_of_another_issuer_is_rejected() {
        // ACL-046, ACL-048, C-01, C-03
        for promised in [false, true] {
            let request = request(promised);
            for issuer in [
                "https://evil.example.com",
                "https://as.example.com/",
                "https://AS.example.com",
                "https://as.example.com:443",
                "https://as%2Eexample.com",
                "",
            ] {
                let answer = answer(&request, &format!("code=c&iss={}", encode(issuer)));
                assert!(is_failure(&answer), "{issuer}: {answer:?}");
            }
        }
    }

    #[test]
    fn missing_issuer_is_rejected_where_promised() {
        // ACL-047, C-02
        assert!(is_failure(&answer(&request(true), "code=c")));
    }

    #[test]
    fn error_of_another_issuer_is_not_shown() {
        // ACL-049, C-04
        let phishing = "error=access_denied&error_description=call+0900+now";
        let evil = format!("{phishing}&iss={}", encode("https://evil.example.com"));
        for (request, query) in [(request(false), evil.as_str()), (request(true), phishing)] {
            match answer(&request, query) {
                Answer::Failed(error) => assert!(!error.to_string().contains("0900"), "{error}"),
                other => panic!("{other:?}"),
            }
        }
        let Answer::Failed(error) = answer(&request(false), phishing) else { panic!() };
        assert_eq!(error.to_string(), "the login failed: access_denied (call 0900 now)");
    }

    #[test]
    fn pasted_answer_must_belong_to_the_redirect() {
        let request = request(false);
        let redirect = "http://127.0.0.1:1/callback";
        let good = format!("code=c&state={}", request.state.expose());
        for text in [format!(" {redirect}?{good} \n"), good.clone(), format!("{redirect}?{good}#x")] {
            assert_eq!(request.check_pasted(&text, redirect), Answer::Code("c".into()), "{text}");
        }
        for text in [
            format!("https://evil/callback?{good}"),
            format!("http://127.0.0.1:1/x?{good}"),
            "c".to_owned(),
            String::new(),
        ] {
            assert!(is_failure(&request.check_pasted(&text, redirect)), "{text}");
        }
    }

    #[test]
    fn authorization_endpoint_must_be_https() {
        // C-12
        for endpoint in [
            "http://as.example.com/a",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///x",
            "vbscript:x",
            "myapp://x",
            "https://as.example.com/a#f",
        ] {
            let metadata = ServerMetadata {
                authorization_endpoint: Some(endpoint.to_owned()),
                ..ServerMetadata::default()
            };
            let params = AuthorizationParams {
                metadata: &metadata,
                client_id: "id",
                redirect_uri: "",
                scopes: &[],
                resource: "",
                trust: Trust::default(),
            };
            assert!(AuthorizationRequest::new(&params).is_err(), "{endpoint}");
        }
    }
}
