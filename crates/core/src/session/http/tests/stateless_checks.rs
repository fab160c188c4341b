//! Tests of the checks of a stateless request, step by step.

use super::*;

/// Runs the checks of a stateless request.
pub(super) fn check_headers(
    body: &Value,
    method: Option<&str>,
    name: Option<&str>,
    offers: impl FnOnce(&str) -> bool,
) -> Result<(), HttpError> {
    use crate::jsonrpc::{Incoming, Message};
    let text = body.to_string();
    let Ok(Incoming::Single(Message::Request(request))) = parse(text.as_bytes(), &MessageLimits::default())
    else {
        panic!()
    };
    let header = |value: Option<&'static str>| value.map_or(OptionalHeader::Absent, OptionalHeader::Present);
    let leak = |value: &str| -> &'static str { Box::leak(value.to_owned().into_boxed_str()) };
    let headers = MirrorHeaders { method: header(method.map(leak)), name: header(name.map(leak)) };
    let meta = crate::session::RequestMeta::from_params(request.params()).unwrap();
    check_stateless_headers(V2026_07_28, &request, &meta, &headers, offers)
}

fn header_rejection(result: Result<(), HttpError>) -> (u16, i64) {
    let denial = result.unwrap_err();
    (denial.status, denial.error.code(denial.revision))
}

fn call(name: &str) -> Value {
    let mut body = stateless_request(MODERN, "tools/call");
    body["params"]["name"] = json!(name);
    body
}

#[test]
fn step_1_client_meta_is_required() {
    // LOG-011; VER-006: its name is optional.
    let mut body = call("add");
    assert!(check_headers(&body, Some("tools/call"), Some("add"), |_| true).is_ok());
    body["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("loud");
    // Checked before the headers.
    assert_eq!(header_rejection(check_headers(&body, None, None, |_| true)), (400, -32602));
    let mut body = call("add");
    body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = json!("me");
    assert_eq!(
        header_rejection(check_headers(&body, Some("tools/call"), Some("add"), |_| true)),
        (400, -32602)
    );
}

#[test]
fn step_3_the_method_header_must_equal_the_method() {
    // HTTP-054, HTTP-055, HTTP-057 with regard to case, HTTP-058
    for header in [None, Some("tools/list"), Some("Tools/Call"), Some("")] {
        assert_eq!(
            header_rejection(check_headers(&call("add"), header, Some("add"), |_| true)),
            (400, -32020)
        );
    }
    assert!(check_headers(&call("add"), Some(" tools/call "), Some("add"), |_| true).is_ok());
}

#[test]
fn step_4_the_name_header_must_equal_the_name() {
    // HTTP-054, HTTP-055, HTTP-056
    for header in [None, Some("sub"), Some("Add"), Some("=?base64?YWRk"), Some("=?base64?YWR?=")] {
        assert_eq!(
            header_rejection(check_headers(&call("add"), Some("tools/call"), header, |_| true)),
            (400, -32020),
            "{header:?}"
        );
    }
    assert!(check_headers(&call("add"), Some("tools/call"), Some("=?base64?YWRk?="), |_| true).is_ok());
    assert!(check_headers(&call("継手"), Some("tools/call"), Some("=?base64?57aZ5omL?="), |_| true).is_ok());
    let mut read = stateless_request(MODERN, "resources/read");
    read["params"]["uri"] = json!("file:///a");
    assert_eq!(
        header_rejection(check_headers(&read, Some("resources/read"), Some("file:///b"), |_| true)),
        (400, -32020)
    );
    assert!(check_headers(&read, Some("resources/read"), Some("file:///a"), |_| true).is_ok());
    // A list has no name.
    assert!(
        check_headers(&stateless_request(MODERN, "tools/list"), Some("tools/list"), None, |_| true).is_ok()
    );
}

#[test]
fn step_5_unsupported_method_is_not_found() {
    // HTTP-048, JRPC-023
    let body = stateless_request(MODERN, "prompts/list");
    assert_eq!(header_rejection(check_headers(&body, Some("prompts/list"), None, |_| false)), (404, -32601));
    // A server's own method is not checked; a method of another revision is.
    assert!(check_headers(&stateless_request(MODERN, "acme/do"), Some("acme/do"), None, |_| true).is_ok());
    assert_eq!(
        header_rejection(check_headers(&stateless_request(MODERN, "acme/do"), Some("acme/do"), None, |_| {
            false
        })),
        (404, -32601)
    );
}
