//! What a server asks is answered by options, the same in every revision.

use crate::support::{Place, tsugite};

#[test]
fn a_question_is_answered_by_options_in_both_eras() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let words =
            "call demo order --answer name=Kiku --answer planks=3 --answer wood=oak --answer wrapped=yes";
        let ran = tsugite(&format!("{words} --rev {revision}"));
        assert_eq!(
            (ran.err.as_str(), ran.out.as_str()),
            ("", "3 planks of oak for Kiku, wrapped\n"),
            "{revision}"
        );
        // Defaults stand for what is not said.
        let ran = tsugite(&format!("call demo order --answer name=Kiku --rev {revision}"));
        assert_eq!(ran.fine(), "2 planks of cedar for Kiku\n", "{revision}");
    }
}

#[test]
fn a_model_is_spoken_for_and_folders_are_named() {
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
