//! `cargo xtask peers binary`: the binary `tsugite` between what other projects have written.
//!
//! `clients.rs` lets their clients talk to `tsugite serve`, `servers.rs` lets the verbs of `tsugite` talk to their
//! servers, and `bridge.rs` lets their clients talk to their servers, across `tsugite bridge`.

pub(super) mod bridge;
pub(super) mod clients;
pub(super) mod servers;

use std::path::{Path, PathBuf};

use super::{Installed, all};
use crate::count::Count;
use crate::{binary, run};

/// Fills the three tables and adds every cell to `count`.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    let installed = Installed::new()?;
    let folder = installed.folder.join("binary");
    for part in ["clients", "servers", "bridge"] {
        run::make_folder(&folder.join(part))?;
    }
    let program = binary::tsugite(&folder)?;
    let place = Place { program, installed: &installed, folder: &folder };
    all([clients::run(&place, count), servers::run(&place, count), bridge::run(&place, count)])
}

/// The newest of either era, and the oldest. Those between are the library's, and tried with it.
const REVISIONS: [&str; 3] = ["2026-07-28", "2025-11-25", "2024-11-05"];

/// What all of them need.
struct Place<'a> {
    program: PathBuf,
    installed: &'a Installed,
    /// For what is said.
    folder: &'a Path,
}
