//! Values of parameters that other jobs report: metadata that a pipeline passes on.

use std::thread;
use std::time::{Duration, Instant};

use gpool_cli::failure::Result;
use gpool_client::Client;

use crate::failure::invalid;
use crate::plan::{LateValue, Plan};

/// Longest wait for a value of a job that has ended: its last lines are read when it ends.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// Replaces the marks of a plan by the values.
///
/// # Errors
/// The server does not answer, or a job has not reported its value.
pub fn fill(plan: &mut Plan) -> Result<()> {
    let client = Client::find(None, None)?;
    for late in std::mem::take(&mut plan.late) {
        let number = number(&client, &late)?;
        // Whole numbers have no point, so that they fit parameters of type integer.
        plan.script = plan.script.replace(&late.mark, &format!("{number}"));
        let value = match number.fract() == 0.0 && number.abs() < 1e15 {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
            true => serde_json::Value::from(number as i64),
            false => serde_json::Value::from(number),
        };
        plan.parameters.insert(late.parameter, value);
    }
    Ok(())
}

/// The last value that the job has reported.
fn number(client: &Client, late: &LateValue) -> Result<f64> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let job = client.job(&late.job)?;
        if let Some(number) = job.usage.metrics.get(&late.key) {
            return Ok(*number);
        }
        if Instant::now() > deadline {
            let (key, id) = (&late.key, &late.job);
            let what = format!("parameter {:?}: job {id} has not reported {key:?}", late.parameter);
            return Err(invalid(what)
                .why("a line of its output must be JSON with a number")
                .tip(format!("echo '{{\"{key}\": 0.5}}'   (in the step of job {id})")));
        }
        thread::sleep(PAUSE);
    }
}
