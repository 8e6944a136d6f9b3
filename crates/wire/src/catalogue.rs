//! The error catalogue: for each kind of error its code, the exit code of commands, the HTTP
//! status, and a paragraph for `gpool help GPnnnn`, which works without a server. Codes are never
//! reused.

use gpool_model::Code;

/// One kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The stable code of the error.
    pub code: Code,
    /// Exit code of a command that fails with this error.
    pub exit: u8,
    /// HTTP status.
    pub status: u16,
    /// Title in a few words.
    pub title: &'static str,
    /// What the error means and how to resolve it.
    pub help: &'static str,
}

/// Exit code: any other failure.
pub const EXIT_OTHER: u8 = 1;
/// Exit code: the request is malformed.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: no server responds.
pub const EXIT_UNREACHABLE: u8 = 3;
/// Exit code: no node could ever run the job.
pub const EXIT_IMPOSSIBLE: u8 = 4;
/// Exit code: the caller has no permission.
pub const EXIT_NOT_PERMITTED: u8 = 5;
/// Exit code: the object does not exist.
pub const EXIT_NO_SUCH: u8 = 6;
/// Exit code: the current state does not allow the request.
pub const EXIT_CONFLICT: u8 = 7;
/// Exit code: a time limit passed.
pub const EXIT_TIMED_OUT: u8 = 8;

macro_rules! catalogue {
    ($(
        $name:ident = $code:literal, $exit:ident, $status:literal, $title:literal, $help:literal;
    )*) => {
        $(#[doc = $title] pub const $name: Code = Code($code);)*

        /// Every kind of error, by code.
        pub static CATALOGUE: &[Entry] = &[
            $(Entry { code: $name, exit: $exit, status: $status, title: $title, help: $help },)*
        ];
    };
}

catalogue! {
    INVALID = 101, EXIT_USAGE, 400, "a value is not valid",
        "A flag or a field of the request has a value that gpool does not understand. The message \
         names the field, the position and a valid example. Memory needs a unit (20G, 512M), a \
         bare time is minutes (90 = 1h30m), GPUs are whole (2, a100:2, 40G..:1).";
    TOO_LARGE = 102, EXIT_USAGE, 413, "the request is too large",
        "A request may have 1 MB, a bulk submission 64 MB and 1,000,000 jobs. Split it; hand \
         large data to jobs in files rather than in their environment.";
    UNKNOWN_FIELD = 103, EXIT_USAGE, 400, "a field is not known",
        "A request or a line of --from-jsonl has a field that gpool does not know. Unknown fields \
         are refused rather than ignored, so that a typing error does not start a job that \
         differs from what was meant. The nearest known name is suggested.";
    BAD_JSON = 104, EXIT_USAGE, 400, "this is not JSON",
        "The body of a request, or a line of --from-jsonl, could not be read as JSON. The message \
         says where reading stopped. In a bulk submission nothing was submitted: it is all lines \
         or none.";
    NO_SUCH_ROUTE = 105, EXIT_OTHER, 404, "there is no such path",
        "The server has nothing under that path. GET /openapi.json lists all there is. If the \
         gpool command met this, the server is older than the command: compare `gpool version`.";
    METHOD_NOT_ALLOWED = 106, EXIT_OTHER, 405, "the path has no such method",
        "The path exists, with other methods, which the Allow header names. If the gpool command \
         met this, the server is older than the command: compare `gpool version`.";
    NOT_JSON_TYPE = 107, EXIT_USAGE, 415, "the body is not declared as JSON",
        "Requests with a body need the header Content-Type: application/json (for bulk \
         submissions also application/jsonl or application/x-ndjson).";
    TOO_MANY_CONNECTIONS = 109, EXIT_OTHER, 429, "too many connections",
        "One user may have a limited number of connections open at once, so that a runaway script \
         does not lock others out. Close watches and followed logs that are not needed, and use \
         one call for many jobs.";
    BODY_TIMEOUT = 110, EXIT_TIMED_OUT, 408, "the request came too slowly",
        "The server waited for the rest of the request and did not get it. Nothing was done. Try \
         again.";
    HEADERS_TOO_LARGE = 111, EXIT_USAGE, 431, "the request's headers are too large",
        "The first line and the headers of a request may have 16 kB together. Put what is large \
         into the body, or ask for less at once.";
    TOO_MANY_REQUESTS = 112, EXIT_OTHER, 429, "too many requests",
        "One user may send a limited number of requests a second, so that a runaway script does \
         not slow others down. Nothing was done; the header Retry-After says when to try again, \
         and the gpool command waits and tries again by itself for a while. Use one call for many \
         jobs: `gpool submit --from-jsonl`, `gpool wait 1 2 3`, `gpool events`.";
    ENCODED_BODY = 113, EXIT_USAGE, 415, "the body is compressed",
        "Requests are taken as they are: no Content-Encoding but identity. A few compressed bytes \
         could become more than the server's memory.";
    SCRIPT_MISSING = 201, EXIT_USAGE, 400, "the script can't be read",
        "The script named on the command line does not exist, is a directory, or may not be read. \
         To run a program rather than a script, put it after two dashes: gpool submit -- program \
         arguments.";
    SCRIPT_NOT_RUNNABLE = 202, EXIT_USAGE, 400, "the file is no script",
        "A script is text and begins with a line that says what runs it, such as #!/bin/bash. To \
         run a binary, put it after two dashes: gpool submit -- ./program.";
    NOT_UTF8 = 203, EXIT_USAGE, 400, "an argument is not UTF-8",
        "Commands, names and paths travel as JSON, which is UTF-8. Put the command into a script, \
         which may hold any bytes. The environment may hold any bytes, too.";
    UNREACHABLE = 301, EXIT_UNREACHABLE, 503, "no server answers",
        "No gpool server answers on any of the sockets that were tried: that of --server, \
         GPOOL_SERVER or GPOOL_SOCKET if given; else your own ($XDG_RUNTIME_DIR/gpool/api.sock) \
         and the machine's (/run/gpool/api.sock). `gpool up` starts one; `gpool doctor` looks for \
         the cause. Jobs that run go on without a server: `gpool queue` lists them, and `gpool \
         logs` shows what they have written.";
    SHUTTING_DOWN = 302, EXIT_UNREACHABLE, 503, "the server is stopping",
        "The server was told to stop and takes no more requests. Jobs that run go on. `gpool up` \
         starts it again.";
    TIMED_OUT = 303, EXIT_TIMED_OUT, 504, "it took too long",
        "The answer did not come within the time given by --timeout. What was asked may have been \
         done: look before you ask again. A repeated submission with the same idempotency key is \
         not done twice.";
    SOCKET_PATH = 304, EXIT_USAGE, 400, "the socket's path can't be used",
        "The kernel takes 107 bytes in the path of a socket. `gpool up` needs 5 of them for the \
         socket of its liveness check, which has .live behind that path. Set GPOOL_SOCKET to a \
         shorter path, for both `gpool up` and the other commands.";
    SOCKET_NOT_OURS = 305, EXIT_NOT_PERMITTED, 403, "the folder belongs to another user",
        "Without XDG_RUNTIME_DIR your own server's socket is in /tmp/gpool-UID, a folder that \
         only you can enter. `gpool up` uses no folder for its socket or its state that another \
         user made where everybody may make files: that user could replace what lies in it. The \
         other commands skip such a folder and use the machine's server. Name a folder of your \
         own by --socket and --state-dir, or GPOOL_SOCKET and GPOOL_STATE_DIR. If the folder is \
         yours and others may enter it: chmod 700.";
    BAD_ANSWER = 306, EXIT_OTHER, 502, "the answer was not understood",
        "What answers on the socket does not speak as a gpool server does, or is of another \
         version. Compare both lines of `gpool version`.";
    NOT_READY = 307, EXIT_UNREACHABLE, 503, "the server is not ready yet",
        "The server has started and is still reading its state. Try again in a moment.";
    SOCKET_REFUSES = 308, EXIT_NOT_PERMITTED, 403, "you may not connect to the socket",
        "There is a socket, and its permissions, or those of a folder on the way, keep you from \
         connecting. The socket of a user's own server is for that user alone; that of root's \
         server is for all. `gpool up` starts a server of your own.";
    SILENT = 309, EXIT_UNREACHABLE, 503, "the server is there and does not answer",
        "The process of the server takes connections and answers nothing, also on its liveness \
         socket: it is stopped (SIGSTOP, Ctrl-Z, a debugger), hangs, or its disk does. Jobs that \
         run go on: `gpool queue` lists them, `gpool logs` shows what they have written. `kill \
         -CONT PID` lets a stopped process go on. `gpool down` ends a server that hangs, and \
         `gpool up` starts it again. A request that was sent may be carried out later: look \
         before you repeat it.";
    IMPOSSIBLE_GPUS = 412, EXIT_IMPOSSIBLE, 422, "no node could ever run this",
        "The job asks for more GPUs on one node, or for another kind, than any node has, whatever \
         is free. The message says the largest request that would fit and the nearest \
         alternative. If the hardware is still to come, --allow-unsatisfiable queues the job \
         until then. `gpool gpus` lists what there is.";
    NO_GPUS = 413, EXIT_IMPOSSIBLE, 422, "there are no GPUs",
        "The job asks for GPUs and the cluster has none. The message says where GPUs were looked \
         for. `gpool doctor` looks for the cause: no driver, no permission, or no GPU. Jobs \
         without GPUs run; `gpool up --devices sim:8xA100-80G` simulates some.";
    IMPOSSIBLE_RESOURCE = 414, EXIT_IMPOSSIBLE, 422, "no node is large enough",
        "The job asks for more CPU cores or memory than any node with its GPUs has. The message \
         says the largest there is. --allow-unsatisfiable queues it until a larger node comes.";
    ABOVE_QUOTA = 415, EXIT_IMPOSSIBLE, 422, "the quota could never allow this",
        "The job asks for more than its project, or one above it, could ever let it have: more \
         than a limit, or more than is guaranteed for a job that can't be taken back. With \
         --preemptible it may borrow what stands idle, and is put back when its owner asks for it. \
         `gpool quota` shows what is guaranteed. --allow-unsatisfiable queues it until the quota \
         is another.";
    TOO_FEW_NODES = 416, EXIT_IMPOSSIBLE, 422, "too few nodes could ever run this",
        "The job asks for tasks on several different nodes at once, and fewer nodes than that are \
         large enough for their part of it. The message says how many are, and the largest part \
         that would fit as many as were asked for. All tasks get GPUs of one model of the \
         request. --allow-unsatisfiable queues it until more nodes come.";
    ABOVE_USER_CAP = 417, EXIT_IMPOSSIBLE, 422, "one user could never have this",
        "The policy, or a project, says how many GPUs one user may hold and how many jobs one user \
         may run at once, and this job alone is more. `gpool user limit USER` and `gpool project \
         show PROJECT` show the caps, and let those change them who may. --allow-unsatisfiable \
         queues it until the cap is another.";
    NO_SUCH_NODES = 418, EXIT_IMPOSSIBLE, 422, "no node is one of those asked for",
        "--node and --not-node name a node that does not exist, or no node passes --node, \
         --not-node and --where together. The message lists the nodes and their labels. \
         --allow-unsatisfiable queues the job until such a node exists.";
    NOT_PERMITTED = 501, EXIT_NOT_PERMITTED, 403, "not permitted",
        "You may see and change your own jobs. Other users' jobs, and settings of the cluster, \
         are for admins: root, and the user whose server it is. You are known by the user that \
         runs the command; USER and LOGNAME do not matter.";
    PRIORITY_TOO_HIGH = 502, EXIT_NOT_PERMITTED, 403, "the priority is above that of users",
        "Users may lower the priority of their jobs, and raise it up to the policy's limit, which \
         is usually 0. An admin may raise it further.";
    CANNOT_RUN_AS = 504, EXIT_NOT_PERMITTED, 403, "the server can't run your jobs",
        "A server that runs without root runs jobs as its own user, and nobody else's. A server \
         of root runs everybody's jobs, each as whoever submitted it; `gpool up` starts one of \
         your own.";
    TOO_MANY_JOBS = 505, EXIT_CONFLICT, 429, "you have too many jobs",
        "One user may have a limited number of jobs that have not ended, so that the queue has \
         room for others. Cancel what is not needed, or submit the rest when some have ended. \
         Whose server it is sets the limit as user_jobs_max in gpool.toml.";
    USER_CAP = 506, EXIT_NOT_PERMITTED, 403, "you have too many jobs that wait",
        "The policy says how many jobs of one user may wait at once, so that one does not fill \
         the queue for all. Cancel what is not needed, or submit the rest when some have started. \
         `gpool user limit USER` shows the caps, and lets admins change them.";
    EXTEND_TOO_LONG = 507, EXIT_NOT_PERMITTED, 403, "that is more time than users may add",
        "What others were told of their starts rests on the time limits of jobs that run. So a \
         job's owner may add only so much to its limit while it runs (user_extend_max of the \
         policy); an admin may add any. Before it starts, `gpool edit JOB --time` takes any limit.";
    NOT_MEMBER = 508, EXIT_NOT_PERMITTED, 403, "you are no member of the project",
        "A project may name the users and groups that may submit to it; where it names none, the \
         project above it is asked. You are known by the user that runs the command, and by that \
         user's groups. The message lists the projects that take your jobs; an admin adds members \
         with `gpool project edit PROJECT --members`.";
    TIME_TOO_LONG = 509, EXIT_NOT_PERMITTED, 403, "the project allows less time",
        "A project may bound the time limits of its jobs, for itself and all below it. Ask for \
         less with --time, or submit to another project. `gpool project show PROJECT` says the \
         longest.";
    ABOVE_PARENT = 510, EXIT_NOT_PERMITTED, 403, "that is more than the project above has",
        "The admin of a project may divide what it is guaranteed among the projects below it, and \
         no more; the same of its limit. An admin of the cluster may give any.";
    HELD_BY_ADMIN = 511, EXIT_NOT_PERMITTED, 403, "an admin stopped the job",
        "An admin held, paused or requeued the job with --hold. Only an admin can release, resume, \
         requeue or move it: an admin of the server, or of the project if one of its admins \
         stopped it. Its owner can cancel it. `gpool why JOB` names the admin.";
    TOO_MUCH_STORED = 521, EXIT_CONFLICT, 429, "you have too much stored for jobs",
        "The server stores the environment and the script of each job, and the values of arrays, \
         and one user may have a limited amount of them, so that the disk has room for others. \
         Jobs of one user with the same environment share it. It is kept for a while after the \
         last job's end, for `gpool retry` (keep_environment in gpool.toml). Submit with \
         --clean-env, hand large data to jobs in files, or submit the rest later. \
         user_environment_max in gpool.toml sets the limit.";
    TOO_MANY_DEPENDENCIES = 522, EXIT_CONFLICT, 429, "too many dependencies",
        "One job may wait for a limited number of other jobs, and so may all jobs of one user \
         together, so that the server has memory and time left for others. Let a job wait for an \
         array (`--after ARRAY`) instead of many jobs, or for one job in between that waits for \
         some of them. job_dependencies_max and user_dependencies_max in gpool.toml set limits.";
    NO_SUCH_JOB = 601, EXIT_NO_SUCH, 404, "there is no such job",
        "No job has that id, neither living nor in the archive. `gpool queue --state all` lists \
         all there are.";
    NO_SUCH_PROJECT = 602, EXIT_NO_SUCH, 404, "there is no such project",
        "No project has that name. Without --project a job belongs to `default`. `gpool project \
         list` shows all there are.";
    NO_SUCH_NODE = 603, EXIT_NO_SUCH, 404, "there is no such node",
        "No node has that name. `gpool status` lists them.";
    NO_SUCH_DEVICE = 604, EXIT_NO_SUCH, 404, "there is no such GPU",
        "The node has no GPU with that index or UUID. `gpool gpus` lists them; indexes count from \
         0.";
    NO_SUCH_LOG = 605, EXIT_NO_SUCH, 404, "the job has no such log",
        "The job wrote to a file of its own (--stdout, --stderr), or its log was removed. `gpool \
         show ID` names the files.";
    NO_SUCH_POOL = 606, EXIT_NO_SUCH, 404, "there is no such pool",
        "No node is in a pool of that name. Without --pool a job may run on any node. `gpool pool` \
         lists the pools, `gpool pool move NODE POOL` begins one.";
    NO_SUCH_RESERVATION = 621, EXIT_NO_SUCH, 404, "there is no such reservation",
        "No reservation or maintenance window has that name; one that is over is gone. `gpool \
         reserve list` shows all there are.";
    ALREADY_ENDED = 701, EXIT_CONFLICT, 409, "the job has ended already",
        "A job that has ended can't be cancelled, held, signalled or changed. `gpool show ID` \
         says how it ended.";
    WRONG_STATE = 702, EXIT_CONFLICT, 409, "the job's state does not allow that",
        "Only a job that waits can be held, only a held one released, only a running one \
         signalled. `gpool show ID` says the state that it is in.";
    VERSION_CONFLICT = 703, EXIT_CONFLICT, 412, "somebody else was faster",
        "The job was changed after you read it, and your change was not made so that it \
         does not undo the other. Read it again, and repeat the change if it is still wanted.";
    KEY_REUSED = 704, EXIT_CONFLICT, 409, "the idempotency key was used for another request",
        "An idempotency key names one request, so that repeating it after a lost connection does \
         nothing twice. This key belongs to a request that differs. Use a new key for a new \
         request.";
    DEPENDENCY_NEVER_MET = 705, EXIT_CONFLICT, 409, "the job to wait for has ended otherwise",
        "A job given by --after has ended in a way that the dependency does not accept, so the \
         new job would never start. --after end:ID accepts any end, --after fail:ID a failure.";
    DEPENDENCY_CYCLE = 706, EXIT_CONFLICT, 409, "a job would wait for itself",
        "The jobs named each wait for the next, and the last for the first, so none of them would \
         ever start. Nothing was changed. Take one of the dependencies out first.";
    NOT_REQUEUEABLE = 707, EXIT_CONFLICT, 409, "the job is not to be run again",
        "It was submitted with --no-requeue: running it twice would do harm. Whoever knows better \
         may say so with `gpool edit JOB --requeue`, or cancel it.";
    PROJECT_CONFLICT = 708, EXIT_CONFLICT, 412, "somebody else was faster",
        "A project was changed, made or deleted after you read it, and nothing of yours was done \
         so that it does not undo that. Look again (`gpool project show`), and repeat it if it is \
         still wanted.";
    NOT_KEPT = 711, EXIT_CONFLICT, 409, "the job's environment is no longer kept",
        "A job is run again with the environment and the script that it had. They are removed some \
         time after its end: `gpool show ID` says when, keep_environment in gpool.toml sets it (7d \
         unless set). Submit the job again.";
    NO_TERMINAL = 720, EXIT_CONFLICT, 409, "the job has no terminal",
        "Only a job that was started by `gpool shell` or `gpool run --pty` has a terminal to \
         attach to. `gpool logs -f ID` follows what any job writes; `gpool exec ID -- bash` runs a \
         shell among its processes, with its environment and GPUs.";
    NOTHING_LISTENS = 721, EXIT_CONFLICT, 409, "nothing of the job listens there",
        "`gpool forward` connects to ports on which a process of the job itself listens, at the \
         node's loopback address. The message lists them. A server may need a moment after the \
         job's start; one that listens at another address only can't be reached.";
    JOB_NOT_REACHED = 722, EXIT_OTHER, 503, "the job could not be reached",
        "The process that watches the job did not open a line to it. The message says why. The job \
         goes on. A job that was started by an earlier version of gpool can't be attached to.";
    AFFECTS_OTHERS = 731, EXIT_CONFLICT, 409, "the work of others is touched",
        "Jobs run on what is to be drained or reserved and would not end in time, or jobs wait \
         that may no longer start there. Nothing was changed. Say what becomes of what runs: \
         --let-finish leaves it, --requeue stops it at that moment and puts it back into the \
         queue, --cancel ends it. --dry-run shows whose work it is.";
    RESERVATION_CLASH = 732, EXIT_CONFLICT, 409, "somebody else has it reserved",
        "Another reservation or maintenance window keeps the same GPU or node for somebody else \
         for a part of the same time; of recurring ones, at any of their times. Choose other GPUs \
         or another time, or cancel the other one.";
    NOT_ENOUGH_TO_RESERVE = 733, EXIT_IMPOSSIBLE, 409, "there is not as much to reserve",
        "So many GPUs of that kind can't be reserved for that time: there are fewer, they are \
         reserved for others, drained, not allowed or faulty. --spread takes them from several \
         nodes.";
    RESERVATION_EXISTS = 734, EXIT_CONFLICT, 409, "the name is taken",
        "A reservation or maintenance window of that name is there. Change that one (`gpool \
         reserve edit`), cancel it, or choose another name.";
    TOO_MANY_RESERVATIONS = 735, EXIT_CONFLICT, 409, "too many reservations",
        "There is a limit on how many reservations and maintenance windows there may be at once. \
         Cancel some that are not needed; one that recurs counts once.";
    NOT_DRAINED = 736, EXIT_CONFLICT, 409, "it is not drained",
        "The node or GPU that is to get work again is not drained. `gpool nodes` shows what is. A \
         GPU of a drained node is freed with its node.";
    DEPARTMENT = 741, EXIT_CONFLICT, 409, "a department takes no jobs",
        "A project that has others below it is a department: jobs belong to the projects below it, \
         which the message lists. `gpool project list` shows the tree.";
    PROJECT_EXISTS = 742, EXIT_CONFLICT, 409, "the name is taken",
        "A project of that name is there. Change that one (`gpool project edit`), or choose \
         another name.";
    PROJECT_HAS_JOBS = 743, EXIT_CONFLICT, 409, "the project has jobs",
        "Jobs of the project wait or run. While they do it can't be deleted, and nothing can be \
         put below it, for departments have no jobs. Cancel them, or wait for their ends.";
    PROJECT_HAS_CHILDREN = 744, EXIT_CONFLICT, 409, "the project has others below it",
        "A project is deleted when nothing is below it. Delete those first, or give them another \
         parent; `gpool project apply` does several things at once.";
    PROJECT_CYCLE = 745, EXIT_CONFLICT, 409, "a project would be below itself",
        "Each of the projects named is above the next, and the last above the first. Nothing was \
         changed. Give one of them another --parent, or none.";
    PROJECT_NEEDED = 746, EXIT_CONFLICT, 409, "the project is needed",
        "Jobs that name no project belong to `default`, so it is there and takes jobs. It may be \
         edited: with --limit 0 nothing starts in it, with --gpus 0 all that it holds is on loan.";
    TOO_MANY_PROJECTS = 747, EXIT_CONFLICT, 409, "too many projects",
        "There is a limit on how many projects there may be. Delete some that are not needed.";
    INTERNAL = 900, EXIT_OTHER, 500, "the server failed",
        "The server met an error of its own. What was asked may or may not have been done: look \
         before you ask again. The server's log has more; please report it with what `gpool \
         debug dump` writes.";
    STORAGE_FULL = 907, EXIT_OTHER, 507, "the server can't store more",
        "The disk of the server's state directory is full, or a limit of its file system is \
         reached. Nothing was changed. Running jobs go on; free some space and try again.";
    STATE_GONE = 908, EXIT_OTHER, 507, "the state folder was removed or replaced",
        "The files of the store are not those that the server has open: the state folder was \
         removed, or other files were put there. The server can keep nothing any more, so it takes \
         nothing. Running jobs go on. Put the folder back where it was, and the server goes on by \
         itself. If it is lost, stop the server with `gpool down` and `gpool restore` a backup.";
}

/// Returns the entry for a code.
#[must_use]
pub fn entry(code: Code) -> Option<&'static Entry> {
    CATALOGUE.iter().find(|entry| entry.code == code)
}

/// Returns the entry for a code as users write it: `GP0412`, `gp412`, `412`.
#[must_use]
pub fn find(text: &str) -> Option<&'static Entry> {
    let digits = match text.get(..2) {
        Some(prefix) if prefix.eq_ignore_ascii_case("gp") => &text[2..],
        _ => text,
    };
    entry(Code(digits.parse().ok()?))
}

/// Returns the exit code for an answer with an unknown error code.
#[must_use]
pub fn exit_of_status(status: u16) -> u8 {
    match status {
        400 | 413 | 415 | 431 => EXIT_USAGE,
        401 | 403 => EXIT_NOT_PERMITTED,
        404 => EXIT_NO_SUCH,
        408 | 504 => EXIT_TIMED_OUT,
        409 | 412 => EXIT_CONFLICT,
        422 => EXIT_IMPOSSIBLE,
        503 => EXIT_UNREACHABLE,
        _ => EXIT_OTHER,
    }
}
