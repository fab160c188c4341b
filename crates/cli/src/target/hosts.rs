//! Where well-known hosts list their servers, by their own documentation.

use std::path::{self, Path, PathBuf};
use std::{env, fs};

/// The hosts whose files are known.
pub(crate) const HOSTS: [&str; 4] = ["claude-desktop", "claude-code", "cursor", "vscode"];
/// This program, whose files are no other's.
pub(crate) const OWN: &str = "tsugite";

/// The folders in which files are looked for.
pub(crate) struct Folders {
    /// Where we are.
    here: PathBuf,
    home: Option<PathBuf>,
    /// For programs that follow the XDG rules.
    config: Option<PathBuf>,
    /// For programs that follow those of the system.
    support: Option<PathBuf>,
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
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) part: Part,
}

/// Which part of a file it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// The list a file usually has.
    List,
    /// The same in a file of Claude Code, which is large: the host keeps all kinds of things in it.
    Everywhere,
    /// There, the list of one project.
    Project(PathBuf),
}

impl Folders {
    pub(crate) fn of_this_process() -> Self {
        let folder = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = folder("HOME").or_else(|| folder("USERPROFILE"));
        let config = folder("XDG_CONFIG_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| Some(home.as_ref()?.join(".config")));
        let support = match () {
            () if cfg!(target_os = "macos") => {
                home.as_ref().map(|home| home.join("Library/Application Support"))
            }
            () if cfg!(windows) => folder("APPDATA"),
            () => config.clone(),
        };
        // By its documentation all that lies in the home folder lies there instead.
        let claude =
            folder("CLAUDE_CONFIG_DIR").or_else(|| home.clone()).map(|home| home.join(".claude.json"));
        Self { here: env::current_dir().unwrap_or_default(), home, config, support, claude }
    }

    /// Where a name without anything before it is looked for.
    pub(crate) fn own(&self) -> Vec<Place> {
        let user = self.config.as_ref().map(|config| config.join("tsugite").join("mcp.json"));
        [Some(".mcp.json".into()), Some("mcp.json".into()), user].into_iter().flatten().map(whole).collect()
    }

    /// Where a host looks, the nearest first; `None` for a host that is not known.
    pub(crate) fn of(&self, host: &str) -> Option<Vec<Place>> {
        let home = |path: &str| self.home.as_ref().map(|home| home.join(path));
        let support = |path: &str| self.support.as_ref().map(|support| support.join(path));
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
                return Some(scopes.into_iter().filter_map(|scope| self.scoped(host, scope)).collect());
            }
            _ => return None,
        };
        Some(files.into_iter().flatten().map(whole).collect())
    }
}

impl Folders {
    /// Where a host, or this program, lists what has this scope; `None` if it lists such a thing nowhere.
    pub(crate) fn scoped(&self, host: &str, scope: Scope) -> Option<Place> {
        let claude = |part: Part| self.claude.clone().map(|path| Place { path, part });
        match (host, scope) {
            (OWN, Scope::Global) => self.config.as_ref().map(|config| whole(config.join("tsugite/mcp.json"))),
            (OWN | "claude-code", Scope::Project) => Some(whole(".mcp.json".into())),
            ("claude-code", Scope::Global) => claude(Part::Everywhere),
            ("claude-code", Scope::Local) => claude(Part::Project(self.here.clone())),
            ("claude-desktop", Scope::Global) => self.of(host)?.into_iter().next(),
            ("cursor" | "vscode", Scope::Project) => self.of(host)?.into_iter().find(is_relative),
            ("cursor" | "vscode", Scope::Global) => {
                self.of(host)?.into_iter().find(|place| !is_relative(place))
            }
            _ => None,
        }
    }

    /// Every list there may be, each with those who read it, the nearest first.
    pub(crate) fn all(&self) -> Vec<(Place, Vec<&'static str>)> {
        let mut all: Vec<(Place, Vec<&'static str>)> = Vec::new();
        let own = self.own().into_iter().map(|place| (place, OWN));
        let theirs = HOSTS
            .into_iter()
            .flat_map(|host| self.of(host).unwrap_or_default().into_iter().map(move |place| (place, host)));
        for (place, host) in own.chain(theirs) {
            match all.iter_mut().find(|(known, _)| known.is_same(&place)) {
                Some((_, hosts)) if hosts.contains(&host) => {}
                Some((_, hosts)) => hosts.push(host),
                None => all.push((place, vec![host])),
            }
        }
        all
    }
}

impl Place {
    /// The folder whose list it is, where a file has lists for several.
    pub(crate) fn project(&self) -> Option<&Path> {
        match &self.part {
            Part::Project(project) => Some(project),
            Part::List | Part::Everywhere => None,
        }
    }

    /// Whether both are one list: the home folder may be the project, and a file may be a link to another.
    pub(crate) fn is_same(&self, other: &Place) -> bool {
        let real = |place: &Place| {
            let path = fs::canonicalize(&place.path).or_else(|_| path::absolute(&place.path));
            path.unwrap_or_else(|_| place.path.clone())
        };
        self.part == other.part && real(self) == real(other)
    }

    /// The file, and which part of it.
    pub(crate) fn shown(&self) -> String {
        match &self.part {
            Part::Project(project) => format!("{}, for {}", self.path.display(), project.display()),
            Part::List | Part::Everywhere => self.path.display().to_string(),
        }
    }
}

fn is_relative(place: &Place) -> bool {
    place.path.is_relative()
}

fn whole(path: PathBuf) -> Place {
    Place { path, part: Part::List }
}
