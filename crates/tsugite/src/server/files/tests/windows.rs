//! Names with a meaning of their own on Windows, and other names of the same file.

use std::fs;
use std::path::Path;

use super::super::may_be_reached;
use super::{Tree, assert_not_found};

#[test]
fn device_stream_and_trimmed_name_are_not_found() {
    // F-09
    let tree = Tree::new().with("a.txt", "one").with("sub/b.txt", "two");
    for relative in [
        "NUL",
        "nul.txt",
        "CON",
        "CONIN$",
        "com1",
        "COM1.txt",
        "LPT²",
        "sub/NUL",
        "sub/aux.md",
        "NUL/a.txt",
        "a.txt:b",
        "a.txt::$DATA",
        "sub::$INDEX_ALLOCATION/b.txt",
        "a.txt.",
        "a.txt ",
        "a.txt. .",
        "sub./b.txt",
        "sub /b.txt",
        "a.tx?",
        "*",
    ] {
        assert_not_found(&tree, relative);
    }
    assert_eq!(tree.text("A.TXT"), "one", "names are compared without case");
    assert_eq!(tree.text("SUB/b.txt"), "two");
}

#[test]
fn short_name_of_a_hidden_file_is_not_found() {
    // F-09: where the file system makes no short names, there is nothing under them.
    let tree = Tree::new().with(".git/config", "url").with(".environment", "key").with("a.txt", "one");
    for relative in ["GIT~1/config", "git~1/CONFIG", "ENVIRO~1", ".GIT/config", ".ENVIRONMENT"] {
        assert_not_found(&tree, relative);
    }
    assert_eq!(tree.list(), ["a.txt"]);
}

#[test]
fn canonical_path_with_a_hidden_name_is_refused() {
    for path in [r".git\config", r"sub\.env", r"sub\.b\c.txt", r"sub\com1", "a.txt:b"] {
        assert!(!may_be_reached(Path::new(path)), "{path}");
    }
    for path in ["", "a.txt", r"sub\b c.txt", "GIT~1", "継手"] {
        assert!(may_be_reached(Path::new(path)), "{path}");
    }
}

#[test]
fn folder_of_an_open_file_is_free_afterwards() {
    let tree = Tree::new().with("sub/a.txt", "one");
    assert_eq!(tree.text("sub/a.txt"), "one");
    fs::rename(tree.path("sub"), tree.path("other")).unwrap();
    assert_eq!(tree.text("other/a.txt"), "one");
}
