//! `cargo xtask pictures`: the pictures of the README, made anew from the binary as it is.

mod svg;
mod terminal;

use std::fs;
use std::path::Path;

use crate::browser::Browser;
use crate::server::Listening;
use crate::{base64, binary, run, setup};
use terminal::Scene;

/// Makes both, in `docs/pictures`.
pub(crate) fn make() -> Result<(), String> {
    let folder = run::target_folder()?.join("pictures");
    run::make_folder(&folder)?;
    let program = binary::tsugite(&folder)?;
    let mut lines = Vec::new();
    for scene in SCENES {
        lines.extend(terminal::play(scene, &program)?);
    }
    keep(TERMINAL, svg::drawn(&lines).as_bytes())?;
    keep(START_PAGE, &start_page(&program, &folder)?)
}

/// The upper part of the page, at the address that people will see.
fn start_page(program: &Path, folder: &Path) -> Result<Vec<u8>, String> {
    setup::japanese_font()?;
    let serve = run::program(program, ["serve", "--listen", "127.0.0.1:8808"]);
    let _server = Listening::tsugite(serve, &folder.join("server.txt"))?;
    let mut browser = Browser::start(folder, "localhost")?;
    browser.wear((1000, 1230), "light")?;
    browser.open("http://127.0.0.1:8808/")?;
    base64::decode(&browser.picture(false)?).ok_or("the picture is no base64".to_owned())
}

fn keep(path: &str, bytes: &[u8]) -> Result<(), String> {
    let file = run::root().join(path);
    if let Some(folder) = file.parent() {
        run::make_folder(folder)?;
    }
    if bytes.len() >= MOST_BYTES {
        return Err(format!("{path} would have {} bytes\n  try: show less in it", bytes.len()));
    }
    fs::write(&file, bytes).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("{path}: {} bytes", bytes.len());
    Ok(())
}

/// What is typed, and what is answered when these words have come. The last is shown while it runs.
const SCENES: [Scene; 4] = [
    Scene { words: "list demo", replies: &[], lines: 7, until: None },
    Scene { words: "info demo", replies: &[], lines: usize::MAX, until: None },
    Scene {
        words: "call demo order",
        replies: &[("name: ", "Kiku"), ("[2]: ", "3"), ("[cedar]: ", "oak"), ("(yes or no): ", "yes")],
        lines: usize::MAX,
        until: None,
    },
    Scene { words: "call demo count", replies: &[], lines: usize::MAX, until: Some("step 3 of 5") },
];

const TERMINAL: &str = "docs/pictures/terminal.svg";
const START_PAGE: &str = "docs/pictures/start-page.png";

/// A page with pictures shall not be slow because of them.
const MOST_BYTES: usize = 150_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pictures_are_there_and_shown() {
        for path in [TERMINAL, START_PAGE] {
            let bytes = fs::read(run::root().join(path)).unwrap();
            assert!(bytes.len() < MOST_BYTES, "{path} has {} bytes", bytes.len());
            for page in ["README.md", "README.ja.md"] {
                let text = fs::read_to_string(run::root().join(page)).unwrap();
                assert!(text.contains(&format!("]({path})")), "{path} in {page}");
            }
        }
    }
}
