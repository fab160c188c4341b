//! Counts the records that this process created in the store until they expire: tasks, and calls with a key.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::caller_key::CallerKey;

/// The limits on the records of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordLimits {
    pub(crate) records: RecordLimit,
    pub(crate) records_per_caller: RecordLimit,
    pub(crate) bytes: RecordLimit,
    pub(crate) bytes_per_caller: RecordLimit,
}

/// One limit, and the setting that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordLimit {
    pub(crate) setting: &'static str,
    pub(crate) value: usize,
}

impl RecordLimit {
    pub(crate) fn new(setting: &'static str, value: usize) -> Self {
        Self { setting, value }
    }
}

/// The records that this process created and that are not expired.
#[derive(Default)]
pub(crate) struct RecordCounts {
    records: HashMap<String, CountedRecord>,
    callers: HashMap<CallerKey, Usage>,
    bytes: usize,
}

struct CountedRecord {
    caller: Option<CallerKey>,
    bytes: usize,
    expires: Instant,
}

#[derive(Default, Clone, Copy)]
struct Usage {
    records: usize,
    bytes: usize,
}

impl RecordCounts {
    /// Counts a new record. Fails with the limit that it would exceed. If nothing is known about the caller, only the totals
    /// hold.
    pub(crate) fn add(
        &mut self,
        id: &str,
        caller: Option<CallerKey>,
        bytes: usize,
        ttl: Duration,
        limits: &RecordLimits,
    ) -> Result<(), RecordLimit> {
        // One that has expired meanwhile.
        self.remove(id);
        if self.exceeded(caller.as_ref(), 1, bytes, limits).is_some() {
            self.remove_expired();
        }
        if let Some(limit) = self.exceeded(caller.as_ref(), 1, bytes, limits) {
            return Err(limit);
        }
        if let Some(caller) = &caller {
            let usage = self.callers.entry(caller.clone()).or_default();
            (usage.records, usage.bytes) = (usage.records + 1, usage.bytes + bytes);
        }
        self.bytes += bytes;
        self.records.insert(id.to_owned(), CountedRecord { caller, bytes, expires: after(ttl) });
        Ok(())
    }

    /// Counts more bytes for a record. A record of another process is not counted here.
    pub(crate) fn grow(&mut self, id: &str, bytes: usize, limits: &RecordLimits) -> Result<(), RecordLimit> {
        let Some(caller) = self.records.get(id).map(|record| record.caller.clone()) else {
            self.remove_expired();
            let exceeds = self.bytes.saturating_add(bytes) > limits.bytes.value;
            return if exceeds { Err(limits.bytes) } else { Ok(()) };
        };
        if self.exceeded(caller.as_ref(), 0, bytes, limits).is_some() {
            self.remove_expired();
        }
        if let Some(limit) = self.exceeded(caller.as_ref(), 0, bytes, limits) {
            return Err(limit);
        }
        if let Some(record) = self.records.get_mut(id) {
            record.bytes += bytes;
            self.bytes += bytes;
            if let Some(usage) = caller.and_then(|caller| self.callers.get_mut(&caller)) {
                usage.bytes += bytes;
            }
        }
        Ok(())
    }

    /// Whether a record is counted here.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.records.contains_key(id)
    }

    /// Counts fewer bytes for a record.
    pub(crate) fn shrink(&mut self, id: &str, bytes: usize) {
        if let Some(counted) = self.records.get(id).map(|record| record.bytes) {
            self.set_bytes(id, counted.saturating_sub(bytes));
        }
    }

    /// Counts exactly so many bytes for a record, whatever the limits are.
    pub(crate) fn set_bytes(&mut self, id: &str, bytes: usize) {
        let Some(record) = self.records.get_mut(id) else { return };
        let before = std::mem::replace(&mut record.bytes, bytes);
        self.bytes = (self.bytes + bytes).saturating_sub(before);
        let caller = record.caller.as_ref();
        if let Some(usage) = caller.and_then(|caller| self.callers.get_mut(caller)) {
            usage.bytes = (usage.bytes + bytes).saturating_sub(before);
        }
    }

    /// Counts a record for so long from now on.
    pub(crate) fn set_ttl(&mut self, id: &str, ttl: Duration) {
        if let Some(record) = self.records.get_mut(id) {
            record.expires = after(ttl);
        }
    }

    /// Counts a record no longer.
    pub(crate) fn remove(&mut self, id: &str) {
        let Some(record) = self.records.remove(id) else { return };
        self.bytes = self.bytes.saturating_sub(record.bytes);
        let Some(caller) = record.caller else { return };
        if let Some(usage) = self.callers.get_mut(&caller) {
            usage.records = usage.records.saturating_sub(1);
            usage.bytes = usage.bytes.saturating_sub(record.bytes);
            if usage.records == 0 {
                self.callers.remove(&caller);
            }
        }
    }

    fn exceeded(
        &self,
        caller: Option<&CallerKey>,
        records: usize,
        bytes: usize,
        limits: &RecordLimits,
    ) -> Option<RecordLimit> {
        let of_caller = caller.map(|caller| self.callers.get(caller).copied().unwrap_or_default());
        let used = [
            (Some(self.records.len() + records), limits.records),
            (of_caller.map(|used| used.records + records), limits.records_per_caller),
            (Some(self.bytes.saturating_add(bytes)), limits.bytes),
            (of_caller.map(|used| used.bytes.saturating_add(bytes)), limits.bytes_per_caller),
        ];
        let exceeded = used.into_iter().find(|(used, limit)| used.is_some_and(|used| used > limit.value));
        exceeded.map(|(_, limit)| limit)
    }

    fn remove_expired(&mut self) {
        let now = Instant::now();
        let expired: Vec<_> = self
            .records
            .iter()
            .filter(|(_, record)| record.expires <= now)
            .map(|(id, _)| id.clone())
            .collect();
        expired.iter().for_each(|id| self.remove(id));
    }
}

/// Limited, because adding `Duration::MAX` would overflow.
fn after(ttl: Duration) -> Instant {
    Instant::now() + ttl.min(Duration::from_secs(1 << 32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::principal::Principal;

    fn limits() -> RecordLimits {
        RecordLimits {
            records: RecordLimit::new("records", 3),
            records_per_caller: RecordLimit::new("records per caller", 2),
            bytes: RecordLimit::new("bytes", 100),
            bytes_per_caller: RecordLimit::new("bytes per caller", 90),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_limit_holds_until_a_record_expires() {
        let limits = limits();
        let ann = || CallerKey::new(Some(&Principal::new("ann")), None);
        let ben = || CallerKey::new(Some(&Principal::new("ben")), None);
        let second = Duration::from_secs(1);
        let mut counts = RecordCounts::default();
        assert_eq!(counts.add("1", ann(), 10, second, &limits), Ok(()));
        assert_eq!(counts.add("2", ann(), 10, second, &limits), Ok(()));
        assert_eq!(counts.add("3", ann(), 10, second, &limits), Err(limits.records_per_caller));
        assert_eq!(counts.add("3", ben(), 81, second, &limits), Err(limits.bytes));
        assert_eq!(counts.grow("1", 71, &limits), Err(limits.bytes_per_caller));
        assert_eq!(counts.add("3", None, 10, second, &limits), Ok(()));
        assert_eq!(counts.add("4", ben(), 1, second, &limits), Err(limits.records));
        assert_eq!(counts.grow("3", 71, &limits), Err(limits.bytes));
        assert_eq!(counts.grow("3", 70, &limits), Ok(()));
        assert_eq!(counts.grow("of another process", 1, &limits), Err(limits.bytes));
        counts.set_bytes("3", 10);
        assert_eq!(counts.grow("3", 71, &limits), Err(limits.bytes));
        assert_eq!(counts.grow("3", 70, &limits), Ok(()));
        tokio::time::advance(second).await;
        assert_eq!(counts.add("4", ben(), 90, second, &limits), Ok(()));
        counts.remove("4");
        assert!(counts.records.is_empty() && counts.callers.is_empty() && counts.bytes == 0);
    }

    #[test]
    fn addresses_are_counted_apart() {
        let limits = limits();
        let address = |last: u8| CallerKey::new(None, Some([10, 0, 0, last].into()));
        let mut counts = RecordCounts::default();
        let mut add = |id, caller| counts.add(id, caller, 1, Duration::from_secs(1), &limits);
        assert_eq!((add("1", address(1)), add("2", address(1))), (Ok(()), Ok(())));
        assert_eq!(add("3", address(1)), Err(limits.records_per_caller));
        assert_eq!(add("3", address(2)), Ok(()));
    }

    #[test]
    fn unknown_caller_may_use_the_totals() {
        let limits = limits();
        let mut counts = RecordCounts::default();
        for id in ["1", "2", "3"] {
            assert_eq!(counts.add(id, None, 30, Duration::from_secs(1), &limits), Ok(()));
        }
        assert_eq!(counts.grow("1", 10, &limits), Ok(()));
        assert_eq!(counts.grow("1", 1, &limits), Err(limits.bytes));
        assert_eq!(counts.add("4", None, 0, Duration::from_secs(1), &limits), Err(limits.records));
    }
}
