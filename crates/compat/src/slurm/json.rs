//! The envelope and the value types of `--json` and `--yaml`, in the form of Slurm's data parser
//! v0.0.41. JSON is also YAML, so both print the same text.

use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::foreign::flag::ParsedArgs;
use gpool_cli::session::Session;
use gpool_wire::{Time, catalogue};
use serde_json::{Map, Value, json};

use super::cells::CLUSTER;
use crate::shim::SLURM;

/// The versions of the data parser that the output can have. Before v0.0.40, a state was a text,
/// and is a list since.
const PARSERS: [&str; 4] = ["v0.0.39", "v0.0.40", "v0.0.41", "v0.0.42"];

/// The version without a name.
const PARSER: &str = "v0.0.41";
/// The variable with the version for `--json` without one.
const VARIABLE: &str = "GPOOL_DATA_PARSER";

/// A version of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parser(&'static str);

impl Parser {
    /// The version that `--json` or `--yaml` selects; `None` without these flags.
    ///
    /// # Errors
    /// There is no such version.
    pub fn of(args: &ParsedArgs) -> Result<Option<Self>> {
        let Some(written) = args.value("json").or_else(|| args.value("yaml")) else {
            return Ok(None);
        };
        // For clients of an older Slurm that can't be changed.
        let preferred = std::env::var(VARIABLE).ok().filter(|_| written.is_empty());
        let written = preferred.as_deref().unwrap_or(written).trim_start_matches("data_parser/");
        let name = if written.is_empty() { PARSER } else { written };
        let known = PARSERS.into_iter().find(|known| *known == name);
        known.map(|known| Some(Self(known))).ok_or_else(|| {
            let place = if preferred.is_some() { VARIABLE } else { "--json" };
            let what = format!("{place}: there is no data parser {written:?}");
            Failure::new(catalogue::INVALID, what)
                .why(format!("the choices are {}", PARSERS.join(", ")))
        })
    }

    #[must_use]
    pub fn states(self, states: &[&str]) -> Value {
        match states {
            [first, ..] if self.0 == PARSERS[0] => json!(first),
            states => json!(states),
        }
    }

    /// Prints values under a name, as the output of a command.
    pub fn print(
        self,
        name: &str,
        values: Vec<Value>,
        command: &[String],
        session: &Session,
    ) -> Result {
        let mut all = Map::new();
        all.insert(name.to_owned(), Value::Array(values));
        all.insert("last_update".to_owned(), time(Some(session.view().now)));
        all.insert("meta".to_owned(), self.meta(command, session));
        all.insert("errors".to_owned(), json!([]));
        all.insert("warnings".to_owned(), json!([]));
        session.screen.data(&format!("{:#}\n", Value::Object(all)))?;
        Ok(Exit::OK)
    }

    fn meta(self, command: &[String], session: &Session) -> Value {
        let [major, minor, micro] = SLURM;
        json!({
            "plugin": {
                "type": "", "name": "", "data_parser": format!("data_parser/{}", self.0),
                "accounting_storage": "accounting_storage/slurmdbd",
            },
            "client": { "source": "", "user": session.me(), "group": "" },
            "command": command,
            "slurm": {
                "version": { "major": major, "micro": micro, "minor": minor },
                "release": SLURM.join("."),
                "cluster": CLUSTER,
            },
        })
    }
}

/// A command line, as the output shows it.
#[must_use]
pub fn command_line(command: &str, words: &[String]) -> Vec<String> {
    std::iter::once(command.to_owned()).chain(words.iter().cloned()).collect()
}

/// A number that may be unset.
pub fn number(number: Option<u64>) -> Value {
    json!({ "set": number.is_some(), "infinite": false, "number": number.unwrap_or(0) })
}

/// A number; none stands for no limit.
pub fn bounded(number: Option<u64>) -> Value {
    let (set, number) = (number.is_some(), number.unwrap_or(0));
    json!({ "set": set, "infinite": !set, "number": number })
}

/// A time in seconds; 0 for none.
pub fn time(at: Option<Time>) -> Value {
    number(Some(seconds(at)))
}

/// A time in seconds; 0 for none.
#[must_use]
pub fn seconds(at: Option<Time>) -> u64 {
    at.map_or(0, |at| at.0.get() / 1000)
}

/// A cell as text; empty for none.
pub fn text(cell: Option<String>) -> Value {
    Value::String(cell.unwrap_or_default())
}

/// The literal of a table as a value.
pub fn fixed(literal: &str) -> Value {
    serde_json::from_str(literal).unwrap_or(Value::Null)
}

pub fn exit_code(code: Option<i32>, signal: Option<i32>) -> Value {
    let status = match (code, signal) {
        (_, Some(_)) => "SIGNALED",
        (Some(0), None) => "SUCCESS",
        (Some(_), None) => "ERROR",
        (None, None) => "PENDING",
    };
    let unsigned = |n: i32| u64::try_from(n).ok();
    let return_code = if signal.is_some() { Some(0) } else { code.and_then(unsigned) };
    let name = signal.and_then(gpool_wire::signal::name).unwrap_or_default();
    json!({
        "status": [status],
        "return_code": number(return_code),
        "signal": { "id": number(signal.and_then(unsigned)), "name": name },
    })
}
