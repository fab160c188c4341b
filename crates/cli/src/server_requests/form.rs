//! Fills in a form line by line, on the terminal.

use std::fmt::Write as _;

use tsugite::client::FormResponse;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::elicitation::{FieldValue, FormParams};
use tsugite::protocol::form::{Field, FieldKind, FormSchema};

use super::{Prompter, field};

/// Returns the preset answers for the fields of the form. Fails on the first invalid answer.
pub(super) fn prefill(
    schema: &FormSchema,
    answers: &[(String, String)],
) -> Result<OrderedMap<FieldValue>, String> {
    let mut content = OrderedMap::new();
    for (name, text) in answers {
        if let Some(field) = schema.properties.get(name) {
            let value = field::parse(name, field, text).map_err(|wrong| format!("{name}={text}: {wrong}"))?;
            content.insert(name, value);
        }
    }
    Ok(content)
}

/// Prompts for the fields without an answer. Repeats the prompt after an invalid value.
pub(super) fn fill(
    form: &FormParams,
    given: OrderedMap<FieldValue>,
    prompter: &dyn Prompter,
) -> FormResponse {
    let schema = &form.requested_schema;
    prompter.show(&format!("The server asks: {}\n", form.message));
    if let Some(secret) = schema.secret_field() {
        prompter.show(&format!("Warning: `{secret}` looks like a secret. Forms must not ask for secrets.\n"));
    }
    prompter.show("(Enter accepts the default in brackets, `!` declines, Ctrl-D cancels)\n");
    let mut content = given;
    for (name, field) in schema.properties.iter() {
        if content.get(name).is_some() {
            continue;
        }
        let required = schema.required.iter().flatten().any(|required| required == name);
        prompter.show(&heading(name, field, required));
        loop {
            let Some(text) = prompter.read_line(&prompt(name, field)) else { return FormResponse::Cancel };
            match (text.trim(), field::default_text(field)) {
                ("!", _) => return FormResponse::Decline,
                ("", Some(_)) => break,
                ("", None) if !required => break,
                ("", None) => prompter.show("    a value is required\n"),
                (text, _) => match field::parse(name, field, text) {
                    Ok(value) => {
                        content.insert(name, value);
                        break;
                    }
                    Err(wrong) => prompter.show(&format!("    {wrong}\n")),
                },
            }
        }
    }
    FormResponse::Accept(content)
}

fn heading(name: &str, field: &Field, required: bool) -> String {
    let mut text = String::new();
    let about = [field.title.as_deref(), field.description.as_deref()];
    let about: Vec<&str> = about.into_iter().flatten().collect();
    let optional = if required || field::default_text(field).is_some() { "" } else { " (optional)" };
    let _ = match about.is_empty() {
        true => writeln!(text, "{name}{optional}"),
        false => writeln!(text, "{}{optional}", about.join(": ")),
    };
    if let FieldKind::Choice { options, .. } | FieldKind::MultipleChoice { options, .. } = &field.kind {
        for (number, (value, title)) in field::choices(options).iter().enumerate() {
            let _ = match title {
                Some(title) => writeln!(text, "    {}) {value}: {title}", number + 1),
                None => writeln!(text, "    {}) {value}", number + 1),
            };
        }
    }
    text
}

fn prompt(name: &str, field: &Field) -> String {
    let kind = match &field.kind {
        FieldKind::Number { integer: true, .. } => " (whole number)",
        FieldKind::Number { .. } => " (number)",
        FieldKind::Boolean { .. } => " (yes or no)",
        FieldKind::MultipleChoice { .. } => " (separated by commas)",
        _ => "",
    };
    match field::default_text(field) {
        Some(default) => format!("  {name}{kind} [{default}]: "),
        None => format!("  {name}{kind}: "),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tsugite::protocol::form::{ChoiceOptions, TitledOption};

    use super::*;

    fn form() -> FormParams {
        let count = FieldKind::Number {
            integer: true,
            minimum: Some(1.into()),
            maximum: Some(12.into()),
            default: None,
        };
        let sizes = vec![
            TitledOption { value: "s".to_owned(), title: "Small".to_owned() },
            TitledOption { value: "l".to_owned(), title: "Large".to_owned() },
        ];
        let sizes =
            FieldKind::Choice { options: ChoiceOptions::Titled(sizes), default: Some("s".to_owned()) };
        let schema = FormSchema::new()
            .required_field("name", Field::text())
            .required_field("count", count)
            .field("size", sizes)
            .field("note", Field::text());
        FormParams::new("What shall it be?", schema)
    }

    fn fill_with(typed: &str, given: OrderedMap<FieldValue>) -> (FormResponse, String) {
        let prompter = ScriptedPrompter { lines: Mutex::new(typed.lines()), shown: Mutex::default() };
        let answer = fill(&form(), given, &prompter);
        (answer, prompter.shown.into_inner().unwrap())
    }

    /// A prompter that reads prepared lines and records its output.
    struct ScriptedPrompter<'a> {
        lines: Mutex<std::str::Lines<'a>>,
        shown: Mutex<String>,
    }

    impl Prompter for ScriptedPrompter<'_> {
        fn show(&self, text: &str) {
            self.shown.lock().unwrap().push_str(text);
        }

        fn read_line(&self, prompt: &str) -> Option<String> {
            self.show(prompt);
            self.lines.lock().unwrap().next().map(str::to_owned)
        }
    }

    #[test]
    fn invalid_value_is_prompted_for_again() {
        let (answer, shown) = fill_with("\nKiku\nmany\n13\n3\nLARGE\n\n", OrderedMap::new());
        let expected = serde_json::json!({"name": "Kiku", "count": 3, "size": "l"});
        assert_eq!(answer, FormResponse::accept(expected));
        for expected in [
            "The server asks: What shall it be?",
            "a value is required",
            "expected a whole number, got \"many\"",
            "expected at most 12, got 13",
            "2) l: Large",
            "size [s]: ",
        ] {
            assert!(shown.contains(expected), "{expected:?} in {shown}");
        }
    }

    #[test]
    fn preset_answer_is_not_prompted_for() {
        let answers = [("name".to_owned(), "Kiku".to_owned()), ("other".to_owned(), "x".to_owned())];
        let given = prefill(&form().requested_schema, &answers).unwrap();
        let (answer, shown) = fill_with("2\n2\n\n", given);
        let expected = serde_json::json!({"name": "Kiku", "count": 2, "size": "l"});
        assert_eq!(answer, FormResponse::accept(expected));
        assert!(!shown.contains("name: "), "{shown}");
    }

    #[test]
    fn invalid_preset_answer_is_named() {
        let answers = [("count".to_owned(), "0".to_owned())];
        let wrong = prefill(&form().requested_schema, &answers).unwrap_err();
        assert_eq!(wrong, "count=0: expected at least 1, got 0");
    }

    #[test]
    fn user_can_decline_or_cancel() {
        assert_eq!(fill_with("!\n", OrderedMap::new()).0, FormResponse::Decline);
        assert_eq!(fill_with("Kiku\n", OrderedMap::new()).0, FormResponse::Cancel);
    }
}
