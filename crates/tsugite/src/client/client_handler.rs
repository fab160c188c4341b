//! What a client does when its server asks or tells something.
//!
//! The same answers serve requests of the server up to 2025-11-25 and the questions inside a result of 2026-07-28.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;

use tsugite_core::jsonrpc::JsonError;
use tsugite_core::protocol::capabilities::{ElicitationCapability, RootsCapability, SamplingCapability};
use tsugite_core::protocol::elicitation::{FieldValue, FormParams, UrlParams};
use tsugite_core::protocol::logging::LogParams;
use tsugite_core::protocol::progress::ProgressParams;
use tsugite_core::protocol::roots::Root;
use tsugite_core::protocol::sampling::{CreateMessageParams, CreateMessageResult};
use tsugite_core::protocol::{ClientCapabilities, Object, OrderedMap};
use tsugite_core::revision::RpcError;

/// Everything a client can be asked and told, in one place. For one or two of them closures do: see
/// [`ClientBuilder::on_elicit_form`](super::Connecting::on_form) and its neighbours.
///
/// ```
/// use tsugite::client::{FormResponse, ClientHandler, HandlerCapabilities};
/// use tsugite::protocol::elicitation::FormParams;
///
/// struct Terminal;
///
/// impl ClientHandler for Terminal {
///     fn offers(&self) -> HandlerCapabilities {
///         HandlerCapabilities::new().forms()
///     }
///
///     async fn form(&self, form: FormParams) -> FormResponse {
///         println!("{}", form.message);
///         FormResponse::Decline
///     }
/// }
/// ```
pub trait ClientHandler: Send + Sync + 'static {
    /// Which questions are answered here: what the server is told that it may ask. What is not named is never called.
    fn capabilities(&self) -> HandlerCapabilities;

    /// The server asks the user to fill in a form.
    ///
    /// What the answer leaves out is filled with the form's defaults; an answer that does not fit the form is not sent.
    fn elicit_form(&self, form: FormParams) -> impl Future<Output = FormResponse> + Send {
        let _ = form;
        async { FormResponse::Decline }
    }

    /// The server asks the user to visit a web page. Never open it without their consent.
    fn elicit_url(&self, url: UrlParams) -> impl Future<Output = UrlResponse> + Send {
        let _ = url;
        async { UrlResponse::Decline }
    }

    /// The server asks the model.
    fn sample(
        &self,
        request: CreateMessageParams,
    ) -> impl Future<Output = Result<CreateMessageResult, RpcError>> + Send {
        let _ = request;
        async { Err(RpcError::UserRejected) }
    }

    /// The server asks where it may work.
    fn roots(&self) -> impl Future<Output = Vec<Root>> + Send {
        async { Vec::new() }
    }

    /// The server tells about its work.
    fn log(&self, log: LogParams) {
        let _ = log;
    }

    /// A call has come further. Calls can have [a listener of their own](super::Call::on_progress).
    fn progress(&self, progress: ProgressParams) {
        let _ = progress;
    }

    /// Something of the server has changed.
    fn changed(&self, change: Change) {
        let _ = change;
    }
}

/// Which questions a [`ClientHandler`] answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerCapabilities {
    /// Forms for the user.
    pub forms: bool,
    /// Web pages for the user.
    pub urls: bool,
    /// Requests to the model.
    pub sampling: bool,
    /// The model may be given tools.
    pub sampling_tools: bool,
    /// Directories to work in.
    pub roots: bool,
    /// Log messages are wanted.
    pub logs: bool,
    /// Changes are wanted. On 2026-07-28 this keeps a stream open.
    pub changes: bool,
}

macro_rules! offers {
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
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    offers! {
        /// Forms are shown.
        forms,
        /// Web pages are opened.
        urls,
        /// The model is asked.
        sampling,
        /// There are roots.
        roots,
        /// Log messages are wanted.
        logs,
        /// Changes are wanted.
        changes,
    }

    /// The model is asked, and may be given tools.
    #[must_use]
    pub fn sampling_tools(mut self) -> Self {
        self.sampling_tools = true;
        self.sampling()
    }
}

/// What a user did with a form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FormResponse {
    /// Filled it in.
    Accept(OrderedMap<FieldValue>),
    /// Said no.
    Decline,
    /// Went away without saying.
    Cancel,
}

impl FormResponse {
    /// Accepts with what `content` holds, an object of strings, numbers, booleans and arrays of strings.
    ///
    /// ```
    /// use tsugite::client::FormResponse;
    ///
    /// let answer = FormResponse::accept(&serde_json::json!({"name": "Kiku", "sure": true})).unwrap();
    /// assert!(matches!(answer, FormResponse::Accept(content) if content.len() == 2));
    /// ```
    pub fn accept<T: serde::Serialize + ?Sized>(content: &T) -> Result<Self, JsonError> {
        tsugite_core::jsonrpc::RawJson::from_value(content)?.read().map(FormResponse::Accept)
    }

    /// Accepts the form's defaults.
    pub fn accept_defaults() -> Self {
        FormResponse::Accept(OrderedMap::new())
    }
}

/// What a user said to a web page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlResponse {
    /// It is open; what happens there is between the user and the server.
    Accept,
    /// No.
    Decline,
    /// They went away without saying.
    Cancel,
}

/// Something that has changed at a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The list of resources, or of their templates.
    Resources,
    /// What a resource holds.
    Resource {
        /// Which.
        uri: String,
    },
    /// What a user was sent to a web page for is done (2025-11-25).
    ElicitationComplete {
        /// Which.
        id: String,
    },
    /// More than is kept has changed since the last look: everything may be different.
    All,
}

type ClientHandlerFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type RequestCallback<P, T> = Arc<dyn Fn(P) -> ClientHandlerFuture<T> + Send + Sync>;
type NotificationCallback<P> = Arc<dyn Fn(P) + Send + Sync>;

/// What was set, by a [`ClientHandler`] or by closures.
#[derive(Clone, Default)]
pub(super) struct ClientHandlers {
    pub(super) form: Option<RequestCallback<FormParams, FormResponse>>,
    pub(super) url: Option<RequestCallback<UrlParams, UrlResponse>>,
    pub(super) sample: Option<RequestCallback<CreateMessageParams, Result<CreateMessageResult, RpcError>>>,
    pub(super) sampling_tools: bool,
    pub(super) roots: Option<RequestCallback<(), Vec<Root>>>,
    pub(super) log: Option<NotificationCallback<LogParams>>,
    pub(super) progress: Option<NotificationCallback<ProgressParams>>,
    pub(super) change: Option<NotificationCallback<Change>>,
}

impl ClientHandlers {
    /// Takes all that `handler` offers.
    pub(super) fn set_handler<H: ClientHandler>(&mut self, handler: H) {
        let offers = handler.capabilities();
        let handler = Arc::new(handler);
        macro_rules! asked {
            ($offered:ident, $place:ident, |$handler:ident, $params:pat_param| $ask:expr) => {
                if offers.$offered {
                    let kept = Arc::clone(&handler);
                    self.$place = Some(Arc::new(move |$params| {
                        let $handler = Arc::clone(&kept);
                        Box::pin(async move { $ask.await })
                    }));
                }
            };
        }
        asked!(forms, form, |handler, form| handler.elicit_form(form));
        asked!(urls, url, |handler, url| handler.elicit_url(url));
        asked!(sampling, sample, |handler, request| handler.sample(request));
        asked!(roots, roots, |handler, ()| handler.roots());
        self.sampling_tools |= offers.sampling_tools;
        if offers.logs {
            let kept = Arc::clone(&handler);
            self.log = Some(Arc::new(move |log| kept.log(log)));
        }
        if offers.changes {
            let kept = Arc::clone(&handler);
            self.change = Some(Arc::new(move |change| kept.changed(change)));
        }
        self.progress = Some(Arc::new(move |progress| handler.progress(progress)));
    }

    /// What the server is told.
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

/// Tells somebody something. Whoever panics over it must not take the connection along.
pub(super) fn invoke_callback<P>(told: &(dyn Fn(P) + Send + Sync), what: P) {
    if catch_unwind(AssertUnwindSafe(|| told(what))).is_err() {
        tracing::error!("a handler of the client panicked");
    }
}

/// A closure over a question.
pub(super) fn request_callback<P, T, F, A>(ask: F) -> RequestCallback<P, T>
where
    F: Fn(P) -> A + Send + Sync + 'static,
    A: Future<Output = T> + Send + 'static,
{
    Arc::new(move |params| Box::pin(ask(params)))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Person;

    impl ClientHandler for Person {
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
    async fn only_registered_handlers_are_declared() {
        let mut handlers = ClientHandlers::default();
        assert_eq!(handlers.capabilities(), ClientCapabilities::new());
        handlers.set_handler(Person);
        let declared = handlers.capabilities();
        assert!(declared.roots.is_some() && declared.sampling.is_none());
        let elicitation = declared.elicitation.unwrap();
        assert!(elicitation.supports_form() && !elicitation.supports_url());
        let form = FormParams::new("sure?", tsugite_core::protocol::form::FormSchema::new());
        assert_eq!(handlers.form.unwrap()(form).await, FormResponse::accept_defaults());
        assert!(handlers.sample.is_none() && handlers.change.is_none());
    }

    #[tokio::test]
    async fn url_handler_alone_declares_no_forms() {
        let url = Some(request_callback(|_| async { UrlResponse::Accept }));
        let handlers = ClientHandlers { url, ..ClientHandlers::default() };
        let elicitation = handlers.capabilities().elicitation.unwrap();
        assert!(elicitation.supports_url() && !elicitation.supports_form());
    }
}
