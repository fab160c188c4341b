//! Links, FIFOs, sockets and names that only Unix has.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use super::super::{FileError, open_beneath, read_file};
use super::{MAX_BYTES, Tree, assert_not_found, run_with_timeout};

impl Tree {
    fn link(self, relative: &str, to: impl AsRef<Path>) -> Self {
        fs::create_dir_all(self.path(relative).parent().unwrap()).unwrap();
        symlink(to, self.path(relative)).unwrap();
        self
    }

    fn fifo(self, relative: &str) -> Self {
        assert!(Command::new("mkfifo").arg(self.path(relative)).status().unwrap().success());
        self
    }
}

#[test]
fn odd_name_is_refused_though_the_file_exists() {
    // F-09
    let odd =
        Tree::new().with("a\\b", "one").with("c:d", "two").with("e\nf", "three").with("g:h/C:i", "four");
    for relative in ["a\\b", "c:d", "e\nf", "g:h/C:i"] {
        assert_not_found(&odd, relative);
    }
    assert!(odd.list().is_empty(), "{:?}", odd.list());
}

#[test]
fn file_with_holes_counts_with_its_full_size() {
    let tree = Tree::new();
    File::create(tree.path("sparse")).unwrap().set_len(1 << 40).unwrap();
    assert!(matches!(tree.read("sparse"), Err(FileError::TooLarge { size: 0x100_0000_0000, .. })));
}

#[test]
fn link_counts_as_its_target() {
    let tree = Tree::new().with("sub/a.txt", "one").link("inside", "sub/a.txt").link("folder", "sub");
    let tree = tree.link("out", "../secret.txt").link("up", "..").link("nowhere", "gone").link("me", "me");
    let (secret, beside) = (tree.0.join("secret.txt"), tree.0.join("docs-beside"));
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("a.txt"), "secret").unwrap();
    let absolute = tree.path("sub/a.txt");
    let tree =
        tree.link("absolute", absolute).link("far", secret).link("chain", "out").link("beside", beside);
    for relative in ["inside", "folder/a.txt", "absolute"] {
        assert_eq!(tree.text(relative), "one", "{relative}");
    }
    let leaving =
        ["out", "up/secret.txt", "up/docs/sub/a.txt/x", "far", "chain", "beside/a.txt", "nowhere", "me"];
    for relative in leaving {
        assert_not_found(&tree, relative);
    }
    assert!(matches!(tree.read("folder"), Err(FileError::NotAFile)));
    assert_eq!(tree.list(), ["absolute", "inside", "sub/a.txt"]);
}

#[test]
fn link_swapped_in_later_is_not_followed() {
    let tree = Tree::new().with("sub/a.txt", "one").link("folder", "sub").link("file", "sub/a.txt");
    let open = |inside: &str| open_beneath(&tree.directory().root, Path::new(inside));
    assert!(open("sub/a.txt").is_ok());
    for inside in ["folder/a.txt", "file", "../secret.txt", "/etc/passwd"] {
        assert!(matches!(open(inside), Err(FileError::NotFound)), "{inside}");
    }
}

#[test]
fn only_regular_files_are_read_and_nothing_blocks() {
    let tree = Tree::new().with("sub/a.txt", "one").fifo("fifo").link("link", "fifo");
    let _socket = UnixListener::bind(tree.path("socket")).unwrap();
    for relative in ["sub", "fifo", "link", "socket"] {
        let read = tree.read(relative);
        assert!(matches!(read, Err(FileError::NotAFile)), "{relative}: {read:?}");
    }
    assert_eq!(tree.list(), ["sub/a.txt"]);
    for path in
        [tree.path("fifo"), tree.path("socket"), tree.path("sub"), "/dev/zero".into(), "/dev/tty".into()]
    {
        let read = run_with_timeout({
            let path = path.clone();
            move || read_file(&path, MAX_BYTES)
        });
        assert!(matches!(read, Err(FileError::NotAFile)), "{path:?}: {read:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn file_without_a_size_is_read_up_to_the_limit() {
    let status = Path::new("/proc/self/status");
    assert_eq!(status.metadata().unwrap().len(), 0);
    assert!(matches!(read_file(status, 100), Err(FileError::TooLarge { size: 101, max: 100 })));
    assert!(read_file(status, 1 << 20).unwrap().size > 100);
}

#[test]
fn cyclic_and_branching_links_are_handled() {
    let tree = Tree::new().with("a/file", "one").link("a/up", "..").link("a/here", ".").link("loop", "loop");
    assert_eq!(tree.list(), ["a/file"]);
    let fan = (0..30).fold(Tree::new().with(".30/file", "one"), |tree, step| {
        let next = format!("../.{}", step + 1);
        tree.link(&format!(".{step}/x"), &next).link(&format!(".{step}/y"), &next)
    });
    let fan = fan.link("way", ".0").link("way2", ".0");
    assert_eq!(fan.list(), [format!("way/{}file", "x/".repeat(30))]);
}

#[test]
fn hidden_folder_is_listed_under_a_link_to_it() {
    // As Kubernetes mounts a ConfigMap.
    let tree = Tree::new().with("..2026/key", "one").with("..2026/sub/key", "two").link("..data", "..2026");
    let tree = tree.link("key", "..data/key").link("sub", "..data/sub");
    assert_eq!(tree.list(), ["key", "sub/key"]);
    assert_eq!(tree.text("key"), "one");
    assert_eq!(tree.text("sub/key"), "two");
}

#[cfg(target_os = "linux")]
#[test]
fn non_utf_8_names_are_omitted() {
    let tree = Tree::new().with("a", "one");
    fs::write(tree.path("").join(OsStr::from_bytes(b"\xff")), "two").unwrap();
    assert_eq!(tree.list(), ["a"]);
}
