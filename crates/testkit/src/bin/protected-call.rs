//! A client that calls the tool `t` of a protected server with the credentials of a file: `protected-call URL FILE`. No
//! person can log in.

use std::process::ExitCode;

use tsugite::prelude::*;
use tsugite_auth::{FileStore, Login, Prompt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, file] = args.as_slice() else {
        eprintln!("usage: protected-call URL FILE");
        return ExitCode::from(2);
    };
    match call(url, file).await {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn call(url: &str, file: &str) -> Result<String, tsugite::client::ClientError> {
    let agent = Prompt::new(|_| async { Ok(Some("no person is there".to_owned())) });
    let login = Login::with_agent("protected-call", agent).store(FileStore::new(file));
    let client = Client::connect(url).revision(Revision::NEWEST).login(login).await?;
    client.call("t", serde_json::json!({})).await
}
