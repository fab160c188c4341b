//! What a server asks is answered by options, and declined where nobody can be asked.

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
fn a_question_without_a_terminal_is_declined_and_says_what_would_answer() {
    for revision in ["2025-06-18", "2026-07-28"] {
        let ran = tsugite(&format!("call demo order --rev {revision}"));
        assert_eq!(ran.out, "no planks then\n", "{revision}");
        let expected = "note: the server asks: What shall it be?; declined, as there is no terminal. \
                        --answer name=… would answer.\n";
        assert_eq!(ran.err, expected, "{revision}");
    }
}

#[test]
fn an_answer_that_does_not_fit_is_a_mistake_of_the_caller() {
    for revision in ["2025-11-25", "2026-07-28"] {
        let err = tsugite(&format!("call demo order --answer name=K --answer planks=13 --rev {revision}"));
        assert_eq!(err.code, 1, "{err:?}");
        assert!(err.err.contains("--answer planks=13: expected at most 12, got 13"), "{err:?}");
    }
}

#[test]
fn an_answer_nobody_asked_for_is_noted() {
    let ran = tsugite("call demo order --answer name=Kiku --answer plank=3");
    assert_eq!(ran.out, "2 planks of cedar for Kiku\n");
    assert_eq!(ran.err, "note: the server did not ask for `plank`; did you mean `planks`?\n");
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
    let err = tsugite("call demo summarize text=long").failed(3);
    assert!(err.contains("try   --sample TEXT answers for a model"), "{err}");
}
