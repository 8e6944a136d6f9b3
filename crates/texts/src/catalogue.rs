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
        "A flag or a field of the request has an invalid value. The message names the field, the \
         position and a valid example. Memory needs a unit (20G, 512M); a bare time is in minutes \
         (90 = 1h30m); GPUs are a number, a fraction or a model (2, 0.5, a100:2, 40G..:1).";
    TOO_LARGE = 102, EXIT_USAGE, 413, "the request is too large",
        "A request may have 1 MB, a bulk submission 64 MB and 1,000,000 jobs. Split it, or pass \
         large data to jobs in files instead of their environment.";
    UNKNOWN_FIELD = 103, EXIT_USAGE, 400, "there is no such field",
        "A request or a line of --from-jsonl has an unknown field. gpool refuses unknown fields, \
         so that a typing error does not start a job with other settings. The message suggests the \
         nearest name.";
    BAD_JSON = 104, EXIT_USAGE, 400, "this is not JSON",
        "The body of a request, or a line of --from-jsonl, is not valid JSON. The message gives \
         the position of the error. A bulk submission with such a line submits no job.";
    NO_SUCH_ROUTE = 105, EXIT_OTHER, 404, "there is no such path",
        "The server has no such path. GET /openapi.json lists all of them. If a gpool command \
         reports this, the server is older than the command: compare the lines of `gpool version`.";
    METHOD_NOT_ALLOWED = 106, EXIT_OTHER, 405, "the path has no such method",
        "The path exists, but not with this method; the Allow header names its methods. If a gpool \
         command reports this, the server is older than the command: compare the lines of `gpool \
         version`.";
    NOT_JSON_TYPE = 107, EXIT_USAGE, 415, "the body is not declared as JSON",
        "A request with a body needs the header Content-Type: application/json (for a bulk \
         submission also application/jsonl or application/x-ndjson).";
    TOO_MANY_CONNECTIONS = 109, EXIT_OTHER, 429, "too many connections",
        "The server limits the open connections of each user, so that a runaway script does not \
         lock out other users. Close watches and followed logs that you do not need, and use one \
         request for many jobs.";
    BODY_TIMEOUT = 110, EXIT_TIMED_OUT, 408, "the request came too slowly",
        "The rest of the request did not arrive in time. Nothing was done. Try again.";
    HEADERS_TOO_LARGE = 111, EXIT_USAGE, 431, "the request's headers are too large",
        "The first line and the headers of a request may have 16 kB together. Put large data into \
         the body, or request fewer objects.";
    TOO_MANY_REQUESTS = 112, EXIT_OTHER, 429, "too many requests",
        "The server limits the requests of each user per second, so that a runaway script does not \
         slow down other users. Nothing was done. The header Retry-After gives the time until the \
         next attempt; the gpool command waits and tries again for a while. Use one request for \
         many jobs: `gpool submit --from-jsonl`, `gpool wait 1 2 3`, `gpool events`.";
    ENCODED_BODY = 113, EXIT_USAGE, 415, "the body is compressed",
        "The server accepts no Content-Encoding but identity, because a few compressed bytes could \
         expand to more than its memory.";
    SCRIPT_MISSING = 201, EXIT_USAGE, 400, "the script can't be read",
        "The script on the command line does not exist, is a directory, or is not readable for \
         you. To run a program instead of a script, put it after two dashes: gpool submit -- \
         program arguments.";
    SCRIPT_NOT_RUNNABLE = 202, EXIT_USAGE, 400, "the file is not a script",
        "A script is text and begins with an interpreter line such as #!/bin/bash. To run a \
         binary, put it after two dashes: gpool submit -- ./program.";
    NOT_UTF8 = 203, EXIT_USAGE, 400, "an argument is not UTF-8",
        "Commands, names and paths are sent as JSON, which is UTF-8. Put the command into a \
         script, which may contain any bytes. The environment may contain any bytes, too.";
    UNREACHABLE = 301, EXIT_UNREACHABLE, 503, "no server answers",
        "No gpool server answers on a known socket: that of --server, GPOOL_SERVER or GPOOL_SOCKET \
         if given; otherwise your own ($XDG_RUNTIME_DIR/gpool/api.sock) and the machine's \
         (/run/gpool/api.sock). `gpool up` starts a server; `gpool doctor` finds the cause. \
         Running jobs continue without a server: `gpool queue` lists them, and `gpool logs` shows \
         their output.";
    SHUTTING_DOWN = 302, EXIT_UNREACHABLE, 503, "the server is stopping",
        "The server is stopping and accepts no more requests. Running jobs continue. `gpool up` \
         starts it again.";
    TIMED_OUT = 303, EXIT_TIMED_OUT, 504, "the answer took too long",
        "The answer did not arrive within the time of --timeout. The request may have been carried \
         out: check before you repeat it. A repeated submission with the same idempotency key is \
         not carried out twice.";
    SOCKET_PATH = 304, EXIT_USAGE, 400, "the socket's path can't be used",
        "The kernel allows 107 bytes for the path of a socket. `gpool up` needs 5 of them for the \
         suffix .live of its second socket, the liveness check. Set GPOOL_SOCKET to a shorter \
         path, for `gpool up` and for the other commands.";
    SOCKET_NOT_OURS = 305, EXIT_NOT_PERMITTED, 403, "the folder belongs to another user",
        "Without XDG_RUNTIME_DIR your own server's socket is in /tmp/gpool-UID, a folder that only \
         you can enter. `gpool up` does not use a folder for its socket or its state that another \
         user created in a world-writable place: that user could replace its contents. The other \
         commands skip such a folder and use the machine's server. Choose a folder of your own \
         with --socket and --state-dir, or GPOOL_SOCKET and GPOOL_STATE_DIR. If the folder is \
         yours and others may enter it, run chmod 700.";
    BAD_ANSWER = 306, EXIT_OTHER, 502, "the answer was not understood",
        "The process at the socket is not a gpool server, or has another version. Compare the two \
         lines of `gpool version`.";
    NOT_READY = 307, EXIT_UNREACHABLE, 503, "the server is not ready yet",
        "The server has started and is still reading its state. Try again in a moment.";
    SOCKET_REFUSES = 308, EXIT_NOT_PERMITTED, 403, "you may not connect to the socket",
        "The permissions of the socket, or of a folder above it, do not let you connect. Only its \
         user can use the socket of a user's own server; all users can use that of root's server. \
         `gpool up` starts a server of your own.";
    SILENT = 309, EXIT_UNREACHABLE, 503, "the server does not answer",
        "The server's process accepts connections and does not answer, not even on its liveness \
         socket: it is stopped (SIGSTOP, Ctrl-Z, a debugger), or it or its disk hangs. Running \
         jobs continue: `gpool queue` lists them, `gpool logs` shows their output. `kill -CONT \
         PID` continues a stopped process. `gpool down` ends a server that hangs, and `gpool up` \
         starts it again. The server may still carry out a request that you sent: check before you \
         repeat it.";
    CONTEXT = 310, EXIT_USAGE, 400, "the context can't be used",
        "A context is a server that you signed in to with `gpool login URL`. --context, \
         GPOOL_CONTEXT or `gpool context use NAME` choose one; `local` stands for the server of \
         this machine. The file ~/.config/gpool/contexts.toml has a token for each, so only you \
         may be able to read it.";
    NOT_TRUSTED = 311, EXIT_NOT_PERMITTED, 403, "the certificate is not trusted",
        "The server must prove with its certificate that it is the one that you signed in to. \
         `gpool ca show` on the machine of the server prints the fingerprint of its authority, \
         and `gpool login URL` compares it and stores it. The certificate must also have the \
         name in the URL: tls_names in gpool.toml adds names.";
    NOT_LOCAL = 312, EXIT_USAGE, 400, "this needs the machine of the server",
        "The command reads files or processes of the machine of the server, so it does not work \
         over the network. Run it on that machine, or with --context local for the server of this \
         machine.";
    IMPOSSIBLE_GPUS = 412, EXIT_IMPOSSIBLE, 422, "no node could ever run this",
        "The job requests more GPUs on one node than any node has, or GPUs of another kind. The \
         message gives the largest request that fits and the nearest alternative. If the hardware \
         is yet to come, --allow-unsatisfiable queues the job until then. `gpool gpus` lists all \
         GPUs.";
    NO_GPUS = 413, EXIT_IMPOSSIBLE, 422, "there are no GPUs",
        "The job requests GPUs and the cluster has none. The message says where the server looked \
         for GPUs. `gpool doctor` finds the cause: no driver, no permission, or no GPU. Jobs \
         without GPUs can run; `gpool up --devices sim:8xA100-80G` simulates GPUs.";
    IMPOSSIBLE_RESOURCE = 414, EXIT_IMPOSSIBLE, 422, "no node is large enough",
        "The job requests more CPU cores or memory than any node with its GPUs has. The message \
         gives the largest node. --allow-unsatisfiable queues the job until a larger node exists.";
    ABOVE_QUOTA = 415, EXIT_IMPOSSIBLE, 422, "the quota could never allow this",
        "The job requests more than the quota of its project, or of a project above it, could ever \
         allow: more than a limit, or, for a non-preemptible job, more than the guarantee. With \
         --preemptible it can borrow idle GPUs, and is requeued when their owner needs them. \
         `gpool quota` shows the guarantees. --allow-unsatisfiable queues the job until the quota \
         is raised.";
    TOO_FEW_NODES = 416, EXIT_IMPOSSIBLE, 422, "too few nodes could ever run this",
        "The job requests tasks on several nodes at once, and fewer nodes than that are large \
         enough for one part. The message gives their number and the largest part that fits the \
         requested number of nodes. All tasks get GPUs of one model. --allow-unsatisfiable queues \
         the job until there are more nodes.";
    ABOVE_USER_CAP = 417, EXIT_IMPOSSIBLE, 422, "the limits of the user could never allow this",
        "The policy or a project limits the GPUs and the running jobs of each user, and this job \
         alone exceeds a limit. `gpool user limit USER` and `gpool project show PROJECT` show the \
         limits; admins change them with the same commands. --allow-unsatisfiable queues the job \
         until the limit is raised.";
    NO_SUCH_NODES = 418, EXIT_IMPOSSIBLE, 422, "no node matches the request",
        "--node or --not-node names a node that does not exist, or no node passes --node, \
         --not-node and --where together. The message lists the nodes and their labels. \
         --allow-unsatisfiable queues the job until such a node exists.";
    NO_ENGINE = 419, EXIT_IMPOSSIBLE, 422, "no node runs containers",
        "The job has --image, and no node that it may use has an engine for containers. gpool \
         looks for podman, docker, apptainer and enroot when a node starts (container_engine in \
         gpool.toml names another program). `gpool doctor` says what was found; \
         --allow-unsatisfiable queues the job until a node has an engine.";
    PARTS_TOGETHER = 420, EXIT_IMPOSSIBLE, 422, "the cluster has too few GPUs for all parts",
        "All parts of a job (--part) start together. Nodes could run each part alone, but together \
         they ask for more whole GPUs than match their requests. `gpool gpus` lists the GPUs; \
         --allow-unsatisfiable queues the job until there are more.";
    NOT_PERMITTED = 501, EXIT_NOT_PERMITTED, 403, "not permitted",
        "You may see and change your own jobs. Other users' jobs, and settings of the cluster, are \
         for admins: root, and the user that runs the server. gpool identifies you by the user \
         that runs the command; USER and LOGNAME do not matter.";
    PRIORITY_TOO_HIGH = 502, EXIT_NOT_PERMITTED, 403, "the priority is higher than users may set",
        "Users may lower the priority of their jobs, and raise it up to the policy's limit, \
         usually 0. An admin may raise it further.";
    CANNOT_RUN_AS = 504, EXIT_NOT_PERMITTED, 403, "the server can't run your jobs",
        "A server without root can only run jobs of its own user. A server of root runs jobs of \
         all users, each as its user; `gpool up` starts a server of your own.";
    TOO_MANY_JOBS = 505, EXIT_CONFLICT, 429, "you have too many jobs",
        "The server limits the jobs of each user that have not ended, so that other users find \
         room in the queue. Cancel jobs that you do not need, or submit the rest when some have \
         ended. user_jobs_max in gpool.toml sets the limit.";
    USER_CAP = 506, EXIT_NOT_PERMITTED, 403, "you have too many waiting jobs",
        "The policy limits the waiting jobs of each user, so that one user does not fill the \
         queue. Cancel jobs that you do not need, or submit the rest when some have started. \
         `gpool user limit USER` shows the limits, and admins change them with it.";
    EXTEND_TOO_LONG = 507, EXIT_NOT_PERMITTED, 403, "users may not add as much time",
        "Expected starts of waiting jobs depend on the time limits of running jobs. So the owner \
         of a running job may extend its limit only by up to user_extend_max of the policy; an \
         admin may extend it by any time. Before the job starts, `gpool edit JOB --time` accepts \
         any limit.";
    NOT_MEMBER = 508, EXIT_NOT_PERMITTED, 403, "you are not a member of the project",
        "A project can list the users and groups that may submit to it; without a list, that of \
         the project above it applies. gpool identifies you by the user that runs the command, and \
         by that user's groups. The message lists the projects that you may submit to; an admin \
         adds members with `gpool project edit PROJECT --members`.";
    TIME_TOO_LONG = 509, EXIT_NOT_PERMITTED, 403, "the project allows less time",
        "A project can limit the time limits of its jobs, also for the projects below it. Request \
         less with --time, or submit to another project. `gpool project show PROJECT` shows the \
         maximum.";
    ABOVE_PARENT = 510, EXIT_NOT_PERMITTED, 403, "that is more than the project above has",
        "The admin of a project can divide its guarantee among the projects below it, but not \
         exceed it; the same applies to its limit. An admin of the server can set any quota.";
    HELD_BY_ADMIN = 511, EXIT_NOT_PERMITTED, 403, "an admin stopped the job",
        "An admin held, paused or requeued the job with --hold. Only an admin can release, resume, \
         requeue or move it: an admin of the server, or of the project if one of its admins \
         stopped it. Its owner can cancel it. `gpool why JOB` names the admin.";
    TOO_MUCH_STORED = 521, EXIT_CONFLICT, 429, "you have too much stored for jobs",
        "The server stores the environment and the script of each job, and the values of arrays. \
         It limits this per user, so that the disk has room for others. Jobs of one user with the \
         same environment share it. The server keeps it for a limited time after the last job has \
         ended, for `gpool retry` (keep_environment in gpool.toml). Submit with --clean-env, pass \
         large data to jobs in files, or submit the rest later. user_environment_max in gpool.toml \
         sets the limit.";
    TOO_MANY_DEPENDENCIES = 522, EXIT_CONFLICT, 429, "too many dependencies",
        "The server limits the jobs that one job may wait for, and the dependencies of all jobs of \
         a user together, to save memory and time. Let a job wait for an array (`--after ARRAY`) \
         instead of many jobs, or for intermediate jobs that each wait for some of them. \
         job_dependencies_max and user_dependencies_max in gpool.toml set the limits.";
    TOO_MUCH_CHANGED = 523, EXIT_CONFLICT, 429, "too many changes and new jobs",
        "The server stores each change, and each run of a job: also those of elements and retries. \
         It limits the bytes that one user stores in an hour, so that a loop does not fill the \
         disk. Cancelling jobs and ending tokens or sessions is never refused. Wait, or submit \
         fewer jobs. user_changes_per_hour in gpool.toml sets the limit.";
    TOO_MANY_SECRETS = 524, EXIT_CONFLICT, 409, "you have too many secrets",
        "Each user can have 100 secrets. `gpool secret list` lists yours; `gpool secret remove \
         NAME` removes one.";
    FILES_FULL = 525, EXIT_CONFLICT, 429, "you have too many files stored",
        "The server stores the folders of --upload and the results of --download, and limits their \
         bytes per user, so that the disk has room for others. It removes folders some time after \
         the last job that has them (keep_environment), and results with the output of their job \
         (keep_output). Leave files out in .gpoolignore, or wait. user_files_max in gpool.toml \
         sets the limit.";
    NOT_SIGNED_IN = 531, EXIT_NOT_PERMITTED, 401, "sign in first",
        "Over the network each request needs a token that is valid: it was not revoked, has not \
         expired, and its user still exists. `gpool token create` on the machine of the server \
         makes one, and `gpool login URL` stores it on your machine.";
    SCOPE_TOO_SMALL = 532, EXIT_NOT_PERMITTED, 403, "the token does not allow this",
        "A token has a scope: metrics, viewer, user, project-admin or admin; each includes those \
         before it. The message names the scope that the request needs. `gpool token create \
         --scope SCOPE` on the machine of the server makes another token. No token allows to \
         create tokens or to map users: a stolen one would last for ever.";
    NOT_MAPPED = 533, EXIT_NOT_PERMITTED, 403, "no system user belongs to you",
        "Jobs run as a user of the system. The token is for a network user, and no rule of an \
         admin says which system user runs the jobs of that network user. An admin sets it on the \
         machine of the server: `gpool user map NAME USER`.";
    TOO_MANY_TOKENS = 534, EXIT_CONFLICT, 409, "too many tokens",
        "The server limits the tokens of each user. `gpool token list` lists yours, and `gpool \
         token revoke ID` removes those that you do not need.";
    SIGN_IN_FAILED = 538, EXIT_NOT_PERMITTED, 502, "the identity provider did not sign you in",
        "The identity provider refused, could not be reached, or its answer was not valid; the \
         message says which. Try again, or use a token: `gpool token create` on the machine of \
         the server makes one. Admins check oidc_issuer and the other oidc settings.";
    NO_SUCH_JOB = 601, EXIT_NO_SUCH, 404, "there is no such job",
        "No job, running, waiting or ended, has that ID. `gpool queue --state all` lists all jobs.";
    NO_SUCH_PROJECT = 602, EXIT_NO_SUCH, 404, "there is no such project",
        "No project has that name. Without --project a job belongs to `default`. `gpool project \
         list` lists all projects.";
    NO_SUCH_NODE = 603, EXIT_NO_SUCH, 404, "there is no such node",
        "No node has that name. `gpool nodes` lists all nodes.";
    NO_SUCH_DEVICE = 604, EXIT_NO_SUCH, 404, "there is no such GPU",
        "The node has no GPU with that index or UUID. `gpool gpus` lists all GPUs; indexes count \
         from 0.";
    NO_SUCH_LOG = 605, EXIT_NO_SUCH, 404, "the job has no such log",
        "The job wrote to a file of its own (--stdout, --stderr), or its log was removed. `gpool \
         show ID` names the files.";
    NO_SUCH_POOL = 606, EXIT_NO_SUCH, 404, "there is no such pool",
        "No node is in a pool of that name. Without --pool a job may run on any node. `gpool pool` \
         lists the pools; `gpool pool move NODE POOL` creates one.";
    NO_SUCH_TOKEN = 607, EXIT_NO_SUCH, 404, "there is no such token",
        "No token has that ID: it was revoked or has expired. `gpool token list` lists your \
         tokens.";
    NO_SUCH_NETWORK_USER = 608, EXIT_NO_SUCH, 404, "there is no such network user",
        "No network user with that name has signed in or has a system user. `gpool user map` lists \
         all of them.";
    NO_RESULTS = 609, EXIT_NO_SUCH, 404, "the job has no results",
        "Results are the files of a job's folder that match its --download paths. The node sends \
         them when the job has ended, and the server keeps them as long as output (keep_output). A \
         job without --download, or that never started, has none. `gpool show ID` shows the paths \
         and the state.";
    NO_SUCH_SECRET = 610, EXIT_NO_SUCH, 404, "there is no such secret",
        "The user of the job has no secret with that name on this server. Each user has secrets of \
         their own. `gpool secret list` lists yours; `gpool secret set NAME` stores one.";
    NO_PROVIDER = 618, EXIT_NO_SUCH, 404, "there is no such sign-in",
        "The server has no identity provider, or the sign-in is over: it took too long, or the \
         server has restarted. `gpool token create` on the machine of the server makes a token \
         without a provider; oidc_issuer in gpool.toml names one.";
    NO_SUCH_RESERVATION = 621, EXIT_NO_SUCH, 404, "there is no such reservation",
        "No reservation or maintenance window has that name; gpool removes one when it ends. \
         `gpool reserve list` lists all of them.";
    ALREADY_ENDED = 701, EXIT_CONFLICT, 409, "the job has already ended",
        "A job that has ended can't be cancelled, held, signalled or changed. `gpool show ID` \
         shows how it ended.";
    WRONG_STATE = 702, EXIT_CONFLICT, 409, "the job's state does not allow that",
        "Only a waiting job can be held, only a held one released, only a running one signalled. \
         `gpool show ID` shows its state.";
    VERSION_CONFLICT = 703, EXIT_CONFLICT, 412, "another request changed the job first",
        "The job was changed after you read it. Your change was not made, so that it does not undo \
         the other one. Read the job again, and repeat the change if you still want it.";
    KEY_REUSED = 704, EXIT_CONFLICT, 409, "the idempotency key was used for another request",
        "An idempotency key identifies one request, so that a repetition after a lost connection \
         has no second effect. This key belongs to a different request. Use a new key for each new \
         request.";
    DEPENDENCY_NEVER_MET = 705, EXIT_CONFLICT, 409, "the dependency can never be met",
        "A job of --after has ended in a way that the dependency does not accept, so the new job \
         could never start. --after end:ID accepts any end, --after fail:ID a failure.";
    DEPENDENCY_CYCLE = 706, EXIT_CONFLICT, 409, "a job would wait for itself",
        "Each of the jobs in the message waits for the next, and the last for the first, so none \
         of them could ever start. Nothing was changed. Remove one of the dependencies first.";
    NOT_REQUEUEABLE = 707, EXIT_CONFLICT, 409, "the job must not run twice",
        "The job was submitted with --no-requeue, because a second run would do harm. `gpool edit \
         JOB --requeue` allows it; otherwise cancel the job.";
    PROJECT_CONFLICT = 708, EXIT_CONFLICT, 412, "another request changed the project first",
        "A project was changed, created or deleted after you read it. Your change was not made, so \
         that it does not undo the other one. Read the project again (`gpool project show`), and \
         repeat the change if you still want it.";
    NOT_KEPT = 711, EXIT_CONFLICT, 409, "the job's environment was removed",
        "A job runs again with the environment and the script of its submission. The server \
         removes them some time after the job has ended: `gpool show ID` shows when, and \
         keep_environment in gpool.toml sets it (default: 7d). Submit the job again.";
    NO_TERMINAL = 720, EXIT_CONFLICT, 409, "the job has no terminal",
        "Only jobs of `gpool shell` and `gpool run --pty` have a terminal to attach to. `gpool \
         logs -f ID` follows the output of any job; `gpool exec ID -- bash` runs a shell in the \
         job, with its environment and GPUs.";
    NOTHING_LISTENS = 721, EXIT_CONFLICT, 409, "no process of the job listens there",
        "`gpool forward` connects to ports on which a process of the job itself listens, at the \
         node's loopback address. The message lists them. A server may need a moment after the \
         start of the job; a server that only listens at another address can't be reached.";
    JOB_NOT_REACHED = 722, EXIT_OTHER, 503, "the job could not be reached",
        "The job's shepherd process did not open a connection. The message says why. The job \
         continues. A job that an earlier version of gpool started can't be attached to.";
    NODE_NOT_REACHED = 723, EXIT_OTHER, 503, "the node does not answer",
        "The agent of a node did not answer in time, and may have the requested data. Its jobs \
         continue. `gpool nodes` shows since when it is silent.";
    AFFECTS_OTHERS = 731, EXIT_CONFLICT, 409, "running or waiting jobs are affected",
        "Jobs run on the nodes or GPUs to drain or reserve and would not end in time, or waiting \
         jobs may no longer start there. Nothing was changed. Choose what happens to the running \
         jobs: --let-finish lets them finish, --requeue stops and requeues them at that time, \
         --cancel ends them. --dry-run lists the jobs.";
    RESERVATION_CLASH = 732, EXIT_CONFLICT, 409, "another reservation overlaps",
        "Another reservation or maintenance window has the same GPU or node for a part of the same \
         time; for recurring ones, at any of their times. Choose other GPUs or another time, or \
         cancel the other reservation.";
    NOT_ENOUGH_TO_RESERVE = 733, EXIT_IMPOSSIBLE, 409, "there are too few GPUs to reserve",
        "Too few GPUs of that kind are available for that time: the others are reserved, drained, \
         not allowed or faulty, or do not exist. --spread takes them from several nodes.";
    RESERVATION_EXISTS = 734, EXIT_CONFLICT, 409, "the name is taken",
        "A reservation or maintenance window of that name exists. Change it (`gpool reserve \
         edit`), cancel it, or choose another name.";
    TOO_MANY_RESERVATIONS = 735, EXIT_CONFLICT, 409, "too many reservations",
        "The server limits the number of reservations and maintenance windows. Cancel some that \
         are not needed; a recurring one counts once.";
    NOT_DRAINED = 736, EXIT_CONFLICT, 409, "it is not drained",
        "The node or GPU to undrain is not drained. `gpool nodes` shows the drained ones. Undrain \
         the node to free the GPUs of a drained node.";
    MIG_REFUSED = 737, EXIT_CONFLICT, 409, "the MIG instances can't be changed",
        "A MIG instance is destroyed only if no job and no other process uses it, and created only \
         if the GPU has MIG mode on and room for the profile. `gpool mig list` shows the profiles \
         with room and the instances. gpool never changes the mode: run nvidia-smi -i GPU -mig 1 \
         on an idle GPU, then start gpool again.";
    NODE_ANSWERS = 738, EXIT_CONFLICT, 409, "the node is there",
        "Only a node that does not answer can be removed, since a node that answers joins again. \
         End `gpool up` or the agent on its machine first. `gpool drain NODE` keeps new jobs away \
         from a node that stays.";
    NODE_IN_USE = 739, EXIT_CONFLICT, 409, "the node is in use",
        "Jobs may still run on the node, or a reservation names it. If its machine is off for \
         good, `gpool nodes remove NODE --off` ends the jobs on it as on a lost node: those of \
         --on-node-lost requeue run again elsewhere. Cancel a job first that also has tasks on \
         other nodes, and end a reservation with `gpool reserve cancel NAME`.";
    DEPARTMENT = 741, EXIT_CONFLICT, 409, "a department has no jobs",
        "A project with projects below it is a department. Submit to one of the projects below it, \
         which the message lists. `gpool project list` shows the tree.";
    PROJECT_EXISTS = 742, EXIT_CONFLICT, 409, "the name is taken",
        "A project of that name exists. Change it (`gpool project edit`), or choose another name.";
    PROJECT_HAS_JOBS = 743, EXIT_CONFLICT, 409, "the project has jobs",
        "Jobs of the project wait or run. Until they have ended it can't be deleted, and no \
         project can be put below it, because departments have no jobs. Cancel them, or wait until \
         they end.";
    PROJECT_HAS_CHILDREN = 744, EXIT_CONFLICT, 409, "the project has projects below it",
        "Only a project without projects below it can be deleted. Delete those first, or give them \
         another parent; `gpool project apply` makes several changes at once.";
    PROJECT_CYCLE = 745, EXIT_CONFLICT, 409, "a project would be below itself",
        "Each of the projects in the message is above the next, and the last above the first. \
         Nothing was changed. Give one of them another --parent, or none.";
    PROJECT_NEEDED = 746, EXIT_CONFLICT, 409, "the project is needed",
        "Jobs without --project belong to `default`, so it must exist and accept jobs. It can be \
         changed: with --limit 0 no job starts in it, with --gpus 0 it can only borrow.";
    TOO_MANY_PROJECTS = 747, EXIT_CONFLICT, 409, "too many projects",
        "The server limits the number of projects. Delete some that are not needed.";
    INTERNAL = 900, EXIT_OTHER, 500, "the server failed",
        "The server had an internal error. The request may have been carried out: check before you \
         repeat it. The server's log has more; please report the error with the file of `gpool \
         debug dump`.";
    STORAGE_FULL = 907, EXIT_OTHER, 507, "the server can't store more",
        "The disk of the server's state folder is full, or a limit of its file system is reached. \
         Nothing was changed. Running jobs continue; free some space and try again.";
    STATE_GONE = 908, EXIT_OTHER, 507, "the state folder was removed or replaced",
        "The files of the store are not those that the server has open: the state folder was \
         removed or replaced. The server can store nothing, so it accepts no changes. Running jobs \
         continue. Put the folder back, and the server continues by itself. If it is lost, stop \
         the server with `gpool down` and run `gpool restore` with a backup.";
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
