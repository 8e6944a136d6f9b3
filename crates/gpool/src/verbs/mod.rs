//! The table of verbs. Each verb is a file here, with its arguments and a function that runs it.

pub mod agent;
pub mod backup;
pub mod completion;
pub mod debug;
pub mod demo;
pub mod doctor;
pub mod down;
pub mod grafana;
pub mod help;
pub mod history;
pub mod init;
pub mod logs;
pub mod man;
pub mod queue;
pub mod restore;
pub mod service;
pub mod sim;
pub mod top;
pub mod up;
mod up_folders;
mod up_network;
pub mod up_nodes;
pub mod verify;
pub mod version;

use clap::{Args, FromArgMatches as _};
use gpool_cli::args::mcp::McpArgs;
use gpool_cli::failure::Result;
use gpool_cli::usage as misuse;
use gpool_model::JobVerb;
use gpool_verbs::{
    attach, audit, budget, ca, context, cost, digest, download, drain, edit, events, exec, extend,
    forward, gpus, import, install_shims, login, mcp, mig, nodes, note, notify, on_jobs, open,
    policy, pool, prio, project, quota, release, report, requeue, reserve, retry, run, secret,
    sessions, shell, shim, show, signal, simulate, status, submit, sweep, token, usage, user, wait,
    waste, why, yields,
};

use crate::cli::{CommandLine, HelpSection, Verb};
use gpool_verbs::lab::{self, LabArgs};
use gpool_verbs::on_jobs::OnJobsArgs;

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
            group: HelpSection::$group,
            about: $about,
            flags: <$args>::augment_args,
            run: |mut found, line| {
                let run: fn($args, &CommandLine<'_>) -> Result = $run;
                let args = <$args>::from_arg_matches_mut(&mut found);
                run(args.map_err(|error| misuse::failure(&error, Some($name)))?, line)
            },
        }),*]
    };
}
/// Every verb, in the order of `gpool help`. [`crate::examples`] has the examples of each.
pub static VERBS: &[Verb] = verbs! {
    Common "up": up::UpArgs, "Start the server of this machine",
        |args, line| up::run(&args, line.session);
    Common "down": down::DownArgs, "Stop the server; jobs keep running",
        |args, line| down::run(args, line.session);
    Start "agent": agent::AgentArgs, "Run this machine's agent for a server on another one",
        |args, line| agent::run(&args, line.session);
    Common "run": run::RunArgs, "Run a command as a job and show its output",
        |args, line| {
            let is_command = line.has_dashes_before(args.words());
            run::run(args, is_command, line.session)
        };
    Common "submit" or ["sub"] hidden ["batch"]: submit::SubmitArgs,
        "Submit a job and print its ID",
        |args, line| {
            let is_command = line.has_dashes_before(args.words());
            submit::run(args, is_command, line.session)
        };
    Common "queue" or ["q", "ps"]: queue::QueueArgs, "List jobs",
        |args, line| queue::run(&args, line.session);
    Common "why": why::WhyArgs, "Explain why jobs wait",
        |args, line| {
            let exit = why::run(&args, line.session)?;
            let groups = args.groups(line.session.global.json);
            gpool_gateway::serve::explain(&groups, line.session).map(|()| exit)
        };
    Common "show": show::ShowArgs, "Show request, state, times and GPUs of jobs",
        |args, line| show::run(&args, line.session);
    Common "logs": logs::LogsArgs, "Print the output of jobs",
        |args, line| logs::run(&args, line.session);
    Common "cancel": OnJobsArgs, "End running jobs and remove waiting ones",
        |args, line| on_jobs::run(JobVerb::Cancel, &args, line.session);
    Common "gpus": gpus::GpusArgs, "List GPUs with their jobs, or choose the GPUs for new jobs",
        |args, line| gpus::run(args, line.session);
    Start "demo": demo::DemoArgs,
        "Run jobs on a temporary cluster and explain the decisions",
        |args, line| demo::run(args, line.session);
    Start "init": init::InitArgs, "Write a commented settings file",
        |args, line| init::run(args, line.session);
    Start "status": status::StatusArgs, "Show the server and its cluster on one page",
        |args, line| status::run(&args, line.session);
    Start "open": open::OpenArgs, "Open the dashboard in a browser",
        |args, line| open::run(args, line.session);
    Start "login": login::LoginArgs, "Sign in to a server on the network",
        |args, line| login::run(&args, line.session);
    Start "context": context::ContextArgs, "List or choose the servers that you signed in to",
        |args, line| context::run(args, line.session);
    Start "doctor": doctor::DoctorArgs, "Check this machine and the server for problems",
        |args, line| doctor::run(&args, line.session);
    Start "version": version::VersionArgs, "Show the versions of command and server",
        |args, line| version::run(args, line.session);
    Start "import": import::ImportArgs, "Submit the jobs of another tool's file, or of a gflow",
        |args, line| import::run(&args, line.session);
    Start "install-shims": install_shims::InstallShimsArgs,
        "Create links named like the commands of Slurm, gflow or Valohai",
        |args, line| install_shims::run(&args, line.session);
    Start "shim": shim::ShimArgs, "Run a command of Slurm, gflow or Valohai, e.g. squeue",
        |args, line| shim::run(&args, line.session);
    Start "mcp": McpArgs, "Offer tools to an assistant, by the Model Context Protocol",
        |_, _| mcp::run();
    Submit "shell": shell::ShellArgs, "Open a shell as a job",
        |args, line| shell::run(args, line.session);
    Submit "notebook": gpool_notebook::NotebookArgs,
        "Run Jupyter or another web server as a job, and print its URL",
        |args, line| gpool_notebook::run(args, line.session);
    Submit "retry": retry::RetryArgs,
        "Run ended jobs again; of arrays, unsuccessful elements",
        |args, line| retry::run(&args, line.session);
    Submit "secret" hidden ["secrets"]: secret::SecretArgs,
        "Set, list or remove secrets for jobs, such as access tokens",
        |args, line| secret::run(args, line.session);
    Submit "sweep": sweep::SweepArgs, "Run a command with many values of its parameters",
        |args, line| sweep::run(&args, line.session);
    Submit "map": gpool_map::MapArgs, "Handle the items of a list in workers that stay",
        |args, line| gpool_map::run(&args, line.session);
    Submit "vh": gpool_vh::VhArgs, "Run steps, tasks and pipelines of a valohai.yaml",
        |args, line| gpool_vh::run(args, line.session);
    Submit "serve": gpool_gateway::serve::ServeArgs,
        "Run a service: replicas by load behind one address",
        |args, line| gpool_gateway::serve::run(args, line.session);
    Submit "edit": edit::EditArgs, "Change the request of a job",
        |args, line| edit::run(&args, line.session);
    Show "top": top::TopArgs, "Watch GPUs and jobs on the whole terminal",
        |args, line| top::run(&args, line.session);
    Show "wait": wait::WaitArgs,
        "Wait until jobs have ended; exit with their largest code",
        |args, line| wait::run(&args, line.session);
    Show "nodes" hidden ["node"]: nodes::NodesArgs,
        "List nodes, add or remove them, or change their labels",
        |args, line| nodes::run(args, line.session);
    Show "quota": quota::QuotaArgs,
        "Show quota, usage and loans of projects",
        |args, line| quota::run(&args, line.session);
    Show "events": events::EventsArgs,
        "Print events as they happen, or past events of a job",
        |args, line| events::run(&args, line.session);
    Show "history": history::HistoryArgs, "List ended jobs with their usage",
        |args, line| history::run(&args, line.session);
    Show "usage": usage::UsageArgs, "Sum up allocated, busy and idle GPU time",
        |args, line| usage::run(&args, line.session);
    Show "cost": cost::CostArgs, "Sum up the cost of GPU time and energy",
        |args, line| cost::run(&args, line.session);
    Show "budget": budget::BudgetArgs, "Show budgets with the cost of this month",
        |args, line| budget::run(&args, line.session);
    Show "digest": digest::DigestArgs,
        "Show the use of GPUs by a project or user in the last week",
        |args, line| digest::run(args, line.session);
    Show "waste": waste::WasteArgs, "List jobs by the GPU time that they do not use",
        |args, line| waste::run(&args, line.session);
    Show "report": report::ReportArgs, "Compare the usage of jobs with their request",
        |args, line| report::run(&args, line.session);
    Show "download": download::DownloadArgs, "Fetch the results of a job that has ended",
        |args, line| download::run(&args, line.session);
    Control "hold": OnJobsArgs, "Hold waiting jobs until they are released",
        |args, line| on_jobs::run(JobVerb::Hold, &args, line.session);
    Control "release": release::ReleaseArgs, "Release held jobs",
        |args, line| release::run(&args, line.session);
    Control "pause": OnJobsArgs, "Pause running jobs and free their GPUs",
        |args, line| on_jobs::run(JobVerb::Pause, &args, line.session);
    Control "resume": OnJobsArgs, "Resume paused jobs on the same GPUs, once these are free",
        |args, line| on_jobs::run(JobVerb::Resume, &args, line.session);
    Control "yield": yields::YieldArgs, "Free the GPUs of a job that does this itself",
        |args, line| yields::run(&args, line.session);
    Control "requeue": requeue::RequeueArgs, "Stop running jobs and queue them again",
        |args, line| requeue::run(&args, line.session);
    Control "extend": extend::ExtendArgs, "Change the time limits of waiting or running jobs",
        |args, line| extend::run(&args, line.session);
    Control "prio": prio::PrioArgs, "Change the priority of jobs",
        |args, line| prio::run(&args, line.session);
    Control "signal": signal::SignalArgs, "Send a signal to the processes of running jobs",
        |args, line| signal::run(&args, line.session);
    Control "attach": attach::AttachArgs, "Attach to the terminal of a running job",
        |args, line| attach::run(&args, line.session);
    Control "exec": exec::ExecArgs,
        "Run another program in a running job",
        |args, line| exec::run(args, line.session);
    Control "forward": forward::ForwardArgs, "Forward local ports to a running job",
        |args, line| forward::run(&args, line.session);
    Control "note": note::NoteArgs, "Set the note of jobs",
        |args, line| note::run(args, line.session);
    Control "notify": notify::NotifyArgs,
        "Set notifications of jobs, projects or users; list unsent ones",
        |args, line| notify::run(&args, line.session);
    Administer "policy": policy::PolicyArgs, "Show or change the settings of the scheduler",
        |args, line| policy::run(args, line.session);
    Administer "project": project::ProjectArgs, "Show or change projects and their quotas",
        |args, line| project::run(args, line.session);
    Administer "user": user::UserArgs, "Show or change limits and rules of users",
        |args, line| user::run(args, line.session);
    Administer "token": token::TokenArgs, "Create, list or revoke tokens for the network",
        |args, line| token::run(args, line.session);
    Administer "sessions": sessions::SessionsArgs, "End sessions of browsers",
        |args, line| sessions::run(&args, line.session);
    Administer "audit": audit::AuditArgs, "List the changes of users, the newest first",
        |args, line| audit::run(args, line.session);
    Administer "ca": ca::CaArgs, "Show or export the server's certificate authority",
        |args, line| ca::run(&args, line.session);
    Administer "pool": pool::PoolArgs, "List pools of nodes, or move nodes between pools",
        |args, line| pool::run(args, line.session);
    Administer "mig": mig::MigArgs, "List, create or destroy MIG instances of GPUs",
        |args, line| mig::run(args, line.session);
    Administer "drain": drain::DrainArgs, "Start no new jobs on nodes or GPUs",
        |args, line| drain::run(args, line.session);
    Administer "undrain": drain::UndrainArgs, "Start jobs on drained nodes or GPUs again",
        |args, line| drain::undrain(args, line.session);
    Administer "reserve": reserve::ReserveArgs, "Reserve GPUs or nodes for a user, project or job",
        |args, line| reserve::run(args, line.session);
    Administer "maint": reserve::MaintArgs, "Reserve nodes for maintenance",
        |args, line| reserve::maint(args, line.session);
    Administer "simulate": simulate::SimulateArgs,
        "Show the effect of changes without making them",
        |args, line| simulate::run(&args, line.session);
    Administer "backup": backup::BackupArgs,
        "Back up the store into a file; the server may keep running",
        |args, line| backup::run(&args, line.session);
    Administer "restore": restore::RestoreArgs,
        "Restore the store from a backup; the server must not run",
        |args, line| restore::run(&args, line.session);
    Administer "verify": verify::VerifyArgs, "Check the integrity of a store or a backup",
        |args, line| verify::run(&args, line.session);
    Administer "sim": sim::SimArgs,
        "Change simulated GPUs, e.g. break one or add a process",
        |args, line| sim::run(args, line.session);
    Administer "grafana": grafana::GrafanaArgs,
        "Write dashboards of Grafana and alert rules of Prometheus",
        |args, line| grafana::run(&args, line.session);
    Administer "debug": debug::DebugArgs, "Gather the data for a bug report",
        |args, line| debug::run(args, line.session);
    Lab "bench": LabArgs, "Measure the overhead of job starts on a temporary cluster",
        |_, _| lab::run();
    Lab "replay": LabArgs, "Repeat recorded decisions and compare",
        |_, _| lab::run();
    Help "help": help::HelpArgs, "Explain a command, an error code or a topic",
        |args, line| help::run(&args, VERBS, line.session);
    Help "completion": completion::CompletionArgs,
        "Print the completion script of a shell",
        |args, line| completion::run(args, line.session);
    Help "man": man::ManArgs, "Write manual pages into a folder",
        |args, line| man::run(&args, VERBS, line.session);
    Internal "step-host": gpool_step::host::StepHostArgs,
        "Start processes of a step; srun calls this",
        |args, _| gpool_step::host::run(&args);
    Internal "rsh": gpool_step::rsh::RshArgs,
        "Run a command line on another node of the job; launchers of MPI call this",
        |args, line| gpool_step::rsh::run(&args, line.session);
    Internal "map-driver": gpool_map::driver::DriverArgs,
        "Lease the items of a map; gpool map calls this",
        |args, line| gpool_map::driver::run(&args, line.session);
    Internal "map-worker": gpool_map::worker::WorkerArgs,
        "Handle items of a map; its driver calls this",
        |args, line| gpool_map::worker::run(&args, line.session);
    Internal "gateway": gpool_gateway::gateway::GatewayArgs,
        "Run the gateway of a service; gpool serve submits this",
        |args, line| gpool_gateway::gateway::run(&args, line.session);
    Internal "notebook-host": gpool_notebook::host::HostArgs,
        "Run the web server of a notebook; gpool notebook calls this",
        |args, _| gpool_notebook::host::run(&args);
    Internal "vh-host": gpool_vh::host::HostArgs, "Run a step on the host; vh exec run calls this",
        |args, _| gpool_vh::host::run(&args);
};
