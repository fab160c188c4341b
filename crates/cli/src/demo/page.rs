//! The start page: what runs here, and how to connect to it.

/// The page, for the host that was asked.
pub(crate) fn page(host: &str) -> String {
    let program = std::env::current_exe().map(|path| path.display().to_string());
    let program =
        serde_json::to_string(&program.unwrap_or_else(|_| "tsugite".to_owned())).unwrap_or_default();
    PAGE.replace("{version}", env!("CARGO_PKG_VERSION"))
        .replace("{program}", &escaped(&program))
        .replace("{host}", &escaped(host))
}

/// As text, not as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const PAGE: &str = include_str!("page.html");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_text_and_nothing_else() {
        let page = page("<script>alert(1)</script>");
        assert!(page.contains("http://&lt;script&gt;"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        assert!(
            !page.contains("{host}") && !page.contains("{program}") && !page.contains("{version}"),
            "{page}"
        );
    }
}
