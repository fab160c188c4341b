//! Parses files of `NAME=value` lines, as dotenv and VS Code read them.
//!
//! Unlike those, it reports a line it cannot parse instead of skipping it. Variables inside the file are not resolved.

/// Returns the variables in file order, or the number of the first invalid line.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let lines = text.lines().map(str::trim).zip(1..);
    let lines = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(line, number)| parse_line(line).ok_or(number)).collect()
}

fn parse_line(line: &str) -> Option<(String, String)> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let odd = |letter: char| letter.is_whitespace() || letter == '\0' || QUOTES.contains(&letter);
    if name.is_empty() || name.contains(odd) || value.contains('\0') {
        return None;
    }
    let value = match value.strip_prefix(QUOTES) {
        Some(inside) => parse_quoted(inside, value.chars().next()?)?,
        None => value.split('#').next()?.trim_end().to_owned(),
    };
    Some((name.to_owned(), value))
}

/// Returns the text before the closing quote. Only a comment may follow it.
fn parse_quoted(inside: &str, quote: char) -> Option<String> {
    let mut escaped = false;
    let closes = |letter: char| {
        let closes = letter == quote && !escaped;
        escaped = letter == '\\' && !escaped;
        closes
    };
    let (value, rest) = inside.split_once(closes)?;
    let rest = rest.trim_start();
    if !rest.is_empty() && !rest.starts_with('#') {
        return None;
    }
    // Only the escapes that dotenv and VS Code know are resolved.
    Some(if quote == '"' { value.replace("\\n", "\n").replace("\\r", "\r") } else { value.to_owned() })
}

const QUOTES: [char; 3] = ['"', '\'', '`'];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_one(line: &str) -> (String, String) {
        let mut variables = parse(line).unwrap();
        assert_eq!(variables.len(), 1, "{line}");
        variables.remove(0)
    }

    #[test]
    fn each_line_sets_a_variable() {
        let text = "# a comment\n\nA=1\r\n  B = two words \nexport C=3\n\tD=\nE=x=y\nA=4";
        let expected = [("A", "1"), ("B", "two words"), ("C", "3"), ("D", ""), ("E", "x=y"), ("A", "4")];
        assert_eq!(parse(text).unwrap(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn quotes_keep_spaces_and_comment_signs() {
        let cases = [
            (r#"A=" b # c " # d"#, " b # c "),
            ("A=' b # c '#d", " b # c "),
            ("A=`b\"'c`", "b\"'c"),
            ("A=b # c", "b"),
            ("A=b#c", "b"),
            ("A=#", ""),
            ("A=\"\"", ""),
            ("A=b\"c", "b\"c"),
            (r#"A="b\nc\rd\te""#, "b\nc\rd\\te"),
            (r"A='b\nc'", r"b\nc"),
            (r"A=b\nc", r"b\nc"),
            (r#"A="b\"c""#, r#"b\"c"#),
            (r#"A="b\\""#, r"b\\"),
            ("A=${B}", "${B}"),
        ];
        for (line, value) in cases {
            assert_eq!(parse_one(line), ("A".to_owned(), value.to_owned()), "{line}");
        }
    }

    #[test]
    fn error_names_the_line_that_sets_nothing() {
        for line in ["A", "=b", "A B=c", "\"A\"=b", "A=\"b", "A='b", "A='b' c", "A=\"b\\\"", "A=b\0", "A\0=b"]
        {
            assert_eq!(parse(&format!("# one\n\nOK=1\n{line}\nB")), Err(4), "{line:?}");
        }
    }
}
