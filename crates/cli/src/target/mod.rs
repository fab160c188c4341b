//! Which server is meant: one grammar for every verb.

mod hosts;
mod listed;

use std::ffi::OsString;

use tsugite::client::servers::Way;

use crate::fail::{Failure, Result};
use crate::options::Common;
use hosts::Folders;

/// A server.
pub(crate) enum Target {
    /// The built-in one, in this process.
    Demo,
    Url(String),
    Command(Vec<OsString>),
    /// From a file.
    Listed(Way),
}

/// A server, and what it is called in messages.
pub(crate) struct Found {
    pub(crate) target: Target,
    pub(crate) place: String,
}

/// Finds the server that the words of a verb begin with, or that stands after `--`. Gives what is left of the words.
pub(crate) fn find(words: Vec<String>, common: &Common, verb: &str) -> Result<(Found, Vec<String>)> {
    if let Some(program) = common.command.first() {
        let place = format!("`{}`", program.to_string_lossy());
        return Ok((Found { target: Target::Command(common.command.clone()), place }, words));
    }
    let mut words = words.into_iter();
    let Some(word) = words.next() else {
        return Err(Failure::usage(format!("`{verb}` needs a server"))
            .hint(SPELLINGS)
            .hint("`tsugite info demo`"));
    };
    let found = read(&word, common)?;
    Ok((found, words.collect()))
}

fn read(word: &str, common: &Common) -> Result<Found> {
    if word == "demo" {
        return Ok(Found { target: Target::Demo, place: "the built-in demo server".to_owned() });
    }
    if let Some((scheme, _)) = word.split_once("://") {
        return match scheme.to_ascii_lowercase().as_str() {
            "http" | "https" => Ok(Found { target: Target::Url(word.to_owned()), place: word.to_owned() }),
            _ => Err(Failure::usage(format!("`{scheme}` is nothing a server speaks"))
                .at("name")
                .hint("URLs of servers begin with http:// or https://")),
        };
    }
    let folders = Folders::of_this_process();
    let (name, way) = match word.split_once(".json:") {
        Some((file, name)) => (name, listed::in_file(format!("{file}.json").as_ref(), name, common)?),
        None => match word.split_once(':') {
            Some((host, name)) => (name, listed::in_host(host, name, &folders, common)?),
            None if word.ends_with(".json") => {
                return Err(listed::without_name(word.as_ref(), common));
            }
            None => (word, listed::by_name(word, &folders, common)?),
        },
    };
    Ok(Found { target: Target::Listed(way), place: format!("`{name}`") })
}

pub(crate) const SPELLINGS: &str =
    "a server is a URL, a NAME, FILE.json:NAME, HOST:NAME, `demo`, or `-- COMMAND` at the end";
