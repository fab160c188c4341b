//! `tsugite config`: the files of hosts, read and written.

mod adding;
mod copying;
mod doctor;
mod listing;
mod removing;

use crate::support::Place;

/// Where programs keep their files that follow the system's rules.
pub(crate) const SUPPORT: &str =
    if cfg!(target_os = "macos") { "Library/Application Support" } else { "config" };

impl Place {
    /// A project in a home folder, so that the files of both are told apart.
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

    /// What a file holds.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.path.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.path.join(path).exists()
    }

    /// A text without the path of this folder.
    pub(crate) fn plain(&self, text: &str) -> String {
        text.replace(self.path.to_str().unwrap(), "~").replace(crate::support::TSUGITE, "TSUGITE")
    }
}
