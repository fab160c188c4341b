//! A form, filled in line by line.

use std::fmt::Write as _;

use tsugite::client::FormResponse;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::elicitation::{FieldValue, FormParams};
use tsugite::protocol::form::{Field, FieldKind, FormSchema};

use super::{Prompter, field};

/// What was answered beforehand, as far as the form asks for it. Fails with the first answer that does not fit.
pub(super) fn prefill(
    schema: &FormSchema,
    answers: &[(String, String)],
) -> Result<OrderedMap<FieldValue>, String> {
    let mut content = OrderedMap::new();
    for (name, text) in answers {
        if let Some(asked) = schema.properties.get(name) {
            let value = field::parse(name, asked, text).map_err(|wrong| format!("{name}={text}: {wrong}"))?;
            content.insert(name, value);
        }
    }
    Ok(content)
}

/// Asks for what is not answered yet. A value that does not fit is asked for again.
pub(super) fn fill(form: &FormParams, given: OrderedMap<FieldValue>, person: &dyn Prompter) -> FormResponse {
    let schema = &form.requested_schema;
    person.show(&format!("The server asks: {}\n", form.message));
    if let Some(secret) = schema.secret_field() {
        person.show(&format!("Beware: `{secret}` looks like a secret, and no form may ask for one.\n"));
    }
    person.show("(Enter takes what stands in brackets, `!` says no, Ctrl-D goes away)\n");
    let mut content = given;
    for (name, asked) in schema.properties.iter() {
        if content.get(name).is_some() {
            continue;
        }
        let required = schema.required.iter().flatten().any(|required| required == name);
        person.show(&heading(name, asked, required));
        loop {
            let Some(text) = person.read_line(&prompt(name, asked)) else { return FormResponse::Cancel };
            match (text.trim(), field::default_text(asked)) {
                ("!", _) => return FormResponse::Decline,
                ("", Some(_)) => break,
                ("", None) if !required => break,
                ("", None) => person.show("    this must be filled in\n"),
                (text, _) => match field::parse(name, asked, text) {
                    Ok(value) => {
                        content.insert(name, value);
                        break;
                    }
                    Err(wrong) => person.show(&format!("    {wrong}\n")),
                },
            }
        }
    }
    FormResponse::Accept(content)
}

fn heading(name: &str, asked: &Field, required: bool) -> String {
    let mut text = String::new();
    let about = [asked.title.as_deref(), asked.description.as_deref()];
    let about: Vec<&str> = about.into_iter().flatten().collect();
    let optional = if required || field::default_text(asked).is_some() { "" } else { " (may be left empty)" };
    let _ = match about.is_empty() {
        true => writeln!(text, "{name}{optional}"),
        false => writeln!(text, "{}{optional}", about.join(": ")),
    };
    if let FieldKind::Choice { options, .. } | FieldKind::MultipleChoice { options, .. } = &asked.kind {
        for (number, (value, title)) in field::choices(options).iter().enumerate() {
            let _ = match title {
                Some(title) => writeln!(text, "    {}) {value}: {title}", number + 1),
                None => writeln!(text, "    {}) {value}", number + 1),
            };
        }
    }
    text
}

fn prompt(name: &str, asked: &Field) -> String {
    let kind = match &asked.kind {
        FieldKind::Number { integer: true, .. } => " (whole number)",
        FieldKind::Number { .. } => " (number)",
        FieldKind::Boolean { .. } => " (yes or no)",
        FieldKind::MultipleChoice { .. } => " (some, with commas)",
        _ => "",
    };
    match field::default_text(asked) {
        Some(preset) => format!("  {name}{kind} [{preset}]: "),
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
        let typist = ScriptedPrompter { lines: Mutex::new(typed.lines()), shown: Mutex::default() };
        let answer = fill(&form(), given, &typist);
        (answer, typist.shown.into_inner().unwrap())
    }

    /// Types what was prepared, and remembers what was shown.
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
    fn what_does_not_fit_is_asked_for_again() {
        let (answer, shown) = fill_with("\nKiku\nmany\n13\n3\nLARGE\n\n", OrderedMap::new());
        let expected = serde_json::json!({"name": "Kiku", "count": 3, "size": "l"});
        assert_eq!(answer, FormResponse::accept(&expected).unwrap());
        for said in [
            "The server asks: What shall it be?",
            "this must be filled in",
            "expected a whole number, got \"many\"",
            "expected at most 12, got 13",
            "2) l: Large",
            "size [s]: ",
        ] {
            assert!(shown.contains(said), "{said:?} in {shown}");
        }
    }

    #[test]
    fn what_was_answered_beforehand_is_not_asked() {
        let answers = [("name".to_owned(), "Kiku".to_owned()), ("other".to_owned(), "x".to_owned())];
        let given = prefill(&form().requested_schema, &answers).unwrap();
        let (answer, shown) = fill_with("2\n2\n\n", given);
        let expected = serde_json::json!({"name": "Kiku", "count": 2, "size": "l"});
        assert_eq!(answer, FormResponse::accept(&expected).unwrap());
        assert!(!shown.contains("name: "), "{shown}");
    }

    #[test]
    fn an_answer_that_does_not_fit_is_named() {
        let answers = [("count".to_owned(), "0".to_owned())];
        let wrong = prefill(&form().requested_schema, &answers).unwrap_err();
        assert_eq!(wrong, "count=0: expected at least 1, got 0");
    }

    #[test]
    fn one_can_say_no_or_go_away() {
        assert_eq!(fill_with("!\n", OrderedMap::new()).0, FormResponse::Decline);
        assert_eq!(fill_with("Kiku\n", OrderedMap::new()).0, FormResponse::Cancel);
    }
}
