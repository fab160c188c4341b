//! `tsugite users`: the people who can log in to a server that `tsugite serve --auth` protects.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;
use tsugite_auth::authorization_server::UserFile;
use tsugite_auth::{AuthError, Secret};

use crate::console::Console;
use crate::error::{CliError, Result};
use crate::password_input;

/// Manage the users in the file of `serve --auth`
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "A running server sees a change with the next login. If its file had a provider and no users, start it again.\n\nExamples:\n  tsugite users add auth.json ann\n  tsugite users list auth.json\n  tsugite users remove auth.json ann"
)]
pub(crate) struct Users {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(Add),
    List(List),
    Remove(Remove),
}

/// Add a user, or change the password of one
#[derive(Debug, Args)]
#[command(
    after_help = "The password is asked for on a terminal, and otherwise read from the first line of standard input.\n\nExamples:\n  tsugite users add auth.json ann\n  pass show mcp/ann | tsugite users add auth.json ann"
)]
struct Add {
    /// The file; it is created if there is none
    file: PathBuf,
    /// The name of the user
    name: String,
    /// Print the result and errors as JSON
    #[arg(long)]
    json: bool,
}

/// List the names of the users
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tsugite users list auth.json\n  tsugite users list auth.json --json")]
struct List {
    /// The file
    file: PathBuf,
    /// Print the list and errors as JSON
    #[arg(long)]
    json: bool,
}

/// Remove a user. Tokens are no longer refreshed; those of before expire within minutes
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  tsugite users remove auth.json ann")]
struct Remove {
    /// The file
    file: PathBuf,
    /// The name of the user
    name: String,
    /// Print the result and errors as JSON
    #[arg(long)]
    json: bool,
}

impl Users {
    pub(crate) async fn run(self) -> Result<()> {
        match self.action {
            Action::Add(add) => add.run().await,
            Action::List(list) => list.run().await,
            Action::Remove(remove) => remove.run().await,
        }
    }

    pub(crate) fn wants_json(&self) -> bool {
        match &self.action {
            Action::Add(Add { json, .. })
            | Action::List(List { json, .. })
            | Action::Remove(Remove { json, .. }) => *json,
        }
    }
}

impl Add {
    async fn run(self) -> Result<()> {
        let password = read_password(&self.name).await?;
        let users = UserFile::new(&self.file);
        let is_new = users.set_password(&self.name, password).await.map_err(users_error)?;
        let console = Console::new(self.json);
        let name = console.sanitized_name(&self.name);
        match (self.json, is_new) {
            (true, _) => console.print_json(&json!({ "added": is_new })),
            (false, true) => console.print_line(&format!("added the user {name}")),
            (false, false) => console.print_line(&format!("changed the password of {name}")),
        }
    }
}

impl List {
    async fn run(self) -> Result<()> {
        let console = Console::new(self.json);
        let names = UserFile::new(&self.file).names().await.map_err(users_error)?;
        if self.json {
            return console.print_json(&json!({ "users": names }));
        }
        if names.is_empty() {
            console.note("there are no users");
        }
        names.iter().try_for_each(|name| console.print_line(&console.sanitized_name(name)))
    }
}

impl Remove {
    async fn run(self) -> Result<()> {
        let removed = UserFile::new(&self.file).remove(&self.name).await.map_err(users_error)?;
        let console = Console::new(self.json);
        let name = console.sanitized_name(&self.name);
        match (self.json, removed) {
            (true, _) => console.print_json(&json!({ "removed": removed })),
            (false, true) => console.print_line(&format!("removed the user {name}")),
            (false, false) => Err(CliError::usage(format!("there is no user {name}")).at_step("users")),
        }
    }
}

fn users_error(error: AuthError) -> CliError {
    CliError::usage("cannot use the file with users").at_step("users").detail(error.to_string())
}

/// Asks for a password on a terminal, twice and without showing it; otherwise reads a line.
async fn read_password(name: &str) -> Result<Secret> {
    let failed = |error: io::Error| {
        CliError::usage("cannot read the password").at_step("users").detail(error.to_string())
    };
    if !io::stdin().is_terminal() {
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(failed)?;
        let password = line.strip_suffix('\n').unwrap_or(&line);
        return Ok(Secret::new(password.strip_suffix('\r').unwrap_or(password)));
    }
    let password = password_input::read(&format!("password of {name}: ")).await.map_err(failed)?;
    match password_input::read("once more: ").await.map_err(failed)? == password {
        true => Ok(password),
        false => Err(CliError::usage("the passwords differ").at_step("users")),
    }
}
