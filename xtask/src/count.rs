//! The number of passed and failed tests, parsed from the summaries of the two test runners.
//!
//! An exit code alone cannot distinguish a run without tests from a successful one.

use std::fmt;
use std::ops::AddAssign;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Ignored or filtered out.
    pub(crate) skipped: u64,
}

impl Count {
    /// Parses the output of `cargo nextest run`.
    ///
    /// The last summary counts: the output of a failed test before it may contain another one.
    pub(crate) fn from_nextest(said: &str) -> Self {
        let plain = strip_colors(said);
        plain.lines().rev().find_map(nextest_summary).unwrap_or_default()
    }

    /// Parses the output of `cargo test`: one summary line per test binary or documented crate.
    pub(crate) fn from_libtest(said: &str) -> Self {
        let mut sum = Self::default();
        for line in strip_colors(said).lines() {
            if let Some((_verdict, parts)) =
                line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
            {
                sum += libtest_parts(parts);
            }
        }
        sum
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The last line of `cargo xtask test`, which is machine-readable.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// `Summary [   0.1s] 8/10 tests run: 5 passed (1 slow, 1 flaky), 2 failed, 1 timed out, 2 skipped`
fn nextest_summary(line: &str) -> Option<Count> {
    let (run, parts) = line.trim_start().strip_prefix("Summary [")?.split_once(" run: ")?;
    if !run.ends_with(" test") && !run.ends_with(" tests") {
        return None;
    }
    let mut count = Count::default();
    for part in strip_parentheses(parts).split(',') {
        let (number, what) = parse_count(part)?;
        match what {
            "passed" => count.passed += number,
            "skipped" => count.skipped += number,
            // "failed", "exec failed", "timed out", and any word that a later nextest adds: not a success.
            _ => count.failed += number,
        }
    }
    Some(count)
}

/// `5 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s`
fn libtest_parts(parts: &str) -> Count {
    let mut count = Count::default();
    for (number, what) in parts.split(';').filter_map(parse_count) {
        match what {
            "passed" => count.passed += number,
            "failed" => count.failed += number,
            "ignored" | "filtered out" => count.skipped += number,
            _ => {}
        }
    }
    count
}

fn parse_count(part: &str) -> Option<(u64, &str)> {
    let (number, what) = part.trim().split_once(' ')?;
    Some((number.parse().ok()?, what.trim()))
}

/// Drops `(1 slow, 1 leaky)`: those tests are counted before the bracket.
fn strip_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    let mut kept = String::new();
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    kept
}

/// Drops terminal colours, which CI may force with `CARGO_TERM_COLOR=always`.
fn strip_colors(text: &str) -> String {
    let mut pieces = text.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let after =
            piece.find(|letter: char| letter.is_ascii_alphabetic()).map_or(piece.len(), |end| end + 1);
        plain.push_str(piece.get(after..).unwrap_or_default());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(passed: u64, failed: u64, skipped: u64) -> Count {
        Count { passed, failed, skipped }
    }

    #[test]
    fn every_nextest_summary_is_parsed() {
        for (line, expected) in [
            ("     Summary [   0.100s] 0 tests run: 0 passed, 0 skipped", count(0, 0, 0)),
            ("     Summary [   0.005s] 1 test run: 1 passed, 3 skipped", count(1, 0, 3)),
            ("     Summary [   2.000s] 5 tests run: 5 passed (1 slow, 2 leaky), 0 skipped", count(5, 0, 0)),
            (
                "     Summary [  15.750s] 8/10 tests run: 5 passed (1 slow, 1 flaky, 1 leaky), \
                 2 failed (1 due to being leaky), 1 exec failed, 1 timed out, 2 skipped",
                count(5, 4, 2),
            ),
            (
                "\u{1b}[32;1m     Summary\u{1b}[0m [ 1.0s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped",
                count(2, 0, 0),
            ),
        ] {
            assert_eq!(Count::from_nextest(line), expected, "{line}");
        }
    }

    #[test]
    fn last_nextest_summary_counts() {
        let said = "Summary [ 1s] 9 tests run: 9 passed, 0 skipped\n\
                    test result: ok. 7 passed; 0 failed; 0 ignored\n\
                    Summary [ 1s] 2 tests run: 1 passed, 1 failed, 0 skipped\n\
                    FAIL [ 1s] some tests run: out of words\n";
        assert_eq!(Count::from_nextest(said), count(1, 1, 0));
    }

    #[test]
    fn cargo_test_summaries_are_added_up() {
        let said = "running 3 tests\n\
                    test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                    test result: \u{1b}[31mFAILED\u{1b}[0m. 1 passed; 2 failed; 0 ignored; 0 measured; 4 filtered out; finished in 1.20s\n";
        assert_eq!(Count::from_libtest(said), count(4, 2, 5));
    }

    #[test]
    fn missing_summary_is_a_failure() {
        assert_eq!(Count::from_nextest("error: no such command\n"), Count::default());
        assert_eq!(Count::from_libtest(""), Count::default());
    }
}
