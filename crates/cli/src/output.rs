//! Results for a person: words as they are, pictures and sounds into files.

use std::path::{Path, PathBuf};

use tsugite::base64;
use tsugite::protocol::ContentBlock;
use tsugite::protocol::content::{ResourceBody, ResourceContents};

use crate::console::{Console, Style};
use crate::error::{CliError, ExitStatus, Result};

/// A part of a result.
pub(crate) enum OutputPart {
    Text(String),
    /// What is no words: its type, and its bytes in base64.
    Blob {
        kind: &'static str,
        mime_type: String,
        base64: String,
    },
}

/// Content blocks as pieces.
pub(crate) fn parts_from_blocks(blocks: &[ContentBlock]) -> Vec<OutputPart> {
    let pieces = blocks.iter().map(|block| match block {
        ContentBlock::Text(text) => OutputPart::Text(text.text.clone()),
        ContentBlock::Image(image) => blob("image", Some(&image.mime_type), &image.data),
        ContentBlock::Audio(audio) => blob("audio", Some(&audio.mime_type), &audio.data),
        ContentBlock::ResourceLink(link) => OutputPart::Text(format!("→ {} ({})", link.uri, link.name)),
        ContentBlock::Resource(embedded) => part_from_contents(&embedded.resource),
        _ => OutputPart::Text("(something this program does not know; --json shows it)".to_owned()),
    });
    pieces.collect()
}

/// The contents of a resource as a piece.
pub(crate) fn part_from_contents(contents: &ResourceContents) -> OutputPart {
    match &contents.body {
        ResourceBody::Text(text) => OutputPart::Text(text.clone()),
        ResourceBody::Blob(base64) => blob("bytes", contents.mime_type.as_deref(), base64),
    }
}

/// Shows pieces one under the other. `to` is where bytes go, `name` what their files are called in a folder.
pub(crate) fn show(screen: &Console, pieces: &[OutputPart], to: Option<&Path>, name: &str) -> Result<()> {
    let blobs = pieces.iter().filter(|piece| matches!(piece, OutputPart::Blob { .. })).count();
    let mut number = 0;
    for piece in pieces {
        match piece {
            OutputPart::Text(words) if to == Some(Path::new("-")) => screen.note(words),
            OutputPart::Text(words) => screen.print_line(screen.sanitized(words).trim_end_matches('\n'))?,
            OutputPart::Blob { kind, mime_type, base64 } => {
                let bytes = decode_base64(base64)?;
                number += 1;
                let about = format!("{kind}, {}, {} bytes", screen.sanitized(mime_type), bytes.len());
                match to {
                    None => screen.print_line(&format!("({about}; -o FILE saves it)"))?,
                    Some(to) if to == Path::new("-") => {
                        ensure_single_blob(blobs).and_then(|()| screen.print_bytes(&bytes))?
                    }
                    Some(to) => {
                        let path = output_path(to, name, mime_type, (number, blobs));
                        write(&path, &bytes)?;
                        let saved = screen.paint(Style::Green, "saved");
                        screen.print_line(&format!("({about}; {saved} as {})", path.display()))?;
                    }
                }
            }
        }
    }
    if let (Some(_), 0) = (to, blobs) {
        screen.note("note: there was nothing to save: no picture, no sound, no bytes");
    }
    Ok(())
}

/// Saves the bytes of pieces without a word, for whoever reads JSON.
pub(crate) fn save(pieces: &[OutputPart], to: &Path, name: &str) -> Result<()> {
    let blobs: Vec<(&String, &String)> = pieces
        .iter()
        .filter_map(|piece| match piece {
            OutputPart::Blob { mime_type, base64, .. } => Some((mime_type, base64)),
            OutputPart::Text(_) => None,
        })
        .collect();
    if to == Path::new("-") {
        return Err(CliError::usage("-o - and --json both want standard output"));
    }
    for (place, (mime_type, base64)) in blobs.iter().enumerate() {
        write(&output_path(to, name, mime_type, (place + 1, blobs.len())), &decode_base64(base64)?)?;
    }
    Ok(())
}

/// Writes a file, and the folders it lies in.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let wrong = |error| CliError::usage(format!("-o: cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(wrong)?;
    }
    std::fs::write(path, bytes).map_err(wrong)
}

pub(crate) fn decode_base64(base64: &str) -> Result<Vec<u8>> {
    // Some servers break the lines.
    let text: String = base64.chars().filter(|letter| !letter.is_ascii_whitespace()).collect();
    base64::decode(&text)
        .ok_or_else(|| CliError::new(ExitStatus::Protocol, "the server's bytes are not in base64"))
}

pub(crate) fn ensure_single_blob(blobs: usize) -> Result<()> {
    match blobs {
        1 => Ok(()),
        count => Err(CliError::usage(format!("-o - writes one thing, and there are {count}"))),
    }
}

/// JSON with a line for each member. Its numbers and strings stay as they are.
pub(crate) fn pretty_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut letters = json.chars().peekable();
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(letter) = letters.next() {
        if in_string {
            out.push(letter);
            (in_string, escaped) = (escaped || letter != '"', !escaped && letter == '\\');
            continue;
        }
        match letter {
            '"' => {
                in_string = true;
                out.push(letter);
            }
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if letters.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    out.extend(letters.next());
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                newline(&mut out, depth);
            }
            ':' => out.push_str(": "),
            letter if letter.is_ascii_whitespace() => {}
            letter => out.push(letter),
        }
    }
    out
}

fn blob(kind: &'static str, mime_type: Option<&str>, base64: &str) -> OutputPart {
    let mime_type = mime_type.unwrap_or("application/octet-stream").to_owned();
    OutputPart::Blob { kind, mime_type, base64: base64.to_owned() }
}

/// Where the `number`th of `all` goes: into a folder under a name of its own, or under the name that was given, with a
/// number if there are several.
fn output_path(to: &Path, name: &str, mime_type: &str, (number, all): (usize, usize)) -> PathBuf {
    let is_folder = to.is_dir() || to.as_os_str().as_encoded_bytes().ends_with(b"/");
    if is_folder {
        // The name may be a server's.
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
    fn json_is_laid_out_and_otherwise_untouched() {
        let text = r#"{"a":[1.50,{}, [] ],"b\"{":"x,y:z","c":1e400}"#;
        let expected =
            "{\n  \"a\": [\n    1.50,\n    {},\n    []\n  ],\n  \"b\\\"{\": \"x,y:z\",\n  \"c\": 1e400\n}";
        assert_eq!(pretty_json(text), expected);
        assert_eq!(pretty_json("{ }"), "{}");
        assert_eq!(pretty_json(r#""\\""#), r#""\\""#);
    }

    #[test]
    fn files_have_the_name_that_was_given_or_one_of_their_own() {
        let at =
            |to: &str, place| output_path(Path::new(to), "a/../b", "image/png", place).display().to_string();
        assert_eq!(at("x.png", (1, 1)), "x.png");
        assert_eq!(at("x.png", (2, 2)), "x-2.png");
        assert_eq!(at("out/", (1, 1)), "out/a____b-1.png");
    }
}
