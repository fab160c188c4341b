//! `cargo xtask pictures`: updates the pictures of the README from the current binary.

mod svg;
mod terminal;

use std::fs;
use std::path::Path;

use crate::browser::Browser;
use crate::server::ListeningServer;
use crate::{base64, binary, process, setup};
use terminal::Scene;

/// Makes both pictures in `docs/pictures`.
pub(crate) fn make() -> Result<(), String> {
    let folder = process::target_dir()?.join("pictures");
    process::create_dir(&folder)?;
    let program = binary::tsugite(&folder)?;
    let mut lines = Vec::new();
    for scene in SCENES {
        lines.extend(terminal::record(scene, &program)?);
    }
    save(TERMINAL_PATH, svg::render(&lines).as_bytes())?;
    save(START_PAGE_PATH, &screenshot_start_page(&program, &folder)?)
}

/// A screenshot of the upper part of the start page, at the default address.
fn screenshot_start_page(program: &Path, folder: &Path) -> Result<Vec<u8>, String> {
    setup::japanese_font()?;
    let serve = process::program(program, ["serve", "--listen", "127.0.0.1:8808"]);
    let _server = ListeningServer::start_tsugite(serve, &folder.join("server.txt"))?;
    let mut browser = Browser::start(folder, "localhost")?;
    browser.emulate((1000, 1230), "light")?;
    browser.open("http://127.0.0.1:8808/")?;
    base64::decode(&browser.screenshot(false)?).ok_or("the picture is no base64".to_owned())
}

fn save(path: &str, bytes: &[u8]) -> Result<(), String> {
    let file = process::root().join(path);
    if let Some(folder) = file.parent() {
        process::create_dir(folder)?;
    }
    if bytes.len() >= MAX_BYTES {
        return Err(format!("{path} is too large ({} bytes)\n  try: show less in it", bytes.len()));
    }
    fs::write(&file, bytes).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    println!("{path}: {} bytes", bytes.len());
    Ok(())
}

/// The commands, with the input to type after given words. The last one is shown while it runs.
const SCENES: [Scene; 4] = [
    Scene { args: "list demo", replies: &[], max_lines: 7, until: None },
    Scene { args: "info demo", replies: &[], max_lines: usize::MAX, until: None },
    Scene {
        args: "call demo order",
        replies: &[("name: ", "Kiku"), ("[2]: ", "3"), ("[cedar]: ", "oak"), ("(yes or no): ", "yes")],
        max_lines: usize::MAX,
        until: None,
    },
    Scene { args: "call demo count", replies: &[], max_lines: usize::MAX, until: Some("step 3 of 5") },
];

const TERMINAL_PATH: &str = "docs/pictures/terminal.svg";
const START_PAGE_PATH: &str = "docs/pictures/start-page.png";

/// The size limit of a picture, so that pages load fast.
const MAX_BYTES: usize = 150_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pictures_exist_and_are_shown() {
        for path in [TERMINAL_PATH, START_PAGE_PATH] {
            let bytes = fs::read(process::root().join(path)).unwrap();
            assert!(bytes.len() < MAX_BYTES, "{path} has {} bytes", bytes.len());
            for page in ["README.md", "README.ja.md"] {
                let text = fs::read_to_string(process::root().join(page)).unwrap();
                assert!(text.contains(&format!("]({path})")), "{path} in {page}");
            }
        }
    }
}
