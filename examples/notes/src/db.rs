//! The notes in SQLite. Every function blocks; async code calls them through [`Db::run`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use serde::{Deserialize, Serialize};
use tsugite::prelude::*;

/// The form of a tag. It has no space, which separates tags in the table.
pub const TAG: &str = "^[a-z0-9-]{1,30}$";

/// One note.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// The number that identifies the note.
    pub id: i64,
    /// The title.
    pub title: String,
    /// The text, in Markdown.
    pub text: String,
    /// The tags, sorted.
    pub tags: Vec<String>,
    /// The caller that added the note; none on stdio.
    pub author: Option<String>,
}

/// A note that is not stored yet.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NewNote {
    /// The title.
    #[schemars(length(min = 1, max = 100))]
    pub title: String,
    /// The text, in Markdown.
    #[schemars(length(max = 10_000))]
    pub text: String,
    /// Tags to find the note by.
    #[serde(default)]
    #[schemars(length(max = 10), inner(regex(pattern = TAG)))]
    pub tags: Vec<String>,
}

/// The order of search results.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// The newest note first.
    Newest,
    /// By title.
    Title,
}

/// The database. Clones share one connection.
#[derive(Clone)]
pub struct Db(Arc<Mutex<Connection>>);

impl Db {
    /// Opens a file, and creates it if it does not exist. `:memory:` is a database that exists until it is dropped.
    pub fn open(file: &str) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY AUTOINCREMENT,
                 title TEXT NOT NULL, text TEXT NOT NULL, tags TEXT NOT NULL, author TEXT)",
        )?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Runs `work` on a thread for blocking work.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let db = self.clone();
        Ok(tokio::task::spawn_blocking(move || work(&db)).await??)
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a note.
    pub fn add(&self, note: NewNote, author: Option<&str>) -> Result<Note> {
        self.lock().query_row(
            "INSERT INTO notes (title, text, tags, author) VALUES (?, ?, ?, ?) RETURNING *",
            params![note.title, note.text, join(note.tags), author],
            read,
        )
    }

    /// Returns a note.
    pub fn get(&self, id: i64) -> Result<Option<Note>> {
        self.lock().query_row("SELECT * FROM notes WHERE id = ?", [id], read).optional()
    }

    /// Returns the notes that contain `words` and have `tag`.
    pub fn search(&self, words: &str, tag: Option<&str>, order: Order, limit: u32) -> Result<Vec<Note>> {
        let order = match order {
            Order::Newest => "id DESC",
            Order::Title => "title, id",
        };
        let db = self.lock();
        let mut query = db.prepare(&format!(
            "SELECT * FROM notes
             WHERE instr(lower(title || char(10) || text), lower(?1))
             AND (?2 IS NULL OR instr(' ' || tags || ' ', ' ' || ?2 || ' '))
             ORDER BY {order} LIMIT ?3"
        ))?;
        query.query_map(params![words, tag, limit], read)?.collect()
    }

    /// Replaces the title or the text of a note, and returns the note.
    pub fn update(&self, id: i64, title: Option<&str>, text: Option<&str>) -> Result<Option<Note>> {
        let update = "UPDATE notes SET title = ifnull(?2, title), text = ifnull(?3, text)
                      WHERE id = ?1 RETURNING *";
        self.lock().query_row(update, params![id, title, text], read).optional()
    }

    /// Replaces the tags of a note, and returns the note.
    pub fn set_tags(&self, id: i64, tags: Vec<String>) -> Result<Option<Note>> {
        let update = "UPDATE notes SET tags = ?2 WHERE id = ?1 RETURNING *";
        self.lock().query_row(update, params![id, join(tags)], read).optional()
    }

    /// Deletes a note.
    pub fn delete(&self, id: i64) -> Result<()> {
        self.lock().execute("DELETE FROM notes WHERE id = ?", [id]).map(drop)
    }
}

fn read(row: &Row<'_>) -> Result<Note> {
    let tags: String = row.get("tags")?;
    Ok(Note {
        id: row.get("id")?,
        title: row.get("title")?,
        text: row.get("text")?,
        tags: tags.split_whitespace().map(str::to_owned).collect(),
        author: row.get("author")?,
    })
}

fn join(mut tags: Vec<String>) -> String {
    tags.sort();
    tags.dedup();
    tags.join(" ")
}
