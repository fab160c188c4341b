//! One connection to Redis.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, ProtocolVersion, RedisConnectionInfo, RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::error::{Error, Reason};
use crate::reply;
use crate::script::{Call, PERMISSIONS, Request};
use crate::settings::Settings;
use crate::tls;

/// A connection that many tasks use at the same time. It never sends a command a second time.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: MultiplexedConnection,
    unusable: Arc<Notify>,
}

/// Reads and writes a connection, and ends with it. Dropping it closes the connection.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits for replies on a connection that no task drives.
pub(crate) async fn drive<T>(driver: &mut Driver, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    tokio::select! {
        result = &mut work => return result,
        () = &mut *driver => {}
    }
    // It must not be polled again.
    *driver = Box::pin(poll_fn(|_| Poll::Ready(())));
    // The last reply may be there; the requests without one fail.
    work.await
}

impl Connection {
    /// Opens a connection and checks that the server can be used.
    pub(crate) async fn open(settings: &Settings) -> Result<(Self, Driver), Error> {
        let address = &settings.address;
        let io_error = |error: io::Error| settings.error(Reason::Connection(error.to_string().into()));
        let socket = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(io_error)?;
        socket.set_nodelay(true).map_err(io_error)?;
        let (inner, mut driver) = if address.uses_tls {
            let socket = tls::connect(&settings.tls, &address.host, socket).await.map_err(io_error)?;
            multiplex(settings, socket).await?
        } else {
            multiplex(settings, socket).await?
        };
        let mut connection = Self { inner, unusable: Arc::default() };
        let prepare = async {
            connection.authenticate(settings).await?;
            connection.check_server(settings).await
        };
        drive(&mut driver, prepare).await?;
        Ok((connection, driver))
    }

    /// Sends one request and returns its reply.
    pub(crate) async fn send(&mut self, request: &Request, settings: &Settings) -> Result<Value, Error> {
        let reply = match request {
            Request::Command(command) => self.command(command).await,
            Request::Script(call) => self.script(call).await,
        };
        reply.map_err(|error| {
            // A replica that was the primary: another server is at this address, or will be.
            if error.code() == Some("READONLY") {
                self.abandon();
            }
            settings.redis_error(&error)
        })
    }

    /// Has the connection closed, because it does not answer.
    pub(crate) fn abandon(&self) {
        self.unusable.notify_one();
    }

    /// Waits until the connection is abandoned.
    pub(crate) fn abandoned(&self) -> impl Future<Output = ()> + use<> {
        let unusable = self.unusable.clone();
        async move { unusable.notified().await }
    }

    async fn command(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        match self.inner.req_packed_command(command).await? {
            Value::ServerError(error) => Err(error.into()),
            reply => Ok(reply),
        }
    }

    async fn script(&mut self, call: &Call) -> Result<Value, RedisError> {
        if let Some(command) = call.command() {
            match self.command(&command).await {
                // The server was restarted. The script has not run.
                Err(error) if error.code() == Some("NOSCRIPT") => {}
                reply => return reply,
            }
        }
        let hash = self.command(&call.load_command()).await?;
        if let Ok(hash) = reply::text(hash) {
            call.set_hash(hash);
        }
        match call.command() {
            Some(command) => self.command(&command).await,
            None => Ok(Value::Nil),
        }
    }

    async fn authenticate(&mut self, settings: &Settings) -> Result<(), Error> {
        let credentials = &settings.address.credentials;
        let Some(password) = credentials.password() else { return Ok(()) };
        let mut auth = redis::cmd("AUTH");
        auth.arg(credentials.username()).arg(password);
        self.send(&Request::Command(auth), settings).await.map(drop)
    }

    /// Refuses a cluster, a server that is too old, and a user who may not run a command of the store.
    async fn check_server(&mut self, settings: &Settings) -> Result<(), Error> {
        let unsuitable = |reason: String| Err(settings.error(Reason::Unsuitable(reason.into())));
        let hello = self.send(&Request::Command(redis::cmd("HELLO")), settings).await?;
        let (version, mode) = read_hello(hello);
        let refusal = match mode.as_str() {
            "cluster" => "it is a node of a Redis Cluster, which is not supported; use one server",
            "sentinel" => "it is a Redis Sentinel, which stores nothing",
            _ => "",
        };
        if !refusal.is_empty() {
            return unsuitable(refusal.to_owned());
        }
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < 7) {
            return unsuitable(format!("its version is {version:?}; 7.0 or newer is required"));
        }
        if settings.address.database > 0 {
            let mut select = redis::cmd("SELECT");
            select.arg(settings.address.database);
            self.send(&Request::Command(select), settings).await?;
        }
        let call = Call::new(&PERMISSIONS).key(settings.record_key(""));
        let forbidden = self.send(&Request::Script(call), settings).await?;
        match reply::text(forbidden).map_err(|_| settings.error(Reason::UnexpectedReply))? {
            command if command.is_empty() => Ok(()),
            command => unsuitable(format!(
                "the user may not run {command} on keys that begin with {:?}",
                settings.record_key("")
            )),
        }
    }
}

async fn multiplex<S>(settings: &Settings, socket: S) -> Result<(MultiplexedConnection, Driver), Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Authentication is ours, since the library does not tell why the server refuses it.
    let nothing = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2).set_skip_set_lib_name();
    // Operations have timeouts of their own, which cover connecting too.
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let opened = MultiplexedConnection::new_with_config(&nothing, socket, config).await;
    let (inner, driver) = opened.map_err(|error| settings.redis_error(&error))?;
    Ok((inner, Box::pin(driver)))
}

/// The version and the mode of a server.
fn read_hello(hello: Value) -> (String, String) {
    let mut found = (String::new(), String::new());
    for (name, value) in reply::pairs(hello).unwrap_or_default() {
        match reply::text(name).unwrap_or_default().as_str() {
            "version" => found.0 = reply::text(value).unwrap_or_default(),
            "mode" => found.1 = reply::text(value).unwrap_or_default(),
            _ => {}
        }
    }
    found
}
