//! The tools.
//!
//! A tool that only uses the database is a plain `fn`, which runs on a thread for blocking work. A tool that waits for the
//! client is `async`, and reaches the database through [`Db::run`].

use serde::{Deserialize, Serialize};
use tsugite::prelude::*;
use tsugite::protocol::{CreateMessageParams, Role, SamplingBlock, SamplingMessage};

use crate::db::{Db, NewNote, Note, Order, TAG};
use crate::resources::LIST;

/// Adds a note.
#[tool]
pub(crate) fn add_note(
    /// The title.
    #[schemars(length(min = 1, max = 100))]
    title: String,
    /// The text, in Markdown.
    #[schemars(length(max = 10_000))]
    text: String,
    /// Tags to find the note by: lower-case letters, digits and dashes.
    #[arg(default)]
    #[schemars(length(max = 10), inner(regex(pattern = TAG)))]
    tags: Vec<String>,
    caller: Option<Principal>,
    State(db): State<Db>,
    cx: Context,
) -> Result<Note, HandlerError> {
    let note = db.add(NewNote { title, text, tags }, subject(&caller))?;
    notify(&cx, note.id);
    Ok(note)
}

/// Returns a note with its whole text.
#[tool(read_only)]
pub(crate) fn get_note(id: i64, State(db): State<Db>) -> Result<Note, HandlerError> {
    Ok(db.get(id)?.ok_or_else(|| missing(id))?)
}

/// Notes that match a search. A struct, since only the newest revision has lists as structured output.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Found {
    notes: Vec<Note>,
}

/// Searches titles and texts.
#[tool(read_only)]
pub(crate) fn search_notes(
    /// Text that a note contains, in its title or its text; empty for all notes.
    #[arg(default)]
    words: String,
    /// Only notes with this tag.
    tag: Option<String>,
    #[arg(default = Order::Newest)] order: Order,
    #[arg(default = 20)]
    #[schemars(range(min = 1, max = 100))]
    limit: u32,
    State(db): State<Db>,
) -> Result<Found, HandlerError> {
    Ok(Found { notes: db.search(&words, tag.as_deref(), order, limit)? })
}

/// Replaces the title or the text of a note.
#[tool(idempotent)]
pub(crate) fn update_note(
    id: i64,
    #[schemars(length(min = 1, max = 100))] title: Option<String>,
    #[schemars(length(max = 10_000))] text: Option<String>,
    State(db): State<Db>,
    cx: Context,
) -> Result<Note, HandlerError> {
    if title.is_none() && text.is_none() {
        return Err("give a title, a text or both".into());
    }
    let note = db.update(id, title.as_deref(), text.as_deref())?.ok_or_else(|| missing(id))?;
    notify(&cx, id);
    Ok(note)
}

/// Adds and removes tags of a note.
#[tool(idempotent)]
pub(crate) fn tag_note(
    id: i64,
    /// Tags to add.
    #[arg(default)]
    #[schemars(length(max = 10), inner(regex(pattern = TAG)))]
    add: Vec<String>,
    /// Tags to remove.
    #[arg(default)]
    remove: Vec<String>,
    State(db): State<Db>,
    cx: Context,
) -> Result<Note, HandlerError> {
    let mut tags = db.get(id)?.ok_or_else(|| missing(id))?.tags;
    tags.retain(|tag| !remove.contains(tag));
    tags.extend(add);
    let note = db.set_tags(id, tags)?.ok_or_else(|| missing(id))?;
    notify(&cx, id);
    Ok(note)
}

#[derive(Form)]
struct Confirm {
    /// Delete it?
    sure: bool,
}

/// Deletes a note. Asks the user first if the note is long or has tags.
#[tool(destructive)]
pub(crate) async fn delete_note(
    id: i64,
    State(db): State<Db>,
    cx: Context,
) -> Result<&'static str, HandlerError> {
    let note = db.run(move |db| db.get(id)).await?.ok_or_else(|| missing(id))?;
    if note.text.len() > 500 || !note.tags.is_empty() {
        let size = note.text.chars().count();
        let message =
            format!("“{}” has {size} characters and the tags [{}].", note.title, note.tags.join(", "));
        match cx.ask::<Confirm>(message).await {
            Ok(Confirm { sure: true }) => {}
            Ok(Confirm { sure: false }) | Err(AskError::Declined | AskError::Cancelled) => return Ok("kept"),
            Err(error) => return Err(error.into()),
        }
    }
    db.run(move |db| db.delete(id)).await?;
    notify(&cx, id);
    Ok("deleted")
}

/// The result of an import.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Imported {
    /// The numbers of the new notes.
    ids: Vec<i64>,
}

/// Adds many notes. If the call is cancelled, the notes added so far stay.
// The rules of `NewNote` are those of a field, which the macro does not see.
#[tool(validated)]
pub(crate) async fn import_notes(
    #[schemars(length(min = 1, max = 1000))] notes: Vec<NewNote>,
    caller: Option<Principal>,
    State(db): State<Db>,
    cx: Context,
) -> Result<Imported, HandlerError> {
    let total = notes.len();
    let mut ids = Vec::new();
    for new in notes {
        let caller = caller.clone();
        let note = db.run(move |db| db.add(new, subject(&caller))).await?;
        ids.push(note.id);
        cx.progress(ids.len()).total(total).message(note.title).await;
    }
    cx.log(Level::Info, &format!("imported {total} notes")).await;
    cx.server().notify_resource_updated(LIST);
    Ok(Imported { ids })
}

/// Summarizes notes, with the model of the client.
#[tool(read_only)]
pub(crate) async fn summarize_notes(
    /// Only notes with this tag.
    tag: Option<String>,
    State(db): State<Db>,
    cx: Context,
) -> Result<String, HandlerError> {
    let notes = db.run(move |db| db.search("", tag.as_deref(), Order::Newest, 20)).await?;
    if notes.is_empty() {
        return Err("there are no such notes".into());
    }
    let notes: String = notes.iter().map(|note| format!("# {}\n{}\n", note.title, note.text)).collect();
    let message = SamplingMessage::new(Role::User, SamplingBlock::text(notes));
    let params = CreateMessageParams::new([message], 300_u64).system_prompt("Summarize these notes.");
    Ok(cx.sample(params).await?.text())
}

/// Text, so the model reads it; an error of SQLite goes to the log instead.
fn missing(id: i64) -> String {
    format!("there is no note {id}; search_notes lists notes with their numbers")
}

fn subject(caller: &Option<Principal>) -> Option<&str> {
    caller.as_ref().map(Principal::subject)
}

fn notify(cx: &Context, id: i64) {
    cx.server().notify_resource_updated(&format!("notes://{id}"));
    cx.server().notify_resource_updated(LIST);
}
