//! Executions with one plan, each with a folder below that of the plan: the jobs of a search, and
//! the executions of a distributed task, which are the tasks of one job. Those learn the addresses
//! of the others there.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use gpool_cli::failure::Result;
use gpool_cli::render::clock;
use serde_json::{Value, json};

use crate::failure::invalid;
use crate::folder;

/// Longest wait for the other executions. They start at once, but a node may first copy files.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(100);
/// The folder with those of all executions.
const MEMBERS: &str = "members";

/// The executions of a task, as one of them sees them.
pub struct Group {
    /// The folder of this one.
    pub folder: PathBuf,
    name: String,
    rank: usize,
    /// What each has announced, by rank.
    members: Vec<Value>,
}

impl Group {
    /// Makes the folder of this execution, announces its address, and waits for the others.
    ///
    /// # Errors
    /// It runs in no job of gpool, a file can't be written, or another execution does not come.
    pub fn meet(of_plan: &Path) -> Result<Self> {
        let variable = |name: &str| {
            std::env::var(name).map_err(|_| invalid(format!("{name} is not set: gpool sets it")))
        };
        let number = |name: &str| -> Result<usize> {
            let text = variable(name)?;
            text.parse().map_err(|_| invalid(format!("{name}={text} is no number")))
        };
        let (rank, n_members) = (number("GPOOL_RANK")?, number("GPOOL_NUM_TASKS")?);
        let (job, attempt) = (variable("GPOOL_JOB_ID")?, variable("GPOOL_ATTEMPT")?);
        let folder = prepare(of_plan, &rank.to_string())?;
        let all = of_plan.join(MEMBERS);
        let address = address(&variable("MASTER_ADDR")?)?;
        let own = json!({
            "announce_time": clock::now().to_string(),
            "identity": format!("{job}.{rank}"),
            "job_id": job,
            "member_id": rank.to_string(),
            "network": {"exposed_ports": {}, "local_ips": [address], "public_ips": []},
        });
        // An earlier attempt of the job has announced other addresses.
        let file = |rank: usize| all.join(format!("{rank}-{attempt}.json"));
        write_whole(&file(rank), &own.to_string())?;
        let mut members = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while members.len() < n_members {
            let path = file(members.len());
            match fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
                Some(member) => members.push(member),
                None if Instant::now() > deadline => {
                    let what = format!("execution {} of the task did not come", members.len());
                    return Err(invalid(what)
                        .why(format!("{} is missing", path.display()))
                        .tip("nodes need a shared home for executions"));
                }
                None => thread::sleep(PAUSE),
            }
        }
        let name = std::env::var("VH_TASK_ID").unwrap_or_default();
        Ok(Self { folder, name, rank, members })
    }

    /// The file `distributed`.
    #[must_use]
    pub fn config(&self) -> Value {
        json!({
            "config": {
                "group_name": self.name,
                "member_id": self.rank.to_string(),
                "required_count": self.members.len(),
            },
            "members": self.members,
            "self": self.members.get(self.rank),
        })
    }

    pub fn variables(&self) -> [(&'static str, String); 3] {
        [
            ("VH_DIST_MEMBER_ID", self.rank.to_string()),
            ("VH_DIST_MEMBER_INDEX", self.rank.to_string()),
            ("VH_DIST_MEMBER_COUNT", self.members.len().to_string()),
        ]
    }
}

/// The folders with outputs of a job: of its execution, or of each execution that is a task of it.
#[must_use]
pub fn outputs(of_plan: &Path, job: &str) -> Vec<PathBuf> {
    let of = |name: &str| of_plan.join(MEMBERS).join(name).join("outputs");
    let own = of(&of_job(job));
    if own.is_dir() {
        return vec![own];
    }
    let ranks = 0_usize..;
    let ranks = ranks.map(|rank| of(&rank.to_string())).take_while(|path| path.is_dir());
    let members: Vec<PathBuf> = ranks.collect();
    if members.is_empty() { vec![of_plan.join("outputs")] } else { members }
}

/// The name of the folder of a job. Those of tasks are their ranks.
#[must_use]
pub fn of_job(job: &str) -> String {
    format!("job-{job}")
}

/// Makes the folder of an execution, with the files of its repository.
///
/// # Errors
/// A file can't be written.
pub fn prepare(of_plan: &Path, name: &str) -> Result<PathBuf> {
    let folder = of_plan.join(MEMBERS).join(name);
    for name in ["repository", "inputs", "outputs", "config"] {
        let path = folder.join(name);
        fs::create_dir_all(&path).map_err(|error| folder::not_written(&path, &error))?;
    }
    folder::copy_files(&of_plan.join("repository"), &folder.join("repository"))?;
    Ok(folder)
}

/// The address of this node in the network of the first execution.
fn address(first: &str) -> Result<String> {
    // No packet is sent: the kernel only chooses the address.
    let by = |any: &str| {
        let socket = UdpSocket::bind(any)?;
        socket.connect((first, 9))?;
        socket.local_addr()
    };
    match by("0.0.0.0:0").or_else(|_| by("[::]:0")) {
        Ok(address) => Ok(address.ip().to_string()),
        Err(error) => Err(invalid(format!("there is no way to MASTER_ADDR {first}: {error}"))),
    }
}

/// Writes a file at once, so that no reader finds a part of it.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .map_err(|error| folder::not_written(path, &error))
}
