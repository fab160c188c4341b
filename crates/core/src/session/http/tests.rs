//! Tests of the HTTP decision tables. Each test is named after its row.

mod stateless_checks;

use serde_json::{Value, json};

use super::*;
use crate::jsonrpc::{MessageLimits, parse};
use crate::revision::Revision::*;

const MODERN: &str = "2026-07-28";

fn request_headers(version: Option<&str>, session: SessionHeader) -> RequestHeaders<'_> {
    RequestHeaders { version: version.map_or(OptionalHeader::Absent, OptionalHeader::Present), session }
}

fn policy_without_sessions() -> HttpPolicy {
    HttpPolicy { sessions: false, ..policy_for_all() }
}

fn policy_for_all() -> HttpPolicy {
    HttpPolicy::new(Revisions::ALL)
}

fn post(policy: &HttpPolicy, head: RequestHeaders<'_>, body: &Value) -> PostDecision {
    let text = body.to_string();
    decide_post(policy, &head, &parse(text.as_bytes(), &MessageLimits::default()).unwrap())
}

/// A request that claims `version`.
fn stateless_request(version: &str, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }}})
}

fn request(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method})
}

fn initialize(offered: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": offered}})
}

fn notification() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn response() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": {}})
}

/// The status and error code of a rejection.
fn rejection(post: PostDecision) -> (u16, i64) {
    match post {
        PostDecision::Reject(error) => (error.status, error.error.code(error.revision)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_1_array_is_a_batch_on_2025_03_26() {
    // JRPC-026, STDIO-010, JRPC-028 but not with `initialize` in it.
    let batch = json!([request("tools/list"), notification()]);
    let session = SessionHeader::Known(V2025_03_26);
    assert_eq!(
        post(&policy_for_all(), request_headers(None, session), &batch),
        PostDecision::Batch { revision: V2025_03_26, in_session: true }
    );
    let alone = policy_without_sessions();
    for version in [None, Some("2025-03-26")] {
        let decision = post(&alone, request_headers(version, SessionHeader::Absent), &batch);
        assert_eq!(decision, PostDecision::Batch { revision: V2025_03_26, in_session: false });
    }
    for opening in ["initialize", "mcp/initialize"] {
        let mut body = initialize("2025-03-26");
        body["method"] = json!(opening);
        assert_eq!(
            rejection(post(&alone, request_headers(None, SessionHeader::Absent), &json!([body]))),
            (400, -32600)
        );
    }
    assert_eq!(
        rejection(post(&policy_for_all(), request_headers(None, SessionHeader::Unknown), &batch)).0,
        404
    );
    assert_eq!(
        rejection(post(&policy_for_all(), request_headers(None, SessionHeader::Absent), &batch)).0,
        400
    );
}

#[test]
fn row_2_other_arrays_are_rejected() {
    // JRPC-030
    let batch = json!([request("tools/list")]);
    let alone = policy_without_sessions();
    for (policy, version, session) in [
        (policy_for_all(), None, SessionHeader::Known(V2025_06_18)),
        (policy_for_all(), None, SessionHeader::Known(V2024_11_05)),
        (alone, Some("2025-06-18"), SessionHeader::Absent),
        (alone, Some(MODERN), SessionHeader::Absent),
        (policy_for_all(), Some(MODERN), SessionHeader::Known(V2025_03_26)),
    ] {
        assert_eq!(rejection(post(&policy, request_headers(version, session), &batch)), (400, -32600));
    }
    let claims = json!([stateless_request(MODERN, "tools/list")]);
    assert_eq!(rejection(post(&alone, request_headers(None, SessionHeader::Absent), &claims)), (400, -32600));
}

#[test]
fn row_3_supported_claim_with_equal_header_is_stateless() {
    // VER-027; SESS-014: a session id is ignored there.
    for session in [SessionHeader::Absent, SessionHeader::Unknown, SessionHeader::Known(V2025_11_25)] {
        let decision = post(
            &policy_for_all(),
            request_headers(Some(MODERN), session),
            &stateless_request(MODERN, "tools/list"),
        );
        assert_eq!(decision, PostDecision::Stateless(V2026_07_28));
    }
    // HTTP-058: whitespace around the value is not part of it.
    let decision = post(
        &policy_for_all(),
        request_headers(Some(" 2026-07-28\t"), SessionHeader::Absent),
        &stateless_request(MODERN, "tools/list"),
    );
    assert_eq!(decision, PostDecision::Stateless(V2026_07_28));
}

#[test]
fn row_4_a_claim_without_the_header_is_a_mismatch() {
    // HTTP-055
    for version in [MODERN, "2030-01-01"] {
        let decision = post(
            &policy_for_all(),
            request_headers(None, SessionHeader::Absent),
            &stateless_request(version, "tools/list"),
        );
        assert_eq!(rejection(decision), (400, -32020));
    }
}

#[test]
fn row_5_claim_must_equal_the_header() {
    // HTTP-047, HTTP-054
    for (claim, header) in [("v999.0.0", MODERN), (MODERN, "2025-11-25"), (MODERN, "v999.0.0")] {
        let decision = post(
            &policy_for_all(),
            request_headers(Some(header), SessionHeader::Absent),
            &stateless_request(claim, "tools/list"),
        );
        assert_eq!(rejection(decision), (400, -32020));
    }
    let twice = RequestHeaders { version: OptionalHeader::Ambiguous, session: SessionHeader::Absent };
    assert_eq!(
        rejection(post(&policy_for_all(), twice, &stateless_request(MODERN, "tools/list"))),
        (400, -32020)
    );
}

#[test]
fn row_6_unsupported_claim_names_the_served_versions() {
    // VER-009, VER-010
    let decision = post(
        &policy_for_all(),
        request_headers(Some("2030-01-01"), SessionHeader::Absent),
        &stateless_request("2030-01-01", "tools/list"),
    );
    let PostDecision::Reject(http_error) = decision else { panic!() };
    let error = http_error.error.to_error_object(http_error.revision);
    assert_eq!((http_error.status, error.code), (400, -32022));
    let data: Value = error.data.unwrap().read().unwrap();
    assert_eq!(data["requested"], "2030-01-01");
    assert_eq!(data["supported"][0], MODERN);
    let legacy = HttpPolicy::new(Revisions::ALL.handshake());
    let decision = post(
        &legacy,
        request_headers(Some(MODERN), SessionHeader::Absent),
        &stateless_request(MODERN, "tools/list"),
    );
    assert_eq!(rejection(decision), (400, -32022));
}

#[test]
fn row_7_a_claim_of_an_older_version_is_ignored() {
    let session = SessionHeader::Known(V2025_06_18);
    let decision = post(
        &policy_for_all(),
        request_headers(Some("2025-06-18"), session),
        &stateless_request("2025-06-18", "tools/list"),
    );
    assert_eq!(decision, PostDecision::InSession(V2025_06_18));
    let mut body = stateless_request("2025-06-18", "initialize");
    body["params"]["protocolVersion"] = json!("2025-06-18");
    assert_eq!(
        post(&policy_for_all(), request_headers(None, SessionHeader::Absent), &body),
        PostDecision::Initialize(V2025_06_18)
    );
}

#[test]
fn row_8_stateless_header_without_claim_is_rejected() {
    // VER-004, VER-005: never served as an older revision.
    let without_version = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    for body in [request("tools/list"), without_version, initialize("2025-11-25")] {
        for session in [SessionHeader::Absent, SessionHeader::Known(V2025_11_25)] {
            let decision = post(&policy_for_all(), request_headers(Some(MODERN), session), &body);
            let PostDecision::Reject(error) = &decision else { panic!("{decision:?}") };
            assert!(error.error.to_string().contains("io.modelcontextprotocol/protocolVersion"));
            assert_eq!(rejection(decision), (400, -32602));
        }
    }
    let mut malformed = stateless_request(MODERN, "tools/list");
    malformed["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(7);
    assert_eq!(
        rejection(post(&policy_for_all(), request_headers(None, SessionHeader::Absent), &malformed)),
        (400, -32602)
    );
}

#[test]
fn row_9_initialize_agrees_on_a_revision_with_a_handshake() {
    // VER-028, LIFE-033: starts a new session, even if it names another.
    for (offered, agreed) in
        [("2024-11-05", V2024_11_05), ("2025-06-18", V2025_06_18), (MODERN, V2025_11_25), ("x", V2025_11_25)]
    {
        for session in [SessionHeader::Absent, SessionHeader::Unknown, SessionHeader::Known(V2025_06_18)] {
            assert_eq!(
                post(&policy_for_all(), request_headers(None, session), &initialize(offered)),
                PostDecision::Initialize(agreed)
            );
        }
    }
    let mut alias = initialize("2025-06-18");
    alias["method"] = json!("mcp/initialize");
    assert_eq!(
        post(&policy_for_all(), request_headers(None, SessionHeader::Absent), &alias),
        PostDecision::Initialize(V2025_06_18)
    );
    assert_eq!(
        rejection(post(
            &policy_for_all(),
            request_headers(None, SessionHeader::Absent),
            &request("initialize")
        )),
        (400, -32602)
    );
}

#[test]
fn row_10_session_request_uses_the_revision_of_the_session() {
    // VER-028; HTTP-044: but not with an unsupported version.
    let session = SessionHeader::Known(V2025_06_18);
    for version in [None, Some("2025-06-18"), Some("2025-11-25")] {
        assert_eq!(
            post(&policy_for_all(), request_headers(version, session), &request("tools/list")),
            PostDecision::InSession(V2025_06_18)
        );
    }
    for version in ["2030-01-01", "", "x\"y"] {
        assert_eq!(
            rejection(post(
                &policy_for_all(),
                request_headers(Some(version), session),
                &request("tools/list")
            ))
            .0,
            400
        );
    }
    let twice = RequestHeaders { version: OptionalHeader::Ambiguous, session };
    assert_eq!(rejection(post(&policy_for_all(), twice, &request("tools/list"))).0, 400);
}

#[test]
fn row_11_unknown_session_is_not_found() {
    // SESS-008
    for version in [None, Some("2025-06-18")] {
        assert_eq!(
            rejection(post(
                &policy_for_all(),
                request_headers(version, SessionHeader::Unknown),
                &request("tools/list")
            ))
            .0,
            404
        );
        assert_eq!(
            rejection(post(
                &policy_for_all(),
                request_headers(version, SessionHeader::Unknown),
                &notification()
            ))
            .0,
            404
        );
        assert_eq!(
            rejection(post(&policy_for_all(), request_headers(version, SessionHeader::Unknown), &response()))
                .0,
            404
        );
    }
}

#[test]
fn row_12_missing_session_is_rejected() {
    // SESS-006
    for body in [request("tools/list"), request("ping"), notification()] {
        let decision = post(&policy_for_all(), request_headers(None, SessionHeader::Absent), &body);
        let PostDecision::Reject(error) = &decision else { panic!("{decision:?}") };
        let text = error.error.to_string();
        assert!(text.contains("initialize") && text.contains(MODERN), "{text}");
        assert_eq!(error.status, 400);
    }
}

#[test]
fn row_13_request_is_served_without_a_session() {
    // HTTP-043, HTTP-049: no header means 2025-03-26. HTTP-044: an unsupported version is rejected.
    let policy = policy_without_sessions();
    for (version, revision) in
        [(None, V2025_03_26), (Some("2025-06-18"), V2025_06_18), (Some("2024-11-05"), V2024_11_05)]
    {
        let decision = post(&policy, request_headers(version, SessionHeader::Absent), &request("tools/list"));
        assert_eq!(decision, PostDecision::Sessionless(revision));
    }
    assert_eq!(
        rejection(post(
            &policy,
            request_headers(Some("1999-01-01"), SessionHeader::Absent),
            &request("tools/list")
        ))
        .0,
        400
    );
    let mut newer = policy;
    newer.served = Revisions::ALL.without(V2025_03_26);
    assert_eq!(
        rejection(post(&newer, request_headers(None, SessionHeader::Absent), &request("tools/list"))).0,
        400
    );
}

#[test]
fn row_14_discover_without_a_claim_lacks_its_keys() {
    for session in [SessionHeader::Absent, SessionHeader::Known(V2025_11_25)] {
        assert_eq!(
            rejection(post(&policy_for_all(), request_headers(None, session), &request("server/discover"))),
            (400, -32602)
        );
    }
}

#[test]
fn row_14_bare_discover_is_served() {
    let bare = request("mcp/discover");
    for version in [None, Some("2025-06-18")] {
        for session in [SessionHeader::Absent, SessionHeader::Known(V2025_11_25)] {
            assert_eq!(
                post(&policy_for_all(), request_headers(version, session), &bare),
                PostDecision::BareDiscover(V2026_07_28)
            );
        }
    }
    let headers = request_headers(Some(MODERN), SessionHeader::Absent);
    assert_eq!(rejection(post(&policy_for_all(), headers, &bare)), (400, -32602));
    let gone = request_headers(None, SessionHeader::Unknown);
    assert_eq!(rejection(post(&policy_for_all(), gone, &bare)).0, 400);
    let mut older = policy_for_all();
    older.served = Revisions::ALL.without(V2026_07_28);
    assert_eq!(rejection(post(&older, request_headers(None, SessionHeader::Absent), &bare)), (400, -32602));
}

#[test]
fn row_15_methods_that_are_gone_are_not_found() {
    // VER-034, PING-005
    let methods = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];
    for method in
        methods.into_iter().chain(["sampling/createMessage", "tasks/list", "tasks/result", "rpc.discover"])
    {
        let body = stateless_request(MODERN, method);
        assert_eq!(
            post(&policy_for_all(), request_headers(Some(MODERN), SessionHeader::Absent), &body),
            PostDecision::Stateless(V2026_07_28)
        );
        let error = stateless_checks::check_headers(&body, Some(method), None, |_| true).unwrap_err();
        assert_eq!((error.status, error.error.code(error.revision)), (404, -32601), "{method}");
    }
}

#[test]
fn row_16_stateless_notification_is_accepted() {
    // HTTP-090, HTTP-089
    let policy = policy_for_all();
    let modern = request_headers(Some(MODERN), SessionHeader::Absent);
    assert_eq!(
        post(&policy, modern, &json!({"jsonrpc": "2.0", "method": "notifications/what"})),
        PostDecision::Accept
    );
    assert_eq!(
        post(&policy, modern, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled"})),
        PostDecision::Accept
    );
    let claims = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
    }}});
    assert_eq!(post(&policy, request_headers(None, SessionHeader::Absent), &claims), PostDecision::Accept);
}

#[test]
fn row_17_a_notification_in_a_session_belongs_to_it() {
    let decision =
        post(&policy_for_all(), request_headers(None, SessionHeader::Known(V2025_11_25)), &notification());
    assert_eq!(decision, PostDecision::InSession(V2025_11_25));
}

#[test]
fn row_18_notification_is_accepted_without_a_session() {
    let decision =
        post(&policy_without_sessions(), request_headers(None, SessionHeader::Absent), &notification());
    assert_eq!(decision, PostDecision::Sessionless(V2025_03_26));
}

#[test]
fn row_19_response_in_a_session_is_delivered() {
    assert_eq!(
        post(&policy_for_all(), request_headers(None, SessionHeader::Known(V2025_11_25)), &response()),
        PostDecision::DeliverResponse
    );
}

#[test]
fn row_20_unexpected_response_is_rejected() {
    // JRPC-040
    let policy = policy_for_all();
    assert_eq!(
        rejection(post(&policy, request_headers(Some(MODERN), SessionHeader::Absent), &response())),
        (400, -32600)
    );
    assert_eq!(
        rejection(post(&policy, request_headers(None, SessionHeader::Absent), &response())),
        (400, -32600)
    );
    let session = SessionHeader::Known(V2025_11_25);
    assert_eq!(rejection(post(&policy, request_headers(Some(MODERN), session), &response())), (400, -32600));
}

fn get(policy: &HttpPolicy, head: RequestHeaders<'_>) -> GetDecision {
    decide_get(policy, &get_headers(head))
}

/// A GET that accepts events and resumes no stream.
fn get_headers(common: RequestHeaders<'_>) -> GetHeaders<'_> {
    GetHeaders { common, accepts_events: true, has_last_event_id: false }
}

fn get_status(get: GetDecision) -> u16 {
    match get {
        GetDecision::Reject(error) => error.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn row_21_get_in_a_session_opens_a_stream() {
    // HTTP-034, HTTP-044
    let session = request_headers(None, SessionHeader::Known(V2025_06_18));
    assert_eq!(get(&policy_for_all(), session), GetDecision::Stream(V2025_06_18));
    let resumed = GetHeaders { has_last_event_id: true, ..get_headers(session) };
    assert_eq!(decide_get(&policy_for_all(), &resumed), GetDecision::Resume(V2025_06_18));
    let json_only = GetHeaders { accepts_events: false, ..get_headers(session) };
    assert_eq!(get_status(decide_get(&policy_for_all(), &json_only)), 406);
    assert_eq!(get_status(get(&policy_for_all(), request_headers(None, SessionHeader::Absent))), 400);
    assert_eq!(get_status(get(&policy_for_all(), request_headers(None, SessionHeader::Unknown))), 404);
    assert_eq!(
        get_status(get(
            &policy_for_all(),
            request_headers(Some("1999-01-01"), SessionHeader::Known(V2025_06_18))
        )),
        400
    );
}

#[test]
fn row_22_http_sse_is_served_if_enabled() {
    let mut policy = policy_for_all();
    assert_eq!(decide_http_sse(&policy).unwrap_err().status, 404);
    policy.http_sse = true;
    assert_eq!(decide_http_sse(&policy), Ok(()));
    policy.served = Revisions::ALL.stateless();
    assert_eq!(decide_http_sse(&policy).unwrap_err().status, 404);
}

#[test]
fn row_23_stateless_era_has_neither_get_nor_delete() {
    // HTTP-094
    let modern = request_headers(Some(MODERN), SessionHeader::Known(V2025_11_25));
    let bare = request_headers(None, SessionHeader::Absent);
    let only = HttpPolicy::new(Revisions::ALL.stateless());
    for (policy, head) in [(policy_for_all(), modern), (only, bare), (policy_without_sessions(), bare)] {
        assert_eq!(get_status(get(&policy, head)), 405);
        let DeleteDecision::Reject(error) = decide_delete(&policy, &head) else { panic!() };
        assert_eq!(error.status, 405);
    }
}

#[test]
fn row_24_a_delete_ends_the_session() {
    // SESS-012, SESS-011
    let session = request_headers(None, SessionHeader::Known(V2025_11_25));
    assert_eq!(decide_delete(&policy_for_all(), &session), DeleteDecision::EndSession);
    let mut keeping = policy_for_all();
    keeping.allow_delete = false;
    let status = |delete| match delete {
        DeleteDecision::Reject(error) => error.status,
        DeleteDecision::EndSession => 200,
    };
    assert_eq!(status(decide_delete(&keeping, &session)), 405);
    assert_eq!(status(decide_delete(&policy_for_all(), &request_headers(None, SessionHeader::Unknown))), 404);
    assert_eq!(status(decide_delete(&policy_for_all(), &request_headers(None, SessionHeader::Absent))), 400);
}

#[test]
fn row_25_stateless_only_server_lists_its_supported_versions() {
    // VER-032, HTTP-050
    let only = HttpPolicy::new(Revisions::ALL.stateless());
    let decision = post(&only, request_headers(None, SessionHeader::Absent), &initialize("2025-11-25"));
    let PostDecision::Reject(error) = decision else { panic!() };
    let data: Value = error.error.to_error_object(error.revision).data.unwrap().read().unwrap();
    assert_eq!((error.status, &data["supported"]), (400, &json!([MODERN])));
    assert_eq!(
        rejection(post(&only, request_headers(None, SessionHeader::Absent), &request("tools/list"))),
        (400, -32020)
    );
    for version in ["2025-06-18", "1999-01-01"] {
        let decision =
            post(&only, request_headers(Some(version), SessionHeader::Absent), &request("tools/list"));
        assert_eq!(rejection(decision), (400, -32022));
    }
}
