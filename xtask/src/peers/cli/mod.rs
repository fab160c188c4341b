//! `cargo xtask peers binary`: tests the binary `tsugite` with clients and servers of other projects.
//!
//! `serve.rs` runs their clients against `tsugite serve`, `verbs.rs` runs the verbs of `tsugite` against their
//! servers, and `bridge.rs` runs their clients against their servers across `tsugite bridge`.

pub(super) mod bridge;
pub(super) mod serve;
pub(super) mod verbs;

use std::path::{Path, PathBuf};

use super::{PeerPackages, combine_results};
use crate::count::Count;
use crate::{binary, process};

/// Fills the three tables and adds every cell to `count`.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    let installed = PeerPackages::new()?;
    let folder = installed.output_dir.join("binary");
    for part in ["clients", "servers", "bridge"] {
        process::create_dir(&folder.join(part))?;
    }
    let program = binary::tsugite(&folder)?;
    let place = CliRun { program, installed: &installed, output_dir: &folder };
    combine_results([serve::run(&place, count), verbs::run(&place, count), bridge::run(&place, count)])
}

/// The newest revision of each era, and the oldest. The others are tested with the library.
const REVISIONS: [&str; 3] = ["2026-07-28", "2025-11-25", "2024-11-05"];

/// The shared parts of a run: the peers, the binary, and a folder.
struct CliRun<'a> {
    program: PathBuf,
    installed: &'a PeerPackages,
    /// The folder for logs.
    output_dir: &'a Path,
}
