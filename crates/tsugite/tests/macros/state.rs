//! `State<T>` in handlers and completers, and what a server without it says.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::server::{CompletionRequest, ListKind};
use tsugite::transport::memory;

use crate::{Request, answer, assert_twins, call};

#[derive(Clone)]
struct Titles(Vec<&'static str>);

impl Titles {
    fn beginning_with(&self, text: &str) -> Vec<String> {
        self.0.iter().filter(|title| title.starts_with(text)).map(|title| (*title).to_owned()).collect()
    }
}

async fn titles(request: CompletionRequest, State(titles): State<Titles>) -> Vec<String> {
    titles.beginning_with(&request.value)
}

/// Plans the work on a note.
#[prompt]
async fn plan(#[arg(complete = titles)] title: String) -> String {
    format!("Plan {title}.")
}

/// Finds notes.
#[tool]
async fn find(text: String, State(titles): State<Titles>) -> Vec<String> {
    titles.beginning_with(&text)
}

/// Counts notes.
#[tool]
async fn count(cx: Context) -> Result<usize, HandlerError> {
    Ok(cx.state::<Titles>()?.0.len())
}

fn complete(prompt: &str) -> Request {
    let reference = json!({"type": "ref/prompt", "name": prompt});
    ("completion/complete", json!({"ref": reference, "argument": {"name": "title", "value": "b"}}))
}

fn completed(answer: &Value) -> &Value {
    &answer["result"]["completion"]["values"]
}

fn notes() -> Server {
    Server::new("notes", "1").state(Titles(vec!["apple", "bread", "butter"]))
}

#[tokio::test]
async fn completer_extracts_state() {
    let by_hand = Prompt::new("plan")
        .description("Plans the work on a note.")
        .handler(|Args(arguments): Args<Plan>| async move { plan::call(arguments.title).await })
        .complete("title", titles);
    assert_twins(notes().prompt(plan), notes().prompt(by_hand), [complete("plan")]).await;
    assert_eq!(
        completed(&answer(&notes().prompt(plan), complete("plan")).await),
        &json!(["bread", "butter"])
    );
}

#[derive(serde::Deserialize, JsonSchema)]
struct Plan {
    title: String,
}

#[tokio::test]
async fn completer_of_a_mounted_server_extracts_its_state() {
    let outer = Server::new("outer", "1").mount("notes", notes().prompt(plan));
    assert_eq!(completed(&answer(&outer, complete("notes_plan")).await), &json!(["bread", "butter"]));
}

struct Notes {
    titles: Titles,
}

#[handlers]
impl Notes {
    #[prompt]
    async fn by_method(&self, #[arg(complete = self.matching)] title: String) -> String {
        title
    }

    #[prompt]
    async fn by_function(&self, #[arg(complete = Self::from_state)] title: String) -> String {
        title
    }

    async fn matching(&self, request: CompletionRequest) -> Vec<String> {
        self.titles.beginning_with(&request.value)
    }

    async fn from_state(request: CompletionRequest, State(titles): State<Titles>) -> Vec<String> {
        titles.beginning_with(&request.value)
    }
}

#[tokio::test]
async fn methods_complete_with_self_and_with_state() {
    let server = notes().handlers(Notes { titles: Titles(vec!["beet"]) });
    assert_eq!(completed(&answer(&server, complete("by_method")).await), &json!(["beet"]));
    assert_eq!(completed(&answer(&server, complete("by_function")).await), &json!(["bread", "butter"]));
}

#[tokio::test]
async fn context_returns_the_state_of_the_owning_server() {
    let server = Server::new("outer", "1").mount("notes", notes().tool(count));
    let counted = answer(&server, call("notes_count", json!({}))).await;
    assert_eq!(counted["result"]["content"][0]["text"], "3");
    let missing = answer(&Server::new("test", "1").tool(count), call("count", json!({}))).await;
    assert_eq!(missing["result"]["isError"], true, "{missing}");
}

#[test]
fn missing_state_is_reported_before_serving() {
    let by_hand = Tool::new("by_hand").handler(|State(_): State<Titles>| async {});
    let blocking = Resource::new("a://b").name("blocking").blocking_handler(|State(_): State<Titles>| "text");
    let server = Server::new("test", "1").tool(find).tool(by_hand).resource(blocking);
    let server = server.mount("inner", Server::new("inner", "1").prompt(plan));
    let error = memory::connect(&server).unwrap_err().to_string();
    for (item, count) in
        [("tool `find`", 1), ("tool `by_hand`", 1), ("resource `a://b`", 1), ("prompt `plan`", 1)]
    {
        assert_eq!(error.matches(item).count(), count, "{item}: {error}");
    }
    assert!(error.contains("macros::state::Titles") && error.contains("Server::state"), "{error}");
    assert!(error.contains("mounted as \"inner\""), "{error}");
    // The order does not matter.
    memory::connect(&Server::new("test", "1").tool(find).state(Titles(Vec::new()))).unwrap();
}

#[test]
fn item_without_its_state_is_not_added_while_running() {
    let server = Server::new("test", "1");
    let error = server.add(find).unwrap_err().to_string();
    assert!(error.contains("tool `find` needs a state of type"), "{error}");
    assert!(!server.remove(ListKind::Tool, "find"));
    notes().add(find).unwrap();
}
