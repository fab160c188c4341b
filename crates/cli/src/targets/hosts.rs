//! Where well-known hosts list their servers, by their own documentation.

use std::path::{self, Path, PathBuf};
use std::{env, fs};

/// The hosts whose files are known.
pub(crate) const HOSTS: [&str; 4] = ["claude-desktop", "claude-code", "cursor", "vscode"];
/// This program, whose files are no other's.
pub(crate) const OWN_HOST: &str = "tsugite";

/// The folders in which files are looked for.
pub(crate) struct ConfigDirs {
    /// Where we are.
    current_dir: PathBuf,
    home: Option<PathBuf>,
    /// For programs that follow the XDG rules.
    config: Option<PathBuf>,
    /// For programs that follow those of the system.
    app_data: Option<PathBuf>,
    /// Of Claude Code.
    claude: Option<PathBuf>,
}

/// For whom a server is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// For one person, everywhere.
    Global,
    /// For everybody who works in this folder.
    Project,
    /// For one person, in this folder.
    Local,
}

/// A list of servers, in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigLocation {
    pub(crate) path: PathBuf,
    pub(crate) section: ConfigSection,
}

/// Which part of a file it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigSection {
    /// The list a file usually has.
    TopLevel,
    /// The same in a file of Claude Code, which is large: the host keeps all kinds of things in it.
    ClaudeUser,
    /// There, the list of one project.
    ClaudeProject(PathBuf),
}

impl ConfigDirs {
    pub(crate) fn from_env() -> Self {
        let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = folder("HOME").or_else(|| folder("USERPROFILE"));
        let config = folder("XDG_CONFIG_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| Some(home.as_ref()?.join(".config")));
        let app_data = match () {
            () if cfg!(target_os = "macos") => {
                home.as_ref().map(|home| home.join("Library/Application Support"))
            }
            () if cfg!(windows) => folder("APPDATA"),
            () => config.clone(),
        };
        // By its documentation all that lies in the home folder lies there instead.
        let claude =
            folder("CLAUDE_CONFIG_DIR").or_else(|| home.clone()).map(|home| home.join(".claude.json"));
        Self { current_dir: env::current_dir().unwrap_or_default(), home, config, app_data, claude }
    }

    /// Where a name without anything before it is looked for.
    pub(crate) fn own_locations(&self) -> Vec<ConfigLocation> {
        let user = self.config.as_ref().map(|config| config.join("tsugite").join("mcp.json"));
        [Some(".mcp.json".into()), Some("mcp.json".into()), user]
            .into_iter()
            .flatten()
            .map(top_level)
            .collect()
    }

    /// Where a host looks, the nearest first; `None` for a host that is not known.
    pub(crate) fn host_locations(&self, host: &str) -> Option<Vec<ConfigLocation>> {
        let home = |path: &str| self.home.as_ref().map(|home| home.join(path));
        let support = |path: &str| self.app_data.as_ref().map(|support| support.join(path));
        let files: Vec<Option<PathBuf>> = match host {
            "claude-desktop" => vec![support("Claude/claude_desktop_config.json")],
            "cursor" => vec![Some(".cursor/mcp.json".into()), home(".cursor/mcp.json")],
            "vscode" => vec![
                Some(".vscode/mcp.json".into()),
                support("Code/User/mcp.json"),
                support("Code/User/settings.json"),
            ],
            "claude-code" => {
                // What belongs to one person in one project comes before what the project shares.
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
    /// Where a host, or this program, lists what has this scope; `None` if it lists such a thing nowhere.
    pub(crate) fn scoped_location(&self, host: &str, scope: Scope) -> Option<ConfigLocation> {
        let claude =
            |part: ConfigSection| self.claude.clone().map(|path| ConfigLocation { path, section: part });
        match (host, scope) {
            (OWN_HOST, Scope::Global) => {
                self.config.as_ref().map(|config| top_level(config.join("tsugite/mcp.json")))
            }
            (OWN_HOST | "claude-code", Scope::Project) => Some(top_level(".mcp.json".into())),
            ("claude-code", Scope::Global) => claude(ConfigSection::ClaudeUser),
            ("claude-code", Scope::Local) => claude(ConfigSection::ClaudeProject(self.current_dir.clone())),
            ("claude-desktop", Scope::Global) => self.host_locations(host)?.into_iter().next(),
            ("cursor" | "vscode", Scope::Project) => self.host_locations(host)?.into_iter().find(is_relative),
            ("cursor" | "vscode", Scope::Global) => {
                self.host_locations(host)?.into_iter().find(|place| !is_relative(place))
            }
            _ => None,
        }
    }

    /// Every list there may be, each with those who read it, the nearest first.
    pub(crate) fn all_locations(&self) -> Vec<(ConfigLocation, Vec<&'static str>)> {
        let mut all: Vec<(ConfigLocation, Vec<&'static str>)> = Vec::new();
        let own = self.own_locations().into_iter().map(|place| (place, OWN_HOST));
        let theirs = HOSTS.into_iter().flat_map(|host| {
            self.host_locations(host).unwrap_or_default().into_iter().map(move |place| (place, host))
        });
        for (place, host) in own.chain(theirs) {
            match all.iter_mut().find(|(known, _)| known.is_same_list(&place)) {
                Some((_, hosts)) if hosts.contains(&host) => {}
                Some((_, hosts)) => hosts.push(host),
                None => all.push((place, vec![host])),
            }
        }
        all
    }
}

impl ConfigLocation {
    /// The folder whose list it is, where a file has lists for several.
    pub(crate) fn project(&self) -> Option<&Path> {
        match &self.section {
            ConfigSection::ClaudeProject(project) => Some(project),
            ConfigSection::TopLevel | ConfigSection::ClaudeUser => None,
        }
    }

    /// Whether both are one list: the home folder may be the project, and a file may be a link to another.
    pub(crate) fn is_same_list(&self, other: &ConfigLocation) -> bool {
        let real = |place: &ConfigLocation| {
            let path = fs::canonicalize(&place.path).or_else(|_| path::absolute(&place.path));
            path.unwrap_or_else(|_| place.path.clone())
        };
        self.section == other.section && real(self) == real(other)
    }

    /// The file, and which part of it.
    pub(crate) fn describe(&self) -> String {
        match &self.section {
            ConfigSection::ClaudeProject(project) => {
                format!("{}, for {}", self.path.display(), project.display())
            }
            ConfigSection::TopLevel | ConfigSection::ClaudeUser => self.path.display().to_string(),
        }
    }
}

fn is_relative(place: &ConfigLocation) -> bool {
    place.path.is_relative()
}

fn top_level(path: PathBuf) -> ConfigLocation {
    ConfigLocation { path, section: ConfigSection::TopLevel }
}
