//! Requests a handler works on: what its result becomes, and what its failure.

use tsugite_core::protocol::Method;
use tsugite_core::protocol::completion::{Complete, CompleteResult};
use tsugite_core::protocol::mrtr::{InputRequired, MaybeInputRequired};
use tsugite_core::protocol::prompts::{Get, GetResult};
use tsugite_core::protocol::resources::{self, Read, ReadResult};
use tsugite_core::protocol::tools::{Call, CallOutput, CallResult};
use tsugite_core::revision::{RpcError, Revision, Translate};

use super::failure::Failure;

/// A request a handler works on.
pub(crate) trait Handled: Method<Output: Translate> {
    /// What its handler gives.
    type Done: Send + 'static;
    /// Whether the handler may ask back.
    const ASKS: bool;

    fn output(done: Self::Done) -> Self::Output;
    fn failed(failure: Failure, to: Revision) -> Result<Self::Output, RpcError>;
    /// Asking back; `None` where that cannot be.
    fn ask_back(asked: InputRequired) -> Option<Self::Output>;
}

impl Handled for Call {
    type Done = CallResult;
    const ASKS: bool = true;

    fn output(done: CallResult) -> CallOutput {
        CallOutput::Complete(done)
    }

    fn failed(failure: Failure, to: Revision) -> Result<CallOutput, RpcError> {
        failure.into_result(to).map(CallOutput::Complete)
    }

    fn ask_back(asked: InputRequired) -> Option<CallOutput> {
        Some(asked.into())
    }
}

macro_rules! handled {
    ($($method:ty: $done:ty = $output:expr, $ask_back:expr;)*) => {$(
        impl Handled for $method {
            type Done = $done;
            const ASKS: bool = $ask_back.is_some();

            fn output(done: $done) -> Self::Output {
                $output(done)
            }

            fn failed(failure: Failure, to: Revision) -> Result<Self::Output, RpcError> {
                Err(failure.into_refusal(to))
            }

            fn ask_back(asked: InputRequired) -> Option<Self::Output> {
                let ask_back: Option<fn(InputRequired) -> Self::Output> = $ask_back;
                ask_back.map(|ask_back| ask_back(asked))
            }
        }
    )*};
}

handled! {
    Get: GetResult = MaybeInputRequired::Complete, Some(MaybeInputRequired::<GetResult>::InputRequired);
    Read: ReadResult = MaybeInputRequired::Complete, Some(MaybeInputRequired::<ReadResult>::InputRequired);
    Complete: CompleteResult = std::convert::identity, None::<fn(InputRequired) -> CompleteResult>;
    resources::List: resources::ListResult = std::convert::identity, None::<fn(InputRequired) -> resources::ListResult>;
}
