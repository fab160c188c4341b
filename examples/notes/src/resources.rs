//! The resources and the prompt, with completion from the database.

use serde::Serialize;
use tsugite::prelude::*;
use tsugite::server::CompletionRequest;

use crate::db::{Db, Order};

/// The URI of the list of notes.
pub(crate) const LIST: &str = "notes://list";

#[derive(Serialize)]
pub(crate) struct Entry {
    uri: String,
    title: String,
}

/// The newest notes, without their texts.
#[resource("notes://list", mime_type = "application/json")]
pub(crate) fn list(State(db): State<Db>) -> Result<Json<Vec<Entry>>, HandlerError> {
    let notes = db.search("", None, Order::Newest, 100)?;
    let entry = |note: crate::db::Note| Entry { uri: format!("notes://{}", note.id), title: note.title };
    Ok(Json(notes.into_iter().map(entry).collect()))
}

/// One note.
#[resource("notes://{id}", mime_type = "text/markdown")]
pub(crate) fn note(
    #[arg(complete = ids)] id: i64,
    State(db): State<Db>,
) -> Result<Option<String>, HandlerError> {
    Ok(db.get(id)?.map(|note| format!("# {}\n\n{}\n", note.title, note.text)))
}

/// Plans the work that a note describes.
#[prompt]
pub(crate) fn plan(
    /// The title of the note.
    #[arg(complete = titles)]
    title: String,
    /// How many days there are.
    #[arg(default = 5)]
    days: u8,
    State(db): State<Db>,
) -> Result<String, HandlerError> {
    let notes = db.search(&title, None, Order::Newest, 100)?;
    let note = notes.into_iter().find(|note| note.title == title);
    let note = note.ok_or_else(|| format!("there is no note “{title}”"))?;
    Ok(format!("Plan this for {days} days, one line for each day.\n\n{}", note.text))
}

async fn titles(request: CompletionRequest, State(db): State<Db>) -> Result<Vec<String>, HandlerError> {
    let notes = db.run(|db| db.search("", None, Order::Title, 1000)).await?;
    let titles = notes.into_iter().map(|note| note.title);
    let typed = request.value.to_lowercase();
    Ok(titles.filter(|title| title.to_lowercase().starts_with(&typed)).collect())
}

async fn ids(request: CompletionRequest, State(db): State<Db>) -> Result<Vec<String>, HandlerError> {
    let notes = db.run(|db| db.search("", None, Order::Newest, 1000)).await?;
    let ids = notes.into_iter().map(|note| note.id.to_string());
    Ok(ids.filter(|id| id.starts_with(&request.value)).collect())
}
