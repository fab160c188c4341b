//! The table of stdio.

use proptest::prelude::*;

use super::*;
use crate::jsonrpc::RawJson;

/// A probe and what it wants next.
struct Script {
    probe: StdioProbe,
    next: StdioNext,
}

impl Script {
    fn new(policy: Policy) -> Self {
        let (probe, next) = StdioProbe::new(policy);
        Self { probe, next }
    }

    fn trusting(policy: Policy, revision: Revision) -> Self {
        let (probe, next) = StdioProbe::with_verdict(policy, Verdict::new(revision, Transport::Stdio));
        Self { probe, next }
    }

    fn heard(mut self, outcome: StdioOutcome<'_>) -> Self {
        self.next = self.probe.heard(outcome);
        self
    }

    fn result(self, result: &Value) -> Self {
        let result = RawJson::from(result.clone());
        self.heard(StdioOutcome::Result((&result).into()))
    }

    fn error(self, error: &ErrorObject) -> Self {
        self.heard(StdioOutcome::Error(error))
    }

    fn silence(self) -> Self {
        self.heard(StdioOutcome::Silence)
    }

    fn exits(self) -> Self {
        self.heard(StdioOutcome::Exited)
    }

    #[track_caller]
    fn asks(self, ask: Ask) -> Self {
        assert_eq!(self.next, StdioNext::Ask(ask));
        self
    }

    #[track_caller]
    fn restarts(self, ask: Ask) -> Self {
        assert_eq!(self.next, StdioNext::Restart(ask));
        self
    }

    #[track_caller]
    fn settles(&self) -> &Settled {
        match &self.next {
            StdioNext::Settled(settled) => settled,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn fails(self, failure: ProbeFailure) {
        assert_eq!(self.next, StdioNext::Fail(failure));
    }
}

fn refused(error: &ErrorObject) -> ProbeFailure {
    ProbeFailure::Refused(error.clone())
}

#[test]
fn the_first_line_asks_for_what_we_prefer() {
    // STDIO-021, STDIO-025, VER-033
    Script::new(auto()).asks(DISCOVER);
    Script::new(auto().mode(Mode::StatelessOnly)).asks(DISCOVER);
}

#[test]
fn a_handshake_offers_the_newest_and_takes_any_we_speak() {
    // LIFE-007, LIFE-009, LIFE-010: nothing else is asked before the answer.
    let spoken = Policy::new(Revisions::ALL.handshake().without(V2025_11_25));
    for version in ["2025-06-18", "2024-11-05"] {
        let script = Script::new(spoken).asks(Ask::Initialize(V2025_06_18)).result(&initialized(version));
        assert_eq!(handshake(script.settles()).unwrap().as_str(), version);
    }
}

#[test]
fn a_handshake_ends_at_a_revision_we_do_not_speak() {
    // LIFE-014
    for version in ["1.0", "2026-07-28", ""] {
        let script = Script::new(auto().mode(Mode::HandshakeOnly)).result(&initialized(version));
        script.fails(no_common(&[version], Revisions::ALL.handshake()));
    }
}

#[test]
fn a_result_settles_it() {
    // STDIO-022
    let settled = Script::new(auto()).result(&discovered(&["2025-11-25", "2026-07-28"]));
    assert_eq!(stateless(settled.settles()), Some((V2026_07_28, true)));
    assert_eq!(settled.probe.verdict(), Some(Verdict::new(V2026_07_28, Transport::Stdio)));
    Script::new(auto()).result(&discovered(&["2025-06-18"])).asks(Ask::Initialize(V2025_06_18));
    Script::new(auto()).result(&json!({})).asks(INITIALIZE);
}

#[test]
fn unsupported_version_with_a_list_is_answered_with_a_listed_one() {
    // STDIO-023
    let again = || Script::new(auto()).error(&unsupported(&["2026-07-28", "2025-11-25"])).asks(DISCOVER);
    again().result(&discovered(&["2026-07-28"])).settles();
    let wrong = unsupported(&["2026-07-28"]);
    again().error(&wrong).fails(refused(&wrong));
    again().error(&error(-32601)).fails(refused(&error(-32601)));
    again().silence().fails(ProbeFailure::Silent);
    again().exits().fails(ProbeFailure::Exited);
    let mixed = ["2030-01-01", "2025-11-25"];
    Script::new(auto()).error(&unsupported(&mixed)).fails(no_common(&mixed, Revisions::ALL.stateless()));
    for error in unsupported_without_list() {
        Script::new(auto()).error(&error).fails(refused(&error));
    }
    // Only a list with nothing else in it leads to a handshake.
    Script::new(auto()).error(&unsupported(&["2025-03-26"])).asks(Ask::Initialize(V2025_03_26));
}

#[test]
fn header_mismatch_or_a_missing_capability_is_corrected_once() {
    // STDIO-023
    for code in [-32020, -32021] {
        let corrected = || Script::new(auto()).error(&error(code)).asks(DISCOVER);
        corrected().result(&discovered(&["2026-07-28"])).settles();
        corrected().error(&error(code)).fails(refused(&error(code)));
    }
}

#[test]
fn any_other_error_leads_to_initialize_in_the_same_process() {
    // STDIO-024
    for code in [-32601, -32602, -32600, -32700, -32603, -32000, -32002, 0, 1] {
        let probe = Script::new(auto()).error(&error(code)).asks(INITIALIZE);
        let settled = probe.result(&initialized("2025-03-26"));
        assert_eq!(handshake(settled.settles()), Some(V2025_03_26));
        assert_eq!(settled.probe.verdict(), Some(Verdict::new(V2025_03_26, Transport::Stdio)));
    }
}

#[test]
fn silence_leads_to_initialize_in_the_same_process() {
    // STDIO-024
    let probe = || Script::new(auto()).silence().asks(INITIALIZE);
    probe().result(&initialized("2025-11-25")).settles();
    probe().silence().fails(ProbeFailure::Silent);
}

#[test]
fn a_stateless_server_that_was_slow_to_start_is_asked_again() {
    let probe = || Script::new(auto()).silence().error(&unsupported(&["2026-07-28"])).asks(DISCOVER);
    probe().result(&discovered(&["2026-07-28"])).settles();
    probe().silence().fails(ProbeFailure::Silent);
    probe().error(&error(-32601)).fails(refused(&error(-32601)));
    let itself = unsupported(&["2026-07-28"]);
    probe().error(&itself).fails(refused(&itself));
    // One that has answered before has said it all.
    let baffled = Script::new(auto()).error(&error(-32601)).error(&itself);
    baffled.fails(ProbeFailure::NoDiscover(itself));
}

#[test]
fn a_process_that_ends_is_started_again_once_and_hears_initialize_alone() {
    let probe = || Script::new(auto()).exits().restarts(INITIALIZE);
    probe().result(&initialized("2025-11-25")).settles();
    probe().exits().fails(ProbeFailure::Exited);
    // What the question broke may break late.
    for asked in [Script::new(auto()).silence(), Script::new(auto()).error(&error(-32601))] {
        asked.asks(INITIALIZE).exits().restarts(INITIALIZE).exits().fails(ProbeFailure::Exited);
    }
    // Where nothing was asked, the question is not to blame.
    Script::new(auto().mode(Mode::HandshakeOnly)).exits().fails(ProbeFailure::Exited);
}

#[test]
fn a_line_that_is_no_message_is_passed_over() {
    let mut probe = Script::new(auto());
    for _ in 0..100 {
        probe = probe.heard(StdioOutcome::Noise);
        assert_eq!(probe.next, StdioNext::KeepWaiting);
    }
    let probe = probe.silence().asks(INITIALIZE).heard(StdioOutcome::Noise);
    assert_eq!(probe.next, StdioNext::KeepWaiting);
    probe.result(&initialized("2025-11-25")).settles();
}

#[test]
fn initialize_answered_with_a_revision_we_do_not_speak_is_a_failure_naming_both() {
    let ours = Revisions::ALL.handshake();
    for version in ["2026-07-28", "1.0"] {
        let probe = Script::new(auto()).silence().result(&initialized(version));
        probe.fails(no_common(&[version], ours));
    }
    Script::new(auto()).silence().error(&error(-32603)).fails(refused(&error(-32603)));
}

#[test]
fn stateless_only_fails_at_once_with_a_server_that_wants_a_handshake() {
    // VER-033
    let probe = || Script::new(auto().mode(Mode::StatelessOnly)).asks(DISCOVER);
    let wants = || ProbeFailure::WantsHandshake { ours: Revisions::ALL.stateless() };
    probe().error(&error(-32601)).fails(wants());
    probe().silence().fails(wants());
    probe().exits().fails(wants());
}

#[test]
fn neither_a_handshake_alone_nor_a_pinned_revision_is_asked_for() {
    Script::new(auto().mode(Mode::HandshakeOnly)).asks(INITIALIZE);
    let pinned = Script::new(auto().mode(Mode::Pin(V2026_07_28)));
    assert_eq!(stateless(pinned.settles()), Some((V2026_07_28, false)));
    let pinned = || Script::new(auto().mode(Mode::Pin(V2024_11_05))).asks(Ask::Initialize(V2024_11_05));
    pinned().result(&initialized("2024-11-05")).settles();
    let other = pinned().result(&initialized("2025-11-25"));
    other.fails(no_common(&["2025-11-25"], Revisions::NONE.with(V2024_11_05)));
}

#[test]
fn a_verdict_spares_the_probe_and_a_stale_one_is_probed_anew_once() {
    // VER-031
    let mut probe = Script::trusting(auto(), V2026_07_28);
    assert_eq!(stateless(probe.settles()), Some((V2026_07_28, false)));
    assert_eq!(probe.probe.verdict(), Some(Verdict::new(V2026_07_28, Transport::Stdio)));
    assert_eq!(probe.probe.stale(), Some(StdioNext::Ask(DISCOVER)));
    assert_eq!((probe.probe.stale(), probe.probe.verdict()), (None, None));
    probe.silence().asks(INITIALIZE);

    let trusting = || Script::trusting(auto(), V2025_06_18).asks(Ask::Initialize(V2025_06_18));
    let mut settled = trusting().result(&initialized("2025-06-18"));
    settled.settles();
    assert_eq!(settled.probe.stale(), None);
    trusting().error(&error(-32601)).asks(DISCOVER).error(&error(-32601)).asks(INITIALIZE);
    trusting().silence().asks(DISCOVER);
    trusting().exits().restarts(DISCOVER).exits().fails(ProbeFailure::Exited);

    let pinned = auto().mode(Mode::Pin(V2026_07_28));
    assert_eq!(Script::trusting(pinned, V2026_07_28).probe.stale(), None);
    let only = Script::trusting(auto().mode(Mode::HandshakeOnly), V2025_11_25).asks(INITIALIZE);
    only.error(&error(-32603)).fails(refused(&error(-32603)));
    Script::trusting(Policy::new(Revisions::ALL.handshake()), V2026_07_28).asks(INITIALIZE);
    let (_, next) = StdioProbe::with_verdict(auto(), Verdict::new(V2025_11_25, Transport::StreamableHttp));
    assert_eq!(next, StdioNext::Ask(DISCOVER));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_conversation_ends(
        verdict in prop::option::of(0_usize..5),
        outcomes in prop::collection::vec(0_u8..13, 20),
    ) {
        let mut script = match verdict {
            Some(at) => Script::trusting(auto(), Revision::ALL[at]),
            None => Script::new(auto()),
        };
        let mut outcomes = outcomes.into_iter();
        let mut starts = 1;
        loop {
            match &script.next {
                StdioNext::Settled(_) => match script.probe.stale() {
                    Some(next) => script.next = next,
                    None => break,
                },
                StdioNext::Fail(_) => break,
                next => {
                    starts += usize::from(matches!(next, StdioNext::Restart(_)));
                    let Some(outcome) = outcomes.next() else { panic!("no end: {next:?}") };
                    script = match outcome {
                        0..=1 => script.silence(),
                        2..=3 => script.exits(),
                        4 => script.result(&json!({})),
                        5 => script.result(&discovered(&["2025-11-25"])),
                        6 => script.result(&initialized("2025-06-18")),
                        7 => script.error(&unsupported(&["2026-07-28"])),
                        8 => script.error(&unsupported(&["2025-06-18", "2025-11-25"])),
                        9 => script.error(&unsupported(&["2025-06-18", "2026-07-28"])),
                        10 => script.error(&error(-32020)),
                        11 => script.error(&error(-32601)),
                        _ => script.error(&error(-32022)),
                    };
                }
            }
        }
        prop_assert!(starts <= 2);
    }
}
