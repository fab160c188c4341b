//! A scanner for Rust files that separates code, strings and comments.

use std::ops::Range;

/// A Rust file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// The path relative to the root.
    pub(crate) path: String,
    /// The original text.
    pub(crate) text: String,
    /// The text with comments and the content of strings replaced by spaces, of the same length.
    pub(crate) code: String,
    /// The range of each string, without its quotes.
    pub(crate) strings: Vec<Range<usize>>,
    /// The items under `#[cfg(test)]` that [`Source::without_tests`] left out.
    tests: Vec<Range<usize>>,
}

impl Source {
    pub(crate) fn read(text: &str, path: String) -> Self {
        let bytes = text.as_bytes();
        let mut code = bytes.to_vec();
        let mut strings = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let end = if rest.starts_with(b"//") {
                at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
            } else if rest.starts_with(b"/*") {
                at + block_comment(rest)
            } else if let Some((content, length)) = string(rest).filter(|_| !continues_a_word(bytes, at)) {
                strings.push(at + content.start..at + content.end);
                blank(&mut code[at + content.start..at + content.end]);
                at += length;
                continue;
            } else if let Some(length) = character(&text[at..]) {
                at + length
            } else {
                at += 1;
                continue;
            };
            blank(&mut code[at..end]);
            at = end;
        }
        let code = String::from_utf8(code).expect("spaces replace whole characters");
        Self { path, text: text.to_owned(), code, strings, tests: Vec::new() }
    }

    /// Whether it is shipped code: not a test, a benchmark, an example or test support.
    pub(crate) fn is_live(&self) -> bool {
        let is_test = self.path.ends_with("/tests.rs") || self.path.contains("/tests/");
        self.path.contains("/src/") && !is_test && !self.path.starts_with("crates/testkit/")
    }

    /// Replaces everything under `#[cfg(test)]` with spaces.
    pub(crate) fn without_tests(mut self) -> Self {
        const MARK: &str = "#[cfg(test)]";
        while let Some(start) = self.code.find(MARK) {
            let after = start + MARK.len();
            let opens = after + self.code[after..].find(['{', ';']).expect("an item follows");
            let end = if self.code.as_bytes()[opens] == b'{' { self.closing(opens) } else { opens + 1 };
            let mut code = std::mem::take(&mut self.code).into_bytes();
            blank(&mut code[start..end]);
            self.code = String::from_utf8(code).expect("spaces replace whole characters");
            self.strings.retain(|string| string.end <= start || string.start >= end);
            self.tests.push(start..end);
        }
        self
    }

    /// Whether a position is inside an item that [`Source::without_tests`] left out.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// The position after the brace that closes the one at `open`.
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0;
        for (at, byte) in self.code.bytes().enumerate().skip(open) {
            match byte {
                b'{' => depth += 1,
                b'}' if depth == 1 => return at + 1,
                b'}' => depth -= 1,
                _ => {}
            }
        }
        panic!("{}: a brace is not closed", self.place(open));
    }

    /// The position of the brace that opens the innermost block around `at`.
    pub(crate) fn opening(&self, at: usize) -> usize {
        let mut depth = 0;
        for (at, byte) in self.code.as_bytes()[..at].iter().enumerate().rev() {
            match *byte {
                b'{' if depth == 0 => return at,
                b'{' => depth -= 1,
                b'}' => depth += 1,
                _ => {}
            }
        }
        panic!("{}: no brace is open", self.place(at));
    }

    /// Path and line, for messages.
    pub(crate) fn place(&self, at: usize) -> String {
        let line = 1 + self.text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        format!("{}:{line}", self.path)
    }

    /// The positions of `needle` as whole words in the code.
    pub(crate) fn words(&self, needle: &str) -> Vec<usize> {
        let in_word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let (bytes, edge) = (self.code.as_bytes(), needle.as_bytes());
        self.code
            .match_indices(needle)
            .map(|(at, _)| at)
            .filter(|at| !(in_word(edge.first()) && *at > 0 && in_word(bytes.get(at - 1))))
            .filter(|at| !(in_word(edge.last()) && in_word(bytes.get(at + needle.len()))))
            .collect()
    }
}

/// Replaces all bytes except newlines with spaces.
fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

fn continues_a_word(bytes: &[u8], at: usize) -> bool {
    bytes[at] != b'"' && at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn block_comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        match &text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    text.len()
}

/// The content and the whole length of a string literal of any kind at the beginning of `text`.
fn string(text: &[u8]) -> Option<(Range<usize>, usize)> {
    let prefix = text.iter().take(2).take_while(|byte| b"bcr".contains(byte)).count();
    let raw = text[..prefix].contains(&b'r');
    let hashes = if raw { text[prefix..].iter().take_while(|byte| **byte == b'#').count() } else { 0 };
    let start = prefix + hashes + 1;
    if text.get(start - 1) != Some(&b'"') {
        return None;
    }
    let mut at = start;
    loop {
        match text.get(at)? {
            b'\\' if !raw => at += 2,
            b'"' if text[at + 1..].iter().take_while(|byte| **byte == b'#').take(hashes).count()
                == hashes =>
            {
                return Some((start..at, at + 1 + hashes));
            }
            _ => at += 1,
        }
    }
}

/// The length of a character literal at the beginning of `text`; none for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let first = inside.chars().next()?;
    if first == '\\' {
        let escaped = inside.char_indices().skip(2).find(|(_, found)| *found == '\'')?;
        return Some(escaped.0 + 2);
    }
    inside[first.len_utf8()..].starts_with('\'').then(|| first.len_utf8() + 2)
}

#[test]
fn scanner_removes_comments_strings_and_tests() {
    let text = r###"
        fn a<'x>(_: &'x str) -> char { '"' } // "no string"
        /* b /* "c" */ d */
        const E: &str = "f \" // g"; const H: &str = r#"i " j"#; const K: &[u8] = b"l"; let r#m = '\'';
        #[cfg(test)]
        mod tests { fn n() { "o" } }
        fn p() {}
    "###;
    let source = Source::read(text, "q.rs".to_owned());
    let said =
        |source: &Source| source.strings.iter().map(|at| text[at.clone()].to_owned()).collect::<Vec<_>>();
    assert_eq!(said(&source), [r#"f \" // g"#, r#"i " j"#, "l", "o"]);
    assert_eq!(source.code.len(), text.len());
    assert!(["no string", " g", "i"].iter().all(|word| source.words(word).is_empty()));
    assert_eq!(source.words("fn").len(), 3);
    let live = source.without_tests();
    assert_eq!(said(&live), [r#"f \" // g"#, r#"i " j"#, "l"]);
    assert_eq!((live.words("fn n").len(), live.words("fn p").len(), live.words("p").len()), (0, 1, 1));
    assert_eq!(live.place(live.words("fn p")[0]), "q.rs:7");
}
