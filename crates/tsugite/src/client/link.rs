//! One connection to one server: calls leave from here, and what arrives is decided here.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::{
    Id, Incoming, MessageLimits, Message, Notification, RawJson, Request, Response, parse, write,
};
use tsugite_core::protocol::cancellation::{Cancelled, CancelledParams};
use tsugite_core::protocol::logging::Log;
use tsugite_core::protocol::meta::{self, ClientMeta};
use tsugite_core::protocol::progress::Progress;
use tsugite_core::protocol::{
    Implementation, Meta, Method, NotificationMethod, ServerCapabilities, elicitation, ping, prompts, resources, tools,
};
use tsugite_core::revision::{RpcError, Revision, Translate, UnsupportedByRevisionError, read_notification, write_notification};
use tsugite_core::session::InboundRequests;
use tsugite_core::session::inbound::CancelAction;

use super::answer;
use super::calls::{Calls, Waiting};
use super::carrier::{Carrier, Outgoing};
use super::error::{Error, Kind};
use super::handler::{self, Change};
use super::options::Options;
use super::settings::Direction;
use super::shared::Shared;
use crate::lock::lock;
use crate::server::panic::CatchPanic;

/// A connection.
pub(super) struct Link {
    pub(super) shared: Arc<Shared>,
    pub(super) carrier: Carrier,
    pub(super) calls: Calls,
    agreed: OnceLock<Agreed>,
    /// What the server said of itself, as it stood there.
    hello: Mutex<Option<RawJson>>,
    /// What the server asked and has no answer to yet.
    asked: Mutex<Asked>,
    /// Whether the revision was believed and not found out, and nothing has shown yet that it is right.
    trusting: AtomicBool,
    /// Why the connection is gone.
    lost: OnceLock<String>,
    /// The connection is about to be ended by us.
    hangs_up: AtomicBool,
    /// The connection was ended by us.
    is_ended: AtomicBool,
    ending: Notify,
    tasks: Mutex<Vec<AbortHandle>>,
    /// Web pages the server says are done with.
    visited: Mutex<Vec<String>>,
    visit: Notify,
    /// For answers that wait for their turn over HTTP, and for those whose turn it is.
    pub(super) places: Arc<Semaphore>,
    pub(super) turns: Semaphore,
    /// What is being said without anybody waiting for it.
    saying: Arc<Semaphore>,
    limits: MessageLimits,
}

/// What both sides know of each other.
pub(super) struct Agreed {
    pub(super) revision: Revision,
    pub(super) server: Option<Implementation>,
    /// `None` if it was not asked.
    pub(super) capabilities: Option<ServerCapabilities>,
    pub(super) instructions: Option<String>,
    /// What each request of 2026-07-28 says of its sender.
    claims: Vec<(&'static str, RawJson)>,
    /// The same as members of an object.
    written_claims: String,
}

struct Asked {
    inbound: InboundRequests,
    tasks: HashMap<Id<'static>, AbortHandle>,
}

/// Why a call has no answer.
pub(super) enum Trouble {
    /// Trying again would not help.
    Final(Error),
    /// The connection, or the session, is gone.
    Lost { may_have_run: bool, seen: String },
}

impl Trouble {
    pub(super) fn lost(seen: impl Into<String>) -> Self {
        Trouble::Lost { may_have_run: true, seen: seen.into() }
    }

    pub(super) fn not_run(seen: impl Into<String>) -> Self {
        Trouble::Lost { may_have_run: false, seen: seen.into() }
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Final(error)
    }
}

impl From<Kind> for Trouble {
    fn from(kind: Kind) -> Self {
        Trouble::Final(kind.into())
    }
}

impl From<UnsupportedByRevisionError> for Trouble {
    fn from(unsayable: UnsupportedByRevisionError) -> Self {
        Trouble::Final(unsayable.into())
    }
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Final(error) => error,
            Trouble::Lost { may_have_run, seen } => Kind::Lost { may_have_run, seen }.into(),
        }
    }
}

/// A request that can be written for whoever listens.
pub(super) trait Written: Send + Sync {
    fn method(&self) -> &str;
    /// What `Mcp-Name` mirrors.
    fn name(&self) -> Option<&str>;
    /// Appends the message.
    fn write(&self, out: &mut Vec<u8>, id: &Id<'_>, link: &Link, options: &Options) -> Result<(), Error>;
    /// The headers that mirror arguments, for a server of `revision` over HTTP.
    fn headers(&self, link: &Link) -> Vec<(String, String)>;
}

impl Link {
    pub(super) fn new(shared: Arc<Shared>, carrier: Carrier) -> Arc<Self> {
        let limits = MessageLimits::default().max_message_bytes(shared.settings.message_bytes);
        let asked = Asked { inbound: InboundRequests::new(QUESTIONS), tasks: HashMap::new() };
        Arc::new(Self {
            shared,
            carrier,
            calls: Calls::default(),
            agreed: OnceLock::new(),
            hello: Mutex::default(),
            asked: Mutex::new(asked),
            trusting: AtomicBool::new(false),
            lost: OnceLock::new(),
            hangs_up: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            ending: Notify::new(),
            tasks: Mutex::default(),
            visited: Mutex::default(),
            visit: Notify::new(),
            places: Arc::new(Semaphore::new(PLACES)),
            turns: Semaphore::new(TURNS),
            saying: Arc::new(Semaphore::new(SAYINGS)),
            limits,
        })
    }

    /// Both sides know each other.
    pub(super) fn agree(
        &self,
        revision: Revision,
        server: Option<Implementation>,
        capabilities: Option<ServerCapabilities>,
        instructions: Option<String>,
    ) {
        let claims = self.claims(revision);
        let written: Vec<String> =
            claims.iter().map(|(key, value)| format!("{key:?}:{}", value.text())).collect();
        let written_claims = written.join(",");
        let agreed = Agreed { revision, server, capabilities, instructions, claims, written_claims };
        // A connection is agreed on once.
        let _ = self.agreed.set(agreed);
    }

    /// The server has said what it is.
    pub(super) fn introduce(&self, hello: &RawJson) {
        // Only whoever stands behind a client wants it word for word.
        if self.shared.settings.tap.is_some() {
            *lock(&self.hello) = Some(hello.clone());
        }
    }

    pub(super) fn hello(&self) -> Option<RawJson> {
        lock(&self.hello).clone()
    }

    pub(super) fn agreed(&self) -> Option<&Agreed> {
        self.agreed.get()
    }

    /// The revision was believed, not found out.
    pub(super) fn trust(&self) {
        self.trusting.store(true, Ordering::Release);
    }

    /// Whether what has come of a call is the first sign of whether the belief was right; asked once.
    pub(super) fn takes_trust(&self) -> bool {
        self.trusting.load(Ordering::Acquire) && self.trusting.swap(false, Ordering::AcqRel)
    }

    /// The revision that is spoken, or while that is not known the one that may be assumed.
    pub(super) fn revision(&self) -> Revision {
        match self.agreed.get() {
            Some(agreed) => agreed.revision,
            None => self.shared.settings.spoken.error_fallback(),
        }
    }

    /// What is to be said in `_meta` of each request.
    pub(super) fn claims(&self, revision: Revision) -> Vec<(&'static str, RawJson)> {
        if !revision.is_stateless() {
            return Vec::new();
        }
        let settings = &self.shared.settings;
        let mut claims = ClientMeta::for_revision(revision, settings.capabilities()).client_info(settings.info.clone());
        if let Some(level) = settings.wanted_logs() {
            claims = claims.log_level(level);
        }
        let mut stamped = Meta::new();
        stamped.set_client_meta(&claims);
        let keys = [meta::PROTOCOL_VERSION, meta::CLIENT_CAPABILITIES, meta::CLIENT_INFO, meta::LOG_LEVEL];
        keys.into_iter().filter_map(|key| Some((key, stamped.get(key)?.clone()))).collect()
    }

    /// What a call says in `_meta` that wants nothing of its own there, as members of an object.
    pub(super) fn stamp_text(&self, id: &Id<'_>, options: &Options) -> Cow<'_, str> {
        let claims = self.agreed.get().map_or("", |agreed| agreed.written_claims.as_str());
        match (options.wants_progress(), id.as_i64()) {
            (true, Some(id)) if claims.is_empty() => format!("\"{}\":{id}", meta::PROGRESS_TOKEN).into(),
            (true, Some(id)) => format!("{claims},\"{}\":{id}", meta::PROGRESS_TOKEN).into(),
            _ => claims.into(),
        }
    }

    /// Puts into `_meta` what the revision, the call and its options want there.
    pub(super) fn stamp(&self, place: &mut Option<Meta>, id: &Id<'_>, options: &Options) {
        if let Some(given) = &options.meta {
            let meta = place.get_or_insert_default();
            for (key, value) in given.iter() {
                meta.insert(key, value);
            }
        }
        if options.wants_progress() {
            place.get_or_insert_default().set_progress_token(id);
        }
        for (key, value) in self.agreed.get().into_iter().flat_map(|agreed| &agreed.claims) {
            place.get_or_insert_default().insert(*key, value);
        }
    }

    /// Makes a call and waits for its answer. Dropping the future tells the server to stop.
    pub(super) async fn call(
        self: &Arc<Self>,
        request: &dyn Written,
        options: &Options,
    ) -> Result<Result<RawJson, tsugite_core::jsonrpc::ErrorObject>, Trouble> {
        let patience = options.patience(&self.shared.settings);
        let told = options.on_progress.clone().or_else(|| self.shared.settings.handlers.progress.clone());
        let waiting = self.calls.begin(patience, told);
        let id = Id::from(waiting.id());
        let stop = Stop { link: self, id: waiting.id() };
        if let Some(started) = &options.started {
            started.started(waiting.id());
        }
        let mut bytes = Vec::with_capacity(256);
        if let Err(error) = request.write(&mut bytes, &id, self, options) {
            stop.done();
            return Err(error.into());
        }
        let headers = match &self.carrier {
            Carrier::Http(_) => request.headers(self),
            _ => Vec::new(),
        };
        let outgoing = Outgoing {
            bytes,
            method: request.method(),
            name: request.name(),
            headers,
            extra: &options.headers,
        };
        let exchange = pin!(self.carrier.exchange(self, &waiting, outgoing));
        match waiting.within(exchange).await {
            Ok(outcome) => {
                stop.done();
                outcome
            }
            Err(timed_out) => {
                drop(stop);
                Err(Kind::TimedOut { limit: timed_out.limit, total: timed_out.total }.into())
            }
        }
    }

    /// Sends a notification.
    pub(super) async fn notify<N: NotificationMethod>(self: &Arc<Self>, params: N::Params) -> Result<(), Error>
    where
        N::Params: Translate,
    {
        let mut bytes = Vec::with_capacity(128);
        write_notification::<N>(&mut bytes, params, self.revision())?;
        self.carrier.tell(self, bytes).await.map_err(Error::from)
    }

    /// Something has arrived: a line, a body or an event. `via` is the call whose stream it came on, if it did.
    ///
    /// What is no message is reported and skipped.
    pub(super) fn receive(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<Waiting>>) {
        if bytes.trim_ascii().is_empty() {
            return;
        }
        self.shared.wire(Direction::Received, bytes);
        self.take_in(bytes, via);
    }

    /// The same for what was told already.
    pub(super) fn take_in(self: &Arc<Self>, bytes: &[u8], via: Option<&Arc<Waiting>>) {
        match parse(bytes, &self.limits) {
            Ok(Incoming::Single(message)) => self.hear(message, via),
            Ok(Incoming::Batch(batch)) => {
                for message in batch.into_messages() {
                    match message {
                        Ok(message) => self.hear(message, via),
                        Err(fault) => self.shared.noise(bytes, &format!("{:?}", fault.kind)),
                    }
                }
            }
            Err(fault) => self.shared.noise(bytes, &format!("{:?}", fault.kind)),
        }
    }

    pub(super) fn limits(&self) -> &MessageLimits {
        &self.limits
    }

    pub(super) fn hear(self: &Arc<Self>, message: Message<'_>, via: Option<&Arc<Waiting>>) {
        match message {
            Message::Response(response) => self.hear_response(response),
            Message::Notification(notification) => self.hear_notification(&notification, via),
            Message::Request(request) => self.hear_request(&request, via),
        }
    }

    fn hear_response(&self, response: Response<'_>) {
        let Some(id) = response.id else {
            tracing::warn!(error = ?response.outcome.err(), "the server could not read a message of ours");
            return;
        };
        if !self.calls.answer(&id, response.outcome.map(|result| result.to_owned())) {
            tracing::debug!(?id, "an answer that nobody waits for");
        }
    }

    fn hear_notification(self: &Arc<Self>, notification: &Notification<'_>, via: Option<&Arc<Waiting>>) {
        self.pass_on(notification, via.map(|waiting| waiting.id()));
        let revision = self.revision();
        let params = notification.params();
        match &*notification.method {
            Progress::NAME => {
                if let Ok(progress) = read_notification::<Progress>(params, revision) {
                    self.calls.progress(progress);
                }
            }
            Log::NAME => {
                if let Ok(log) = read_notification::<Log>(params, revision)
                    && let Some(told) = &self.shared.settings.handlers.log
                {
                    handler::tell(&**told, log);
                }
            }
            Cancelled::NAME => {
                if let Ok(CancelledParams { request_id: Some(id), .. }) =
                    read_notification::<Cancelled>(params, revision)
                {
                    self.cancelled(id);
                }
            }
            tools::ListChanged::NAME => self.changed(Change::Tools, &read_meta(notification), via),
            prompts::ListChanged::NAME => self.changed(Change::Prompts, &read_meta(notification), via),
            resources::ListChanged::NAME => self.changed(Change::Resources, &read_meta(notification), via),
            resources::Updated::NAME => {
                if let Ok(updated) = read_notification::<resources::Updated>(params, revision) {
                    self.changed(Change::Resource { uri: updated.uri }, &updated.meta, via);
                }
            }
            elicitation::Complete::NAME => {
                if let Ok(done) = read_notification::<elicitation::Complete>(params, revision) {
                    self.visited(&done.elicitation_id);
                    self.changed(Change::Elicitation { id: done.elicitation_id }, &None, via);
                }
            }
            tsugite_core::protocol::subscriptions::Acknowledged::NAME => {
                if let Some(id) = read_meta(notification).and_then(|meta| meta.subscription_id()) {
                    self.shared.acknowledged(&id);
                }
            }
            other => tracing::debug!(method = other, "a notification that says nothing to this client"),
        }
    }

    fn changed(&self, change: Change, meta: &Option<Meta>, via: Option<&Arc<Waiting>>) {
        let subscription = match self.revision().is_stateless() {
            // What lacks the mark came on the stream of one subscription.
            true => meta
                .as_ref()
                .and_then(Meta::subscription_id)
                .map(|id| id.as_i64().unwrap_or(NOBODY))
                .or_else(|| via.map(|waiting| waiting.id())),
            false => None,
        };
        self.shared.changed(change, subscription, self.revision());
    }

    /// The server no longer wants an answer, or says that a subscription is over.
    fn cancelled(&self, id: Id<'static>) {
        if self.revision().is_stateless() {
            // Only a subscription is ended by the server; its result may follow, or not.
            if self.shared.is_subscription(&id) {
                self.calls.answer(&id, Ok(RawJson::empty_object()));
            }
            return;
        }
        let mut asked = lock(&self.asked);
        if asked.inbound.cancel(&id) == CancelAction::Stop {
            asked.inbound.complete(&id);
            if let Some(task) = asked.tasks.remove(&id) {
                task.abort();
            }
        }
    }

    /// The server asks something.
    fn hear_request(self: &Arc<Self>, request: &Request<'_>, via: Option<&Arc<Waiting>>) {
        let revision = self.revision();
        if self.agreed.get().is_some() && revision.is_stateless() {
            // 2026-07-28 has no requests of the server.
            tracing::warn!(
                method = &*request.method,
                "the server sent a request, which its revision does not have"
            );
            return;
        }
        let id = request.id.clone().into_owned();
        if request.method == ping::Ping::NAME {
            let mut bytes = Vec::new();
            write::raw_result(&mut bytes, &id, &RawJson::empty_object());
            self.carrier.answer_soon(self, bytes);
            return;
        }
        let mut asked = lock(&self.asked);
        if asked.inbound.begin(&id, &request.method).is_err() {
            drop(asked);
            let refusal =
                RpcError::InvalidRequest("too many questions at once, or one with the id of another".into());
            self.carrier.answer_soon(self, refused(&id, &refusal, revision));
            return;
        }
        // Who knows which call asks when it came on no call's stream? Any of them may.
        let paused: Vec<_> = match via {
            Some(waiting) => vec![waiting.pause()],
            None => self.calls.all().iter().map(Waiting::pause).collect(),
        };
        let (link, method) = (Arc::clone(self), request.method.clone().into_owned());
        let params = request.params().to_owned();
        let (answered, call) = (id.clone(), via.map(|waiting| waiting.id()));
        let task = tokio::spawn(async move {
            let settings = &link.shared.settings;
            // The server waits for an answer, whatever becomes of the handler.
            let answer = match &settings.tap {
                Some(tap) => CatchPanic::new(tap.asked(method.clone(), params, call)).await,
                None => {
                    let answer = answer::to_request(&settings.handlers, &method, &params, revision);
                    let answer = CatchPanic::new(Box::pin(answer)).await;
                    answer.map(|answer| answer.map_err(|refusal| refusal.to_error_object(revision)))
                }
            };
            let answer = answer.unwrap_or_else(|_| Err(RpcError::Internal.to_error_object(revision)));
            drop(paused);
            let mut bytes = Vec::new();
            match answer {
                Ok(answer) => write::raw_result(&mut bytes, &answered, &answer),
                Err(error) => write::error(&mut bytes, Some(&answered), revision.writes_null_id(), &error),
            }
            // It is open until its answer has left: a server that takes no answers cannot have any number of them wait.
            if let Err(trouble) = link.carrier.tell(&link, bytes).await {
                tracing::warn!(error = %Error::from(trouble), method, "an answer could not be sent");
            }
            let mut asked = lock(&link.asked);
            asked.tasks.remove(&answered);
            asked.inbound.complete(&answered);
        });
        if asked.inbound.is_open(&id) {
            asked.tasks.insert(id, task.abort_handle());
        }
    }

    /// A web page the user was sent to is done with.
    fn visited(&self, id: &str) {
        let mut visited = lock(&self.visited);
        if visited.len() >= VISITS {
            visited.remove(0);
        }
        visited.push(id.to_owned());
        drop(visited);
        self.visit.notify_waiters();
    }

    /// Waits until the server says that all of these pages are done with.
    pub(super) async fn all_visited(&self, ids: &[String]) {
        loop {
            let visit = self.visit.notified();
            let seen = {
                let visited = lock(&self.visited);
                ids.iter().all(|id| visited.contains(id))
            };
            if seen {
                return;
            }
            visit.await;
        }
    }

    /// Why the connection is gone, if it is.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    /// The connection is gone: every call over it ends.
    pub(super) fn lose(&self, seen: &str) {
        let first = self.lost.set(seen.to_owned()).is_ok();
        if let (Some(tap), true, Some(_)) = (&self.shared.settings.tap, first, self.agreed.get()) {
            tap.lost(seen);
        }
        self.calls.lose(seen);
        let tasks: Vec<_> = lock(&self.asked).tasks.drain().map(|(_, task)| task).collect();
        for task in tasks {
            task.abort();
        }
    }

    /// A task that lives as long as the connection.
    pub(super) fn keep(&self, task: &tokio::task::JoinHandle<()>) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task.abort_handle());
    }

    /// The connection is about to be ended: what is under way ends with it, without a word.
    pub(super) fn hang_up(&self) {
        self.hangs_up.store(true, Ordering::Release);
    }

    /// Says something in a task of its own. The end of the connection comes after it.
    pub(super) fn say_soon(self: &Arc<Self>, bytes: Vec<u8>) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(place) = Arc::clone(&self.saying).try_acquire_owned() else {
            return tracing::debug!("too much is being said to a server that does not listen");
        };
        let link = Arc::clone(self);
        runtime.spawn(async move {
            if let Err(trouble) = link.carrier.tell(&link, bytes).await {
                tracing::debug!(error = %Error::from(trouble), "a message could not be sent");
            }
            drop(place);
        });
    }

    /// Ends the connection politely.
    pub(super) async fn close(self: &Arc<Self>) {
        // A server that does not take what is being said is not waited for.
        let _ = tokio::time::timeout(LAST_WORDS, self.saying.acquire_many(SAYINGS as u32)).await;
        self.carrier.close(self).await;
        self.end("the client is closed");
    }

    /// Waits until the connection is ended by us, and gives why.
    pub(super) async fn ended(&self) -> String {
        let ending = self.ending.notified();
        if !self.is_ended.load(Ordering::Acquire) {
            ending.await;
        }
        self.lost().unwrap_or_default().to_owned()
    }

    /// The connection is lost and another will take its place. Calls over HTTP that are under way hear from the server
    /// itself what became of them.
    pub(super) fn retire(&self, seen: &str) {
        match &self.carrier {
            Carrier::Http(_) => {
                self.lose(seen);
                for task in lock(&self.tasks).drain(..) {
                    task.abort();
                }
            }
            _ => self.end(seen),
        }
    }

    /// Ends the connection at once.
    pub(super) fn end(&self, seen: &str) {
        self.lose(seen);
        self.is_ended.store(true, Ordering::Release);
        self.ending.notify_waiters();
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
        self.carrier.kill();
    }
}

/// Tells the server to stop unless the call is done.
struct Stop<'a> {
    link: &'a Arc<Link>,
    id: i64,
}

impl Stop<'_> {
    fn done(self) {
        self.link.calls.forget(self.id);
        // There is nothing left to stop, and nothing in it to drop.
        std::mem::forget(self);
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        // An answer that is there, or a connection that is not, needs no cancellation; neither does what is asked before
        // anything is agreed, which the server may not even know, nor what ends with the connection.
        let wanted = self.link.agreed.get().is_some() && !self.link.hangs_up.load(Ordering::Acquire);
        if self.link.calls.forget(self.id) && wanted {
            self.link.carrier.cancel(self.link, self.id);
        }
    }
}

/// `notifications/cancelled` for a call.
pub(super) fn cancellation(id: i64, revision: Revision) -> Vec<u8> {
    let params = CancelledParams::new().request_id(Id::from(id)).reason("no longer wanted");
    let mut bytes = Vec::new();
    // Every revision has it.
    let _ = write_notification::<Cancelled>(&mut bytes, params, revision);
    bytes
}

fn refused(id: &Id<'_>, refusal: &RpcError, revision: Revision) -> Vec<u8> {
    let mut bytes = Vec::new();
    write::error(&mut bytes, Some(id), revision.writes_null_id(), &refusal.to_error_object(revision));
    bytes
}

fn read_meta(notification: &Notification<'_>) -> Option<Meta> {
    let params: tsugite_core::protocol::NoParams = notification.params().read().ok()?;
    params.meta
}

/// The id of no call of ours.
const NOBODY: i64 = -1;
/// Questions of a server that may be open at a time.
const QUESTIONS: usize = 64;
/// Answers that nobody has to think about, over HTTP: how many may wait, and how many are sent at a time.
const PLACES: usize = 1_024;
const TURNS: usize = 16;
/// Messages over HTTP that nobody waits for, and how long the end of a connection waits for them.
const SAYINGS: usize = 1_024;
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Web pages that are remembered as done with.
const VISITS: usize = 64;
