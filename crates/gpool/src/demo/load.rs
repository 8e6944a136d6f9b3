//! The jobs of the demo: real processes that print the devices they got, work for a few seconds,
//! and end.

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::screen::Screen;
use gpool_client::{Client, new_key};
use gpool_wire::JobCreate;

use super::devices;

struct DemoJob {
    name: &'static str,
    gpus: u32,
    seconds: u32,
    /// The name of a job that must succeed first.
    after: Option<&'static str>,
    what: &'static str,
}

/// The jobs that come after the load: name, GPUs and seconds.
const ENDLESS: [(&str, u32, u32); 9] = [
    ("train", 4, 40),
    ("tune", 1, 25),
    ("eval", 1, 12),
    (IDLE, 1, 50),
    ("tune", 1, 30),
    ("prepare", 2, 20),
    ("tune", 1, 22),
    ("pretrain", u32::MAX, 15),
    ("eval", 2, 18),
];
/// The name of the job that does not use its GPU.
const IDLE: &str = "notebook";

/// A submitted job and the feature that it shows.
pub struct Submitted {
    pub id: String,
    /// What the job demonstrates.
    pub what: &'static str,
}

pub fn ids(submitted: &[Submitted]) -> Vec<String> {
    submitted.iter().map(|job| job.id.clone()).collect()
}

/// The jobs for a node with `n_devices` devices.
fn parts(n_devices: u32) -> Vec<DemoJob> {
    let part = |name, gpus, seconds, what| DemoJob { name, gpus, seconds, after: None, what };
    let mut parts = Vec::new();
    if n_devices >= 1 {
        parts.push(part("one", 1, 4, "one GPU"));
    }
    if n_devices >= 2 {
        parts.push(part("two", 2, 6, "two GPUs on one node"));
    }
    if n_devices >= 4 {
        parts.push(part("rest", n_devices - 3, 3, "all remaining GPUs"));
    }
    if n_devices >= 2 {
        parts.push(part("whole", n_devices, 2, "all GPUs at once: waits for the others"));
        parts.push(part("small", 1, 2, "submitted after `whole`, overtakes it"));
    }
    let first = if n_devices >= 1 { "one" } else { "cpu" };
    if n_devices == 0 {
        parts.push(part("cpu", 0, 2, "no GPU"));
    }
    let after = Some(first);
    parts.push(DemoJob { name: "after", gpus: 0, seconds: 1, after, what: "depends on the first" });
    parts
}

/// Submits the jobs for the free devices, and a request that can never be satisfied.
///
/// # Errors
/// The server refuses a valid job or accepts the impossible one.
pub fn submit(
    client: &Client,
    n_free: u32,
    n_devices: u32,
    screen: &Screen,
) -> Result<Vec<Submitted>> {
    let mut submitted: Vec<Submitted> = Vec::new();
    let mut ids: Vec<(&str, String)> = Vec::new();
    for part in parts(n_free) {
        let after = part.after.and_then(|name| ids.iter().find(|(other, _)| *other == name));
        let after = after.map(|(_, id)| id.clone()).into_iter().collect();
        let create = JobCreate { after, ..request(part.name, part.gpus, part.seconds) };
        let job = client.submit(&create, Some(&new_key())).map_err(Failure::from)?;
        screen.data(&format!("submitted {:>3} {:6} {}\n", job.id, part.name, part.what))?;
        ids.push((part.name, job.id.clone()));
        submitted.push(Submitted { id: job.id, what: part.what });
    }
    let impossible = JobCreate {
        command: vec!["true".to_owned()],
        name: Some("impossible".to_owned()),
        gpus: Some((n_devices + 8).to_string()),
        environment: path_alone(),
        ..JobCreate::default()
    };
    match client.submit(&impossible, None) {
        Ok(job) => {
            let what = format!("job {} requests more GPUs than exist, and was accepted", job.id);
            Err(Failure::new(errors::DEMO_FAILED, what))
        }
        Err(error) => {
            let problem = error.problem();
            screen.data(&format!("refused   impossible: {}\n", problem.detail))?;
            for why in &problem.why {
                screen.data(&format!("            why  {why}\n"))?;
            }
            screen.data("\n")?;
            Ok(submitted)
        }
    }
}

/// Submits the `n`-th job of an endless series, with at most `n_free` GPUs.
pub fn submit_another(client: &Client, n: usize, n_free: u32) -> Result<String> {
    let (name, gpus, seconds) = ENDLESS[n % ENDLESS.len()];
    let time = Some(format!("{}s", seconds + 10).into());
    let mut create = JobCreate { time, ..request(name, gpus.min(n_free), seconds) };
    if name == IDLE {
        create.environment.insert(devices::LOAD_VARIABLE.to_owned(), "0".to_owned());
    }
    client.submit(&create, Some(&new_key())).map(|job| job.id).map_err(Failure::from)
}

fn request(name: &str, gpus: u32, seconds: u32) -> JobCreate {
    JobCreate {
        command: vec!["sh".to_owned(), "-c".to_owned(), script(seconds)],
        name: Some(name.to_owned()),
        gpus: Some(gpus.to_string()),
        directory: Some("/".to_owned()),
        environment: path_alone(),
        ..JobCreate::default()
    }
}

fn script(seconds: u32) -> String {
    format!(
        "echo \"job $GPOOL_JOB_ID has GPUs [$CUDA_VISIBLE_DEVICES]\"; sleep {seconds}; echo done"
    )
}

fn path_alone() -> std::collections::BTreeMap<String, String> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    [("PATH".to_owned(), path)].into()
}
