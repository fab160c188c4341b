//! The table of HTTP.

use proptest::prelude::*;

use super::*;
use crate::jsonrpc::RawJson;

/// A probe and what it wants next.
struct Script {
    probe: HttpProbe,
    next: HttpNext,
}

impl Script {
    fn new(policy: Policy) -> Self {
        let (probe, next) = HttpProbe::new(policy);
        Self { probe, next }
    }

    fn trusting(policy: Policy, revision: Revision, transport: Transport) -> Self {
        let (probe, next) = HttpProbe::with_verdict(policy, Verdict::new(revision, transport));
        Self { probe, next }
    }

    fn result(mut self, status: u16, result: &Value) -> Self {
        let result = RawJson::from(result.clone());
        let body = Body::Result((&result).into());
        self.next = self.probe.heard(HttpOutcome::Answer { status, body });
        self
    }

    fn error(mut self, status: u16, error: &ErrorObject) -> Self {
        self.next = self.probe.heard(HttpOutcome::Answer { status, body: Body::Error(error) });
        self
    }

    /// An answer in which nothing can be read.
    fn status(mut self, status: u16) -> Self {
        self.next = self.probe.heard(HttpOutcome::Answer { status, body: Body::Other });
        self
    }

    fn again(mut self) -> Self {
        self.next = self.probe.again();
        self
    }

    #[track_caller]
    fn asks(self, ask: Ask) -> Self {
        assert_eq!(self.next, HttpNext::Ask(ask));
        self
    }

    #[track_caller]
    fn opens_sse(self, offer: Revision) -> Self {
        assert_eq!(self.next, HttpNext::OpenSse(offer));
        self
    }

    #[track_caller]
    fn settles(&self) -> &Settled {
        match &self.next {
            HttpNext::Settled(settled) => settled,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn fails(self, failure: ProbeFailure) {
        assert_eq!(self.next, HttpNext::Fail(failure));
    }

    #[track_caller]
    fn remembers(&self, revision: Revision, transport: Transport) {
        assert_eq!(self.probe.verdict(), Some(Verdict::new(revision, transport)));
    }
}

fn refused(error: &ErrorObject) -> ProbeFailure {
    ProbeFailure::Refused(error.clone())
}

#[test]
fn a_result_naming_a_stateless_revision_we_speak_settles_it() {
    // HTTP-091
    let probe = Script::new(auto()).asks(DISCOVER);
    let settled = probe.result(200, &discovered(&["2030-01-01", "2025-11-25", "2026-07-28"]));
    assert_eq!(stateless(settled.settles()), Some((V2026_07_28, true)));
    settled.remembers(V2026_07_28, Transport::StreamableHttp);
    let Settled::Stateless { discovered: Some(found), .. } = settled.settles() else { panic!() };
    assert!(found.capabilities.tools.is_some());
}

#[test]
fn a_result_naming_only_handshake_revisions_of_ours_leads_to_initialize_with_the_newest_of_them() {
    let list = ["2024-11-05", "2025-06-18", "2030-01-01"];
    let probe = Script::new(auto()).result(200, &discovered(&list)).asks(Ask::Initialize(V2025_06_18));
    assert_eq!(handshake(probe.result(200, &initialized("2025-06-18")).settles()), Some(V2025_06_18));
    // Nothing of ours.
    Script::new(auto())
        .result(200, &discovered(&["2030-01-01"]))
        .fails(no_common(&["2030-01-01"], Revisions::ALL));
    Script::new(auto()).result(200, &discovered(&[])).fails(no_common(&[], Revisions::ALL));
}

#[test]
fn a_result_without_versions_is_that_of_a_lenient_server_with_a_handshake() {
    for lenient in [
        json!({}),
        json!({"supportedVersions": null}),
        json!({"supportedVersions": "2026-07-28"}),
        json!({"supportedVersions": [1]}),
        json!(null),
        json!([["2026-07-28"]]),
        json!("ok"),
    ] {
        Script::new(auto()).result(200, &lenient).asks(INITIALIZE);
    }
    Script::new(auto()).status(200).asks(INITIALIZE);
    Script::new(auto()).status(202).asks(INITIALIZE);
}

#[test]
fn a_result_that_is_half_of_one_is_a_failure() {
    let half = json!({"supportedVersions": ["2026-07-28"]});
    let probe = Script::new(auto()).result(200, &half);
    assert!(matches!(probe.next, HttpNext::Fail(ProbeFailure::Unreadable(_))), "{:?}", probe.next);
    let mut odd = discovered(&["2026-07-28"]);
    odd["resultType"] = json!("odd");
    let probe = Script::new(auto()).result(200, &odd);
    assert!(matches!(probe.next, HttpNext::Fail(ProbeFailure::Unreadable(_))), "{:?}", probe.next);
}

#[test]
fn unsupported_version_naming_only_stateless_revisions_we_do_not_speak_is_a_failure() {
    // VER-011 the failure, VER-029: never `initialize`.
    let stateless = Revisions::ALL.stateless();
    for list in [&["2030-01-01"][..], &["2030-01-01", "draft"], &["2030-01-01", "2025-11-25"]] {
        Script::new(auto()).error(400, &unsupported(list)).fails(no_common(list, stateless));
    }
    Script::new(auto()).error(400, &unsupported(&[])).fails(no_common(&[], Revisions::ALL));
}

#[test]
fn unsupported_version_without_a_list_that_can_be_read_is_a_failure() {
    for error in unsupported_without_list() {
        Script::new(auto()).error(400, &error).fails(refused(&error));
    }
}

#[test]
fn unsupported_version_naming_one_we_speak_is_tried_again_once_even_if_it_is_what_we_sent() {
    // VER-011, VER-029, HTTP-092
    let again = || Script::new(auto()).error(400, &unsupported(&["2025-11-25", "2026-07-28"])).asks(DISCOVER);
    let settled = again().result(200, &discovered(&["2026-07-28"]));
    assert_eq!(stateless(settled.settles()), Some((V2026_07_28, true)));
    let error = unsupported(&["2026-07-28"]);
    again().error(400, &error).fails(refused(&error));
    // Whatever the status says.
    Script::new(auto()).error(200, &error).asks(DISCOVER);
}

#[test]
fn unsupported_version_naming_only_handshake_revisions_leads_to_initialize() {
    let list = ["2024-11-05", "2025-03-26"];
    Script::new(auto()).error(400, &unsupported(&list)).asks(Ask::Initialize(V2025_03_26));
    let ours = Revisions::ALL.without(V2024_11_05);
    Script::new(Policy::new(ours))
        .error(400, &unsupported(&["2024-11-05"]))
        .fails(no_common(&["2024-11-05"], ours));
}

#[test]
fn header_mismatch_or_a_missing_capability_is_corrected_once_and_then_surfaced() {
    // VER-029, HTTP-092
    for code in [-32020, -32021] {
        let wrong = error(code).data(&json!({"requiredCapabilities": {"sampling": {}}}));
        let corrected = || Script::new(auto()).error(400, &wrong).asks(DISCOVER);
        assert!(stateless(corrected().result(200, &discovered(&["2026-07-28"])).settles()).is_some());
        corrected().error(400, &wrong).fails(refused(&wrong));
        corrected().status(404).fails(ProbeFailure::Status(404));
        // A version is another matter than what was corrected.
        let switched = corrected().error(400, &unsupported(&["2026-07-28"])).asks(DISCOVER);
        switched.error(400, &wrong).fails(refused(&wrong));
    }
}

#[test]
fn once_a_server_has_shown_that_it_is_stateless_nothing_leads_to_initialize() {
    // VER-029
    let known = || Script::new(auto()).error(400, &unsupported(&["2026-07-28"])).asks(DISCOVER);
    for (status, code) in [(404, -32601), (400, -32602), (200, -32000)] {
        known().error(status, &error(code)).fails(refused(&error(code)));
    }
    known().status(404).fails(ProbeFailure::Status(404));
    for mut probe in [known().status(200), known().result(200, &json!({}))] {
        assert!(matches!(probe.next, HttpNext::Fail(ProbeFailure::Unreadable(_))), "{:?}", probe.next);
        // Nor after it is settled.
        probe = probe.result(200, &discovered(&["2026-07-28"]));
        probe.settles();
        probe.status(404).fails(ProbeFailure::Status(404));
    }
    let settled = Script::new(auto()).result(200, &discovered(&["2026-07-28"]));
    settled.status(404).fails(ProbeFailure::Status(404));
}

#[test]
fn invalid_params_in_a_400_lead_to_initialize() {
    // HTTP-092: it proves nothing.
    Script::new(auto()).error(400, &error(-32602)).asks(INITIALIZE);
}

#[test]
fn method_not_found_in_a_404_leads_to_initialize_but_never_to_http_sse() {
    let probe = || Script::new(auto()).error(404, &error(-32601)).asks(INITIALIZE);
    probe().result(200, &initialized("2025-11-25")).settles();
    for status in [400, 404, 405] {
        probe().status(status).fails(ProbeFailure::Status(status));
    }
    for (status, code) in [(404, -32601), (400, -32020), (400, -32021), (400, -32022)] {
        probe().error(status, &error(code)).fails(ProbeFailure::NoDiscover(error(code)));
    }
    let names_itself = unsupported(&["2026-07-28"]);
    probe().error(400, &names_itself).fails(ProbeFailure::NoDiscover(names_itself.clone()));
    probe().error(400, &error(-32602)).fails(refused(&error(-32602)));
}

#[test]
fn any_other_error_in_a_200_leads_to_initialize_but_never_to_http_sse() {
    for code in [-32601, -32602, -32000, -32001, -32603, 0, 7] {
        let probe = Script::new(auto()).error(200, &error(code)).asks(INITIALIZE);
        probe.status(404).fails(ProbeFailure::Status(404));
    }
}

#[test]
fn a_4xx_that_says_nothing_leads_to_initialize_and_then_to_http_sse() {
    // HTTP-093, HSSE-009, HSSE-010
    for status in [400, 402, 404, 405, 406, 410, 415, 418, 499] {
        Script::new(auto()).status(status).asks(INITIALIZE);
        Script::new(auto()).error(status, &error(-32000)).asks(INITIALIZE);
        Script::new(auto()).result(status, &discovered(&["2026-07-28"])).asks(INITIALIZE);
    }
    let probe = || Script::new(auto()).status(404).asks(INITIALIZE);
    let streamable = probe().result(200, &initialized("2025-06-18"));
    assert_eq!(handshake(streamable.settles()), Some(V2025_06_18));
    streamable.remembers(V2025_06_18, Transport::StreamableHttp);
    assert_eq!({ streamable }.probe.stale(), None);
    for status in [400, 404, 405] {
        let old = probe().status(status).opens_sse(V2025_11_25).result(200, &initialized("2024-11-05"));
        assert_eq!(handshake(old.settles()), Some(V2024_11_05));
        old.remembers(V2024_11_05, Transport::HttpSse);
        probe().error(status, &error(-32000)).opens_sse(V2025_11_25);
    }
    // The number is no word of the stateless era without its status.
    let probe = || Script::new(auto()).error(400, &error(-32601)).asks(INITIALIZE);
    probe().error(400, &error(-32601)).opens_sse(V2025_11_25);
    for status in [406, 410, 415] {
        probe().status(status).fails(ProbeFailure::Status(status));
    }
    // Words of the stateless era.
    for (status, code) in [(400, -32020), (400, -32021), (400, -32022), (404, -32601)] {
        probe().error(status, &error(code)).fails(ProbeFailure::NoDiscover(error(code)));
    }
}

#[test]
fn without_http_sse_the_failure_is_what_was_said_to_initialize() {
    let wrong = error(-32000);
    for status in [200, 400, 404, 405, 406] {
        let opened = Script::new(auto()).status(404).error(400, &wrong).opens_sse(V2025_11_25);
        opened.status(status).fails(refused(&wrong));
    }
    let opened = || Script::new(auto()).status(404).status(405).opens_sse(V2025_11_25);
    opened().status(404).fails(ProbeFailure::Status(405));
    opened().status(502).fails(ProbeFailure::Status(502));
    // The stream is there, but not what we need.
    opened().error(200, &error(-32603)).fails(refused(&error(-32603)));
    opened().result(200, &initialized("1.0")).fails(no_common(&["1.0"], Revisions::ALL.handshake()));
    opened().error(200, &unsupported(&["2024-11-05"])).opens_sse(V2024_11_05);
}

#[test]
fn unauthorized_says_nothing_of_the_era_and_the_question_is_asked_again() {
    let mut probe = Script::new(auto());
    for _ in 0..3 {
        probe = probe.error(401, &unsupported(&["2025-11-25"]));
        assert_eq!(probe.next, HttpNext::Authorize);
        probe = probe.again().asks(DISCOVER);
    }
    probe.status(401).fails(ProbeFailure::Status(401));
    // So it is with every other question.
    let probe = Script::new(auto()).status(400).status(401);
    assert_eq!(probe.next, HttpNext::Authorize);
    let probe = probe.again().asks(INITIALIZE).status(404).opens_sse(V2025_11_25).status(401);
    assert_eq!(probe.next, HttpNext::Authorize);
    probe.again().opens_sse(V2025_11_25);
}

#[test]
fn forbidden_says_nothing_of_the_era_and_asks_for_more_rights() {
    let mut probe = Script::new(auto()).status(401).again();
    for _ in 0..2 {
        probe = probe.status(403);
        assert_eq!(probe.next, HttpNext::StepUp);
        probe = probe.again().asks(DISCOVER);
    }
    probe.status(403).fails(ProbeFailure::Status(403));
}

#[test]
fn too_many_requests_say_nothing_of_the_era_and_are_waited_out_three_times() {
    let mut probe = Script::new(auto());
    for _ in 0..3 {
        probe = probe.error(429, &error(-32000));
        assert_eq!(probe.next, HttpNext::Wait);
        probe = probe.again().asks(DISCOVER);
    }
    probe.status(429).fails(ProbeFailure::Status(429));
}

#[test]
fn a_server_error_silence_or_a_redirect_is_a_failure_and_never_a_handshake() {
    for status in [500, 502, 503, 504, 599, 301, 304, 307, 308, 100, 0, 600] {
        Script::new(auto()).status(status).fails(ProbeFailure::Status(status));
        Script::new(auto()).error(status, &error(-32601)).fails(ProbeFailure::Status(status));
        Script::new(auto()).status(400).status(status).fails(ProbeFailure::Status(status));
    }
    for mut probe in [Script::new(auto()), Script::new(auto()).status(400)] {
        assert_eq!(probe.probe.heard(HttpOutcome::Nothing), HttpNext::Fail(ProbeFailure::Silent));
    }
}

#[test]
fn initialize_answered_with_a_revision_we_do_not_speak_is_a_failure_naming_both() {
    let ours = Revisions::ALL.without(V2024_11_05);
    for version in ["2024-11-05", "2026-07-28", "1.0", ""] {
        let probe = Script::new(Policy::new(ours)).status(400).result(200, &initialized(version));
        probe.fails(no_common(&[version], ours.handshake()));
    }
    for unreadable in
        [json!({}), json!({"protocolVersion": 1}), json!({"protocolVersion": "2025-11-25"}), json!(7)]
    {
        let probe = Script::new(auto()).status(400).result(200, &unreadable);
        assert!(matches!(probe.next, HttpNext::Fail(ProbeFailure::Unreadable(_))), "{:?}", probe.next);
    }
    let probe = Script::new(auto()).status(400).status(202);
    assert!(matches!(probe.next, HttpNext::Fail(ProbeFailure::Unreadable(_))), "{:?}", probe.next);
}

#[test]
fn initialize_refused_with_a_list_is_sent_again_with_one_of_it_once() {
    let wrong = error(-32602).data(&json!({"supported": ["2024-11-05", "2030-01-01"]}));
    let again = || Script::new(auto()).status(400).error(200, &wrong).asks(Ask::Initialize(V2024_11_05));
    assert_eq!(handshake(again().result(200, &initialized("2024-11-05")).settles()), Some(V2024_11_05));
    again().error(200, &wrong).fails(refused(&wrong));
    let strange = error(-32602).data(&json!({"supported": ["1.0"]}));
    Script::new(auto()).status(400).error(400, &strange).fails(no_common(&["1.0"], Revisions::ALL));
}

#[test]
fn stateless_only_asks_but_never_sends_initialize() {
    let policy = auto().mode(Mode::StatelessOnly);
    let ours = Revisions::ALL.stateless();
    let probe = || Script::new(policy).asks(DISCOVER);
    assert!(stateless(probe().result(200, &discovered(&["2026-07-28"])).settles()).is_some());
    let wants = || ProbeFailure::WantsHandshake { ours };
    probe().status(400).fails(wants());
    probe().error(404, &error(-32601)).fails(wants());
    probe().error(200, &error(-32602)).fails(wants());
    probe().result(200, &json!({})).fails(wants());
    probe().result(200, &discovered(&["2025-11-25"])).fails(no_common(&["2025-11-25"], ours));
    probe().error(400, &unsupported(&["2025-11-25"])).fails(no_common(&["2025-11-25"], ours));
}

#[test]
fn handshake_only_never_asks() {
    // HSSE-009
    let policy = auto().mode(Mode::HandshakeOnly);
    for policy in [policy, Policy::new(Revisions::ALL.handshake())] {
        let probe = || Script::new(policy).asks(INITIALIZE);
        probe().status(404).opens_sse(V2025_11_25);
        probe().error(400, &error(-32000)).opens_sse(V2025_11_25);
        // HSSE-010: a stateless server is not looked for elsewhere.
        probe().error(404, &error(-32601)).fails(refused(&error(-32601)));
        probe().error(400, &error(-32020)).fails(refused(&error(-32020)));
        let ours = Revisions::ALL.handshake();
        probe().error(400, &unsupported(&["2026-07-28"])).fails(no_common(&["2026-07-28"], ours));
    }
}

#[test]
fn a_pinned_revision_is_never_asked_for() {
    // VER-015
    let probe = Script::new(auto().mode(Mode::Pin(V2026_07_28)));
    assert_eq!(stateless(probe.settles()), Some((V2026_07_28, false)));
    assert_eq!(probe.probe.verdict(), None);
    for revision in Revisions::ALL.handshake().newest_first() {
        let probe = || Script::new(auto().mode(Mode::Pin(revision))).asks(Ask::Initialize(revision));
        assert_eq!(handshake(probe().result(200, &initialized(revision.as_str())).settles()), Some(revision));
        for other in Revisions::ALL.without(revision).newest_first() {
            let only = Revisions::NONE.with(revision);
            probe().result(200, &initialized(other.as_str())).fails(no_common(&[other.as_str()], only));
        }
    }
}

#[test]
fn nothing_to_speak_is_a_failure() {
    let ours = Revisions::ALL.handshake();
    for policy in [
        Policy::new(Revisions::NONE),
        Policy::new(ours).mode(Mode::StatelessOnly),
        Policy::new(ours).mode(Mode::Pin(V2026_07_28)),
    ] {
        Script::new(policy).fails(ProbeFailure::NothingSpoken);
    }
}

#[test]
fn a_verdict_spares_the_probe() {
    // VER-031
    let probe = Script::trusting(auto(), V2026_07_28, Transport::StreamableHttp);
    assert_eq!(stateless(probe.settles()), Some((V2026_07_28, false)));
    probe.remembers(V2026_07_28, Transport::StreamableHttp);
    let probe =
        Script::trusting(auto(), V2025_06_18, Transport::StreamableHttp).asks(Ask::Initialize(V2025_06_18));
    let mut settled = probe.result(200, &initialized("2025-06-18"));
    settled.remembers(V2025_06_18, Transport::StreamableHttp);
    assert_eq!(settled.probe.stale(), None);
    let probe = Script::trusting(auto(), V2024_11_05, Transport::HttpSse).opens_sse(V2024_11_05);
    probe.result(200, &initialized("2024-11-05")).remembers(V2024_11_05, Transport::HttpSse);
}

#[test]
fn a_verdict_that_cannot_be_does_not_count() {
    Script::trusting(auto(), V2026_07_28, Transport::HttpSse).asks(DISCOVER);
    Script::trusting(auto(), V2026_07_28, Transport::Stdio).asks(DISCOVER);
    Script::trusting(auto(), V2025_11_25, Transport::Stdio).asks(DISCOVER);
    let older = Policy::new(Revisions::ALL.without(V2026_07_28));
    Script::trusting(older, V2026_07_28, Transport::StreamableHttp).asks(INITIALIZE);
    let pinned = auto().mode(Mode::Pin(V2025_06_18));
    Script::trusting(pinned, V2025_11_25, Transport::StreamableHttp).asks(Ask::Initialize(V2025_06_18));
    assert_eq!(Script::trusting(auto(), V2026_07_28, Transport::HttpSse).probe.stale(), None);
}

#[test]
fn a_stale_stateless_verdict_is_probed_anew_once() {
    // VER-031
    let mut probe = Script::trusting(auto(), V2026_07_28, Transport::StreamableHttp);
    assert_eq!(probe.probe.stale(), Some(HttpNext::Ask(DISCOVER)));
    assert_eq!((probe.probe.stale(), probe.probe.verdict()), (None, None));
    let mut settled = probe.status(400).asks(INITIALIZE).result(200, &initialized("2025-11-25"));
    settled.remembers(V2025_11_25, Transport::StreamableHttp);
    assert_eq!(settled.probe.stale(), None);
    // What was pinned is not to be found out.
    let pinned = auto().mode(Mode::Pin(V2026_07_28));
    assert_eq!(Script::trusting(pinned, V2026_07_28, Transport::StreamableHttp).probe.stale(), None);
}

#[test]
fn a_stale_handshake_verdict_is_probed_anew_once() {
    let trusting = || Script::trusting(auto(), V2025_11_25, Transport::StreamableHttp).asks(INITIALIZE);
    for probe in [
        trusting().error(404, &error(-32601)),
        trusting().error(400, &unsupported(&["2026-07-28"])),
        trusting().status(405),
        trusting().result(200, &initialized("1.0")),
    ] {
        let probe = probe.asks(DISCOVER).status(400).asks(INITIALIZE);
        probe.error(400, &error(-32603)).opens_sse(V2025_11_25);
    }
    trusting().status(503).fails(ProbeFailure::Status(503));
    // The old transport may have made way for the new one.
    let trusting = |policy| Script::trusting(policy, V2024_11_05, Transport::HttpSse).opens_sse(V2024_11_05);
    trusting(auto()).status(404).asks(DISCOVER).result(200, &discovered(&["2026-07-28"])).settles();
    trusting(auto())
        .status(404)
        .asks(DISCOVER)
        .status(404)
        .asks(INITIALIZE)
        .status(404)
        .opens_sse(V2025_11_25);
    let probe = trusting(auto().mode(Mode::HandshakeOnly)).status(404).asks(INITIALIZE);
    probe.status(404).opens_sse(V2025_11_25).status(404).fails(ProbeFailure::Status(404));
    // Without anything else to ask there is nothing to find out.
    let only = auto().mode(Mode::HandshakeOnly);
    let probe = Script::trusting(only, V2025_11_25, Transport::StreamableHttp).status(406);
    probe.fails(ProbeFailure::Status(406));
}

/// Any status with any body.
fn outcome() -> impl Strategy<Value = (u16, u8)> {
    let statuses = [200_u16, 202, 301, 400, 401, 403, 404, 405, 406, 429, 500];
    (prop::sample::select(statuses.to_vec()), 0_u8..14)
}

fn policy() -> impl Strategy<Value = Policy> {
    let modes = [
        Mode::Auto,
        Mode::StatelessOnly,
        Mode::HandshakeOnly,
        Mode::Pin(V2025_06_18),
        Mode::Pin(V2026_07_28),
    ];
    prop::sample::select(modes.to_vec()).prop_map(|mode| auto().mode(mode))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_conversation_ends(
        policy in policy(),
        verdict in prop::option::of((0_usize..5, any::<bool>())),
        outcomes in prop::collection::vec(outcome(), 30),
    ) {
        let mut script = match verdict {
            Some((at, old)) => {
                let transport = if old { Transport::HttpSse } else { Transport::StreamableHttp };
                Script::trusting(policy, Revision::ALL[at], transport)
            }
            None => Script::new(policy),
        };
        let mut outcomes = outcomes.into_iter();
        loop {
            match &script.next {
                HttpNext::Settled(_) => match script.probe.stale() {
                    Some(next) => script.next = next,
                    None => break,
                },
                HttpNext::Fail(_) => break,
                HttpNext::Authorize | HttpNext::StepUp | HttpNext::Wait => script = script.again(),
                HttpNext::OpenSse(_) | HttpNext::Ask(_) => {
                    if let HttpNext::Ask(Ask::Discover(_)) = script.next {
                        prop_assert!(matches!(policy.mode, Mode::Auto | Mode::StatelessOnly));
                    } else {
                        prop_assert!(!matches!(policy.mode, Mode::StatelessOnly | Mode::Pin(V2026_07_28)));
                    }
                    let Some((status, body)) = outcomes.next() else { panic!("no end: {:?}", script.next) };
                    script = match body {
                        0..=2 => script.status(status),
                        3 => script.result(status, &discovered(&["2026-07-28"])),
                        4 => script.result(status, &discovered(&["2025-11-25"])),
                        5 => script.result(status, &initialized("2025-06-18")),
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
