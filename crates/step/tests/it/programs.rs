//! The programs of `srun --multi-prog`.

use gpool_step::Programs;

fn of(text: &str, rank: usize) -> Result<String, String> {
    let programs = Programs::read("p.conf", text, &["more".to_owned()]);
    let words = programs.and_then(|programs| programs.of(rank));
    words.map(|words| words.join("|")).map_err(|failure| failure.text(false))
}

#[test]
fn each_rank_has_its_program() {
    let text = "# ranks program\n\n4-6\thostname\n1,7 echo task:%t\n0,2-3 echo 'a %t' offset:%o\n";
    assert_eq!(of(text, 5).as_deref(), Ok("hostname|more"));
    assert_eq!(of(text, 7).as_deref(), Ok("echo|task:7|more"));
    assert_eq!(of(text, 0).as_deref(), Ok("echo|a %t|offset:0|more"));
    assert_eq!(of(text, 3).as_deref(), Ok("echo|a %t|offset:2|more"));
    assert!(of(text, 8).unwrap_err().contains("no executable program specified for task 8"));
    assert_eq!(of("0 a\n* b %o\n", 9).as_deref(), Ok("b|9|more"));
    assert_eq!(of("0 a \\\n -x\n", 0).as_deref(), Ok("a|-x|more"));
}

#[test]
fn a_line_that_is_wrong_is_named() {
    for (text, why) in [
        ("0 a\nx b\n", "p.conf:2: \"x\" is no list of ranks"),
        ("3-1 b\n", "p.conf:1"),
        ("0\n", "the program is missing"),
        ("0 'a\n", "a quote is not closed"),
    ] {
        assert!(of(text, 0).unwrap_err().contains(why), "{text}");
    }
}
