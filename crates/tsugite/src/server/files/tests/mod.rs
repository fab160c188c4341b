//! Tests of files and folders as resources.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::content::file_body;
use super::walk::FileEntry;
use super::*;

/// `docs`, which is served, and `secret.txt` beside it. Removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("tsugite-files-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let tree = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(tree.path("")).unwrap();
        fs::write(tree.0.join("secret.txt"), "secret").unwrap();
        tree
    }

    fn path(&self, relative: &str) -> PathBuf {
        self.0.join("docs").join(relative)
    }

    fn with(self, relative: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::create_dir_all(self.path(relative).parent().unwrap()).unwrap();
        fs::write(self.path(relative), bytes).unwrap();
        self
    }

    fn directory(&self) -> Directory {
        Directory::new(&self.path("")).unwrap()
    }

    fn read(&self, relative: &str) -> Result<FileBody, FileError> {
        let (folder, relative) = (self.directory(), relative.to_owned());
        run_with_timeout(move || folder.read(&relative, MAX_BYTES))
    }

    fn text(&self, relative: &str) -> String {
        match self.read(relative).unwrap().content {
            FileContent::Text(text) => text,
            FileContent::Blob(bytes) => panic!("{bytes:?}"),
        }
    }

    fn list(&self) -> Vec<String> {
        let folder = self.directory();
        let listing = run_with_timeout(move || folder.list(1000)).unwrap();
        assert!(!listing.truncated);
        listing.files.into_iter().map(|file| file.path).collect()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MAX_BYTES: u64 = 100;

/// Fails if `work` blocks, so that the tests end.
fn run_with_timeout<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    result.recv_timeout(Duration::from_secs(20)).expect("it blocks")
}

#[track_caller]
fn assert_not_found(tree: &Tree, relative: &str) {
    let read = tree.read(relative);
    assert!(matches!(read, Err(FileError::NotFound)), "{relative:?}: {read:?}");
}

#[test]
fn files_in_the_folder_are_read() {
    let tree = Tree::new().with("a.txt", "one").with("sub/deep/b c.md", "# two").with("継手", "three");
    assert_eq!(tree.text("a.txt"), "one");
    assert_eq!(tree.text("sub/deep/b c.md"), "# two");
    assert_eq!(tree.text("継手"), "three");
    let body = tree.read("sub/deep/b c.md").unwrap();
    assert_eq!((body.mime, body.size), ("text/markdown", 5));
    assert_not_found(&tree, "b.txt");
    assert_not_found(&tree, "a.txt/b");
    assert_not_found(&tree, &"a".repeat(300));
    assert_not_found(&tree, &"a/".repeat(500_000));
}

#[test]
fn no_path_leads_out_of_the_folder() {
    // F-09, F-10
    let tree = Tree::new().with("a.txt", "one").with("sub/b.txt", "two");
    let secret = tree.0.join("secret.txt");
    let bad = [
        "",
        "/",
        "..",
        ".",
        "../secret.txt",
        "sub/../../secret.txt",
        "sub/../a.txt",
        "./a.txt",
        "sub/./b.txt",
        "sub//b.txt",
        "/a.txt",
        "a.txt/",
        "sub/",
        "//secret.txt",
        "//server/share/a.txt",
        "\\\\server\\share",
        "..\\secret.txt",
        "sub\\b.txt",
        "sub\\..\\..\\secret.txt",
        "C:a.txt",
        "c:/a.txt",
        "C:\\a.txt",
        "\\\\?\\C:\\a.txt",
        "a.txt\0",
        "a.txt\0.png",
        "\0",
        "a.txt\n",
        "a\u{1b}.txt",
        "a\u{7f}.txt",
        "a\u{85}.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "%2e%2e%2fsecret.txt",
        "..;/secret.txt",
        "...",
        "\u{ff0e}\u{ff0e}/secret.txt",
        "file:///etc/passwd",
        "~/secret.txt",
        secret.to_str().unwrap(),
    ];
    for relative in bad {
        assert_not_found(&tree, relative);
    }
}

#[test]
fn hidden_files_cannot_be_guessed() {
    let tree = Tree::new().with(".env", "key").with(".git/config", "url").with("sub/.b/c", "three");
    for relative in [".env", ".git/config", "sub/.b/c"] {
        assert_not_found(&tree, relative);
    }
    assert!(tree.list().is_empty());
}

#[test]
fn too_large_file_is_not_read() {
    let tree = Tree::new()
        .with("just.txt", [b'a'; MAX_BYTES as usize])
        .with("over.txt", [b'a'; MAX_BYTES as usize + 1]);
    assert_eq!(tree.read("just.txt").unwrap().size, MAX_BYTES);
    assert!(matches!(tree.read("over.txt"), Err(FileError::TooLarge { size: 101, max: 100 })));
    assert!(matches!(read_file(&tree.path("over.txt"), MAX_BYTES), Err(FileError::TooLarge { .. })));
    assert_eq!(read_file(&tree.path("over.txt"), u64::MAX).unwrap().size, 101);
    assert!(matches!(tree.directory().read("just.txt", 0), Err(FileError::TooLarge { .. })));
}

#[test]
fn text_and_binary_files_are_distinguished() {
    let cases: [(&str, &[u8], bool, &str); 10] = [
        ("a.txt", b"one", true, "text/plain"),
        ("a.txt", b"\xff\xfe", false, "text/plain"),
        ("a", "継手".as_bytes(), true, "text/plain"),
        ("a", b"", true, "text/plain"),
        ("a", b"one\0two", false, "application/octet-stream"),
        ("a.unknown", b"\xff", false, "application/octet-stream"),
        ("a.RS", b"fn main() {}", true, "text/x-rust"),
        ("a.png", b"not really", false, "image/png"),
        ("a.svg", b"<svg/>", true, "image/svg+xml"),
        ("a.tar.gz", b"", false, "application/gzip"),
    ];
    for (name, bytes, text, mime) in cases {
        let body = file_body(bytes.to_vec(), Path::new(name));
        let expected = match text {
            true => FileContent::Text(String::from_utf8(bytes.to_vec()).unwrap()),
            false => FileContent::Blob(bytes.to_vec()),
        };
        assert_eq!(body, FileBody { content: expected, mime, size: bytes.len() as u64 }, "{name}");
    }
    assert_eq!(mime_type(Path::new("a.b/page.html")), Some("text/html"));
    assert_eq!(mime_type(Path::new("md")), None);
    assert_eq!(mime_type(Path::new(".md")), None);
}

#[test]
fn list_is_sorted_by_bytes_and_truncated_at_the_limit() {
    let names = ["C", "a", "a-b", "a.txt", "a/b", "a0", "b/c/d.md", "é"];
    let tree =
        names.iter().filter(|name| **name != "a").fold(Tree::new(), |tree, name| tree.with(name, name));
    let tree = tree.with("a/.hidden", "").with(".hidden/a", "");
    fs::create_dir(tree.path("empty")).unwrap();
    let all = ["C", "a-b", "a.txt", "a/b", "a0", "b/c/d.md", "é"];
    let listing = |most| tree.directory().list(most).unwrap();
    let files: Vec<_> =
        all.iter().map(|path| FileEntry { path: (*path).to_owned(), size: path.len() as u64 }).collect();
    assert_eq!(listing(7), DirectoryListing { files: files.clone(), truncated: false });
    for most in 0..7 {
        assert_eq!(
            listing(most),
            DirectoryListing { files: files[..most].to_vec(), truncated: true },
            "{most}"
        );
    }
    for file in &files {
        assert_eq!(tree.text(&file.path), file.path);
    }
}

#[test]
fn list_depth_is_limited_to_32() {
    let (just, over) = ("d/".repeat(31), "e/".repeat(32));
    let tree = Tree::new().with(&format!("{just}file"), "one").with(&format!("{over}file"), "two");
    assert_eq!(tree.list(), [format!("{just}file")]);
}

#[test]
fn root_must_be_a_folder() {
    let tree = Tree::new().with("a", "one");
    assert_eq!(Directory::new(&tree.path("a")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    assert_eq!(Directory::new(&tree.path("b")).unwrap_err().kind(), io::ErrorKind::NotFound);
    let folder = tree.directory();
    fs::remove_dir_all(tree.path("")).unwrap();
    assert!(folder.list(1).is_err());
    assert!(matches!(folder.read("a", MAX_BYTES), Err(FileError::NotFound)));
}

#[test]
fn errors_do_not_show_where_the_folder_is() {
    let tree = Tree::new().with("a", [0; 101]).with("sub/c", "");
    for relative in ["a", "b", "sub", "../secret.txt", "a/b"] {
        let error = tree.read(relative).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("docs") && !shown.contains("tsugite-files"), "{shown}");
    }
    let denied = FileError::from(io::Error::from(io::ErrorKind::PermissionDenied));
    assert!(matches!(&denied, FileError::Io(_)));
    assert!(denied.to_string().starts_with("the file cannot be read: "), "{denied}");
}

#[test]
fn paths_are_encoded_for_uris() {
    assert_eq!(encode_path("a/b-c_d.e~f"), "a/b-c_d.e~f");
    assert_eq!(encode_path("a b?#%&+:@継"), "a%20b%3F%23%25%26%2B%3A%40%E7%B6%99");
}
