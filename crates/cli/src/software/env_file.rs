//! Files of variables with the format of docker's `--env-file`: a `NAME=VALUE` per line, the value
//! unquoted; a name alone takes the caller's value; lines that begin with `#` are comments.

use crate::caller::Variable;
use crate::errors;
use crate::failure::{Failure, Result};

/// Reads files; variables of later files win.
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

/// Reads the lines of a file of variables.
///
/// # Errors
/// A line is no variable; the failure names its number.
pub fn read(path: &str, text: &str) -> Result<Vec<Variable>> {
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
                .why("a line is NAME=VALUE, NAME for your own value, or a comment after #");
            match name.strip_prefix("export ") {
                Some(name) => failure.tip(format!("{}=…   (without export)", name.trim())),
                None => failure,
            }
        })?;
        if line.contains('\0') {
            let what = format!("{path}, line {number}: the value contains a zero byte");
            return Err(Failure::new(errors::BAD_ENV_FILE, what));
        }
        variables.push(variable);
    }
    Ok(variables)
}
