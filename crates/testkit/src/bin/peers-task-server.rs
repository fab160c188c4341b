//! The server for clients of other projects that follow tasks: `peers-task-server --listen 127.0.0.1:PORT`. `cargo xtask
//! peers tasks` starts it.

use std::process::ExitCode;
use std::time::Duration;

use tsugite_testkit::fixture;
use tsugite_testkit::replicas::ServerArgs;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let served = ServerArgs::from_env().and_then(|args| Ok((args, fixture::by_name("tasks")?)));
    match served {
        Ok((args, server)) => args.serve(server.task_poll_interval(Duration::from_millis(50))).await,
        Err(usage) => {
            eprintln!("peers-task-server: {usage}");
            ExitCode::from(2)
        }
    }
}
