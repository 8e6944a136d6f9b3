//! Words for JSON whose types do not fit: which field, what it is, what it should be.

use gpool_model::said::repeated;

use crate::catalogue;
use crate::problem::Problem;

/// What fields should be, with an example, where the type alone says too little.
const FIELDS: &[(&str, &str, &str)] = &[
    ("command", "a list of words", r#"["python", "train.py"]"#),
    ("script", "an object", r##"{"name": "train.sh", "text": "#!/bin/sh\n…"}"##),
    ("gpus", "text", r#""a100:2""#),
    ("cpus", "a number, or text", "4"),
    ("mem", "text with a unit, or a number of bytes", r#""20G""#),
    ("time", "text, or a number of seconds", r#""1h30m""#),
    ("grace", "text, or a number of seconds", r#""30s""#),
    ("priority", "a whole number", "5"),
    ("environment", "an object of texts", r#"{"NAME": "value"}"#),
    ("after", "a list of texts", r#"["17", "end:18"]"#),
    ("umask", "a whole number", "18"),
    ("compat", "a list of texts", r#"["slurm"]"#),
    ("pty", "an object", r#"{"rows": 24, "columns": 80}"#),
    ("activate", "a list of objects", r#"[{"venv": "/home/ana/project/.venv"}]"#),
    ("setup", "an object", r#"{"run": "uv sync"}"#),
    ("jobs", "a list of texts", r#"["17"]"#),
    ("devices", "a list of texts", r#"["0", "2-5"]"#),
    ("signal", "a name or a number", r#""USR1""#),
];

/// What the types of fields are called, with an example.
const TYPES: &[(&str, &str, &str)] = &[
    ("a string", "text", r#""text""#),
    ("a boolean", "true or false", "true"),
    ("a sequence", "a list", r#"["text"]"#),
    ("a map", "an object", "{…}"),
    ("i32", "a whole number", "5"),
    ("i64", "a whole number", "5"),
    ("u32", "a whole number of at least 0", "5"),
    ("u64", "a whole number of at least 0", "5"),
];

/// What serde calls what it found.
const FOUND: &[(&str, &str)] = &[
    ("string", "text"),
    ("integer", "the number"),
    ("floating point", "the number"),
    ("boolean", ""),
];

/// A refusal of a value that does not fit where it stands. `path` is that of the field, empty for
/// the document itself; `said` are serde's words.
pub(crate) fn problem(path: &str, said: &str) -> Problem {
    // Names of variables are part of a path.
    let path = &*repeated(path);
    let name = match path {
        "" => "the document",
        path => path,
    };
    let refused = |what: &str| Problem::new(catalogue::INVALID, format!("{name}: {what}"));
    if let Some(missing) = in_ticks(said, "missing field ") {
        return refused(&format!("{missing:?} is missing"));
    }
    if let Some(twice) = in_ticks(said, "duplicate field ") {
        return refused(&format!("{twice:?} is there twice")).try_this("leave one of them out");
    }
    let is_type = said.strip_prefix("invalid type: ");
    let unfit = is_type.or_else(|| said.strip_prefix("invalid value: "));
    let Some((found, expected)) = unfit.and_then(|unfit| unfit.rsplit_once(", expected ")) else {
        return refused(&repeated(said));
    };
    let problem = refused(&format!("it is {}", found_words(found)));
    if path.is_empty() || expected.starts_with("struct ") {
        return problem.try_this(r#"an object: {"name": value, …}"#);
    }
    let field = path.rsplit('.').next().unwrap_or(path);
    let by_field = FIELDS.iter().find(|(name, ..)| *name == field);
    match by_field.or_else(|| TYPES.iter().find(|(name, ..)| *name == expected)) {
        Some((_, kind, example)) => {
            problem.try_this(format!("{field:?}: {kind}, for example {example}"))
        }
        None => problem.try_this(format!("{field:?}: {expected}")),
    }
}

fn in_ticks<'s>(said: &'s str, before: &str) -> Option<&'s str> {
    said.strip_prefix(before)?.strip_prefix('`')?.strip_suffix('`')
}

/// `string "5"` as `text "5"`, and so on.
fn found_words(found: &str) -> String {
    match found {
        "sequence" => return "a list".to_owned(),
        "map" => return "an object".to_owned(),
        _ => {}
    }
    let words = FOUND.iter().find_map(|(kind, words)| Some((words, found.strip_prefix(kind)?)));
    match words {
        Some((words, value)) => format!("{words} {}", repeated(value.trim().trim_matches('`'))),
        None => repeated(found),
    }
    .trim()
    .to_owned()
}

#[cfg(test)]
mod tests {
    use crate::create::{BulkDefaults, JobCreate};
    use crate::json::{nearest, read};

    fn refused(document: &str) -> (String, Vec<String>) {
        let problem = read::<JobCreate>(document.as_bytes()).expect_err(document);
        (problem.detail, problem.tries)
    }

    #[test]
    fn the_field_is_named_with_what_it_should_be() {
        for (document, detail, way) in [
            (
                r#"{"priority": "5"}"#,
                r#"priority: it is text "5""#,
                r#""priority": a whole number, for example 5"#,
            ),
            (
                r#"{"command": "a, expected b"}"#,
                r#"command: it is text "a, expected b""#,
                r#""command": a list of words, for example ["python", "train.py"]"#,
            ),
            (
                r#"{"command": ["a", 7]}"#,
                "command[1]: it is the number 7",
                r#""command[1]": text, for example "text""#,
            ),
            (r#"{"hold": null}"#, "hold: it is null", r#""hold": true or false, for example true"#),
            (
                r#"{"environment": {"A": 1.5}}"#,
                "environment.A: it is the number 1.5",
                r#""A": text, for example "text""#,
            ),
            (
                r#"{"mem": true}"#,
                "mem: it is true",
                r#""mem": text with a unit, or a number of bytes, for example "20G""#,
            ),
            (
                r#"{"name": "a", "name": "b"}"#,
                r#"the document: "name" is there twice"#,
                "leave one of them out",
            ),
            (r#""a""#, r#"the document: it is text "a""#, r#"an object: {"name": value, …}"#),
        ] {
            assert_eq!(refused(document), (detail.to_owned(), vec![way.to_owned()]), "{document}");
        }
        assert_eq!(refused(r#"{"script": {}}"#).0, r#"script: "name" is missing"#);
        let defaults = read::<BulkDefaults>(br#"{"defaults": {"umask": -1}}"#).expect_err("umask");
        assert_eq!(defaults.detail, "defaults.umask: it is the number -1");
    }

    #[test]
    fn a_line_of_many_says_its_number_once() {
        let problem = read::<JobCreate>(b"{\"a\": 1}").expect_err("unknown").at_line(7);
        assert_eq!(problem.detail, "line 7: there is no field \"a\" at column 4");
        let problem = read::<JobCreate>(b"{").expect_err("cut off").at_line(7);
        assert!(problem.detail.ends_with(" at column 1"), "{}", problem.detail);
    }

    #[test]
    fn what_is_repeated_is_short_and_obeyed_by_no_terminal() {
        let (detail, _) = refused("{\"environment\": {\"A\\u001b[31m\": 5}}");
        assert_eq!(detail, "environment.A\\u{1b}[31m: it is the number 5");
        let long = "a".repeat(100_000);
        for document in [
            format!(r#"{{"{long}": 1}}"#),
            format!(r#"{{"hold": "{long}"}}"#),
            format!(r#"{{"environment": {{"{long}": 5}}}}"#),
        ] {
            let (detail, tries) = refused(&document);
            assert!(detail.len() + tries.concat().len() < 1000, "{detail:.200}");
        }
        assert_eq!(nearest("commands", ["command"]), Some("command"));
        assert_eq!(nearest(&"command".repeat(1000), ["command"]), None);
    }
}
