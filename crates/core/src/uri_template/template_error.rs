//! The errors of templates, of expansion, and of values in a URI.
//!
//! A [`TemplateError`] is for the author of the template and says what to write instead. A [`RejectedValueError`] may
//! be shown to the peer: it names the variable, never the value.

use std::error::Error;
use std::fmt;

/// The reason why a text is not a template that can be registered. Offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TemplateError {
    /// The text is longer than the limit.
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// There are more variables than the limit.
    TooManyVariables {
        /// The limit.
        limit: usize,
    },
    /// A `{` has no `}`.
    Unclosed {
        /// The position of the `{`.
        at: usize,
    },
    /// A `}` has no `{`.
    Unopened {
        /// The position of the `}`.
        at: usize,
    },
    /// A character that must be percent-encoded outside of expressions.
    InvalidCharacter {
        /// The character.
        found: char,
        /// The position of the character.
        at: usize,
    },
    /// A `%` without two hexadecimal digits after it.
    InvalidPercent {
        /// The position of the `%`.
        at: usize,
    },
    /// An operator that RFC 6570 reserves for extensions.
    UndefinedOperator {
        /// The operator.
        found: char,
        /// The position of the operator.
        at: usize,
    },
    /// An invalid variable name; empty if the name is missing.
    InvalidName {
        /// The invalid name.
        found: String,
        /// The position of the name.
        at: usize,
    },
    /// A prefix modifier, as in `{var:3}`, which is not supported.
    UnsupportedPrefix {
        /// The variable with its modifier.
        variable: String,
    },
    /// An explode modifier elsewhere than in `{/path*}`, which is not supported.
    UnsupportedExplode {
        /// The variable.
        variable: String,
    },
    /// A variable is used twice.
    DuplicateVariable {
        /// The variable.
        variable: String,
    },
    /// Two variables could not be told apart in a URI.
    Ambiguous {
        /// The variable that could match too much.
        first: String,
        /// The variable it could take characters from.
        second: String,
        /// The fix to suggest.
        advice: &'static str,
    },
    /// A parameter cannot be told from the text after it.
    Undelimited {
        /// The last parameter before that text.
        variable: String,
        /// The fix to suggest.
        advice: &'static str,
    },
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(f, "the template is longer than {limit} bytes"),
            Self::TooManyVariables { limit } => write!(f, "the template has more than {limit} variables"),
            Self::Unclosed { at } => write!(f, "the `{{` at byte {at} is never closed"),
            Self::Unopened { at } => {
                write!(f, "the `}}` at byte {at} closes nothing: write `%7D` for a brace")
            }
            Self::InvalidCharacter { found, at } => {
                write!(f, "{found:?} at byte {at} is not allowed in a URI: percent-encode it")
            }
            Self::InvalidPercent { at } => {
                write!(f, "the `%` at byte {at} needs two hexadecimal digits: write `%25` for a percent sign")
            }
            Self::UndefinedOperator { found, at } => {
                write!(f, "the operator {found:?} at byte {at} is not defined")
            }
            Self::InvalidName { found, at } if found.is_empty() => {
                write!(f, "a variable name is missing at byte {at}")
            }
            Self::InvalidName { found, at } => write!(
                f,
                "{found:?} at byte {at} is no variable name: use letters, digits, `_`, and `.` in between"
            ),
            Self::UnsupportedPrefix { variable } => {
                write!(f, "`{variable}`: prefixes are not supported, write the variable without `:`")
            }
            Self::UnsupportedExplode { variable } => {
                write!(f, "`{variable}*`: only `{{/{variable}*}}` may be exploded, drop the `*` here")
            }
            Self::DuplicateVariable { variable } => {
                write!(f, "`{variable}` is used twice: rename one")
            }
            Self::Ambiguous { first, second, advice } => {
                write!(f, "`{first}` and `{second}` cannot be told apart in a URI: {advice}")
            }
            Self::Undelimited { variable, advice } => {
                write!(f, "`{variable}` cannot be told from the text after it: {advice}")
            }
        }
    }
}

impl Error for TemplateError {}

/// The reason why a template cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpandError {
    /// The text is not a template.
    Template(TemplateError),
    /// A list was given to a variable that takes text.
    UnexpectedList {
        /// The variable.
        variable: String,
    },
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(error) => error.fmt(f),
            Self::UnexpectedList { variable } => {
                write!(f, "`{variable}` takes text: only `{{/{variable}*}}` would take a list")
            }
        }
    }
}

impl Error for ExpandError {}

/// A URI matches the template, but one of its values is unsafe for a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedValueError {
    variable: Box<str>,
    reason: RejectReason,
}

impl RejectedValueError {
    pub(super) fn new(variable: &str, reason: RejectReason) -> Self {
        Self { variable: variable.into(), reason }
    }

    /// The variable with that value.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// The reason.
    pub fn reason(&self) -> RejectReason {
        self.reason
    }
}

impl fmt::Display for RejectedValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.variable, self.reason)
    }
}

impl Error for RejectedValueError {}

/// The reason for a [`RejectedValueError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectReason {
    /// A `.` or `..` segment, or an absolute path where a relative one is expected.
    Traversal,
    /// A `/` or `\` where one segment is expected, or a `\` in a path.
    Separator,
    /// A control character.
    Control,
    /// A character that is invalid in a URI, a broken `%XX`, or not UTF-8.
    Malformed,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Traversal => "must not hold `.` or `..` segments, nor be absolute",
            Self::Separator => "must not hold a path separator",
            Self::Control => "must not hold control characters",
            Self::Malformed => "must be percent-encoded UTF-8",
        })
    }
}
