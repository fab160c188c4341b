//! `tsugite completions`: prints a completion script for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::Cli;
use crate::console::Console;
use crate::error::Result;

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tsugite completions bash > ~/.local/share/bash-completion/completions/tsugite\n  tsugite completions zsh > ~/.zfunc/_tsugite     # with ~/.zfunc in fpath\n  tsugite completions fish > ~/.config/fish/completions/tsugite.fish\n  source <(tsugite completions bash)              # for this session only"
)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "tsugite", &mut script);
        Console::new(false).print_bytes(&script)
    }
}
