//! Values of parameters that are known when the job starts: metadata that a pipeline passes on, and
//! values that a search has chosen.

use std::thread;
use std::time::{Duration, Instant};

use gpool_cli::failure::Result;
use gpool_client::Client;
use gpool_valohai::command::quoted;
use serde_json::Value;

use crate::failure::invalid;
use crate::plan::{LateSource, LateValue, Plan};

/// Longest wait for a value of a job that has ended: its last lines are read when it ends.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// The text in the script that the runner replaces by the value of a late parameter. It needs no
/// quotes.
#[must_use]
pub fn mark(ix: usize) -> String {
    format!("GPOOL-LATE-{ix}-VALUE")
}

/// Replaces the marks of a plan by the values. `values` are those of the command line by parameter.
///
/// # Errors
/// The server does not answer, a job has not reported its value, or the command line has none.
pub fn fill(plan: &mut Plan, values: &[(String, String)]) -> Result<()> {
    for late in std::mem::take(&mut plan.late) {
        let (text, value) = match &late.source {
            LateSource::Metric { job, key } => of_number(number(&late.parameter, job, key)?),
            LateSource::CommandLine { is_text } => of_command_line(&late, values, *is_text)?,
        };
        plan.script = plan.script.replace(&late.mark, &quoted(&text));
        plan.parameters.insert(late.parameter, value);
    }
    Ok(())
}

/// Whole numbers have no point, so that they fit parameters of type integer.
fn of_number(number: f64) -> (String, Value) {
    let value = match number.fract() == 0.0 && number.abs() < 1e15 {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
        true => Value::from(number as i64),
        false => Value::from(number),
    };
    (format!("{number}"), value)
}

fn of_command_line(
    late: &LateValue,
    values: &[(String, String)],
    is_text: bool,
) -> Result<(String, Value)> {
    let found = values.iter().find(|(name, _)| *name == late.parameter);
    let Some((_, text)) = found else {
        return Err(invalid(format!("parameter {:?} has no value", late.parameter)));
    };
    let as_json = serde_json::from_str(text).ok().filter(|_| !is_text);
    Ok((text.clone(), as_json.unwrap_or_else(|| Value::from(text.clone()))))
}

/// The last value that the job has reported.
fn number(parameter: &str, id: &str, key: &str) -> Result<f64> {
    let client = Client::find(None, None)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let job = client.job(id)?;
        if let Some(number) = job.usage.metrics.get(key) {
            return Ok(*number);
        }
        if Instant::now() > deadline {
            let what = format!("parameter {parameter:?}: job {id} has not reported {key:?}");
            return Err(invalid(what)
                .why("a line of its output must be JSON with a number")
                .tip(format!("echo '{{\"{key}\": 0.5}}'   (in the step of job {id})")));
        }
        thread::sleep(PAUSE);
    }
}
