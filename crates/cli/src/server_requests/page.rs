//! Describes the host of a web page, before the user opens it.

use tsugite::protocol::UrlParams;

/// The host of the page, and warnings about it.
pub(super) fn describe_target(page: &UrlParams) -> Vec<String> {
    // The library declines a URL without a target.
    let Some(target) = page.target() else { return Vec::new() };
    let mut lines = vec![format!("host: {}", target.host)];
    if !target.is_encrypted {
        lines.push("warning: plain http, so others on the network can read and change the page".to_owned());
    }
    if target.is_international {
        lines.push("warning: the host has international letters, which may imitate another name".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risky_hosts_are_marked() {
        // ELIC-042
        let lines = |url: &str| describe_target(&UrlParams::new("", url));
        assert_eq!(lines("https://example.com/x"), ["host: example.com"]);
        let risky = lines("http://xn--pple-43d.example/");
        assert_eq!(risky.len(), 3, "{risky:?}");
        assert!(risky[1].contains("plain http") && risky[2].contains("international"), "{risky:?}");
    }
}
