//! Why a template, a value or a URI is not taken.
//!
//! A [`TemplateError`] is for the one who wrote the template and says what to write instead. A [`Refused`]
//! may be shown to the peer: it names the variable, never the value.

use std::error::Error;
use std::fmt;

/// Why a text is not a template that can be registered. Offsets are in bytes.
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
        /// Where the `{` stands.
        at: usize,
    },
    /// A `}` has no `{`.
    Unopened {
        /// Where the `}` stands.
        at: usize,
    },
    /// A character that must be percent-encoded outside of expressions.
    Character {
        /// The character.
        found: char,
        /// Where it stands.
        at: usize,
    },
    /// A `%` without two hexadecimal digits after it.
    Percent {
        /// Where the `%` stands.
        at: usize,
    },
    /// An operator that RFC 6570 keeps for later extensions.
    Operator {
        /// The operator.
        found: char,
        /// Where it stands.
        at: usize,
    },
    /// Something that is no variable name; empty when the name is missing.
    Name {
        /// What stands there.
        found: String,
        /// Where it stands.
        at: usize,
    },
    /// A prefix modifier, as in `{var:3}`, which is not supported.
    Prefix {
        /// The variable with its modifier.
        variable: String,
    },
    /// An explode modifier elsewhere than in `{/path*}`, which is not supported.
    Explode {
        /// The variable.
        variable: String,
    },
    /// A variable stands in the template twice.
    Repeated {
        /// The variable.
        variable: String,
    },
    /// Two variables could not be told apart in a URI.
    Ambiguous {
        /// The variable that could take too much.
        first: String,
        /// The one it could take from.
        second: String,
        /// What to write instead.
        advice: &'static str,
    },
    /// A parameter could not be told from the text after it.
    RunsOn {
        /// The last parameter before that text.
        variable: String,
        /// What to write instead.
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
            Self::Character { found, at } => {
                write!(f, "{found:?} at byte {at} may not stand in a URI: percent-encode it")
            }
            Self::Percent { at } => {
                write!(f, "the `%` at byte {at} needs two hexadecimal digits: write `%25` for a percent sign")
            }
            Self::Operator { found, at } => write!(f, "the operator {found:?} at byte {at} is not defined"),
            Self::Name { found, at } if found.is_empty() => {
                write!(f, "a variable name is missing at byte {at}")
            }
            Self::Name { found, at } => write!(
                f,
                "{found:?} at byte {at} is no variable name: use letters, digits, `_`, and `.` in between"
            ),
            Self::Prefix { variable } => {
                write!(f, "`{variable}`: prefixes are not supported, write the variable without `:`")
            }
            Self::Explode { variable } => {
                write!(f, "`{variable}*`: only `{{/{variable}*}}` may be exploded, drop the `*` here")
            }
            Self::Repeated { variable } => write!(f, "`{variable}` stands in the template twice: rename one"),
            Self::Ambiguous { first, second, advice } => {
                write!(f, "`{first}` and `{second}` cannot be told apart in a URI: {advice}")
            }
            Self::RunsOn { variable, advice } => {
                write!(f, "`{variable}` cannot be told from the text after it: {advice}")
            }
        }
    }
}

impl Error for TemplateError {}

/// Why values do not make a URI.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpandError {
    /// The text is no template.
    Template(TemplateError),
    /// A list was given to a variable that takes a text.
    List {
        /// The variable.
        variable: String,
    },
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template(error) => error.fmt(f),
            Self::List { variable } => {
                write!(f, "`{variable}` takes a text: only `{{/{variable}*}}` would take a list")
            }
        }
    }
}

impl Error for ExpandError {}

/// A URI has the template's shape, and one of its values must not reach a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    variable: Box<str>,
    reason: Reason,
}

impl Refused {
    pub(super) fn new(variable: &str, reason: Reason) -> Self {
        Self { variable: variable.into(), reason }
    }

    /// The variable whose value it is.
    pub fn variable(&self) -> &str {
        &self.variable
    }

    /// What is wrong with the value.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.variable, self.reason)
    }
}

impl Error for Refused {}

/// What is wrong with a value that was [`Refused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A `.` or `..` segment, or an absolute path where a relative one is expected.
    Traversal,
    /// A `/` or `\` where one segment is expected, or a `\` in a path.
    Separator,
    /// A control character.
    Control,
    /// A character that no URI may hold, a broken `%XX`, or not UTF-8.
    Malformed,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Traversal => "must not hold `.` or `..` segments, nor be absolute",
            Self::Separator => "must not hold a path separator",
            Self::Control => "must not hold control characters",
            Self::Malformed => "must be percent-encoded UTF-8",
        })
    }
}
