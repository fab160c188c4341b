//! URLs as they were written. OAuth compares issuers and resources byte for byte, so a URL is never written anew.

use std::collections::HashSet;

use crate::error::{AuthError, AuthErrorKind, Result, shown};

/// An `http` or `https` URL without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    text: String,
    pub(crate) secure: bool,
    /// The host in lower case, without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The length of `scheme://authority`.
    origin_length: usize,
}

impl Url {
    /// Parses a URL. Anything but `http` and `https` is refused, and so are characters that no URL contains.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let refused = |reason: &str| {
            let url = shown(text.split(['?', '#']).next().unwrap_or_default());
            AuthError::new(AuthErrorKind::Refused, format!("refused the URL {url:?}: {reason}"))
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
            return Err(refused("it contains characters that no URL contains"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refused("it has no scheme"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(refused("only http and https are supported")),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(refused("it contains credentials"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(|| refused("its host is malformed"))?,
            None => match authority.find(':') {
                Some(colon) => authority.split_at(colon),
                None => (authority, ""),
            },
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => Some(if secure { 443 } else { 80 }),
            None => None,
            Some(digits) => digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit())),
        };
        let port = port.ok_or_else(|| refused("its port is malformed"))?;
        let in_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        if host.is_empty() || !host.bytes().all(in_host) {
            return Err(refused("its host is malformed"));
        }
        let origin_length = scheme.len() + "://".len() + authority.len();
        Ok(Self { text: text.to_owned(), secure, host: host.to_ascii_lowercase(), port, origin_length })
    }

    /// The URL as it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The scheme and authority as they were written.
    pub(crate) fn origin(&self) -> &str {
        self.text.get(..self.origin_length).unwrap_or_default()
    }

    /// The path, without query and fragment; may be empty.
    pub(crate) fn path(&self) -> &str {
        let rest = self.text.get(self.origin_length..).unwrap_or_default();
        rest.split(['?', '#']).next().unwrap_or_default()
    }

    pub(crate) fn has_fragment(&self) -> bool {
        self.text.contains('#')
    }

    /// The URL without query and fragment.
    pub(crate) fn without_query(&self) -> &str {
        self.text.split(['?', '#']).next().unwrap_or_default()
    }

    pub(crate) fn is_same_origin(&self, other: &Self) -> bool {
        self.secure == other.secure && self.host == other.host && self.port == other.port
    }

    /// Whether both name the same resource: scheme and host may differ in case (RFC 3986, 6.2.2.1), the default port may be
    /// left out, and everything else is compared byte for byte.
    pub(crate) fn is_same_resource(&self, other: &Self) -> bool {
        let rest = |url: &Self| {
            let rest = url.text.get(url.origin_length..).unwrap_or_default();
            if rest.is_empty() { "/".to_owned() } else { rest.to_owned() }
        };
        self.is_same_origin(other) && rest(self) == rest(other)
    }

    /// Whether `self` is `other` or one of its parent paths, on the same origin.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        if !self.is_same_origin(other) || self.text.contains(['?', '#']) && self.text != other.text {
            return false;
        }
        let (parent, path) = (self.path().trim_end_matches('/'), other.path().trim_end_matches('/'));
        path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            && !path.split('/').any(|segment| matches!(segment, "." | ".."))
    }

    /// The URL with more query parameters.
    pub(crate) fn with_query(&self, params: &[(&str, &str)]) -> String {
        let separator = match self.text.split_once('?') {
            None => "?",
            Some((_, "")) => "",
            Some(_) => "&",
        };
        format!("{}{separator}{}", self.text, encode_form(params))
    }

    /// Resolves the target of a redirect.
    pub(crate) fn join(&self, reference: &str) -> Result<Self> {
        if reference.contains("://") {
            return Self::parse(reference);
        }
        match reference.starts_with('/') && !reference.starts_with("//") {
            true => Self::parse(&format!("{}{reference}", self.origin())),
            false => Err(AuthError::new(
                AuthErrorKind::Refused,
                format!("{} redirects to an unsupported place", self.without_query()),
            )),
        }
    }
}

/// Encodes parameters as `application/x-www-form-urlencoded`.
pub(crate) fn encode_form(params: &[(&str, &str)]) -> String {
    let pairs = params.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Percent-encodes everything but unreserved characters.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Decodes `application/x-www-form-urlencoded`. `None` if it is malformed, names a parameter twice or has too many.
pub(crate) fn decode_form(text: &str) -> Option<Vec<(String, String)>> {
    let all = decode_pairs(text)?;
    let mut names = HashSet::new();
    let is_single = all.iter().all(|(name, _)| names.insert(name.as_str()));
    is_single.then_some(all)
}

/// The same, where a parameter may be named several times.
pub(crate) fn decode_pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut all: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        if all.len() == MAX_PARAMS {
            return None;
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        all.push((decode(name)?, decode(value)?));
    }
    Some(all)
}

const MAX_PARAMS: usize = 100;

fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
                rest = after;
            }
            (b'%', _) => return None,
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_kept_as_written() {
        let url = Url::parse("https://Example.com:443/a%2fb/?x=1").unwrap();
        assert_eq!(
            (url.as_str(), url.origin()),
            ("https://Example.com:443/a%2fb/?x=1", "https://Example.com:443")
        );
        assert_eq!((url.path(), url.host.as_str(), url.port), ("/a%2fb/", "example.com", 443));
        let bare = Url::parse("http://[::1]:80").unwrap();
        assert_eq!((bare.path(), bare.host.as_str(), bare.port, bare.secure), ("", "::1", 80, false));
    }

    #[test]
    fn other_schemes_and_odd_characters_are_refused() {
        // C-12, C-13
        for text in [
            "javascript:alert(1)",
            "javascript://h/%0aalert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "vbscript:x",
            "ftp://h/",
            "https://",
            "https:///x",
            "https://u:p@h/",
            "https://h/ x",
            "https://h/\nx",
            "https://h/`id`",
            "https://h/\"x",
            "https://h:99999/",
            "https://h:+1/",
            "https://h\\@evil/",
            "https://[::1",
            "https://h/é",
            "calc",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        let error = Url::parse("https://u:p@h/?code=hunter2").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn resource_covers_its_paths_on_the_same_origin() {
        let covers = |one: &str, two: &str| Url::parse(one).unwrap().covers(&Url::parse(two).unwrap());
        for parent in ["https://h", "https://h/", "https://h/a", "https://h/a/", "https://H:443/a/b"] {
            assert!(covers(parent, "https://h/a/b"), "{parent}");
        }
        for other in [
            "https://h/a/b/c",
            "https://h/ab",
            "http://h/a",
            "https://h:1/a",
            "https://evil/a",
            "https://h/a?x=1",
        ] {
            assert!(!covers(other, "https://h/a/b"), "{other}");
        }
        assert!(!covers("https://h/a", "https://h/a/../b"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_without_a_panic(text in "\\PC*", tail in "[ -~]{0,40}") {
            let _ = (Url::parse(&text), decode_form(&text));
            if let Ok(url) = Url::parse(&format!("https://h{tail}")) {
                proptest::prop_assert_eq!(url.as_str(), format!("https://h{tail}"));
                proptest::prop_assert!(url.as_str().starts_with(url.origin()) && url.covers(&url) || url.path().contains('.'));
            }
        }

        #[test]
        fn any_form_survives_encoding(name in "\\PC+", value in "\\PC*") {
            let decoded = decode_form(&encode_form(&[(&name, &value)]));
            proptest::prop_assert_eq!(decoded, Some(vec![(name, value)]));
        }
    }

    #[test]
    fn forms_are_encoded_and_decoded() {
        let url = Url::parse("https://h/authorize?a=1").unwrap();
        assert_eq!(url.with_query(&[("scope", "a b&c")]), "https://h/authorize?a=1&scope=a%20b%26c");
        let decoded = decode_form("code=a%2Bb+c&state=%E2%9C%93").unwrap();
        assert_eq!(decoded, [("code".into(), "a+b c".into()), ("state".into(), "✓".into())]);
        for malformed in ["a=%", "a=%zz", "a=%ff", "a=1&a=2"] {
            assert_eq!(decode_form(malformed), None, "{malformed}");
        }
    }
}
