//! Compiles a template into steps, and checks that a URI can be matched in only one way.
//!
//! A template becomes a list of steps: text, a value, a group of parameters. Every value and every group has a class of
//! allowed characters, and matching consumes all following characters of the class. That finds the right end exactly if
//! the character after the value is always outside of its class, so this is what [`compile`] checks:
//!
//! - A value gives back the text after it as far as that text is of its class (`tail`). Value and tail together are all
//!   of one class, so the tail is the end of the consumed text.
//! - The next step must begin with a character outside of the class, or be the end. A group may be missing, so the same
//!   holds for the step after the group. Another value in that place is ambiguous and rejected.
//! - Groups give nothing back: one that may be missing would have to share its text with the value before it.

use super::TemplateError;
use super::grammar::{self, Operator, TemplatePart, Variable};
use super::percent;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Text in canonical form; never empty.
    Text(Box<str>),
    /// A required value.
    Value(ValueStep),
    /// Optional parameters.
    Group(ParamGroup),
}

#[derive(Clone, Debug)]
pub(super) struct ValueStep {
    pub(super) name: Box<str>,
    pub(super) class: CharClass,
    pub(super) context: ValueContext,
    /// Whether the value is a list of segments.
    pub(super) is_list: bool,
    /// The text after the value, as far as the value could contain it.
    pub(super) tail: Box<str>,
}

#[derive(Clone, Debug)]
pub(super) struct ParamGroup {
    pub(super) prefix: char,
    pub(super) separator: char,
    pub(super) class: CharClass,
    pub(super) context: ValueContext,
    pub(super) keys: Box<[ParamKey]>,
}

/// The name of a parameter, and its form in a URI.
#[derive(Clone, Debug)]
pub(super) struct ParamKey {
    pub(super) name: Box<str>,
    pub(super) encoded_name: Box<str>,
}

/// The allowed characters of a value, or of a group with its separators.
///
/// Characters that are invalid in a URI are in every class: they are never text of a template, and the value check
/// rejects them. So are a lone `%` and ASCII letters: any two classes have characters in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharClass {
    /// No reserved characters.
    Segment,
    /// No reserved characters except `/`.
    Path,
    /// No reserved characters except `;` and `=`.
    Parameters,
    /// All characters except `#`.
    Query,
    Everything,
}

impl CharClass {
    pub(super) fn contains(self, found: char) -> bool {
        let reserved = u8::try_from(found).is_ok_and(percent::is_reserved);
        match self {
            Self::Segment => !reserved,
            Self::Path => !reserved || found == '/',
            Self::Parameters => !reserved || matches!(found, ';' | '='),
            Self::Query => found != '#',
            Self::Everything => true,
        }
    }
}

/// The use of a value, which decides how it is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueContext {
    /// One segment of a path.
    Segment,
    /// Several segments; `relative` if the template has the leading `/` already.
    Path { relative: bool },
    /// Not part of a path.
    Text,
}

/// Compiles the parts. Fails with the first reason why a URI could not be matched unambiguously.
pub(super) fn compile(parts: &[TemplatePart]) -> Result<Box<[Step]>, TemplateError> {
    check_names(parts)?;
    let mut builder = StepBuilder::default();
    for part in parts {
        match part {
            TemplatePart::Literal(literal) => builder.text.push_str(&percent::canonicalize(literal)),
            TemplatePart::Expression(operator, variables) if operator.is_named() => {
                builder.group(*operator, variables)
            }
            TemplatePart::Expression(operator, variables) => builder.values(*operator, variables),
        }
    }
    builder.flush();
    check_groups(&builder.steps)?;
    check_values(&builder.steps)?;
    Ok(builder.steps.into())
}

#[derive(Default)]
struct StepBuilder {
    steps: Vec<Step>,
    /// The text since the last step.
    text: String,
    /// Whether a `?` or `#` comes before: not a path from here on.
    after_path: bool,
}

impl StepBuilder {
    fn values(&mut self, operator: Operator, variables: &[Variable]) {
        let (mut mark, between) = operator.separators();
        for variable in variables {
            self.text.push_str(mark);
            mark = between;
            // After `://` a value may start with the first slash of an absolute path, as in `file://{+path}`.
            let relative = self.text.ends_with('/') && !self.text.ends_with("://");
            self.flush();
            let (class, guard) = match operator {
                Operator::Reserved => (CharClass::Everything, ValueContext::Path { relative }),
                Operator::Fragment => (CharClass::Everything, ValueContext::Text),
                Operator::Path if variable.explode => (CharClass::Path, ValueContext::Segment),
                Operator::Path => (CharClass::Segment, ValueContext::Segment),
                _ if self.after_path => (CharClass::Segment, ValueContext::Text),
                _ => (CharClass::Segment, ValueContext::Segment),
            };
            let (name, list, tail) = (variable.name.clone(), variable.explode, Box::default());
            self.steps.push(Step::Value(ValueStep { name, class, context: guard, is_list: list, tail }));
        }
    }

    fn group(&mut self, operator: Operator, variables: &[Variable]) {
        self.flush();
        let (lead, between, class, guard) = match operator {
            Operator::Parameter => (';', ';', CharClass::Parameters, ValueContext::Segment),
            Operator::Query => ('?', '&', CharClass::Query, ValueContext::Text),
            _ => ('&', '&', CharClass::Query, ValueContext::Text),
        };
        self.after_path |= guard == ValueContext::Text;
        let keys = variables
            .iter()
            .map(|variable| ParamKey {
                name: variable.name.clone(),
                encoded_name: percent::canonicalize(&variable.name).into(),
            })
            .collect();
        self.steps.push(Step::Group(ParamGroup {
            prefix: lead,
            separator: between,
            class,
            context: guard,
            keys,
        }));
    }

    /// Turns the text so far into the tail of the value before it and a step of its own.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.text);
        self.after_path |= text.contains(['?', '#']);
        let mut rest = text.as_str();
        if let Some(Step::Value(slot)) = self.steps.last_mut() {
            let end = text.find(|found| !slot.class.contains(found)).unwrap_or(text.len());
            let (tail, after) = text.split_at_checked(end).unwrap_or((&text, ""));
            slot.tail = tail.into();
            rest = after;
        }
        if !rest.is_empty() {
            self.steps.push(Step::Text(rest.into()));
        }
    }
}

fn check_names(parts: &[TemplatePart]) -> Result<(), TemplateError> {
    let mut names: Vec<_> =
        grammar::variables(parts).map(|variable| percent::canonicalize(&variable.name)).collect();
    names.sort();
    match names.windows(2).find_map(|pair| pair.first().filter(|name| pair.last() == Some(name))) {
        Some(name) => Err(TemplateError::DuplicateVariable { variable: name.to_string() }),
        None => Ok(()),
    }
}

fn check_groups(steps: &[Step]) -> Result<(), TemplateError> {
    // From the right: in `{;a}{?b}x` it is `b` that is undelimited.
    for (index, step) in steps.iter().enumerate().rev() {
        let Step::Group(group) = step else { continue };
        let after = steps.get(index + 1..).unwrap_or_default();
        if is_delimited_by(group.class, after) {
            continue;
        }
        let variable = group.keys.last().map(|key| key.name.to_string()).unwrap_or_default();
        let follower = match after.first() {
            Some(Step::Group(next)) if next.separator == group.separator => {
                next.keys.first().map(|key| &key.name)
            }
            Some(Step::Value(next)) => Some(&next.name),
            _ => None,
        };
        let advice = match (group.class, after.first()) {
            (_, Some(Step::Group(_))) if follower.is_some() => "write both in one expression, as in `{?a,b}`",
            (CharClass::Query, _) => "a query ends the template, only a fragment may follow",
            _ => "put a reserved character such as `/` after it",
        };
        return Err(match follower {
            Some(second) => TemplateError::Ambiguous { first: variable, second: second.to_string(), advice },
            None => TemplateError::Undelimited { variable, advice },
        });
    }
    Ok(())
}

fn check_values(steps: &[Step]) -> Result<(), TemplateError> {
    let mut rest = steps;
    while let [step, after @ ..] = rest {
        rest = after;
        let Step::Value(slot) = step else { continue };
        if is_delimited_by(slot.class, after) {
            continue;
        }
        let second = after.iter().find_map(|step| match step {
            Step::Text(_) => None,
            Step::Value(slot) => Some(slot.name.to_string()),
            Step::Group(group) => group.keys.first().map(|key| key.name.to_string()),
        });
        let advice = match slot.class {
            CharClass::Everything => {
                "the first matches every character, so make it the last variable or write `{/name*}`"
            }
            CharClass::Path => {
                "the first takes every segment, so put it last, or a mark such as `:` after it"
            }
            _ => "put a reserved character such as `/` or `,` between them",
        };
        let (first, second) = (slot.name.to_string(), second.unwrap_or_default());
        return Err(TemplateError::Ambiguous { first, second, advice });
    }
    Ok(())
}

/// Whether a value of this class always ends where these steps begin, with or without optional groups.
fn is_delimited_by(class: CharClass, steps: &[Step]) -> bool {
    for step in steps {
        match step {
            Step::Text(text) => return !text.starts_with(|found| class.contains(found)),
            Step::Value(_) => return false,
            Step::Group(group) if class.contains(group.prefix) => return false,
            Step::Group(_) => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::UriTemplate;
    use super::*;

    fn assert_ambiguous(source: &str, first: &str, second: &str) {
        match UriTemplate::parse(source) {
            Err(TemplateError::Ambiguous { first: f, second: s, .. }) => {
                assert_eq!((&*f, &*s), (first, second))
            }
            other => panic!("{source}: {other:?}"),
        }
    }

    #[test]
    fn adjacent_variables_are_rejected() {
        for source in ["{a}{b}", "{a}x{b}", "{a}-{b}", "{a}.{b}", "{a}%2F{b}", "{a}é{b}"] {
            assert_ambiguous(source, "a", "b");
        }
        for source in ["{a}{.b}", "{.a,b}", "{.a}{b}", "{a}{+b}", "{a}x{+b}", "/{a}y{b}/{c}"] {
            assert_ambiguous(source, "a", "b");
        }
    }

    #[test]
    fn variable_that_matches_everything_must_be_last() {
        for source in
            ["{+a}{b}", "{+a}/{b}", "{+a,b}", "{#a,b}", "{+a}{/b}", "{+a}{?b}", "{+a}{#b}", "{+a}{;b}"]
        {
            assert_ambiguous(source, "a", "b");
        }
        for source in ["{/a*}{/b}", "{/a*}/{b}", "{/a*,b}", "{/a*}/x{b}", "{/a*}{b}", "{/a*}{;b}/x"] {
            assert_ambiguous(source, "a", "b");
        }
    }

    #[test]
    fn undelimited_parameters_are_rejected() {
        for source in ["{?a}{&b}", "{?a}{?b}", "{&a}{&b}", "{;a}{;b}", "{?a}{b}", "{;a}{b}"] {
            assert_ambiguous(source, "a", "b");
        }
        for source in
            ["{?a}x", "{?a}&x=1", "{;a}x", "{;a};x", "{;a}.json", "{?a}{/b}", "{x}{;a}y", "{;y}{?a}z"]
        {
            let error = UriTemplate::parse(source).expect_err(source);
            let runs_on = matches!(&error, TemplateError::Undelimited { variable, .. } if variable == "a");
            assert!(runs_on, "{source}: {error}");
        }
    }

    #[test]
    fn reserved_character_separates_two_variables() {
        for source in [
            "{a}/{b}",
            "{a,b}",
            "{a}:{b}",
            "{a}x/{b}",
            "{a}/x{b}",
            "{a}.x@y.{b}",
            "{/a,b}",
            "{a}{/b*}",
            "{a}/{+b}",
            "{a}{#b}",
            "{a}{;b}{/c*}{?d}{#e}",
            "{/a*}:{b}",
            "{/a*}/x{?b}",
            "{/a*}{;b}{?c}",
            "{/a*}{;b}:x",
            "{+a}/x",
            "x?y={a}&z={b}{&c}#{d}",
            "{;a}{?b}",
            "{;a}{&b}#",
        ] {
            assert!(UriTemplate::parse(source).is_ok(), "{source}: {:?}", UriTemplate::parse(source));
        }
    }

    #[test]
    fn duplicate_variable_is_rejected() {
        for source in ["{a}/{a}", "{a,b,a}", "{/a}{?a}"] {
            let repeated = TemplateError::DuplicateVariable { variable: "a".into() };
            assert_eq!(UriTemplate::parse(source), Err(repeated), "{source}");
        }
        // Both would be the same parameter in a URI.
        assert!(matches!(UriTemplate::parse("{?%2f,%2F}"), Err(TemplateError::DuplicateVariable { .. })));
    }

    #[test]
    fn error_names_both_variables_and_a_fix() {
        let message = |source| UriTemplate::parse(source).unwrap_err().to_string();
        assert_eq!(
            message("{a}x{b}"),
            "`a` and `b` cannot be told apart in a URI: put a reserved character such as `/` or `,` between them"
        );
        assert!(message("{+a}/{b}").ends_with("make it the last variable or write `{/name*}`"));
        assert!(message("{?a}{&b}").ends_with("write both in one expression, as in `{?a,b}`"));
        assert!(message("{?a}x").ends_with("a query ends the template, only a fragment may follow"));
    }
}
