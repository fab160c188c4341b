//! What `#[form(…)]` may say of a field. A setting that does not fit the type of its field does not compile.

use serde_json::Number;
use tsugite_core::protocol::elicitation::FieldValue;
use tsugite_core::protocol::form::{Field, FieldKind, TextFormat};

use super::form::FormField;

/// A field in which something can stand first.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Self}` takes no default",
    note = "text, numbers, `bool`, enums that derive `Form` and `Vec`s of those do"
)]
pub trait Preset: FormField {
    /// What can; for an `Option` that of its inside.
    type Value;

    /// As it is filled in.
    fn preset(value: Self::Value) -> FieldValue;
}

/// A field for words.
#[diagnostic::on_unimplemented(message = "`{Self}` is no text", label = "only for text")]
pub trait TextField: FormField {}

/// A field for a number.
#[diagnostic::on_unimplemented(message = "`{Self}` is no number", label = "only for numbers")]
pub trait NumberField: FormField {
    /// What it can be compared with.
    type Limit;

    /// As a number, if it is one.
    fn limit(value: Self::Limit) -> Option<Number>;
}

/// A field for several choices.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of choices",
    label = "only for a `Vec` of choices"
)]
pub trait ChoicesField: FormField {}

/// A variant that knows its value, for `#[derive(Form)]` on an enum.
pub trait Chosen: FormField {
    /// What stands for it.
    fn value(&self) -> &'static str;
}

impl Preset for String {
    type Value = String;

    fn preset(value: String) -> FieldValue {
        FieldValue::Text(value)
    }
}

impl Preset for bool {
    type Value = bool;

    fn preset(value: bool) -> FieldValue {
        FieldValue::Flag(value)
    }
}

impl<T: Preset> Preset for Option<T> {
    type Value = T::Value;

    fn preset(value: T::Value) -> FieldValue {
        T::preset(value)
    }
}

impl<T: Chosen> Preset for T {
    type Value = T;

    fn preset(value: T) -> FieldValue {
        FieldValue::Text(value.value().to_owned())
    }
}

impl<T: Chosen> Preset for Vec<T>
where
    Vec<T>: FormField,
{
    type Value = Vec<T>;

    fn preset(value: Vec<T>) -> FieldValue {
        FieldValue::Many(value.iter().map(|chosen| chosen.value().to_owned()).collect())
    }
}

macro_rules! numbers {
    ($($name:ty, $number:expr;)*) => {$(
        impl Preset for $name {
            type Value = $name;

            fn preset(value: $name) -> FieldValue {
                // What is no number is refused when it is read.
                <$name>::limit(value).map_or_else(|| FieldValue::Text(value.to_string()), FieldValue::Number)
            }
        }

        impl NumberField for $name {
            type Limit = $name;

            fn limit(value: $name) -> Option<Number> {
                let number: fn($name) -> Option<Number> = $number;
                number(value)
            }
        }
    )*};
}

numbers! {
    i8, |value| Some(value.into());
    i16, |value| Some(value.into());
    i32, |value| Some(value.into());
    i64, |value| Some(value.into());
    u8, |value| Some(value.into());
    u16, |value| Some(value.into());
    u32, |value| Some(value.into());
    u64, |value| Some(value.into());
    f32, |value| Number::from_f64(value.into());
    f64, Number::from_f64;
}

impl<T: NumberField> NumberField for Option<T> {
    type Limit = T::Limit;

    fn limit(value: T::Limit) -> Option<Number> {
        T::limit(value)
    }
}

impl TextField for String {}
impl<T: TextField> TextField for Option<T> {}
impl<T> ChoicesField for Vec<T> where Vec<T>: FormField {}
impl<T: ChoicesField> ChoicesField for Option<T> {}

/// `default = …`
pub fn default<T: Preset>(mut field: Field, value: T::Value) -> Field {
    match (&mut field.kind, T::preset(value)) {
        (FieldKind::Text { default, .. } | FieldKind::Choice { default, .. }, FieldValue::Text(text)) => {
            *default = Some(text);
        }
        (FieldKind::Number { default, .. }, FieldValue::Number(number)) => *default = Some(number),
        (FieldKind::Flag { default }, FieldValue::Flag(flag)) => *default = Some(flag),
        (FieldKind::Choices { default, .. }, FieldValue::Many(chosen)) => *default = Some(chosen),
        (_, value) => ignored("default", &value),
    }
    field
}

/// `min = …`
pub fn min<T: NumberField>(mut field: Field, least: T::Limit) -> Field {
    match (&mut field.kind, T::limit(least)) {
        (FieldKind::Number { minimum, .. }, Some(least)) => *minimum = Some(least),
        (_, least) => ignored("min", &least),
    }
    field
}

/// `max = …`
pub fn max<T: NumberField>(mut field: Field, most: T::Limit) -> Field {
    match (&mut field.kind, T::limit(most)) {
        (FieldKind::Number { maximum, .. }, Some(most)) => *maximum = Some(most),
        (_, most) => ignored("max", &most),
    }
    field
}

/// `min_length = …`
pub fn min_length<T: TextField>(mut field: Field, fewest: u64) -> Field {
    if let FieldKind::Text { min_length, .. } = &mut field.kind {
        *min_length = Some(fewest);
    }
    field
}

/// `max_length = …`
pub fn max_length<T: TextField>(mut field: Field, most: u64) -> Field {
    if let FieldKind::Text { max_length, .. } = &mut field.kind {
        *max_length = Some(most);
    }
    field
}

/// `format = "…"`
pub fn format<T: TextField>(mut field: Field, form: TextFormat) -> Field {
    if let FieldKind::Text { format, .. } = &mut field.kind {
        *format = Some(form);
    }
    field
}

/// `min_items = …`
pub fn min_items<T: ChoicesField>(mut field: Field, fewest: u64) -> Field {
    if let FieldKind::Choices { min_items, .. } = &mut field.kind {
        *min_items = Some(fewest);
    }
    field
}

/// `max_items = …`
pub fn max_items<T: ChoicesField>(mut field: Field, most: u64) -> Field {
    if let FieldKind::Choices { max_items, .. } = &mut field.kind {
        *max_items = Some(most);
    }
    field
}

/// Only a number that is none comes here: the types of everything else were checked when it was compiled.
fn ignored(setting: &str, value: &dyn std::fmt::Debug) {
    tracing::error!("`{setting}` of a form is not a number: {value:?}");
}
