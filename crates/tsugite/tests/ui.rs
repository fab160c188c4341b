//! Snapshots of the compile errors of the macros. `TRYBUILD=overwrite cargo test -p tsugite --test ui` rewrites them.

#[test]
fn compile_errors_match_the_snapshots() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
