//! The table of verbs. Each verb is a file here, with its arguments and a function that runs it.

pub mod attach;
pub mod backup;
pub mod completion;
pub mod debug;
pub mod demo;
pub mod doctor;
pub mod down;
pub mod drain;
pub mod edit;
pub mod edit_text;
pub mod events;
pub mod exec;
pub mod extend;
pub mod forward;
pub mod gpus;
pub mod help;
pub mod history;
pub mod init;
pub mod install_shims;
pub mod logs;
pub mod man;
pub mod nodes;
pub mod note;
pub mod notify;
pub mod on_jobs;
pub mod policy;
pub mod pool;
pub mod prio;
pub mod project;
pub mod queue;
pub mod quota;
pub mod release;
pub mod report;
pub mod requeue;
pub mod reserve;
pub mod restore;
pub mod retry;
pub mod run;
pub mod service;
pub mod shell;
pub mod shim;
pub mod show;
pub mod signal;
pub mod sim;
pub mod simulate;
mod simulate_if;
pub mod status;
pub mod submit;
pub mod up;
mod up_folders;
mod up_nodes;
pub mod user;
pub mod verify;
pub mod version;
pub mod wait;
pub mod why;

use clap::{Args, FromArgMatches as _};
use gpool_cli::failure::Result;
use gpool_cli::usage;
use gpool_compat::import;
use gpool_compat::slurm::step;
use gpool_model::JobVerb;

use crate::cli::{Group, Line, Verb};
use crate::lab::{self, LabArgs};
use crate::verbs::on_jobs::OnJobsArgs;

/// Builds the table. A row has the group, the name with aliases, the type of the arguments, the
/// line of help, and the function that runs the verb.
macro_rules! verbs {
    ($(
        $group:ident $name:literal $(or [$($alias:literal),*])? $(hidden [$($hidden:literal),*])?:
        $args:ty, $about:literal, $run:expr;
    )*) => {
        &[$(Verb {
            name: $name,
            aliases: &[$($($alias),*)?],
            hidden_aliases: &[$($($hidden),*)?],
            group: Group::$group,
            about: $about,
            flags: <$args>::augment_args,
            run: |mut found, line| {
                let run: fn($args, &Line<'_>) -> Result = $run;
                let args = <$args>::from_arg_matches_mut(&mut found);
                run(args.map_err(|error| usage::failure(&error, Some($name)))?, line)
            },
        }),*]
    };
}

/// Every verb, in the order of `gpool --help`.
pub static VERBS: &[Verb] = verbs! {
    Start "demo": demo::DemoArgs,
        "Run a mixed load on a temporary cluster, and explain the scheduling",
        |args, line| demo::run(args, line.session);
    Start "up": up::UpArgs, "Start the server of this machine",
        |args, line| up::run(&args, line.session);
    Start "down": down::DownArgs, "Stop the server; jobs keep running",
        |args, line| down::run(args, line.session);
    Start "status": status::StatusArgs, "Show the server and its cluster on one page",
        |args, line| status::run(&args, line.session);
    Start "doctor": doctor::DoctorArgs, "Check this machine and the server for problems",
        |args, line| doctor::run(&args, line.session);
    Start "version": version::VersionArgs, "Show the versions of this command and of the server",
        |args, line| version::run(args, line.session);
    Submit "run": run::RunArgs, "Run a command as a job and show its output",
        |args, line| {
            let is_command = line.has_dashes_before(args.words());
            run::run(args, is_command, line.session)
        };
    Submit "shell": shell::ShellArgs, "Open a shell as a job, with the flags of run",
        |args, line| shell::run(args, line.session);
    Submit "submit" or ["sub"] hidden ["batch"]: submit::SubmitArgs,
        "Submit a job and print its id",
        |args, line| {
            let is_command = line.has_dashes_before(args.words());
            submit::run(args, is_command, line.session)
        };
    See "queue" or ["q", "ps"]: queue::QueueArgs, "List jobs",
        |args, line| queue::run(&args, line.session);
    See "show": show::ShowArgs, "Show all information about jobs",
        |args, line| show::run(&args, line.session);
    See "why": why::WhyArgs, "Explain why jobs wait",
        |args, line| why::run(&args, line.session);
    See "logs": logs::LogsArgs, "Print the output of jobs",
        |args, line| logs::run(&args, line.session);
    See "wait": wait::WaitArgs,
        "Wait until jobs have ended; exit with the largest of their exit codes",
        |args, line| wait::run(&args, line.session);
    Steer "cancel": OnJobsArgs, "End jobs or remove them from the queue",
        |args, line| on_jobs::run(JobVerb::Cancel, &args, line.session);
    Steer "hold": OnJobsArgs, "Hold jobs in the queue until they are released",
        |args, line| on_jobs::run(JobVerb::Hold, &args, line.session);
    Steer "release": release::ReleaseArgs, "Release held jobs",
        |args, line| release::run(&args, line.session);
    Steer "pause": OnJobsArgs, "Pause running jobs and free their GPUs for others",
        |args, line| on_jobs::run(JobVerb::Pause, &args, line.session);
    Steer "resume": OnJobsArgs, "Resume paused jobs on the same GPUs when these are free",
        |args, line| on_jobs::run(JobVerb::Resume, &args, line.session);
    Submit "retry": retry::RetryArgs,
        "Run ended jobs again; of an array, the elements that did not succeed",
        |args, line| retry::run(&args, line.session);
    Steer "signal": signal::SignalArgs, "Send a signal to the processes of running jobs",
        |args, line| signal::run(&args, line.session);
    Steer "attach": attach::AttachArgs, "Attach to the terminal of a running job",
        |args, line| attach::run(&args, line.session);
    Steer "exec": exec::ExecArgs,
        "Run another program in a running job, with its environment and GPUs",
        |args, line| exec::run(args, line.session);
    Steer "forward": forward::ForwardArgs, "Forward local ports to a running job",
        |args, line| forward::run(&args, line.session);
    Steer "extend": extend::ExtendArgs, "Change the time limits of waiting or running jobs",
        |args, line| extend::run(&args, line.session);
    Steer "requeue": requeue::RequeueArgs, "Stop running jobs and queue them again",
        |args, line| requeue::run(&args, line.session);
    Submit "edit": edit::EditArgs, "Change the request of a job",
        |args, line| edit::run(&args, line.session);
    Steer "prio": prio::PrioArgs, "Change the priority of jobs",
        |args, line| prio::run(&args, line.session);
    Steer "note": note::NoteArgs, "Set the note of a job",
        |args, line| note::run(args, line.session);
    See "gpus": gpus::GpusArgs, "List GPUs, or show single ones in full",
        |args, line| gpus::run(args, line.session);
    Administer "user": user::UserArgs, "Show or change the limits of users",
        |args, line| user::run(&args, line.session);
    See "nodes" hidden ["node"]: nodes::NodesArgs, "List nodes, or change their labels",
        |args, line| nodes::run(args, line.session);
    Administer "policy": policy::PolicyArgs, "Show or change the settings of the scheduler",
        |args, line| policy::run(args, line.session);
    Administer "pool": pool::PoolArgs, "List pools of nodes, or move nodes between pools",
        |args, line| pool::run(args, line.session);
    Administer "project": project::ProjectArgs, "Show or change projects and their quotas",
        |args, line| project::run(args, line.session);
    Administer "quota": quota::QuotaArgs,
        "Show quota, usage and loans of projects",
        |args, line| quota::run(&args, line.session);
    Administer "drain": drain::DrainArgs, "Start no new jobs on nodes or GPUs",
        |args, line| drain::run(args, line.session);
    Administer "undrain": drain::UndrainArgs, "Start jobs on drained nodes or GPUs again",
        |args, line| drain::undrain(args, line.session);
    Administer "reserve": reserve::ReserveArgs, "Reserve GPUs or nodes for a user, project or job",
        |args, line| reserve::run(args, line.session);
    Administer "maint": reserve::MaintArgs, "Reserve nodes for maintenance",
        |args, line| reserve::maint(args, line.session);
    Steer "notify": notify::NotifyArgs,
        "Set the notifications of jobs, or list unsent ones",
        |args, line| notify::run(&args, line.session);
    See "events": events::EventsArgs,
        "Print events as they happen, or the past events of a job",
        |args, line| events::run(&args, line.session);
    See "history": history::HistoryArgs, "List ended jobs with their usage",
        |args, line| history::run(&args, line.session);
    See "report": report::ReportArgs, "Compare the usage of jobs with their request",
        |args, line| report::run(&args, line.session);
    Administer "backup": backup::BackupArgs,
        "Back up the store into one file; the server may keep running",
        |args, line| backup::run(&args, line.session);
    Administer "restore": restore::RestoreArgs,
        "Restore the store from a backup; the server must not run",
        |args, line| restore::run(&args, line.session);
    Administer "verify": verify::VerifyArgs, "Check the integrity of a store or a backup",
        |args, line| verify::run(&args, line.session);
    Administer "bench": LabArgs, "Measure the overhead of job starts on a temporary cluster",
        |_, _| lab::run();
    Administer "sim": sim::SimArgs,
        "Change simulated GPUs: processes, memory, faults, a driver that hangs",
        |args, line| sim::run(args, line.session);
    Administer "replay": LabArgs, "Repeat decisions from a dump or a journal, and compare",
        |_, _| lab::run();
    Administer "debug": debug::DebugArgs, "Find faults of gpool itself",
        |args, line| debug::run(args, line.session);
    Help "help": help::HelpArgs, "Explain an error (GP0412), a command or a topic",
        |args, line| help::run(&args, VERBS, line.session);
    Start "init": init::InitArgs, "Write a commented settings file",
        |args, line| init::run(args, line.session);
    Help "man": man::ManArgs, "Write manual pages into a folder",
        |args, line| man::run(&args, VERBS, line.session);
    Administer "simulate": simulate::SimulateArgs,
        "Show the effect of changes without making them",
        |args, line| simulate::run(&args, line.session);
    Start "import": import::ImportArgs, "Import the waiting jobs of another scheduler",
        |args, line| import::run(&args, line.session);
    Start "install-shims": install_shims::InstallShimsArgs,
        "Create links with the names of Slurm's and gflow's commands",
        |args, line| install_shims::run(&args, line.session);
    Help "shim": shim::ShimArgs, "Run a command of Slurm or gflow: gpool shim squeue --me",
        |args, line| shim::run(&args, line.session);
    Internal "step-host": step::host::StepHostArgs, "Start processes of a step; srun calls this",
        |args, _| step::host::run(&args);
    Help "completion": completion::CompletionArgs,
        "Print a script that completes the command line in a shell",
        |args, line| completion::run(args, line.session);
};

/// The output format of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum PageFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON document.
    Json,
    /// One JSON object per line.
    Jsonl,
    /// The JSON document as YAML.
    Yaml,
}

impl PageFormat {
    /// The format; `--json` means `-o json`.
    #[must_use]
    pub fn or_json(self, json: bool) -> Self {
        if json && self == Self::Text { Self::Json } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_means_one_verb() {
        let names = VERBS.iter().flat_map(|verb| {
            std::iter::once(&verb.name).chain(verb.aliases).chain(verb.hidden_aliases)
        });
        let mut names: Vec<&str> = names.copied().collect();
        let n_names = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n_names);
    }
}
