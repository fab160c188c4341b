//! URLs in messages: without their secrets, and hints about another path, another host name, a missing scheme.

use crate::error::CliError;

/// Returns a URL without the parts that may be secret: its user, its password and its query.
pub(crate) fn redacted(url: &str) -> String {
    // The path of a server at a Unix socket follows a `#`.
    let end = if url.starts_with("unix:") { url.find('?') } else { url.find(['?', '#']) };
    let (place, rest) = url.split_at_checked(end.unwrap_or(url.len())).unwrap_or((url, ""));
    let place = match place.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) =
                rest.split_at_checked(rest.find('/').unwrap_or(rest.len())).unwrap_or((rest, ""));
            match authority.rsplit_once('@') {
                Some((_, host)) => format!("{scheme}://…@{host}{path}"),
                None => place.to_owned(),
            }
        }
        None => place.to_owned(),
    };
    if rest.is_empty() { place } else { format!("{place}?…") }
}

/// Suggests the path `/mcp`; `None` if `url` is no URL, or has the path of an MCP endpoint.
pub(crate) fn mcp_path(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://").filter(|(scheme, _)| scheme.starts_with("http"))?;
    let (place, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    // The query may be secret.
    let (place, query) = (place.trim_end_matches('/'), if query.is_empty() { "" } else { "?…" });
    let last = place.split_once('/').and_then(|(_, path)| path.rsplit('/').next());
    match last {
        Some("mcp" | "sse") => None,
        _ => Some(format!("most servers use the path /mcp: {scheme}://{place}/mcp{query}")),
    }
}

/// Suggests the URL of a server that was given as `HOST:PORT` or `HOST:PORT/PATH`.
pub(crate) fn without_scheme(host: &str, port_and_path: &str) -> Option<String> {
    let (port, path) = port_and_path.split_once('/').unwrap_or((port_and_path, ""));
    let path = if path.is_empty() { "mcp" } else { path };
    port.parse::<u16>().ok()?;
    let url = redacted(&format!("http://{host}:{port}/{path}"));
    Some(format!("if it is a URL, add http:// or https://: {url}"))
}

/// Whether a server rejected the host or origin of a request, rather than its credentials.
///
/// Servers that guard against DNS rebinding answer 403, some 421, and say in the body which header they rejected.
pub(crate) fn rejects_address(status: u16, body: &str) -> bool {
    matches!(status, 403 | 421) && rejected_header(body).is_some()
}

/// Adds what to do after [`rejects_address`]. `url` is the address that was used, or empty.
pub(crate) fn rejected_address(failure: CliError, body: &str, url: &str) -> CliError {
    match rejected_header(body) {
        Some(RejectedHeader::Origin) => failure
            .hint("leave out -H 'Origin: …'")
            .hint("or allow that origin where the server is set up: `Http::allow_origin` in Tsugite"),
        _ => {
            let host = host_name(url).unwrap_or("HOST");
            failure
                .hint("use an address that the server accepts, such as 127.0.0.1 on its own machine")
                .hint(format!(
                    "or allow the name where the server is started: `--allow-host {host}` for `tsugite serve` and \
                     `tsugite bridge`, `Http::allow_host(\"{host}\")` in code"
                ))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum RejectedHeader {
    Host,
    Origin,
}

fn rejected_header(body: &str) -> Option<RejectedHeader> {
    let body = body.to_ascii_lowercase();
    let mut words = body.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.find_map(|word| match word {
        "host" | "hostname" => Some(RejectedHeader::Host),
        "origin" => Some(RejectedHeader::Origin),
        _ => None,
    })
}

/// Returns the host name of a URL.
fn host_name(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    // The port follows the last colon outside the brackets of an IPv6 address.
    let end = host.rfind(':').filter(|colon| !host.get(*colon..).is_some_and(|rest| rest.contains(']')));
    host.get(..end.unwrap_or(host.len())).filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_url_are_redacted() {
        for (url, shown) in [
            ("https://h:1/a/mcp", "https://h:1/a/mcp"),
            ("https://u:p@h/mcp?key=1#x", "https://…@h/mcp?…"),
            ("https://u:p@ss@h", "https://…@h"),
            ("https://h/@a?b@c", "https://h/@a?…"),
            ("https://h#key", "https://h?…"),
            ("unix:/run/s.sock#/mcp?key=1", "unix:/run/s.sock#/mcp?…"),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }

    #[test]
    fn path_is_suggested_unless_it_is_an_endpoint() {
        let hint = |url| mcp_path(url).map(|hint| hint.replace("most servers use the path /mcp: ", ""));
        assert_eq!(hint("http://h:1").as_deref(), Some("http://h:1/mcp"));
        assert_eq!(hint("https://h/").as_deref(), Some("https://h/mcp"));
        assert_eq!(hint("https://mcp/").as_deref(), Some("https://mcp/mcp"));
        assert_eq!(hint("https://h/api?key=1").as_deref(), Some("https://h/api/mcp?…"));
        for url in ["https://h/mcp", "https://h/api/mcp/", "http://h/sse?x=/a", "`shop`", "ftp://h"] {
            assert_eq!(hint(url), None, "{url}");
        }
    }

    #[test]
    fn rejected_host_or_origin_is_told_from_missing_access() {
        assert!(rejects_address(
            403,
            "Forbidden: this server does not serve the host that the request names"
        ));
        assert!(rejects_address(421, "Invalid Host header"));
        assert_eq!(rejected_header("Forbidden: pages of this origin may not"), Some(RejectedHeader::Origin));
        for (status, body) in [(403, ""), (403, "insufficient scope"), (403, "ghosts"), (401, "Host")] {
            assert!(!rejects_address(status, body), "{status} {body}");
        }
    }

    #[test]
    fn host_name_is_without_port_and_credentials() {
        assert_eq!(host_name("http://vm:3998/mcp"), Some("vm"));
        assert_eq!(host_name("http://u:p@shop.example"), Some("shop.example"));
        assert_eq!(host_name("http://[::1]:80/"), Some("[::1]"));
        assert_eq!(host_name("http://[::1]/"), Some("[::1]"));
        assert_eq!(host_name("shop"), None);
    }
}
