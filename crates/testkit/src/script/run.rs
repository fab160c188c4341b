//! Runs a script.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;

use super::{Condition, Script, Step, signals};

/// How a script ended.
#[derive(Debug, PartialEq)]
pub enum End {
    /// With this exit code.
    Exit(i32),
    /// With a crash.
    Abort,
    /// The fixture is to be served.
    Serve,
}

impl Script {
    /// Runs the script on stdin and stdout. The caller ends the process.
    pub fn run(&self) -> io::Result<End> {
        self.run_on(
            BufReader::new(io::stdin()),
            BufWriter::with_capacity(1 << 16, io::stdout()),
            io::stderr(),
            Arc::new(|| std::process::exit(1)),
        )
    }

    fn run_on(
        &self,
        input: impl BufRead,
        output: impl Write,
        log: impl Write,
        released: Released,
    ) -> io::Result<End> {
        let mut run =
            Run { input, output, log, released, line: String::new(), turn: 0, variables: HashMap::new() };
        let end = run.steps(&self.0)?;
        run.output.flush()?;
        Ok(match end {
            ControlFlow::Break(end) => end,
            ControlFlow::Continue(()) => End::Exit(0),
        })
    }
}

/// Is called when a test closes the connection of `hold`.
type Released = Arc<dyn Fn() + Send + Sync>;

struct Run<I, O, L> {
    input: I,
    output: O,
    log: L,
    released: Released,
    /// The line that was read last.
    line: String,
    /// The number of the current repetition.
    turn: u64,
    variables: HashMap<String, String>,
}

impl<I: BufRead, O: Write, L: Write> Run<I, O, L> {
    fn steps(&mut self, steps: &[Step]) -> io::Result<ControlFlow<End>> {
        for step in steps {
            if let ControlFlow::Break(end) = self.step(step)? {
                return Ok(ControlFlow::Break(end));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn step(&mut self, step: &Step) -> io::Result<ControlFlow<End>> {
        // Output is collected only as long as nothing else happens.
        if !matches!(step, Step::SendLine(_) | Step::Print(_)) {
            self.output.flush()?;
        }
        match step {
            Step::SendLine(text) => {
                let line = self.expand(text) + "\n";
                self.output.write_all(line.as_bytes())?;
            }
            Step::Print(bytes) => self.output.write_all(bytes)?,
            Step::ReadLine => return self.read_line(),
            Step::Drain => loop {
                if let ControlFlow::Break(end) = self.read_line()? {
                    return Ok(ControlFlow::Break(end));
                }
            },
            Step::Stay => loop {
                std::thread::park();
            },
            Step::Exit(code) => return Ok(ControlFlow::Break(End::Exit(*code))),
            Step::Abort => return Ok(ControlFlow::Break(End::Abort)),
            Step::Run { program, words } => {
                let words = words.iter().map(|word| self.expand(word));
                let status = Command::new(program).args(words).status()?;
                return Ok(ControlFlow::Break(End::Exit(status.code().unwrap_or(1))));
            }
            Step::Stderr(text) => {
                let line = self.expand(text);
                self.log(&line)?;
            }
            Step::Append { file, text } => {
                let line = self.expand(text) + "\n";
                OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())?;
            }
            Step::Report { port, text } => connect(*port)?.write_all(self.expand(text).as_bytes())?,
            Step::WaitFor { port } => {
                connect(*port)?.read_to_end(&mut Vec::new())?;
            }
            Step::Call { program, words } => drop(Command::new(program).args(words).status()?),
            Step::Serve => return Ok(ControlFlow::Break(End::Serve)),
            Step::Hold { port } => {
                let (mut held, released) = (connect(*port)?, Arc::clone(&self.released));
                std::thread::spawn(move || {
                    let _ = held.read(&mut [0]);
                    released();
                });
            }
            Step::IgnoreSignals => signals::ignore()?,
            Step::Once { file, steps } if is_first(file)? => return self.steps(steps),
            Step::Once { .. } => {}
            Step::If { condition, steps, otherwise } => {
                return self.steps(if self.holds(condition) { steps } else { otherwise });
            }
            Step::Set { name, text } => {
                let text = self.expand(text);
                self.variables.insert(name.clone(), text);
            }
            Step::Repeat { count, steps } => return self.repeat(count.unwrap_or(u64::MAX), steps),
        }
        Ok(ControlFlow::Continue(()))
    }

    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::LineContains(text) => self.line.contains(text),
            Condition::VariableIs { name, text } => self.variables.get(name) == Some(text),
            Condition::EnvironmentIs { name, text } => std::env::var(name).is_ok_and(|value| value == *text),
        }
    }

    fn repeat(&mut self, count: u64, steps: &[Step]) -> io::Result<ControlFlow<End>> {
        let outer = self.turn;
        for turn in 1..=count {
            self.turn = turn;
            if let ControlFlow::Break(end) = self.steps(steps)? {
                return Ok(ControlFlow::Break(end));
            }
        }
        self.turn = outer;
        Ok(ControlFlow::Continue(()))
    }

    /// Reads a line and copies it to the log. The end of the input ends the script.
    fn read_line(&mut self) -> io::Result<ControlFlow<End>> {
        let mut line = Vec::new();
        if self.input.read_until(b'\n', &mut line)? == 0 {
            return Ok(ControlFlow::Break(End::Exit(0)));
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        self.log(&line)?;
        self.line = line;
        Ok(ControlFlow::Continue(()))
    }

    /// Writes a line to the log, in one piece: a test may read it at any time.
    fn log(&mut self, line: &str) -> io::Result<()> {
        self.log.write_all(format!("{line}\n").as_bytes())
    }

    /// Replaces the names after `$`.
    fn expand(&self, text: &str) -> String {
        let mut parts = text.split('$');
        let mut all = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(part.len());
            let (name, rest) = part.split_at(end);
            match name {
                "line" => all.push_str(&self.line),
                "id" => all.push_str(&self.id()),
                "n" => all.push_str(&self.turn.to_string()),
                "process" => all.push_str(&std::process::id().to_string()),
                _ => match self.variables.get(name) {
                    Some(text) => all.push_str(text),
                    None => all.extend(["$", name]),
                },
            }
            all.push_str(rest);
        }
        all
    }

    /// The id of the line that was read last, as JSON.
    fn id(&self) -> String {
        let message: Value = serde_json::from_str(&self.line).unwrap_or_default();
        message.get("id").unwrap_or(&Value::Null).to_string()
    }
}

fn connect(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port))
}

/// Whether this process made the file.
fn is_first(file: &Path) -> io::Result<bool> {
    match OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::super::{Reports, ScriptFile};
    use super::*;

    /// Runs a script. Returns its output, its log and its end.
    fn run(script: &str, input: &str) -> (String, String, End) {
        let (mut output, mut log) = (Vec::new(), Vec::new());
        let script = Script::parse(script).unwrap();
        let end = script.run_on(input.as_bytes(), &mut output, &mut log, Arc::new(|| ())).unwrap();
        (String::from_utf8(output).unwrap(), String::from_utf8(log).unwrap(), end)
    }

    #[test]
    fn lines_are_read_copied_and_sent() {
        let (output, log, end) =
            run("read_line; send_line 'got $line'; print 'a\\n'; exit 3", "one\r\ntwo\n");
        assert_eq!((&*output, &*log, end), ("got one\na\n", "one\n", End::Exit(3)));
    }

    #[test]
    fn end_of_the_input_ends_the_script() {
        for script in ["read_line; read_line; exit 3", "drain; exit 3", "repeat forever { read_line }"] {
            let (_, log, end) = run(script, "one\n");
            assert_eq!((&*log, end), ("one\n", End::Exit(0)), "{script}");
        }
        assert_eq!(run("abort", "").2, End::Abort);
    }

    #[test]
    fn names_after_a_dollar_are_replaced() {
        let line = r#"{"params":{"id":1},"id":"q"}"#;
        let (output, ..) = run("read_line; repeat 2 { send_line '$n $id $ids $$' }", line);
        assert_eq!(output, "1 \"q\" $ids $$\n2 \"q\" $ids $$\n");
        assert_eq!(run("answer 2 $process", "").0, {
            let content = format!(r#"[{{"type":"text","text":"{}"}}]"#, std::process::id());
            format!("{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{\"content\":{content}}}}}\n")
        });
    }

    #[test]
    fn blocks_run_on_their_condition() {
        let file = ScriptFile::new();
        let script = format!("once {file} {{ send_line first; append {file} x }}; send_line all");
        assert_eq!(run(&script, "").0, "first\nall\n");
        assert_eq!(run(&script, "").0, "all\n");
        assert_eq!(file.text(), "x\n");
        let script = "read_line; if_line b { send_line yes }; if_line c { send_line no }";
        assert_eq!(run(script, "abc").0, "yes\nno\n");
        assert_eq!(run(script, "ab").0, "yes\n");
    }

    #[test]
    fn variables_are_kept_and_compared() {
        let script = "repeat 3 { if seen yes { send_line $what } else { set seen yes; set what 'not $n' } }";
        assert_eq!(run(script, "").0, "not 1\nnot 1\n");
        let script = "set a b; if a c { send_line no } else { send_line '$a $b' }; if b c { send_line no }";
        assert_eq!(run(script, "").0, "b $b\n");
        assert_eq!(run("read_line; if_line x { send_line no } else { send_line yes }", "a").0, "yes\n");
    }

    #[test]
    fn responses_have_the_id_of_the_request() {
        let (output, ..) = run("read_line; result '{\"a\":{}}'; error '{\"code\":1}'", r#"{"id":7}"#);
        let expected = [
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":{}}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#,
        ];
        assert_eq!(output.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn script_ends_with_the_program_it_runs() {
        let program = std::env::current_exe().unwrap();
        for (option, code) in [("--help", 0), ("--no-such-option", 101)] {
            let script = format!("send_line a; run '{}' {option}; exit 3", program.display());
            let (output, _, end) = run(&script, "");
            assert_eq!((&*output, end), ("a\n", End::Exit(code)), "{option}");
        }
    }

    #[tokio::test]
    async fn reports_arrive_and_waiting_scripts_continue() {
        let reports = Reports::listen().await.unwrap();
        let script = format!("report {reports} one; wait_for {reports}; report {reports} two; exit 4");
        let running = tokio::task::spawn_blocking(move || run(&script, ""));
        assert_eq!(reports.next().await.unwrap(), "one");
        reports.allow().await.unwrap();
        assert_eq!(reports.next().await.unwrap(), "two");
        assert_eq!(running.await.unwrap().2, End::Exit(4));
    }

    #[test]
    fn programs_run_and_variables_are_compared() {
        let program = std::env::current_exe().unwrap();
        // The list of the tests of this program goes to the output of the process, and not to that of the script.
        let script = format!("call '{}' --list --format terse; send_line after; serve", program.display());
        let (output, _, end) = run(&script, "");
        assert_eq!((&*output, end), ("after\n", End::Serve));
        let path = env!("CARGO_MANIFEST_DIR");
        let script = format!("if_environment CARGO_MANIFEST_DIR '{path}' {{ send_line yes }}");
        assert_eq!(run(&script, "").0, "yes\n");
        assert_eq!(run("if_environment CARGO_MANIFEST_DIR x { send_line yes }", "").0, "");
        let missing = Script::parse("call /no/such/program").unwrap();
        assert!(missing.run_on(io::empty(), io::sink(), io::sink(), Arc::new(|| ())).is_err());
    }

    #[test]
    fn closed_connection_of_hold_ends_the_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = Script::parse(&format!("hold {}", listener.local_addr().unwrap().port())).unwrap();
        let (released, news) = mpsc::channel();
        let released: Released = Arc::new(move || released.send(()).unwrap());
        script.run_on(io::empty(), io::sink(), io::sink(), released).unwrap();
        let (held, _) = listener.accept().unwrap();
        news.try_recv().unwrap_err();
        drop(held);
        news.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}
