//! Where well-known hosts list their servers, by their own documentation.

use std::env;
use std::path::{Path, PathBuf};

/// The hosts whose files are known.
pub(crate) const HOSTS: [&str; 4] = ["claude-desktop", "claude-code", "cursor", "vscode"];

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
                let file = |part: Part| self.claude.clone().map(|path| Place { path, part });
                let (own, everywhere) = (file(Part::Project(self.here.clone())), file(Part::Everywhere));
                let shared = whole(Path::new(".mcp.json").to_owned());
                return Some([own, Some(shared), everywhere].into_iter().flatten().collect());
            }
            _ => return None,
        };
        Some(files.into_iter().flatten().map(whole).collect())
    }
}

fn whole(path: PathBuf) -> Place {
    Place { path, part: Part::List }
}
