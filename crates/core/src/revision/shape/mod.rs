//! How older revisions write each family of messages.
//!
//! Every rule is written once, beside the type it is about, with the revisions it applies to. Types without a rule are
//! listed at the end.

mod capabilities;
mod completion;
mod content;
mod elicitation;
mod notifications;
mod prompts;
mod resources;
mod sampling;
mod tasks;
mod tools;

use super::Revision::*;
use super::{InferResultType, Revision, Translate, UnsupportedByRevisionError};
use crate::jsonrpc::Raw;
use crate::protocol::caching::{CacheScope, Cacheable};
use crate::protocol::mrtr::{InputRequest, InputRequired, MaybeInputRequired};
use crate::protocol::pagination::PaginatedParams;
use crate::protocol::result::EmptyResult;
use crate::protocol::tasks::MaybeTask;
use crate::protocol::{
    Annotations, EmptyParams, Icon, Meta, Output, ResultType, lifecycle, logging, meta, subscriptions,
};

/// Whether both revisions are older than each of `changes`, or neither is.
fn no_change_between(one: Revision, other: Revision, changes: &[Revision]) -> bool {
    changes.iter().all(|change| (one < *change) == (other < *change))
}

/// `title` came with 2025-06-18.
fn fit_title(title: &mut Option<String>, to: Revision) {
    if to < V2025_06_18 {
        *title = None;
    }
}

/// Icons came with 2025-11-25.
fn fit_icons(icons: &mut Option<Vec<Icon>>, to: Revision) {
    if to < V2025_11_25 {
        *icons = None;
    }
}

/// `_meta` on anything but params and results came with 2025-06-18.
fn fit_inner_meta(meta: &mut Option<Meta>, to: Revision) {
    if to < V2025_06_18 {
        *meta = None;
    }
}

/// `lastModified` came with 2025-06-18.
fn fit_annotations(annotations: &mut Option<Annotations>, to: Revision) {
    if to < V2025_06_18
        && let Some(annotations) = annotations
    {
        annotations.last_modified = None;
    }
}

/// Cache hints are required on 2026-07-28 and unknown before. Their default forbids caching.
fn fit_cache(result: &mut impl Cacheable, to: Revision) {
    if to.is_stateless() {
        result.ttl_ms_mut().get_or_insert(0);
        result.cache_scope_mut().get_or_insert(CacheScope::Private);
    } else {
        *result.ttl_ms_mut() = None;
        *result.cache_scope_mut() = None;
    }
}

/// Input responses and request state exist on 2026-07-28 only.
fn fit_input_responses<R, S>(responses: &mut Option<R>, state: &mut Option<S>, to: Revision) {
    if !to.is_stateless() {
        *responses = None;
        *state = None;
    }
}

impl Translate for InputRequired {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        if !to.is_stateless() {
            return Err(UnsupportedByRevisionError::InputRequired);
        }
        if self.input_requests.is_none() && self.request_state.is_none() {
            return Err(UnsupportedByRevisionError::MissingMember("inputRequests"));
        }
        self.input_requests
            .iter_mut()
            .flat_map(|requests| requests.values_mut())
            .try_for_each(|it| it.downgrade(to))
    }

    fn upgrade(&mut self, _from: Revision) {}
}

impl Translate for InputRequest {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        match self {
            InputRequest::Elicit(params) => params.downgrade(to),
            InputRequest::Sample(params) => params.downgrade(to),
            InputRequest::Roots(params) => params.downgrade(to),
        }
    }

    fn upgrade(&mut self, from: Revision) {
        match self {
            InputRequest::Elicit(params) => params.upgrade(from),
            InputRequest::Sample(params) => params.upgrade(from),
            InputRequest::Roots(params) => params.upgrade(from),
        }
    }
}

impl<T: Translate> Translate for MaybeInputRequired<T> {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        match self {
            MaybeInputRequired::Complete(result) => result.downgrade(to),
            MaybeInputRequired::InputRequired(asked) => asked.downgrade(to),
        }
    }

    fn upgrade(&mut self, from: Revision) {
        match self {
            MaybeInputRequired::Complete(result) => result.upgrade(from),
            MaybeInputRequired::InputRequired(asked) => asked.upgrade(from),
        }
    }

    /// Only 2026-07-28 has results that request input.
    fn is_same_in(one: Revision, other: Revision) -> bool {
        T::is_same_in(one, other)
    }
}

impl<T: Output> InferResultType for MaybeInputRequired<T> {}

impl<T: Translate> Translate for MaybeTask<T> {
    fn downgrade(&mut self, to: Revision) -> Result<(), UnsupportedByRevisionError> {
        match self {
            MaybeTask::Complete(answer) => answer.downgrade(to),
            // An input request inside a result needs an immediate response.
            MaybeTask::Task(_) if to.is_stateless() => Err(UnsupportedByRevisionError::Tasks),
            MaybeTask::Task(task) => task.downgrade(to),
        }
    }

    fn upgrade(&mut self, from: Revision) {
        match self {
            MaybeTask::Complete(answer) => answer.upgrade(from),
            MaybeTask::Task(task) => task.upgrade(from),
        }
    }
}

impl<T: Output> InferResultType for MaybeTask<T> {
    fn infer_result_type(result: Raw<'_>, from: Revision) -> ResultType {
        tools::infer_task_result(result, from)
    }
}

/// Notifications on a subscription carry its id.
macro_rules! requires_subscription_id {
    ($($name:ty),* $(,)?) => {$(
        impl Translate for $name {
            fn downgrade(&mut self, _to: Revision) -> Result<(), UnsupportedByRevisionError> {
                match self.meta.as_ref().and_then(|meta| meta.get(meta::SUBSCRIPTION_ID)) {
                    Some(_) => Ok(()),
                    None => Err(UnsupportedByRevisionError::MissingMember(meta::SUBSCRIPTION_ID)),
                }
            }

            fn upgrade(&mut self, _from: Revision) {}
        }
    )*};
}

requires_subscription_id!(subscriptions::AcknowledgedParams, subscriptions::ListenResult);

/// Types that all revisions that have them write the same.
macro_rules! same_everywhere {
    ($($name:ty),* $(,)?) => {$(
        impl Translate for $name {
            fn downgrade(&mut self, _to: Revision) -> Result<(), UnsupportedByRevisionError> {
                Ok(())
            }

            fn upgrade(&mut self, _from: Revision) {}

            fn is_same_in(_one: Revision, _other: Revision) -> bool {
                true
            }
        }
    )*};
}

same_everywhere!(
    EmptyResult,
    EmptyParams,
    PaginatedParams,
    logging::LogParams,
    logging::SetLevelParams,
    subscriptions::ListenParams,
);

/// Results that are always complete on revisions without `resultType`.
macro_rules! always_complete {
    ($($name:ty),* $(,)?) => {$(impl InferResultType for $name {})*};
}

use same_everywhere;

always_complete!(
    EmptyResult,
    lifecycle::InitializeResult,
    subscriptions::ListenResult,
    crate::protocol::completion::CompleteResult,
    crate::protocol::discover::DiscoverResult,
    crate::protocol::prompts::ListResult,
    crate::protocol::resources::ListResult,
    crate::protocol::resources::ListTemplatesResult,
    crate::protocol::roots::ListResult,
    crate::protocol::tasks::CancelResult,
    crate::protocol::tasks::GetResult,
    crate::protocol::tasks::ListResult,
    crate::protocol::tasks::PayloadResult,
    crate::protocol::tools::ListResult,
);
