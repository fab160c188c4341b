//! One peer: what arrives is decided here, and answers leave from here.
//!
//! A request that can be answered at once is; a handler that is not done after its first poll is handed to the
//! transport as a future of its own. Both eras share one link: a process has one table of ids.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{self, Poll, Waker};

use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tsugite_core::jsonrpc::{Fault, Id, Incoming, Message, Request, parse};
use tsugite_core::protocol::lifecycle::Initialize;
use tsugite_core::protocol::logging::Level;
use tsugite_core::protocol::ping::Ping;
use tsugite_core::protocol::result::Empty;
use tsugite_core::protocol::tools::{Call, CallOutput, CallResult};
use tsugite_core::protocol::{ClientCapabilities, Implementation, Method};
use tsugite_core::revision::{Refusal, Revision, Translate, read_params};
use tsugite_core::session::inbound::{Cancellation, Completion, NotTaken, Rising};
use tsugite_core::session::stdio::{Line, decide, decide_request};
use tsugite_core::session::{Inbound, Peek, Phase, ServerHandshake};

use super::context::{Cancelled, Context, Inner};
use super::failure::Failure;
use super::panic::{CatchPanic, Panicked};
use super::reply::Reply;
use super::tool_fn::Answer;
use super::{Config, Outbox, Server, lifecycle, route};

/// The server's side of one connection.
pub(crate) struct Link {
    pub(crate) server: Server,
    pub(crate) config: Arc<Config>,
    pub(crate) outbox: Arc<Outbox>,
    state: Mutex<LinkState>,
    permits: Arc<Semaphore>,
    /// Requests whose answer is not written yet.
    busy: AtomicUsize,
}

struct LinkState {
    handshake: ServerHandshake,
    inbound: Inbound,
    running: HashMap<Id<'static>, Running>,
    log_level: Level,
    capabilities: Arc<ClientCapabilities>,
    client: Option<Arc<Implementation>>,
}

struct Running {
    cancelled: Cancelled,
    task: Option<AbortHandle>,
}

/// A request that is being answered.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) peek: &'a Peek<'a>,
    pub(crate) revision: Revision,
    pub(crate) reply: &'a Reply,
}

/// How a request goes on.
pub(crate) enum Step {
    /// It is answered.
    Answered,
    /// A tool works on it.
    Call(Answer),
}

/// Work that was not done at once. The transport runs it; `id` names it.
pub(crate) struct Work {
    pub(crate) id: Id<'static>,
    pub(crate) future: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Link {
    pub(crate) fn new(server: &Server) -> Arc<Self> {
        let config = server.shared.config();
        let state = LinkState {
            handshake: ServerHandshake::new(config.served),
            inbound: Inbound::new(config.waiting),
            running: HashMap::new(),
            log_level: Level::Info,
            capabilities: Arc::default(),
            client: None,
        };
        Arc::new(Self {
            server: server.clone(),
            permits: Arc::new(Semaphore::new(config.running)),
            config,
            outbox: Arc::default(),
            state: Mutex::new(state),
            busy: AtomicUsize::new(0),
        })
    }

    /// A line has come. What is not done at once is given back.
    pub(crate) fn receive(self: &Arc<Self>, line: &[u8]) -> Vec<Work> {
        let message = parse(line, &self.config.limits);
        let reply = Reply::Single(self.outbox.clone());
        match message {
            Ok(Incoming::Single(message)) => self.message(Ok(message), &reply).into_iter().collect(),
            Err(fault) => self.message(Err(fault), &reply).into_iter().collect(),
            Ok(Incoming::Batch(_)) => self.batch(message, &reply),
        }
    }

    /// A line was too long to be read.
    pub(crate) fn receive_too_long(&self) {
        Reply::Single(self.outbox.clone()).fault(&Fault::too_long(), self.spoken());
    }

    /// The messages of a batch are served side by side, and their answers leave together as one array.
    fn batch(self: &Arc<Self>, message: Result<Incoming<'_>, Fault>, reply: &Reply) -> Vec<Work> {
        let decision = decide(self.phase(), self.config.served, &message);
        match (decision, message) {
            (Line::Batch(_), Ok(Incoming::Batch(batch))) => {
                let together = Reply::batch(self.outbox.clone());
                let messages = batch.into_messages().into_iter();
                messages.filter_map(|message| self.message(message, &together)).collect()
            }
            (Line::Refuse(refusal, revision), _) => {
                reply.refusal(None, &refusal, revision);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn message(self: &Arc<Self>, message: Result<Message<'_>, Fault>, reply: &Reply) -> Option<Work> {
        let phase = self.phase();
        if let Ok(Message::Request(request)) = &message {
            return self.request(phase, request, reply);
        }
        let message = message.map(Incoming::Single);
        match (decide(phase, self.config.served, &message), message) {
            (Line::Fault(spoken), Err(fault)) => reply.fault(&fault, spoken),
            (Line::Ready, _) => self.lock().handshake.ready(),
            (Line::Cancel(id), _) => self.cancel(&id),
            // No request of ours waits for an answer, and no notification of a client asks for anything yet.
            _ => {}
        }
        None
    }

    fn request(self: &Arc<Self>, phase: Phase, request: &Request<'_>, reply: &Reply) -> Option<Work> {
        let peek = match Peek::at(request.params()) {
            Ok(peek) => peek,
            Err(error) => {
                reply.refusal(Some(&request.id), &Refusal::bad_params(&error), self.spoken());
                return None;
            }
        };
        let asked = |revision| Asked { request, peek: &peek, revision, reply };
        match decide_request(phase, self.config.served, request, &peek) {
            Line::Serve(revision) => return self.serve(asked(revision)),
            Line::Open(revision) => self.open(asked(revision)),
            Line::Pong => drop(self.say::<Ping>(asked(Revision::OLDEST), Empty::new())),
            Line::Refuse(refusal, revision) => reply.refusal(Some(&request.id), &refusal, revision),
            _ => {}
        }
        None
    }

    fn open(&self, asked: Asked<'_>) {
        let params = match read_params::<Initialize>(asked.request.params(), asked.revision) {
            Ok(params) => params,
            Err(refusal) => return asked.refuse(&refusal),
        };
        let mut state = self.lock();
        if let Err(refusal) = state.handshake.initialize(&params.protocol_version) {
            return asked.refuse(&refusal);
        }
        state.capabilities = Arc::new(params.capabilities);
        state.client = Some(Arc::new(params.client_info));
        state.log_level = Level::Info;
        drop(state);
        let answer = lifecycle::initialized(&self.server.shared, &self.config, asked.revision);
        self.say::<Initialize>(asked, answer);
    }

    fn serve(self: &Arc<Self>, asked: Asked<'_>) -> Option<Work> {
        let begun = self.context(asked).and_then(|context| {
            let step = route::route(self, asked, &context)?;
            Ok((context, step))
        });
        match begun {
            Ok((_, Step::Answered)) => None,
            Ok((context, Step::Call(answer))) => self.run(asked, context, answer),
            Err(refusal) => {
                asked.refuse(&refusal);
                None
            }
        }
    }

    /// The first poll of a handler happens here. One that is done then never enters the tables; only one that is not
    /// becomes work of its own.
    fn run(self: &Arc<Self>, asked: Asked<'_>, context: Context, answer: Answer) -> Option<Work> {
        let mut answer = CatchPanic::new(answer);
        let permit = self.permits.clone().try_acquire_owned();
        if permit.is_ok()
            && let Poll::Ready(done) =
                Pin::new(&mut answer).poll(&mut task::Context::from_waker(Waker::noop()))
        {
            context.0.ended.store(true, Ordering::Release);
            self.finish(asked.revision, &asked.request.id, done, asked.reply);
            return None;
        }
        let id = asked.request.id.clone().into_owned();
        if let Err(refusal) = self.begin(&id, &asked.request.method, &context) {
            asked.refuse(&refusal);
            return None;
        }
        let (busy, named) = (Busy::new(self), id.clone());
        let (revision, reply) = (asked.revision, asked.reply.clone());
        let future = Box::pin(async move {
            let link = &busy.0;
            let permit = match permit {
                Ok(permit) => Some(permit),
                Err(_) => link.permits.clone().acquire_owned().await.ok(),
            };
            let done = answer.await;
            drop(permit);
            if link.end(&id, &context) == Completion::Send {
                link.finish(revision, &id, done, &reply);
            }
            // A batch leaves with its last answer, and must have left before nothing is busy any more.
            drop(reply);
        });
        Some(Work { id: named, future })
    }

    fn finish(&self, to: Revision, id: &Id<'_>, done: Done, reply: &Reply) {
        let result = match done {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(failure)) => failure.into_result(),
            Err(Panicked) => {
                tracing::error!(%id, "a handler panicked");
                Err(Refusal::Internal)
            }
        };
        match result {
            Ok(result) => reply.result::<Call>(id, CallOutput::Complete(result), to, &self.config.stamp),
            Err(refusal) => reply.refusal(Some(id), &refusal, to),
        }
    }

    /// Remembers which task does the work, so that a cancellation can stop it.
    pub(crate) fn started(&self, id: &Id<'static>, task: AbortHandle) {
        let mut state = self.lock();
        if let Some(running) = state.running.get_mut(id) {
            running.task = Some(task);
            return;
        }
        // It was cancelled, or is done, before its task was known.
        drop(state);
        task.abort();
    }

    /// Whether a request has no answer yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire) > 0
    }

    /// Stops everything that still runs: nobody will read the answers.
    pub(crate) fn abandon(&self) {
        let running: Vec<_> = self.lock().running.drain().map(|(_, running)| running).collect();
        for running in running {
            running.stop();
        }
    }

    /// What a handler may do meanwhile; refused when the id is still under way.
    fn context(&self, asked: Asked<'_>) -> Result<Context, Refusal> {
        let Asked { request, peek, revision, .. } = asked;
        let stateless = revision.is_stateless().then(|| peek.sender()).transpose()?;
        let mut state = self.lock();
        if !state.running.is_empty() && state.running.contains_key(&request.id.clone().into_owned()) {
            return Err(duplicate_id());
        }
        // Some clients never say that they are ready; their first request does.
        if !revision.is_stateless() && matches!(state.handshake.phase(), Phase::Agreed(_)) {
            state.handshake.ready();
        }
        let (log_level, capabilities, client) = match stateless {
            Some(sender) => {
                let client = sender.info().map(Arc::new);
                (sender.log_level, Arc::new(sender.capabilities), client)
            }
            None => (Some(state.log_level), state.capabilities.clone(), state.client.clone()),
        };
        drop(state);
        Ok(Context(Arc::new(Inner {
            outbox: self.outbox.clone(),
            revision,
            progress: peek.progress_token().map(|token| (token, Mutex::new(Rising::default()))),
            log_level,
            capabilities,
            client,
            cancelled: Cancelled::default(),
            ended: AtomicBool::new(false),
        })))
    }

    /// Writes a request down that is not done at once.
    fn begin(&self, id: &Id<'static>, method: &str, context: &Context) -> Result<(), Refusal> {
        let mut state = self.lock();
        state.inbound.begin(id, method).map_err(|not_taken| match not_taken {
            NotTaken::DuplicateId => duplicate_id(),
            _ => Refusal::InvalidRequest("Too many requests are waiting".into()),
        })?;
        state.running.insert(id.clone(), Running { cancelled: context.cancelled(), task: None });
        Ok(())
    }

    fn end(&self, id: &Id<'static>, context: &Context) -> Completion {
        context.0.ended.store(true, Ordering::Release);
        let mut state = self.lock();
        state.running.remove(id);
        state.inbound.complete(id)
    }

    fn cancel(&self, id: &Id<'static>) {
        let mut state = self.lock();
        if state.inbound.cancel(id) == Cancellation::Ignore {
            return;
        }
        let Some(running) = state.running.remove(id) else { return };
        // Its future is dropped with the task, so nothing else will close its entry.
        state.inbound.complete(id);
        drop(state);
        running.stop();
    }

    pub(crate) fn set_log_level(&self, level: Level) {
        self.lock().log_level = level;
    }

    /// Answers at once.
    pub(crate) fn say<M: Method>(&self, asked: Asked<'_>, output: M::Output) -> Step
    where
        M::Output: Translate,
    {
        asked.reply.result::<M>(&asked.request.id, output, asked.revision, &self.config.stamp);
        Step::Answered
    }

    /// The revision to write errors in that belong to no request.
    fn spoken(&self) -> Revision {
        self.phase().revision().unwrap_or(Revision::OLDEST)
    }

    fn phase(&self) -> Phase {
        self.lock().handshake.phase()
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// How a handler ended.
type Done = Result<Result<CallResult, Failure>, Panicked>;

impl Asked<'_> {
    fn refuse(&self, refusal: &Refusal) {
        self.reply.refusal(Some(&self.request.id), refusal, self.revision);
    }
}

impl Running {
    fn stop(self) {
        self.cancelled.cancel();
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

/// Counts a request as under way until its answer is written, or its future is dropped.
struct Busy(Arc<Link>);

impl Busy {
    fn new(link: &Arc<Link>) -> Self {
        link.busy.fetch_add(1, Ordering::AcqRel);
        Self(link.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
        self.0.outbox.spoken();
    }
}

fn duplicate_id() -> Refusal {
    Refusal::InvalidRequest("Invalid request: the id is already in use".into())
}
