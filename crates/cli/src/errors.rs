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
    /// See the catalogue.
    NO_SUCH_FLAG = 210, EXIT_USAGE, "there is no such flag",
        "A word that starts with a dash is no flag of this command. Unknown flags are refused rather than handed on, so that a typing error does not become part of a job. Flags of the job's own program come after two dashes: gpool run --gpus 1 -- program --its-flag.";
    /// See the catalogue.
    NO_SUCH_VERB = 211, EXIT_USAGE, "there is no such command",
        "The first word after gpool says what to do: run, submit, queue and so on. gpool --help lists all of them.";
    /// See the catalogue.
    USAGE = 212, EXIT_USAGE, "the command line is not complete",
        "Something is missing from the command line, or two parts of it exclude each other. The command with --help shows what it takes.";
    /// See the catalogue.
    BAD_VARIABLE = 213, EXIT_USAGE, "a GPOOL_SUBMIT_ variable is not valid",
        "Variables that start with GPOOL_SUBMIT_ are defaults for the flags of run and submit: GPOOL_SUBMIT_GPUS=1 is --gpus 1. One that is no flag, or whose value is not understood, is refused rather than ignored.";
    /// See the catalogue.
    BAD_DIRECTIVE = 214, EXIT_USAGE, "a line of the script is not valid",
        "Lines such as '# GPOOL --gpus 2 --time 1h' in the comments at a script's start are flags of submit. The message names the line. Flags on the command line and GPOOL_SUBMIT_ variables go before them.";
    /// See the catalogue.
    ENVIRONMENT_TOO_LARGE = 215, EXIT_USAGE, "the environment is too large",
        "A job gets the environment of whoever submits it, and a request may have 1 MB in all. --clean-env passes only HOME, PATH, USER and LANG, and -e adds what is needed. Large data belongs in files.";
    /// See the catalogue.
    BAD_DIRECTORY = 216, EXIT_USAGE, "the working directory can't be used",
        "A job runs in the folder in which it was submitted, or in that of --cwd. It must exist, and its path must be UTF-8.";
    /// See the catalogue.
    BAD_COLUMN = 217, EXIT_USAGE, "there is no such column or key",
        "--format takes the columns of a list, --filter and --sort the keys of its JSON (gpool queue --json shows them). The message lists those that there are.";
    /// See the catalogue.
    NOT_WRITTEN = 218, EXIT_OTHER, "the output can't be written",
        "Standard output, or the file named, could not be written: the disk is full, or the file may not be written. What was asked of the server has been done.";
    /// See the catalogue.
    NOT_STARTED = 220, EXIT_OTHER, "the server did not start",
        "gpool up started a server in the background, and it ended before it answered. Its own words are shown; the whole log is STATE/server.log. gpool up --foreground shows it as it starts.";
    /// See the catalogue.
    RUNS_ALREADY = 221, EXIT_OTHER, "a server runs already",
        "On one socket and one state directory there is one server at a time. gpool status shows the one that runs, and gpool down stops it; its jobs go on. A second server needs its own --state-dir and --socket.";
    /// See the catalogue.
    NOT_STOPPED = 222, EXIT_TIMED_OUT, "the server has not stopped",
        "The server was told to stop and still runs, or it stopped and some jobs did not end. With --now it first ends all jobs, and leaves those that run 10 s longer than the longest grace; gpool up takes them over again. Its log is STATE/server.log.";
    /// See the catalogue.
    NO_TOPIC = 223, EXIT_USAGE, "there is no such topic",
        "gpool help takes the code of an error (GP0412), the name of a command, or a topic; without one it lists the topics.";
    /// See the catalogue.
    STORE_FAULT = 224, EXIT_OTHER, "the store can't be used",
        "The store of the state directory, or a backup of it, could not be opened, checked or copied. The message says why. Nothing was changed. gpool verify checks a store that no server uses.";
    /// See the catalogue.
    CONNECTION_LOST = 225, EXIT_OTHER, "the connection was lost",
        "The server ended while it was being listened to, and did not come back in time. Jobs that run go on. gpool logs -f goes on with a job's output once a server answers again.";
    /// See the catalogue.
    AMBIGUOUS = 226, EXIT_USAGE, "several jobs have that name",
        "A job can be named by its name only while one job has it. The message lists their ids.";
    /// See the catalogue.
    NEVER_ENDED = 227, EXIT_TIMED_OUT, "the jobs have not ended",
        "gpool wait waited for as long as --timeout allows. The jobs are not touched by that.";
    /// See the catalogue.
    NO_TERMINAL_HERE = 250, EXIT_USAGE, "a terminal is needed",
        "gpool shell, gpool attach and --pty show a terminal of the job on yours, and --watch draws on it, so standard input and output must be one: not a pipe, not a file. Without --pty, gpool run and gpool exec work with pipes.";
    /// See the catalogue.
    BAD_ENV_FILE = 251, EXIT_USAGE, "a file of variables can't be used",
        "A file of --env-file has a line for each variable: NAME=VALUE, where the value is all that follows as it stands, without quotes; or NAME alone, which takes your own; or a remark after #. The message names the file and the line.";
    /// See the catalogue.
    NO_SOFTWARE = 252, EXIT_USAGE, "the software was not found",
        "What --conda, --uv, --venv or --module names was looked for when the job was submitted, and is not there. The message says where it was looked for and what there is. --setup COMMAND can make an environment before the job waits for GPUs; then it need not be there yet.";
    /// See the catalogue.
    EXEC_NOT_STARTED = 253, EXIT_OTHER, "the program could not be started",
        "gpool exec reached the job, and the program could not be started in it: there is no such program in the job's PATH, its folder is not there, or it may not be run. The message says which. The job goes on.";
    /// See the catalogue.
    PORT_TAKEN = 254, EXIT_OTHER, "the local port can't be used",
        "gpool forward listens on a port of this machine, and that one is taken or needs root. Write another before a colon: 9000:8888, or 0:8888 for any that is free.";
    /// See the catalogue.
    NO_SCENARIOS = 255, EXIT_USAGE, "the cases can't be played",
        "gpool simulate scenarios reads files of JSON with a list \"scenarios\": each has an id, an action (allocate, consolidation, reclaim, preempt, stalegangeviction, or cycle for all of them until nothing changes), nodes, queues, jobs with their tasks, and what is expected of jobs, tasks and nodes afterwards. The message says where a file is otherwise. A case that is not understood counts as failed, and the others are played.";
    /// See the catalogue.
    NO_DUMP = 256, EXIT_USAGE, "the dump can't be replayed",
        "gpool replay takes a file that gpool debug dump made, or that a server left in the folder alerts of its state when a plan broke an invariant, or a state folder or a backup with its journal. The message says what is wrong with this one. What another version made is replayed by that version: another one may decide otherwise, and rightly.";
    /// See the catalogue.
    BAD_TRACE = 257, EXIT_USAGE, "the trace can't be used",
        "gpool simulate packing reads tables of comma-separated values with a line of names, plain or compressed by gzip: nodes with sn, cpu_milli, memory_mib, gpu (how many) and model, tasks with cpu_milli, memory_mib, num_gpu, gpu_milli and, if there is one, gpu_spec (models of which any will do: V100M16|V100M32). The message says the file, its line and column, and what was expected there. gpool simulate queue reads jobs with submit_s, duration_s and gpus, in the order of coming, and, if there is one, vc; or the store of a server, a state folder or a backup, of which at least one job must have run and ended. Example: gpool simulate packing --nodes nodes.csv --tasks tasks.csv.gz";
    /// See the catalogue.
    NOT_PLAYED = 258, EXIT_OTHER, "the trace could not be played to its end",
        "gpool simulate queue lets the scheduler that runs jobs decide, and checks each of its plans. Either a plan broke one of its promises, which the message names, or jobs wait though nothing will ever happen again. Both are defects of gpool: please report them with the trace and the command.";
    /// See the catalogue.
    NO_LAB = 259, EXIT_OTHER, "the program gpool-lab is needed",
        "gpool bench, gpool replay and gpool simulate packing, queue and scenarios are done by a program of their own, gpool-lab. gpool runs the one in its own folder, else one in a folder of PATH. In a checkout of gpool, cargo install --locked --path crates/lab installs it, and cargo build --package gpool-lab puts it beside a gpool that was built there.";
    /// See the catalogue.
    BAD_CONFIG = 229, EXIT_USAGE, "the settings can't be used",
        "gpool up takes settings from the file that GPOOL_CONFIG names, else from ~/.config/gpool/gpool.toml, or /etc/gpool/gpool.toml as root. gpool help settings lists its keys, and gpool init writes a file with all of them; flags go before them. A key that is none is refused rather than ignored.";
    /// See the catalogue.
    DEMO_FAILED = 228, EXIT_OTHER, "the demo or the benchmark did not work",
        "gpool demo and gpool bench start a cluster of their own in a temporary folder. It did not start, or a job that should have succeeded did not. gpool doctor shows what this machine lacks.";
    /// See the catalogue.
    FILE_EXISTS = 230, EXIT_CONFLICT, "there is a file already",
        "gpool init and gpool up --systemd write over no file that is there. --force keeps the old one beside it, with .old behind its name; --print shows what would be written. Example: gpool init --print | diff - ~/.config/gpool/gpool.toml";
    /// See the catalogue.
    NO_UNIT = 231, EXIT_OTHER, "there is no unit of systemd",
        "gpool down --systemd removes the unit that gpool up --systemd wrote, and there is none: ~/.config/systemd/user/gpool.service for a user, /etc/systemd/system/gpool.service for the machine. A server that was started without systemd is stopped by gpool down alone.";
    /// See the catalogue.
    SYSTEMD = 232, EXIT_OTHER, "systemd refused",
        "systemctl could not do what gpool up --systemd --now or gpool down --systemd asked of it: systemd does not run here (in a container, for example), a user's systemd has no session, or you may not change the machine's services. The unit itself is written. gpool up starts the server without systemd.";
    /// See the catalogue.
    IMPORT_FAILED = 235, EXIT_OTHER, "the other scheduler can't be taken over",
        "gpool import asks the other scheduler what it has, and it did not answer, or not as it is known here. What was taken over before that is kept; a repeated import goes on from there and does nothing twice.";
    /// See the catalogue.
    WOULD_WAIT = 503, EXIT_NOT_PERMITTED, "it would have to wait",
        "With --no-queue a job that can't start at once is refused. The message says what keeps it. Without --no-queue it waits for its turn.";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_is_used_twice() {
        let all = catalogue::CATALOGUE.iter().chain(OWN).map(|entry| entry.code);
        let mut codes: Vec<Code> = all.collect();
        let n_codes = codes.len();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), n_codes);
    }

    #[test]
    fn codes_are_found_as_people_write_them() {
        for text in ["GP0412", "gp412", "412"] {
            assert_eq!(find(text).map(|entry| entry.exit), Some(4), "{text}");
        }
        assert_eq!(find("GP0210").map(|entry| entry.exit), Some(2));
        for text in ["", "GP", "GP9999", "é", "ÿÿ12"] {
            assert!(find(text).is_none(), "{text}");
        }
    }
}
