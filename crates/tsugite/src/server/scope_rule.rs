//! The rule which scopes include others, and the syntax of scopes.

use std::sync::Arc;

/// Decides whether a granted scope includes a needed one.
pub(crate) type ScopeRule = Arc<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// Checks the scopes of an item (RFC 6749, section 3.3).
pub(crate) fn check_scope_names(kind: &str, name: &str, scopes: &[String]) -> Result<(), String> {
    let is_valid = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    match scopes.iter().find(|scope| scope.is_empty() || !scope.bytes().all(is_valid)) {
        Some(wrong) => Err(format!(
            "the {kind} {name:?} needs the scope {wrong:?}; a scope is visible ASCII without spaces, `\"` and `\\`"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_names_are_checked() {
        let check = |scope: &str| check_scope_names("tool", "t", &[scope.to_owned()]);
        assert!(check("notes:write").is_ok() && check("https://h/a.b-c").is_ok());
        for wrong in ["", "a b", "a\"", "a\\", "ä"] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }
}
