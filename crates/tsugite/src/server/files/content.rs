//! The contents of a file and its MIME type.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::error::FileError;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileBody {
    pub(crate) content: FileContent,
    pub(crate) mime: &'static str,
    /// In bytes.
    pub(crate) size: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileContent {
    Text(String),
    Blob(Vec<u8>),
}

/// Reads an open file of at most `max_bytes`. Its type is found by `name`.
pub(super) fn read(file: File, name: &Path, max_bytes: u64) -> Result<FileBody, FileError> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    let size = metadata.len();
    if size > max_bytes {
        return Err(FileError::TooLarge { size, max: max_bytes });
    }
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(usize::try_from(size).unwrap_or(usize::MAX));
    reserved.map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // It may have grown, or have no size at all, as in /proc.
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    let size = bytes.len() as u64;
    if size > max_bytes {
        return Err(FileError::TooLarge { size, max: max_bytes });
    }
    Ok(file_body(bytes, name))
}

/// Guesses the MIME type of a file by its name.
pub(crate) fn mime_type(path: &Path) -> Option<&'static str> {
    file_type(path).map(|(mime, _)| mime)
}

pub(super) fn file_body(bytes: Vec<u8>, name: &Path) -> FileBody {
    let kind = file_type(name);
    let size = bytes.len() as u64;
    let binary = matches!(kind, Some((_, ContentKind::Binary))) || bytes.contains(&0);
    let content = match String::from_utf8(bytes) {
        Ok(text) if !binary => FileContent::Text(text),
        Ok(text) => FileContent::Blob(text.into_bytes()),
        Err(error) => FileContent::Blob(error.into_bytes()),
    };
    let mime = match (kind, &content) {
        (Some((mime, _)), _) => mime,
        (None, FileContent::Text(_)) => "text/plain",
        (None, FileContent::Blob(_)) => "application/octet-stream",
    };
    FileBody { content, mime, size }
}

#[derive(Clone, Copy)]
enum ContentKind {
    Text,
    Binary,
}

fn file_type(path: &Path) -> Option<(&'static str, ContentKind)> {
    let extension = path.extension().and_then(OsStr::to_str)?.to_ascii_lowercase();
    Some(match extension.as_str() {
        "txt" => ("text/plain", ContentKind::Text),
        "md" => ("text/markdown", ContentKind::Text),
        "html" => ("text/html", ContentKind::Text),
        "css" => ("text/css", ContentKind::Text),
        "js" | "mjs" => ("text/javascript", ContentKind::Text),
        "json" => ("application/json", ContentKind::Text),
        "xml" => ("application/xml", ContentKind::Text),
        "csv" => ("text/csv", ContentKind::Text),
        "toml" => ("application/toml", ContentKind::Text),
        "yaml" | "yml" => ("application/yaml", ContentKind::Text),
        "rs" => ("text/x-rust", ContentKind::Text),
        "py" => ("text/x-python", ContentKind::Text),
        "ts" => ("text/x-typescript", ContentKind::Text),
        "go" => ("text/x-go", ContentKind::Text),
        "java" => ("text/x-java", ContentKind::Text),
        "c" | "h" => ("text/x-c", ContentKind::Text),
        "cpp" => ("text/x-c++", ContentKind::Text),
        "sh" => ("text/x-shellscript", ContentKind::Text),
        "svg" => ("image/svg+xml", ContentKind::Text),
        "png" => ("image/png", ContentKind::Binary),
        "jpg" | "jpeg" => ("image/jpeg", ContentKind::Binary),
        "gif" => ("image/gif", ContentKind::Binary),
        "webp" => ("image/webp", ContentKind::Binary),
        "avif" => ("image/avif", ContentKind::Binary),
        "ico" => ("image/vnd.microsoft.icon", ContentKind::Binary),
        "pdf" => ("application/pdf", ContentKind::Binary),
        "zip" => ("application/zip", ContentKind::Binary),
        "gz" => ("application/gzip", ContentKind::Binary),
        "tar" => ("application/x-tar", ContentKind::Binary),
        "wasm" => ("application/wasm", ContentKind::Binary),
        "mp3" => ("audio/mpeg", ContentKind::Binary),
        "wav" => ("audio/wav", ContentKind::Binary),
        "ogg" => ("audio/ogg", ContentKind::Binary),
        "mp4" => ("video/mp4", ContentKind::Binary),
        "webm" => ("video/webm", ContentKind::Binary),
        "woff" => ("font/woff", ContentKind::Binary),
        "woff2" => ("font/woff2", ContentKind::Binary),
        "ttf" => ("font/ttf", ContentKind::Binary),
        _ => return None,
    })
}
