//! Headless Chromium, controlled over two pipes with the DevTools protocol: JSON messages, each ended by a zero byte.
//!
//! It can reach only the server under test: all other host names are blocked.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{self, ChildProcess};
use crate::setup::{self, CHROMIUM};

/// A browser with one tab. It ends when this is dropped, and with this process.
pub(crate) struct Browser {
    stdin: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
    /// The session id of the tab.
    session: String,
    events: Vec<Value>,
    _running: ChildProcess,
}

impl Browser {
    /// Starts a browser with an empty profile. `host` is a name that resolves to this machine.
    pub(crate) fn start(folder: &Path, host: &str) -> Result<Self, String> {
        setup::browser()?;
        let profile = folder.join("profile");
        let _ = fs::remove_dir_all(&profile);
        // It expects the pipes as file descriptors 3 and 4.
        let mut command =
            process::program("sh", ["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>&2"#, CHROMIUM]);
        command.args(FLAGS);
        command.arg(format!("--host-resolver-rules=MAP {host} 127.0.0.1,{BLOCK_OTHER_HOSTS}"));
        command.arg(format!("--user-data-dir={}", profile.display()));
        command.arg("about:blank");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(process::create_log(&folder.join("browser.txt"))?);
        let mut running = ChildProcess::start_group(command)?;
        let (to, from) = running.pipes().ok_or("the browser has no pipes")?;
        let heard = read_messages(from);
        let session = String::new();
        let mut browser =
            Self { stdin: to, messages: heard, last_id: 0, session, events: Vec::new(), _running: running };
        browser.open_tab()?;
        Ok(browser)
    }

    fn open_tab(&mut self) -> Result<(), String> {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let target = target.get("targetId").cloned().unwrap_or_default();
        let tab = self.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }))?;
        tab.get("sessionId").and_then(Value::as_str).unwrap_or_default().clone_into(&mut self.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), json!({}))?;
        }
        let clipboard = ["clipboardReadWrite", "clipboardSanitizedWrite"];
        self.call("Browser.grantPermissions", json!({ "permissions": clipboard }))?;
        self.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true })).map(drop)
    }

    /// Sets the size of the tab and its preferred color scheme.
    pub(crate) fn emulate(&mut self, (width, height): (u32, u32), scheme: &str) -> Result<(), String> {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).map(drop)
    }

    /// Opens a page and waits until it is loaded. Events of earlier pages are discarded.
    pub(crate) fn open(&mut self, url: &str) -> Result<(), String> {
        self.events.clear();
        let opened = self.call("Page.navigate", json!({ "url": url }))?;
        if let Some(why) = opened.get("errorText").and_then(Value::as_str) {
            return Err(format!("cannot open {url}: {why}"));
        }
        self.wait_until_loaded()
    }

    /// Forgets who has logged in.
    pub(crate) fn clear_cookies(&mut self) -> Result<(), String> {
        self.call("Network.clearBrowserCookies", json!({})).map(drop)
    }

    /// Evaluates an expression that opens another page, such as a click, and waits until that is loaded.
    pub(crate) fn follow(&mut self, expression: &str) -> Result<(), String> {
        self.events.clear();
        self.evaluate(expression)?;
        self.wait_until_loaded()
    }

    fn wait_until_loaded(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while self.events("Page.loadEventFired").next().is_none() {
            self.receive(start)?;
        }
        Ok(())
    }

    /// The events of one kind since the page was opened.
    pub(crate) fn events(&self, method: &str) -> impl Iterator<Item = &Value> {
        let events =
            self.events.iter().filter(move |event| event.get("method").is_some_and(|name| name == method));
        events.filter_map(|event| event.get("params"))
    }

    /// Evaluates an expression on the page. Promises are awaited.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Result<Value, String> {
        let wanted = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let answer = self.call("Runtime.evaluate", wanted)?;
        match answer.get("exceptionDetails") {
            Some(wrong) => Err(format!("the page reports an error: {wrong}")),
            None => Ok(answer.pointer("/result/value").cloned().unwrap_or_default()),
        }
    }

    /// Clicks with the mouse.
    pub(crate) fn click(&mut self, x: f64, y: f64) -> Result<(), String> {
        for kind in ["mousePressed", "mouseReleased"] {
            let click = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", click)?;
        }
        Ok(())
    }

    /// Presses the Tab key.
    pub(crate) fn press_tab(&mut self) -> Result<(), String> {
        for kind in ["rawKeyDown", "keyUp"] {
            let key = json!({ "type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9 });
            self.call("Input.dispatchKeyEvent", key)?;
        }
        Ok(())
    }

    /// A screenshot as PNG in base64. With `whole`, of the whole page, not only the visible part.
    pub(crate) fn screenshot(&mut self, whole: bool) -> Result<String, String> {
        let options = json!({ "format": "png", "captureBeyondViewport": whole, "optimizeForSpeed": false });
        let picture = self.call("Page.captureScreenshot", options)?;
        picture
            .get("data")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or("the browser returned no screenshot".to_owned())
    }

    fn call(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({ "id": id, "method": method, "params": params });
        // Commands for the whole browser have no session id.
        let is_for_tab = !method.starts_with("Target.") && !method.starts_with("Browser.");
        if let (true, Some(message)) = (is_for_tab, message.as_object_mut()) {
            message.insert("sessionId".to_owned(), json!(self.session));
        }
        let gone = |error| format!("the browser has exited: {error}");
        self.stdin.write_all(format!("{message}\0").as_bytes()).map_err(gone)?;
        self.stdin.flush().map_err(gone)?;
        let start = Instant::now();
        loop {
            let Some(answer) = self.receive(start).map_err(|why| format!("{method}: {why}"))? else {
                continue;
            };
            if answer.get("id").and_then(Value::as_u64) != Some(id) {
                continue;
            }
            return match answer.get("error") {
                Some(error) => Err(format!("{method}: {error}")),
                None => Ok(answer.get("result").cloned().unwrap_or_default()),
            };
        }
    }

    /// Waits for the next message, and keeps it if it is an event.
    fn receive(&mut self, start: Instant) -> Result<Option<Value>, String> {
        let left = REPLY_TIMEOUT.saturating_sub(start.elapsed());
        let message = self.messages.recv_timeout(left);
        let message = message.map_err(|error| format!("the browser does not respond: {error}"))?;
        if message.get("id").is_some() {
            return Ok(Some(message));
        }
        self.events.push(message);
        Ok(None)
    }
}

fn read_messages(from: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut bytes = Vec::new();
        while from.read_until(0, &mut bytes).is_ok_and(|read| read > 0) {
            let text = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
            if let Ok(message) = serde_json::from_slice(text)
                && sender.send(message).is_err()
            {
                return;
            }
            bytes.clear();
        }
    });
    receiver
}

/// Root has no sandbox, and only our own page is opened. Background activity is disabled.
const FLAGS: [&str; 12] = [
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-proxy-server",
    "--hide-scrollbars",
];

const BLOCK_OTHER_HOSTS: &str = "MAP * ~NOTFOUND,EXCLUDE 127.0.0.1,EXCLUDE localhost";

/// The time limit of one response on a slow machine.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
