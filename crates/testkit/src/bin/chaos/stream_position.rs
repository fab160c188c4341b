//! Where a client is in a stream: it sees every event once, in the order of their numbers.

use tsugite_testkit::http::SseEvent;

/// The position in one stream, over all connections that carried it.
#[derive(Debug, Default)]
pub(crate) struct StreamPosition {
    last_id: Option<String>,
    last_number: u64,
    count: u64,
}

impl StreamPosition {
    /// The id to resume after.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How many events with data were seen.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Accepts the next event. Returns false if it only names a position, and an error if it was seen before or belongs to
    /// another stream.
    pub(crate) fn accept(&mut self, event: &SseEvent) -> Result<bool, String> {
        let has_data = !event.data.is_empty();
        let Some(id) = &event.id else {
            self.count += u64::from(has_data);
            return Ok(has_data);
        };
        let Some((stream, number)) = parse(id) else { return Err(format!("an unknown event id: {id}")) };
        if let Some((known, _)) = self.last_id.as_deref().and_then(parse)
            && known != stream
        {
            return Err(format!("event {id} of another stream, after {:?}", self.last_id));
        }
        if has_data && self.last_id.is_some() && number <= self.last_number {
            return Err(format!("event {id} was seen before, after {:?}", self.last_id));
        }
        if !has_data && number < self.last_number {
            return Err(format!("position {id} is before {:?}", self.last_id));
        }
        self.last_id = Some(id.clone());
        self.last_number = number;
        self.count += u64::from(has_data);
        Ok(has_data)
    }
}

/// An id is `STREAM-NUMBER`.
fn parse(id: &str) -> Option<(&str, u64)> {
    let (stream, number) = id.rsplit_once('-')?;
    Some((stream, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, data: &str) -> SseEvent {
        SseEvent { id: Some(id.to_owned()), event: None, retry: None, data: data.to_owned() }
    }

    #[test]
    fn repeated_event_is_an_error() {
        let mut position = StreamPosition::default();
        assert_eq!(position.accept(&event("a-0", "")), Ok(false));
        assert_eq!(position.accept(&event("a-1", "{}")), Ok(true));
        assert_eq!(position.accept(&event("a-1", "")), Ok(false));
        assert!(position.accept(&event("a-1", "{}")).is_err());
        assert_eq!(position.accept(&event("a-3", "{}")), Ok(true));
        assert!(position.accept(&event("a-2", "{}")).is_err());
    }

    #[test]
    fn event_of_another_stream_is_an_error() {
        let mut position = StreamPosition::default();
        assert_eq!(position.accept(&event("a-1", "{}")), Ok(true));
        assert!(position.accept(&event("b-2", "{}")).is_err());
    }
}
