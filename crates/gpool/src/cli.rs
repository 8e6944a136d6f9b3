//! The whole command line as one type, and the table from verbs to what runs them.

use clap::{Parser, Subcommand};
use gpool_cli::args::Global;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;
use gpool_compat::import;
use gpool_compat::slurm::step;

use crate::lab::{self, LabArgs};
use crate::verbs::{
    attach, backup, cancel, completion, debug, demo, doctor, down, drain, edit, events, exec,
    extend, forward, gpus, help, history, hold, init, install_shims, logs, man, nodes, note,
    notify, pause, policy, pool, prio, project, queue, quota, release, report, requeue, reserve,
    restore, retry, run, shell, shim, show, signal, sim, simulate, status, submit, up, user,
    verify, version, wait, why,
};

/// Gives GPUs to jobs
#[derive(Debug, Clone, Parser)]
#[command(name = "gpool", version, disable_help_subcommand = true, disable_version_flag = true)]
#[command(subcommand_required = true, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "gpool help GP0412 explains an error, gpool help lists topics.")]
pub struct Cli {
    /// Flags that every verb has.
    #[command(flatten)]
    pub global: Global,
    /// Print the version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    /// Run a mixed load on a cluster of its own, and show who gets what and why
    Demo(demo::DemoArgs),
    /// Start the server of this machine
    Up(up::UpArgs),
    /// Stop the server; jobs go on
    Down(down::DownArgs),
    /// Show the server and its cluster on one page
    Status(status::StatusArgs),
    /// Try what gpool needs on this machine, and say what works
    Doctor(doctor::DoctorArgs),
    /// Show the versions of this command and of the server
    Version(version::VersionArgs),
    /// Run a command as a job and stay with it
    #[command(args_override_self = true)]
    Run(run::RunArgs),
    /// Open a shell as a job, with the flags of run
    #[command(args_override_self = true)]
    Shell(shell::ShellArgs),
    /// Hand in a job and print its id
    #[command(visible_alias = "sub", alias = "batch", args_override_self = true)]
    Submit(submit::SubmitArgs),
    /// List jobs
    #[command(visible_aliases = ["q", "ps"])]
    Queue(queue::QueueArgs),
    /// Show all that is known of jobs
    Show(show::ShowArgs),
    /// Say why jobs wait
    Why(why::WhyArgs),
    /// Show what a job has written
    Logs(logs::LogsArgs),
    /// Wait until jobs have ended; the exit code is the largest of theirs
    Wait(wait::WaitArgs),
    /// End jobs, or take them off the queue
    Cancel(cancel::CancelArgs),
    /// Keep jobs from starting until they are released
    Hold(hold::HoldArgs),
    /// Let held jobs start
    Release(release::ReleaseArgs),
    /// Stop jobs that run where they are, and free their GPUs
    Pause(pause::PauseArgs),
    /// Let paused jobs go on when there is room
    Resume(pause::ResumeArgs),
    /// Let jobs that ended run again; of an array, the elements that did not succeed
    Retry(retry::RetryArgs),
    /// Send a signal to the processes of running jobs
    Signal(signal::SignalArgs),
    /// Show the terminal of a running job here, and type into it
    Attach(attach::AttachArgs),
    /// Run a further program in a running job: its processes, environment and GPUs
    Exec(exec::ExecArgs),
    /// Make ports of a running job reachable here
    Forward(forward::ForwardArgs),
    /// Change the time limits of jobs, running or not
    Extend(extend::ExtendArgs),
    /// Stop jobs that run, and run them again later
    Requeue(requeue::RequeueArgs),
    /// Change what can still change of a job
    Edit(edit::EditArgs),
    /// Change the priority of jobs
    Prio(prio::PrioArgs),
    /// Write something beside a job
    Note(note::NoteArgs),
    /// List GPUs, or show some in full
    Gpus(gpus::GpusArgs),
    /// Show or change how much users may have
    User(user::UserArgs),
    /// List nodes, or change their labels
    #[command(alias = "node")]
    Nodes(nodes::NodesArgs),
    /// Show or change how the scheduler decides
    Policy(policy::PolicyArgs),
    /// List pools of nodes, or put nodes into one
    Pool(pool::PoolArgs),
    /// Show or change projects and their quotas
    Project(project::ProjectArgs),
    /// Show what projects may have and have, and who lends to whom
    Quota(quota::QuotaArgs),
    /// Give nodes or GPUs no new work
    Drain(drain::DrainArgs),
    /// Give nodes or GPUs work again
    Undrain(drain::UndrainArgs),
    /// Keep GPUs or nodes for somebody for a time
    Reserve(Box<reserve::ReserveArgs>),
    /// Keep nodes free of work for a time
    Maint(Box<reserve::MaintArgs>),
    /// Say who is told of jobs, and show what is still to be told
    Notify(notify::NotifyArgs),
    /// Show what happens, as it happens; of a job, what has happened to it
    Events(events::EventsArgs),
    /// List jobs that have ended, with what they took
    History(history::HistoryArgs),
    /// Say what jobs used of what they asked for
    Report(report::ReportArgs),
    /// Copy the store into one file; the server may go on meanwhile
    Backup(backup::BackupArgs),
    /// Make a store out of a backup; no server may use it meanwhile
    Restore(restore::RestoreArgs),
    /// Check a store or a backup
    Verify(verify::VerifyArgs),
    /// Measure what starting jobs costs, on a cluster of its own
    Bench(LabArgs),
    /// Let something happen to simulated GPUs: processes, memory, faults, a driver that hangs
    Sim(sim::SimArgs),
    /// Make decisions again from a dump or a journal, and compare
    Replay(LabArgs),
    /// Help to find faults of gpool itself
    Debug(debug::DebugArgs),
    /// Explain an error (GP0412), a command or a topic
    Help(help::HelpArgs),
    /// Write a commented file of settings
    Init(init::InitArgs),
    /// Write manual pages into a folder
    Man(man::ManArgs),
    /// Say what would come of changes, and make none of them
    Simulate(simulate::SimulateArgs),
    /// Take over what another scheduler has
    Import(import::ImportArgs),
    /// Make links by the names of Slurm's and gflow's commands
    InstallShims(install_shims::InstallShimsArgs),
    /// Run a command of Slurm or gflow: gpool shim squeue --me
    Shim(shim::ShimArgs),
    /// Start processes of a step; srun calls this
    #[command(hide = true)]
    StepHost(step::host::StepHostArgs),
    /// Print a script that completes the command line in a shell
    Completion(completion::CompletionArgs),
}

impl Verb {
    /// Runs it. `is_command` says whether two dashes stood before the last words.
    ///
    /// # Errors
    /// What the verb meets.
    pub fn run(self, is_command: bool, session: &Session) -> Result {
        match self {
            Self::Demo(args) => demo::run(args, session),
            Self::Bench(_) | Self::Replay(_) => lab::run(),
            Self::Sim(args) => sim::run(args, session),
            Self::Up(args) => up::run(&args, session),
            Self::Down(args) => down::run(args, session),
            Self::Status(args) => status::run(&args, session),
            Self::Doctor(args) => doctor::run(&args, session),
            Self::Version(args) => version::run(args, session),
            Self::Run(args) => run::run(args, is_command, session),
            Self::Shell(args) => shell::run(args, session),
            Self::Attach(args) => attach::run(&args, session),
            Self::Exec(args) => exec::run(args, session),
            Self::Forward(args) => forward::run(&args, session),
            Self::Submit(args) => submit::run(args, is_command, session),
            Self::Queue(args) => queue::run(&args, session),
            Self::Show(args) => show::run(&args, session),
            Self::Why(args) => why::run(&args, session),
            Self::Logs(args) => logs::run(&args, session),
            Self::Wait(args) => wait::run(&args, session),
            Self::Cancel(args) => cancel::run(&args, session),
            Self::Hold(args) => hold::run(&args, session),
            Self::Release(args) => release::run(&args, session),
            Self::Pause(args) => pause::pause(&args, session),
            Self::Resume(args) => pause::resume(&args, session),
            Self::Retry(args) => retry::run(&args, session),
            Self::Signal(args) => signal::run(&args, session),
            Self::Extend(args) => extend::run(&args, session),
            Self::Requeue(args) => requeue::run(&args, session),
            Self::Edit(args) => edit::run(&args, session),
            Self::Prio(args) => prio::run(&args, session),
            Self::Note(args) => note::run(args, session),
            Self::Gpus(args) => gpus::run(args, session),
            Self::Notify(args) => notify::run(&args, session),
            Self::Policy(args) => policy::run(args, session),
            Self::Pool(args) => pool::run(args, session),
            Self::User(args) => user::run(&args, session),
            Self::Nodes(args) => nodes::run(args, session),
            Self::Project(args) => project::run(args, session),
            Self::Quota(args) => quota::run(&args, session),
            Self::Drain(args) => drain::run(args, session),
            Self::Undrain(args) => drain::undrain(args, session),
            Self::Reserve(args) => reserve::run(*args, session),
            Self::Maint(args) => reserve::maint(*args, session),
            Self::Events(args) => events::run(&args, session),
            Self::History(args) => history::run(&args, session),
            Self::Report(args) => report::run(&args, session),
            Self::Backup(args) => backup::run(&args, session),
            Self::Restore(args) => restore::run(&args, session),
            Self::Verify(args) => verify::run(&args, session),
            Self::Debug(args) => debug::run(args, session),
            Self::Help(args) => help::run(&args, session),
            Self::Init(args) => init::run(args, session),
            Self::Man(args) => man::run(&args, session),
            Self::Simulate(args) => simulate::run(&args, session),
            Self::Import(args) => import::run(&args, session),
            Self::InstallShims(args) => install_shims::run(&args, session),
            Self::Shim(args) => shim::run(&args, session),
            Self::StepHost(args) => step::host::run(&args),
            Self::Completion(args) => completion::run(args, session),
        }
    }

    /// The words at the end of the command line that are not ours to read.
    #[must_use]
    pub fn last_words(&self) -> &[String] {
        match self {
            Self::Submit(args) => args.words(),
            Self::Run(args) => args.words(),
            _ => &[],
        }
    }
}
