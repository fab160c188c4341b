//! Forms as types: the fields of a struct, the choices of an enum.

use serde_json::Number;
use tsugite_core::protocol::OrderedMap;
use tsugite_core::protocol::elicitation::FieldValue;
use tsugite_core::protocol::form::{ChoiceOptions, Field, FieldKind, FormSchema};

/// A form as a type; `#[derive(Form)]` makes one of a struct.
///
/// ```
/// use tsugite::protocol::OrderedMap;
/// use tsugite::protocol::form::FormSchema;
/// use tsugite::server::{FieldValue, Form, FormField};
///
/// struct Confirm {
///     sure: bool,
/// }
///
/// impl Form for Confirm {
///     fn schema() -> FormSchema {
///         FormSchema::new().required_field("sure", bool::field_path().description("DeleteDecision anyway?"))
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
pub trait Form: Sized + Send + 'static {
    /// What is asked.
    fn schema() -> FormSchema;

    /// Reads what was filled in. Fails in words that name the field.
    fn read(content: &OrderedMap<FieldValue>) -> Result<Self, String>;
}

/// What can stand in a field of a form. `#[derive(Form)]` makes one of an enum without data: its variants are the
/// choices.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a form",
    note = "use text, numbers, `bool`, an enum that derives `Form`, an `Option` of these, or a `Vec` of such an enum"
)]
pub trait FormField: Sized {
    /// Whether it must be filled in.
    const REQUIRED: bool = true;

    /// How it is asked for.
    fn field() -> Field;

    /// Reads what was filled in; `name` is for the error.
    fn read(name: &str, value: Option<&FieldValue>) -> Result<Self, String>;
}

/// An enum whose variants can be chosen.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing to choose from",
    note = "derive `Form` for an enum without data"
)]
pub trait FormChoice: Sized {
    /// What there is to choose from.
    fn options() -> ChoiceOptions;

    /// The variant of a value.
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

/// `42.0` is a whole number.
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

/// One of several, for `#[derive(Form)]` on an enum.
pub fn choice<T: FormChoice>() -> Field {
    Field::from(FieldKind::Choice { options: T::options(), default: None })
}

/// Reads one of several, for `#[derive(Form)]` on an enum.
pub fn read_choice<T: FormChoice>(name: &str, value: Option<&FieldValue>) -> Result<T, String> {
    match value {
        Some(FieldValue::Text(text)) => {
            T::from_value(text).ok_or_else(|| format!("`{name}`: not one of the choices"))
        }
        other => invalid_field(name, "one of the choices", other),
    }
}
