//! Every verb against the demo server, on every transport and revision.

use serde_json::{Value, json};

use crate::support::{Place, Served, TSUGITE, tsugite};

const LIST: &str = "\
tools
  add(a: integer, b: integer) → integer
      Adds two numbers.
  measure(text: string) → object · Measure a text
      Measures a text, and returns structured content.
  count(to?: integer = 5, pause_ms?: integer = 200)
      Counts, and reports progress.
  order()
      Takes an order: asks the user for the details.
  visit()
      Asks the user to visit a web page.
  summarize(text: string)
      Summarizes a text in one sentence, by asking the client's model.
  places() → string[]
      Lists the client's roots.
  chatter()
      Logs a message on each of five levels.
  picture(size?: integer = 64)
      Draws a joint of two timbers.
  sound(hz?: integer = 440)
      Returns a tone of half a second.
  links()
      Returns a link to a resource, and embeds another.
  touch() → integer
      Increments the counter, and notifies the subscribers of `demo://counter`.
  toggle()
      Adds the tool `surprise`, or removes it again: the list of tools changes.
  wait(seconds?: integer = 60)
      Waits, to test timeouts and cancellation.
  fail(why?: string = \"failed as requested\")
      Fails with the given message.
resources
  demo://motto  motto, text/plain
  demo://logo  logo, image/png
  demo://counter  counter, text/plain
      The number of calls of `touch`.
templates
  demo://cities/{country}/{city}  city, text/plain
      A fact about a city.
prompts
  review(code, language?)
      Asks for a review.
";

const REVISIONS: [&str; 6] = ["auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Returns the demo server on each transport: the words before and after the rest.
fn transports(served: &Served) -> [(Vec<&str>, Vec<&str>); 3] {
    [
        (vec!["demo"], vec![]),
        (vec![served.url.as_str()], vec![]),
        (vec![], vec!["--", TSUGITE, "serve", "--stdio"]),
    ]
}

#[test]
fn verbs_work_on_every_transport_and_revision() {
    let (served, place) = (Served::start(), Place::new());
    for (before, after) in transports(&served) {
        for revision in REVISIONS {
            let run = |verb: &str, words: &[&str]| {
                let begin = [verb, "--rev", revision];
                let words = begin.iter().chain(&before).chain(words).chain(&after);
                place.run(words.copied().collect::<Vec<_>>()).fine()
            };
            assert_eq!(run("call", &["add", "a=1", "b=2"]), "3\n", "{before:?} {revision}");
            assert_eq!(run("read", &["demo://motto"]), "Measure twice, cut once.", "{before:?} {revision}");
            assert_eq!(
                run("prompt", &["review", "code=x"]),
                "user: Review this code: x\n",
                "{before:?} {revision}"
            );
            assert_eq!(
                run("complete", &["review", "language", "r"]),
                "ruby\nrust\n",
                "{before:?} {revision}"
            );
            if revision == "auto" {
                assert_eq!(run("list", &[]), LIST, "{before:?}");
                assert!(run("ping", &[]).starts_with("server/discover answered in "), "{before:?}");
            }
        }
    }
}

#[test]
fn http_sse_is_used_on_request() {
    let served = Served::start();
    let old = served.url.replace("/mcp", "/sse");
    let info: Value =
        serde_json::from_str(&tsugite(&format!("info {old} --transport sse --json")).fine()).unwrap();
    assert_eq!(info["transport"], "http+sse");
    assert_eq!(tsugite(&format!("call {old} --transport sse add a=1 b=2")).fine(), "3\n");
    let new: Value = serde_json::from_str(&tsugite(&format!("info {} --json", served.url)).fine()).unwrap();
    assert_eq!(new["transport"], "streamable-http");
    // The URL of an HTTP+SSE stream does not accept Streamable HTTP.
    let err = tsugite(&format!("info {old} --transport http")).failed(2);
    assert!(err.contains("step  http"), "{err}");
}

#[test]
fn results_as_json_are_one_line_each() {
    let on = |words: &str| tsugite(&format!("{words} --rev 2025-11-25 --json")).fine();
    assert_eq!(on("call demo add a=1 b=2"), "{\"content\":[{\"type\":\"text\",\"text\":\"3\"}]}\n");
    assert_eq!(
        on("read demo demo://motto"),
        "{\"contents\":[{\"uri\":\"demo://motto\",\"mimeType\":\"text/plain\",\"text\":\"Measure twice, cut once.\"}]}\n"
    );
    assert_eq!(
        on("prompt demo review code=x"),
        "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"Review this code: x\"}}],\
         \"description\":\"Asks for a review.\"}\n"
    );
    assert_eq!(
        on("complete demo review language r"),
        "{\"completion\":{\"values\":[\"ruby\",\"rust\"],\"total\":2,\"hasMore\":false}}\n"
    );
    let ping: Value = serde_json::from_str(&on("ping demo")).unwrap();
    assert_eq!((&ping["method"], &ping["revision"]), (&json!("ping"), &json!("2025-11-25")));
    assert!(ping["ms"].is_number(), "{ping}");
}

#[test]
fn json_object_gives_all_arguments() {
    let place = Place::new();
    assert_eq!(place.run(["call", "demo", "add", r#"{"a":1,"b":2}"#]).fine(), "3\n");
    assert_eq!(place.run(["call", "demo", "add", r#"{"a":1,"b":2}"#, "b=5"]).fine(), "6\n");
    let words = ["prompt", "demo", "review", r#"{"code":"x"}"#];
    assert_eq!(place.run(words).fine(), "user: Review this code: x\n");
    let err = place.run(["call", "demo", "add", r#"{"a":1,b:2}"#]).failed(1);
    assert!(err.starts_with(r#"error: {"a":1,b:2} is not a JSON object: "#), "{err}");
    assert!(err.contains("step  arguments") && err.contains("single quotes"), "{err}");
    let err = place.run(["call", "demo", "add", "{", "--json"]).failed(1);
    assert!(
        err.starts_with(r#"{"error":{"exit":1,"step":"arguments","message":"{ is not a JSON object"#),
        "{err}"
    );
}

#[test]
fn info_as_json_is_the_same_in_every_revision() {
    for revision in &REVISIONS[1..] {
        let info: Value =
            serde_json::from_str(&tsugite(&format!("info demo --json --rev {revision}")).fine()).unwrap();
        let keys: Vec<&String> = info.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["revision", "transport", "server", "capabilities", "instructions", "timings"]);
        assert_eq!((&info["revision"], &info["server"]["name"]), (&json!(revision), &json!("tsugite-demo")));
        assert_eq!(info["capabilities"]["tools"]["listChanged"], true);
    }
}

#[test]
fn verbose_requests_debug_logs() {
    assert!(tsugite("call demo chatter -v").err.contains("[debug] workshop: sharpening\n"));
}

#[test]
fn images_audio_and_bytes_are_saved() {
    let place = Place::new();
    let read = |name: &str| std::fs::read(place.path.join(name)).unwrap();
    assert_eq!(
        place.run(["call", "demo", "picture", "size=8", "-o", "a.png"]).fine(),
        "(image, image/png, 268 bytes; saved as a.png)\n"
    );
    assert!(read("a.png").starts_with(b"\x89PNG"));
    place.run(["call", "demo", "sound", "-o", "out/"]).fine();
    assert!(read("out/sound-1.wav").starts_with(b"RIFF"));
    let output = place.run(["call", "demo", "sound"]).fine();
    assert_eq!(output, "(audio, audio/wav, 8044 bytes; -o FILE saves it)\n");
    place.run(["read", "demo", "demo://logo", "-o", "logo.png"]).fine();
    assert!(read("logo.png").starts_with(b"\x89PNG"));
    place.run(["read", "demo", "demo://motto", "-o", "motto.txt"]).fine();
    assert_eq!(read("motto.txt"), b"Measure twice, cut once.");
    let json = place.run(["call", "demo", "picture", "size=8", "-o", "b.png", "--json"]).fine();
    assert!(json.contains("\"type\":\"image\""), "{json}");
    assert_eq!(read("b.png"), read("a.png"));
    let links = place.run(["call", "demo", "links"]).fine();
    assert_eq!(links, "Two things:\n→ demo://logo (logo)\nMeasure twice, cut once.\n");
}

#[test]
fn trace_records_messages_in_both_directions() {
    let served = Served::start();
    for (before, after) in transports(&served) {
        let place = Place::new();
        let words =
            ["call"].iter().chain(&before).chain(&["add", "a=1", "b=2", "--trace", "t.jsonl"]).chain(&after);
        place.run(words.copied().collect::<Vec<_>>()).fine();
        let text = std::fs::read_to_string(place.path.join("t.jsonl")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let call = lines.iter().find(|line| line["message"]["method"] == "tools/call").unwrap();
        assert_eq!(call["direction"], "sent");
        assert!(call["ms"].is_number());
        let answers = lines.iter().filter(|line| line["direction"] == "received");
        let answers: Vec<_> = answers.filter(|line| line["message"]["id"] == call["message"]["id"]).collect();
        assert_eq!(answers.len(), 1, "{text}");
        assert_eq!(answers[0]["message"]["result"]["structuredContent"], 3);
    }
}
