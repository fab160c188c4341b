//! A client and a server with a bridge between them.

use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::client::{Client, Received};
use crate::message::{Rev, Transport};
use crate::server::Server;
use crate::tool;

/// One side of the bridge.
pub(crate) type Peer = (Rev, Transport);

/// Both sides, and the bridge.
pub(crate) struct Pair {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) bridge: Bridge,
}

impl Pair {
    pub(crate) async fn new(client: Peer, server: Peer) -> Result<Self, String> {
        let server = Server::start(server.0, server.1).await;
        let mut bridge = Bridge::start(client.1, &server).await;
        let client = Client::connect(client.0, bridge.endpoint()).await?;
        Ok(Self { client, server, bridge })
    }
}

/// Runs a test with each of these pairs of client and server. Fails if the server recorded a fault.
pub(crate) fn each(pairs: &[(Peer, Peer)], test: impl AsyncFn(&mut Pair) -> Result<(), String>) {
    run(async {
        for (client, server) in pairs {
            let describe =
                |error: &str| format!("{} {} → {} {}\n{error}", client.0, client.1, server.0, server.1);
            let mut pair = Pair::new(*client, *server).await.map_err(|error| describe(&error))?;
            if let Err(error) = test(&mut pair).await {
                let (seen, log, errors) =
                    (pair.client.failed(&error), pair.server.log(8), pair.bridge.errors());
                return Err(describe(&format!("{seen}\n{log}\n{errors}")));
            }
            if !pair.server.faults().is_empty() {
                return Err(describe(&format!("the server saw faults: {:#?}", pair.server.faults())));
            }
        }
        Ok(())
    });
}

/// Runs a test to its end.
pub(crate) fn run(test: impl Future<Output = Result<(), String>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let Err(error) = runtime.block_on(test) {
        panic!("{error}");
    }
}

/// Returns the params of a tool call.
pub(crate) fn call(action: &str, cell: &str) -> Value {
    json!({"name": tool::NAME, "arguments": {"do": action, "cell": cell}})
}

pub(crate) fn same(subject: &str, seen: &Value, wanted: &Value) -> Result<(), String> {
    match seen == wanted {
        true => Ok(()),
        false => Err(format!("{subject} should be\n  {wanted}\nand is\n  {seen}")),
    }
}

/// Returns a predicate for messages of this method.
pub(crate) fn is(method: &str) -> impl Fn(&Received) -> bool {
    move |received| received.message.value["method"] == method
}
