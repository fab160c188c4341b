//! Sets of revisions, and negotiation.

use std::fmt;

use super::Revision;

/// A set of revisions, such as those a server serves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Revisions(u8);

impl Revisions {
    /// The empty set.
    pub const NONE: Revisions = Revisions(0);

    /// All revisions.
    pub const ALL: Revisions = Revisions(0b1_1111);

    /// The set with `revision` in it.
    #[must_use]
    pub const fn with(self, revision: Revision) -> Self {
        Revisions(self.0 | 1 << revision as u8)
    }

    /// The set without `revision`.
    #[must_use]
    pub const fn without(self, revision: Revision) -> Self {
        Revisions(self.0 & !(1 << revision as u8))
    }

    /// Whether `revision` is in it.
    pub const fn contains(self, revision: Revision) -> bool {
        self.0 & 1 << revision as u8 != 0
    }

    /// The revisions in the set, newest first: in order of preference.
    pub fn newest_first(self) -> impl Iterator<Item = Revision> {
        Revision::ALL.into_iter().rev().filter(move |revision| self.contains(*revision))
    }

    /// The revisions with a handshake.
    #[must_use]
    pub fn handshake(self) -> Self {
        self.newest_first().filter(|revision| !revision.is_stateless()).collect()
    }

    /// The stateless revisions.
    #[must_use]
    pub fn stateless(self) -> Self {
        self.newest_first().filter(|revision| revision.is_stateless()).collect()
    }

    /// The revision to encode errors for before one is negotiated: the oldest, unless only stateless revisions are
    /// served.
    pub fn error_fallback(self) -> Revision {
        if self.handshake().is_empty() { Revision::NEWEST } else { Revision::OLDEST }
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names, as in `supportedVersions` and in error data.
    pub fn names(self) -> Vec<&'static str> {
        self.newest_first().map(Revision::as_str).collect()
    }

    /// The revision for the result of an `initialize` that offers `offered`: that one if it is served, otherwise the
    /// newest served. Only revisions with a handshake count, so the offer of a stateless one gets another.
    ///
    /// `None` if no revision with a handshake is served.
    pub fn negotiate(self, offered: &str) -> Option<Revision> {
        let served = self.handshake();
        let asked = offered.parse().ok().filter(|revision| served.contains(*revision));
        asked.or_else(|| served.newest_first().next())
    }

    /// The newest revision in the set that the other side names too.
    pub fn newest_common<'a>(self, theirs: impl IntoIterator<Item = &'a str>) -> Option<Revision> {
        let theirs: Revisions = theirs.into_iter().filter_map(|name| name.parse().ok()).collect();
        self.newest_first().find(|revision| theirs.contains(*revision))
    }
}

impl FromIterator<Revision> for Revisions {
    fn from_iter<I: IntoIterator<Item = Revision>>(revisions: I) -> Self {
        revisions.into_iter().fold(Revisions::NONE, Revisions::with)
    }
}

impl fmt::Debug for Revisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_offer_is_accepted() {
        // LIFE-011
        for revision in Revisions::ALL.handshake().newest_first() {
            assert_eq!(Revisions::ALL.negotiate(revision.as_str()), Some(revision));
        }
    }

    #[test]
    fn other_offer_gets_the_newest_served_handshake_revision() {
        // LIFE-012, LIFE-013; VER-036: an unknown later date is not a newer revision.
        let newest = Some(Revision::V2025_11_25);
        for offer in ["2026-07-28", "1999-01-01", "", "9999-99-99"] {
            assert_eq!(Revisions::ALL.negotiate(offer), newest);
        }
        let old = Revisions::NONE.with(Revision::V2024_11_05).with(Revision::V2026_07_28);
        assert_eq!(old.negotiate("2025-11-25"), Some(Revision::V2024_11_05));
        assert_eq!(Revisions::ALL.stateless().negotiate("2025-11-25"), None);
    }

    #[test]
    fn newest_common_revision_is_chosen() {
        // VER-037
        let ours = Revisions::ALL.without(Revision::V2026_07_28);
        assert_eq!(
            ours.newest_common(["2024-11-05", "2026-07-28", "2025-06-18"]),
            Some(Revision::V2025_06_18)
        );
        assert_eq!(ours.newest_common(["2026-07-28", "what"]), None);
        assert_eq!(Revisions::ALL.names().first(), Some(&"2026-07-28"));
    }
}
