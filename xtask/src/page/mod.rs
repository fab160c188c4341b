//! `cargo xtask page`: tests the start page of `tsugite serve` in a browser.
//!
//! It checks what a test of the text cannot: requests to other hosts, the copy buttons, and whether the page can be
//! used on a phone, in dark mode, and without a mouse.

mod snippets;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::browser::Browser;
use crate::count::Count;
use crate::server::ListeningServer;
use crate::{base64, binary, process};

/// Checks the page and adds every check to `count`. Screenshots are below the target folder.
pub(crate) fn run(count: &mut Count) -> Result<(), String> {
    let folder = process::target_dir()?.join("page");
    process::create_dir(&folder)?;
    let program = binary::tsugite(&folder)?;
    let serve =
        process::program(&program, ["serve", "--listen", "127.0.0.1:0", "--allow-host", NON_LOOPBACK_HOST]);
    let mut server = ListeningServer::start_tsugite(serve, &folder.join("server.txt"))?;
    let browser = Browser::start(&folder, NON_LOOPBACK_HOST)?;
    let port = server.endpoint;
    let mut visit = PageCheck { browser, program, port, folder: &folder, failures: Vec::new(), passed: 0 };
    visit.run_all()?;
    if server.process.try_wait()?.is_some() {
        visit.failures.push("the server exited during the test".to_owned());
    }
    let PageCheck { failures, passed, .. } = visit;
    *count += Count { passed, failed: failures.len() as u64, skipped: 0 };
    println!("{passed} checks passed, {} failed; screenshots: {}", failures.len(), folder.display());
    match failures.as_slice() {
        [] => Ok(()),
        failures => Err(format!("the start page fails its checks\n- {}", failures.join("\n- "))),
    }
}

struct PageCheck<'a> {
    browser: Browser,
    program: PathBuf,
    port: u16,
    folder: &'a Path,
    failures: Vec<String>,
    passed: u64,
}

impl PageCheck<'_> {
    fn run_all(&mut self) -> Result<(), String> {
        // Browsers allow the clipboard for loopback names only, so test another name, too.
        for host in ["127.0.0.1", "localhost", NON_LOOPBACK_HOST] {
            println!("-- as {host}");
            let host = format!("{host}:{}", self.port);
            self.browser.emulate(VIEWPORTS[0], "light")?;
            self.browser.open(&format!("http://{host}/"))?;
            let found = self.check_text(&host);
            self.record(&format!("text for {host}"), found);
            let copied = self.check_copy_buttons();
            // Requests that the buttons cause count, too.
            let found = self.check_network(&host);
            self.record(&format!("requests for {host}"), found);
            let found = copied.and_then(|text| self.check_clipboard(&text));
            self.record(&format!("copy buttons for {host}"), found);
        }
        for size in VIEWPORTS {
            for scheme in ["light", "dark"] {
                let name = format!("{} px, {scheme}", size.0);
                println!("-- {name}");
                self.browser.emulate(size, scheme)?;
                self.browser.open(&format!("http://127.0.0.1:{}/", self.port))?;
                let picture =
                    base64::decode(&self.browser.screenshot(true)?).ok_or("the screenshot is not base64")?;
                let file = self.folder.join(format!("{}-{scheme}.png", size.0));
                fs::write(&file, picture).map_err(|error| format!("{}: {error}", file.display()))?;
                let found = self.call_probe("unfold()").and_then(|_| self.check_layout());
                self.record(&format!("layout at {name}"), found);
                let found = self.check_contrast();
                self.record(&format!("contrast at {name}"), found);
                let found = self.check_keyboard();
                self.record(&format!("keyboard at {name}"), found);
            }
        }
        Ok(())
    }

    fn record(&mut self, what: &str, found: Result<(), String>) {
        match found {
            Ok(()) => self.passed += 1,
            Err(why) => self.failures.push(format!("{what}: {why}")),
        }
    }

    fn call_probe(&mut self, call: &str) -> Result<Value, String> {
        self.browser.evaluate(&format!("({PROBE_SCRIPT}).{call}"))
    }

    /// Checks the title, the URL, and the configuration snippets of each host.
    fn check_text(&mut self, host: &str) -> Result<(), String> {
        let title = self.browser.evaluate("document.title")?;
        ensure_equal(&title, &format!("An MCP server runs here: http://{host}/mcp").into())?;
        let found = self.call_probe("snippets()")?;
        snippets::check(&found, host)?;
        match host.starts_with(NON_LOOPBACK_HOST) {
            // Only the browser knows the URL.
            true => Ok(()),
            false => snippets::run_snippets(&found, &self.program, self.folder),
        }
    }

    /// Checks that each button copies its box. Returns the text of the last one.
    fn check_copy_buttons(&mut self) -> Result<Value, String> {
        let boxes =
            self.browser.evaluate("document.querySelectorAll('.snippet').length")?.as_u64().unwrap_or(0);
        let buttons = self.browser.evaluate("document.querySelectorAll('.snippet button').length")?;
        if boxes < 7 || buttons.as_u64() != Some(boxes) {
            return Err(format!("{buttons} buttons for {boxes} boxes"));
        }
        let is_loopback = self.browser.evaluate("isSecureContext")? == Value::Bool(true);
        let mut last = Value::Null;
        for number in 0..boxes {
            let button = self.call_probe(&format!("button({number})"))?;
            let at = |side: &str| button.get(side).and_then(Value::as_f64).unwrap_or(-1.0);
            self.browser.click(at("x"), at("y"))?;
            ensure_equal(&self.call_probe(&format!("said({number})"))?, &"Copied".into())?;
            last = button.get("text").cloned().unwrap_or_default();
            // Elsewhere the clipboard cannot be read.
            if is_loopback {
                ensure_equal(&self.browser.evaluate("navigator.clipboard.readText()")?, &last)?;
            }
        }
        Ok(last)
    }

    /// Checks that another page can paste the copied text.
    fn check_clipboard(&mut self, text: &Value) -> Result<(), String> {
        self.browser.open(&format!("http://127.0.0.1:{}/", self.port))?;
        ensure_equal(&self.browser.evaluate("navigator.clipboard.readText()")?, text)
    }

    /// Checks that there are no requests to other hosts, no failed requests, and no console errors.
    fn check_network(&mut self, host: &str) -> Result<(), String> {
        let text = |event: &Value, path: &str| {
            event.pointer(path).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        let browser = &self.browser;
        let mut wrong = Vec::new();
        for asked in browser.events("Network.requestWillBeSent") {
            let url = text(asked, "/request/url").unwrap_or_default();
            if !url.starts_with(&format!("http://{host}/")) && !url.starts_with("data:") {
                wrong.push(format!("request to another host: {url}"));
            }
        }
        for answer in browser.events("Network.responseReceived") {
            let status = answer.pointer("/response/status").and_then(Value::as_u64).unwrap_or(0);
            if status != 200 {
                wrong.push(format!("{:?} has status {status}", text(answer, "/response/url")));
            }
        }
        let complaints = [
            ("Network.loadingFailed", "/errorText"),
            ("Runtime.exceptionThrown", "/exceptionDetails/exception/description"),
            ("Runtime.consoleAPICalled", "/args"),
            ("Log.entryAdded", "/entry/text"),
        ];
        for (kind, path) in complaints {
            wrong.extend(browser.events(kind).map(|event| format!("{kind}: {:?}", text(event, path))));
        }
        if browser.events("Network.requestWillBeSent").next().is_none() {
            wrong.push("no request for the page itself".to_owned());
        }
        ensure_empty(&wrong)
    }

    fn check_layout(&mut self) -> Result<(), String> {
        let wrong = self.call_probe("crowded()")?;
        ensure_empty(&strings(&wrong)?)
    }

    fn check_contrast(&mut self) -> Result<(), String> {
        let found = self.call_probe("pale()")?;
        if found.get("count").and_then(Value::as_u64).unwrap_or(0) < 50 {
            return Err(format!("too little text on the page: {found}"));
        }
        ensure_empty(&strings(found.get("wrong").unwrap_or(&Value::Null))?)
    }

    /// Checks that the keyboard reaches every control and that the focus is visible.
    fn check_keyboard(&mut self) -> Result<(), String> {
        let stops = self.call_probe("stops()")?.as_u64().unwrap_or(0);
        if stops < 7 {
            return Err(format!("only {stops} controls"));
        }
        let mut wrong = Vec::new();
        let mut reached = 0;
        // Scrollable boxes get the focus, too.
        for _ in 0..stops * 3 {
            self.browser.press_tab()?;
            let focused = self.call_probe("focused()")?;
            if focused.is_null() {
                break;
            }
            if let Some(why) = focused.get("wrong").and_then(Value::as_str) {
                wrong.push(format!("{}: {why}", focused.get("name").unwrap_or(&Value::Null)));
            }
            reached += u64::from(focused.get("tag").is_some_and(|tag| tag != "PRE"));
        }
        if reached != stops {
            wrong.push(format!("the keyboard reaches {reached} of {stops} controls"));
        }
        ensure_empty(&wrong)
    }
}

fn strings(list: &Value) -> Result<Vec<String>, String> {
    let list = list.as_array().ok_or_else(|| format!("not a list: {list}"))?;
    Ok(list.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect())
}

fn ensure_empty(wrong: &[String]) -> Result<(), String> {
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn ensure_equal(seen: &Value, expected: &Value) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{seen} instead of {expected}")) }
}

const PROBE_SCRIPT: &str = include_str!("probe.js");

/// A name that is not a loopback name.
const NON_LOOPBACK_HOST: &str = "workshop.example";

/// A desktop and a phone.
const VIEWPORTS: [(u32, u32); 2] = [(1280, 900), (390, 844)];
