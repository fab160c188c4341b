//! Turns a function into a handler: parameters are extracted by type.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::Schema;
use tsugite_core::protocol::tools::CallResult;

use super::arguments::Arguments;
use super::context::Context;
use super::handler_error::InvocationError;
use super::lazy_context::CallContext;
use super::limits::NestedPermits;
use super::output::IntoOutput;
use super::state::{StateMap, StateType};

/// The future of a handler.
pub type HandlerFuture<O> = Pin<Box<dyn Future<Output = Result<O, InvocationError>> + Send>>;

/// A callable handler; `O` is the result of a tool, a resource or a prompt.
pub trait Handler<O>: Send + Sync {
    /// Starts a call. The arguments are deserialized before this returns; the future borrows nothing.
    fn call(&self, parts: &CallParts<'_>) -> HandlerFuture<O>;

    /// The types of state that a call needs.
    fn required_states(&self) -> Vec<StateType> {
        Vec::new()
    }
}

/// The parts of a call from which parameters are extracted.
pub struct CallParts<'a> {
    pub(crate) arguments: Arguments<'a>,
    pub(crate) context: &'a (dyn CallContext + 'a),
    pub(crate) states: &'a StateMap,
}

impl CallParts<'_> {
    /// The context of the call.
    pub fn context(&self) -> Context {
        self.context.get()
    }
}

impl std::fmt::Debug for CallParts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallParts").finish_non_exhaustive()
    }
}

/// A handler parameter, extracted by its type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a handler",
    label = "not a parameter that can be extracted from a call",
    note = "take arguments with `Args<T>`, and anything else with `Context`, `State<T>`, `Principal`, `Headers` or `CancellationToken`",
    note = "if this is axum's `State` or `Json`, write `tsugite::server::State` or `tsugite::server::Json`"
)]
pub trait FromCall: Sized {
    /// Extracts the parameter from a call.
    fn from_call(call: &CallParts<'_>) -> Result<Self, InvocationError>;

    /// The input schema, if this parameter holds the arguments.
    fn input_schema() -> Option<Schema> {
        None
    }

    /// The type of state that the parameter needs. A server without it fails to start and names the handler.
    fn required_state() -> Option<StateType> {
        None
    }
}

/// A function usable as a handler: `async`, with parameters that implement [`FromCall`] and a return type that implements
/// [`IntoOutput`].
#[diagnostic::on_unimplemented(
    message = "this function cannot be a handler",
    note = "it must be `async` (or given to `blocking_handler`), each parameter one of `Args<T>`, `Context`, `State<T>`, … of `tsugite::server`, \
            and what it returns text, content, `Json<T>` or a `Result` of these"
)]
pub trait IntoHandler<P, O> {
    /// The schema of the arguments.
    fn input_schema(&self) -> Option<Schema>;
    /// The schema of the structured content.
    fn output_schema(&self) -> Option<Schema>;
    /// Returns the handler.
    fn into_handler(self) -> Arc<dyn Handler<O>>;
}

/// A blocking function; it runs on its own thread.
#[derive(Debug, Clone, Copy)]
pub struct Blocking<F>(pub(crate) F);

/// A handler that receives the raw arguments.
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

/// A future that is ready immediately.
pub fn ready_error<O: Send + 'static>(failure: InvocationError) -> HandlerFuture<O> {
    Box::pin(std::future::ready(Err(failure)))
}

/// Limits how many blocking handlers run at once.
#[derive(Debug, Clone)]
pub struct BlockingPool(NestedPermits);

impl CallParts<'_> {
    /// Creates the pool from the server's limits.
    pub fn blocking(&self) -> BlockingPool {
        BlockingPool(self.context.blocking_permits())
    }
}

impl BlockingPool {
    pub(crate) fn from_permits(permits: NestedPermits) -> Self {
        Self(permits)
    }

    /// Runs `work` on a thread for blocking work. The permit is held until the work is done, even if the caller is gone: a
    /// thread cannot be stopped.
    pub async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let permit = self.0.acquire().await;
        run_blocking(move || {
            let _permit = permit;
            work()
        })
        .await
    }
}

/// Runs `work` on a thread of its own. Unlike the runtime's blocking threads, it does not delay the end of the process. A
/// panic is resumed in the caller.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = oneshot::channel();
    let runtime = Handle::current();
    let thread = std::thread::Builder::new().name("tsugite-blocking".to_owned());
    let started = thread.spawn(move || {
        let _inside = runtime.enter();
        // The caller may be gone.
        drop(done.send(catch_unwind(AssertUnwindSafe(work))));
    });
    if let Err(error) = started {
        resume_unwind(Box::new(format!("failed to start a thread for a blocking handler: {error}")));
    }
    match result.await {
        Ok(Ok(value)) => value,
        Ok(Err(panic)) => resume_unwind(panic),
        // The thread always sends before it ends.
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

            fn required_states(&self) -> Vec<StateType> {
                let states: Vec<Option<StateType>> = vec![$($param::required_state()),*];
                states.into_iter().flatten().collect()
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
                let (work, pool) = (self.0.0.clone(), parts.blocking());
                Box::pin(async move { pool.run(move || work($($param),*)).await.into_output() })
            }

            fn required_states(&self) -> Vec<StateType> {
                let states: Vec<Option<StateType>> = vec![$($param::required_state()),*];
                states.into_iter().flatten().collect()
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
