//! Room for what runs: how many handlers at once, and how many streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use super::link::Link;
use super::principal::Principal;
use crate::lock::lock;

/// How many handlers may run at once, for one peer or for all of a server's.
pub(crate) struct Room {
    pub(super) permits: Arc<Semaphore>,
    /// For handlers that block: a thread keeps its place until it is done, also if its call was cancelled.
    pub(super) places: Arc<Semaphore>,
    /// How many streams may be open, and how many are.
    streams: usize,
    open: AtomicUsize,
    /// How many streams of changes each authenticated caller has, where they belong to no session.
    each: Mutex<HashMap<(String, String), usize>>,
}

impl Room {
    pub(crate) fn new(handlers: usize, streams: usize) -> Arc<Self> {
        let places = || Arc::new(Semaphore::new(handlers));
        let (open, each) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { permits: places(), places: places(), streams, open, each })
    }

    /// Counts a stream for as long as it is held; none if there are too many.
    pub(crate) fn open(self: &Arc<Self>) -> Option<OpenStream> {
        if self.open.fetch_add(1, Ordering::AcqRel) >= self.streams {
            self.open.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        Some(OpenStream { room: self.clone(), who: None, link: None })
    }
}

/// A stream that counts.
pub(crate) struct OpenStream {
    room: Arc<Room>,
    /// The issuer and the subject.
    who: Option<(String, String)>,
    /// The link it belongs to, and how many resources it names.
    link: Option<(Arc<Link>, usize)>,
}

impl OpenStream {
    /// Counts it among those of a caller too; none if that has `most` already.
    pub(super) fn counted_for(mut self, who: &Principal, most: usize) -> Option<Self> {
        let who = (who.issuer().to_owned(), who.subject().to_owned());
        let mut each = lock(&self.room.each);
        let count = each.entry(who.clone()).or_default();
        if *count >= most {
            drop(each);
            return None;
        }
        *count += 1;
        drop(each);
        self.who = Some(who);
        Some(self)
    }

    /// Lets a link know when it ends.
    pub(super) fn belongs_to(&mut self, link: &Arc<Link>, resources: usize) {
        self.link = Some((link.clone(), resources));
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.room.open.fetch_sub(1, Ordering::AcqRel);
        if let Some(who) = &self.who {
            let mut each = lock(&self.room.each);
            if let Some(count) = each.get_mut(who) {
                *count -= 1;
                if *count == 0 {
                    each.remove(who);
                }
            }
        }
        if let Some((link, resources)) = &self.link {
            link.close_stream(*resources);
        }
    }
}
