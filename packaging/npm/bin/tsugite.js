#!/usr/bin/env node
// Starts the program `tsugite` of this platform, which is in a package of its own: `tsugite-linux-x64` and so on. npm installs
// the one whose `os` and `cpu` match.
//
// Arguments, standard input, output and error, signals and the exit code are those of the program: a server over stdio must
// not notice this script.

"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const platform = `${process.platform}-${process.arch}`;
const packages = Object.keys(require("../package.json").optionalDependencies);
const isWindows = process.platform === "win32";

// Signals that a person or a host sends to end the program. On Windows the console sends them to every process, and there is
// no other way to pass them on.
const SIGNALS = isWindows ? ["SIGINT", "SIGBREAK", "SIGHUP"] : ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
// A terminal sends these to the program, too.
const FROM_TERMINAL = ["SIGINT", "SIGQUIT"];

function findProgram() {
  const name = `tsugite-${platform}`;
  const file = `${name}/bin/${isWindows ? "tsugite.exe" : "tsugite"}`;
  try {
    return require.resolve(file);
  } catch {
    if (packages.includes(name)) {
      fail(
        `the package ${name}, which has the program for this platform, is not installed`,
        "install tsugite again without `--omit=optional` and `--no-optional`, on the platform that runs it",
      );
    }
    const known = packages.map((known) => known.slice("tsugite-".length)).join(", ");
    fail(
      `there is no program for ${platform}, only for ${known}`,
      "build it from its sources with cargo: `cargo install --locked --path crates/cli`",
    );
  }
}

function fail(message, advice) {
  console.error(`error: ${message}\n  try   ${advice}`);
  process.exit(1);
}

const program = findProgram();
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
const hasTerminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;

for (const signal of SIGNALS) {
  process.on(signal, () => {
    if (!isWindows && !(hasTerminal && FROM_TERMINAL.includes(signal))) {
      child.kill(signal);
    }
  });
}

// npx sends SIGTERM to a shell between it and this process. The shell ends and passes nothing on, but then this process has
// another parent.
if (process.env.npm_command === "exec" && !isWindows) {
  const shell = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid !== shell) {
      clearInterval(watch);
      child.kill("SIGTERM");
    }
  }, 500);
}

child.on("error", (error) => fail(`cannot start ${program}: ${error.message}`, "install tsugite again"));

child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  // This process ends by the same signal, or with the exit code that a shell shows for it.
  process.exitCode = 128 + constants.signals[signal];
  for (const handled of SIGNALS) {
    process.removeAllListeners(handled);
  }
  process.kill(process.pid, signal);
});
