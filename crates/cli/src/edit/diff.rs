//! What would change, line by line.

use std::fmt::Write as _;

/// The lines that differ, with some around them, as `diff -u` writes them. Changes are in one place, so there is one
/// block. Lines that are very long are shown where they differ.
pub(crate) fn unified(before: &str, after: &str) -> String {
    let (old, new) = (lines(before), lines(after));
    let same = old.iter().zip(&new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - same;
    let tail =
        old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(one, other)| one == other).count();
    let (gone, come) = (part(&old, same, old.len() - tail), part(&new, same, new.len() - tail));
    let head = same.min(AROUND);
    let foot = tail.min(AROUND);
    let mut out = format!(
        "@@ -{} +{} @@\n",
        range(same - head, head + gone.len() + foot),
        range(same - head, head + come.len() + foot)
    );
    let cut = match (gone, come) {
        ([one], [other]) if one.len().max(other.len()) > LONGEST => Some(differing(one, other)),
        _ => None,
    };
    let mut write = |sign: char, line: &str, shown: String| {
        let _ = writeln!(out, "{sign}{}", shown.trim_end_matches(['\n', '\r']));
        if !line.ends_with('\n') {
            out.push_str("\\ no newline at the end\n");
        }
    };
    for line in part(&old, same - head, same) {
        write(' ', line, short(line));
    }
    for (sign, lines) in [('-', gone), ('+', come)] {
        for line in lines {
            let shown = match cut {
                Some((from, to)) => window(line, from, to),
                None => short(line),
            };
            write(sign, line, shown);
        }
    }
    for line in part(&old, old.len() - tail, old.len() - tail + foot) {
        write(' ', line, short(line));
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn part<'a, 'b>(lines: &'a [&'b str], from: usize, to: usize) -> &'a [&'b str] {
    lines.get(from..to).unwrap_or_default()
}

/// `12,7`, as patches count: a block without lines stands after the line before it.
fn range(start: usize, count: usize) -> String {
    match count {
        0 => format!("{start},0"),
        _ => format!("{},{count}", start + 1),
    }
}

/// How many letters two lines have in common at their beginnings and ends.
fn differing(one: &str, other: &str) -> (usize, usize) {
    let from = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let rest = one.chars().count().min(other.chars().count()) - from;
    let ends = one.chars().rev().zip(other.chars().rev()).take(rest);
    (from, ends.take_while(|(one, other)| one == other).count())
}

/// A line without most of what it has in common with another.
fn window(line: &str, from: usize, to: usize) -> String {
    let all = line.chars().count();
    let (start, end) = (from.saturating_sub(MARGIN), (all - to + MARGIN).min(all));
    let middle: String = line.chars().skip(start).take(end.saturating_sub(start)).collect();
    let (before, after) = (if start > 0 { "…" } else { "" }, if end < all { "…" } else { "" });
    format!("{before}{middle}{after}")
}

fn short(line: &str) -> String {
    match line.chars().count() > LONGEST {
        true => format!("{}…", line.chars().take(LONGEST).collect::<String>()),
        false => line.to_owned(),
    }
}

/// Lines around a change.
const AROUND: usize = 3;
/// Letters of a line that are shown.
const LONGEST: usize = 400;
/// Letters around a change in a line that is longer.
const MARGIN: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_three_lines_around_it() {
        let before: String = (1..=9).map(|number| format!("{number}\n")).collect();
        let after = before.replace("5\n", "5,\nnew\n");
        assert_eq!(unified(&before, &after), "@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+5,\n+new\n 6\n 7\n 8\n");
        assert_eq!(unified(&before, &before.replace("1\n", "")), "@@ -1,4 +1,3 @@\n-1\n 2\n 3\n 4\n");
        assert_eq!(unified("", "{}\n"), "@@ -0,0 +1,1 @@\n+{}\n");
    }

    #[test]
    fn the_last_line_may_have_no_end() {
        let end = "\\ no newline at the end\n";
        assert_eq!(unified("{}", "{1}"), format!("@@ -1,1 +1,1 @@\n-{{}}\n{end}+{{1}}\n{end}"));
        assert_eq!(unified("a\r\nb\r\n", "b\r\n"), "@@ -1,2 +1,1 @@\n-a\n b\n");
    }

    #[test]
    fn long_lines_are_shown_where_they_differ() {
        let before = format!("{}{}", "x".repeat(1000), "y".repeat(1000));
        let after = format!("{}new{}", "x".repeat(1000), "y".repeat(1000));
        let diff = unified(&before, &after);
        let added = diff.lines().find(|line| line.starts_with('+')).unwrap();
        assert_eq!(added, format!("+…{}new{}…", "x".repeat(40), "y".repeat(40)));
        assert!(diff.lines().all(|line| line.chars().count() < 100), "{diff}");
    }
}
