//! The decision tables, row by row. Each test is named after its row.

use serde_json::{Value, json};

use super::*;
use crate::jsonrpc::{Limits, parse};
use crate::revision::Revision::*;

const MODERN: &str = "2026-07-28";

fn head(version: Option<&str>, session: SessionHeader) -> Head<'_> {
    Head { version: version.map_or(Header::Absent, Header::Once), session }
}

fn all() -> Policy {
    Policy::new(Revisions::ALL)
}

fn post(policy: &Policy, head: Head<'_>, body: &Value) -> Post {
    let text = body.to_string();
    decide_post(policy, &head, &parse(text.as_bytes(), &Limits::default()).unwrap())
}

/// A request that claims `version`.
fn claiming(version: &str, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }}})
}

fn plain(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method})
}

fn initialize(offered: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": offered}})
}

fn notice() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn response() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": {}})
}

/// Status and error number of a denial.
fn denied(post: Post) -> (u16, i64) {
    match post {
        Post::Deny(denial) => (denial.status, denial.refusal.code(denial.revision)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_1_an_array_on_2025_03_26_is_a_batch() {
    // JRPC-026, STDIO-010, JRPC-028 but not with `initialize` in it.
    let batch = json!([plain("tools/list"), notice()]);
    let session = SessionHeader::Known(V2025_03_26);
    assert_eq!(
        post(&all(), head(None, session), &batch),
        Post::Batch { revision: V2025_03_26, in_session: true }
    );
    let alone = all().without_sessions();
    for version in [None, Some("2025-03-26")] {
        let decision = post(&alone, head(version, SessionHeader::Absent), &batch);
        assert_eq!(decision, Post::Batch { revision: V2025_03_26, in_session: false });
    }
    for opening in ["initialize", "mcp/initialize"] {
        let mut body = initialize("2025-03-26");
        body["method"] = json!(opening);
        assert_eq!(denied(post(&alone, head(None, SessionHeader::Absent), &json!([body]))), (400, -32600));
    }
    assert_eq!(denied(post(&all(), head(None, SessionHeader::Unknown), &batch)).0, 404);
    assert_eq!(denied(post(&all(), head(None, SessionHeader::Absent), &batch)).0, 400);
}

#[test]
fn row_2_any_other_array_is_refused() {
    // JRPC-030
    let batch = json!([plain("tools/list")]);
    let alone = all().without_sessions();
    for (policy, version, session) in [
        (all(), None, SessionHeader::Known(V2025_06_18)),
        (all(), None, SessionHeader::Known(V2024_11_05)),
        (alone, Some("2025-06-18"), SessionHeader::Absent),
        (alone, Some(MODERN), SessionHeader::Absent),
        (all(), Some(MODERN), SessionHeader::Known(V2025_03_26)),
    ] {
        assert_eq!(denied(post(&policy, head(version, session), &batch)), (400, -32600));
    }
    let claims = json!([claiming(MODERN, "tools/list")]);
    assert_eq!(denied(post(&alone, head(None, SessionHeader::Absent), &claims)), (400, -32600));
}

#[test]
fn row_3_a_served_claim_with_an_equal_header_is_stateless() {
    // VER-027; SESS-014: a session id means nothing there.
    for session in [SessionHeader::Absent, SessionHeader::Unknown, SessionHeader::Known(V2025_11_25)] {
        let decision = post(&all(), head(Some(MODERN), session), &claiming(MODERN, "tools/list"));
        assert_eq!(decision, Post::Stateless(V2026_07_28));
    }
    // HTTP-058: blanks around the value are not part of it.
    let decision =
        post(&all(), head(Some(" 2026-07-28\t"), SessionHeader::Absent), &claiming(MODERN, "tools/list"));
    assert_eq!(decision, Post::Stateless(V2026_07_28));
}

#[test]
fn row_4_a_claim_without_the_header_is_a_mismatch() {
    // HTTP-055
    for version in [MODERN, "2030-01-01"] {
        let decision = post(&all(), head(None, SessionHeader::Absent), &claiming(version, "tools/list"));
        assert_eq!(denied(decision), (400, -32020));
    }
}

#[test]
fn row_5_a_claim_that_differs_from_the_header_is_a_mismatch_served_or_not() {
    // HTTP-047, HTTP-054
    for (claim, header) in [("v999.0.0", MODERN), (MODERN, "2025-11-25"), (MODERN, "v999.0.0")] {
        let decision =
            post(&all(), head(Some(header), SessionHeader::Absent), &claiming(claim, "tools/list"));
        assert_eq!(denied(decision), (400, -32020));
    }
    let twice = Head { version: Header::Unclear, session: SessionHeader::Absent };
    assert_eq!(denied(post(&all(), twice, &claiming(MODERN, "tools/list"))), (400, -32020));
}

#[test]
fn row_6_a_claim_nobody_serves_is_told_what_is_served() {
    // VER-009, VER-010
    let decision =
        post(&all(), head(Some("2030-01-01"), SessionHeader::Absent), &claiming("2030-01-01", "tools/list"));
    let Post::Deny(denial) = decision else { panic!() };
    let error = denial.refusal.error(denial.revision);
    assert_eq!((denial.status, error.code), (400, -32022));
    let data: Value = error.data.unwrap().read().unwrap();
    assert_eq!(data["requested"], "2030-01-01");
    assert_eq!(data["supported"][0], MODERN);
    let legacy = Policy::new(Revisions::ALL.handshake());
    let decision = post(&legacy, head(Some(MODERN), SessionHeader::Absent), &claiming(MODERN, "tools/list"));
    assert_eq!(denied(decision), (400, -32022));
}

#[test]
fn row_7_a_claim_of_an_older_version_is_ignored() {
    let session = SessionHeader::Known(V2025_06_18);
    let decision = post(&all(), head(Some("2025-06-18"), session), &claiming("2025-06-18", "tools/list"));
    assert_eq!(decision, Post::InSession(V2025_06_18));
    let mut body = claiming("2025-06-18", "initialize");
    body["params"]["protocolVersion"] = json!("2025-06-18");
    assert_eq!(post(&all(), head(None, SessionHeader::Absent), &body), Post::Initialize(V2025_06_18));
}

#[test]
fn row_8_a_stateless_header_without_a_claim_lacks_its_keys() {
    // VER-004, VER-005: never served with the leniency of an older revision.
    let without_version = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    for body in [plain("tools/list"), without_version, initialize("2025-11-25")] {
        for session in [SessionHeader::Absent, SessionHeader::Known(V2025_11_25)] {
            let decision = post(&all(), head(Some(MODERN), session), &body);
            let Post::Deny(denial) = &decision else { panic!("{decision:?}") };
            assert!(denial.refusal.to_string().contains("io.modelcontextprotocol/protocolVersion"));
            assert_eq!(denied(decision), (400, -32602));
        }
    }
    let mut malformed = claiming(MODERN, "tools/list");
    malformed["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(7);
    assert_eq!(denied(post(&all(), head(None, SessionHeader::Absent), &malformed)), (400, -32602));
}

#[test]
fn row_9_initialize_agrees_on_a_revision_with_a_handshake() {
    // VER-028, LIFE-033: whatever session it names, a new one begins.
    for (offered, agreed) in
        [("2024-11-05", V2024_11_05), ("2025-06-18", V2025_06_18), (MODERN, V2025_11_25), ("x", V2025_11_25)]
    {
        for session in [SessionHeader::Absent, SessionHeader::Unknown, SessionHeader::Known(V2025_06_18)] {
            assert_eq!(post(&all(), head(None, session), &initialize(offered)), Post::Initialize(agreed));
        }
    }
    let mut alias = initialize("2025-06-18");
    alias["method"] = json!("mcp/initialize");
    assert_eq!(post(&all(), head(None, SessionHeader::Absent), &alias), Post::Initialize(V2025_06_18));
    assert_eq!(denied(post(&all(), head(None, SessionHeader::Absent), &plain("initialize"))), (400, -32602));
}

#[test]
fn row_10_a_request_in_a_session_is_served_by_the_sessions_revision() {
    // VER-028; HTTP-044: but not with a version nobody serves.
    let session = SessionHeader::Known(V2025_06_18);
    for version in [None, Some("2025-06-18"), Some("2025-11-25")] {
        assert_eq!(post(&all(), head(version, session), &plain("tools/list")), Post::InSession(V2025_06_18));
    }
    for version in ["2030-01-01", "", "x\"y"] {
        assert_eq!(denied(post(&all(), head(Some(version), session), &plain("tools/list"))).0, 400);
    }
    let twice = Head { version: Header::Unclear, session };
    assert_eq!(denied(post(&all(), twice, &plain("tools/list"))).0, 400);
}

#[test]
fn row_11_a_session_that_is_not_there_is_not_found() {
    // SESS-008
    for version in [None, Some("2025-06-18")] {
        assert_eq!(denied(post(&all(), head(version, SessionHeader::Unknown), &plain("tools/list"))).0, 404);
        assert_eq!(denied(post(&all(), head(version, SessionHeader::Unknown), &notice())).0, 404);
        assert_eq!(denied(post(&all(), head(version, SessionHeader::Unknown), &response())).0, 404);
    }
}

#[test]
fn row_12_without_a_session_a_server_with_sessions_says_how_to_begin() {
    // SESS-006
    for body in [plain("tools/list"), plain("ping"), notice()] {
        let decision = post(&all(), head(None, SessionHeader::Absent), &body);
        let Post::Deny(denial) = &decision else { panic!("{decision:?}") };
        let text = denial.refusal.to_string();
        assert!(text.contains("initialize") && text.contains(MODERN), "{text}");
        assert_eq!(denial.status, 400);
    }
}

#[test]
fn row_13_without_sessions_a_request_stands_alone() {
    // HTTP-043, HTTP-049: no header means 2025-03-26. HTTP-044: a version nobody serves is refused.
    let policy = all().without_sessions();
    for (version, revision) in
        [(None, V2025_03_26), (Some("2025-06-18"), V2025_06_18), (Some("2024-11-05"), V2024_11_05)]
    {
        let decision = post(&policy, head(version, SessionHeader::Absent), &plain("tools/list"));
        assert_eq!(decision, Post::Alone(revision));
    }
    assert_eq!(
        denied(post(&policy, head(Some("1999-01-01"), SessionHeader::Absent), &plain("tools/list"))).0,
        400
    );
    let mut newer = policy;
    newer.served = Revisions::ALL.without(V2025_03_26);
    assert_eq!(denied(post(&newer, head(None, SessionHeader::Absent), &plain("tools/list"))).0, 400);
}

#[test]
fn row_14_discover_without_a_claim_lacks_its_keys() {
    for method in ["server/discover", "mcp/discover"] {
        for session in [SessionHeader::Absent, SessionHeader::Known(V2025_11_25)] {
            assert_eq!(denied(post(&all(), head(None, session), &plain(method))), (400, -32602));
        }
    }
}

#[test]
fn row_15_methods_that_are_gone_are_not_found() {
    // VER-034, PING-005, TASK-067
    let methods = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
    for method in
        methods.into_iter().chain(["sampling/createMessage", "tasks/list", "tasks/result", "rpc.discover"])
    {
        let body = claiming(MODERN, method);
        assert_eq!(
            post(&all(), head(Some(MODERN), SessionHeader::Absent), &body),
            Post::Stateless(V2026_07_28)
        );
        let denial = climbing(&body, Some(method), None, |_| true).unwrap_err();
        assert_eq!((denial.status, denial.refusal.code(denial.revision)), (404, -32601), "{method}");
    }
}

#[test]
fn row_16_a_stateless_notification_is_accepted_whatever_it_says() {
    // HTTP-090, HTTP-089
    let policy = all();
    let modern = head(Some(MODERN), SessionHeader::Absent);
    assert_eq!(
        post(&policy, modern, &json!({"jsonrpc": "2.0", "method": "notifications/what"})),
        Post::Accept
    );
    assert_eq!(
        post(&policy, modern, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled"})),
        Post::Accept
    );
    let claims = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
    }}});
    assert_eq!(post(&policy, head(None, SessionHeader::Absent), &claims), Post::Accept);
}

#[test]
fn row_17_a_notification_in_a_session_belongs_to_it() {
    let decision = post(&all(), head(None, SessionHeader::Known(V2025_11_25)), &notice());
    assert_eq!(decision, Post::InSession(V2025_11_25));
}

#[test]
fn row_18_a_notification_without_sessions_stands_alone() {
    let decision = post(&all().without_sessions(), head(None, SessionHeader::Absent), &notice());
    assert_eq!(decision, Post::Alone(V2025_03_26));
}

#[test]
fn row_19_an_answer_in_a_session_is_handed_on() {
    assert_eq!(post(&all(), head(None, SessionHeader::Known(V2025_11_25)), &response()), Post::Deliver);
}

#[test]
fn row_20_an_answer_to_nothing_is_refused() {
    // JRPC-040
    let policy = all();
    assert_eq!(denied(post(&policy, head(Some(MODERN), SessionHeader::Absent), &response())), (400, -32600));
    assert_eq!(denied(post(&policy, head(None, SessionHeader::Absent), &response())), (400, -32600));
    let session = SessionHeader::Known(V2025_11_25);
    assert_eq!(denied(post(&policy, head(Some(MODERN), session), &response())), (400, -32600));
}

fn get(policy: &Policy, head: Head<'_>) -> Get {
    decide_get(policy, &head, true, false)
}

fn get_status(get: Get) -> u16 {
    match get {
        Get::Deny(denial) => denial.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_21_a_get_in_a_session_opens_or_resumes_a_stream() {
    // HTTP-034, HTTP-044
    let session = head(None, SessionHeader::Known(V2025_06_18));
    assert_eq!(decide_get(&all(), &session, true, false), Get::Stream(V2025_06_18));
    assert_eq!(decide_get(&all(), &session, true, true), Get::Resume(V2025_06_18));
    assert_eq!(get_status(decide_get(&all(), &session, false, false)), 406);
    assert_eq!(get_status(get(&all(), head(None, SessionHeader::Absent))), 400);
    assert_eq!(get_status(get(&all(), head(None, SessionHeader::Unknown))), 404);
    assert_eq!(get_status(get(&all(), head(Some("1999-01-01"), SessionHeader::Known(V2025_06_18)))), 400);
}

#[test]
fn row_22_the_old_transport_is_served_where_it_is_switched_on() {
    let mut policy = all();
    assert_eq!(decide_sse(&policy).unwrap_err().status, 404);
    policy.http_sse = true;
    assert_eq!(decide_sse(&policy), Ok(()));
    policy.served = Revisions::ALL.stateless();
    assert_eq!(decide_sse(&policy).unwrap_err().status, 404);
}

#[test]
fn row_23_the_stateless_era_knows_neither_get_nor_delete() {
    // HTTP-094
    let modern = head(Some(MODERN), SessionHeader::Known(V2025_11_25));
    let bare = head(None, SessionHeader::Absent);
    let only = Policy::new(Revisions::ALL.stateless());
    for (policy, head) in [(all(), modern), (only, bare), (all().without_sessions(), bare)] {
        assert_eq!(get_status(get(&policy, head)), 405);
        let Delete::Deny(denial) = decide_delete(&policy, &head) else { panic!() };
        assert_eq!(denial.status, 405);
    }
}

#[test]
fn row_24_a_delete_ends_the_session() {
    // SESS-012, SESS-011
    let session = head(None, SessionHeader::Known(V2025_11_25));
    assert_eq!(decide_delete(&all(), &session), Delete::End);
    let mut keeping = all();
    keeping.delete = false;
    let status = |delete| match delete {
        Delete::Deny(denial) => denial.status,
        Delete::End => 200,
    };
    assert_eq!(status(decide_delete(&keeping, &session)), 405);
    assert_eq!(status(decide_delete(&all(), &head(None, SessionHeader::Unknown))), 404);
    assert_eq!(status(decide_delete(&all(), &head(None, SessionHeader::Absent))), 400);
}

#[test]
fn row_25_a_server_without_handshake_names_the_versions_it_serves() {
    // VER-032, HTTP-050
    let only = Policy::new(Revisions::ALL.stateless());
    let decision = post(&only, head(None, SessionHeader::Absent), &initialize("2025-11-25"));
    let Post::Deny(denial) = decision else { panic!() };
    let data: Value = denial.refusal.error(denial.revision).data.unwrap().read().unwrap();
    assert_eq!((denial.status, &data["supported"]), (400, &json!([MODERN])));
    assert_eq!(denied(post(&only, head(None, SessionHeader::Absent), &plain("tools/list"))), (400, -32020));
    for version in ["2025-06-18", "1999-01-01"] {
        let decision = post(&only, head(Some(version), SessionHeader::Absent), &plain("tools/list"));
        assert_eq!(denied(decision), (400, -32022));
    }
}

/// Lets a request climb the ladder.
fn climbing(
    body: &Value,
    method: Option<&str>,
    name: Option<&str>,
    offers: impl FnOnce(&str) -> bool,
) -> Result<(), Denial> {
    use crate::jsonrpc::{Incoming, Message};
    let text = body.to_string();
    let Ok(Incoming::Single(Message::Request(request))) = parse(text.as_bytes(), &Limits::default()) else {
        panic!()
    };
    let header = |value: Option<&'static str>| value.map_or(Header::Absent, Header::Once);
    let leak = |value: &str| -> &'static str { Box::leak(value.to_owned().into_boxed_str()) };
    let headers = MirrorHeaders { method: header(method.map(leak)), name: header(name.map(leak)) };
    let peek = crate::session::Peek::at(request.params()).unwrap();
    climb(V2026_07_28, &request, &peek, &headers, offers)
}

fn fell(result: Result<(), Denial>) -> (u16, i64) {
    let denial = result.unwrap_err();
    (denial.status, denial.refusal.code(denial.revision))
}

fn call(name: &str) -> Value {
    let mut body = claiming(MODERN, "tools/call");
    body["params"]["name"] = json!(name);
    body
}

#[test]
fn step_1_the_sender_must_say_who_it_is() {
    // LOG-011; VER-006: it need not say its name.
    let mut body = call("add");
    assert!(climbing(&body, Some("tools/call"), Some("add"), |_| true).is_ok());
    body["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("loud");
    // Before the headers are looked at.
    assert_eq!(fell(climbing(&body, None, None, |_| true)), (400, -32602));
    let mut body = call("add");
    body["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = json!("me");
    assert_eq!(fell(climbing(&body, Some("tools/call"), Some("add"), |_| true)), (400, -32602));
}

#[test]
fn step_3_the_method_header_must_equal_the_method() {
    // HTTP-054, HTTP-055, HTTP-057 with regard to case, HTTP-058
    for header in [None, Some("tools/list"), Some("Tools/Call"), Some("")] {
        assert_eq!(fell(climbing(&call("add"), header, Some("add"), |_| true)), (400, -32020));
    }
    assert!(climbing(&call("add"), Some(" tools/call "), Some("add"), |_| true).is_ok());
}

#[test]
fn step_4_the_name_header_must_equal_the_name() {
    // HTTP-054, HTTP-055, HTTP-056
    for header in [None, Some("sub"), Some("Add"), Some("=?base64?YWRk"), Some("=?base64?YWR?=")] {
        assert_eq!(
            fell(climbing(&call("add"), Some("tools/call"), header, |_| true)),
            (400, -32020),
            "{header:?}"
        );
    }
    assert!(climbing(&call("add"), Some("tools/call"), Some("=?base64?YWRk?="), |_| true).is_ok());
    assert!(climbing(&call("継手"), Some("tools/call"), Some("=?base64?57aZ5omL?="), |_| true).is_ok());
    let mut read = claiming(MODERN, "resources/read");
    read["params"]["uri"] = json!("file:///a");
    assert_eq!(fell(climbing(&read, Some("resources/read"), Some("file:///b"), |_| true)), (400, -32020));
    assert!(climbing(&read, Some("resources/read"), Some("file:///a"), |_| true).is_ok());
    // A list has no name.
    assert!(climbing(&claiming(MODERN, "tools/list"), Some("tools/list"), None, |_| true).is_ok());
}

#[test]
fn step_5_a_method_the_server_does_not_offer_is_not_found() {
    // HTTP-048, JRPC-023
    let body = claiming(MODERN, "prompts/list");
    assert_eq!(fell(climbing(&body, Some("prompts/list"), None, |_| false)), (404, -32601));
    // A server's own method is its own affair; what is the protocol's in another revision is not.
    assert!(climbing(&claiming(MODERN, "acme/do"), Some("acme/do"), None, |_| true).is_ok());
    assert_eq!(fell(climbing(&claiming(MODERN, "acme/do"), Some("acme/do"), None, |_| false)), (404, -32601));
}
