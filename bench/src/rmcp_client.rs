//! The client of rmcp, used as its documentation shows: its default HTTP client, one service, `call_tool`.
//!
//! That HTTP client opens a connection for each call, on purpose. [`over_pooled_http`] reuses connections, which
//! compares the cost of the libraries better. Both have at most 16 calls in flight over HTTP, the default of rmcp.

use std::sync::Arc;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{IntoTransport, StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, object};
use tokio::process::Command;

use crate::worker::EchoClient;
use crate::{BoxError, Era};

#[derive(Clone)]
pub(crate) struct RmcpClient(Arc<RunningService<RoleClient, ()>>);

pub(crate) async fn over_http(url: &str, era: Era) -> Result<RmcpClient, BoxError> {
    connect(StreamableHttpClientTransport::from_uri(url), era).await
}

/// Connects with an HTTP client that reuses connections.
pub(crate) async fn over_pooled_http(url: &str, era: Era) -> Result<RmcpClient, BoxError> {
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    connect(StreamableHttpClientTransport::with_client(reqwest::Client::new(), config), era).await
}

pub(crate) async fn over_stdio(delay: &str, era: Era) -> Result<RmcpClient, BoxError> {
    let mut server = Command::new(std::env::current_exe()?);
    server.args(["serve", "stdio", delay]);
    connect(TokioChildProcess::new(server)?, era).await
}

async fn connect<T, E, A>(transport: T, era: Era) -> Result<RmcpClient, BoxError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let lifecycle = match era {
        Era::Handshake => ClientLifecycleMode::Initialize,
        Era::Stateless => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        }
    };
    Ok(RmcpClient(Arc::new(().serve_with_lifecycle(transport, lifecycle).await?)))
}

impl EchoClient for RmcpClient {
    async fn echo(&mut self, text: String) -> Result<String, BoxError> {
        let params = CallToolRequestParams::new("echo").with_arguments(object!({"text": text}));
        let result = self.0.call_tool(params).await?;
        let text = result.content.into_iter().next().and_then(|first| Some(first.as_text()?.text.clone()));
        text.ok_or_else(|| "no text came back".into())
    }
}
