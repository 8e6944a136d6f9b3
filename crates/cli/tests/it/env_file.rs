//! Files of variables with the format of docker's `--env-file`: a `NAME=VALUE` per line, the value
//! unquoted; a name alone takes the caller's value; lines that begin with `#` are comments.

use gpool_cli::software::env_file::read;

#[test]
fn lines_are_variables_remarks_or_errors_with_their_number() {
    let text = "# a remark\n\nA=b c\n  B=\"q\" # no remark\nHOME\nE=\nC=x=y\r\n";
    let read_text = read("f", text).expect("good lines");
    let found: Vec<_> = read_text.iter().map(|it| (&*it.name, it.value.as_deref())).collect();
    assert_eq!(
        found,
        [
            ("A", Some("b c")),
            ("B", Some("\"q\" # no remark")),
            ("HOME", None),
            ("E", Some("")),
            ("C", Some("x=y")),
        ]
    );
    for (text, words) in [
        ("A=1\nexport B=2", "line 2: \"export B\""),
        ("=x", "line 1: \"\""),
        ("A B", "line 1: \"A B\""),
        ("1A=x", "line 1: \"1A\""),
    ] {
        let failure = read("f", text).expect_err(text);
        assert!(failure.what().contains(words), "{}", failure.what());
    }
}
