//! Settings of `#[form(…)]`. A setting that does not fit the type of its field is a compile error.

use serde_json::Number;
use tsugite_core::protocol::elicitation::FieldValue;
use tsugite_core::protocol::form::{Field, FieldKind, TextFormat};

use super::form::{FormChoice, FormField};
use crate::shared::log;

/// A default value for a field of type `Of`.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Of}` cannot have the default `{Self}`",
    label = "no default of `{Of}`"
)]
pub trait FieldDefault<Of> {
    /// Converts into a field value.
    fn into_field_value(self) -> FieldValue;
}

/// A bound for a number field of type `Of`.
#[diagnostic::on_unimplemented(
    message = "a field of type `{Of}` has no such limit",
    label = "`min` and `max` are for numbers of the same type"
)]
pub trait Limit<Of> {
    /// Converts into a JSON number, if it is finite.
    fn limit(self) -> Option<Number>;
}

/// A text field.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no text",
    label = "`min_length`, `max_length` and `format` are for text"
)]
pub trait TextField: FormField {}

/// A multiple-choice field.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of choices",
    label = "`min_items` and `max_items` are for a `Vec` of choices"
)]
pub trait ChoicesField: FormField {}

/// A variant that knows its value, for `#[derive(Form)]` on an enum.
pub trait ChoiceValue: FormChoice {
    /// The value of the variant.
    fn value(&self) -> &'static str;
}

#[diagnostic::do_not_recommend]
impl FieldDefault<String> for String {
    fn into_field_value(self) -> FieldValue {
        FieldValue::Text(self)
    }
}

#[diagnostic::do_not_recommend]
impl FieldDefault<String> for &str {
    fn into_field_value(self) -> FieldValue {
        FieldValue::Text(self.to_owned())
    }
}

#[diagnostic::do_not_recommend]
impl FieldDefault<bool> for bool {
    fn into_field_value(self) -> FieldValue {
        FieldValue::Boolean(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChoiceValue> FieldDefault<T> for T {
    fn into_field_value(self) -> FieldValue {
        FieldValue::Text(self.value().to_owned())
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChoiceValue> FieldDefault<Vec<T>> for Vec<T> {
    fn into_field_value(self) -> FieldValue {
        FieldValue::List(self.iter().map(|chosen| chosen.value().to_owned()).collect())
    }
}

#[diagnostic::do_not_recommend]
impl<T: ChoiceValue, const N: usize> FieldDefault<Vec<T>> for [T; N] {
    fn into_field_value(self) -> FieldValue {
        FieldDefault::<Vec<T>>::into_field_value(Vec::from(self))
    }
}

#[diagnostic::do_not_recommend]
impl<T, V: FieldDefault<T>> FieldDefault<Option<T>> for V {
    fn into_field_value(self) -> FieldValue {
        FieldDefault::<T>::into_field_value(self)
    }
}

macro_rules! numbers {
    ($($name:ty, $number:expr;)*) => {$(
        #[diagnostic::do_not_recommend]
        impl FieldDefault<$name> for $name {
            fn into_field_value(self) -> FieldValue {
                // A non-finite number is rejected when the form is built.
                Limit::<$name>::limit(self).map_or_else(|| FieldValue::Text(self.to_string()), FieldValue::Number)
            }
        }

        #[diagnostic::do_not_recommend]
        impl Limit<$name> for $name {
            fn limit(self) -> Option<Number> {
                let number: fn($name) -> Option<Number> = $number;
                number(self)
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

#[diagnostic::do_not_recommend]
impl<T, V: Limit<T>> Limit<Option<T>> for V {
    fn limit(self) -> Option<Number> {
        Limit::<T>::limit(self)
    }
}

#[diagnostic::do_not_recommend]
impl TextField for String {}

#[diagnostic::do_not_recommend]
impl<T: TextField> TextField for Option<T> {}

#[diagnostic::do_not_recommend]
impl<T: FormChoice> ChoicesField for Vec<T> {}

#[diagnostic::do_not_recommend]
impl<T: ChoicesField> ChoicesField for Option<T> {}

/// Returns the default value of a field of type `T`.
pub fn default_value<T: FormField, V: FieldDefault<T>>(value: V) -> FieldValue {
    FieldDefault::<T>::into_field_value(value)
}

/// `default = …`
pub fn default(mut field: Field, value: FieldValue) -> Field {
    match (&mut field.kind, value) {
        (FieldKind::Text { default, .. } | FieldKind::Choice { default, .. }, FieldValue::Text(text)) => {
            *default = Some(text);
        }
        (FieldKind::Number { default, .. }, FieldValue::Number(number)) => *default = Some(number),
        (FieldKind::Boolean { default }, FieldValue::Boolean(flag)) => *default = Some(flag),
        (FieldKind::MultipleChoice { default, .. }, FieldValue::List(chosen)) => *default = Some(chosen),
        (_, value) => log_non_finite("default", &value),
    }
    field
}

/// `min = …`
pub fn min<T: FormField, V: Limit<T>>(mut field: Field, value: V) -> Field {
    match (&mut field.kind, Limit::<T>::limit(value)) {
        (FieldKind::Number { minimum, .. }, Some(value)) => *minimum = Some(value),
        (_, value) => log_non_finite("min", &value),
    }
    field
}

/// `max = …`
pub fn max<T: FormField, V: Limit<T>>(mut field: Field, value: V) -> Field {
    match (&mut field.kind, Limit::<T>::limit(value)) {
        (FieldKind::Number { maximum, .. }, Some(value)) => *maximum = Some(value),
        (_, value) => log_non_finite("max", &value),
    }
    field
}

/// `min_length = …`
pub fn min_length<T: TextField>(mut field: Field, value: u64) -> Field {
    if let FieldKind::Text { min_length, .. } = &mut field.kind {
        *min_length = Some(value);
    }
    field
}

/// `max_length = …`
pub fn max_length<T: TextField>(mut field: Field, value: u64) -> Field {
    if let FieldKind::Text { max_length, .. } = &mut field.kind {
        *max_length = Some(value);
    }
    field
}

/// `format = "…"`
pub fn format<T: TextField>(mut field: Field, of: TextFormat) -> Field {
    if let FieldKind::Text { format, .. } = &mut field.kind {
        *format = Some(of);
    }
    field
}

/// `min_items = …`
pub fn min_items<T: ChoicesField>(mut field: Field, value: u64) -> Field {
    if let FieldKind::MultipleChoice { min_items, .. } = &mut field.kind {
        *min_items = Some(value);
    }
    field
}

/// `max_items = …`
pub fn max_items<T: ChoicesField>(mut field: Field, value: u64) -> Field {
    if let FieldKind::MultipleChoice { max_items, .. } = &mut field.kind {
        *max_items = Some(value);
    }
    field
}

/// Only an infinity or NaN reaches this point: all other types were checked at compile time.
fn log_non_finite(setting: &str, value: &dyn std::fmt::Debug) {
    log::error!("`{setting}` of a form is not a finite number: {value:?}");
}
