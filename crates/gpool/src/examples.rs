//! The examples in the help of each command. A test parses each of them.

use gpool_cli::examples::Table;

use cluster::CLUSTER;
use jobs::JOBS;

mod cluster;
mod jobs;

/// Every table of examples, by the words of the command.
pub const TABLES: &[&Table] = &[JOBS, CLUSTER, PROJECTS, SIMULATED];

/// Examples of the commands for users, projects and the policy.
const PROJECTS: &Table = &[
    ("user", &[("gpool user limit ana", "The limits of a user")]),
    ("sessions", &[("gpool sessions end", "Sign yourself out of all browsers")]),
    (
        "user map",
        &[
            ("gpool user map", "Network users with their system users"),
            ("gpool user map ana@lab.org ana", "Run the jobs of a network user as ana"),
            ("gpool user map ana@lab.org --remove", "Accept no more jobs of a network user"),
        ],
    ),
    (
        "user forget",
        &[(
            "gpool user forget ana@id.example.org",
            "Give the name to another user of the provider",
        )],
    ),
    (
        "sessions end",
        &[
            ("gpool sessions end", "Sign yourself out of all browsers"),
            ("gpool sessions end --all", "Sign out everybody, as an admin"),
        ],
    ),
    (
        "audit",
        &[
            ("gpool audit", "The last changes"),
            ("gpool audit --user ana --since 2h", "Changes of one user in the last two hours"),
            ("gpool audit --object projects/vision -o json", "Changes of one project, in full"),
        ],
    ),
    (
        "ca",
        &[
            ("gpool ca show", "The fingerprint that gpool login shows"),
            ("gpool ca export ca.pem", "Write the certificate of the authority into a file"),
        ],
    ),
    ("ca show", &[("gpool ca show", "The fingerprint that gpool login shows")]),
    (
        "ca export",
        &[
            ("gpool ca export ca.pem", "Write the certificate of the authority into a file"),
            ("gpool ca export", "Print it"),
        ],
    ),
    (
        "token",
        &[
            ("gpool token create --name laptop", "Create a token for your laptop"),
            ("gpool token list", "Your tokens"),
        ],
    ),
    (
        "token create",
        &[
            ("gpool token create --name laptop", "For gpool login on your laptop"),
            (
                "gpool token create --name prometheus --scope metrics --expires never",
                "For a Prometheus server",
            ),
            ("gpool token create --for ana@lab.org", "For a network user, as an admin"),
        ],
    ),
    ("token list", &[("gpool token list -o wide", "Your tokens with more columns")]),
    ("token revoke", &[("gpool token revoke 1c09e5aa", "Refuse a token from now on")]),
    (
        "user limit",
        &[
            ("gpool user limit ana", "The limits of a user"),
            ("gpool user limit ana --running 8 --gpus 4", "At most 8 running jobs and 4 GPUs"),
            ("gpool user limit all --pending 1000", "For users without limits of their own"),
        ],
    ),
    (
        "policy",
        &[
            ("gpool policy show", "Every setting"),
            ("gpool policy set escalate_after=2h", "Change one"),
        ],
    ),
    (
        "policy show",
        &[
            ("gpool policy show", "Every setting with its value"),
            ("gpool policy show --toml > policy.toml", "A file for policy set --file"),
        ],
    ),
    (
        "policy set",
        &[
            ("gpool policy set escalate_after=2h planned_starts=all", "Change two settings"),
            ("gpool policy set --preset valohai:escalate_after=24h --dry-run", "Preview a preset"),
            ("gpool policy set pool.batch=fifo", "A preset for one pool"),
        ],
    ),
    (
        "policy diff",
        &[
            ("gpool policy diff", "Settings that differ from the preset in use"),
            ("gpool policy diff valohai", "Settings that differ from another preset"),
        ],
    ),
    (
        "project",
        &[
            ("gpool project list", "All projects with their quotas"),
            (
                "gpool project create vision --gpus 4 --limit 8",
                "4 GPUs guaranteed, never more than 8",
            ),
        ],
    ),
    (
        "project create",
        &[
            (
                "gpool project create vision --gpus 4 --limit 8",
                "4 GPUs guaranteed, never more than 8",
            ),
            (
                "gpool project create nlp --parent lab --gpus-of h100=2 --members ana,@students",
                "2 guaranteed H100s, below another project",
            ),
        ],
    ),
    (
        "project edit",
        &[
            ("gpool project edit default --gpus 0", "All GPUs of project default can be reclaimed"),
            ("gpool project edit vision --limit 12 --dry-run", "Preview a change"),
        ],
    ),
    ("project delete", &[("gpool project delete vision", "Delete a project without jobs")]),
    ("project list", &[("gpool project list -o wide", "All projects with more columns")]),
    ("project show", &[("gpool project show vision", "One project in full")]),
    (
        "project apply",
        &[
            ("gpool project apply projects.toml --dry-run", "Compare a file with the projects"),
            ("gpool project apply projects.toml --prune", "Delete projects that it does not name"),
        ],
    ),
    (
        "quota",
        &[
            ("gpool quota", "Quota, usage and loans of all projects"),
            ("gpool quota vision", "One project, with those above and below it"),
        ],
    ),
];

/// Examples of the commands for simulations and simulated GPUs.
const SIMULATED: &Table = &[
    (
        "simulate",
        &[
            ("gpool simulate --if 'drain lab1'", "The next decisions if a node were drained"),
            (
                "gpool simulate --if 'project red guaranteed=8' --if 'policy preset=fifo'",
                "Two changes, applied in order",
            ),
            ("gpool simulate --for 2h --if 'add 2 nodes x 8 h100' -o json", "The next two hours"),
            ("gpool simulate --past 7d --if 'policy preset=fifo'", "The jobs of the past week"),
        ],
    ),
    (
        "sim",
        &[
            ("gpool sim add-process 3 --pid 4242 --memory 20G", "A foreign process on GPU 3"),
            ("gpool sim break 3", "Break GPU 3"),
        ],
    ),
    (
        "sim add-process",
        &[
            ("gpool sim add-process 3 --pid 4242 --memory 20G", "A foreign process on GPU 3"),
            ("gpool sim add-process lab1:3 --pid 4242 --user bo --name python", "On node lab1"),
        ],
    ),
    ("sim remove-process", &[("gpool sim remove-process 3 --pid 4242", "Remove it from GPU 3")]),
    (
        "sim use-memory",
        &[
            ("gpool sim use-memory 3 20G", "Use 20 GiB of GPU 3"),
            ("gpool sim use-memory 3 0B", "Use none"),
        ],
    ),
    ("sim utilize", &[("gpool sim utilize 3 95", "GPU 3 reports 95 % utilization")]),
    (
        "sim break",
        &[
            ("gpool sim break 3 --why 'double-bit ECC error'", "GPU 3 reports an error"),
            ("gpool sim break 3 --lost", "GPU 3 falls off the bus"),
        ],
    ),
    ("sim heal", &[("gpool sim heal 3", "GPU 3 works again")]),
    ("sim hang", &[("gpool sim hang 3", "The driver does not answer for GPU 3")]),
    ("sim unhang", &[("gpool sim unhang 3", "The driver answers again")]),
];
