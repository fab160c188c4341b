//! What the macros say to whoever made a mistake. `TRYBUILD=overwrite cargo test -p tsugite --test ui` writes the
//! snapshots anew.

#[test]
fn mistakes_are_told_in_short_words() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
