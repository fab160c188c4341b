//! Methods that user handlers answer: how their output and errors become a result.

use tsugite_core::protocol::Method;
use tsugite_core::protocol::completion::{Complete, CompleteResult};
use tsugite_core::protocol::mrtr::{InputRequired, MaybeInputRequired};
use tsugite_core::protocol::prompts::{Get, GetResult};
use tsugite_core::protocol::resources::{self, Read, ReadResult};
use tsugite_core::protocol::tools::{Call, CallOutput, CallResult};
use tsugite_core::revision::{Revision, RpcError, Translate};

use super::handler_error::InvocationError;
use super::output_check::{check_call_result, check_prompt_result, check_read_result, check_resource_list};

/// A method answered by a user's handler.
pub(crate) trait HandlerMethod: Method<Output: Translate> {
    /// The output of the handler.
    type HandlerOutput: Send + 'static;
    /// Whether the handler may ask the user.
    const MAY_REQUEST_INPUT: bool;

    fn output(done: Self::HandlerOutput) -> Self::Output;
    fn error_output(failure: InvocationError, to: Revision) -> Result<Self::Output, RpcError>;
    /// Converts into an `input_required` result; `None` if the method cannot return one.
    fn input_required(input: InputRequired) -> Option<Self::Output>;
    /// Checks what the handler returned; an error says what is wrong with it.
    fn check(output: &Self::Output) -> Result<(), String>;
}

impl HandlerMethod for Call {
    type HandlerOutput = CallResult;
    const MAY_REQUEST_INPUT: bool = true;

    fn output(done: CallResult) -> CallOutput {
        CallOutput::Complete(done)
    }

    fn error_output(failure: InvocationError, to: Revision) -> Result<CallOutput, RpcError> {
        failure.into_result(to).map(CallOutput::Complete)
    }

    fn input_required(input: InputRequired) -> Option<CallOutput> {
        Some(input.into())
    }

    fn check(output: &CallOutput) -> Result<(), String> {
        match output {
            CallOutput::Complete(result) => check_call_result(result),
            _ => Ok(()),
        }
    }
}

macro_rules! handler_method {
    ($($method:ty: $done:ty = $output:expr, $ask_back:expr, $check:expr;)*) => {$(
        impl HandlerMethod for $method {
            type HandlerOutput = $done;
            const MAY_REQUEST_INPUT: bool = $ask_back.is_some();

            fn output(done: $done) -> Self::Output {
                $output(done)
            }

            fn error_output(failure: InvocationError, to: Revision) -> Result<Self::Output, RpcError> {
                Err(failure.into_rpc_error(to))
            }

            fn input_required(input: InputRequired) -> Option<Self::Output> {
                let ask_back: Option<fn(InputRequired) -> Self::Output> = $ask_back;
                ask_back.map(|ask_back| ask_back(input))
            }

            fn check(output: &Self::Output) -> Result<(), String> {
                $check(output)
            }
        }
    )*};
}

handler_method! {
    Get: GetResult = MaybeInputRequired::Complete, Some(MaybeInputRequired::<GetResult>::InputRequired),
        |output| check_complete(output, check_prompt_result);
    Read: ReadResult = MaybeInputRequired::Complete, Some(MaybeInputRequired::<ReadResult>::InputRequired),
        |output| check_complete(output, check_read_result);
    Complete: CompleteResult = std::convert::identity, None::<fn(InputRequired) -> CompleteResult>,
        |_: &CompleteResult| Ok(());
    resources::List: resources::ListResult = std::convert::identity, None::<fn(InputRequired) -> resources::ListResult>,
        check_resource_list;
}

fn check_complete<T>(
    output: &MaybeInputRequired<T>,
    check: fn(&T) -> Result<(), String>,
) -> Result<(), String> {
    match output {
        MaybeInputRequired::Complete(result) => check(result),
        _ => Ok(()),
    }
}
