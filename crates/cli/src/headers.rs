//! The headers of `-H` and `--bearer-env`, which may come from a file or a variable so that other users do not see them in
//! the list of processes. Errors never show a value.

use std::fs;

use crate::error::{CliError, Result};
use crate::options::CommonOptions;

/// A header: its name and its value.
pub(crate) type Header = (String, String);

/// Returns the headers that the options set.
pub(crate) fn from_options(common: &CommonOptions) -> Result<Vec<Header>> {
    let mut headers = parse_all(&common.headers)?;
    if let Some(variable) = &common.bearer_env {
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION)) {
            return Err(CliError::usage(format!("-H and --bearer-env both set the header {AUTHORIZATION}")));
        }
        headers.push((AUTHORIZATION.to_owned(), format!("Bearer {}", token_from_env(variable)?)));
    }
    Ok(headers)
}

/// Parses the values of `-H`: `Name: value`, or `@FILE` for a file of such lines.
pub(crate) fn parse_all(values: &[String]) -> Result<Vec<Header>> {
    let mut headers = Vec::new();
    for value in values {
        match value.strip_prefix('@') {
            Some(path) => headers.extend(read_file(path)?),
            None => headers.push(parse(value).ok_or_else(|| {
                CliError::usage("-H: expected 'Name: value' or @FILE").hint("quote it: -H 'Name: value'")
            })?),
        }
    }
    Ok(headers)
}

/// Reads a file of headers, one on each line. Empty lines and lines that begin with `#` are skipped.
fn read_file(path: &str) -> Result<Vec<Header>> {
    let text = fs::read_to_string(path)
        .map_err(|error| CliError::usage(format!("-H: cannot read {path}")).detail(error.to_string()))?;
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(line, number)| {
            parse(line)
                .ok_or_else(|| CliError::usage(format!("-H: {path}, line {number}: expected 'Name: value'")))
        })
        .collect()
}

fn parse(text: &str) -> Option<Header> {
    let (name, value) = text.split_once(':')?;
    (!name.trim().is_empty()).then(|| (name.trim().to_owned(), value.trim().to_owned()))
}

/// Returns the token in a variable, which may end with a newline if it was read from a file.
fn token_from_env(variable: &str) -> Result<String> {
    let wrong = |reason: &str| {
        CliError::usage(format!("--bearer-env: the variable {variable} {reason}"))
            .hint(format!("export {variable}=… sets it"))
    };
    let token = std::env::var(variable).map_err(|error| match error {
        std::env::VarError::NotPresent => wrong("is not set"),
        std::env::VarError::NotUnicode(_) => wrong("is not UTF-8"),
    })?;
    match token.trim() {
        "" => Err(wrong("is empty")),
        token if token.contains(|letter: char| letter.is_whitespace() || letter.is_control()) => {
            Err(wrong("is no token: it contains spaces or control characters"))
        }
        token => Ok(token.to_owned()),
    }
}

const AUTHORIZATION: &str = "Authorization";
