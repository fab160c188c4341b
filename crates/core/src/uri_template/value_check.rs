//! Checks a value before a handler gets it.
//!
//! Values come from a peer, and a handler joins them to directories and queries. A value that could mean something else
//! there than in the URI is rejected here, after decoding, so that its spelling does not matter.

use super::compile::ValueContext;
use super::percent;
use super::{RejectReason, RejectedValueError};

/// Decodes a piece of a URI and rejects unsafe values.
pub(super) fn decode_checked(
    name: &str,
    canonical: &str,
    guard: ValueContext,
) -> Result<String, RejectedValueError> {
    let text =
        percent::decode(canonical).ok_or_else(|| RejectedValueError::new(name, RejectReason::Malformed))?;
    match reject_reason(canonical, &text, guard) {
        Some(reason) => Err(RejectedValueError::new(name, reason)),
        None => Ok(text),
    }
}

fn reject_reason(canonical: &str, text: &str, guard: ValueContext) -> Option<RejectReason> {
    if text.contains(char::is_control) {
        return Some(RejectReason::Control);
    }
    // Also outside of paths: `{?path}` is often a path, and other texts rarely have such segments.
    if text.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")) {
        return Some(RejectReason::Traversal);
    }
    match guard {
        ValueContext::Segment if text.contains(['/', '\\']) => Some(RejectReason::Separator),
        ValueContext::Path { .. } if text.contains('\\') => Some(RejectReason::Separator),
        // `Path::join` would drop the directory it is joined to.
        ValueContext::Path { relative: true } if text.starts_with('/') => Some(RejectReason::Traversal),
        ValueContext::Text if canonical.contains('\\') => Some(RejectReason::Malformed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RejectReason, UriTemplate};

    fn reject_reason_of(template: &str, uri: &str) -> RejectReason {
        let template = UriTemplate::parse(template).expect(template);
        template.matches(uri).expect_err(uri).reason()
    }

    fn matched_text(template: &str, uri: &str) -> String {
        let template = UriTemplate::parse(template).expect(template);
        let found = template.matches(uri).expect(uri).expect(uri);
        found.text("a").expect(uri).to_owned()
    }

    #[test]
    fn dot_segments_are_rejected_in_every_spelling() {
        for value in [".", "..", "%2e", "%2E%2e", ".%2e", "%2e.", "%2E."] {
            for template in ["x/{a}", "x/{+a}", "x{/a}", "x/{b}{/a*}", "x{?a}", "x?q={a}", "x{#a}", "x{;a}"] {
                let uri = match template {
                    "x{?a}" => format!("x?a={value}"),
                    "x?q={a}" => format!("x?q={value}"),
                    "x{#a}" => format!("x#{value}"),
                    "x{;a}" => format!("x;a={value}"),
                    "x/{b}{/a*}" => format!("x/b/c/{value}/d"),
                    _ => format!("x/{value}"),
                };
                assert_eq!(reject_reason_of(template, &uri), RejectReason::Traversal, "{template} {uri}");
            }
        }
        assert_eq!(reject_reason_of("x{.a}", "x..."), RejectReason::Traversal);
    }

    #[test]
    fn path_traversal_is_rejected_in_every_spelling() {
        for value in [
            "../b",
            "b/..",
            "b/../c",
            "b/./c",
            "b/%2e%2e/c",
            "b%2f..%2fc",
            "b/%2E./c",
            "..%5cb",
            "..\\b",
            "b\\..",
            "%2e%2e%2f",
        ] {
            assert_eq!(reject_reason_of("x/{+a}", &format!("x/{value}")), RejectReason::Traversal, "{value}");
            assert_eq!(
                reject_reason_of("x{?a}", &format!("x?a={value}")),
                RejectReason::Traversal,
                "{value}"
            );
        }
    }

    #[test]
    fn segment_must_not_hide_a_separator() {
        for value in ["b%2Fc", "b%2fc", "b%5Cc", "b%5cc", "b\\c", "%2Fb", "b%2F"] {
            assert_eq!(reject_reason_of("x/{a}", &format!("x/{value}")), RejectReason::Separator, "{value}");
            assert_eq!(reject_reason_of("x{/a}", &format!("x/{value}")), RejectReason::Separator, "{value}");
            assert_eq!(
                reject_reason_of("x{/a*}", &format!("x/{value}/d")),
                RejectReason::Separator,
                "{value}"
            );
            assert_eq!(
                reject_reason_of("x{;a}", &format!("x;a={value}")),
                RejectReason::Separator,
                "{value}"
            );
            assert_eq!(reject_reason_of("x{.a}", &format!("x.{value}")), RejectReason::Separator, "{value}");
        }
        assert_eq!(reject_reason_of("x/{+a}", "x/b%5Cc"), RejectReason::Separator);
        assert_eq!(reject_reason_of("x/{+a}", "x/b\\c"), RejectReason::Separator);
    }

    #[test]
    fn relative_path_must_not_be_absolute() {
        assert_eq!(reject_reason_of("file:///{+a}", "file:////etc/passwd"), RejectReason::Traversal);
        assert_eq!(reject_reason_of("file:///{+a}", "file:///%2Fetc/passwd"), RejectReason::Traversal);
        assert_eq!(matched_text("file://{+a}", "file:///etc/passwd"), "/etc/passwd");
        assert_eq!(matched_text("file:///{+a}", "file:///etc//passwd"), "etc//passwd");
    }

    #[test]
    fn control_characters_are_rejected_everywhere() {
        for value in ["%00", "b%00.png", "%0a", "%0D%0A", "%7F", "%C2%85", "\0", "\n", "\u{85}"] {
            for template in ["x/{a}", "x/{+a}", "x{/a*}"] {
                assert_eq!(
                    reject_reason_of(template, &format!("x/{value}")),
                    RejectReason::Control,
                    "{template} {value:?}"
                );
            }
            assert_eq!(
                reject_reason_of("x{?a}", &format!("x?a={value}")),
                RejectReason::Control,
                "{value:?}"
            );
        }
    }

    #[test]
    fn invalid_uri_or_utf8_is_rejected() {
        for value in ["%", "b%4", "%zz", "%FF", "%C3", "b c", "<b>", "{a}", "%C0%AE%C0%AE", "%ED%A0%80"] {
            assert_eq!(reject_reason_of("x/{a}", &format!("x/{value}")), RejectReason::Malformed, "{value}");
            assert_eq!(reject_reason_of("x/{+a}", &format!("x/{value}")), RejectReason::Malformed, "{value}");
        }
        assert_eq!(reject_reason_of("x{?a}", "x?a=b\\c"), RejectReason::Malformed);
    }

    #[test]
    fn value_is_decoded_once() {
        assert_eq!(matched_text("x/{a}", "x/%252e%252e"), "%2e%2e");
        assert_eq!(matched_text("x/{a}", "x/b%252Fc"), "b%2Fc");
        assert_eq!(matched_text("x/{+a}", "x/%252e%252e/b"), "%2e%2e/b");
    }

    #[test]
    fn harmless_dots_and_text_outside_of_paths_pass() {
        for value in ["...", "b..c", "..b", "b.", ".b", "caf%C3%A9", "café", "%20"] {
            assert!(!matched_text("x/{a}", &format!("x/{value}")).is_empty(), "{value}");
        }
        assert_eq!(matched_text("x{?a}", "x?a=b%2Fc%5Cd"), "b/c\\d");
        assert_eq!(matched_text("x?q={a}", "x?q=b%2Fc"), "b/c");
        assert_eq!(matched_text("x#{a}", "x#b%2Fc"), "b/c");
        assert_eq!(matched_text("x{#a}", "x#b/c%5Cd"), "b/c\\d");
    }

    #[test]
    fn rejection_names_the_variable_and_not_the_value() {
        let template = UriTemplate::parse("x/{a}/{b}").unwrap();
        let refused = template.matches("x/fine/%2e%2e").unwrap_err();
        assert_eq!(refused.variable(), "b");
        assert_eq!(refused.to_string(), "`b` must not hold `.` or `..` segments, nor be absolute");
    }

    #[test]
    fn uri_of_another_shape_does_not_match() {
        let template = UriTemplate::parse("x/{a}/y").unwrap();
        for uri in ["x/../z", "x/%00", "z/%zz/y", "x/../../y"] {
            assert_eq!(template.matches(uri), Ok(None), "{uri}");
        }
    }
}
