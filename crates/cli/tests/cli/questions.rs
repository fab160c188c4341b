//! Answers to server requests from options, the same in every revision.

use crate::support::{Place, tsugite};

#[test]
fn options_answer_a_form_in_both_eras() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let words =
            "call demo order --answer name=Kiku --answer planks=3 --answer wood=oak --answer wrapped=yes";
        let ran = tsugite(&format!("{words} --rev {revision}"));
        assert_eq!(
            (ran.err.as_str(), ran.out.as_str()),
            ("", "3 planks of oak for Kiku, wrapped\n"),
            "{revision}"
        );
        // Defaults apply to fields without an answer.
        let ran = tsugite(&format!("call demo order --answer name=Kiku --rev {revision}"));
        assert_eq!(ran.fine(), "2 planks of cedar for Kiku\n", "{revision}");
    }
}

#[test]
fn options_answer_sampling_and_roots() {
    for revision in ["2024-11-05", "2025-11-25", "2026-07-28"] {
        let place = Place::new();
        let run = |words: &[&str]| {
            place.run(["call", "demo", "--rev", revision].iter().chain(words).collect::<Vec<_>>())
        };
        assert_eq!(run(&["summarize", "text=long", "--sample", "short"]).fine(), "short\n", "{revision}");
        let roots = run(&["places", "--root", "."]).fine();
        assert!(roots.starts_with("[\"file:///"), "{revision}: {roots}");
    }
}
