//! Web pages the user is asked to open: what the user enters there does not pass through the client.

use std::sync::Arc;

use tsugite_core::protocol::capabilities::ElicitationCapability;
use tsugite_core::protocol::elicitation::{Complete, CompleteParams, ElicitParams, UrlParams};
use tsugite_core::protocol::mrtr::InputRequest;
use tsugite_core::protocol::{ClientCapabilities, Object};
use tsugite_core::revision::{UnsupportedByRevisionError, write_notification};

use super::super::ask_error::AskError;
use super::super::context::Context;
use super::super::handler_error::HandlerError;
use super::{Ask, into_accepted_content, read_elicit_result};
use crate::era::Era;
use crate::shared::seal;

/// A web page the user is asked to open. Cheap to clone; keep it until the user is done there.
///
/// The page must identify its visitor by its own login, not by the URL: the holder of the link may be another person.
#[derive(Clone)]
pub struct UrlElicitation(Arc<UrlElicitationInner>);

#[derive(Clone)]
struct UrlElicitationInner {
    context: Context,
    id: String,
    message: String,
    url: String,
}

impl Context {
    /// Prepares a web page that the user is to open; [`UrlElicitation::message`] says why.
    ///
    /// Fails if the URL is malformed, names a user, or is not `https` (`http` is accepted on the loopback, for
    /// development). The URL must not hold a secret.
    #[doc(alias("elicit_url", "elicitation"))]
    pub fn url_elicitation(&self, url: impl Into<String>) -> Result<UrlElicitation, AskError> {
        let url = url.into();
        check_url(&url)?;
        let id = seal::random_id().ok_or_else(|| {
            AskError::misused(
                "cannot create an elicitation id: the random number generator of the system failed",
            )
        })?;
        let message = "Please open this page.".to_owned();
        Ok(UrlElicitation(Arc::new(UrlElicitationInner { context: self.clone(), id, message, url })))
    }
}

impl UrlElicitation {
    /// Sets the text that tells the user why to open the page; "Please open this page." unless set.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.0).message = message.into();
        self
    }

    /// Asks the user to open the page. Completes when the user agrees, which is before they are done there.
    pub fn ask(&self) -> Ask<()> {
        let request = InputRequest::Elicit(ElicitParams::Url(self.params()));
        Ask::new(&self.0.context, request, |raw, question| {
            into_accepted_content(read_elicit_result(raw, question)?).map(drop)
        })
    }

    /// Returns an error that refuses the call until the user has opened the page; the client calls again then.
    ///
    /// On 2025-11-25 it is the error of the protocol for this, otherwise an error text for the model. A client that cannot
    /// open pages gets an error that names the missing capability.
    #[doc(alias = "UrlElicitationRequiredError")]
    pub fn required_error(&self) -> HandlerError {
        let context = &self.0.context;
        let declared = context.client_capabilities().elicitation.as_ref();
        if !context.revision().has_url_elicitation()
            || !declared.is_some_and(ElicitationCapability::supports_url)
        {
            let capability = ElicitationCapability::new().url(Object::new());
            let required = Box::new(ClientCapabilities::new().elicitation(capability));
            return AskError::Unavailable { required }.into();
        }
        Era::from(context.revision()).url_required_error(self.params())
    }

    /// Notifies the client that the user is done on the page, and returns whether a notification was sent. Only 2025-11-25
    /// has one; clients of other revisions find out when they call again.
    #[doc(alias = "notifications/elicitation/complete")]
    pub fn complete(&self) -> bool {
        let (context, revision) = (&self.0.context, self.0.context.revision());
        let outbox = match context.has_ended() {
            true => context.push_queue(),
            false => Some(context.outbox().clone()),
        };
        let Some(outbox) = outbox else { return false };
        let mut is_sent = false;
        outbox.push(|out| {
            let written =
                write_notification::<Complete>(out, CompleteParams::new(self.0.id.clone()), revision);
            is_sent = !matches!(written, Err(UnsupportedByRevisionError::Method(_)));
        });
        is_sent
    }

    /// The id of this elicitation.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    fn params(&self) -> UrlParams {
        let UrlElicitationInner { id, message, url, context } = &*self.0;
        let params = UrlParams::new(message.clone(), url.clone());
        Era::from(context.revision()).set_elicitation_id(params, id)
    }
}

impl std::fmt::Debug for UrlElicitation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UrlElicitation").field("id", &self.0.id).finish_non_exhaustive()
    }
}

fn check_url(url: &str) -> Result<(), AskError> {
    let invalid = |reason: &str| Err(AskError::misused(format!("the URL of a page to open {reason}")));
    let (scheme, rest) = match url.split_once("://") {
        Some(parts) => parts,
        None => return invalid("must begin with `https://`"),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    if url.contains(|letter: char| letter.is_control() || letter.is_whitespace()) || host.is_empty() {
        return invalid("must be absolute, without spaces and control characters");
    }
    if authority.contains('@') {
        return invalid("must not contain a user name");
    }
    match scheme.to_ascii_lowercase().as_str() {
        "https" => Ok(()),
        "http" if matches!(host, "localhost" | "127.0.0.1" | "[::1]") => Ok(()),
        _ => invalid("must begin with `https://`"),
    }
}
