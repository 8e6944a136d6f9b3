//! Builds the request of `run` and `submit` from flags and words.

use gpool_cli::request::{
    DependencyFlag, command, dependencies, misleading, not_found, unusable_files,
};
use gpool_model::Millis;
use gpool_wire::JobCreate;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn one_quoted_line_is_for_a_shell() {
    let (line, remark) = command(&words(&["a | b"]));
    assert_eq!(line, ["/bin/sh", "-c", "a | b"]);
    assert!(remark.is_some());
    assert_eq!(command(&words(&["a"])), (words(&["a"]), None));
    assert_eq!(command(&words(&["a", "b c"])), (words(&["a", "b c"]), None));
}

#[test]
fn kinds_of_dependencies_hold_until_the_next() {
    let read = |text: &str| -> Vec<String> {
        let read = dependencies("--after", text).expect(text);
        let delay = |delay: &Option<Millis>| delay.map(|it| format!("+{it}")).unwrap_or_default();
        let one =
            |(kind, reference, at): &DependencyFlag| format!("{kind}:{reference}{}", delay(at));
        read.iter().map(one).collect()
    };
    assert_eq!(read("start:14+5m,end:3"), ["start:14+5m", "end:3"]);
    assert_eq!(read("1,fail:2,3,end:@~1"), ["ok:1", "fail:2", "fail:3", "end:@~1"]);
    assert_eq!(read("okay"), ["ok:okay"]);
    for text in ["", "ok:", "1,,2", "all", "fail:all", "start:1+x"] {
        assert!(dependencies("--after", text).is_err(), "{text}");
    }
}

#[test]
fn names_that_mean_something_else_are_warned_about() {
    for name in ["12", "all", "@", "@~2", "last", "1-5", "a,b", "12#x"] {
        assert!(misleading(name).is_some(), "{name}");
    }
    for name in ["train", "train-7", "12abc", "a b", "é"] {
        assert_eq!(misleading(name), None, "{name}");
    }
}

#[test]
fn files_that_can_not_be_used_are_warned_about() {
    let job = JobCreate {
        directory: Some("/tmp".to_owned()),
        stdin: Some("no-such-file".to_owned()),
        stdout: Some("/nonexistent/out".to_owned()),
        stderr: Some("/tmp".to_owned()),
        ..JobCreate::default()
    };
    assert_eq!(unusable_files(&job).len(), 3);
    assert_eq!(unusable_files(&JobCreate::default()), Vec::<String>::new());
}

#[test]
fn a_program_that_is_not_there_is_warned_about() {
    assert!(not_found(&words(&["no-such-program-at-all"]), None).is_some());
    assert!(not_found(&words(&["./no-such-file"]), Some("/")).is_some());
    assert!(not_found(&words(&["/tmp"]), None).is_some_and(|w| w.contains("directory")));
    assert_eq!(not_found(&words(&["sh"]), None), None);
}
