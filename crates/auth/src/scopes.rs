//! Which scopes are asked for.

use std::collections::HashSet;

/// The scopes in a text, which separates them by spaces, without repetition.
pub(crate) fn parse(text: &str) -> Vec<String> {
    // A set, because a peer may send thousands of them.
    let mut seen = HashSet::new();
    text.split(' ').filter(|scope| !scope.is_empty() && seen.insert(*scope)).map(str::to_owned).collect()
}

/// The union of both, in the order in which they were first asked for.
pub(crate) fn union(known: &[String], more: &[String]) -> Vec<String> {
    let mut all = known.to_vec();
    add(&mut all, more.iter().cloned());
    all
}

/// The scopes of a first login: those that the application set, else those of the challenge, else those that the server
/// lists, else none. `offline_access` is added where the authorization server offers it, so that a refresh token is issued.
pub(crate) fn select(
    set: Option<&[String]>,
    challenge: Option<&str>,
    resource: Option<&[String]>,
    offered: Option<&[String]>,
    wants_refresh: bool,
) -> Vec<String> {
    let mut scopes = match (set, challenge, resource) {
        (Some(set), _, _) => set.to_vec(),
        (None, Some(challenge), _) => parse(challenge),
        (None, None, Some(listed)) => listed.to_vec(),
        (None, None, None) => Vec::new(),
    };
    let is_offered = offered.is_some_and(|offered| offered.iter().any(|scope| scope == OFFLINE_ACCESS));
    if wants_refresh && is_offered {
        add(&mut scopes, [OFFLINE_ACCESS.to_owned()]);
    }
    scopes
}

fn add(all: &mut Vec<String>, more: impl IntoIterator<Item = String>) {
    for scope in more {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
}

/// The scope that a refresh token needs at some authorization servers.
pub(crate) const OFFLINE_ACCESS: &str = "offline_access";

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        parse(text)
    }

    #[test]
    fn challenge_comes_before_metadata() {
        // ACL-050, ACL-051, ACL-052
        let listed = list("a b c");
        assert_eq!(select(None, Some("b x"), Some(&listed), None, true), list("b x"));
        assert_eq!(select(None, None, Some(&listed), None, true), listed);
        assert!(select(None, None, None, None, true).is_empty());
        assert_eq!(select(Some(&list("mine")), Some("b"), Some(&listed), None, true), list("mine"));
    }

    #[test]
    fn offline_access_is_added_only_where_offered() {
        // ACL-059
        let offered = list("a offline_access");
        assert_eq!(select(None, Some("a"), None, Some(&offered), true), list("a offline_access"));
        assert_eq!(select(None, Some("a"), None, Some(&offered), false), list("a"));
        assert_eq!(select(None, Some("a"), None, Some(&list("a")), true), list("a"));
    }

    #[test]
    fn union_keeps_earlier_scopes() {
        // ACL-055, C-19
        assert_eq!(union(&list("a b"), &list("b c")), list("a b c"));
    }
}
