//! A server made with rmcp, with the same tool as the bare one and the settings that cost least.
//!
//! Its router is built once. Over HTTP it runs on hyper without a web framework, with TCP_NODELAY; a session sends no
//! event before the response and keeps no finished stream for a client that resumes it; without sessions it responds in
//! JSON. Over stdio it uses `stdio_pipes`.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, Implementation, ServerCapabilities, ServerConfig};
use rmcp::transport::stdio_pipes;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, ServiceExt, schemars, tool, tool_handler, tool_router};
use tokio::net::TcpListener;

use crate::{BoxError, Era};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[schemars(crate = "rmcp::schemars")]
struct Echo {
    text: String,
}

#[derive(Clone)]
struct EchoServer;

static TOOLS: LazyLock<ToolRouter<EchoServer>> = LazyLock::new(EchoServer::tool_router);

#[tool_router]
impl EchoServer {
    #[tool(description = "Returns the text.")]
    async fn echo(&self, Parameters(echo): Parameters<Echo>) -> Result<CallToolResult, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text(echo.text)]))
    }
}

#[tool_handler(router = TOOLS)]
impl ServerHandler for EchoServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("rmcp", "1.0.0"))
    }
}

/// Serves until its input ends.
pub(crate) fn serve_stdio() -> Result<(), BoxError> {
    runtime()?.block_on(async {
        EchoServer.serve(stdio_pipes()).await?.waiting().await?;
        Ok(())
    })
}

/// Serves until it is killed. The first line on standard output is the address.
pub(crate) fn serve_http(era: &str) -> Result<(), BoxError> {
    let config = StreamableHttpServerConfig::default().with_sse_retry(None).with_sse_keep_alive(None);
    let serving = async {
        match Era::parse(era)? {
            Era::Handshake => {
                let mut sessions = LocalSessionManager::default();
                sessions.session_config.sse_retry = None;
                sessions.session_config.completed_cache_ttl = Duration::ZERO;
                accept(StreamableHttpService::new(|| Ok(EchoServer), Arc::new(sessions), config)).await
            }
            Era::Stateless => {
                let config = config.with_legacy_session_mode(false).with_json_response(true);
                let sessions = Arc::new(NeverSessionManager::default());
                accept(StreamableHttpService::new(|| Ok(EchoServer), sessions, config)).await
            }
        }
    };
    runtime()?.block_on(serving)
}

async fn accept<M: SessionManager>(service: StreamableHttpService<EchoServer, M>) -> Result<(), BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let service = service.clone();
        let service = service_fn(move |request| {
            let service = service.clone();
            async move { Ok::<_, Infallible>(service.handle(request).await) }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
        // A broken connection is reported by the client.
        tokio::spawn(async move { connection.await.ok() });
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, BoxError> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}
