//! `#[resource]`.

use serde::Deserialize;
use serde_json::json;
use tsugite::prelude::*;
use tsugite::protocol::{Annotations, Icon};
use tsugite::server::CompletionRequest;

use crate::{Request, answer, assert_twins};

/// What we live by.
#[resource("notes://motto", mime_type = "text/plain", size = 14)]
async fn motto() -> &'static str {
    "Measure twice."
}

/// A note.
#[resource(
    "notes://{owner}/{id}{?format}",
    name = "note",
    title = "Note",
    description = "A note of a user.",
    mime_type = "text/markdown",
    icons = [Icon::new("https://example.com/note.png")],
    tags = ["notes"],
    annotations = Annotations::default(),
)]
async fn notes(
    /// Whose.
    #[arg(complete = ["ann", "bob"])]
    owner: String,
    #[arg(complete = ids)] id: u32,
    #[arg(name = "format", default = "short")] form: String,
    cx: Context,
) -> Option<String> {
    cx.progress(1).await;
    (id < 3).then(|| format!("{owner}'s {id}, {form}"))
}

async fn ids(typing: CompletionRequest) -> Vec<String> {
    vec![format!("{}1", typing.value), format!("{}2", typing.value)]
}

#[derive(Deserialize, JsonSchema)]
struct Note {
    owner: String,
    id: u32,
    #[serde(default = "short")]
    format: String,
}

fn short() -> String {
    "short".to_owned()
}

#[resource("bytes://{+path}")]
fn bytes(Args(it): Args<Path>) -> Result<Vec<u8>, HandlerError> {
    Ok(it.path.into_bytes())
}

#[derive(Deserialize, JsonSchema)]
struct Path {
    path: String,
}

fn read(uri: &str) -> Request {
    ("resources/read", json!({"uri": uri}))
}

fn complete(name: &str, value: &str) -> Request {
    let reference = json!({"type": "ref/resource", "uri": "notes://{owner}/{id}{?format}"});
    ("completion/complete", json!({"ref": reference, "argument": {"name": name, "value": value}}))
}

#[tokio::test]
async fn function_becomes_a_resource_or_a_template() {
    let by_hand = Server::new("test", "1")
        .resource(
            Resource::new("notes://motto")
                .name("motto")
                .description("What we live by.")
                .mime_type("text/plain")
                .size(14)
                .handler(|| async { "Measure twice." }),
        )
        .resource(
            Resource::template("notes://{owner}/{id}{?format}")
                .name("note")
                .title("Note")
                .description("A note of a user.")
                .mime_type("text/markdown")
                .icons([Icon::new("https://example.com/note.png")])
                .tag("notes")
                .annotations(Annotations::default())
                .complete("owner", ["ann", "bob"])
                .complete("id", ids)
                .handler(|Args(it): Args<Note>, cx: Context| async move {
                    notes::call(it.owner, it.id, it.format, cx).await
                }),
        )
        .resource(
            Resource::template("bytes://{+path}")
                .name("bytes")
                .blocking_handler(|Args(it): Args<Path>| it.path.into_bytes()),
        );
    let made = Server::new("test", "1").resource(motto).resource(notes).resource(bytes);
    let missing = answer(&made, read("notes://ann/3")).await;
    assert_eq!(missing, answer(&by_hand, read("notes://ann/3")).await);
    assert_eq!(missing["error"]["code"], -32602, "{missing}");
    let wrong = answer(&made, read("notes://ann/many")).await;
    assert_eq!(wrong, answer(&by_hand, read("notes://ann/many")).await);
    assert_twins(
        made,
        by_hand,
        [
            read("notes://motto"),
            read("notes://ann/1"),
            read("notes://ann/2?format=long"),
            read("bytes://a/b"),
            complete("owner", "A"),
            complete("id", "1"),
        ],
    )
    .await;
    assert_eq!(motto::call().await, "Measure twice.");
}
