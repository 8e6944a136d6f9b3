//! Files of variables with the format of docker's `--env-file`: a `NAME=VALUE` per line, the value
//! unquoted; a name alone takes the caller's value; lines that begin with `#` are comments.

use crate::caller::Variable;
use crate::errors;
use crate::failure::{Failure, Result};

/// Reads files; variables of later files win.
///
/// # Errors
/// A file can't be read, or a line is not valid.
pub fn read_all(paths: &[String]) -> Result<Vec<Variable>> {
    let mut variables = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::new(errors::BAD_ENV_FILE, format!("can't read {path}: {error}"))
        })?;
        variables.extend(read(path, &text)?);
    }
    Ok(variables)
}

fn read(path: &str, text: &str) -> Result<Vec<Variable>> {
    let mut variables = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let name = line.split('=').next().unwrap_or(line);
        let variable: Variable = line.parse().map_err(|_| {
            let what = format!("{path}, line {number}: {name:?} is not the name of a variable");
            let failure = Failure::new(errors::BAD_ENV_FILE, what)
                .why("a line is NAME=VALUE, a NAME alone for your own, or a remark after #");
            match name.strip_prefix("export ") {
                Some(name) => failure.tip(format!("{}=…   (without export)", name.trim())),
                None => failure,
            }
        })?;
        if line.contains('\0') {
            let what = format!("{path}, line {number}: the value holds a zero byte");
            return Err(Failure::new(errors::BAD_ENV_FILE, what));
        }
        variables.push(variable);
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
