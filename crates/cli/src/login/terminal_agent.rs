//! [`TerminalAgent`]: shows the login page to the user of a terminal.

use tsugite_auth::{Browser, ClientQuestion, LoginPage, Prompt, UserAgent, UserAgentFuture};

use crate::console::{Console, sanitize};
use crate::url_hints;

/// Opens the browser and prints the address; without a browser, it reads the pasted answer.
pub(super) struct TerminalAgent {
    browser: Option<Browser>,
    prompt: Prompt,
}

impl TerminalAgent {
    /// Uses the program in `BROWSER`, or the browser of the system.
    pub(super) fn new(no_browser: bool) -> Self {
        let program = std::env::var("BROWSER").ok().filter(|value| is_program(value));
        let browser = program.map_or_else(Browser::system, Browser::program);
        Self { browser: (!no_browser).then_some(browser), prompt: Prompt::terminal() }
    }
}

impl UserAgent for TerminalAgent {
    fn open(&self, mut page: LoginPage) -> UserAgentFuture<'_> {
        // The query may hold a secret.
        page.server = url_hints::redacted(&page.server);
        Box::pin(async move {
            let Some(browser) = &self.browser else { return self.prompt.open(page).await };
            let console = Console::new(false);
            match browser.open(page.clone()).await {
                Ok(answer) => {
                    console.note(&format!(
                        "log in to {} in the browser; if it does not open, use this address:\n\n{}\n",
                        sanitize(&page.server),
                        sanitize(&page.url)
                    ));
                    Ok(answer)
                }
                Err(error) => {
                    console.note(&sanitize(&error.to_string()));
                    self.prompt.open(page).await
                }
            }
        })
    }

    fn client_id(&self, question: ClientQuestion) -> UserAgentFuture<'_> {
        self.prompt.client_id(question)
    }
}

/// Whether `BROWSER` names one program: some write a list of them, separated as in `PATH`, or a pattern.
fn is_program(value: &str) -> bool {
    !value.is_empty() && !value.contains('%') && std::env::split_paths(value).count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browser_is_one_program() {
        let program = std::env::current_exe().unwrap();
        assert!(is_program(program.to_str().unwrap()) && is_program("firefox"));
        let list = std::env::join_paths(["firefox", "chromium"]).unwrap();
        for other in ["", "firefox %s", list.to_str().unwrap()] {
            assert!(!is_program(other), "{other}");
        }
    }
}
