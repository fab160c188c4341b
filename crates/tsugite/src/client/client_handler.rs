//! Handlers for the requests and notifications of a server.
//!
//! The same handlers answer the requests of a server up to 2025-11-25 and the input requests in a result of 2026-07-28.

mod elicitation_limit;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

pub(super) use elicitation_limit::ElicitationLimit;

use crate::shared::log;
use crate::shared::panic::PanicError;
use serde::Serialize;
use tsugite_core::jsonrpc::{JsonError, RawJson};
use tsugite_core::protocol::capabilities::{ElicitationCapability, RootsCapability, SamplingCapability};
use tsugite_core::protocol::elicitation::{FieldValue, FormParams, UrlParams};
use tsugite_core::protocol::logging::LogParams;
use tsugite_core::protocol::progress::ProgressParams;
use tsugite_core::protocol::roots::Root;
use tsugite_core::protocol::sampling::{CreateMessageParams, CreateMessageResult};
use tsugite_core::protocol::{ClientCapabilities, Object, OrderedMap};
use tsugite_core::revision::RpcError;

/// Handles every request and notification of a server. For one or two of them closures are shorter: see
/// [`ClientBuilder::on_elicit_form`](super::ClientBuilder::on_elicit_form).
///
/// ```
/// use tsugite::client::{FormResponse, ClientHandler, HandlerCapabilities};
/// use tsugite::protocol::FormParams;
///
/// struct Terminal;
///
/// impl ClientHandler for Terminal {
///     fn capabilities(&self) -> HandlerCapabilities {
///         HandlerCapabilities::new().forms()
///     }
///
///     async fn elicit_form(&self, form: FormParams) -> FormResponse {
///         println!("{}", form.message);
///         FormResponse::Decline
///     }
/// }
/// ```
#[doc(alias("elicitation", "sampling", "notifications"))]
pub trait ClientHandler: Send + Sync + 'static {
    /// The requests that this handler answers, which the client declares to the server. The methods of others are not
    /// called.
    fn capabilities(&self) -> HandlerCapabilities;

    /// Asks the user to fill in a form.
    ///
    /// Missing fields get the defaults of the form. A response that does not fit the form is not sent.
    fn elicit_form(&self, form: FormParams) -> impl Future<Output = FormResponse> + Send {
        let _ = form;
        async { FormResponse::Decline }
    }

    /// Asks the user to open a web page. Never open it without the user's consent.
    ///
    /// Show the host, which [`UrlParams::target`] returns, and warn about plain `http` and international names. A URL that names a
    /// user is declined before.
    fn elicit_url(&self, url: UrlParams) -> impl Future<Output = UrlResponse> + Send {
        let _ = url;
        async { UrlResponse::Decline }
    }

    /// Asks the model.
    fn sample(
        &self,
        request: CreateMessageParams,
    ) -> impl Future<Output = Result<CreateMessageResult, RpcError>> + Send {
        let _ = request;
        async { Err(RpcError::UserRejected) }
    }

    /// Returns the roots that the server may work in.
    fn roots(&self) -> impl Future<Output = Vec<Root>> + Send {
        async { Vec::new() }
    }

    /// Receives a log message of the server.
    fn log(&self, log: LogParams) {
        let _ = log;
    }

    /// Receives the progress of a call that has no [callback of its own](super::Call::on_progress).
    fn progress(&self, progress: ProgressParams) {
        let _ = progress;
    }

    /// Receives a change at the server.
    fn changed(&self, change: Change) {
        let _ = change;
    }
}

/// The requests and notifications that a [`ClientHandler`] handles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "ClientCapabilities")]
pub struct HandlerCapabilities {
    /// Shows forms to the user.
    pub forms: bool,
    /// Opens web pages for the user.
    pub urls: bool,
    /// Asks the model.
    pub sampling: bool,
    /// The model accepts tools.
    pub sampling_tools: bool,
    /// Returns roots.
    pub roots: bool,
    /// Receives log messages.
    pub logs: bool,
    /// Receives changes. On 2026-07-28 this keeps a stream open.
    pub changes: bool,
}

macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self) -> Self {
            self.$name = true;
            self
        }
    )*};
}

impl HandlerCapabilities {
    /// No requests and no notifications.
    pub fn new() -> Self {
        Self::default()
    }

    flags! {
        /// Adds forms.
        forms,
        /// Adds web pages.
        urls,
        /// Adds requests to the model.
        sampling,
        /// Adds roots.
        roots,
        /// Adds log messages.
        logs,
        /// Adds changes.
        changes,
    }

    /// Adds requests to the model with tools.
    #[must_use]
    pub fn sampling_tools(mut self) -> Self {
        self.sampling_tools = true;
        self.sampling()
    }
}

/// The user's response to a form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[doc(alias("ElicitResult", "ElicitationResponse", "elicitation"))]
pub enum FormResponse {
    /// The user filled in the form.
    Accept(OrderedMap<FieldValue>),
    /// The user declined.
    Decline,
    /// The user closed the form without a decision.
    Cancel,
    /// The value given to [`FormResponse::accept`] cannot be the content of a form. The server receives an error instead
    /// of a response.
    Invalid(JsonError),
}

impl FormResponse {
    /// Accepts with `content`: a struct, a map or a [`json!`](serde_json::json) object whose members are strings,
    /// numbers, booleans or arrays of strings.
    ///
    /// Any other value becomes [`FormResponse::Invalid`], which fails the request of the server.
    ///
    /// ```
    /// use serde_json::json;
    /// use tsugite::client::FormResponse;
    ///
    /// let answer = FormResponse::accept(json!({"name": "Kiku", "sure": true}));
    /// assert!(matches!(answer, FormResponse::Accept(content) if content.len() == 2));
    /// assert!(matches!(FormResponse::accept("Kiku"), FormResponse::Invalid(_)));
    /// ```
    pub fn accept(content: impl Serialize) -> Self {
        match RawJson::from_value(&content).and_then(|content| content.read()) {
            Ok(content) => FormResponse::Accept(content),
            Err(error) => FormResponse::Invalid(error),
        }
    }

    /// Accepts the form's defaults.
    pub fn accept_defaults() -> Self {
        FormResponse::Accept(OrderedMap::new())
    }
}

/// The user's response to a request to open a web page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias("ElicitResult", "elicitation"))]
pub enum UrlResponse {
    /// The page is open. The client does not see the interaction on it.
    Accept,
    /// The user declined.
    Decline,
    /// The user closed the request without a decision.
    Cancel,
}

/// A change at a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias("list_changed", "notifications"))]
pub enum Change {
    /// The list of tools has changed.
    Tools,
    /// The list of prompts has changed.
    Prompts,
    /// The list of resources or resource templates has changed.
    Resources,
    /// The contents of a resource have changed.
    Resource {
        /// The URI of the resource.
        uri: String,
    },
    /// The interaction on a web page is complete (2025-11-25).
    ElicitationComplete {
        /// The id of the elicitation.
        id: String,
    },
    /// Changes may have been missed, after a reconnect or because the queue was full. Everything may have changed.
    All,
}

type ClientHandlerFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type RequestCallback<P, T> = Arc<dyn Fn(P) -> ClientHandlerFuture<T> + Send + Sync>;
type NotificationCallback<P> = Arc<dyn Fn(P) + Send + Sync>;

/// The callbacks of a client, from a [`ClientHandler`] or set one by one.
#[derive(Clone, Default)]
pub(super) struct ClientHandlers {
    pub(super) form: Option<RequestCallback<FormParams, FormResponse>>,
    pub(super) url: Option<RequestCallback<UrlParams, UrlResponse>>,
    pub(super) sample: Option<RequestCallback<CreateMessageParams, Result<CreateMessageResult, RpcError>>>,
    pub(super) sampling_tools: bool,
    pub(super) elicitation_limit: ElicitationLimit,
    pub(super) roots: Option<RequestCallback<(), Vec<Root>>>,
    pub(super) log: Option<NotificationCallback<LogParams>>,
    pub(super) progress: Option<NotificationCallback<ProgressParams>>,
    pub(super) change: Option<NotificationCallback<Change>>,
}

impl ClientHandlers {
    /// Sets the callbacks for all capabilities of `handler`.
    pub(super) fn set_handler<H: ClientHandler>(&mut self, handler: H) {
        let capabilities = handler.capabilities();
        let handler = Arc::new(handler);
        macro_rules! set_callback {
            ($capability:ident, $field:ident, |$handler:ident, $params:pat_param| $future:expr) => {
                if capabilities.$capability {
                    let shared = Arc::clone(&handler);
                    self.$field = Some(Arc::new(move |$params| {
                        let $handler = Arc::clone(&shared);
                        Box::pin(async move { $future.await })
                    }));
                }
            };
        }
        set_callback!(forms, form, |handler, form| handler.elicit_form(form));
        set_callback!(urls, url, |handler, url| handler.elicit_url(url));
        set_callback!(sampling, sample, |handler, request| handler.sample(request));
        set_callback!(roots, roots, |handler, ()| handler.roots());
        self.sampling_tools |= capabilities.sampling_tools;
        if capabilities.logs {
            let shared = Arc::clone(&handler);
            self.log = Some(Arc::new(move |log| shared.log(log)));
        }
        if capabilities.changes {
            let shared = Arc::clone(&handler);
            self.change = Some(Arc::new(move |change| shared.changed(change)));
        }
        self.progress = Some(Arc::new(move |progress| handler.progress(progress)));
    }

    /// The capabilities to declare to the server.
    pub(super) fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::new();
        if self.roots.is_some() {
            capabilities = capabilities.roots(RootsCapability::new().list_changed(true));
        }
        if self.sample.is_some() {
            let sampling = SamplingCapability::new();
            capabilities = capabilities.sampling(match self.sampling_tools {
                true => sampling.tools(Object::new()),
                false => sampling,
            });
        }
        let mut elicitation = ElicitationCapability::new();
        if self.form.is_some() {
            elicitation = elicitation.form(Object::new());
        }
        if self.url.is_some() {
            elicitation = elicitation.url(Object::new());
        }
        if self.form.is_some() || self.url.is_some() {
            capabilities = capabilities.elicitation(elicitation);
        }
        capabilities
    }
}

/// Calls a callback of the user. A panic in it is logged and does not end the connection.
pub(super) fn invoke_callback<P>(callback: &(dyn Fn(P) + Send + Sync), params: P) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| callback(params))) {
        log::error!(error = PanicError::from_payload(&*payload).message, "a client callback panicked");
    }
}

/// Boxes the future of a callback.
pub(super) fn request_callback<P, T, F, A>(callback: F) -> RequestCallback<P, T>
where
    F: Fn(P) -> A + Send + Sync + 'static,
    A: Future<Output = T> + Send + 'static,
{
    Arc::new(move |params| Box::pin(callback(params)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestHandler;

    impl ClientHandler for TestHandler {
        fn capabilities(&self) -> HandlerCapabilities {
            HandlerCapabilities::new().forms().roots()
        }

        async fn elicit_form(&self, form: FormParams) -> FormResponse {
            match form.message.as_str() {
                "sure?" => FormResponse::accept_defaults(),
                _ => FormResponse::Cancel,
            }
        }
    }

    #[tokio::test]
    async fn only_handled_requests_are_declared() {
        let mut handlers = ClientHandlers::default();
        assert_eq!(handlers.capabilities(), ClientCapabilities::new());
        handlers.set_handler(TestHandler);
        let declared = handlers.capabilities();
        assert!(declared.roots.is_some() && declared.sampling.is_none());
        let elicitation = declared.elicitation.unwrap();
        assert!(elicitation.supports_form() && !elicitation.supports_url());
        let form = FormParams::new("sure?", tsugite_core::protocol::form::FormSchema::new());
        assert_eq!(handlers.form.unwrap()(form).await, FormResponse::accept_defaults());
        assert!(handlers.sample.is_none() && handlers.change.is_none());
    }

    #[test]
    fn tools_of_the_model_are_declared() {
        // SAMP-010
        struct Model(HandlerCapabilities);
        impl ClientHandler for Model {
            fn capabilities(&self) -> HandlerCapabilities {
                self.0
            }
        }
        let declared = |capabilities: HandlerCapabilities| {
            let mut handlers = ClientHandlers::default();
            handlers.set_handler(Model(capabilities));
            handlers.capabilities().sampling.unwrap().tools.is_some()
        };
        assert!(declared(HandlerCapabilities::new().sampling().sampling_tools()));
        assert!(!declared(HandlerCapabilities::new().sampling()));
    }

    #[tokio::test]
    async fn url_handler_declares_no_forms() {
        let url = Some(request_callback(|_| async { UrlResponse::Accept }));
        let handlers = ClientHandlers { url, ..ClientHandlers::default() };
        let elicitation = handlers.capabilities().elicitation.unwrap();
        assert!(elicitation.supports_url() && !elicitation.supports_form());
    }
}
