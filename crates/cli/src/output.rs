//! Prints results: text on standard output, images, audio and other bytes to files.

use std::path::{Path, PathBuf, is_separator};

use tsugite::base64;
use tsugite::protocol::ContentBlock;
use tsugite::protocol::content::{ResourceBody, ResourceContents};

use crate::console::{Console, Style};
use crate::error::{CliError, ExitStatus, Result};
use crate::json_text;

/// A part of a result.
pub(crate) enum OutputPart {
    Text(String),
    /// Binary data: its media type, and its bytes in base64.
    Blob {
        kind: &'static str,
        mime_type: String,
        base64: String,
    },
}

/// Converts content blocks to output parts.
pub(crate) fn parts_from_blocks(blocks: &[ContentBlock]) -> Vec<OutputPart> {
    let parts = blocks.iter().map(|block| match block {
        ContentBlock::Text(text) => OutputPart::Text(text.text.clone()),
        ContentBlock::Image(image) => blob("image", Some(&image.mime_type), &image.data),
        ContentBlock::Audio(audio) => blob("audio", Some(&audio.mime_type), &audio.data),
        ContentBlock::ResourceLink(link) => OutputPart::Text(format!("→ {} ({})", link.uri, link.name)),
        ContentBlock::Resource(embedded) => part_from_contents(&embedded.resource),
        _ => OutputPart::Text("(content of an unknown type; --json shows it)".to_owned()),
    });
    parts.collect()
}

/// Converts the contents of a resource to an output part.
pub(crate) fn part_from_contents(contents: &ResourceContents) -> OutputPart {
    match &contents.body {
        ResourceBody::Text(text) => OutputPart::Text(text.clone()),
        ResourceBody::Blob(base64) => blob("bytes", contents.mime_type.as_deref(), base64),
    }
}

/// Prints parts one below the other. Bytes go to `to`; `name` begins the file names if `to` is a folder.
pub(crate) fn show(console: &Console, parts: &[OutputPart], to: Option<&Path>, name: &str) -> Result<()> {
    let blobs = parts.iter().filter(|part| matches!(part, OutputPart::Blob { .. })).count();
    let mut number = 0;
    for part in parts {
        match part {
            OutputPart::Text(words) if to == Some(Path::new("-")) => console.note(words),
            OutputPart::Text(words) => {
                console.print_line(readable_text(console, words).trim_end_matches('\n'))?
            }
            OutputPart::Blob { kind, mime_type, base64 } => {
                let bytes = decode_base64(base64)?;
                number += 1;
                let about = format!("{kind}, {}, {} bytes", console.sanitized(mime_type), bytes.len());
                match to {
                    None => console.print_line(&format!("({about}; -o FILE saves it)"))?,
                    Some(to) if to == Path::new("-") => {
                        ensure_single_blob(blobs).and_then(|()| console.print_bytes(&bytes))?
                    }
                    Some(to) => {
                        let path = output_path(to, name, mime_type, (number, blobs));
                        write(&path, &bytes)?;
                        let saved = console.paint(Style::Green, "saved");
                        console.print_line(&format!("({about}; {saved} as {})", path.display()))?;
                    }
                }
            }
        }
    }
    if let (Some(_), 0) = (to, blobs) {
        console.note("note: nothing was saved: the result has no image, audio or other bytes");
    }
    Ok(())
}

/// Saves the bytes of parts and prints nothing, for `--json`.
pub(crate) fn save(parts: &[OutputPart], to: &Path, name: &str) -> Result<()> {
    let blobs: Vec<(&String, &String)> = parts
        .iter()
        .filter_map(|part| match part {
            OutputPart::Blob { mime_type, base64, .. } => Some((mime_type, base64)),
            OutputPart::Text(_) => None,
        })
        .collect();
    if to == Path::new("-") {
        return Err(CliError::usage(
            "-o - and --json both write to standard output; use -o FILE with --json",
        ));
    }
    for (index, (mime_type, base64)) in blobs.iter().enumerate() {
        write(&output_path(to, name, mime_type, (index + 1, blobs.len())), &decode_base64(base64)?)?;
    }
    Ok(())
}

/// Writes a file, and creates its parent folders.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let wrong = |error| CliError::usage(format!("-o: cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(wrong)?;
    }
    std::fs::write(path, bytes).map_err(wrong)
}

pub(crate) fn decode_base64(base64: &str) -> Result<Vec<u8>> {
    // Some servers wrap the lines.
    let text: String = base64.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    base64::decode(&text).ok_or_else(|| CliError::new(ExitStatus::Protocol, "the server sent invalid base64"))
}

pub(crate) fn ensure_single_blob(blobs: usize) -> Result<()> {
    match blobs {
        1 => Ok(()),
        count => {
            Err(CliError::usage(format!("-o - writes one item, and the result has {count}; use -o FOLDER/")))
        }
    }
}

/// Formats text from a server for a person: on a terminal, JSON gets a line for each member.
pub(crate) fn readable_text(console: &Console, text: &str) -> String {
    match console.is_terminal && json_text::is_object_or_array(text) {
        true => console.sanitized(&json_text::pretty(text)),
        false => console.sanitized(text),
    }
}

/// Prints JSON: a line for each member on a terminal, otherwise one line.
pub(crate) fn print_json(console: &Console, json: &str) -> Result<()> {
    match console.is_terminal {
        true => console.print_line(&console.sanitized(&json_text::pretty(json))),
        false => console.print_line(&json_text::one_line(json)),
    }
}

fn blob(kind: &'static str, mime_type: Option<&str>, base64: &str) -> OutputPart {
    let mime_type = mime_type.unwrap_or("application/octet-stream").to_owned();
    OutputPart::Blob { kind, mime_type, base64: base64.to_owned() }
}

/// Returns the path of item `number` of `all`: a generated name if `to` is a folder, otherwise `to` itself, with a
/// number if there are several items.
fn output_path(to: &Path, name: &str, mime_type: &str, (number, all): (usize, usize)) -> PathBuf {
    let is_folder = to.is_dir() || to.to_string_lossy().ends_with(is_separator);
    if is_folder {
        // The name may come from a server.
        let plain: String = name
            .chars()
            .map(|letter| if letter.is_alphanumeric() || letter == '-' { letter } else { '_' })
            .collect();
        return to.join(format!("{plain}-{number}.{}", file_extension(mime_type)));
    }
    if all == 1 {
        return to.to_owned();
    }
    let stem = to.file_stem().unwrap_or_default().to_string_lossy();
    match to.extension() {
        Some(ending) => to.with_file_name(format!("{stem}-{number}.{}", ending.to_string_lossy())),
        None => to.with_file_name(format!("{stem}-{number}")),
    }
}

fn file_extension(mime_type: &str) -> &'static str {
    match mime_type.split(';').next().unwrap_or_default().trim() {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        _ => "bin",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_path_numbers_several_files() {
        let at =
            |to: &str, index| output_path(Path::new(to), "a/../b", "image/png", index).display().to_string();
        assert_eq!(at("x.png", (1, 1)), "x.png");
        assert_eq!(at("x.png", (2, 2)), "x-2.png");
        assert_eq!(at("out/", (1, 1)), "out/a____b-1.png");
    }
}
