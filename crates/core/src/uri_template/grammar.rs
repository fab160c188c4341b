//! Parses a template into literals and expressions: the grammar of RFC 6570, section 2.
//!
//! Whether URIs can be matched unambiguously is checked in `compile`, so that a template of another server can still be
//! expanded.

use super::percent::{self, AllowedChars};
use super::{TemplateError, TemplateLimits};

/// A literal or an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplatePart {
    Literal(Box<str>),
    Expression(Operator, Box<[Variable]>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: Box<str>,
    pub(super) explode: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    Parameter,
    Query,
    Continuation,
}

impl Operator {
    /// The text before the first value and between values (RFC 6570, appendix A).
    pub(super) fn separators(self) -> (&'static str, &'static str) {
        match self {
            Self::Simple | Self::Reserved => ("", ","),
            Self::Fragment => ("#", ","),
            Self::Label => (".", "."),
            Self::Path => ("/", "/"),
            Self::Parameter => (";", ";"),
            Self::Query => ("?", "&"),
            Self::Continuation => ("&", "&"),
        }
    }

    pub(super) fn allowed_chars(self) -> AllowedChars {
        match self {
            Self::Reserved | Self::Fragment => AllowedChars::Reserved,
            _ => AllowedChars::Unreserved,
        }
    }

    /// Whether values are written as `name=value`.
    pub(super) fn is_named(self) -> bool {
        matches!(self, Self::Parameter | Self::Query | Self::Continuation)
    }
}

/// Parses a template. Reports the first error from the left, except for the limits.
pub(super) fn parse(source: &str, limits: &TemplateLimits) -> Result<Box<[TemplatePart]>, TemplateError> {
    if source.len() > limits.max_length {
        return Err(TemplateError::TooLong { limit: limits.max_length });
    }
    let mut parts = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        let at = source.len() - rest.len();
        if let Some(inside) = rest.strip_prefix('{') {
            let (body, after) = inside.split_once('}').ok_or(TemplateError::Unclosed { at })?;
            parts.push(parse_expression(body, at + 1)?);
            rest = after;
        } else {
            let end = rest.find('{').unwrap_or(rest.len());
            let (literal, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            check_literal(literal, at)?;
            parts.push(TemplatePart::Literal(literal.into()));
            rest = after;
        }
    }
    if variables(&parts).count() > limits.max_variables {
        return Err(TemplateError::TooManyVariables { limit: limits.max_variables });
    }
    Ok(parts.into())
}

/// All variables, from left to right.
pub(super) fn variables(parts: &[TemplatePart]) -> impl Iterator<Item = &Variable> {
    parts.iter().flat_map(|part| match part {
        TemplatePart::Literal(_) => &[],
        TemplatePart::Expression(_, variables) => &**variables,
    })
}

fn check_literal(literal: &str, at: usize) -> Result<(), TemplateError> {
    for (offset, found) in literal.char_indices() {
        let at = at + offset;
        let rest = literal.as_bytes().get(offset..).unwrap_or_default();
        match found {
            '}' => return Err(TemplateError::Unopened { at }),
            '%' if percent::decode_triplet(rest).is_some() => {}
            '%' => return Err(TemplateError::InvalidPercent { at }),
            _ if may_be_literal(found) => {}
            _ => return Err(TemplateError::InvalidCharacter { found, at }),
        }
    }
    Ok(())
}

/// RFC 6570, section 2.1, with the apostrophe (erratum 6937).
fn may_be_literal(found: char) -> bool {
    match u8::try_from(found) {
        Ok(byte) if byte.is_ascii() => percent::is_unreserved(byte) || percent::is_reserved(byte),
        // ucschar and iprivate of RFC 3987.
        _ => match u32::from(found) {
            0xA0..=0xFDCF | 0xFDF0..=0xFFEF => true,
            0xE0000..=0xE0FFF => false,
            code => code >= 0x10000 && code & 0xFFFF < 0xFFFE,
        },
    }
}

fn parse_expression(body: &str, at: usize) -> Result<TemplatePart, TemplateError> {
    let mut chars = body.chars();
    let operator = match chars.next() {
        Some('+') => Operator::Reserved,
        Some('#') => Operator::Fragment,
        Some('.') => Operator::Label,
        Some('/') => Operator::Path,
        Some(';') => Operator::Parameter,
        Some('?') => Operator::Query,
        Some('&') => Operator::Continuation,
        Some(found @ ('=' | ',' | '!' | '@' | '|')) => {
            return Err(TemplateError::UndefinedOperator { found, at });
        }
        _ => Operator::Simple,
    };
    let list = if operator == Operator::Simple { body } else { chars.as_str() };
    let mut at = at + body.len() - list.len();
    let mut variables = Vec::new();
    for spec in list.split(',') {
        variables.push(parse_variable(spec, operator, at)?);
        at += spec.len() + 1;
    }
    Ok(TemplatePart::Expression(operator, variables.into()))
}

fn parse_variable(spec: &str, operator: Operator, at: usize) -> Result<Variable, TemplateError> {
    let (name, explode) = match spec.strip_suffix('*') {
        Some(name) => (name, true),
        None => (spec, false),
    };
    if name.split_once(':').is_some_and(|(name, _)| is_name(name)) {
        return Err(TemplateError::UnsupportedPrefix { variable: spec.to_owned() });
    }
    if !is_name(name) {
        return Err(TemplateError::InvalidName { found: name.to_owned(), at });
    }
    if explode && operator != Operator::Path {
        return Err(TemplateError::UnsupportedExplode { variable: name.to_owned() });
    }
    Ok(Variable { name: name.into(), explode })
}

/// RFC 6570, section 2.3: `varname`.
fn is_name(name: &str) -> bool {
    name.split('.').all(|piece| {
        let mut rest = piece.as_bytes();
        while let [byte, after @ ..] = rest {
            if !(byte.is_ascii_alphanumeric() || *byte == b'_' || percent::decode_triplet(rest).is_some()) {
                return false;
            }
            rest = after;
        }
        !piece.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(source: &str) -> TemplateError {
        parse(source, &TemplateLimits::default()).expect_err(source)
    }

    fn names(source: &str) -> Vec<String> {
        let parts = parse(source, &TemplateLimits::default()).expect(source);
        variables(&parts).map(|variable| variable.name.to_string()).collect()
    }

    #[test]
    fn names_have_letters_digits_underscores_triplets_and_inner_dots() {
        assert_eq!(names("{a}{b_1}{c.d.e}{%41x}{42}"), ["a", "b_1", "c.d.e", "%41x", "42"]);
        for (source, found, at) in [
            ("{}", "", 1),
            ("{?}", "", 2),
            ("x{a,}", "", 4),
            ("{a,,b}", "", 3),
            ("{a.}", "a.", 1),
            ("{.a..b}", "a..b", 2),
            ("{+.a}", ".a", 2),
            ("{a-b}", "a-b", 1),
            ("{a, b}", " b", 3),
            ("{a{b}", "a{b", 1),
            ("{??a}", "?a", 2),
            ("{%2x}", "%2x", 1),
            ("{é}", "é", 1),
            ("{$a}", "$a", 1),
            ("{a?}", "a?", 1),
            ("{a**}", "a*", 1),
        ] {
            assert_eq!(error(source), TemplateError::InvalidName { found: found.into(), at }, "{source}");
        }
    }

    #[test]
    fn braces_must_pair() {
        assert_eq!(error("ab{c"), TemplateError::Unclosed { at: 2 });
        assert_eq!(error("a}"), TemplateError::Unopened { at: 1 });
        assert_eq!(error("{a}}"), TemplateError::Unopened { at: 3 });
    }

    #[test]
    fn literals_have_only_uri_characters() {
        for found in ['\0', '\n', ' ', '"', '<', '>', '\\', '^', '`', '|', '\u{7f}', '\u{85}', '\u{fdd0}'] {
            assert_eq!(error(&format!("a{found}")), TemplateError::InvalidCharacter { found, at: 1 });
        }
        for found in ['\u{fffd}', '\u{1fffe}', '\u{e0001}', '\u{10ffff}'] {
            assert_eq!(error(&format!("a{found}")), TemplateError::InvalidCharacter { found, at: 1 });
        }
        for source in ["a%", "a%4", "a%zz", "a%4{b}"] {
            assert_eq!(error(source), TemplateError::InvalidPercent { at: 1 }, "{source}");
        }
        let fine = "-._~:/?#[]@!$&'()*+,;=%41caf\u{e9}\u{e000}\u{20000}";
        assert_eq!(names(fine), [""; 0]);
    }

    #[test]
    fn unsupported_modifiers_are_named() {
        assert_eq!(error("{a:3}"), TemplateError::UnsupportedPrefix { variable: "a:3".into() });
        assert_eq!(error("{/a:3*}"), TemplateError::UnsupportedPrefix { variable: "a:3*".into() });
        for operator in ["", "+", "#", ".", ";", "?", "&"] {
            let source = format!("{{{operator}a*}}");
            assert_eq!(
                error(&source),
                TemplateError::UnsupportedExplode { variable: "a".into() },
                "{source}"
            );
        }
        for found in ['=', ',', '!', '@', '|'] {
            assert_eq!(error(&format!("{{{found}a}}")), TemplateError::UndefinedOperator { found, at: 1 });
        }
        assert!(error("{a:3}").to_string().contains("not supported"));
        assert!(error("{?a*}").to_string().contains("only `{/a*}`"));
    }

    #[test]
    fn template_length_and_variables_are_limited() {
        assert!(parse(&"a".repeat(4096), &TemplateLimits::default()).is_ok());
        assert_eq!(error(&"a".repeat(4097)), TemplateError::TooLong { limit: 4096 });

        let many = |count: usize| (0..count).map(|n| format!("{{/v{n}}}")).collect::<String>();
        assert!(parse(&many(64), &TemplateLimits::default()).is_ok());
        assert_eq!(error(&many(65)), TemplateError::TooManyVariables { limit: 64 });
        assert!(parse(&many(65), &TemplateLimits { max_variables: 65, ..TemplateLimits::default() }).is_ok());
    }
}
