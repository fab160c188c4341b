//! Tips for a command line that clap rejects, where its own would mislead or miss the point.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::suggest::closest_names;

/// Replaces misleading tips, and adds those for common mistakes. `words` is the command line without the program.
pub(crate) fn improve(error: &mut clap::Error, words: &[String], program: &clap::Command) {
    remove_double_dash(error);
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let words = words.get(..end).unwrap_or_default();
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => option_tip(error, words, program),
        ErrorKind::InvalidSubcommand => verb_tip(error, words, program),
        _ => None,
    };
    if let Some(tip) = tip {
        let mut tips = match error.remove(ContextKind::Suggested) {
            Some(ContextValue::StyledStrs(tips)) => tips,
            _ => Vec::new(),
        };
        tips.insert(0, StyledStr::from(tip));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
}

/// Removes the tip to write `--` before a value: here, the words after `--` are a command to start.
fn remove_double_dash(error: &mut clap::Error) {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value, use"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
}

/// Returns the tip for an unknown option: another option, or an argument of a tool that was written like one.
fn option_tip(error: &mut clap::Error, words: &[String], program: &clap::Command) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let verb = program.find_subcommand(words.first()?)?;
    let name = option.trim_start_matches('-').to_owned();
    let value = option_value(option, words);
    let options: Vec<&str> = verb.get_arguments().filter_map(clap::Arg::get_long).collect();
    if name.len() <= 2 {
        // A short name is similar to any other.
        error.remove(ContextKind::SuggestedArg);
    }
    match (name.as_str(), verb.get_name()) {
        ("port" | "p", _) if options.contains(&"listen") => Some(format!(
            "the address is one option: --listen 127.0.0.1:{}",
            value.as_deref().unwrap_or("PORT")
        )),
        ("host", _) if options.contains(&"listen") => {
            Some(format!("the address is one option: --listen {}:8808", value.as_deref().unwrap_or("HOST")))
        }
        (name, "call" | "prompt") if closest_names(name, options.iter().copied()).is_empty() => {
            error.remove(ContextKind::SuggestedArg);
            let value = value.unwrap_or_else(|| "…".to_owned());
            let value = if value.contains(char::is_whitespace) { format!("'{value}'") } else { value };
            Some(format!("an argument is written without dashes: {name}={value}"))
        }
        _ => None,
    }
}

/// Returns the value that was given for an option: `--a=1` or `--a 1`.
fn option_value(option: &str, words: &[String]) -> Option<String> {
    let mut words = words.iter().skip_while(|word| {
        let rest = word.strip_prefix(option);
        !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    });
    match words.next()?.split_once('=') {
        Some((_, value)) => Some(value.to_owned()),
        None => words.next().filter(|next| !next.starts_with('-')).cloned(),
    }
}

/// Returns the tip for words in the wrong order: `tsugite demo list`.
fn verb_tip(error: &mut clap::Error, words: &[String], program: &clap::Command) -> Option<String> {
    let is_target = words.first().is_some_and(|word| word == "demo" || word.contains("://"));
    if is_target {
        // `demo` is similar to `dev`.
        error.remove(ContextKind::SuggestedSubcommand);
    } else if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return None;
    }
    let at = words.iter().position(|word| program.find_subcommand(word).is_some());
    let order = match at {
        Some(at) => {
            let (before, rest) = words.split_at_checked(at)?;
            let (verb, after) = rest.split_first()?;
            [verb].into_iter().chain(before).chain(after).map(String::as_str).collect::<Vec<_>>()
        }
        // A target alone.
        None => match words {
            [target, rest @ ..] if is_target => {
                ["list", target].into_iter().chain(rest.iter().map(String::as_str)).collect()
            }
            _ => return None,
        },
    };
    Some(format!("the command comes first: {} {}", program.get_name(), order.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_of_an_option_is_found() {
        let value = |option: &str, words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            option_value(option, &words)
        };
        assert_eq!(value("--a", "call demo add --a 1").as_deref(), Some("1"));
        assert_eq!(value("--a", "call demo add --ab 2 --a=1").as_deref(), Some("1"));
        assert_eq!(value("--a", "call demo add --a --b"), None);
        assert_eq!(value("--a", "call demo add"), None);
    }
}
