//! Answers to server requests from options, the same in every revision.

use serde_json::{Value, json};

use crate::support::{Place, answering, tsugite};

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

/// A server that offers a tool only to clients with the capability it needs. Returns its URL.
fn picky() -> String {
    let mut tools = Value::Null;
    answering(move |request| match request["method"].as_str() {
        Some("initialize") => {
            let declared = &request["params"]["capabilities"];
            let needed =
                ["sampling", "elicitation", "roots"].into_iter().filter(|name| !declared[*name].is_null());
            let tool = |name| json!({"name": format!("needs_{name}"), "inputSchema": {"type": "object"}});
            tools = needed.map(tool).collect();
            let info = json!({"name": "picky", "version": "1"});
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info})
        }
        Some("tools/list") => json!({"tools": tools}),
        _ => json!({"content": [{"type": "text", "text": "called"}]}),
    })
}

#[test]
fn list_shows_tools_that_need_a_capability() {
    let url = picky();
    let run = |words: &str| tsugite(&format!("{words} --rev 2025-11-25")).fine();
    let list = format!("list {url}");
    assert_eq!(run(&list), "tools\n  needs_sampling()\n  needs_elicitation()\n  needs_roots()\n");
    assert_eq!(run(&format!("call {url} needs_sampling")), "called\n");
    let listed: Value = serde_json::from_str(&run(&format!("{list} --json"))).unwrap();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 3, "{listed}");
}

#[test]
fn every_verb_declares_the_same_capabilities() {
    let place = Place::new();
    let declared = |words: &str| {
        let trace = place.path.join("trace.jsonl");
        let words = format!("{words} --rev 2025-11-25 --trace {}", trace.display());
        place.run(words.split(' ')).fine();
        let first = std::fs::read_to_string(trace).unwrap().lines().next().unwrap().to_owned();
        let first: Value = serde_json::from_str(&first).unwrap();
        first["message"]["params"]["capabilities"].clone()
    };
    let all = declared("call demo add a=1 b=2");
    assert!(all["sampling"].is_object() && all["roots"].is_object(), "{all}");
    assert!(all["elicitation"]["url"].is_object() && all["elicitation"]["form"].is_object(), "{all}");
    let with_options = "call demo summarize text=x --sample y --root .";
    for words in [with_options, "list demo", "info demo", "ping demo", "complete demo review language r"] {
        assert_eq!(declared(words), all, "{words}");
    }
}
