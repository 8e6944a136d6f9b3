//! Examples of the commands for the server, the cluster and its settings.

use gpool_cli::examples::Table;

/// The examples, by the words of the command.
pub(super) const CLUSTER: &Table = &[
    (
        "up",
        &[
            ("gpool up", "Start the server with the GPUs of this machine"),
            ("gpool up --devices sim:8xH100-80G", "Simulate a machine with eight GPUs"),
            ("gpool up --listen 0.0.0.0:7443", "Also listen on the network, with HTTPS"),
            ("gpool up --systemd --now", "Install and start a systemd service"),
        ],
    ),
    (
        "agent",
        &[
            (
                "gpool agent --join https://lab1:7443 TOKEN",
                "Make this machine a node; gpool nodes add prints the command",
            ),
            ("gpool agent", "Run the agent of a machine that has joined"),
            ("gpool agent --systemd --now", "Install and start a systemd service"),
        ],
    ),
    (
        "down",
        &[
            ("gpool down", "Stop the server; jobs keep running"),
            ("gpool down --now", "End all jobs first"),
        ],
    ),
    (
        "gpus",
        &[
            ("gpool gpus", "All GPUs with their jobs"),
            ("gpool gpus 0", "GPU 0 in full"),
            ("gpool gpus --filter state=free -o name", "The names of free GPUs"),
        ],
    ),
    (
        "top",
        &[
            ("gpool top", "GPUs, queue and the selected job, until q"),
            ("gpool top --local", "This machine without a server"),
            ("gpool top --local --once", "Its GPUs and their processes as tables"),
        ],
    ),
    (
        "gpus allow",
        &[
            ("gpool gpus allow 0-3", "Start new jobs only on these GPUs"),
            ("gpool gpus allow all --node lab1", "Use all GPUs of a node again"),
        ],
    ),
    (
        "demo",
        &[
            ("gpool demo", "Watch gpool schedule a mix of jobs"),
            ("gpool demo --keep", "Leave the cluster running"),
        ],
    ),
    (
        "status",
        &[
            ("gpool status", "Server, nodes and queue"),
            ("gpool status -o json", "The same for scripts"),
        ],
    ),
    (
        "open",
        &[
            ("gpool open", "Open the dashboard"),
            ("gpool open --print", "Print a link that signs you in once"),
        ],
    ),
    (
        "login",
        &[
            ("gpool login https://lab1:7443", "Ask for a token, and compare the fingerprint"),
            (
                "gpool login lab1 --token-file token --fingerprint SHA256:pZFyGq3X",
                "Without questions, for scripts",
            ),
        ],
    ),
    (
        "context",
        &[
            ("gpool context list", "Servers that you signed in to"),
            ("gpool context use lab1", "Use one of them in all commands"),
        ],
    ),
    ("context list", &[("gpool context list", "Servers that you signed in to")]),
    (
        "context use",
        &[
            ("gpool context use lab1", "Use a server on the network in all commands"),
            ("gpool context use local", "Use the server of this machine again"),
        ],
    ),
    ("context remove", &[("gpool context remove lab1", "Remove a server with its token")]),
    (
        "doctor",
        &[
            ("gpool doctor", "Check driver, cgroups, disk and server"),
            ("gpool doctor eta", "The accuracy of expected starts"),
        ],
    ),
    ("version", &[("gpool version", "The versions of command and server")]),
    (
        "init",
        &[
            ("gpool init", "Write the settings file of this user"),
            ("gpool init --print", "Print it instead"),
        ],
    ),
    (
        "import",
        &[
            ("gpool import task.yaml --dry-run", "Print the commands that submit its jobs"),
            ("gpool import docker-compose.yml", "Submit a job for each service"),
            ("gpool import gflow --dry-run", "Show what would be imported from gflow"),
        ],
    ),
    (
        "import gflow",
        &[
            ("gpool import gflow --dry-run", "Show what would be imported"),
            ("gpool import gflow", "Move your waiting jobs to gpool"),
        ],
    ),
    (
        "mcp",
        &[
            ("gpool mcp", "Tools that read, such as why and queue"),
            ("gpool mcp --allow submit,cancel", "Also preview, submit and cancel"),
        ],
    ),
    (
        "install-shims",
        &[
            (
                "gpool install-shims --slurm ~/.local/bin",
                "sbatch, squeue and so on for Slurm scripts",
            ),
            ("gpool install-shims --slurm --remove ~/.local/bin", "Remove them"),
        ],
    ),
    (
        "shim",
        &[
            ("gpool shim squeue --me", "Slurm's squeue without a link"),
            ("gpool shim sbatch --help", "The flags of sbatch that gpool understands"),
        ],
    ),
    (
        "nodes",
        &[
            ("gpool nodes", "All nodes with their free GPUs"),
            ("gpool nodes label lab1 rack=3", "Add a label, for --where rack=3"),
        ],
    ),
    ("nodes list", &[("gpool nodes list -o wide", "All nodes with more columns")]),
    (
        "nodes add",
        &[
            ("gpool nodes add lab2", "Print the command that makes a machine node lab2"),
            ("gpool nodes add lab2 --expires 1h", "Let its token expire after an hour"),
        ],
    ),
    (
        "nodes remove",
        &[
            ("gpool nodes remove lab7", "Remove a node that is drained or has left"),
            ("gpool nodes remove lab7 --off", "Its machine is off for good: its jobs end"),
        ],
    ),
    (
        "nodes label",
        &[
            ("gpool nodes label lab1,lab2 rack=3 ssd", "Add labels to two nodes"),
            ("gpool nodes label lab1 ssd-", "Remove a label"),
        ],
    ),
    (
        "pool",
        &[
            ("gpool pool", "All pools with their nodes"),
            ("gpool pool move lab1 lab2 batch", "Move two nodes into a pool"),
        ],
    ),
    ("pool list", &[("gpool pool list -o json", "All pools as JSON")]),
    ("pool set", &[("gpool pool set batch --mig-auto", "Let waiting jobs decide MIG instances")]),
    ("pool move", &[("gpool pool move lab1 lab2 batch", "Move two nodes into pool batch")]),
    (
        "mig",
        &[
            ("gpool mig", "Profiles and instances of all GPUs with MIG mode"),
            ("gpool mig create 0 1g.10gb", "Create an instance on GPU 0"),
            ("gpool mig destroy 1000", "Destroy its first instance"),
        ],
    ),
    ("mig list", &[("gpool mig list lab1 -o wide", "One node, with the places of instances")]),
    ("mig plan", &[("gpool mig plan --pool batch", "Changes that --mig-auto would make there")]),
    ("mig create", &[("gpool mig create lab1:0 3g.40gb", "Create an instance on GPU 0 of lab1")]),
    ("mig destroy", &[("gpool mig destroy lab1:1000", "Destroy an instance of GPU 0 of lab1")]),
    (
        "drain",
        &[
            ("gpool drain lab1 --reason 'new PSU'", "Start no new jobs on a node"),
            (
                "gpool drain lab1:0-3 --reason 'new PSU' --requeue",
                "Four GPUs; requeue their jobs now",
            ),
            ("gpool drain lab1 --by 'fri 18:00' --reason 'new PSU'", "Be empty by Friday evening"),
        ],
    ),
    ("undrain", &[("gpool undrain lab1", "Start jobs on the node again")]),
    (
        "reserve",
        &[
            ("gpool reserve create --gpus 4 --user ana --for 2d", "Reserve four GPUs from now on"),
            ("gpool reserve list --timeline", "All reservations and their times"),
        ],
    ),
    (
        "reserve create",
        &[
            (
                "gpool reserve create --gpus h100:4 --user ana --from 'fri 18:00' --for 2d",
                "Four H100s for a user over the weekend",
            ),
            (
                "gpool reserve create --devices lab1:0,1 --project nlp",
                "Two GPUs for a project, until the reservation is cancelled",
            ),
            (
                "gpool reserve create --gpus 2 --user bo --from 18:00 --for 12h --every 1d",
                "Two GPUs every night",
            ),
        ],
    ),
    ("reserve list", &[("gpool reserve list --timeline", "Draw the times of each reservation")]),
    ("reserve show", &[("gpool reserve show r1", "One reservation in full")]),
    ("reserve cancel", &[("gpool reserve cancel r1", "End a reservation early")]),
    (
        "reserve edit",
        &[
            ("gpool reserve edit r1 --until 'mon 08:00'", "End it later or earlier"),
            ("gpool reserve edit r1 --gpus 2", "Reserve fewer GPUs"),
        ],
    ),
    (
        "maint",
        &[
            ("gpool maint create --all --from 'fri 18:00' --for 4h", "All nodes on Friday evening"),
            ("gpool maint list", "All maintenance windows"),
        ],
    ),
    (
        "maint create",
        &[
            (
                "gpool maint create --node lab1 --from 'fri 18:00' --for 4h --reason 'new PSU'",
                "One node; jobs that would still run then do not start there",
            ),
            ("gpool maint create --all --for 1h --at-begin requeue", "All nodes now; requeue jobs"),
        ],
    ),
    ("maint list", &[("gpool maint list --timeline", "Draw the times of each window")]),
    ("maint cancel", &[("gpool maint cancel m1", "End a window early")]),
    ("backup", &[("gpool backup monday.backup", "Back up the store; the server may keep running")]),
    (
        "restore",
        &[("gpool restore --put-aside monday.backup", "Replace the store of a stopped server")],
    ),
    (
        "verify",
        &[
            ("gpool verify", "Check the store of this user's server"),
            ("gpool verify monday.backup", "Check a backup"),
        ],
    ),
    (
        "grafana",
        &[("gpool grafana export --folder monitoring", "Write dashboards and alert rules")],
    ),
    ("grafana export", &[("gpool grafana export --folder monitoring", "Write them into a folder")]),
    ("debug", &[("gpool debug dump case.json", "Gather the data for a bug report")]),
    (
        "debug dump",
        &[
            ("gpool debug dump case.json", "Gather the data for a bug report"),
            ("gpool debug dump - > case.json", "The same on standard output"),
        ],
    ),
    (
        "help",
        &[
            ("gpool help submit", "The flags of a command"),
            ("gpool help GP0412", "An error and its remedy"),
            ("gpool help scheduling", "A topic; gpool help topics lists all"),
        ],
    ),
    ("man", &[("gpool man ~/.local/share/man", "Write the manual pages of this user")]),
    (
        "completion",
        &[
            ("source <(gpool completion bash)", "In ~/.bashrc"),
            ("source <(gpool completion zsh)", "In ~/.zshrc, after compinit"),
            ("gpool completion fish | source", "In ~/.config/fish/config.fish"),
        ],
    ),
];
