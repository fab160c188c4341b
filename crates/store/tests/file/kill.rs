//! A process that is killed loses nothing that it acknowledged.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use tsugite_store::{FileStore, Store};

use super::{Folder, append, set, value};

const ROUNDS: u64 = 20;
const WRITERS: u64 = 4;

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    const NAME: &str = "kill::acknowledged_writes_survive_a_kill";
    if let Some(path) = ChildProcess::path() {
        return write_until_killed(&path).await;
    }
    let folder = Folder::new();
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut child = ChildProcess::start(NAME, &folder.file());
        let before: u64 = acknowledged.values().sum();
        let mut count = 0;
        // Killed at another moment in each round: after some answers, while other writes are on their way.
        while count < 1 + round * 3 {
            note(&mut acknowledged, &child.next_report().expect("the process writes until it is killed"));
            count += 1;
        }
        for report in child.kill() {
            note(&mut acknowledged, &report);
        }
        assert!(acknowledged.values().sum::<u64>() > before);
        let store = FileStore::open(folder.file()).unwrap();
        for (writer, last) in &acknowledged {
            let log = store.read_log(&format!("log {writer}"), 0).await.unwrap().unwrap();
            assert!(log.last >= *last, "round {round}: {} events of {last}", log.last);
            for number in 1..=*last {
                let key = format!("record {writer} {number}");
                assert_eq!(value(&store, &key, "number").await, Some(number.to_string()), "round {round}");
                let batch = &log.batches[usize::try_from(number - 1).unwrap()];
                assert_eq!((batch.first, batch.data.as_ref()), (number, number.to_string().as_bytes()));
            }
            // A commit that was not acknowledged happened as a whole or not at all.
            let next = format!("record {writer} {}", log.last);
            assert_eq!(value(&store, &next, "number").await, Some(log.last.to_string()));
        }
    }
}

fn note(acknowledged: &mut BTreeMap<u64, u64>, report: &str) {
    let (writer, number) = report.split_once(' ').unwrap();
    acknowledged.insert(writer.parse().unwrap(), number.parse().unwrap());
}

async fn write_until_killed(path: &Path) {
    let store = Arc::new(FileStore::open(path).unwrap());
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            let log = format!("log {writer}");
            let written = store.read_log(&log, 0).await.unwrap().map_or(0, |log| log.last);
            for number in written + 1.. {
                let (key, text) = (format!("record {writer} {number}"), number.to_string());
                let writes = [set(&key, "number", &text), append(&log, number, &text)];
                store.commit(&writes).await.unwrap().unwrap();
                report(&format!("{writer} {number}"));
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// This test program again, with one test that then works on a file. It is killed when it is dropped.
pub(super) struct ChildProcess {
    child: Child,
    output: BufReader<ChildStdout>,
}

const FILE: &str = "TSUGITE_STORE_TEST_FILE";
const REPORT: &str = "report: ";

impl ChildProcess {
    /// The file to work on, if this is the child.
    pub(super) fn path() -> Option<PathBuf> {
        std::env::var_os(FILE).map(PathBuf::from)
    }

    pub(super) fn start(test: &str, file: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(FILE, file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// The next report of the child; `None` at its end.
    pub(super) fn next_report(&mut self) -> Option<String> {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            // A line that the kill cut off is no report.
            if let Some((_, report)) = line.strip_suffix('\n').and_then(|line| line.split_once(REPORT)) {
                return Some(report.to_owned());
            }
            line.clear();
        }
        None
    }

    /// Kills the child and returns its last reports.
    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::iter::from_fn(|| self.next_report()).collect()
    }

    /// Ends the input of the child and waits for its end.
    pub(super) fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// In the child: reports and waits for the end of the input.
    pub(super) fn report_and_wait(text: &str) {
        report(text);
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// In the child: writes a line for the parent.
fn report(text: &str) {
    let mut output = std::io::stdout().lock();
    // The parent may be gone.
    drop(output.write_all(format!("{REPORT}{text}\n").as_bytes()));
    drop(output.flush());
}
