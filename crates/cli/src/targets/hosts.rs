//! The configuration files in which known hosts list their servers, by their own documentation.

use std::ffi::OsStr;
use std::path::{self, Path, PathBuf};
use std::{env, fs};

use super::user_dirs::{UserDirs, folder, user_dirs};

/// The supported hosts.
pub(crate) const HOSTS: [&str; 4] = ["claude-desktop", "claude-code", "cursor", "vscode"];
/// The name of this program as a host.
pub(crate) const OWN_HOST: &str = "tsugite";

/// The folders that are searched for configuration files.
pub(crate) struct ConfigDirs {
    /// The working directory.
    current_dir: PathBuf,
    home: Option<PathBuf>,
    /// The XDG configuration folder, on Windows the application data folder.
    config: Option<PathBuf>,
    /// The application data folder of the platform.
    app_data: Option<PathBuf>,
    /// The file of Claude Code.
    claude: Option<PathBuf>,
}

/// The users and folders to which an entry applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One user, in every folder.
    Global,
    /// Every user, in this folder.
    Project,
    /// One user, in this folder.
    Local,
}

/// The location of a server list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigLocation {
    pub(crate) path: PathBuf,
    pub(crate) section: ConfigSection,
}

/// The part of a file that holds the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigSection {
    /// The list at the top level of the file.
    TopLevel,
    /// The top-level list of `.claude.json`, a large file in which Claude Code also keeps other data.
    ClaudeUser,
    /// The list of one project in `.claude.json`.
    ClaudeProject(PathBuf),
}

impl ConfigDirs {
    pub(crate) fn from_env() -> Self {
        let UserDirs { home, config, app_data } = user_dirs();
        // By its documentation this folder replaces the home folder.
        let claude =
            folder("CLAUDE_CONFIG_DIR").or_else(|| home.clone()).map(|home| home.join(".claude.json"));
        Self { current_dir: env::current_dir().unwrap_or_default(), home, config, app_data, claude }
    }

    /// Returns the lists of this program, in search order. The user's own is first: a folder cannot replace its entries.
    pub(crate) fn own_locations(&self) -> Vec<ConfigLocation> {
        let user = self.config.as_ref().map(|config| config.join("tsugite").join("mcp.json"));
        [user, Some(".mcp.json".into()), Some("mcp.json".into())]
            .into_iter()
            .flatten()
            .map(top_level)
            .collect()
    }

    /// Returns the lists of a host, the most specific first; `None` for an unknown host.
    pub(crate) fn host_locations(&self, host: &str) -> Option<Vec<ConfigLocation>> {
        // Step by step: a path with the separators of the platform is easier to copy from a message.
        let beneath =
            |folder: &PathBuf, path: &str| folder.iter().chain(path.split('/').map(OsStr::new)).collect();
        let home = |path: &str| self.home.as_ref().map(|home| beneath(home, path));
        let support = |path: &str| self.app_data.as_ref().map(|support| beneath(support, path));
        let files: Vec<Option<PathBuf>> = match host {
            "claude-desktop" => vec![support("Claude/claude_desktop_config.json")],
            "cursor" => vec![Some(".cursor/mcp.json".into()), home(".cursor/mcp.json")],
            "vscode" => vec![
                Some(".vscode/mcp.json".into()),
                support("Code/User/mcp.json"),
                support("Code/User/settings.json"),
            ],
            "claude-code" => {
                // The user's own entries for a project override the shared ones.
                let scopes = [Scope::Local, Scope::Project, Scope::Global];
                return Some(
                    scopes.into_iter().filter_map(|scope| self.scoped_location(host, scope)).collect(),
                );
            }
            _ => return None,
        };
        Some(files.into_iter().flatten().map(top_level).collect())
    }
}

impl ConfigDirs {
    /// Returns the list of a host, or of this program, for a scope; `None` if the host does not support the scope.
    pub(crate) fn scoped_location(&self, host: &str, scope: Scope) -> Option<ConfigLocation> {
        let claude =
            |section: ConfigSection| self.claude.clone().map(|path| ConfigLocation { path, section });
        match (host, scope) {
            (OWN_HOST, Scope::Global) => {
                self.config.as_ref().map(|config| top_level(config.join("tsugite").join("mcp.json")))
            }
            (OWN_HOST | "claude-code", Scope::Project) => Some(top_level(".mcp.json".into())),
            ("claude-code", Scope::Global) => claude(ConfigSection::ClaudeUser),
            ("claude-code", Scope::Local) => claude(ConfigSection::ClaudeProject(self.current_dir.clone())),
            ("claude-desktop", Scope::Global) => self.host_locations(host)?.into_iter().next(),
            ("cursor" | "vscode", Scope::Project) => self.host_locations(host)?.into_iter().find(is_relative),
            ("cursor" | "vscode", Scope::Global) => {
                self.host_locations(host)?.into_iter().find(|location| !is_relative(location))
            }
            _ => None,
        }
    }

    /// Returns every possible list with the hosts that read it, the most specific first.
    pub(crate) fn all_locations(&self) -> Vec<(ConfigLocation, Vec<&'static str>)> {
        let mut all: Vec<(ConfigLocation, Vec<&'static str>)> = Vec::new();
        let own = self.own_locations().into_iter().map(|location| (location, OWN_HOST));
        let theirs = HOSTS.into_iter().flat_map(|host| {
            self.host_locations(host).unwrap_or_default().into_iter().map(move |location| (location, host))
        });
        for (location, host) in own.chain(theirs) {
            match all.iter_mut().find(|(known, _)| known.is_same_list(&location)) {
                Some((_, hosts)) if hosts.contains(&host) => {}
                Some((_, hosts)) => hosts.push(host),
                None => all.push((location, vec![host])),
            }
        }
        all
    }
}

impl ConfigDirs {
    /// Returns the files that belong to the user, and not to a folder.
    pub(crate) fn user_files(&self) -> Vec<PathBuf> {
        let of_hosts = HOSTS.into_iter().filter_map(|host| self.host_locations(host)).flatten();
        let all = self.own_locations().into_iter().chain(of_hosts);
        all.map(|location| location.path).filter(|path| path.is_absolute()).collect()
    }
}

impl ConfigLocation {
    /// Returns the project folder, if the file has a list per project.
    pub(crate) fn project(&self) -> Option<&Path> {
        match &self.section {
            ConfigSection::ClaudeProject(project) => Some(project),
            ConfigSection::TopLevel | ConfigSection::ClaudeUser => None,
        }
    }

    /// Whether both are the same list: the project may be the home folder, and a file may be a symbolic link.
    pub(crate) fn is_same_list(&self, other: &ConfigLocation) -> bool {
        let real = |location: &ConfigLocation| {
            let path = fs::canonicalize(&location.path).or_else(|_| path::absolute(&location.path));
            path.unwrap_or_else(|_| location.path.clone())
        };
        self.section == other.section && real(self) == real(other)
    }

    /// Formats the path, and the project if the file has a list per project.
    pub(crate) fn describe(&self) -> String {
        match &self.section {
            ConfigSection::ClaudeProject(project) => {
                format!("{}, for {}", self.path.display(), project.display())
            }
            ConfigSection::TopLevel | ConfigSection::ClaudeUser => self.path.display().to_string(),
        }
    }
}

fn is_relative(location: &ConfigLocation) -> bool {
    location.path.is_relative()
}

fn top_level(path: PathBuf) -> ConfigLocation {
    ConfigLocation { path, section: ConfigSection::TopLevel }
}
