//! From a function to a handler: its parameters are asked for by type.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::Schema;
use tsugite_core::protocol::tools::CallResult;

use super::arguments::Arguments;
use super::context::Context;
use super::handler_error::InvocationError;
use super::lazy_context::CallContext;
use super::output::IntoOutput;
use super::state::StateMap;

/// What a handler's future gives.
pub type HandlerFuture<O> = Pin<Box<dyn Future<Output = Result<O, InvocationError>> + Send>>;

/// Something that can be called; `O` is what a tool, a resource or a prompt gives.
pub trait Handler<O>: Send + Sync {
    /// Begins a call. The arguments are read before this returns; the future borrows nothing.
    fn call(&self, parts: &CallParts<'_>) -> HandlerFuture<O>;
}

/// What a call brings along.
pub struct CallParts<'a> {
    pub(crate) arguments: Arguments<'a>,
    pub(crate) context: &'a (dyn CallContext + 'a),
    pub(crate) states: &'a StateMap,
}

impl CallParts<'_> {
    /// What the handler may do meanwhile.
    pub fn context(&self) -> Context {
        self.context.get()
    }
}

impl std::fmt::Debug for CallParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallParts").finish_non_exhaustive()
    }
}

/// A parameter of a handler, asked for by its type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "not something a call brings along",
    note = "take arguments with `Args<T>`, and anything else with `Context`, `State<T>`, `Principal`, `Headers` or `Cancelled`"
)]
pub trait FromCall: Sized {
    /// Takes it from a call.
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError>;

    /// The schema of the arguments, if this parameter is the one that holds them.
    fn input_schema() -> Option<Schema> {
        None
    }
}

/// A function that can be a handler: `async`, with parameters that implement [`FromCall`] and a return type that
/// implements [`IntoOutput`].
#[diagnostic::on_unimplemented(
    message = "this function cannot be a handler",
    note = "it must be `async` (or given to `blocking_handler`), each parameter one of `Args<T>`, `Context`, `State<T>`, …, \
            and what it returns text, content, `Json<T>` or a `Result` of these"
)]
pub trait IntoHandler<P, O> {
    /// The schema of its arguments.
    fn input_schema(&self) -> Option<Schema>;
    /// The schema of its structured content.
    fn output_schema(&self) -> Option<Schema>;
    /// The handler.
    fn into_handler(self) -> Arc<dyn Handler<O>>;
}

/// A function that blocks, run where blocking harms nobody.
#[derive(Debug, Clone, Copy)]
pub struct Blocking<F>(pub(crate) F);

/// A handler over arguments as they came.
pub(crate) struct RawFn<F>(pub(crate) F);

impl<F, A, R> Handler<CallResult> for RawFn<F>
where
    F: Fn(RawJson, Context) -> A + Send + Sync + 'static,
    A: Future<Output = R> + Send + 'static,
    R: IntoOutput<CallResult>,
{
    fn call(&self, parts: &CallParts<'_>) -> HandlerFuture<CallResult> {
        let arguments = match parts.arguments {
            Arguments::Json(raw) => raw.to_owned(),
            Arguments::Strings(_) => RawJson::empty_object(),
        };
        let answer = (self.0)(arguments, parts.context());
        Box::pin(async move { answer.await.into_output() })
    }
}

/// An answer that is known at once.
pub fn ready_error<O: Send + 'static>(failure: InvocationError) -> HandlerFuture<O> {
    Box::pin(std::future::ready(Err(failure)))
}

/// Where handlers that block run.
#[derive(Debug, Clone)]
pub struct BlockingPool(Arc<Semaphore>);

impl CallParts<'_> {
    /// Where a handler that blocks may run.
    pub fn blocking(&self) -> BlockingPool {
        BlockingPool(self.context.blocking_permits().clone())
    }
}

impl BlockingPool {
    pub(crate) fn from_permits(places: Arc<Semaphore>) -> Self {
        Self(places)
    }

    /// Runs `work` where blocking harms nobody. Its place is taken until it is done, also if nobody wants it any more by
    /// then: a thread cannot be stopped.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let place = self.0.acquire_owned().await;
        run_blocking(move || {
            let _place = place;
            work()
        })
        .await
    }
}

/// Runs `work` where blocking harms nobody: on a thread of its own, which the end of the process does not wait for, as it
/// would for the runtime's. A panic goes on in the caller, which knows what to do with it.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = oneshot::channel();
    let runtime = Handle::current();
    let thread = std::thread::Builder::new().name("tsugite-blocking".to_owned());
    let started = thread.spawn(move || {
        let _inside = runtime.enter();
        // Whoever asked may be gone by now.
        drop(done.send(catch_unwind(AssertUnwindSafe(work))));
    });
    if let Err(error) = started {
        resume_unwind(Box::new(format!("no thread for a handler that blocks: {error}")));
    }
    match result.await {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => resume_unwind(panic),
        // A thread ends only by answering.
        Err(_) => std::future::pending().await,
    }
}

struct TypedFn<F, P>(F, PhantomData<fn(P)>);

macro_rules! impl_handler_for_fn {
    ($($param:ident),*) => {
        impl<Func, Fut, Ret, Out, $($param),*> IntoHandler<($($param,)*), Out> for Func
        where
            Func: Fn($($param),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Ret> + Send + 'static,
            Ret: IntoOutput<Out> + 'static,
            Out: Send + 'static,
            $($param: FromCall + 'static,)*
        {
            fn input_schema(&self) -> Option<Schema> {
                None$(.or_else($param::input_schema))*
            }

            fn output_schema(&self) -> Option<Schema> {
                Ret::output_schema()
            }

            fn into_handler(self) -> Arc<dyn Handler<Out>> {
                Arc::new(TypedFn::<Func, ($($param,)*)>(self, PhantomData))
            }
        }

        impl<Func, Fut, Ret, Out, $($param),*> Handler<Out> for TypedFn<Func, ($($param,)*)>
        where
            Func: Fn($($param),*) -> Fut + Send + Sync + 'static,
            Fut: Future<Output = Ret> + Send + 'static,
            Ret: IntoOutput<Out> + 'static,
            Out: Send + 'static,
            $($param: FromCall + 'static,)*
        {
            #[allow(unused_variables, non_snake_case, reason = "a function without parameters asks for nothing")]
            fn call(&self, parts: &CallParts<'_>) -> HandlerFuture<Out> {
                $(
                    let $param = match $param::from_call(parts) {
                        Ok(value) => value,
                        Err(failure) => return ready_error(failure),
                    };
                )*
                let answer = (self.0)($($param),*);
                Box::pin(async move { answer.await.into_output() })
            }
        }

        #[diagnostic::do_not_recommend]
        impl<Func, Ret, Out, $($param),*> IntoHandler<($($param,)*), Out> for Blocking<Func>
        where
            Func: Fn($($param),*) -> Ret + Send + Sync + 'static,
            Ret: IntoOutput<Out> + Send + 'static,
            Out: Send + 'static,
            $($param: FromCall + Send + 'static,)*
        {
            fn input_schema(&self) -> Option<Schema> {
                None$(.or_else($param::input_schema))*
            }

            fn output_schema(&self) -> Option<Schema> {
                Ret::output_schema()
            }

            fn into_handler(self) -> Arc<dyn Handler<Out>> {
                Arc::new(TypedFn::<Blocking<Arc<Func>>, ($($param,)*)>(Blocking(Arc::new(self.0)), PhantomData))
            }
        }

        impl<Func, Ret, Out, $($param),*> Handler<Out> for TypedFn<Blocking<Arc<Func>>, ($($param,)*)>
        where
            Func: Fn($($param),*) -> Ret + Send + Sync + 'static,
            Ret: IntoOutput<Out> + Send + 'static,
            Out: Send + 'static,
            $($param: FromCall + Send + 'static,)*
        {
            #[allow(unused_variables, non_snake_case, reason = "a function without parameters asks for nothing")]
            fn call(&self, parts: &CallParts<'_>) -> HandlerFuture<Out> {
                $(
                    let $param = match $param::from_call(parts) {
                        Ok(value) => value,
                        Err(failure) => return ready_error(failure),
                    };
                )*
                let (work, places) = (self.0.0.clone(), parts.blocking());
                Box::pin(async move { places.run(move || work($($param),*)).await.into_output() })
            }
        }
    };
}

impl_handler_for_fn!();
impl_handler_for_fn!(A);
impl_handler_for_fn!(A, B);
impl_handler_for_fn!(A, B, C);
impl_handler_for_fn!(A, B, C, D);
impl_handler_for_fn!(A, B, C, D, E);
impl_handler_for_fn!(A, B, C, D, E, G);
