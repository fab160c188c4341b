//! A protected server and its authorization server at one address. It logs in every user at once.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::support::{LONG, helper};

/// A server that requires a token.
pub(super) struct Protected {
    /// The URL of the server.
    pub(super) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request that the server has received.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) path: String,
    /// The parameters of the query or of the form.
    pub(super) params: HashMap<String, String>,
    pub(super) authorization: String,
    body: String,
}

impl Protected {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (url, log) = (format!("{base}/mcp"), Arc::clone(&seen));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(socket) = socket else { return };
                let (base, log) = (base.clone(), Arc::clone(&log));
                thread::spawn(move || serve(socket, &base, &log));
            }
        });
        Self { url, seen }
    }

    /// The last request to a path.
    #[track_caller]
    pub(super) fn last(&self, path: &str) -> Seen {
        let seen = self.seen.lock().unwrap();
        let found = seen.iter().rev().find(|request| request.path == path);
        found.unwrap_or_else(|| panic!("no request to {path}")).clone()
    }

    /// How many users have logged in.
    pub(super) fn logins(&self) -> usize {
        self.seen.lock().unwrap().iter().filter(|request| request.path == "/authorize").count()
    }
}

/// The token that it issues.
pub(super) const TOKEN: &str = "acc3ss-t0ken";
pub(super) const REFRESH: &str = "r3fresh-t0ken";

/// Answers one request.
fn serve(socket: TcpStream, base: &str, log: &Mutex<Vec<Seen>>) {
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut reader = BufReader::new(socket);
    let Some((verb, request)) = read(&mut reader) else { return };
    log.lock().unwrap().push(request.clone());
    let (status, header, body) = answer(&verb, &request, base);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{header}");
    let _ = write!(reader.get_mut(), "{head}Content-Length: {}\r\n\r\n{body}", body.len());
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<(String, Seen)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        match line.trim() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines.first()?.split(' ');
    let (verb, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let header = |name: &str| {
        let found = lines.iter().filter_map(|line| line.split_once(':'));
        found
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_owned())
            .next()
    };
    let mut body = vec![0; header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, &body));
    let params = query.split('&').filter_map(|pair| pair.split_once('='));
    let params = params.map(|(name, value)| (name.to_owned(), decode(value))).collect();
    let authorization = header("authorization").unwrap_or_default();
    Some((verb, Seen { path: path.to_owned(), params, authorization, body }))
}

fn answer(verb: &str, request: &Seen, base: &str) -> (&'static str, String, Value) {
    let ok = |body| ("200 OK", String::new(), body);
    match request.path.as_str() {
        "/.well-known/oauth-protected-resource/mcp" => {
            ok(json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]}))
        }
        "/.well-known/oauth-authorization-server" => ok(json!({
            "issuer": base,
            "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        })),
        "/register" => {
            let mut registered: Value = serde_json::from_str(&request.body).unwrap();
            registered["client_id"] = json!("registered");
            ("201 Created", String::new(), registered)
        }
        "/authorize" => {
            let (to, state) = (&request.params["redirect_uri"], &request.params["state"]);
            ("302 Found", format!("Location: {to}?code=c0de&state={state}\r\n"), Value::Null)
        }
        "/token" => ok(json!({
            "access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600, "refresh_token": REFRESH,
        })),
        "/mcp" if request.authorization != format!("Bearer {TOKEN}") => {
            let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
            let header = format!("WWW-Authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
            ("401 Unauthorized", header, Value::Null)
        }
        "/mcp" if verb == "POST" => call(&request.body),
        "/mcp" => ("405 Method Not Allowed", String::new(), Value::Null),
        _ => ("404 Not Found", String::new(), Value::Null),
    }
}

/// A server of 2025-11-25 with one tool.
fn call(body: &str) -> (&'static str, String, Value) {
    let request: Value = serde_json::from_str(body).unwrap();
    let result = match request["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "protected", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "hello"}]}),
        "ping" => json!({}),
        method if method.starts_with("notifications/") => {
            return ("202 Accepted", String::new(), Value::Null);
        }
        _ => {
            let error = json!({"code": -32601, "message": "method not found"});
            let response = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
            return ("200 OK", String::new(), response);
        }
    };
    ("200 OK", String::new(), json!({"jsonrpc": "2.0", "id": request["id"], "result": result}))
}

/// Decodes `%XX` and `+`.
fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let hex = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// A program that takes the place of the browser, and logs in at once.
pub(super) fn browser() -> PathBuf {
    // On Windows with its drive, as users write it.
    std::path::absolute(helper()).unwrap()
}

/// The address that the login page redirects to.
pub(super) fn redirect_of(address: &str) -> String {
    let page = get(address);
    let location = page.lines().find_map(|line| line.strip_prefix("Location: "));
    location.unwrap_or_else(|| panic!("{page}")).trim().to_owned()
}

fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut socket = TcpStream::connect(host).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    write!(socket, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}
