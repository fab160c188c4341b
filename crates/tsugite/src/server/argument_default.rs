//! The default of an argument as JSON, for the schema.
//!
//! `(&&&DefaultOf::<T>(|| …)).json()` lets the compiler choose: a type that serializes, else an argument, whose schema may
//! list its values, else nothing.

use std::mem::discriminant;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::schema::schema_of;

/// The default of an argument of type `T`.
#[derive(Debug)]
pub struct DefaultOf<T>(pub fn() -> T);

/// Serializes the default.
pub trait SerializedDefault {
    /// Returns the default as JSON. `None` for `null`, which an optional argument has anyway.
    fn json(&self) -> Option<Value>;
}

impl<T: Serialize> SerializedDefault for &&DefaultOf<T> {
    fn json(&self) -> Option<Value> {
        serde_json::to_value((self.0)()).ok().filter(|value| !value.is_null())
    }
}

/// Finds the default among the values of an enum without data.
pub trait EnumDefault {
    /// Returns the value in the schema that deserializes into the default; `None` if there is not exactly one.
    fn json(&self) -> Option<Value>;
}

impl<T: DeserializeOwned + JsonSchema> EnumDefault for &DefaultOf<T> {
    fn json(&self) -> Option<Value> {
        let default = discriminant(&(self.0)());
        let mut values = Vec::new();
        collect_values(&Value::Object(schema_of::<T>().keywords().clone()), &mut values);
        values.retain(|value| {
            T::deserialize(value.clone()).is_ok_and(|candidate| discriminant(&candidate) == default)
        });
        // Every value of an `Option` has the same discriminant, so several may match.
        if values.len() == 1 { values.pop() } else { None }
    }
}

/// A type that is not an argument: an error of its own reports it.
pub trait UnknownDefault {
    /// Returns nothing.
    fn json(&self) -> Option<Value>;
}

impl<T> UnknownDefault for DefaultOf<T> {
    fn json(&self) -> Option<Value> {
        None
    }
}

fn collect_values(schema: &Value, values: &mut Vec<Value>) {
    values.extend(schema.get("const").cloned());
    values.extend(schema.get("enum").and_then(Value::as_array).into_iter().flatten().cloned());
    for alternative in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        collect_values(alternative, values);
    }
}
