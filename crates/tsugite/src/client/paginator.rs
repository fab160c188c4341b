//! Reads a list page by page, into one vector or as a stream.

use std::collections::{HashSet, VecDeque};
use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::Instant;
use tsugite_core::jsonrpc::code;
use tsugite_core::protocol::pagination::PaginatedParams;
use tsugite_core::protocol::{prompts, resources, tasks, tools};

use super::Client;
use super::cache::Caching;
use super::call::ClientMethod;
use super::client_error::{ClientError, ErrorKind, Result, TimeoutKind};
use super::options::{ListConnection, Options};
use super::repeat::cursor_has_expired;

/// A paginated list of a server. Await it for all items, or read it item by item with `next` or as a [`Stream`].
///
/// A list whose cursor is no longer valid, or whose session ended (up to 2025-11-25), is read from the start once when it
/// is awaited; item by item it fails.
///
/// Fails if a cursor repeats, or if the list has more pages than the client's `max_pages`, more bytes than `max_list_bytes`, or
/// takes longer than `total_timeout`, without the time between two items.
///
/// ```
/// use tsugite::client::Client;
/// use tsugite::prelude::*;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tsugite::Result<()> {
/// # let server = Server::new("s", "1").tool(Tool::new("one").handler(async || 1));
/// let client = Client::in_process(&server).await?;
/// let all = client.list_tools().await?;
/// assert_eq!(all[0].name, "one");
///
/// let mut tools = client.list_tools();
/// while let Some(tool) = tools.next().await {
///     println!("{}", tool?.name);
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent before it is awaited or polled"]
#[doc(alias("pagination", "nextCursor", "cursor"))]
pub struct Paginator<M: Paginated> {
    client: Client,
    options: Options,
    buffered: VecDeque<M::Item>,
    next_page: NextPage,
    seen_cursors: HashSet<String>,
    pages_read: usize,
    /// The bytes of all pages.
    bytes_read: Arc<AtomicUsize>,
    /// The time spent on all pages.
    time_spent: Duration,
    fetching: Option<PageFuture<M>>,
}

/// Fetches a page, and measures the time.
type PageFuture<M> =
    Pin<Box<dyn Future<Output = (Result<<M as tsugite_core::protocol::Method>::Output>, Duration)> + Send>>;

enum NextPage {
    First,
    Cursor(String),
    /// The list failed. The error follows the items read before.
    Failed(ClientError),
    Done,
}

/// A method that lists items in pages.
pub trait Paginated: ClientMethod<Params = PaginatedParams> {
    /// The type of the items.
    type Item: Send + Unpin + 'static;

    /// Extracts the page from a result.
    fn into_page(output: Self::Output) -> ListPage<Self::Item>;
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// The cursor of the next page; none if this is the last.
    pub next_cursor: Option<String>,
}

macro_rules! paginated {
    ($($list:ty: $item:ty, $field:ident);* $(;)?) => {$(
        impl Paginated for $list {
            type Item = $item;

            fn into_page(output: Self::Output) -> ListPage<$item> {
                ListPage { items: output.$field, next_cursor: output.next_cursor }
            }
        }
    )*};
}

paginated! {
    tools::List: tools::Tool, tools;
    prompts::List: prompts::Prompt, prompts;
    resources::List: resources::Resource, resources;
    resources::ListTemplates: resources::ResourceTemplate, resource_templates;
    tasks::List: tasks::Task, tasks;
}

impl<M: Paginated> Paginator<M> {
    pub(super) fn new(client: &Client) -> Self {
        Self {
            client: client.clone(),
            options: Options { list_connection: Some(ListConnection::default()), ..Options::default() },
            buffered: VecDeque::new(),
            next_page: NextPage::First,
            seen_cursors: HashSet::new(),
            pages_read: 0,
            bytes_read: Arc::default(),
            time_spent: Duration::ZERO,
            fetching: None,
        }
    }

    /// Sets the idle timeout of each page.
    pub fn timeout(mut self, idle_timeout: Duration) -> Self {
        self.options.idle_timeout = Some(idle_timeout);
        self
    }

    /// Sends a header with each request, over HTTP.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.headers.push((name.into(), value.into()));
        self
    }

    /// Sets whether the list may be answered from the cache.
    pub fn caching(mut self, caching: Caching) -> Self {
        self.options.caching = caching;
        self
    }

    /// Returns the next item; `None` after the last. Nothing follows an error.
    pub async fn next(&mut self) -> Option<Result<M::Item>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<M::Item>>> {
        loop {
            if let Some(item) = self.buffered.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            let Some(fetching) = &mut self.fetching else {
                let cursor = match std::mem::replace(&mut self.next_page, NextPage::Done) {
                    NextPage::Done => return Poll::Ready(None),
                    NextPage::Failed(error) => return Poll::Ready(Some(Err(error))),
                    NextPage::First => None,
                    NextPage::Cursor(cursor) => Some(cursor),
                };
                match self.fetch(cursor) {
                    Ok(fetching) => self.fetching = Some(fetching),
                    Err(error) => return Poll::Ready(Some(Err(error))),
                }
                continue;
            };
            let Poll::Ready((page, time)) = fetching.as_mut().poll(cx) else { return Poll::Pending };
            self.fetching = None;
            self.time_spent += time;
            match page {
                Err(error) if error.is_timeout() => {
                    return Poll::Ready(Some(Err(self.timeout_error().unwrap_or(error))));
                }
                Err(error) => {
                    if self.is_invalid_cursor(&error) {
                        self.client.inner.shared.cache.remove_list(M::NAME);
                    }
                    return Poll::Ready(Some(Err(error)));
                }
                Ok(page) => {
                    let ListPage { items, next_cursor } = M::into_page(page);
                    self.buffered.extend(items);
                    self.pages_read += 1;
                    let settings = &self.client.inner.shared.settings;
                    if self.bytes_read.load(Ordering::Relaxed) > settings.max_list_bytes {
                        self.next_page = NextPage::Failed(endless_list_error(
                            &format!("it has more than {} bytes (`max_list_bytes`)", settings.max_list_bytes),
                            self.pages_read,
                        ));
                    } else if let Some(cursor) = next_cursor {
                        self.next_page = if !self.seen_cursors.insert(cursor.clone()) {
                            NextPage::Failed(endless_list_error("a cursor was repeated", self.pages_read))
                        } else if self.pages_read >= settings.max_pages {
                            NextPage::Failed(endless_list_error(
                                "the limit `max_pages` is reached",
                                self.pages_read,
                            ))
                        } else {
                            NextPage::Cursor(cursor)
                        };
                    }
                }
            }
        }
    }
}

impl<M: Paginated> Paginator<M> {
    /// Starts to fetch a page, within the rest of the total timeout.
    fn fetch(&self, cursor: Option<String>) -> Result<PageFuture<M>> {
        if let Some(error) = self.timeout_error() {
            return Err(error);
        }
        let (client, mut options) = (self.client.clone(), self.options.clone());
        options.total_timeout = self.total_timeout().map(|total| total.saturating_sub(self.time_spent));
        options.result_bytes = Some(Arc::clone(&self.bytes_read));
        Ok(Box::pin(async move {
            let start = Instant::now();
            let mut params = PaginatedParams::new();
            params.cursor = cursor;
            let page = client.send_request::<M>(&params, &options).await;
            (page, start.elapsed())
        }))
    }

    /// Whether the server refused the cursor of a page.
    fn is_invalid_cursor(&self, error: &ClientError) -> bool {
        self.pages_read > 0 && error.code() == Some(code::INVALID_PARAMS)
    }

    /// Whether the list can be read only from the start, with new cursors.
    fn must_start_over(&self, error: &ClientError) -> bool {
        self.is_invalid_cursor(error) || self.pages_read > 0 && self.session_has_ended()
    }

    /// Whether the cursors belong to a session that has ended.
    fn session_has_ended(&self) -> bool {
        let expired = |connection| cursor_has_expired(&self.options, &connection);
        self.client.last_connection().is_some_and(expired)
    }

    /// Forgets the pages read so far, but not their bytes and their time.
    fn start_over(&mut self) {
        self.buffered.clear();
        self.seen_cursors.clear();
        self.next_page = NextPage::First;
        self.pages_read = 0;
        self.options.list_connection = Some(ListConnection::default());
    }

    /// The timeout of the whole list.
    fn total_timeout(&self) -> Option<Duration> {
        self.options.timeouts(&self.client.inner.shared.settings).total_timeout
    }

    /// The error of a list that has taken longer than its timeout.
    fn timeout_error(&self) -> Option<ClientError> {
        let limit = self.total_timeout().filter(|total| self.time_spent >= *total)?;
        Some(ErrorKind::TimedOut { limit, kind: TimeoutKind::Total }.into())
    }
}

fn endless_list_error(reason: &str, pages: usize) -> ClientError {
    ErrorKind::TooLarge(format!("stopped reading the list after {pages} pages: {reason}")).into()
}

impl<M: Paginated> Stream for Paginator<M>
where
    Self: Unpin,
{
    type Item = Result<M::Item>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll(cx)
    }
}

impl<M: Paginated> IntoFuture for Paginator<M> {
    type Output = Result<Vec<M::Item>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(mut self) -> Self::IntoFuture {
        Box::pin(async move {
            let (mut items, mut started_over) = (Vec::new(), false);
            while let Some(item) = self.next().await {
                match item {
                    Ok(item) => items.push(item),
                    Err(error) if !started_over && self.must_start_over(&error) => {
                        started_over = true;
                        items.clear();
                        self.start_over();
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(items)
        })
    }
}
