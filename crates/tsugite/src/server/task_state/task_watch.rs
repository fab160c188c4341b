//! Waits for changes of tasks, wherever they happen.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Notify;

use crate::lock::lock;

/// Waits for changes of some tasks. Dropping it ends that.
#[derive(Default)]
pub(crate) struct TaskWatch {
    changed: Mutex<HashSet<String>>,
    notify: Notify,
}

impl TaskWatch {
    /// Waits for changes and returns the names of the tasks that have changed.
    pub(crate) async fn changed(&self) -> HashSet<String> {
        loop {
            let notified = self.notify.notified();
            let changed = std::mem::take(&mut *lock(&self.changed));
            if !changed.is_empty() {
                return changed;
            }
            notified.await;
        }
    }

    fn mark(&self, name: &str) {
        lock(&self.changed).insert(name.to_owned());
        self.notify.notify_one();
    }
}

/// The watches of each task, by the digest of its id.
#[derive(Default)]
pub(super) struct TaskWatches(Mutex<HashMap<String, Vec<Weak<TaskWatch>>>>);

impl TaskWatches {
    pub(super) fn add(&self, names: impl IntoIterator<Item = String>) -> Arc<TaskWatch> {
        let watch = Arc::new(TaskWatch::default());
        let mut watches = lock(&self.0);
        // Dropped ones are removed when they may be half of the map, so the amortized cost is constant.
        if watches.len() == watches.capacity() {
            watches.retain(|_, known| {
                known.retain(|watch| watch.strong_count() > 0);
                !known.is_empty()
            });
        }
        for name in names {
            let known = watches.entry(name).or_default();
            known.retain(|watch| watch.strong_count() > 0);
            known.push(Arc::downgrade(&watch));
        }
        watch
    }

    pub(super) fn mark(&self, name: &str) {
        let watches = lock(&self.0).get(name).cloned().unwrap_or_default();
        watches.iter().filter_map(Weak::upgrade).for_each(|watch| watch.mark(name));
    }

    /// Marks every task, because changes may have been missed.
    pub(super) fn mark_all(&self) {
        let watches: Vec<_> =
            lock(&self.0).iter().map(|(name, watches)| (name.clone(), watches.clone())).collect();
        for (name, watches) in watches {
            watches.iter().filter_map(Weak::upgrade).for_each(|watch| watch.mark(&name));
        }
    }
}
