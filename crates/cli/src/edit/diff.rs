//! Unified diff of a configuration file before and after a change.

use std::fmt::Write as _;

/// Returns the difference in the format of `diff -u`. A change is contiguous, so there is one hunk. Very long lines are
/// shortened to the part that differs.
pub(crate) fn unified_diff(before: &str, after: &str) -> String {
    let (old, new) = (split_lines(before), split_lines(after));
    let same = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - same;
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let (removed, added) =
        (line_range(&old, same, old.len() - tail), line_range(&new, same, new.len() - tail));
    let head = same.min(CONTEXT_LINES);
    let foot = tail.min(CONTEXT_LINES);
    let mut out = format!(
        "@@ -{} +{} @@\n",
        hunk_range(same - head, head + removed.len() + foot),
        hunk_range(same - head, head + added.len() + foot)
    );
    let cut = match (removed, added) {
        ([one], [other]) if one.len().max(other.len()) > MAX_LINE_CHARS => Some(common_affixes(one, other)),
        _ => None,
    };
    let mut write = |sign: char, line: &str, shown: String| {
        let _ = writeln!(out, "{sign}{}", shown.trim_end_matches(['\n', '\r']));
        if !line.ends_with('\n') {
            out.push_str("\\ No newline at end of file\n");
        }
    };
    for line in line_range(&old, same - head, same) {
        write(' ', line, truncate_line(line));
    }
    for (sign, lines) in [('-', removed), ('+', added)] {
        for line in lines {
            let shown = match cut {
                Some((from, to)) => excerpt(line, from, to),
                None => truncate_line(line),
            };
            write(sign, line, shown);
        }
    }
    for line in line_range(&old, old.len() - tail, old.len() - tail + foot) {
        write(' ', line, truncate_line(line));
    }
    out
}

fn split_lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn line_range<'a, 'b>(lines: &'a [&'b str], from: usize, to: usize) -> &'a [&'b str] {
    lines.get(from..to).unwrap_or_default()
}

/// Formats `12,7` as in a patch. An empty range names the line before it.
fn hunk_range(start: usize, count: usize) -> String {
    match count {
        0 => format!("{start},0"),
        _ => format!("{},{count}", start + 1),
    }
}

/// Returns the lengths of the common prefix and suffix of two lines, in characters.
fn common_affixes(one: &str, other: &str) -> (usize, usize) {
    let from = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let rest = one.chars().count().min(other.chars().count()) - from;
    let ends = one.chars().rev().zip(other.chars().rev()).take(rest);
    (from, ends.take_while(|(one, other)| one == other).count())
}

/// Shortens a line to the part that differs, with some context.
fn excerpt(line: &str, from: usize, to: usize) -> String {
    let all = line.chars().count();
    let (start, end) = (from.saturating_sub(CONTEXT_CHARS), (all - to + CONTEXT_CHARS).min(all));
    let middle: String = line.chars().skip(start).take(end.saturating_sub(start)).collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < all { "…" } else { "" });
    format!("{before}{middle}{after}")
}

fn truncate_line(line: &str) -> String {
    match line.chars().count() > MAX_LINE_CHARS {
        true => format!("{}…", line.chars().take(MAX_LINE_CHARS).collect::<String>()),
        false => line.to_owned(),
    }
}

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;
/// Characters of a line to show.
const MAX_LINE_CHARS: usize = 400;
/// Characters of context around a change in a longer line.
const CONTEXT_CHARS: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_has_three_lines_of_context() {
        let before: String = (1..=9).map(|number| format!("{number}\n")).collect();
        let after = before.replace("5\n", "5,\nnew\n");
        assert_eq!(unified_diff(&before, &after), "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+5,\n+new\n 6\n 7\n 8\n");
        assert_eq!(unified_diff(&before, &before.replace("1\n", "")), "@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n");
        assert_eq!(unified_diff("", "{}\n"), "@@ -0,0 +1,1 @@\n+{}\n");
    }

    #[test]
    fn missing_final_newline_is_marked() {
        let end = "\\ No newline at end of file\n";
        assert_eq!(unified_diff("{}", "{1}"), format!("@@ -1,1 +1,1 @@\n-{{}}\n{end}+{{1}}\n{end}"));
        assert_eq!(unified_diff("a\r\nb\r\n", "b\r\n"), "@@ -1,2 +1,1 @@\n-a\n b\n");
    }

    #[test]
    fn long_lines_are_shortened_to_the_difference() {
        let before = format!("{}{}", "x".repeat(1000), "y".repeat(1000));
        let after = format!("{}new{}", "x".repeat(1000), "y".repeat(1000));
        let diff = unified_diff(&before, &after);
        let added = diff.lines().find(|line| line.starts_with('+')).unwrap();
        assert_eq!(added, format!("+…{}new{}…", "x".repeat(40), "y".repeat(40)));
        assert!(diff.lines().all(|line| line.chars().count() < 100), "{diff}");
    }
}
