//! Forms: the small part of JSON Schema that elicitation uses, with every way to write a choice.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use super::wire::words;
use super::{Object, Ordered};

/// A form: fields by name, in the order they are shown.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct FormSchema {
    /// The fields.
    pub properties: Ordered<Field>,
    /// Which must be filled in.
    pub required: Option<Vec<String>>,
    /// The dialect, if it is named (from 2025-11-25).
    pub dialect: Option<String>,
    /// Keywords we do not know.
    pub other: Object,
}

impl FormSchema {
    /// A form without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field that may be left empty.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        self.properties.insert(name, field.into());
        self
    }

    /// Adds a field that must be filled in.
    #[must_use]
    pub fn required_field(mut self, name: impl Into<String>, field: impl Into<Field>) -> Self {
        let name = name.into();
        self.required.get_or_insert_default().push(name.clone());
        self.field(name, field)
    }
}

/// One field of a form: what kind it is, and how it is shown.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// What can be filled in.
    pub kind: FieldKind,
    /// For people; the name of the field stands in for it.
    pub title: Option<String>,
    /// What it means.
    pub description: Option<String>,
    /// Keywords we do not know.
    pub other: Object,
}

/// What can be filled into a field.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Words.
    Text {
        /// Fewest characters.
        min_length: Option<u64>,
        /// Most characters.
        max_length: Option<u64>,
        /// What the words must be.
        format: Option<TextFormat>,
        /// What stands there first (from 2025-11-25).
        default: Option<String>,
    },
    /// A number.
    Number {
        /// Whether it must be whole.
        integer: bool,
        /// The least.
        minimum: Option<Number>,
        /// The most.
        maximum: Option<Number>,
        /// What stands there first (from 2025-11-25).
        default: Option<Number>,
    },
    /// Yes or no.
    Flag {
        /// What stands there first.
        default: Option<bool>,
    },
    /// One of several.
    Choice {
        /// Of which.
        options: Options,
        /// What is chosen first (from 2025-11-25).
        default: Option<String>,
    },
    /// Any of several (from 2025-11-25).
    Choices {
        /// Of which.
        options: Options,
        /// Fewest.
        min_items: Option<u64>,
        /// Most.
        max_items: Option<u64>,
        /// What is chosen first.
        default: Option<Vec<String>>,
    },
}

/// What there is to choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Options {
    /// Values that speak for themselves: `enum`.
    Plain(Vec<String>),
    /// Values with a title each: `oneOf` or `anyOf` (from 2025-11-25).
    Titled(Vec<TitledOption>),
    /// Values with titles in a list beside them: `enum` and `enumNames`, the only way of 2025-06-18. Single choice only.
    Named {
        /// The values.
        values: Vec<String>,
        /// Their titles, in the same order.
        names: Vec<String>,
    },
}

/// A value and its title.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitledOption {
    /// What is sent.
    #[serde(rename = "const")]
    pub value: String,
    /// What is shown.
    pub title: String,
}

words! {
    /// What the words in a field must be.
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

    /// Words.
    pub fn text() -> Self {
        Self::new(FieldKind::Text { min_length: None, max_length: None, format: None, default: None })
    }

    /// A number.
    pub fn number() -> Self {
        Self::new(FieldKind::Number { integer: false, minimum: None, maximum: None, default: None })
    }

    /// A whole number.
    pub fn integer() -> Self {
        Self::new(FieldKind::Number { integer: true, minimum: None, maximum: None, default: None })
    }

    /// Yes or no.
    pub fn flag() -> Self {
        Self::new(FieldKind::Flag { default: None })
    }

    /// One of several.
    pub fn choice(options: Options) -> Self {
        Self::new(FieldKind::Choice { options, default: None })
    }

    /// Any of several.
    pub fn choices(options: Options) -> Self {
        Self::new(FieldKind::Choices { options, min_items: None, max_items: None, default: None })
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
        struct Written<'a> {
            #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
            dialect: Option<&'a str>,
            r#type: &'a str,
            properties: &'a Ordered<Field>,
            #[serde(skip_serializing_if = "Option::is_none")]
            required: Option<&'a [String]>,
            #[serde(flatten)]
            other: &'a Object,
        }
        let Self { properties, required, dialect, other } = self;
        let (dialect, required) = (dialect.as_deref(), required.as_deref());
        Written { dialect, r#type: "object", properties, required, other }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for FormSchema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Read {
            #[serde(rename = "$schema")]
            dialect: Option<String>,
            r#type: String,
            properties: Ordered<Field>,
            required: Option<Vec<String>>,
            #[serde(flatten)]
            other: Object,
        }
        let Read { dialect, r#type, properties, required, other } = Read::deserialize(deserializer)?;
        if r#type != "object" {
            return Err(D::Error::custom("a form has `\"type\": \"object\"`"));
        }
        Ok(Self { properties, required, dialect, other })
    }
}

/// Every keyword any field has.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FieldWire {
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::number::maybe_count")]
    min_length: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::number::maybe_count")]
    max_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<TextFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minimum: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    maximum: Option<Number>,
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    values: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enum_names: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    one_of: Option<Vec<TitledOption>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<ItemsWire>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::number::maybe_count")]
    min_items: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::number::maybe_count")]
    max_items: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Value>,
    #[serde(flatten)]
    other: Object,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ItemsWire {
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(rename = "enum", skip_serializing_if = "Option::is_none")]
    values: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    any_of: Option<Vec<TitledOption>>,
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { kind, title, description, other } = self.clone();
        let mut wire = FieldWire { title, description, other, ..FieldWire::default() };
        match kind {
            FieldKind::Text { min_length, max_length, format, default } => {
                wire.r#type = "string".to_owned();
                (wire.min_length, wire.max_length, wire.format) = (min_length, max_length, format);
                wire.default = default.map(Value::from);
            }
            FieldKind::Number { integer, minimum, maximum, default } => {
                wire.r#type = if integer { "integer" } else { "number" }.to_owned();
                (wire.minimum, wire.maximum) = (minimum, maximum);
                wire.default = default.map(Value::Number);
            }
            FieldKind::Flag { default } => {
                wire.r#type = "boolean".to_owned();
                wire.default = default.map(Value::from);
            }
            FieldKind::Choice { options, default } => {
                wire.r#type = "string".to_owned();
                match options {
                    Options::Plain(values) => wire.values = Some(values),
                    Options::Titled(titled) => wire.one_of = Some(titled),
                    Options::Named { values, names } => {
                        (wire.values, wire.enum_names) = (Some(values), Some(names));
                    }
                }
                wire.default = default.map(Value::from);
            }
            FieldKind::Choices { options, min_items, max_items, default } => {
                wire.r#type = "array".to_owned();
                wire.items = Some(match options {
                    // Titles in a list beside them exist for a single choice only.
                    Options::Plain(values) | Options::Named { values, .. } => {
                        ItemsWire { r#type: Some("string".to_owned()), values: Some(values), any_of: None }
                    }
                    Options::Titled(titled) => ItemsWire { r#type: None, values: None, any_of: Some(titled) },
                });
                (wire.min_items, wire.max_items) = (min_items, max_items);
                wire.default = default.map(Value::from);
            }
        }
        wire.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = FieldWire::deserialize(deserializer)?;
        let default = wire.default;
        let kind = match (wire.r#type.as_str(), wire.values, wire.one_of) {
            ("string", None, None) => FieldKind::Text {
                min_length: wire.min_length,
                max_length: wire.max_length,
                format: wire.format,
                default: default_of(default)?,
            },
            ("string", Some(values), None) => {
                let options = match wire.enum_names {
                    Some(names) => Options::Named { values, names },
                    None => Options::Plain(values),
                };
                FieldKind::Choice { options, default: default_of(default)? }
            }
            ("string", None, Some(titled)) => {
                FieldKind::Choice { options: Options::Titled(titled), default: default_of(default)? }
            }
            ("number" | "integer", None, None) => FieldKind::Number {
                integer: wire.r#type == "integer",
                minimum: wire.minimum,
                maximum: wire.maximum,
                default: default_of(default)?,
            },
            ("boolean", None, None) => FieldKind::Flag { default: default_of(default)? },
            ("array", None, None) => {
                let options = match wire.items.map(|items| (items.values, items.any_of)) {
                    Some((Some(values), None)) => Options::Plain(values),
                    Some((None, Some(titled))) => Options::Titled(titled),
                    _ => return Err(D::Error::custom("`items` needs either `enum` or `anyOf`")),
                };
                FieldKind::Choices {
                    options,
                    min_items: wire.min_items,
                    max_items: wire.max_items,
                    default: default_of(default)?,
                }
            }
            _ => return Err(D::Error::custom("a field of a form is a string, number, boolean or choice")),
        };
        Ok(Self { kind, title: wire.title, description: wire.description, other: wire.other })
    }
}

fn default_of<T: serde::de::DeserializeOwned, E: serde::de::Error>(
    default: Option<Value>,
) -> Result<Option<T>, E> {
    default
        .map(|value| serde_json::from_value(value).map_err(|_| E::custom("`default` does not fit the field")))
        .transpose()
}
