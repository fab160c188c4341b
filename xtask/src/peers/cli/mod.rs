//! `cargo xtask peers binary`: the binary `tsugite` between what other projects have written.
//!
//! `serve.rs` lets their clients talk to `tsugite serve`, `verbs.rs` lets the verbs of `tsugite` talk to their
//! servers, and `bridge.rs` lets their clients talk to their servers, across `tsugite bridge`.

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

/// The newest of either era, and the oldest. Those between are the library's, and tried with it.
const REVISIONS: [&str; 3] = ["2026-07-28", "2025-11-25", "2024-11-05"];

/// What all of them need.
struct CliRun<'a> {
    program: PathBuf,
    installed: &'a PeerPackages,
    /// For what is said.
    output_dir: &'a Path,
}
