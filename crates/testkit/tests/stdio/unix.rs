//! What only Unix has: signals, and sockets in place of pipes.

use std::os::fd::OwnedFd;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;

use super::{Peer, call, listen};

#[tokio::test(flavor = "current_thread")]
async fn signal_ends_the_server_cleanly() {
    for tool in ["later", "fails"] {
        let mut peer = Peer::start();
        peer.send_lines(&call(1, tool)).await;
        peer.read_message().await;
        // The `kill` of the shell: a small system may have no such program.
        let kill = format!("kill -TERM {}", peer.child.id().unwrap());
        assert!(Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
        assert!(peer.child.wait().await.unwrap().success(), "{tool}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn second_signal_ends_the_server_at_once() {
    for (first, second) in [("TERM", "INT"), ("INT", "INT")] {
        // Calls have ten minutes to finish.
        let mut peer = Peer::start_with(&["600000"]);
        peer.send_lines(&format!("{}{}", call(1, "slow"), listen(2, "{}"))).await;
        let acknowledged = peer.read_message().await;
        assert!(acknowledged.get("method").is_some(), "{acknowledged}");
        let signal = async |name: &str, id: u32| {
            let kill = format!("kill -{name} {id}");
            assert!(Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
        };
        let id = peer.child.id().unwrap();
        signal(first, id).await;
        // The subscription ends with the first signal, the call does not.
        assert_eq!(peer.read_message().await["id"], 2, "{first}");
        signal(second, id).await;
        let ended = tokio::time::timeout(std::time::Duration::from_secs(20), peer.child.wait()).await;
        assert!(ended.expect("the server ends").unwrap().success(), "{first} {second}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn signal_ends_a_server_that_writes_to_a_file() {
    // stdin stays open, so the thread that reads it still waits when the server ends.
    let answers = std::env::temp_dir().join(format!("tsugite-stdio-signal-{}", std::process::id()));
    let mut child = Command::new(env!("CARGO_BIN_EXE_fixture"))
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(&answers).unwrap())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(call(1, "later").as_bytes()).await.unwrap();
    while !std::fs::read_to_string(&answers).unwrap().ends_with('\n') {
        tokio::task::yield_now().await;
    }
    let kill = format!("kill -TERM {}", child.id().unwrap());
    assert!(Command::new("sh").args(["-c", &kill]).status().await.unwrap().success());
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), child.wait()).await;
    std::fs::remove_file(&answers).unwrap();
    assert!(ended.expect("the server ends").unwrap().success());
}

#[tokio::test(flavor = "current_thread")]
async fn sockets_work_in_place_of_pipes() {
    // As Node.js does for its children.
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let (input, output): (OwnedFd, OwnedFd) = (theirs.try_clone().unwrap().into(), theirs.into());
    let mut child = Command::new(env!("CARGO_BIN_EXE_fixture"))
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(output))
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (heard, mut said) = UnixStream::from_std(ours).unwrap().into_split();
    let mut lines = BufReader::new(heard).lines();
    for id in 0..500 {
        let tool = if id % 200 == 199 { "later" } else { "fails" };
        said.write_all(call(id, tool).as_bytes()).await.unwrap();
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id);
    }
    drop(said);
    assert!(child.wait().await.unwrap().success());
}
