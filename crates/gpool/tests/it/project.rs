//! `gpool project`: projects, their quotas and their members.

use gpool_verbs::project::parse;
use gpool_wire::Quantity;

fn refused(text: &str) -> String {
    parse(text, "p.toml").expect_err("it is refused").what().to_owned()
}

#[test]
fn a_file_is_read_and_errors_name_their_line() {
    let fine = "[projects.vision]\ngpus = 4\nlimit = \"none\"\n\n[projects.\"lab/nlp\"]\n\
                parent = \"vision\"\ngpus = 0.5\nmembers = [\"ana\", \"@lab\"]\n";
    let set = parse(fine, "p.toml").expect("it is fine");
    assert_eq!(set.projects.len(), 2);
    assert_eq!(set.projects["lab/nlp"].gpus, Some(Quantity::Decimal(0.5)));
    for (text, said) in [
        ("[projects.a]\ngpus = 1\n[projects.b]\n\ngpus = \"4x\"\n", "p.toml:5: projects.b.gpus"),
        ("[projects.a]\ngpus = nan\n", "p.toml:2: "),
        ("[projects.a]\ngpus = -1\n", "p.toml:2: "),
        ("[projects.a]\nweight = inf\n", "p.toml:2: "),
        ("[projects.a]\ntpus = 1\n", r#"p.toml:2: projects.a: there is no field "tpus""#),
        ("[project.a]\ngpus = 1\n", r#"p.toml:1: there is no field "project""#),
        ("[projects.a]\nname = \"b\"\n", "p.toml:2: projects.a.name"),
        ("[projects]\na = [\"a\", 4]\n", "p.toml:2: projects.a: it is an array"),
        ("[projects.a]\nmembers = \"ana\"\n", "p.toml:2: projects.a.members: it is the string"),
        ("[projects.\"a b\"]\n", "p.toml:1: "),
        ("[projects.a\n", "p.toml:1: "),
        ("", r#"p.toml:1: the file: "projects" is missing"#),
    ] {
        let refused = refused(text);
        assert!(refused.starts_with(said), "{refused:?} begins with {said:?}");
    }
}
