//! `tsugite man`: prints the help as manual pages.

use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man as Page;
use clap_mangen::roff::{Roff, roman};

use crate::Cli;
use crate::console::Console;
use crate::error::{CliError, Result};

/// Print the manual page, or write one for each verb
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  tsugite man | man -l -\n  tsugite man --dir ~/.local/share/man/man1     then: man tsugite-call"
)]
pub(crate) struct Man {
    /// Write a page for the program and for each verb to this folder, and print their paths
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn run(self) -> Result<()> {
        let mut program = Cli::command();
        program.build();
        let console = Console::new(false);
        match self.dir {
            None => console.print_bytes(&render_page(&program)?),
            Some(folder) => {
                let write_error = |path: &Path, error: std::io::Error| {
                    CliError::usage(format!("--dir: cannot write {}: {error}", path.display()))
                };
                std::fs::create_dir_all(&folder).map_err(|error| write_error(&folder, error))?;
                for verb in with_subcommands(&program) {
                    let path = folder.join(format!("{}.1", page_name(verb)));
                    std::fs::write(&path, render_page(verb)?).map_err(|error| write_error(&path, error))?;
                    console.print_line(&path.display().to_string())?;
                }
                Ok(())
            }
        }
    }
}

/// Returns a command and all of its subcommands.
fn with_subcommands(command: &Command) -> Vec<&Command> {
    let nested = command.get_subcommands().filter(|verb| !verb.is_hide_set()).flat_map(with_subcommands);
    std::iter::once(command).chain(nested).collect()
}

/// Returns the name of the page, such as `tsugite-call`.
fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn render_page(command: &Command) -> Result<Vec<u8>> {
    let title = page_name(command);
    let page = Page::new(command.clone())
        .title(title)
        .source(concat!("tsugite ", env!("CARGO_PKG_VERSION")))
        .manual("Tsugite");
    let mut out = Vec::new();
    page.render_title(&mut out)?;
    page.render_name_section(&mut out)?;
    page.render_synopsis_section(&mut out)?;
    page.render_description_section(&mut out)?;
    page.render_options_section(&mut out)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut out)?;
    }
    if let Some(more) = command.get_after_help() {
        render_after_help(&more.to_string()).to_writer(&mut out)?;
    }
    Ok(out)
}

/// Renders the text after the options. A block with a heading becomes a section that keeps its lines.
fn render_after_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    for block in text.split("\n\n") {
        let (heading, lines) = match block.split_once(":\n") {
            Some((heading, lines)) if !heading.contains('\n') => (Some(heading), lines),
            _ => (None, block),
        };
        match heading {
            Some(heading) => roff.control("SH", [heading.to_uppercase().as_str()]).control("nf", []),
            None => roff.control("SH", ["NOTES"]),
        };
        for line in lines.lines() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        if heading.is_some() {
            roff.control("fi", []);
        }
    }
    roff
}
