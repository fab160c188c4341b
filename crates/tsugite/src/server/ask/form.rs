//! Forms as Rust types: the fields of a struct, the choices of an enum.

use serde_json::Number;
use tsugite_core::protocol::OrderedMap;
use tsugite_core::protocol::elicitation::FieldValue;
use tsugite_core::protocol::form::{ChoiceOptions, Field, FieldKind, FormSchema};

/// A form defined by a type; `#[derive(Form)]` implements it for a struct.
///
/// ```
/// use tsugite::protocol::{FormSchema, OrderedMap};
/// use tsugite::server::{FieldValue, Form, FormField};
///
/// struct Confirm {
///     sure: bool,
/// }
///
/// impl Form for Confirm {
///     fn schema() -> FormSchema {
///         FormSchema::new().required_field("sure", bool::field().description("Delete anyway?"))
///     }
///
///     fn read(content: &OrderedMap<FieldValue>) -> Result<Self, String> {
///         Ok(Self { sure: bool::read("sure", content.get("sure"))? })
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no form",
    note = "derive `Form` for it: a struct whose fields are text, numbers, `bool`, or enums that derive `Form`"
)]
#[doc(alias("ElicitationSchema", "requestedSchema"))]
pub trait Form: Sized + Send + 'static {
    /// The schema of the form.
    fn schema() -> FormSchema;

    /// Reads the submitted values. The error names the field.
    fn read(content: &OrderedMap<FieldValue>) -> Result<Self, String>;
}

/// A type usable as a form field. `#[derive(Form)]` implements it for an enum without data: its variants are the choices.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a form",
    note = "use text, numbers, `bool`, an enum that derives `Form`, an `Option` of these, or a `Vec` of such an enum"
)]
pub trait FormField: Sized {
    /// Whether the field is required.
    const REQUIRED: bool = true;

    /// The schema of the field.
    fn field() -> Field;

    /// Reads the submitted value; `name` is used in the error.
    fn read(name: &str, value: Option<&FieldValue>) -> Result<Self, String>;
}

/// An enum whose variants are the choices of a field.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used as a choice",
    note = "derive `Form` for an enum without data"
)]
pub trait FormChoice: Sized {
    /// The choices.
    fn options() -> ChoiceOptions;

    /// Returns the variant of a value.
    fn from_value(value: &str) -> Option<Self>;
}

fn invalid_field<T>(name: &str, expected: &str, value: Option<&FieldValue>) -> Result<T, String> {
    match value {
        None => Err(format!("`{name}` is missing")),
        Some(_) => Err(format!("`{name}`: expected {expected}")),
    }
}

impl FormField for String {
    fn field() -> Field {
        Field::text()
    }

    fn read(name: &str, value: Option<&FieldValue>) -> Result<Self, String> {
        match value {
            Some(FieldValue::Text(text)) => Ok(text.clone()),
            other => invalid_field(name, "text", other),
        }
    }
}

impl FormField for bool {
    fn field() -> Field {
        Field::boolean()
    }

    fn read(name: &str, value: Option<&FieldValue>) -> Result<Self, String> {
        match value {
            Some(FieldValue::Boolean(flag)) => Ok(*flag),
            other => invalid_field(name, "yes or no", other),
        }
    }
}

macro_rules! numbers {
    ($($name:ty = $field:ident, $what:literal, $read:expr;)*) => {$(
        impl FormField for $name {
            fn field() -> Field {
                Field::$field()
            }

            fn read(name: &str, value: Option<&FieldValue>) -> Result<Self, String> {
                let read: fn(&Number) -> Option<$name> = $read;
                match value {
                    Some(FieldValue::Number(number)) => match read(number) {
                        Some(number) => Ok(number),
                        None => invalid_field(name, $what, value),
                    },
                    other => invalid_field(name, $what, other),
                }
            }
        }
    )*};
}

/// `42.0` counts as a whole number.
fn as_whole(number: &Number) -> Option<i64> {
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9.0e15);
    number.as_i64().or_else(|| float().map(|float| float as i64))
}

numbers! {
    i8 = integer, "a whole number", |number| as_whole(number)?.try_into().ok();
    i16 = integer, "a whole number", |number| as_whole(number)?.try_into().ok();
    i32 = integer, "a whole number", |number| as_whole(number)?.try_into().ok();
    i64 = integer, "a whole number", |number| as_whole(number);
    u8 = integer, "a whole number, not negative", |number| as_whole(number)?.try_into().ok();
    u16 = integer, "a whole number, not negative", |number| as_whole(number)?.try_into().ok();
    u32 = integer, "a whole number, not negative", |number| as_whole(number)?.try_into().ok();
    u64 = integer, "a whole number, not negative", |number| number.as_u64().or_else(|| as_whole(number)?.try_into().ok());
    f32 = number, "a number", |number| number.as_f64().map(|float| float as f32);
    f64 = number, "a number", Number::as_f64;
}

impl<T: FormField> FormField for Option<T> {
    const REQUIRED: bool = false;

    fn field() -> Field {
        T::field()
    }

    fn read(name: &str, value: Option<&FieldValue>) -> Result<Self, String> {
        match value {
            None => Ok(None),
            value => T::read(name, value).map(Some),
        }
    }
}

impl<T: FormChoice> FormField for Vec<T> {
    fn field() -> Field {
        Field::multiple_choice(T::options())
    }

    fn read(name: &str, value: Option<&FieldValue>) -> Result<Self, String> {
        let Some(FieldValue::List(chosen)) = value else {
            return invalid_field(name, "several choices", value);
        };
        let one =
            |value: &String| T::from_value(value).ok_or_else(|| format!("`{name}`: not one of the choices"));
        chosen.iter().map(one).collect()
    }
}

/// The schema of a single choice, for `#[derive(Form)]` on an enum.
pub fn choice<T: FormChoice>() -> Field {
    Field::from(FieldKind::Choice { options: T::options(), default: None })
}

/// Reads a single choice, for `#[derive(Form)]` on an enum.
pub fn read_choice<T: FormChoice>(name: &str, value: Option<&FieldValue>) -> Result<T, String> {
    match value {
        Some(FieldValue::Text(text)) => {
            T::from_value(text).ok_or_else(|| format!("`{name}`: not one of the choices"))
        }
        other => invalid_field(name, "one of the choices", other),
    }
}
