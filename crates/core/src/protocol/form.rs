//! Forms: the subset of JSON Schema that elicitation uses, with all ways to write a choice.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value, json};

use super::wire::string_enum;
use super::{Object, OrderedMap};

/// A form: fields by name, in display order.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
#[doc(alias("ElicitationSchema", "requestedSchema", "PrimitiveSchemaDefinition"))]
pub struct FormSchema {
    /// The fields.
    pub properties: OrderedMap<Field>,
    /// The required fields.
    pub required: Option<Vec<String>>,
    /// The schema dialect, if given (from 2025-11-25).
    pub dialect: Option<String>,
    /// Unknown keywords.
    pub other: Object,
}

impl FormSchema {
    /// A form without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an optional field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        self.properties.insert(name, field.into());
        self
    }

    /// Adds a required field.
    #[must_use]
    pub fn required_field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        let name = name.into();
        self.required.get_or_insert_default().push(name.clone());
        self.field(name, field)
    }
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// The kind of field.
    pub kind: FieldKind,
    /// The display name; the name of the field is the default.
    pub title: Option<String>,
    /// A description.
    pub description: Option<String>,
    /// Unknown keywords.
    pub other: Object,
}

/// The kinds of fields.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Text.
    Text {
        /// The minimum number of characters.
        min_length: Option<u64>,
        /// The maximum number of characters.
        max_length: Option<u64>,
        /// The format of the text.
        format: Option<TextFormat>,
        /// The default value (from 2025-11-25).
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Whether it must be an integer.
        integer: bool,
        /// The minimum.
        minimum: Option<Number>,
        /// The maximum.
        maximum: Option<Number>,
        /// The default value (from 2025-11-25).
        default: Option<Number>,
    },
    /// A boolean.
    Boolean {
        /// The default value.
        default: Option<bool>,
    },
    /// A single choice.
    Choice {
        /// The options.
        options: ChoiceOptions,
        /// The default value (from 2025-11-25).
        default: Option<String>,
    },
    /// A multiple choice (from 2025-11-25).
    MultipleChoice {
        /// The options.
        options: ChoiceOptions,
        /// The minimum number of choices.
        min_items: Option<u64>,
        /// The maximum number of choices.
        max_items: Option<u64>,
        /// The default value.
        default: Option<Vec<String>>,
    },
}

/// The options of a choice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChoiceOptions {
    /// Values without titles: `enum`.
    Plain(Vec<String>),
    /// Values with titles: `oneOf` or `anyOf` (from 2025-11-25).
    Titled(Vec<TitledOption>),
    /// Values with a separate list of titles: `enum` and `enumNames`, the only way of 2025-06-18. Single choice only.
    EnumNames {
        /// The values.
        values: Vec<String>,
        /// The titles, in the same order.
        names: Vec<String>,
    },
}

/// A value and its title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitledOption {
    /// The value to send.
    #[serde(rename = "const")]
    pub value: String,
    /// The title to show.
    pub title: String,
}

string_enum! {
    /// The formats of a text field.
    pub enum TextFormat {
        /// An e-mail address.
        Email = "email",
        /// A URI.
        Uri = "uri",
        /// A date.
        Date = "date",
        /// A date and a time.
        DateTime = "date-time",
    }
}

impl Field {
    fn new(kind: FieldKind) -> Self {
        Self { kind, title: None, description: None, other: Object::new() }
    }

    /// A text field.
    pub fn text() -> Self {
        Self::new(FieldKind::Text { min_length: None, max_length: None, format: None, default: None })
    }

    /// A number field.
    pub fn number() -> Self {
        Self::new(FieldKind::Number { integer: false, minimum: None, maximum: None, default: None })
    }

    /// An integer field.
    pub fn integer() -> Self {
        Self::new(FieldKind::Number { integer: true, minimum: None, maximum: None, default: None })
    }

    /// A boolean field.
    pub fn boolean() -> Self {
        Self::new(FieldKind::Boolean { default: None })
    }

    /// A single choice.
    pub fn choice(options: ChoiceOptions) -> Self {
        Self::new(FieldKind::Choice { options, default: None })
    }

    /// A multiple choice.
    pub fn multiple_choice(options: ChoiceOptions) -> Self {
        Self::new(FieldKind::MultipleChoice { options, min_items: None, max_items: None, default: None })
    }

    /// Sets `title`.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets `description`.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

impl From<FieldKind> for Field {
    fn from(kind: FieldKind) -> Self {
        Field::new(kind)
    }
}

impl Serialize for FormSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct FieldSer<'a> {
            #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
            dialect: Option<&'a str>,
            r#type: &'a str,
            properties: &'a OrderedMap<Field>,
            #[serde(skip_serializing_if = "Option::is_none")]
            required: Option<&'a [String]>,
            #[serde(flatten)]
            other: &'a Object,
        }
        let Self { properties, required, dialect, other } = self;
        let (dialect, required) = (dialect.as_deref(), required.as_deref());
        FieldSer { dialect, r#type: "object", properties, required, other }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FormSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct FieldDe {
            #[serde(rename = "$schema")]
            dialect: Option<String>,
            r#type: String,
            properties: OrderedMap<Field>,
            required: Option<Vec<String>>,
            #[serde(flatten)]
            other: Object,
        }
        let FieldDe { dialect, r#type, properties, required, other } = FieldDe::deserialize(deserializer)?;
        if r#type != "object" {
            return Err(D::Error::custom("a form must have `\"type\": \"object\"`"));
        }
        Ok(Self { properties, required, dialect, other })
    }
}

/// The keywords of a field, added or taken one by one; the rest is unknown.
struct Keywords(Object);

impl Keywords {
    fn insert<T: Serialize>(&mut self, word: &str, value: Option<T>) {
        // Strings, numbers, booleans and lists of them always serialize.
        if let Some(Ok(value)) = value.map(|value| serde_json::to_value(value)) {
            self.0.insert(word.to_owned(), value);
        }
    }

    fn take<T: DeserializeOwned, E: serde::de::Error>(&mut self, word: &str) -> Result<Option<T>, E> {
        match self.0.shift_remove(word) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|_| E::custom(format_args!("`{word}` does not fit the field"))),
        }
    }

    fn take_count<E: serde::de::Error>(&mut self, word: &str) -> Result<Option<u64>, E> {
        #[derive(Deserialize)]
        struct Count(#[serde(with = "super::number::count")] u64);
        Ok(self.take::<Count, E>(word)?.map(|Count(count)| count))
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut words = Keywords(Object::new());
        words.insert("type", Some(self.kind.type_name()));
        words.insert("title", self.title.as_ref());
        words.insert("description", self.description.as_ref());
        match &self.kind {
            FieldKind::Text { min_length, max_length, format, default } => {
                words.insert("minLength", *min_length);
                words.insert("maxLength", *max_length);
                words.insert("format", *format);
                words.insert("default", default.as_ref());
            }
            FieldKind::Number { minimum, maximum, default, .. } => {
                words.insert("minimum", minimum.as_ref());
                words.insert("maximum", maximum.as_ref());
                words.insert("default", default.as_ref());
            }
            FieldKind::Boolean { default } => words.insert("default", *default),
            FieldKind::Choice { options, default } => {
                match options {
                    ChoiceOptions::Plain(values) => words.insert("enum", Some(values)),
                    ChoiceOptions::Titled(titled) => words.insert("oneOf", Some(titled)),
                    ChoiceOptions::EnumNames { values, names } => {
                        words.insert("enum", Some(values));
                        words.insert("enumNames", Some(names));
                    }
                }
                words.insert("default", default.as_ref());
            }
            FieldKind::MultipleChoice { options, min_items, max_items, default } => {
                words.insert("minItems", *min_items);
                words.insert("maxItems", *max_items);
                words.insert(
                    "items",
                    Some(match options {
                        // A separate list of titles exists for a single choice only.
                        ChoiceOptions::Plain(values) | ChoiceOptions::EnumNames { values, .. } => {
                            json!({"type": "string", "enum": values})
                        }
                        ChoiceOptions::Titled(titled) => json!({"anyOf": titled}),
                    }),
                );
                words.insert("default", default.as_ref());
            }
        }
        words.0.extend(self.other.clone());
        words.0.serialize(serializer)
    }
}

impl FieldKind {
    fn type_name(&self) -> &'static str {
        match self {
            FieldKind::Text { .. } | FieldKind::Choice { .. } => "string",
            FieldKind::Number { integer: true, .. } => "integer",
            FieldKind::Number { integer: false, .. } => "number",
            FieldKind::Boolean { .. } => "boolean",
            FieldKind::MultipleChoice { .. } => "array",
        }
    }

    fn read<E: serde::de::Error>(words: &mut Keywords) -> Result<Self, E> {
        let kind: Option<String> = words.take("type")?;
        Ok(match kind.as_deref() {
            Some("string") => {
                let (values, titled) = (words.take("enum")?, words.take("oneOf")?);
                let options = match (values, titled) {
                    (Some(values), _) => match words.take("enumNames")? {
                        Some(names) => ChoiceOptions::EnumNames { values, names },
                        None => ChoiceOptions::Plain(values),
                    },
                    (None, Some(titled)) => ChoiceOptions::Titled(titled),
                    (None, None) => {
                        return Ok(FieldKind::Text {
                            min_length: words.take_count("minLength")?,
                            max_length: words.take_count("maxLength")?,
                            format: words.take("format")?,
                            default: words.take("default")?,
                        });
                    }
                };
                FieldKind::Choice { options, default: words.take("default")? }
            }
            Some(kind @ ("number" | "integer")) => FieldKind::Number {
                integer: kind == "integer",
                minimum: words.take("minimum")?,
                maximum: words.take("maximum")?,
                default: words.take("default")?,
            },
            Some("boolean") => FieldKind::Boolean { default: words.take("default")? },
            Some("array") => {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Items {
                    r#enum: Option<Vec<String>>,
                    any_of: Option<Vec<TitledOption>>,
                }
                let options = match words.take::<Items, E>("items")? {
                    Some(Items { r#enum: Some(values), .. }) => ChoiceOptions::Plain(values),
                    Some(Items { any_of: Some(titled), .. }) => ChoiceOptions::Titled(titled),
                    _ => return Err(E::custom("`items` needs either `enum` or `anyOf`")),
                };
                FieldKind::MultipleChoice {
                    options,
                    min_items: words.take_count("minItems")?,
                    max_items: words.take_count("maxItems")?,
                    default: words.take("default")?,
                }
            }
            _ => return Err(E::custom("a field of a form is a string, number, boolean or choice")),
        })
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut words = Keywords(Object::deserialize(deserializer)?);
        let kind = FieldKind::read(&mut words)?;
        let (title, description) = (words.take("title")?, words.take("description")?);
        Ok(Self { kind, title, description, other: words.0 })
    }
}
