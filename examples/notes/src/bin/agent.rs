//! `agent URL` and `agent COMMAND ARGS…`: a client that uses the notes server, and answers its questions.
//!
//! With a URL, the environment variable NOTES_TOKEN holds the token.

use std::io::{Write, stdin, stdout};

use anyhow::bail;
use notes::db::Note;
use serde_json::json;
use tsugite::client::{Change, ChangeFilter, ClientHandler, FormResponse, HandlerCapabilities};
use tsugite::prelude::*;
use tsugite::protocol::{
    CreateMessageParams, CreateMessageResult, FormParams, LogParams, ProgressParams, Reference, Role,
    SamplingBlock,
};
use tsugite::revision::RpcError;

/// Asks the user on the terminal, and stands in for a model.
struct Terminal;

impl ClientHandler for Terminal {
    fn capabilities(&self) -> HandlerCapabilities {
        HandlerCapabilities::new().forms().sampling().logs()
    }

    async fn elicit_form(&self, form: FormParams) -> FormResponse {
        let answer = tokio::task::spawn_blocking(move || read_answer(&form.message)).await;
        match answer {
            Ok(Ok(answer)) => FormResponse::accept(json!({ "sure": answer == "y" })),
            _ => FormResponse::Cancel,
        }
    }

    async fn sample(&self, request: CreateMessageParams) -> Result<CreateMessageResult, RpcError> {
        // A real agent shows the request to the user, and sends it to a model.
        let text: Vec<_> = request.messages.iter().map(|message| message.content.text()).collect();
        let summary = format!("{} lines about notes", text.concat().lines().count());
        Ok(CreateMessageResult::new(Role::Assistant, SamplingBlock::text(summary), "counter-1"))
    }

    fn log(&self, log: LogParams) {
        println!("  log: {}", log.data);
    }

    fn progress(&self, progress: ProgressParams) {
        println!("  {} of {}", progress.progress, progress.total.unwrap_or_default());
    }
}

fn read_answer(question: &str) -> std::io::Result<String> {
    print!("{question} Delete it? [y/n] ");
    stdout().flush()?;
    let mut line = String::new();
    stdin().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let builder = match args.as_slice() {
        [] => bail!("usage: agent URL\n       agent COMMAND ARGS…"),
        [url] if url.starts_with("http") => {
            Client::connect(url).bearer(std::env::var("NOTES_TOKEN").unwrap_or_default())
        }
        command => Client::spawn(command),
    };
    let client = builder.handler(Terminal).await?;
    println!("connected, revision {}", client.revision());
    for tool in client.list_tools().await? {
        println!("  {}: {}", tool.name, tool.description.unwrap_or_default());
    }

    let mut changes = client.listen(ChangeFilter::new().resource("notes://list")).await?;
    let note: Note =
        client.call("add_note", json!({"title": "Shed", "text": "Build a shed.", "tags": ["wood"]})).await?;
    println!("added note {} by {}", note.id, note.author.as_deref().unwrap_or("no caller"));
    if let Some(Change::Resource { uri }) = changes.next().await.transpose()? {
        println!("changed: {uri}");
    }

    println!("importing");
    let more = json!({"notes": [{"title": "Saw", "text": "Buy one."}, {"title": "Sand", "text": "200 kg."}]});
    client.call::<()>("import_notes", more).await?;
    let titles = client.complete(Reference::prompt("plan"), "title", "s").await?;
    println!("titles with s: {}", titles.completion.values.join(", "));
    println!("summary: {}", client.call::<String>("summarize_notes", json!({"tag": "wood"})).await?);
    println!("note {}: {}", note.id, client.call::<String>("delete_note", json!({"id": note.id})).await?);
    client.close().await;
    Ok(())
}
