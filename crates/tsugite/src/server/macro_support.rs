//! What the macros write. Everything here can be written by hand with the builders; nothing here is promised.
//!
//! A macro sees the name of a type, never what it is. So it asks the compiler: `(&&&Param::<T>::NEW).kind()` finds the
//! method with the fewest references taken away, which is the one for parts of a call if `T` is such a part, else the
//! one for arguments if it is one, and else one that says what is wrong, once.

use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::value::UnitDeserializer;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess};
use tsugite_core::protocol::Schema;
use tsugite_core::protocol::tools::CallResult;

pub use super::arguments::{Slot, Slots};
pub use super::ask::{FormChoice, choice, form_settings as form, read_choice};
pub use super::handler::{CallParts, Handler, HandlerFuture, ready_error};
pub use super::schema::{ArgumentInfo, ArgumentsSchema};

use super::arguments::NamedArguments;
use super::handler::FromCall;
use super::handler_error::{HandlerError, InvocationError};
use super::output::{IntoOutput, Json};

/// An argument: something that is read from JSON and has a schema.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument",
    label = "cannot be read from JSON",
    note = "for an argument, derive `serde::Deserialize` and `JsonSchema`",
    note = "parts of a call are `Context`, `State<T>`, `Principal`, `Headers` and `Cancelled`; they take no `#[arg]`"
)]
pub trait Argument: DeserializeOwned + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// A value that is told as structured content.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be returned by a tool",
    label = "no text, no content, and no value with a schema",
    note = "derive `serde::Serialize` and `JsonSchema`"
)]
pub trait Structured: Serialize + JsonSchema {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + JsonSchema> Structured for T {}

/// The error of a tool.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the error of a tool",
    label = "does not convert into `ToolError`",
    note = "use `ToolError`, or a type that implements `std::error::Error`"
)]
pub trait IntoHandlerError: Into<HandlerError> {}

#[diagnostic::do_not_recommend]
impl<E: Into<HandlerError>> IntoHandlerError for E {}

/// A parameter whose kind is not known yet.
#[derive(Debug)]
pub struct Param<T>(PhantomData<T>);

impl<T> Param<T> {
    /// One.
    pub const NEW: Self = Self(PhantomData);
}

/// The way for parts of a call.
pub trait IsPart {
    /// What it is.
    type Of;
    /// The kind.
    fn kind(&self) -> PartKind<Self::Of>;
}

impl<T: FromCall> IsPart for &&Param<T> {
    type Of = T;

    fn kind(&self) -> PartKind<T> {
        PartKind(PhantomData)
    }
}

/// The way for arguments.
pub trait IsArgument {
    /// What it is.
    type Of;
    /// The kind.
    fn kind(&self) -> ArgumentKind<Self::Of>;
}

impl<T: Argument> IsArgument for &Param<T> {
    type Of = T;

    fn kind(&self) -> ArgumentKind<T> {
        ArgumentKind(PhantomData)
    }
}

/// The way for what is neither.
pub trait IsNeither {
    /// What it is.
    type Of;
    /// The kind.
    fn kind(&self) -> NeitherKind<Self::Of>;
}

impl<T> IsNeither for Param<T> {
    type Of = T;

    fn kind(&self) -> NeitherKind<T> {
        NeitherKind(PhantomData)
    }
}

/// It is an argument.
#[derive(Debug)]
pub struct ArgumentKind<T>(PhantomData<T>);

impl<T: Argument> ArgumentKind<T> {
    /// `#[arg]` says so too.
    #[must_use]
    pub fn marked(self) -> Self {
        self
    }

    /// Its place, empty.
    pub fn slot(self) -> ArgumentSlot<T> {
        ArgumentSlot { value: None, default: None }
    }

    /// Adds it to the schema.
    pub fn describe(self, schema: &mut ArgumentsSchema, mut info: ArgumentInfo) {
        info.optional |= missing_value::<T>().is_some();
        schema.argument::<T>(info);
    }
}

/// It is a part of the call.
#[derive(Debug)]
pub struct PartKind<T>(PhantomData<T>);

impl<T: FromCall> PartKind<T> {
    /// `#[arg]` says it is an argument, which it is not.
    #[must_use]
    pub fn marked(self) -> Self
    where
        T: Argument,
    {
        self
    }

    /// Its place; nothing is read into it.
    pub fn slot(self) -> PartSlot<T> {
        PartSlot(PhantomData)
    }

    /// Adds the arguments it holds, if any.
    pub fn describe(self, schema: &mut ArgumentsSchema, _info: ArgumentInfo) {
        if let Some(own) = T::input_schema() {
            schema.merge(own);
        }
    }
}

/// It is neither: [`NeitherKind::slot`] says so, and everything else goes on as if nothing were wrong.
#[derive(Debug)]
pub struct NeitherKind<T>(PhantomData<T>);

impl<T> NeitherKind<T> {
    /// As it is.
    #[must_use]
    pub fn marked(self) -> Self {
        self
    }

    /// Has none.
    pub fn slot(self) -> NeitherSlot<T>
    where
        T: Argument,
    {
        NeitherSlot(PhantomData)
    }

    /// Is in no schema.
    pub fn describe(self, _schema: &mut ArgumentsSchema, _info: ArgumentInfo) {}
}

/// The place of an argument.
#[derive(Debug)]
pub struct ArgumentSlot<T> {
    value: Option<T>,
    default: Option<fn() -> T>,
}

impl<T: DeserializeOwned> ArgumentSlot<T> {
    /// What it is if it is not given.
    #[must_use]
    pub fn or(mut self, default: fn() -> T) -> Self {
        self.default = Some(default);
        self
    }

    /// Takes the value out.
    pub fn take(self, name: &str, call: &CallParts<'_>) -> Result<T, InvocationError> {
        let value = self.value.or_else(|| self.default.map(|default| default())).or_else(missing_value);
        value.ok_or_else(|| call.arguments.missing_error(name))
    }
}

impl<T: DeserializeOwned> Slot for ArgumentSlot<T> {
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        match self.value.replace(map.next_value()?) {
            None => Ok(()),
            Some(_) => Err(A::Error::custom("the same argument stands there twice")),
        }
    }
}

/// The place of a part of the call.
#[derive(Debug)]
pub struct PartSlot<T>(PhantomData<T>);

impl<T: FromCall> PartSlot<T> {
    /// As it is; [`PartKind::marked`] has said what is wrong.
    #[must_use]
    pub fn or(self, _default: fn() -> T) -> Self {
        self
    }

    /// Takes it from the call.
    pub fn take(self, _name: &str, call: &CallParts<'_>) -> Result<T, InvocationError> {
        T::from_call(call)
    }
}

impl<T> Slot for PartSlot<T> {
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }
}

/// No place.
#[derive(Debug)]
pub struct NeitherSlot<T>(PhantomData<T>);

impl<T> NeitherSlot<T> {
    /// As it is.
    #[must_use]
    pub fn or(self, _default: fn() -> T) -> Self {
        self
    }

    /// Takes nothing.
    pub fn take(self, name: &str, call: &CallParts<'_>) -> Result<T, InvocationError> {
        Err(call.arguments.missing_error(name))
    }
}

impl<T> Slot for NeitherSlot<T> {
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }
}

/// The place of a parameter that is not compiled.
#[derive(Debug)]
pub struct AbsentSlot;

impl Slot for AbsentSlot {
    fn fill<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        map.next_value::<IgnoredAny>().map(drop)
    }
}

/// Reads the arguments of a call into the places of the parameters.
pub fn read<S: Slots>(call: &CallParts<'_>, names: &[&str], slots: fn() -> S) -> Result<S, InvocationError> {
    call.arguments.read(&NamedArguments { names, slots })
}

/// What an argument is that was not given, if that is something: `None` for an `Option`.
fn missing_value<T: DeserializeOwned>() -> Option<T> {
    T::deserialize(UnitDeserializer::<serde::de::value::Error>::new()).ok()
}

/// What a tool returns, while its kind is not known yet.
#[derive(Debug)]
pub struct ReturnType<T>(PhantomData<T>);

impl<T> ReturnType<T> {
    /// One.
    pub const NEW: Self = Self(PhantomData);
}

/// The way for what is a result already.
pub trait IsOutput {
    /// What it is.
    type Of;
    /// The kind.
    fn kind(&self) -> OutputKind<Self::Of>;
}

impl<T: IntoOutput<CallResult>> IsOutput for &&ReturnType<T> {
    type Of = T;

    fn kind(&self) -> OutputKind<T> {
        OutputKind(PhantomData)
    }
}

/// The way for values that may fail.
pub trait IsResult {
    /// What it is.
    type Of;
    /// The kind.
    fn kind(&self) -> ResultKind<Self::Of>;
}

// Any error: one that is none of a tool's must not make the whole a value.
impl<T, E> IsResult for &ReturnType<Result<T, E>> {
    type Of = Result<T, E>;

    fn kind(&self) -> ResultKind<Result<T, E>> {
        ResultKind(PhantomData)
    }
}

/// The way for values.
pub trait IsValue {
    /// What it is.
    type Of;
    /// The kind.
    fn kind(&self) -> ValueKind<Self::Of>;
}

impl<T> IsValue for ReturnType<T> {
    type Of = T;

    fn kind(&self) -> ValueKind<T> {
        ValueKind(PhantomData)
    }
}

/// How what a tool returns becomes its result.
#[derive(Debug)]
pub struct OutputConversion<T> {
    /// As a result.
    pub convert: fn(T) -> Result<CallResult, InvocationError>,
    /// Its schema.
    pub schema: fn() -> Option<Schema>,
}

/// It is a result already.
#[derive(Debug)]
pub struct OutputKind<T>(PhantomData<T>);

impl<T: IntoOutput<CallResult>> OutputKind<T> {
    /// How.
    pub fn conversion(self) -> OutputConversion<T> {
        OutputConversion { convert: T::into_output, schema: T::output_schema }
    }
}

/// It is a value, or a failure.
#[derive(Debug)]
pub struct ResultKind<T>(PhantomData<T>);

impl<T, E> ResultKind<Result<T, E>> {
    /// How.
    pub fn conversion(self) -> OutputConversion<Result<T, E>>
    where
        T: Structured,
        E: IntoHandlerError,
    {
        OutputConversion {
            convert: |value| value.map(Json).into_output(),
            schema: <Json<T> as IntoOutput<CallResult>>::output_schema,
        }
    }
}

/// It is a value.
#[derive(Debug)]
pub struct ValueKind<T>(PhantomData<T>);

impl<T> ValueKind<T> {
    /// How.
    pub fn conversion(self) -> OutputConversion<T>
    where
        T: Structured,
    {
        OutputConversion {
            convert: |value| Json(value).into_output(),
            schema: <Json<T> as IntoOutput<CallResult>>::output_schema,
        }
    }
}

/// A handler made of a function over the whole call: what a macro makes of a function.
pub fn handler<O, F>(call: F) -> Arc<dyn Handler<O>>
where
    F: Fn(&CallParts<'_>) -> Result<HandlerFuture<O>, InvocationError> + Send + Sync + 'static,
    O: Send + 'static,
{
    Arc::new(FnHandler(call))
}

struct FnHandler<F>(F);

impl<O, F> Handler<O> for FnHandler<F>
where
    F: Fn(&CallParts<'_>) -> Result<HandlerFuture<O>, InvocationError> + Send + Sync,
    O: Send + 'static,
{
    fn call(&self, parts: &CallParts<'_>) -> HandlerFuture<O> {
        (self.0)(parts).unwrap_or_else(ready_error)
    }
}

/// Doc comments as a description: without the space that follows the slashes, and without blank lines around them.
pub fn docs(comments: &[&str]) -> String {
    // A comment without lines is an empty line.
    let lines = comments.iter().flat_map(|text| text.split('\n'));
    let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end()).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[test]
fn doc_comments_lose_a_space_each_and_the_blank_lines_around_them() {
    assert_eq!(
        docs(&["", " Adds.", "", "     let a = 1;  ", " Done.", ""]),
        "Adds.\n\n    let a = 1;\nDone."
    );
    assert_eq!(docs(&["\n Over\n several lines.\n "]), "Over\nseveral lines.");
}
