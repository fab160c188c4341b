//! A client and a server with a bridge between them.

use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::client::{Client, Heard};
use crate::message::{Rev, Way};
use crate::server::Server;
use crate::tool;

/// One side of the bridge.
pub(crate) type Peer = (Rev, Way);

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
        let client = Client::connect(client.0, bridge.door()).await?;
        Ok(Self { client, server, bridge })
    }
}

/// Runs a test with each of these pairs: clients first. A server that saw a fault fails it.
pub(crate) fn each(pairs: &[(Peer, Peer)], test: impl AsyncFn(&mut Pair) -> Result<(), String>) {
    run(async {
        for (client, server) in pairs {
            let told =
                |error: &str| format!("{} {} → {} {}\n{error}", client.0, client.1, server.0, server.1);
            let mut pair = Pair::new(*client, *server).await.map_err(|error| told(&error))?;
            if let Err(error) = test(&mut pair).await {
                let (seen, log, errors) =
                    (pair.client.failed(&error), pair.server.log(8), pair.bridge.errors());
                return Err(told(&format!("{seen}\n{log}\n{errors}")));
            }
            if !pair.server.faults().is_empty() {
                return Err(told(&format!("the server saw faults: {:#?}", pair.server.faults())));
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

/// The params of a call.
pub(crate) fn call(what: &str, cell: &str) -> Value {
    json!({"name": tool::NAME, "arguments": {"do": what, "cell": cell}})
}

pub(crate) fn same(what: &str, seen: &Value, wanted: &Value) -> Result<(), String> {
    match seen == wanted {
        true => Ok(()),
        false => Err(format!("{what} should be\n  {wanted}\nand is\n  {seen}")),
    }
}

/// Whether a message is of this method.
pub(crate) fn is(method: &str) -> impl Fn(&Heard) -> bool {
    move |heard| heard.message.value["method"] == method
}
