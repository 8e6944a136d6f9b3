//! Messages for data of the wrong type: the field, the value, the expected shape.

use gpool_model::said::repeated;

use crate::catalogue;
use crate::problem::Problem;
use crate::strict::{Place, Shape};

/// Examples of fields by name, with a description if the type alone is not enough.
const FIELDS: &[(&str, &str, &str)] = &[
    ("command", "an array of strings", r#"["python", "train.py"]"#),
    ("script", "", r##"{"name": "train.sh", "text": "#!/bin/sh\n…"}"##),
    ("gpus", "", r#""a100:2""#),
    ("cpus", "", "4"),
    ("mem", "a string with a unit, or a number of bytes", r#""20G""#),
    ("time", "a string, or a number of seconds", r#""1h30m""#),
    ("grace", "a string, or a number of seconds", r#""30s""#),
    ("environment", "an object of strings", r#"{"NAME": "value"}"#),
    ("after", "an array of strings", r#"["17", "end:18"]"#),
    ("umask", "", "18"),
    ("compat", "an array of strings", r#"["slurm"]"#),
    ("pty", "", r#"{"rows": 24, "columns": 80}"#),
    ("activate", "an array of objects", r#"[{"venv": "/home/ana/project/.venv"}]"#),
    ("setup", "", r#"{"run": "uv sync"}"#),
    ("jobs", "an array of strings", r#"["17"]"#),
    ("devices", "an array of strings", r#"["0", "2-5"]"#),
    ("signal", "a name, or a number", r#""USR1""#),
];

/// Returns the problem for a value of the wrong type. `said` is serde's message; `whole` is the
/// name of the document itself.
pub(crate) fn problem(place: &Place, said: &str, whole: &str) -> Problem {
    let path = place.path();
    // The path contains names of environment variables.
    let path = &*repeated(&path);
    let name = if path.is_empty() { whole } else { path };
    let refused = |what: &str| Problem::new(catalogue::INVALID, format!("{name}: {what}"));
    if let Some(missing) = in_ticks(said, "missing field ") {
        return refused(&format!("{missing:?} is missing"));
    }
    if let Some(twice) = in_ticks(said, "duplicate field ") {
        return refused(&format!("{:?} is there twice", repeated(twice)))
            .try_this("leave one of them out");
    }
    let is_type = said.strip_prefix("invalid type: ");
    let unfit = is_type.or_else(|| said.strip_prefix("invalid value: "));
    let Some((found, expected)) = unfit.and_then(|unfit| unfit.rsplit_once(", expected ")) else {
        return refused(&repeated(said));
    };
    let problem = refused(&format!("it is {}", found_words(found)));
    let shape = place.expected();
    if path.is_empty() || shape == Some(Shape::Object) {
        return problem.try_this(r#"an object: {"name": value, …}"#);
    }
    let field = path.rsplit('.').next().unwrap_or(path);
    let known = FIELDS.iter().find(|(name, _, example)| *name == field && fits(shape, example));
    let (words, example) = match known {
        Some((_, "", example)) => (shaped(shape, expected), *example),
        Some((_, words, example)) => ((*words).to_owned(), *example),
        None => (shaped(shape, expected), usual_example(shape)),
    };
    match example {
        "" => problem.try_this(format!("{path:?}: {words}")),
        example => problem.try_this(format!("{path:?}: {words}, for example {example}")),
    }
}

/// Describes a shape; `expected` describes a type that accepts several.
fn shaped(shape: Option<Shape>, expected: &str) -> String {
    match shape {
        Some(Shape::Whole(0, most)) if expected.starts_with("a nonzero ") => {
            Shape::Whole(1, most).to_string()
        }
        Some(shape) => shape.to_string(),
        None => expected.to_owned(),
    }
}

/// Whether a field's example has this shape: fields of different requests can have the same name.
fn fits(shape: Option<Shape>, example: &str) -> bool {
    let Some(shape) = shape else { return true };
    match example.as_bytes().first() {
        Some(b'"') => shape == Shape::Text,
        Some(b'[') => shape == Shape::Array,
        Some(b'{') => matches!(shape, Shape::Map | Shape::Object),
        _ => matches!(shape, Shape::Whole(..) | Shape::Number),
    }
}

fn usual_example(shape: Option<Shape>) -> &'static str {
    match shape {
        Some(Shape::Text) => r#""text""#,
        Some(Shape::Flag) => "true",
        Some(Shape::Whole(..)) => "5",
        Some(Shape::Number) => "0.5",
        _ => "",
    }
}

fn in_ticks<'s>(said: &'s str, before: &str) -> Option<&'s str> {
    said.strip_prefix(before)?.strip_prefix('`')?.strip_suffix('`')
}

/// Describes the value, from serde's description: `string "5"` becomes `the string "5"`. Source:
/// `Display` of `serde::de::Unexpected`.
fn found_words(found: &str) -> String {
    let after = |kind: &str| found.strip_prefix(kind).map(|it| it.trim().trim_matches('`'));
    if let Some(text) = after("string ") {
        return format!("the string {}", repeated(text));
    }
    if let Some(number) = after("integer ").or_else(|| after("floating point ")) {
        return format!("the number {}", repeated(number));
    }
    match found {
        "sequence" => "an array".to_owned(),
        "map" => "an object".to_owned(),
        "unit value" | "null" | "Option value" => "null".to_owned(),
        "unit variant" => "a string".to_owned(),
        "newtype variant" | "struct variant" | "tuple variant" => "an object".to_owned(),
        other => repeated(after("boolean ").unwrap_or(other)),
    }
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
                r#"priority: it is the string "5""#,
                r#""priority": a whole number from -2147483648 to 2147483647, for example 5"#,
            ),
            (
                r#"{"command": "a, expected b"}"#,
                r#"command: it is the string "a, expected b""#,
                r#""command": an array of strings, for example ["python", "train.py"]"#,
            ),
            (
                r#"{"command": ["a", 7]}"#,
                "command[1]: it is the number 7",
                r#""command[1]": a string, for example "text""#,
            ),
            (r#"{"hold": null}"#, "hold: it is null", r#""hold": true or false, for example true"#),
            (
                r#"{"environment": {"A": 1.5}}"#,
                "environment.A: it is the number 1.5",
                r#""environment.A": a string, for example "text""#,
            ),
            (
                r#"{"mem": true}"#,
                "mem: it is true",
                r#""mem": a string with a unit, or a number of bytes, for example "20G""#,
            ),
            (
                r#"{"cpus": []}"#,
                "cpus: it is an array",
                r#""cpus": a number of at least 0, or a string with a unit, for example 4"#,
            ),
            (
                r#"{"umask": -1}"#,
                "umask: it is the number -1",
                r#""umask": a whole number from 0 to 4294967295, for example 18"#,
            ),
            (r#"{"pty": [24, 80]}"#, "pty: it is an array", r#"an object: {"name": value, …}"#),
            (
                r#"{"activate": ["venv"]}"#,
                "activate[0]: it is a string",
                r#""activate[0]": one of "conda", "venv", "modules""#,
            ),
            (
                r#"{"name": "a", "name": "b"}"#,
                r#"the document: "name" is there twice"#,
                "leave one of them out",
            ),
            (
                r#"{"environment": {"A": "1", "A": "2"}}"#,
                r#"environment: "A" is there twice"#,
                "leave one of them out",
            ),
            (r#""a""#, r#"the document: it is the string "a""#, r#"an object: {"name": value, …}"#),
            ("[]", "the document: it is an array", r#"an object: {"name": value, …}"#),
        ] {
            assert_eq!(refused(document), (detail.to_owned(), vec![way.to_owned()]), "{document}");
        }
        assert_eq!(refused(r#"{"script": {}}"#).0, r#"script: "name" is missing"#);
        let defaults = read::<BulkDefaults>(br#"{"defaults": {"umask": -1}}"#).expect_err("umask");
        assert_eq!(defaults.detail, "defaults.umask: it is the number -1");
    }

    #[test]
    fn an_unknown_name_is_shown_with_its_place() {
        let (detail, tries) = refused(r#"{"pty": {"rows": 1, "column": 2}}"#);
        assert_eq!(detail, r#"pty: there is no field "column" at line 1 column 28"#);
        assert_eq!(tries, [r#""columns" is the nearest"#]);
        let (detail, tries) = refused(r#"{"activate": [{"vnev": "/a"}]}"#);
        assert_eq!(detail, r#"activate[0]: there is no value "vnev" at line 1 column 21"#);
        assert_eq!(tries, [r#""venv" is the nearest"#]);
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
            format!(r#"{{"environment": {{"{long}": "", "{long}": ""}}}}"#),
        ] {
            let (detail, tries) = refused(&document);
            assert!(detail.len() + tries.concat().len() < 1000, "{detail:.200}");
        }
        assert_eq!(nearest("commands", ["command"]), Some("command"));
        assert_eq!(nearest(&"command".repeat(1000), ["command"]), None);
    }
}
