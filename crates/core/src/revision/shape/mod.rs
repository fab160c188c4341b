//! How each family of messages is written by older revisions.
//!
//! Every rule stands once, beside the type it is about, with the revisions it holds for. Types without a rule are
//! listed at the end.

mod capabilities;
mod completion;
mod content;
mod elicitation;
mod notices;
mod prompts;
mod resources;
mod sampling;
mod tasks;
mod tools;

use super::Revision::*;
use super::{Reading, Revision, Translate, Unsayable};
use crate::jsonrpc::Raw;
use crate::protocol::caching::{CacheScope, Cacheable};
use crate::protocol::mrtr::{InputRequest, InputRequired, Reply};
use crate::protocol::pagination::PageParams;
use crate::protocol::result::Empty;
use crate::protocol::tasks::Promised;
use crate::protocol::{
    Annotations, Icon, Meta, NoParams, Output, ResultType, lifecycle, logging, meta, subscriptions,
};

/// Whether both are older than each of `changes`, or neither is.
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

/// Cache hints are required on 2026-07-28 and unknown before. Silence there means "do not keep".
fn fit_cache(result: &mut impl Cacheable, to: Revision) {
    if to.is_stateless() {
        result.ttl_ms_mut().get_or_insert(0);
        result.cache_scope_mut().get_or_insert(CacheScope::Private);
    } else {
        *result.ttl_ms_mut() = None;
        *result.cache_scope_mut() = None;
    }
}

/// What an earlier attempt left behind exists on 2026-07-28 only.
fn fit_round<R, S>(responses: &mut Option<R>, state: &mut Option<S>, to: Revision) {
    if !to.is_stateless() {
        *responses = None;
        *state = None;
    }
}

impl Translate for InputRequired {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        if !to.is_stateless() {
            return Err(Unsayable::InputRequired);
        }
        if self.input_requests.is_none() && self.request_state.is_none() {
            return Err(Unsayable::Missing("inputRequests"));
        }
        self.input_requests
            .iter_mut()
            .flat_map(|requests| requests.values_mut())
            .try_for_each(|it| it.outward(to))
    }

    fn inward(&mut self, _from: Revision) {}
}

impl Translate for InputRequest {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        match self {
            InputRequest::Elicit(params) => params.outward(to),
            InputRequest::Sample(params) => params.outward(to),
            InputRequest::Roots(params) => params.outward(to),
        }
    }

    fn inward(&mut self, from: Revision) {
        match self {
            InputRequest::Elicit(params) => params.inward(from),
            InputRequest::Sample(params) => params.inward(from),
            InputRequest::Roots(params) => params.inward(from),
        }
    }
}

impl<T: Translate> Translate for Reply<T> {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        match self {
            Reply::Complete(result) => result.outward(to),
            Reply::InputRequired(asked) => asked.outward(to),
        }
    }

    fn inward(&mut self, from: Revision) {
        match self {
            Reply::Complete(result) => result.inward(from),
            Reply::InputRequired(asked) => asked.inward(from),
        }
    }

    /// A question back is written by 2026-07-28 alone.
    fn alike(one: Revision, other: Revision) -> bool {
        T::alike(one, other)
    }
}

impl<T: Output> Reading for Reply<T> {}

impl<T: Translate> Translate for Promised<T> {
    fn outward(&mut self, to: Revision) -> Result<(), Unsayable> {
        match self {
            Promised::Complete(answer) => answer.outward(to),
            // What is asked inside a result is answered at once.
            Promised::Task(_) if to.is_stateless() => Err(Unsayable::Tasks),
            Promised::Task(task) => task.outward(to),
        }
    }

    fn inward(&mut self, from: Revision) {
        match self {
            Promised::Complete(answer) => answer.inward(from),
            Promised::Task(task) => task.inward(from),
        }
    }
}

impl<T: Output> Reading for Promised<T> {
    fn kind_of(result: Raw<'_>, from: Revision) -> ResultType {
        tools::promised(result, from)
    }
}

/// What is told on a subscription names it.
macro_rules! names_its_subscription {
    ($($name:ty),* $(,)?) => {$(
        impl Translate for $name {
            fn outward(&mut self, _to: Revision) -> Result<(), Unsayable> {
                match self.meta.as_ref().and_then(|meta| meta.get(meta::SUBSCRIPTION_ID)) {
                    Some(_) => Ok(()),
                    None => Err(Unsayable::Missing(meta::SUBSCRIPTION_ID)),
                }
            }

            fn inward(&mut self, _from: Revision) {}
        }
    )*};
}

names_its_subscription!(subscriptions::AcknowledgedParams, subscriptions::ListenResult);

/// Types that every revision that has them writes alike.
macro_rules! same_everywhere {
    ($($name:ty),* $(,)?) => {$(
        impl Translate for $name {
            fn outward(&mut self, _to: Revision) -> Result<(), Unsayable> {
                Ok(())
            }

            fn inward(&mut self, _from: Revision) {}

            fn alike(_one: Revision, _other: Revision) -> bool {
                true
            }
        }
    )*};
}

same_everywhere!(
    Empty,
    NoParams,
    PageParams,
    logging::LogParams,
    logging::SetLevelParams,
    subscriptions::ListenParams,
);

/// Results that are always complete where there is no `resultType`.
macro_rules! always_complete {
    ($($name:ty),* $(,)?) => {$(impl Reading for $name {})*};
}

use same_everywhere;

always_complete!(
    Empty,
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
