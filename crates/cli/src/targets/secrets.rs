//! Detects secrets in entries, to mask them in output and to warn about them.

/// Whether a value with this name is usually a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_ascii_lowercase().replace(['-', '.'], "_");
    let words: Vec<&str> = name.split('_').collect();
    let joined = name.replace('_', "");
    let known = |word: &&str| SECRET_WORDS.contains(word);
    words.iter().any(known) || SECRET_SUFFIXES.iter().any(|end| joined.ends_with(end))
}

/// Whether a text has the form of a well-known kind of token.
pub(crate) fn looks_like_secret(text: &str) -> bool {
    let token = text.rsplit([' ', '=']).next().unwrap_or_default();
    let rest = TOKEN_PREFIXES.iter().find_map(|form| token.strip_prefix(form));
    rest.is_some_and(|rest| rest.len() >= 8 && !rest.contains("${"))
}

/// Whether the value of a name is a secret in plain text, and not a reference or a placeholder.
pub(crate) fn is_plain_secret(name: &str, value: &str) -> bool {
    let token = value.split_whitespace().last().unwrap_or_default();
    let is_literal = token.len() >= 8 && !value.contains("${") && !value.starts_with(['/', '.', '~', '<']);
    looks_like_secret(value) || (is_secret_name(name) && is_literal)
}

/// Returns the arguments of a command with secrets masked.
pub(crate) fn mask_args(args: &[String]) -> Vec<String> {
    let secret = secret_arg_indices(args);
    let masked = |(number, arg): (usize, &String)| match secret.contains(&number) {
        false => arg.clone(),
        true if arg.contains("://") => mask_url(arg),
        true => match arg.split_once('=') {
            Some((name, _)) if arg.starts_with('-') => format!("{name}={MASK}"),
            _ => match arg.split_once(':') {
                Some((name, _)) if is_secret_name(name) => format!("{name}: {MASK}"),
                _ => MASK.to_owned(),
            },
        },
    };
    args.iter().enumerate().map(masked).collect()
}

/// Returns the indices of arguments that look like secrets: `--token=x`, the one after `--token`, a header, or a
/// well-known kind of token.
pub(crate) fn secret_arg_indices(args: &[String]) -> Vec<usize> {
    let is_secret = |number: usize, arg: &str| {
        if arg.contains("://") {
            return url_has_secret(arg);
        }
        let before = number.checked_sub(1).and_then(|before| args.get(before));
        let named = before.is_some_and(|before| before.starts_with('-') && is_plain_secret(before, arg));
        let own = match arg.split_once('=').or_else(|| arg.split_once(':')) {
            Some((name, value)) => is_plain_secret(name, value.trim()),
            None => false,
        };
        (named && !arg.starts_with('-')) || own || looks_like_secret(arg)
    };
    args.iter()
        .enumerate()
        .filter(|(number, arg)| is_secret(*number, arg))
        .map(|(number, _)| number)
        .collect()
}

/// Returns a URL with its password and the secrets of its query masked.
pub(crate) fn mask_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    let path = match path.split_once('?') {
        None => path.to_owned(),
        Some((path, query)) => {
            let pairs: Vec<String> = query.split('&').map(mask_pair).collect();
            format!("{path}?{}", pairs.join("&"))
        }
    };
    format!("{scheme}://{authority}{path}")
}

/// Whether a URL contains a secret.
pub(crate) fn url_has_secret(url: &str) -> bool {
    mask_url(url) != url
}

fn mask_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) if is_plain_secret(name, value) => format!("{name}={MASK}"),
        _ => pair.to_owned(),
    }
}

/// The replacement for a secret.
pub(crate) const MASK: &str = "…";
const SECRET_WORDS: [&str; 13] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "pass",
    "pwd",
    "apikey",
    "auth",
    "authorization",
    "cookie",
    "credential",
    "credentials",
];
const SECRET_SUFFIXES: [&str; 5] = ["apikey", "token", "secret", "password", "accesskey"];
/// The prefixes of tokens of well-known services.
const TOKEN_PREFIXES: [&str; 15] = [
    "sk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "eyJ",
    "npm_",
    "hf_",
    "ntn_",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_detected_by_name_or_form() {
        for (name, value) in [
            ("API_KEY", "abcdefgh1234"),
            ("githubToken", "abcdefgh1234"),
            ("Authorization", "Bearer abcdefgh1234"),
            ("X-Api-Key", "abcdefgh1234"),
            ("WHATEVER", "ghp_abcdefgh1234"),
            ("WHATEVER", "Bearer sk-abcdefgh1234"),
        ] {
            assert!(is_plain_secret(name, value), "{name} {value}");
        }
        for (name, value) in [
            ("API_KEY", "${API_KEY}"),
            ("Authorization", "Bearer ${env:TOKEN}"),
            ("API_KEY", ""),
            ("KEY_FILE", "/etc/key.pem"),
            ("TOKEN", "<your token>"),
            ("KEYBOARD", "qwertzuiop"),
            ("MODE", "production"),
        ] {
            assert!(!is_plain_secret(name, value), "{name} {value}");
        }
    }

    #[test]
    fn secrets_are_masked() {
        let args = [
            "-y",
            "--token",
            "abcdefgh1234",
            "--api-key=abcdefgh1234",
            "--header",
            "Authorization: Bearer abcdefgh1234",
            "https://u:p@host/x?api_key=abcdefgh1234&page=2",
            "run",
        ];
        let args = args.map(str::to_owned);
        let shown = [
            "-y",
            "--token",
            "…",
            "--api-key=…",
            "--header",
            "Authorization: …",
            "https://…@host/x?api_key=…&page=2",
            "run",
        ];
        assert_eq!(mask_args(&args), shown);
        assert!(!url_has_secret("https://host/mcp?page=2"));
    }
}
