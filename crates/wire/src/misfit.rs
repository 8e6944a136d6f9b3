//! Messages for data of the wrong type: the field, the value, the expected shape.

use gpool_model::escape::repeated;

use crate::catalogue;
use crate::problem::Problem;
use crate::strict::{ErrorLocation, JsonShape};

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
pub(crate) fn problem(place: &ErrorLocation, said: &str, whole: &str) -> Problem {
    let path = place.path();
    // The path contains names of environment variables.
    let path = &*repeated(&path);
    let name = if path.is_empty() { whole } else { path };
    let refused = |what: &str| Problem::new(catalogue::INVALID, format!("{name}: {what}"));
    if let Some(missing) = in_ticks(said, "missing field ") {
        return refused(&format!("{missing:?} is missing"));
    }
    if let Some(twice) = in_ticks(said, "duplicate field ") {
        return refused(&format!("{:?} is given twice", repeated(twice)))
            .try_this("leave one of them out");
    }
    let is_type = said.strip_prefix("invalid type: ");
    let unfit = is_type.or_else(|| said.strip_prefix("invalid value: "));
    let Some((found, expected)) = unfit.and_then(|unfit| unfit.rsplit_once(", expected ")) else {
        return refused(&repeated(said));
    };
    let problem = refused(&format!("it is {}", found_words(found)));
    let shape = place.expected();
    if path.is_empty() || shape == Some(JsonShape::Object) {
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
fn shaped(shape: Option<JsonShape>, expected: &str) -> String {
    match shape {
        Some(JsonShape::Whole(0, most)) if expected.starts_with("a nonzero ") => {
            JsonShape::Whole(1, most).to_string()
        }
        Some(shape) => shape.to_string(),
        None => expected.to_owned(),
    }
}

/// Whether a field's example has this shape: fields of different requests can have the same name.
fn fits(shape: Option<JsonShape>, example: &str) -> bool {
    let Some(shape) = shape else { return true };
    match example.as_bytes().first() {
        Some(b'"') => shape == JsonShape::Text,
        Some(b'[') => shape == JsonShape::Array,
        Some(b'{') => matches!(shape, JsonShape::Map | JsonShape::Object),
        _ => matches!(shape, JsonShape::Whole(..) | JsonShape::Number),
    }
}

fn usual_example(shape: Option<JsonShape>) -> &'static str {
    match shape {
        Some(JsonShape::Text) => r#""text""#,
        Some(JsonShape::Flag) => "true",
        Some(JsonShape::Whole(..)) => "5",
        Some(JsonShape::Number) => "0.5",
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
