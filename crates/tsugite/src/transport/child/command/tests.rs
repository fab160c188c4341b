//! What a command holds, shows and passes on. That a server gets it is tested in `crates/testkit/tests/client/children.rs`.

use super::*;

#[test]
fn command_is_made_from_strings_arrays_and_slices() {
    let words = ["printf", "%s|", "a b", "$HOME"];
    let commands = [
        Command::from(words),
        Command::from(words.to_vec()),
        Command::from(&words[..]),
        Command::from(words.map(String::from)),
        Command::new("printf").arg("%s|").args(["a b", "$HOME"]),
    ];
    for command in commands {
        assert_eq!(
            (command.program, command.args),
            ("printf".into(), words[1..].iter().map(OsString::from).collect())
        );
    }
    for command in [Command::from("a b"), Command::from(String::from("a b"))] {
        assert_eq!((command.program, command.args), ("a b".into(), Vec::new()));
    }
}

#[test]
fn exported_shell_functions_are_not_inherited() {
    let ours = || {
        [("PATH", "/bin"), ("LC_TIME", "C"), ("HOME", "() { :;}; echo"), ("TOKEN", "t"), ("F", "() { :; }")]
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
    };
    let names = |command: Command| -> Vec<_> {
        command.environment(ours()).into_keys().map(|name| name.into_string().unwrap()).collect()
    };
    assert_eq!(names(Command::new("x")), ["LC_TIME", "PATH"]);
    assert_eq!(
        names(Command::new("x").pass_env("TOKEN").pass_env("F").pass_env("NONE")),
        ["LC_TIME", "PATH", "TOKEN"]
    );
    assert_eq!(names(Command::new("x").inherit_env()), ["LC_TIME", "PATH", "TOKEN"]);
    assert_eq!(names(Command::new("x").envs([("F", "() { :; }")])), ["F", "LC_TIME", "PATH"]);
}

#[test]
fn debug_of_a_command_shows_no_values() {
    let command = Command::new("npx")
        .args(["-y", "secret"])
        .env("TOKEN", "secret")
        .env("KEY=secret", "")
        .pass_env("OURS")
        .current_dir("/tmp");
    assert_eq!(
        format!("{command:?}"),
        "Command { program: \"npx\", args: 2, env: [\"KEY\", \"OURS\", \"TOKEN\"], inherit_env: false, \
         current_dir: Some(\"/tmp\"), stderr: Capture, grace: 2s }"
    );
    assert!(!format!("{:?}", Command::from("npx --token=secret")).contains("secret"));
}
