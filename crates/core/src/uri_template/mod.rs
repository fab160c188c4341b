//! URI templates (RFC 6570): expanding values into a URI, and matching a URI back to the values.
//!
//! RFC 6570 defines how a template expands and leaves matching open. A server needs matching: for a request of
//! `notes://ada/42` it must find `notes://{owner}/{id}`. So a [`UriTemplate`] is stricter than the RFC: one that could
//! be matched in two ways is rejected when it is parsed.
//!
//! ```
//! use tsugite_core::uri_template::UriTemplate;
//!
//! let template = UriTemplate::parse("notes://{owner}{/path*}{?page}")?;
//! let found = template.matches("notes://ada/plans/house?page=2")?;
//! let found = found.ok_or("no match")?;
//! assert_eq!(found.text("owner"), Some("ada"));
//! assert_eq!(found.list("path"), Some(&["plans".to_owned(), "house".to_owned()][..]));
//! assert_eq!(found.text("page"), Some("2"));
//!
//! let uri = template.expand(|name| found.get(name).cloned())?;
//! assert_eq!(uri, "notes://ada/plans/house?page=2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Supported templates
//!
//! Levels 1 to 3, and the explode modifier in `{/path*}`. Other explodes and the prefix modifier `{var:3}` are
//! rejected.
//!
//! | expression | matches |
//! |---|---|
//! | `{a}` `{a,b}` `{.a}` `{/a}` | one or more characters, none of them reserved: never a raw `/` `?` `#` `,` … |
//! | `{/path*}` | one or more segments, none of them empty: a list |
//! | `{+a}` `{#a}` | one or more characters of any kind |
//! | `{;a,b}` | parameters in any order, each optional |
//! | `{?a,b}` `{&a,b}` | the same; values may also have raw reserved characters except `&` and `#` |
//!
//! An unknown parameter, or a duplicate one, does not match: a URI is the name of a resource and should have one
//! spelling, and a misspelled parameter should not be ignored. A parameter without `=` is empty. A `+` is a plus sign,
//! not a space.
//!
//! Text outside of expressions must be equal byte for byte, except that `%2f` equals `%2F`. A non-ASCII character in
//! the template or in the URI stands for its percent-encoding.
//!
//! # Matching
//!
//! A variable consumes every character it may contain, up to the first one it may not (or the end), and gives back the
//! template's own text if the consumed text ends with it. There is no backtracking, so the cost is linear in the length
//! of the URI. [`UriTemplate::parse`] rejects a template for which that rule could give other values than were
//! expanded: one where no character that *cannot* be part of a variable separates it from the next one.
//!
//! The guarantee: **if every variable outside of `{;…}`, `{?…}` and `{&…}` is given, the URI written by
//! [`UriTemplate::expand`] matches with the same values**, or not at all if one of them was empty or is rejected by the
//! check below. (A variable that is left out takes its separator along: `{/a,path*}` without `a` matches with the first
//! segment as `a`. An empty list is left out.) Two values come back in another form: a text given to `{/path*}` is a
//! list of one, and `{+a}` and `{#a}` keep a `%41` in a value (RFC 6570, section 3.2.3), which then reads as `A`.
//!
//! # Rejected values
//!
//! Values come from a peer and often become part of a file name. A URI that matches the template still fails with
//! [`RejectedValueError`] if a value, percent-decoded once (`%252e` is the text `%2e`),
//!
//! - is `.` or `..` or has such a segment, in any spelling,
//! - contains `/` or `\` where one path segment is expected, or `\` in `{+a}`,
//! - starts with `/` in a `{+a}` that follows a `/`: joined to a directory it would replace it,
//! - contains a control character, is not UTF-8, or is not valid in a URI.
//!
//! A simple variable after a `?` or `#` is not a path segment and may contain separators, as may the values of `{?a}`,
//! `{&a}` and `{#a}`. This check is no sandbox: code that opens files must still check where they are (links, drive
//! letters).

mod compile;
mod expand;
mod grammar;
mod matcher;
mod overlap;
mod percent;
mod template_error;
mod value_check;
mod values;

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

pub use self::template_error::{ExpandError, RejectReason, RejectedValueError, TemplateError};
pub use self::values::{TemplateValue, Variables};

use self::compile::Step;
use self::grammar::TemplatePart;

/// A template that can be expanded, and matched against URIs.
///
/// Two templates are equal if their source text is.
#[derive(Clone)]
pub struct UriTemplate {
    source: Box<str>,
    parts: Box<[TemplatePart]>,
    steps: Box<[Step]>,
}

impl UriTemplate {
    /// Parses a template within the default [`TemplateLimits`].
    ///
    /// Fails if the text is not a template of levels 1 to 3, if a variable is used twice, and if two variables could
    /// not be told apart in a URI; the message says what to write instead.
    ///
    /// ```
    /// use tsugite_core::uri_template::UriTemplate;
    ///
    /// assert!(UriTemplate::parse("files:///{+path}").is_ok());
    /// let error = UriTemplate::parse("dates/{month}-{day}").unwrap_err();
    /// assert!(error.to_string().starts_with("`month` and `day` cannot be told apart"));
    /// ```
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        Self::parse_with_limits(source, &TemplateLimits::default())
    }

    /// Parses a template within the given limits; otherwise like [`UriTemplate::parse`].
    pub fn parse_with_limits(source: &str, limits: &TemplateLimits) -> Result<Self, TemplateError> {
        let parts = grammar::parse(source, limits)?;
        let steps = compile::compile(&parts)?;
        Ok(Self { source: source.into(), parts, steps })
    }

    /// Expands the template.
    ///
    /// A variable for which `lookup` returns `None` is left out, as is an empty list. Fails only if a list is given to
    /// a variable other than `{/name*}`.
    pub fn expand(&self, lookup: impl FnMut(&str) -> Option<TemplateValue>) -> Result<String, ExpandError> {
        expand::expand(&self.parts, lookup)
    }

    /// Matches a URI, in time linear in its length.
    ///
    /// Returns `Ok(None)` if the URI does not have this shape: another template may match. Fails if it does, but a
    /// value is unsafe: do not try another template then.
    pub fn matches(&self, uri: &str) -> Result<Option<Variables>, RejectedValueError> {
        matcher::matches(&self.steps, uri)
    }

    /// Whether some URI matches both templates, so that a registry should not have both.
    ///
    /// `false` is always correct. `true` may be wrong: it ignores that a parameter may occur only once, and which
    /// values are rejected. The cost is at most the product of the two lengths, and small if the templates soon differ.
    pub fn overlaps(&self, other: &Self) -> bool {
        overlap::overlaps(&self.steps, &other.steps)
    }

    /// The names of the variables, in the order of the template.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        grammar::variables(&self.parts).map(|variable| &*variable.name)
    }

    /// The source text.
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

impl FromStr for UriTemplate {
    type Err = TemplateError;

    fn from_str(source: &str) -> Result<Self, TemplateError> {
        Self::parse(source)
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl fmt::Debug for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UriTemplate").field(&self.source).finish()
    }
}

impl PartialEq for UriTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for UriTemplate {}

impl Hash for UriTemplate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.source.hash(state);
    }
}

/// Expands a template of another server.
///
/// Accepts every template of levels 1 to 3 and `{/path*}`, also one that [`UriTemplate::parse`] rejects because it
/// could not be matched: only its owner must match it.
///
/// ```
/// use tsugite_core::uri_template::expand;
///
/// let uri = expand("dates/{month}-{day}", |name| Some(if name == "month" { "May" } else { "5" }.into()))?;
/// assert_eq!(uri, "dates/May-5");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn expand(
    source: &str,
    lookup: impl FnMut(&str) -> Option<TemplateValue>,
) -> Result<String, ExpandError> {
    let parts = grammar::parse(source, &TemplateLimits::default()).map_err(ExpandError::Template)?;
    expand::expand(&parts, lookup)
}

/// Limits on the size of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateLimits {
    /// The length in bytes; by default 4 KiB.
    pub max_length: usize,
    /// The number of variables; by default 64.
    pub max_variables: usize,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self { max_length: 4096, max_variables: 64 }
    }
}
