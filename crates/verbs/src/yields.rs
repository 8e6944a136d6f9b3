//! `gpool yield`: frees the GPUs of a job that does this itself, and gets them back.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gpool_cli::args::values;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_client::Client;
use gpool_model::JobVerb;
use gpool_model::job::JobState;

/// Pause between two looks at the request or the job.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Args)]
#[command(
    after_help = "In a job that was submitted with --yields, call it once the GPU memory is freed: \
    it answers an open request, or gives the GPUs up until gpool yield --end. With JOB it asks \
    that job to free its GPUs."
)]
pub struct YieldArgs {
    /// Job to free the GPUs of (default: the job that the command runs in)
    #[arg(value_name = "JOB", value_parser = values::filled)]
    job: Option<String>,
    /// Take the GPUs back, and wait for them in a job
    #[arg(long)]
    end: bool,
}

/// Runs the verb.
///
/// # Errors
/// There is no such job, it does not run, or its GPUs are still in use.
pub fn run(args: &YieldArgs, session: &Session) -> Result {
    let client = session.client()?;
    match &args.job {
        Some(job) => {
            let verb = if args.end { JobVerb::Resume } else { JobVerb::Pause };
            check_yields(&client, job)?;
            client.act(verb, std::slice::from_ref(job))?;
            let done = if args.end { "gets its GPUs back" } else { "is asked to free its GPUs" };
            session.screen.note(&format!("job {job} {done}"));
        }
        None if args.end => Own::find(&client)?.take_back(&client)?,
        None => Own::find(&client)?.give_up(&client)?,
    }
    Ok(Exit::OK)
}

/// Other jobs would be stopped in memory instead.
fn check_yields(client: &Client, job: &str) -> Result<()> {
    match client.job(job)?.request.yields {
        Some(_) => Ok(()),
        None => Err(Failure::new(errors::INVALID, format!("job {job} does not free its GPUs"))
            .why("it was submitted without --yields")
            .tip(format!("gpool pause {job}   (stop its processes in memory)"))),
    }
}

/// The job that the command runs in.
struct Own {
    job: String,
    folder: PathBuf,
    /// The ending of the names of the task's files.
    rank: String,
}

impl Own {
    fn find(client: &Client) -> Result<Self> {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        let (Some(job), Some(folder)) = (variable("GPOOL_JOB_ID"), variable("GPOOL_DIR")) else {
            return Err(Failure::new(errors::INVALID, "gpool yield is not in a job here")
                .tip("gpool yield JOB   (ask a job to free its GPUs)"));
        };
        check_yields(client, &job)?;
        let rank = variable("GPOOL_RANK").filter(|rank| rank != "0");
        let rank = rank.map(|rank| format!("-{rank}")).unwrap_or_default();
        Ok(Self { job, folder: folder.into(), rank })
    }

    /// The open request to free the GPUs, as its number.
    fn request(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.folder.join(format!("gpus{}", self.rank))).ok()?;
        text.trim().strip_prefix("release ").map(str::to_owned)
    }

    /// Answers the request to free the GPUs, after making it if there is none.
    fn give_up(&self, client: &Client) -> Result<()> {
        if self.request().is_none() {
            client.act(JobVerb::Pause, std::slice::from_ref(&self.job))?;
        }
        let mut answered = None;
        loop {
            let request = self.request();
            if request.is_some() && request != answered {
                self.answer(request.as_deref().unwrap_or_default())?;
                answered.clone_from(&request);
            }
            let job = client.job(&self.job)?;
            let is_refused = answered.is_some() && request.is_none();
            if job.state == JobState::Paused && job.run.freed {
                return Ok(());
            }
            if job.state == JobState::Running && is_refused || job.state.is_end() {
                return Err(Failure::new(errors::INVALID, "the GPUs are not free")
                    .why("a process of the job still uses one, or its time to free them is over")
                    .tip(format!("gpool events {}", self.job)));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn answer(&self, request: &str) -> Result<()> {
        let [new, path] =
            [".released.new", "released"].map(|it| self.folder.join(format!("{it}{}", self.rank)));
        std::fs::write(&new, request).and_then(|()| std::fs::rename(&new, &path)).map_err(|error| {
            Failure::new(errors::INVALID, format!("can't write {}: {error}", path.display()))
        })
    }

    /// Asks for the GPUs, and waits until the job may use them.
    fn take_back(&self, client: &Client) -> Result<()> {
        if self.request().is_some() {
            client.act(JobVerb::Resume, std::slice::from_ref(&self.job))?;
        }
        while self.request().is_some() {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}
