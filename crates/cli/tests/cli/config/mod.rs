//! `tsugite config`: reads and writes the configuration files of hosts.

mod adding;
mod copying;
mod doctor;
mod listing;
mod removing;
#[cfg(unix)]
mod unix;

use crate::paths::{tsugite_path, with_name};
use crate::support::Place;

/// The application data folder of the platform.
pub(crate) const SUPPORT: &str =
    if cfg!(target_os = "macos") { "Library/Application Support" } else { "config" };

impl Place {
    /// Creates a project in a home folder, so that the files of both are distinct.
    pub(crate) fn project() -> Self {
        let place = Self::new();
        std::fs::create_dir(place.path.join("shop")).unwrap();
        place
    }

    /// Runs `tsugite config` in the project.
    pub(crate) fn config(&self, words: &[&str]) -> crate::support::Ran {
        let mut command = self.command(["config"].iter().chain(words));
        command.current_dir(self.path.join("shop"));
        crate::support::Running::start(command).end()
    }

    /// Returns the contents of a file.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.path.join(path).exists()
    }

    /// Returns a text with the path of this folder replaced by `~`, and with the paths of Unix.
    pub(crate) fn plain(&self, text: &str) -> String {
        let text = with_name(text, tsugite_path(), "TSUGITE");
        with_name(&text, self.path.to_str().unwrap(), "~")
    }
}
