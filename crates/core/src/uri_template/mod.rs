//! URI templates: from values to a URI, and from a URI back to the values.
//!
//! RFC 6570 tells how a template expands and leaves the way back open. A server needs the way back: a client
//! asks for `notes://ada/42` and the server must know that `notes://{owner}/{id}` is meant. So a
//! [`UriTemplate`] is stricter than the RFC: one that could be read back in two ways is refused when it is
//! parsed, not when somebody finds out.
//!
//! ```
//! use tsugite_core::uri_template::UriTemplate;
//!
//! let template = UriTemplate::grammar("notes://{owner}{/path*}{?page}")?;
//! let found = template.matches("notes://ada/plans/house?page=2")?;
//! let found = found.ok_or("no match")?;
//! assert_eq!(found.text("owner"), Some("ada"));
//! assert_eq!(found.list("path"), Some(&["plans".to_owned(), "house".to_owned()][..]));
//! assert_eq!(found.text("page"), Some("2"));
//!
//! let uri = template.expand(|name| found.get(name).cloned())?;
//! assert_eq!(uri, "notes://ada/plans/house?page=2");
//! # Ok::<(), Box<dyn std::template_error::Error>>(())
//! ```
//!
//! # What is understood
//!
//! Levels 1 to 3, and the explode modifier in `{/path*}`. Other explodes and the prefix modifier `{var:3}`
//! are refused.
//!
//! | expression | matches |
//! |---|---|
//! | `{a}` `{a,b}` `{.a}` `{/a}` | one character or more, none reserved: never a raw `/` `?` `#` `,` … |
//! | `{/path*}` | one segment or more, none empty: a list |
//! | `{+a}` `{#a}` | one character or more, whatever they are |
//! | `{;a,b}` | parameters in any order, each may be missing |
//! | `{?a,b}` `{&a,b}` | the same; values may also hold raw reserved characters but `&` and `#` |
//!
//! An unknown parameter, or the same one twice, is no match: a URI is the name of a resource, and two
//! spellings of one name (or a misspelt parameter that silently does nothing) help nobody. A parameter
//! without `=` is empty. A `+` is a plus sign, not a space.
//!
//! Text outside of expressions must be equal byte for byte, except that `%2f` equals `%2F`. A non-ASCII
//! character in the template or in the URI stands for its percent-encoding.
//!
//! # How a URI is read
//!
//! A variable takes every character it may hold, up to the first one it may not (or the end), and gives back
//! the template's own text if that is what the taken text ends with. There is nothing to try a second time,
//! so the cost is linear in the length of the URI. [`UriTemplate::grammar`] refuses a template where that rule
//! could read something else than what was written: where nothing that *cannot* be part of a variable
//! separates it from the next one.
//!
//! The promise: **if every variable outside of `{;…}`, `{?…}` and `{&…}` is given, the URI that
//! [`UriTemplate::expand`] writes is read back as the same values**, or not at all when one of them was
//! empty, or refused by the screening below. (One that is left out takes its mark along: `{/a,path*}` without
//! `a` is read with the first segment as `a`. An empty list is left out.) Two things come back in another
//! spelling: a text given to `{/path*}` is a list of one, and `{+a}` and `{#a}` let a `%41` in a value pass
//! as it is (RFC 6570, section 3.2.3), which then reads as `A`.
//!
//! # What is refused
//!
//! Values come from a peer and often end in a file name. A URI that fits the template is still [`RejectedValueError`]
//! when a value, percent-decoded (once: `%252e` is the text `%2e`),
//!
//! - is `.` or `..` or has such a segment, whichever way it is spelt,
//! - holds `/` or `\` where one path segment is expected, or `\` in `{+a}`,
//! - starts with `/` in a `{+a}` that follows a `/`: joined to a directory it would replace it,
//! - holds a control character, or is not UTF-8, or was not a piece of a URI in the first place.
//!
//! A simple variable behind a `?` or `#` is no path segment and may hold separators, as may the values of
//! `{?a}`, `{&a}` and `{#a}`. This is a net, not a sandbox: whoever opens files still checks where they are
//! (links, drive letters).

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

/// A template that expands, and that reads back what it expanded.
///
/// Two are equal when their source text is.
#[derive(Clone)]
pub struct UriTemplate {
    source: Box<str>,
    parts: Box<[TemplatePart]>,
    steps: Box<[Step]>,
}

impl UriTemplate {
    /// Parses a template within the default [`TemplateLimits`].
    ///
    /// Fails when the text is no template of levels 1 to 3, when a variable stands in it twice, and when two
    /// variables could not be told apart in a URI; the message says what to write instead.
    ///
    /// ```
    /// use tsugite_core::uri_template::UriTemplate;
    ///
    /// assert!(UriTemplate::grammar("files:///{+path}").is_ok());
    /// let error = UriTemplate::grammar("dates/{month}-{day}").unwrap_err();
    /// assert!(error.to_string().starts_with("`month` and `day` cannot be told apart"));
    /// ```
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        Self::parse_with_limits(source, &TemplateLimits::default())
    }

    /// Parses a template within the given limits; else as [`UriTemplate::grammar`].
    pub fn parse_with_limits(source: &str, limits: &TemplateLimits) -> Result<Self, TemplateError> {
        let parts = grammar::parse(source, limits)?;
        let steps = compile::compile(&parts)?;
        Ok(Self { source: source.into(), parts, steps })
    }

    /// Writes the URI for these values.
    ///
    /// A variable for which `lookup` returns `None` is left out, as is an empty list. Fails only when a list
    /// is given to a variable other than `{/name*}`.
    pub fn expand(&self, lookup: impl FnMut(&str) -> Option<TemplateValue>) -> Result<String, ExpandError> {
        expand::expand(&self.parts, lookup)
    }

    /// Reads the values back from a URI, in time linear in its length.
    ///
    /// `Ok(None)` when the URI does not have this shape: another template may. An error when it does, and a
    /// value is one that no handler should see: do not try another template then.
    pub fn matches(&self, uri: &str) -> Result<Option<Variables>, RejectedValueError> {
        matcher::matches(&self.steps, uri)
    }

    /// Whether some URI fits both templates, so that a registry should not hold both.
    ///
    /// Never wrong when it says no. It says yes a little too often: it does not know that a parameter may
    /// stand only once, nor what the screening refuses. The cost is at most the product of the two lengths,
    /// and small where the templates soon differ.
    pub fn overlaps(&self, other: &Self) -> bool {
        overlap::overlaps(&self.steps, &other.steps)
    }

    /// The names of the variables, in the order of the template.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        grammar::variables(&self.parts).map(|variable| &*variable.name)
    }

    /// The text this was parsed from.
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

/// Expands a template that somebody else registered.
///
/// Takes every template of levels 1 to 3 and `{/path*}`, also one that [`UriTemplate::grammar`] refuses because
/// it could not be read back: only its owner has to.
///
/// ```
/// use tsugite_core::uri_template::expand;
///
/// let uri = expand("dates/{month}-{day}", |name| Some(if name == "month" { "May" } else { "5" }.into()))?;
/// assert_eq!(uri, "dates/May-5");
/// # Ok::<(), Box<dyn std::template_error::Error>>(())
/// ```
pub fn expand(
    source: &str,
    lookup: impl FnMut(&str) -> Option<TemplateValue>,
) -> Result<String, ExpandError> {
    let parts = grammar::parse(source, &TemplateLimits::default()).map_err(ExpandError::Template)?;
    expand::expand(&parts, lookup)
}

/// How large a template may be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TemplateLimits {
    /// The length in bytes; 4 KiB unless set.
    pub max_length: usize,
    /// The number of variables; 64 unless set.
    pub max_variables: usize,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self { max_length: 4096, max_variables: 64 }
    }
}
