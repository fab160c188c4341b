//! Tests of the HTTP probe.

use proptest::prelude::*;

use super::*;
use crate::jsonrpc::RawJson;

/// A probe and its next step.
struct HttpScript {
    probe: HttpProbe,
    next: HttpProbeStep,
}

impl HttpScript {
    fn new(policy: ProbePolicy) -> Self {
        let (probe, next) = HttpProbe::new(policy);
        Self { probe, next }
    }

    fn with_record(policy: ProbePolicy, revision: Revision, transport: TransportKind) -> Self {
        let (probe, next) = HttpProbe::with_record(policy, ProbeRecord::new(revision, transport));
        Self { probe, next }
    }

    fn result(mut self, status: u16, result: &Value) -> Self {
        let result = RawJson::from(result.clone());
        let body = ProbeBody::Result((&result).into());
        self.next = self.probe.receive(HttpProbeEvent::Response { status, body });
        self
    }

    fn error(mut self, status: u16, error: &ErrorObject) -> Self {
        self.next = self.probe.receive(HttpProbeEvent::Response { status, body: ProbeBody::Error(error) });
        self
    }

    /// A response without a readable body.
    fn status(mut self, status: u16) -> Self {
        self.next = self.probe.receive(HttpProbeEvent::Response { status, body: ProbeBody::Other });
        self
    }

    #[track_caller]
    fn expect_request(self, ask: ProbeRequest) -> Self {
        assert_eq!(self.next, HttpProbeStep::Send(ask));
        self
    }

    #[track_caller]
    fn expect_open_sse(self, offer: Revision) -> Self {
        assert_eq!(self.next, HttpProbeStep::OpenSse(offer));
        self
    }

    #[track_caller]
    fn expect_done(&self) -> &ProbeOutcome {
        match &self.next {
            HttpProbeStep::Done(settled) => settled,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn expect_error(self, failure: ProbeError) {
        assert_eq!(self.next, HttpProbeStep::Fail(failure));
    }

    #[track_caller]
    fn expect_record(&self, revision: Revision, transport: TransportKind) {
        assert_eq!(self.probe.record(), Some(ProbeRecord::new(revision, transport)));
    }
}

fn rejected(error: &ErrorObject) -> ProbeError {
    ProbeError::Rejected(error.clone())
}

#[test]
fn result_with_a_supported_stateless_revision_is_final() {
    // HTTP-091
    let probe = HttpScript::new(auto_policy()).expect_request(DISCOVER);
    let settled = probe.result(200, &discover_result(&["2030-01-01", "2025-11-25", "2026-07-28"]));
    assert_eq!(stateless_outcome(settled.expect_done()), Some((V2026_07_28, true)));
    settled.expect_record(V2026_07_28, TransportKind::StreamableHttp);
    let ProbeOutcome::Stateless { discover_result: Some(found), .. } = settled.expect_done() else {
        panic!()
    };
    assert!(found.capabilities.tools.is_some());
}

#[test]
fn result_with_only_handshake_revisions_leads_to_initialize() {
    let list = ["2024-11-05", "2025-06-18", "2030-01-01"];
    let probe = HttpScript::new(auto_policy())
        .result(200, &discover_result(&list))
        .expect_request(ProbeRequest::Initialize(V2025_06_18));
    assert_eq!(
        handshake_outcome(probe.result(200, &initialize_result("2025-06-18")).expect_done()),
        Some(V2025_06_18)
    );
    // No common revision.
    HttpScript::new(auto_policy())
        .result(200, &discover_result(&["2030-01-01"]))
        .expect_error(no_common(&["2030-01-01"], Revisions::ALL));
    HttpScript::new(auto_policy())
        .result(200, &discover_result(&[]))
        .expect_error(no_common(&[], Revisions::ALL));
}

#[test]
fn result_without_versions_leads_to_initialize() {
    for lenient in [
        json!({}),
        json!({"supportedVersions": null}),
        json!({"supportedVersions": "2026-07-28"}),
        json!({"supportedVersions": [1]}),
        json!(null),
        json!([["2026-07-28"]]),
        json!("ok"),
    ] {
        HttpScript::new(auto_policy()).result(200, &lenient).expect_request(INITIALIZE);
    }
    HttpScript::new(auto_policy()).status(200).expect_request(INITIALIZE);
    HttpScript::new(auto_policy()).status(202).expect_request(INITIALIZE);
}

#[test]
fn malformed_result_is_a_failure() {
    let half = json!({"supportedVersions": ["2026-07-28"]});
    let probe = HttpScript::new(auto_policy()).result(200, &half);
    assert!(matches!(probe.next, HttpProbeStep::Fail(ProbeError::InvalidResponse(_))), "{:?}", probe.next);
    let mut odd = discover_result(&["2026-07-28"]);
    odd["resultType"] = json!("odd");
    let probe = HttpScript::new(auto_policy()).result(200, &odd);
    assert!(matches!(probe.next, HttpProbeStep::Fail(ProbeError::InvalidResponse(_))), "{:?}", probe.next);
}

#[test]
fn unsupported_version_without_common_revision_is_a_failure() {
    // VER-011 the failure, VER-029: never `initialize`.
    let stateless = Revisions::ALL.stateless();
    for list in [&["2030-01-01"][..], &["2030-01-01", "draft"], &["2030-01-01", "2025-11-25"]] {
        HttpScript::new(auto_policy())
            .error(400, &unsupported(list))
            .expect_error(no_common(list, stateless));
    }
    HttpScript::new(auto_policy()).error(400, &unsupported(&[])).expect_error(no_common(&[], Revisions::ALL));
}

#[test]
fn unsupported_version_without_list_is_a_failure() {
    for error in unsupported_without_list() {
        HttpScript::new(auto_policy()).error(400, &error).expect_error(rejected(&error));
    }
}

#[test]
fn unsupported_version_with_common_revision_is_retried_once() {
    // VER-011, VER-029, HTTP-092
    let again = || {
        HttpScript::new(auto_policy())
            .error(400, &unsupported(&["2025-11-25", "2026-07-28"]))
            .expect_request(DISCOVER)
    };
    let settled = again().result(200, &discover_result(&["2026-07-28"]));
    assert_eq!(stateless_outcome(settled.expect_done()), Some((V2026_07_28, true)));
    let error = unsupported(&["2026-07-28"]);
    again().error(400, &error).expect_error(rejected(&error));
    // With any status.
    HttpScript::new(auto_policy()).error(200, &error).expect_request(DISCOVER);
}

#[test]
fn unsupported_version_naming_only_handshake_revisions_leads_to_initialize() {
    let list = ["2024-11-05", "2025-03-26"];
    HttpScript::new(auto_policy())
        .error(400, &unsupported(&list))
        .expect_request(ProbeRequest::Initialize(V2025_03_26));
    let ours = Revisions::ALL.without(V2024_11_05);
    HttpScript::new(ProbePolicy::new(ours))
        .error(400, &unsupported(&["2024-11-05"]))
        .expect_error(no_common(&["2024-11-05"], ours));
}

#[test]
fn header_mismatch_or_missing_capability_is_corrected_only_once() {
    // VER-029, HTTP-092
    for code in [-32020, -32021] {
        let wrong = error(code).data(&json!({"requiredCapabilities": {"sampling": {}}}));
        let corrected = || HttpScript::new(auto_policy()).error(400, &wrong).expect_request(DISCOVER);
        assert!(
            stateless_outcome(corrected().result(200, &discover_result(&["2026-07-28"])).expect_done())
                .is_some()
        );
        corrected().error(400, &wrong).expect_error(rejected(&wrong));
        corrected().status(404).expect_error(ProbeError::HttpStatus(404));
        // A version retry is counted separately from a correction.
        let switched = corrected().error(400, &unsupported(&["2026-07-28"])).expect_request(DISCOVER);
        switched.error(400, &wrong).expect_error(rejected(&wrong));
    }
}

#[test]
fn stateless_server_is_never_sent_initialize() {
    // VER-029
    let known =
        || HttpScript::new(auto_policy()).error(400, &unsupported(&["2026-07-28"])).expect_request(DISCOVER);
    for (status, code) in [(404, -32601), (400, -32602), (200, -32000)] {
        known().error(status, &error(code)).expect_error(rejected(&error(code)));
    }
    known().status(404).expect_error(ProbeError::HttpStatus(404));
    for mut probe in [known().status(200), known().result(200, &json!({}))] {
        assert!(
            matches!(probe.next, HttpProbeStep::Fail(ProbeError::InvalidResponse(_))),
            "{:?}",
            probe.next
        );
        // Also after the probe is done.
        probe = probe.result(200, &discover_result(&["2026-07-28"]));
        probe.expect_done();
        probe.status(404).expect_error(ProbeError::HttpStatus(404));
    }
    let settled = HttpScript::new(auto_policy()).result(200, &discover_result(&["2026-07-28"]));
    settled.status(404).expect_error(ProbeError::HttpStatus(404));
}

#[test]
fn invalid_params_in_a_400_lead_to_initialize() {
    // HTTP-092: this code proves nothing.
    HttpScript::new(auto_policy()).error(400, &error(-32602)).expect_request(INITIALIZE);
}

#[test]
fn method_not_found_in_a_404_leads_to_initialize_only() {
    let probe = || HttpScript::new(auto_policy()).error(404, &error(-32601)).expect_request(INITIALIZE);
    probe().result(200, &initialize_result("2025-11-25")).expect_done();
    for status in [400, 404, 405] {
        probe().status(status).expect_error(ProbeError::HttpStatus(status));
    }
    for (status, code) in [(404, -32601), (400, -32020), (400, -32021), (400, -32022)] {
        probe().error(status, &error(code)).expect_error(ProbeError::NoDiscover(error(code)));
    }
    let names_itself = unsupported(&["2026-07-28"]);
    probe().error(400, &names_itself).expect_error(ProbeError::NoDiscover(names_itself.clone()));
    probe().error(400, &error(-32602)).expect_error(rejected(&error(-32602)));
}

#[test]
fn other_error_in_a_200_leads_to_initialize_only() {
    for code in [-32601, -32602, -32000, -32001, -32603, 0, 7] {
        let probe = HttpScript::new(auto_policy()).error(200, &error(code)).expect_request(INITIALIZE);
        probe.status(404).expect_error(ProbeError::HttpStatus(404));
    }
}

#[test]
fn unreadable_4xx_leads_to_initialize_then_http_sse() {
    // HTTP-093, HSSE-009, HSSE-010, HSSE-008
    for status in [400, 402, 404, 405, 406, 410, 415, 418, 499] {
        HttpScript::new(auto_policy()).status(status).expect_request(INITIALIZE);
        HttpScript::new(auto_policy()).error(status, &error(-32000)).expect_request(INITIALIZE);
        HttpScript::new(auto_policy())
            .result(status, &discover_result(&["2026-07-28"]))
            .expect_request(INITIALIZE);
    }
    let probe = || HttpScript::new(auto_policy()).status(404).expect_request(INITIALIZE);
    let streamable = probe().result(200, &initialize_result("2025-06-18"));
    assert_eq!(handshake_outcome(streamable.expect_done()), Some(V2025_06_18));
    streamable.expect_record(V2025_06_18, TransportKind::StreamableHttp);
    for status in [400, 404, 405] {
        let old =
            probe().status(status).expect_open_sse(V2025_11_25).result(200, &initialize_result("2024-11-05"));
        assert_eq!(handshake_outcome(old.expect_done()), Some(V2024_11_05));
        old.expect_record(V2024_11_05, TransportKind::HttpSse);
        probe().error(status, &error(-32000)).expect_open_sse(V2025_11_25);
    }
    // The code alone does not show the stateless era; its status does.
    let probe = || HttpScript::new(auto_policy()).error(400, &error(-32601)).expect_request(INITIALIZE);
    probe().error(400, &error(-32601)).expect_open_sse(V2025_11_25);
    for status in [406, 410, 415] {
        probe().status(status).expect_error(ProbeError::HttpStatus(status));
    }
    // Errors of the stateless era.
    for (status, code) in [(400, -32020), (400, -32021), (400, -32022), (404, -32601)] {
        probe().error(status, &error(code)).expect_error(ProbeError::NoDiscover(error(code)));
    }
}

#[test]
fn failed_http_sse_reports_the_initialize_error() {
    let wrong = error(-32000);
    for status in [200, 400, 404, 405, 406] {
        let opened =
            HttpScript::new(auto_policy()).status(404).error(400, &wrong).expect_open_sse(V2025_11_25);
        opened.status(status).expect_error(rejected(&wrong));
    }
    let opened = || HttpScript::new(auto_policy()).status(404).status(405).expect_open_sse(V2025_11_25);
    opened().status(404).expect_error(ProbeError::HttpStatus(405));
    opened().status(502).expect_error(ProbeError::HttpStatus(502));
    // The stream exists, but the handshake fails.
    opened().error(200, &error(-32603)).expect_error(rejected(&error(-32603)));
    opened()
        .result(200, &initialize_result("1.0"))
        .expect_error(no_common(&["1.0"], Revisions::ALL.handshake()));
    opened().error(200, &unsupported(&["2024-11-05"])).expect_open_sse(V2024_11_05);
}

#[test]
fn unauthorized_forbidden_and_too_many_requests_are_failures() {
    for status in [401, 403, 429] {
        let failure = || ProbeError::HttpStatus(status);
        HttpScript::new(auto_policy()).error(status, &unsupported(&["2025-11-25"])).expect_error(failure());
        HttpScript::new(auto_policy()).status(400).status(status).expect_error(failure());
        let sse = HttpScript::new(auto_policy()).status(400).status(404).expect_open_sse(V2025_11_25);
        sse.status(status).expect_error(failure());
    }
}

#[test]
fn server_error_timeout_or_redirect_is_a_failure() {
    for status in [500, 502, 503, 504, 599, 301, 304, 307, 308, 100, 0, 600] {
        HttpScript::new(auto_policy()).status(status).expect_error(ProbeError::HttpStatus(status));
        HttpScript::new(auto_policy())
            .error(status, &error(-32601))
            .expect_error(ProbeError::HttpStatus(status));
        HttpScript::new(auto_policy())
            .status(400)
            .status(status)
            .expect_error(ProbeError::HttpStatus(status));
    }
    for mut probe in [HttpScript::new(auto_policy()), HttpScript::new(auto_policy()).status(400)] {
        assert_eq!(
            probe.probe.receive(HttpProbeEvent::NoResponse),
            HttpProbeStep::Fail(ProbeError::NoResponse)
        );
    }
}

#[test]
fn initialize_with_unsupported_revision_is_a_failure() {
    let ours = Revisions::ALL.without(V2024_11_05);
    for version in ["2024-11-05", "2026-07-28", "1.0", ""] {
        let probe =
            HttpScript::new(ProbePolicy::new(ours)).status(400).result(200, &initialize_result(version));
        probe.expect_error(no_common(&[version], ours.handshake()));
    }
    for unreadable in
        [json!({}), json!({"protocolVersion": 1}), json!({"protocolVersion": "2025-11-25"}), json!(7)]
    {
        let probe = HttpScript::new(auto_policy()).status(400).result(200, &unreadable);
        assert!(
            matches!(probe.next, HttpProbeStep::Fail(ProbeError::InvalidResponse(_))),
            "{:?}",
            probe.next
        );
    }
    let probe = HttpScript::new(auto_policy()).status(400).status(202);
    assert!(matches!(probe.next, HttpProbeStep::Fail(ProbeError::InvalidResponse(_))), "{:?}", probe.next);
}

#[test]
fn rejected_initialize_is_retried_once_with_a_listed_revision() {
    let wrong = error(-32602).data(&json!({"supported": ["2024-11-05", "2030-01-01"]}));
    let again = || {
        HttpScript::new(auto_policy())
            .status(400)
            .error(200, &wrong)
            .expect_request(ProbeRequest::Initialize(V2024_11_05))
    };
    assert_eq!(
        handshake_outcome(again().result(200, &initialize_result("2024-11-05")).expect_done()),
        Some(V2024_11_05)
    );
    again().error(200, &wrong).expect_error(rejected(&wrong));
    let strange = error(-32602).data(&json!({"supported": ["1.0"]}));
    HttpScript::new(auto_policy())
        .status(400)
        .error(400, &strange)
        .expect_error(no_common(&["1.0"], Revisions::ALL));
}

#[test]
fn stateless_only_never_sends_initialize() {
    let policy = auto_policy().mode(ProbeMode::StatelessOnly);
    let ours = Revisions::ALL.stateless();
    let probe = || HttpScript::new(policy).expect_request(DISCOVER);
    assert!(
        stateless_outcome(probe().result(200, &discover_result(&["2026-07-28"])).expect_done()).is_some()
    );
    let wants = || ProbeError::HandshakeRequired { ours };
    probe().status(400).expect_error(wants());
    probe().error(404, &error(-32601)).expect_error(wants());
    probe().error(200, &error(-32602)).expect_error(wants());
    probe().result(200, &json!({})).expect_error(wants());
    probe().result(200, &discover_result(&["2025-11-25"])).expect_error(no_common(&["2025-11-25"], ours));
    probe().error(400, &unsupported(&["2025-11-25"])).expect_error(no_common(&["2025-11-25"], ours));
}

#[test]
fn handshake_only_never_sends_discover() {
    // HSSE-009
    let policy = auto_policy().mode(ProbeMode::HandshakeOnly);
    for policy in [policy, ProbePolicy::new(Revisions::ALL.handshake())] {
        let probe = || HttpScript::new(policy).expect_request(INITIALIZE);
        probe().status(404).expect_open_sse(V2025_11_25);
        probe().error(400, &error(-32000)).expect_open_sse(V2025_11_25);
        // HSSE-010: a stateless server is not tried over HTTP+SSE.
        probe().error(404, &error(-32601)).expect_error(rejected(&error(-32601)));
        probe().error(400, &error(-32020)).expect_error(rejected(&error(-32020)));
        let ours = Revisions::ALL.handshake();
        probe().error(400, &unsupported(&["2026-07-28"])).expect_error(no_common(&["2026-07-28"], ours));
    }
}

#[test]
fn pinned_revision_is_not_probed() {
    // VER-015
    let probe = HttpScript::new(auto_policy().mode(ProbeMode::Pin(V2026_07_28)));
    assert_eq!(stateless_outcome(probe.expect_done()), Some((V2026_07_28, false)));
    assert_eq!(probe.probe.record(), None);
    for revision in Revisions::ALL.handshake().newest_first() {
        let probe = || {
            HttpScript::new(auto_policy().mode(ProbeMode::Pin(revision)))
                .expect_request(ProbeRequest::Initialize(revision))
        };
        assert_eq!(
            handshake_outcome(probe().result(200, &initialize_result(revision.as_str())).expect_done()),
            Some(revision)
        );
        for other in Revisions::ALL.without(revision).newest_first() {
            let only = Revisions::NONE.with(revision);
            probe()
                .result(200, &initialize_result(other.as_str()))
                .expect_error(no_common(&[other.as_str()], only));
        }
    }
}

#[test]
fn empty_policy_is_a_failure() {
    let ours = Revisions::ALL.handshake();
    for policy in [
        ProbePolicy::new(Revisions::NONE),
        ProbePolicy::new(ours).mode(ProbeMode::StatelessOnly),
        ProbePolicy::new(ours).mode(ProbeMode::Pin(V2026_07_28)),
    ] {
        HttpScript::new(policy).expect_error(ProbeError::NoRevisions);
    }
}

#[test]
fn record_skips_the_probe() {
    // VER-031
    let probe = HttpScript::with_record(auto_policy(), V2026_07_28, TransportKind::StreamableHttp);
    assert_eq!(stateless_outcome(probe.expect_done()), Some((V2026_07_28, false)));
    probe.expect_record(V2026_07_28, TransportKind::StreamableHttp);
    let probe = HttpScript::with_record(auto_policy(), V2025_06_18, TransportKind::StreamableHttp)
        .expect_request(ProbeRequest::Initialize(V2025_06_18));
    let settled = probe.result(200, &initialize_result("2025-06-18"));
    settled.expect_record(V2025_06_18, TransportKind::StreamableHttp);
    let probe = HttpScript::with_record(auto_policy(), V2024_11_05, TransportKind::HttpSse)
        .expect_open_sse(V2024_11_05);
    probe.result(200, &initialize_result("2024-11-05")).expect_record(V2024_11_05, TransportKind::HttpSse);
}

#[test]
fn impossible_record_is_ignored() {
    HttpScript::with_record(auto_policy(), V2026_07_28, TransportKind::HttpSse).expect_request(DISCOVER);
    HttpScript::with_record(auto_policy(), V2026_07_28, TransportKind::Stdio).expect_request(DISCOVER);
    HttpScript::with_record(auto_policy(), V2025_11_25, TransportKind::Stdio).expect_request(DISCOVER);
    let older = ProbePolicy::new(Revisions::ALL.handshake());
    HttpScript::with_record(older, V2026_07_28, TransportKind::StreamableHttp).expect_request(INITIALIZE);
    let pinned = auto_policy().mode(ProbeMode::Pin(V2025_06_18));
    HttpScript::with_record(pinned, V2025_11_25, TransportKind::StreamableHttp)
        .expect_request(ProbeRequest::Initialize(V2025_06_18));
}

#[test]
fn stale_handshake_record_is_probed_once() {
    let trusting = || {
        HttpScript::with_record(auto_policy(), V2025_11_25, TransportKind::StreamableHttp)
            .expect_request(INITIALIZE)
    };
    for probe in [
        trusting().error(404, &error(-32601)),
        trusting().error(400, &unsupported(&["2026-07-28"])),
        trusting().status(405),
        trusting().result(200, &initialize_result("1.0")),
    ] {
        let probe = probe.expect_request(DISCOVER).status(400).expect_request(INITIALIZE);
        probe.error(400, &error(-32603)).expect_open_sse(V2025_11_25);
    }
    trusting().status(503).expect_error(ProbeError::HttpStatus(503));
    // The server may have moved from the old transport to the new one.
    let trusting = |policy| {
        HttpScript::with_record(policy, V2024_11_05, TransportKind::HttpSse).expect_open_sse(V2024_11_05)
    };
    trusting(auto_policy())
        .status(404)
        .expect_request(DISCOVER)
        .result(200, &discover_result(&["2026-07-28"]))
        .expect_done();
    trusting(auto_policy())
        .status(404)
        .expect_request(DISCOVER)
        .status(404)
        .expect_request(INITIALIZE)
        .status(404)
        .expect_open_sse(V2025_11_25);
    let probe = trusting(auto_policy().mode(ProbeMode::HandshakeOnly)).status(404).expect_request(INITIALIZE);
    probe.status(404).expect_open_sse(V2025_11_25).status(404).expect_error(ProbeError::HttpStatus(404));
    // With handshakes only there is nothing to probe.
    let only = auto_policy().mode(ProbeMode::HandshakeOnly);
    let probe = HttpScript::with_record(only, V2025_11_25, TransportKind::StreamableHttp).status(406);
    probe.expect_error(ProbeError::HttpStatus(406));
}

/// Any status with any body.
fn outcome() -> impl Strategy<Value = (u16, u8)> {
    let statuses = [200_u16, 202, 301, 400, 401, 403, 404, 405, 406, 429, 500];
    (prop::sample::select(statuses.to_vec()), 0_u8..14)
}

fn policy() -> impl Strategy<Value = ProbePolicy> {
    let modes = [
        ProbeMode::Auto,
        ProbeMode::StatelessOnly,
        ProbeMode::HandshakeOnly,
        ProbeMode::Pin(V2025_06_18),
        ProbeMode::Pin(V2026_07_28),
    ];
    prop::sample::select(modes.to_vec()).prop_map(|mode| auto_policy().mode(mode))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_conversation_ends(
        policy in policy(),
        record in prop::option::of((0_usize..5, any::<bool>())),
        outcomes in prop::collection::vec(outcome(), 30),
    ) {
        let mut script = match record {
            Some((at, old)) => {
                let transport = if old { TransportKind::HttpSse } else { TransportKind::StreamableHttp };
                HttpScript::with_record(policy, Revision::ALL[at], transport)
            }
            None => HttpScript::new(policy),
        };
        let mut outcomes = outcomes.into_iter();
        loop {
            match &script.next {
                HttpProbeStep::Done(_) | HttpProbeStep::Fail(_) => break,
                HttpProbeStep::OpenSse(_) | HttpProbeStep::Send(_) => {
                    if let HttpProbeStep::Send(ProbeRequest::Discover(_)) = script.next {
                        prop_assert!(matches!(policy.mode, ProbeMode::Auto | ProbeMode::StatelessOnly));
                    } else {
                        prop_assert!(!matches!(policy.mode, ProbeMode::StatelessOnly | ProbeMode::Pin(V2026_07_28)));
                    }
                    let Some((status, body)) = outcomes.next() else { panic!("no end: {:?}", script.next) };
                    script = match body {
                        0..=2 => script.status(status),
                        3 => script.result(status, &discover_result(&["2026-07-28"])),
                        4 => script.result(status, &discover_result(&["2025-11-25"])),
                        5 => script.result(status, &initialize_result("2025-06-18")),
                        6 => script.error(status, &unsupported(&["2026-07-28"])),
                        7 => script.error(status, &unsupported(&["2025-06-18", "2025-11-25"])),
                        8 => script.error(status, &unsupported(&["2025-06-18", "2026-07-28"])),
                        9 => script.error(status, &error(-32020)),
                        10 => script.error(status, &error(-32021)),
                        11 => script.error(status, &error(-32601)),
                        12 => script.error(status, &error(-32022)),
                        _ => script.error(status, &error(-32602)),
                    };
                }
            }
        }
    }
}
