//! Errors that only the command line has, beside those of the API's catalogue, and the lookup of
//! both. Codes are never reused.

use gpool_model::Code;
use gpool_wire::catalogue::{
    self, EXIT_CONFLICT, EXIT_NOT_PERMITTED, EXIT_OTHER, EXIT_TIMED_OUT, EXIT_USAGE, Entry,
};

pub use gpool_wire::catalogue::{INTERNAL, INVALID};

macro_rules! own {
    ($(
        $(#[$doc:meta])*
        $name:ident = $code:literal, $exit:ident, $title:literal, $help:literal;
    )*) => {
        $($(#[$doc])* pub const $name: Code = Code($code);)*

        /// The errors of the command line, by code.
        pub static OWN: &[Entry] = &[
            $(Entry { code: $name, exit: $exit, status: 0, title: $title, help: $help },)*
        ];
    };
}

own! {
    NO_SUCH_FLAG = 210, EXIT_USAGE, "there is no such flag",
        "The command has no flag with this name. Unknown flags are refused and not passed on, so \
         that a typing error does not become part of a job. Put flags of the job's own program \
         after two dashes: gpool run --gpus 1 -- program --its-flag.";
    NO_SUCH_VERB = 211, EXIT_USAGE, "there is no such command",
        "The first word after gpool is the command: run, submit, queue and so on. gpool --help \
         lists all of them.";
    USAGE = 212, EXIT_USAGE, "the command line is not complete",
        "A part of the command line is missing, or two parts exclude each other. The --help of the \
         command describes its arguments.";
    BAD_VARIABLE = 213, EXIT_USAGE, "a GPOOL_SUBMIT_ variable is not valid",
        "Variables that start with GPOOL_SUBMIT_ are defaults for the flags of run and submit: \
         GPOOL_SUBMIT_GPUS=1 is --gpus 1. A variable without such a flag, or with an invalid \
         value, is refused.";
    BAD_DIRECTIVE = 214, EXIT_USAGE, "a line of the script is not valid",
        "Comments such as '# GPOOL --gpus 2 --time 1h' at the start of a script are flags of \
         submit. The message names the line. Flags on the command line and GPOOL_SUBMIT_ variables \
         override them.";
    ENVIRONMENT_TOO_LARGE = 215, EXIT_USAGE, "the environment is too large",
        "A job gets the environment of the submitting user, and a request may have 1 MB in total. \
         --clean-env passes only HOME, PATH, USER and LANG, and -e adds others. Put large data \
         into files.";
    BAD_DIRECTORY = 216, EXIT_USAGE, "the working directory can't be used",
        "A job runs in the folder of its submission, or in that of --cwd. The folder must exist, \
         and its path must be UTF-8.";
    BAD_COLUMN = 217, EXIT_USAGE, "there is no such column or key",
        "--format takes the columns of a list; --filter and --sort take the keys of its JSON \
         (gpool queue --json shows them), those in groups also without the group. The message \
         lists the valid ones.";
    NOT_WRITTEN = 218, EXIT_OTHER, "the output can't be written",
        "Standard output or the given file can't be written: the disk is full, or you lack the \
         permission. The server has carried out the request.";
    FILES_DIFFER = 236, EXIT_CONFLICT, "files exist with another content",
        "The results of a job would replace files with another content, so gpool download has \
         written nothing. Fetch them into another folder, or replace the files with --force. Files \
         with the same content are left as they are.";
    BAD_FOLDER = 237, EXIT_USAGE, "the folder can't be uploaded",
        "A file of the folder of --upload can't be read, has a name that is not UTF-8, or changed \
         meanwhile. Paths in a file .gpoolignore, with the syntax of .gitignore, are left out.";
    FOLDER_TOO_LARGE = 238, EXIT_USAGE, "the folder is too large to upload",
        "The files of the folder of --upload have more bytes than the server takes for one job. \
         Leave out data, caches and environments in a file .gpoolignore, with the syntax of \
         .gitignore. upload_max in gpool.toml of the server sets the limit (default: 1G).";
    NOT_STARTED = 220, EXIT_OTHER, "the server did not start",
        "gpool up started a server in the background, and it ended before it answered. The message \
         shows the end of its log; the whole log is STATE/server.log. gpool up --foreground shows \
         its start.";
    RUNS_ALREADY = 221, EXIT_OTHER, "a server is already running",
        "A socket and a state folder can have only one server at a time. gpool status shows the \
         running server, and gpool down stops it; its jobs keep running. A second server needs its \
         own --state-dir and --socket.";
    NOT_STOPPED = 222, EXIT_TIMED_OUT, "the server has not stopped",
        "The server is still stopping, or it stopped and some jobs did not end. With --now it \
         first ends all jobs, and leaves jobs that still run 10 s after the longest grace period; \
         gpool up takes these over again. Its log is STATE/server.log.";
    NO_TOPIC = 223, EXIT_USAGE, "there is no such topic",
        "The argument can be a command, an error code (GP0412) or a topic. Without \
         arguments it lists the commands; gpool help topics lists the topics.";
    STORE_FAULT = 224, EXIT_OTHER, "the store can't be used",
        "The store in the state folder, or a backup of it, could not be opened, checked or copied. \
         The message says why. Nothing was changed. gpool verify checks a store that no server \
         uses.";
    CONNECTION_LOST = 225, EXIT_OTHER, "the connection was lost",
        "The server ended during the request, and did not come back in time. Running jobs \
         continue. gpool logs -f continues with a job's output once a server answers again.";
    AMBIGUOUS = 226, EXIT_USAGE, "several jobs have that name",
        "A job can be given by its name only if no other job has it. The message lists the IDs.";
    NEVER_ENDED = 227, EXIT_TIMED_OUT, "the jobs have not ended",
        "gpool wait reached its --timeout. The jobs continue.";
    NO_TERMINAL_HERE = 250, EXIT_USAGE, "a terminal is needed",
        "gpool shell, gpool attach and --pty show a terminal of the job on yours. So standard \
         input and output must be a terminal, not a pipe or a file. Without --pty, gpool run and \
         gpool exec work with pipes.";
    BAD_ENV_FILE = 251, EXIT_USAGE, "a file of variables can't be used",
        "Each line of a file for --env-file is NAME=VALUE, where the value is the rest of the line \
         without quotes; or NAME alone, which passes your own value; or a comment after #. The \
         message names the file and the line.";
    NO_SOFTWARE = 252, EXIT_USAGE, "the software was not found",
        "The environment or module of --conda, --uv, --venv or --module does not exist on this \
         machine. The message says where gpool looked and what exists. --setup COMMAND can create \
         an environment before the job waits for GPUs; then it may be missing at submission.";
    EXEC_NOT_STARTED = 253, EXIT_OTHER, "the program could not be started",
        "gpool exec reached the job, but could not start the program there: it is not in the job's \
         PATH, its folder is missing, or it is not executable. The message says which. The job \
         continues.";
    PORT_TAKEN = 254, EXIT_OTHER, "the local port can't be used",
        "gpool forward listens on a port of this machine, and that port is taken or needs root. \
         Give another port before a colon: 9000:8888, or 0:8888 for any free one.";
    NO_SCENARIOS = 255, EXIT_USAGE, "the cases can't be played",
        "gpool simulate scenarios reads JSON files with a list \"scenarios\". Each scenario has an \
         id, an action (allocate, consolidation, reclaim, preempt, stalegangeviction, or cycle for \
         all of them until nothing changes), nodes, queues, jobs with their tasks, and the \
         expected result for jobs, tasks and nodes. The message names the place of an error in a \
         file. A scenario that is not understood counts as failed, and the others run.";
    NO_DUMP = 256, EXIT_USAGE, "the dump can't be replayed",
        "gpool replay takes a file of gpool debug dump, a file that a server wrote to the folder \
         alerts of its state after a plan broke an invariant, or a state folder or backup with its \
         journal. The message says why it can't use this one. Replay a dump with the version of \
         gpool that wrote it: another version may decide differently.";
    BAD_TRACE = 257, EXIT_USAGE, "the trace can't be used",
        "gpool simulate packing reads CSV tables with a header, plain or compressed with gzip: \
         nodes with sn, cpu_milli, memory_mib, gpu (their number) and model, and tasks with \
         cpu_milli, memory_mib, num_gpu, gpu_milli and optionally gpu_spec (acceptable models: \
         V100M16|V100M32). gpool simulate queue reads jobs with submit_s, duration_s, gpus and \
         optionally vc, sorted by submission; or the store of a server, a state folder or a \
         backup, with at least one ended job. The message gives the file, line, column and the \
         expected value. Example: gpool simulate packing --nodes nodes.csv --tasks tasks.csv.gz";
    NOT_PLAYED = 258, EXIT_OTHER, "the trace could not be played to its end",
        "gpool simulate queue runs the real scheduler and checks each of its plans. Either a plan \
         broke an invariant, which the message names, or jobs wait although no event can follow. \
         Both are bugs of gpool: please report them with the trace and the command.";
    NO_PROGRAM = 259, EXIT_OTHER, "the program gpool-lab or gpool-mcp is needed",
        "gpool bench, gpool replay and gpool simulate packing, queue and scenarios are in a \
         separate program, gpool-lab, and gpool mcp is in gpool-mcp. gpool runs the one in its own \
         folder, otherwise one in PATH. In a checkout of gpool, cargo install --locked --path \
         testing/lab or crates/mcp installs it, and cargo build --package gpool-lab or gpool-mcp \
         builds it beside a gpool that was built there.";
    BAD_CONFIG = 229, EXIT_USAGE, "the settings can't be used",
        "gpool up reads its settings from the file of GPOOL_CONFIG, otherwise from \
         ~/.config/gpool/gpool.toml, or as root from /etc/gpool/gpool.toml. gpool help settings \
         lists the keys, and gpool init writes a file with all of them. Flags override the file. \
         Unknown keys are refused.";
    DEMO_FAILED = 228, EXIT_OTHER, "the demo or the benchmark failed",
        "gpool demo and gpool bench start a cluster of their own in a temporary folder. It did not \
         start, or a job that should have succeeded did not. gpool doctor shows the problems of \
         this machine.";
    FILE_EXISTS = 230, EXIT_CONFLICT, "the file exists already",
        "gpool init and gpool up --systemd do not overwrite a file. --force keeps the old one with \
         the suffix .old; --print only shows the new one. Example: gpool init --print | diff - \
         ~/.config/gpool/gpool.toml";
    NO_UNIT = 231, EXIT_OTHER, "there is no systemd unit",
        "gpool down --systemd removes the unit that gpool up --systemd wrote, and there is none: \
         ~/.config/systemd/user/gpool.service for a user, /etc/systemd/system/gpool.service for \
         the machine. gpool down alone stops a server that was started without systemd.";
    SYSTEMD = 232, EXIT_OTHER, "systemd refused",
        "systemctl could not carry out gpool up --systemd --now or gpool down --systemd: systemd \
         does not run here (for example, in a container), the user has no systemd session, or you \
         may not change the services of the machine. The unit file is written. gpool up starts the \
         server without systemd.";
    IMPORT_FAILED = 235, EXIT_OTHER, "the other scheduler can't be imported",
        "gpool import asks the other scheduler for its jobs, and got no answer, or an unknown one. \
         The jobs imported so far stay; a repeated import continues and does nothing twice.";
    WOULD_WAIT = 503, EXIT_NOT_PERMITTED, "the job would have to wait",
        "With --no-queue gpool refuses a job that can't start now. The message says why it can't. \
         Without --no-queue the job waits in the queue.";
}

/// Every kind of error, by code.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    catalogue::CATALOGUE.iter().chain(OWN)
}

/// The entry of a code, from either list.
#[must_use]
pub fn entry(code: Code) -> Option<&'static Entry> {
    catalogue::entry(code).or_else(|| OWN.iter().find(|entry| entry.code == code))
}

/// The entry of a code as users write it: `GP0412`, `gp412`, `412`.
#[must_use]
pub fn find(text: &str) -> Option<&'static Entry> {
    let digits = match text.get(..2) {
        Some(prefix) if prefix.eq_ignore_ascii_case("gp") => &text[2..],
        _ => text,
    };
    entry(Code(digits.parse().ok()?))
}
