//! `#[derive(Form)]`.

use serde_json::{Value, json};
use tsugite::prelude::*;
use tsugite::protocol::OrderedMap;
use tsugite::protocol::form::{ChoiceOptions, Field, FieldKind, FormSchema, TextFormat, TitledOption};
use tsugite::server::{FieldValue, FormField};

fn schema<F: Form>() -> Value {
    serde_json::to_value(F::schema()).unwrap()
}

fn read<F: Form>(content: Value) -> Result<F, String> {
    F::read(&serde_json::from_value(content).unwrap())
}

#[derive(Debug, PartialEq, Form)]
struct Confirm {
    /// Delete anyway?
    sure: bool,
}

#[test]
fn struct_becomes_a_form() {
    struct ByHand;

    impl Form for ByHand {
        fn schema() -> FormSchema {
            FormSchema::new().required_field("sure", bool::field().description("Delete anyway?"))
        }

        fn read(_content: &OrderedMap<FieldValue>) -> Result<Self, String> {
            Ok(Self)
        }
    }

    assert_eq!(Confirm::schema(), ByHand::schema());
    assert_eq!(read(json!({"sure": true})), Ok(Confirm { sure: true }));
    assert_eq!(read::<Confirm>(json!({})), Err("`sure` is missing".to_owned()));
}

#[derive(Debug, Clone, Copy, PartialEq, Form)]
enum Colour {
    Red,
    DarkBlue,
    #[form(rename = "yellow!")]
    Yellow,
}

#[derive(Debug, PartialEq, Form)]
#[form(rename_all = "kebab-case")]
enum Size {
    /// Too small.
    VerySmall,
    #[form(title = "Fits all")]
    Large,
    Other,
}

const OLDEST: u8 = 120;

#[derive(Debug, PartialEq, Form)]
struct Everything {
    /// Who
    /// you are.
    #[form(title = "Name", min_length = 1, max_length = 80)]
    name: String,
    #[form(description = "Where to write to.", format = "email")]
    email: Option<String>,
    #[form(min = 18, max = OLDEST, default = 30)]
    age: u8,
    #[form(min = -0.5, max = 0.5)]
    share: Option<f64>,
    #[form(default = true)]
    news: bool,
    #[form(default = "none", format = "date-time")]
    since: String,
    #[form(default = Colour::DarkBlue, rename = "colour")]
    favourite: Colour,
    #[form(min_items = 1, max_items = 2, default = [Colour::Red])]
    others: Vec<Colour>,
    size: Option<Size>,
    #[form(default = 3)]
    r#type: Option<i64>,
}

#[test]
fn field_attributes_appear_in_the_form_schema() {
    let plain = json!(["red", "dark_blue", "yellow!"]);
    let expected = json!({
        "type": "object",
        "properties": {
            "name": {
                "type": "string", "title": "Name", "description": "Who\nyou are.", "minLength": 1, "maxLength": 80,
            },
            "email": {"type": "string", "description": "Where to write to.", "format": "email"},
            "age": {"type": "integer", "minimum": 18, "maximum": 120, "default": 30},
            "share": {"type": "number", "minimum": -0.5, "maximum": 0.5},
            "news": {"type": "boolean", "default": true},
            "since": {"type": "string", "default": "none", "format": "date-time"},
            "colour": {"type": "string", "enum": plain, "default": "dark_blue"},
            "others": {
                "type": "array", "items": {"type": "string", "enum": plain}, "minItems": 1, "maxItems": 2,
                "default": ["red"],
            },
            "size": {"type": "string", "oneOf": [
                {"const": "very-small", "title": "Too small."},
                {"const": "large", "title": "Fits all"},
                {"const": "other", "title": "other"},
            ]},
            "type": {"type": "integer", "default": 3},
        },
        "required": ["name"],
    });
    let made = schema::<Everything>();
    assert_eq!(made, expected, "{made:#}");
    let names: Vec<_> = Everything::schema().properties.iter().map(|(name, _)| name.to_owned()).collect();
    let order = ["name", "email", "age", "share", "news", "since", "colour", "others", "size", "type"];
    assert_eq!(names, order);
}

#[test]
fn missing_fields_get_their_defaults() {
    let defaults = Everything {
        name: "Ann".to_owned(),
        email: None,
        age: 30,
        share: None,
        news: true,
        since: "none".to_owned(),
        favourite: Colour::DarkBlue,
        others: vec![Colour::Red],
        size: None,
        r#type: Some(3),
    };
    assert_eq!(read(json!({"name": "Ann"})), Ok(defaults));
    let filled = json!({
        "name": "Bob", "email": "b@example.com", "age": 40, "share": 0.25, "news": false, "since": "2026",
        "colour": "yellow!", "others": ["dark_blue", "red"], "size": "very-small", "type": 5,
    });
    let expected = Everything {
        name: "Bob".to_owned(),
        email: Some("b@example.com".to_owned()),
        age: 40,
        share: Some(0.25),
        news: false,
        since: "2026".to_owned(),
        favourite: Colour::Yellow,
        others: vec![Colour::DarkBlue, Colour::Red],
        size: Some(Size::VerySmall),
        r#type: Some(5),
    };
    assert_eq!(read(filled), Ok(expected));
    let wrong = read::<Everything>(json!({"name": "Ann", "size": "huge"}));
    assert_eq!(wrong, Err("`size`: not one of the choices".to_owned()));
}

#[test]
fn choice_can_be_written_by_hand() {
    let option = |value: &str, title: &str| TitledOption { value: value.to_owned(), title: title.to_owned() };
    let options =
        vec![option("very-small", "Too small."), option("large", "Fits all"), option("other", "other")];
    assert_eq!(Size::field(), Field::choice(ChoiceOptions::Titled(options)));
    let name = FieldKind::Text {
        min_length: None,
        max_length: None,
        format: Some(TextFormat::Email),
        default: None,
    };
    let email = Everything::schema().properties.get("email").cloned();
    assert_eq!(email, Some(Field::from(name).description("Where to write to.")));
}

#[derive(Form)]
#[form(rename_all = "camelCase")]
struct Renamed {
    first_name: String,
}

#[test]
fn fields_can_be_renamed_all_at_once() {
    let expected =
        json!({"type": "object", "properties": {"firstName": {"type": "string"}}, "required": ["firstName"]});
    assert_eq!(schema::<Renamed>(), expected);
    assert_eq!(read::<Renamed>(json!({"firstName": "Ann"})).unwrap().first_name, "Ann");
}
