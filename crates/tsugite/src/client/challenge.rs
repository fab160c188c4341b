//! [`Challenge`]: the response of a server that requires other credentials, and its `WWW-Authenticate` headers.

use std::net::IpAddr;

/// The response of a server that requires other credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The kind of the challenge.
    pub kind: ChallengeKind,
    /// The HTTP status, 401 or 403.
    pub status: u16,
    /// The URL of the request.
    pub url: String,
    /// The values of all `WWW-Authenticate` headers.
    pub www_authenticate: Vec<String>,
    /// The address of the server, if the connection did not go through a proxy.
    pub remote_address: Option<IpAddr>,
}

/// The kind of a [`Challenge`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChallengeKind {
    /// Credentials are missing, expired or invalid (401).
    #[default]
    Unauthorized,
    /// The credentials do not permit the operation (403 with `insufficient_scope`).
    InsufficientScope,
    /// The proof of possession needs the nonce of this response (`use_dpop_nonce`).
    DpopNonce,
    /// The server denies access for another reason (403 with `WWW-Authenticate`).
    Forbidden,
}

/// One challenge of a `WWW-Authenticate` header: a scheme with its parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthScheme {
    /// The scheme, for example `Bearer`, as the server wrote it.
    pub scheme: String,
    /// The parameters, with names in lower case.
    pub params: Vec<(String, String)>,
}

impl Challenge {
    /// Describes a response. The kind follows from the status and the parameter `error`.
    pub fn new(status: u16, url: impl Into<String>, www_authenticate: Vec<String>) -> Self {
        let mut challenge = Self { status, url: url.into(), www_authenticate, ..Self::default() };
        challenge.kind = challenge.find_kind();
        challenge
    }

    /// The challenges of all `WWW-Authenticate` headers. A malformed rest of a header is ignored.
    pub fn schemes(&self) -> Vec<AuthScheme> {
        self.www_authenticate.iter().flat_map(|value| AuthScheme::parse_all(value)).collect()
    }

    /// The first value of a parameter in the challenges for `Bearer` and `DPoP`.
    pub fn param(&self, name: &str) -> Option<String> {
        let schemes = self.schemes();
        let oauth = schemes.iter().filter(|scheme| scheme.is("Bearer") || scheme.is("DPoP"));
        oauth.into_iter().find_map(|scheme| scheme.param(name)).map(str::to_owned)
    }

    fn find_kind(&self) -> ChallengeKind {
        let schemes = self.schemes();
        let has_error = |code: &str| schemes.iter().any(|scheme| scheme.param("error") == Some(code));
        match self.status {
            _ if has_error("use_dpop_nonce") => ChallengeKind::DpopNonce,
            403 if has_error("insufficient_scope") => ChallengeKind::InsufficientScope,
            403 => ChallengeKind::Forbidden,
            _ => ChallengeKind::Unauthorized,
        }
    }
}

impl AuthScheme {
    /// Whether this is the scheme, without regard to case.
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// The value of a parameter, whose name is in lower case.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Parses the challenges of one header (RFC 9110, 11.6.1), up to the first malformed one.
    pub fn parse_all(header: &str) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let mut rest = header.trim_start_matches([' ', '\t', ',']);
        while let Some((word, after)) = token(rest) {
            let after_word = after.trim_start_matches([' ', '\t']);
            match (after_word.strip_prefix('='), all.last_mut()) {
                // `name = value`; a value of the form token68 has no name and follows its scheme.
                (Some(after), Some(scheme)) if !is_token68(after) => {
                    let Some((value, after)) = value(after.trim_start_matches([' ', '\t'])) else { break };
                    scheme.params.push((word.to_ascii_lowercase(), value));
                    rest = after;
                }
                (Some(after), _) => rest = after.trim_start_matches('='),
                (None, _) => {
                    all.push(Self { scheme: word.to_owned(), params: Vec::new() });
                    rest = after;
                }
            }
            rest = rest.trim_start_matches([' ', '\t', ',']);
        }
        all
    }
}

/// Whether the text after a `=` is the end of a token68, which is padded with `=`.
fn is_token68(after: &str) -> bool {
    let end = after.trim_start_matches('=').trim_start_matches([' ', '\t']);
    end.is_empty() || end.starts_with(',')
}

fn token(text: &str) -> Option<(&str, &str)> {
    let is_token = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(letter);
    let end = text.find(|letter| !is_token(letter)).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(word, _)| !word.is_empty())
}

/// A token or a quoted string, and the text after it. Some servers write URLs and scopes without the quotes they need.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t', '"']).unwrap_or(text.len());
        let (word, rest) = text.split_at_checked(end).filter(|(word, _)| !word.is_empty())?;
        return Some((word.to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(letters.next()?.1),
            _ => value.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(header: &str) -> Vec<(String, Vec<(String, String)>)> {
        AuthScheme::parse_all(header).into_iter().map(|scheme| (scheme.scheme, scheme.params)).collect()
    }

    fn scheme(name: &str, params: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
        let owned = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        (name.to_owned(), owned.collect())
    }

    #[test]
    fn schemes_and_parameters_are_parsed() {
        assert_eq!(parsed("Bearer"), [scheme("Bearer", &[])]);
        assert_eq!(
            parsed(r#"Basic realm="a, b=c", Bearer Error="x\"y" ,scope = mcp:a,DPoP algs="ES256""#),
            [
                scheme("Basic", &[("realm", "a, b=c")]),
                scheme("Bearer", &[("error", "x\"y"), ("scope", "mcp:a")]),
                scheme("DPoP", &[("algs", "ES256")]),
            ]
        );
        assert_eq!(
            parsed(r#"Negotiate YWJj==, Bearer resource_metadata="https://h/p?q=1", scope="a b""#),
            [
                scheme("Negotiate", &[]),
                scheme("Bearer", &[("resource_metadata", "https://h/p?q=1"), ("scope", "a b")]),
            ]
        );
    }

    #[test]
    fn malformed_headers_end_early() {
        for header in ["", ",,", "=", "\"", "Bearer scope=\"open", "Bearer scope=", "Bearer scope=\"a\\"] {
            assert!(parsed(header).iter().all(|(_, params)| params.is_empty()), "{header}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_header_is_parsed_without_a_panic(header in "\\PC*", noise in "[ -~]{0,60}") {
            AuthScheme::parse_all(&header);
            let known = format!("Bearer scope=\"a b\", {noise}");
            let all = AuthScheme::parse_all(&known);
            proptest::prop_assert_eq!(all.first().and_then(|scheme| scheme.param("scope")), Some("a b"));
        }
    }

    #[test]
    fn kind_follows_from_status_and_error() {
        let kind = |status, header: &str| Challenge::new(status, "", vec![header.to_owned()]).kind;
        assert_eq!(kind(401, "Bearer"), ChallengeKind::Unauthorized);
        assert_eq!(kind(401, "Bearer error=\"insufficient_scope\""), ChallengeKind::Unauthorized);
        assert_eq!(kind(403, "Bearer error=\"insufficient_scope\""), ChallengeKind::InsufficientScope);
        assert_eq!(kind(403, "Bearer"), ChallengeKind::Forbidden);
        assert_eq!(kind(401, "DPoP error=\"use_dpop_nonce\""), ChallengeKind::DpopNonce);
    }
}
