//! Examples of the commands for jobs.

use gpool_cli::examples::Table;

/// The examples, by the words of the command.
pub(super) const JOBS: &Table = &[
    (
        "run",
        &[
            (
                "gpool run --gpus 1 -- python train.py",
                "Run a program on one GPU and show its output",
            ),
            (
                "gpool run --gpus h100:2 --time 1h30m -- ./train.sh",
                "Two H100s, for at most 90 minutes",
            ),
            ("gpool run --pty --gpus 1 -- python", "An interactive program on a terminal"),
        ],
    ),
    (
        "shell",
        &[
            ("gpool shell --gpus 1 --time 2h", "A shell with one GPU for two hours"),
            ("gpool shell --gpus 40G..:1 --shell zsh", "zsh with a GPU of at least 40 GiB"),
        ],
    ),
    (
        "notebook",
        &[
            (
                "gpool notebook --gpus 0.5:1 --time 8h",
                "Jupyter on half a GPU, or all of a free one",
            ),
            ("gpool notebook -- tensorboard --port {port}", "Another web server, without a GPU"),
        ],
    ),
    ("notebook open", &[("gpool notebook open 1842", "Print another URL of a running notebook")]),
    (
        "submit",
        &[
            ("gpool submit --gpus 1 -- python train.py", "Queue a program for one GPU"),
            (
                "gpool submit --gpus 2 --time 4h train.sh --lr 0.1",
                "Queue a script with an argument",
            ),
            ("gpool submit --after 1842 eval.sh", "Start when job 1842 has succeeded"),
            (
                "gpool submit --gpus 1 --param lr=0.1,0.01 -- python train.py --lr {lr}",
                "An array with an element for each learning rate",
            ),
        ],
    ),
    (
        "queue",
        &[
            ("gpool queue", "Waiting and running jobs of all users"),
            ("gpool queue --user ana --state pending", "Waiting jobs of one user"),
            ("gpool queue --watch=5s", "Show the queue again every 5 seconds"),
            ("gpool queue -o json", "One JSON document for scripts"),
        ],
    ),
    (
        "why",
        &[
            ("gpool why 1842", "Why the job waits, and its expected start"),
            ("gpool why @", "The same for your newest job"),
            ("gpool why 1842 -o json", "The reasons with their codes as JSON"),
        ],
    ),
    (
        "show",
        &[
            ("gpool show 1842", "Request, GPUs, times and output files of a job"),
            ("gpool show 1842.3-7", "Elements 3 to 7 of an array"),
        ],
    ),
    (
        "logs",
        &[
            ("gpool logs -f 1842", "Follow the output until the job has ended"),
            ("gpool logs --tail 50 @", "The last 50 lines of your newest job"),
            ("gpool logs 1842.3 --stderr", "Standard error of element 3 of an array"),
        ],
    ),
    (
        "cancel",
        &[
            ("gpool cancel 1842", "End one job"),
            ("gpool cancel 1842.3-7 1850", "End elements of an array, and another job"),
            ("gpool cancel all", "End all your jobs"),
        ],
    ),
    (
        "wait",
        &[
            ("gpool wait 1842 1843", "Wait until both jobs have ended"),
            ("gpool wait @ --timeout 2h", "Wait at most two hours for your newest job"),
        ],
    ),
    (
        "hold",
        &[
            ("gpool hold 1842", "Keep a waiting job from starting"),
            ("gpool hold all", "The same for all your waiting jobs"),
        ],
    ),
    (
        "release",
        &[
            ("gpool release 1842", "Let a held job start"),
            ("gpool release 1842 --at 'tomorrow 08:00'", "The same tomorrow at 08:00"),
        ],
    ),
    ("pause", &[("gpool pause 1842", "Stop the processes and free the GPUs")]),
    (
        "yield",
        &[
            ("gpool yield 1842", "Ask a job that was submitted with --yields to free its GPUs"),
            ("gpool yield --end 1842", "Let it use its GPUs again"),
        ],
    ),
    ("resume", &[("gpool resume 1842", "Continue a paused job")]),
    (
        "retry",
        &[
            ("gpool retry 1842", "Run an ended job again"),
            ("gpool retry 10-20 --failed", "Of these jobs, only those that did not succeed"),
            ("gpool retry 1842 --hold", "Hold it, to change it with gpool edit first"),
        ],
    ),
    (
        "signal",
        &[
            ("gpool signal USR1 1842", "Ask a program to write a checkpoint"),
            ("gpool signal INT all", "Interrupt all your running jobs"),
        ],
    ),
    (
        "attach",
        &[
            ("gpool attach 1842", "Show the terminal of a job; Ctrl-\\ d detaches"),
            ("gpool attach @ --detach-keys ctrl-p,ctrl-q", "Other keys to detach"),
        ],
    ),
    (
        "exec",
        &[
            ("gpool exec 1842 -- bash", "A shell beside the program of a job"),
            ("gpool exec 1842 -- nvidia-smi", "The GPUs as the job sees them"),
            ("gpool exec 1842 --rank 1 -- py-spy dump --pid 4242", "In the second task of a gang"),
        ],
    ),
    (
        "forward",
        &[
            ("gpool forward 1842 8888", "Port 8888 of the job at http://127.0.0.1:8888"),
            ("gpool forward 1842 9000:8888", "The same at port 9000"),
            ("gpool forward 1842 9000:/tmp/app.sock", "A unix socket of the job at port 9000"),
        ],
    ),
    (
        "extend",
        &[
            ("gpool extend 1842 +30m", "Half an hour longer"),
            ("gpool extend 1842 --by -10m", "Ten minutes shorter"),
            ("gpool extend 1842 --to 4h", "Four hours from the start of the job"),
            ("gpool extend 1842 --to none", "No time limit"),
        ],
    ),
    (
        "requeue",
        &[
            ("gpool requeue 1842", "Stop a job and queue it again"),
            ("gpool requeue 1842 --hold", "Hold it until gpool release"),
        ],
    ),
    (
        "sweep",
        &[
            (
                "gpool sweep --param lr=1e-5..0.1:log --trials 20 -- train.py --lr {lr}",
                "Try 20 random values",
            ),
            ("gpool sweep sweep.yaml --gpus 0.5 --parallel 8", "Run a sweep file of W&B"),
            ("gpool sweep --retry-failed tuning", "Run the failed trials again"),
        ],
    ),
    (
        "sweep show",
        &[
            ("gpool sweep show tuning", "The trials, the best first"),
            ("gpool sweep show tuning -n 5 --watch", "Watch the best five"),
        ],
    ),
    (
        "map",
        &[
            ("gpool map frames.txt --gpus 0.5 -- python detect.py", "Handle the lines of a file"),
            ("gpool map 'images/*.jpg' --files -- python detect.py", "Handle files"),
            ("gpool map --show frames", "Show the progress"),
            ("gpool map --resume frames", "Handle the rest, and what failed, again"),
        ],
    ),
    ("vh", &[("gpool vh execution run train --adhoc", "Run a step of a valohai.yaml as a job")]),
    ("vh pipeline", &[("gpool vh pipeline run all --adhoc", "Run a pipeline as a group of jobs")]),
    (
        "vh pipeline run",
        &[
            ("gpool vh pipeline run all --adhoc", "Run it with the files of the working tree"),
            ("gpool vh pipeline run all --epochs=3", "Set a parameter of the pipeline"),
        ],
    ),
    ("vh lint", &[("gpool vh lint", "Check valohai.yaml, and list how gpool treats its keys")]),
    ("vh task", &[("gpool vh task run grid --adhoc", "Run the executions of a task")]),
    ("vh task run", &[("gpool vh task run grid --adhoc VH_GPUS=1", "One GPU for each execution")]),
    ("vh execution", &[("gpool vh execution list", "List your executions")]),
    (
        "vh execution run",
        &[
            ("gpool vh execution run train --adhoc VH_GPUS=2", "Run a step of the working tree"),
            (
                "gpool vh execution run train --adhoc --epochs=3 --images=/data/images",
                "Set a parameter and an input",
            ),
        ],
    ),
    ("vh execution list", &[("gpool vh execution list -n 5", "List the newest executions")]),
    ("vh execution info", &[("gpool vh execution info @", "Show your newest job")]),
    ("vh execution logs", &[("gpool vh execution logs 17", "Print the output of execution 17")]),
    (
        "vh execution outputs",
        &[(
            "gpool vh execution outputs @ --download results",
            "Copy the outputs of the newest job",
        )],
    ),
    ("vh execution stop", &[("gpool vh execution stop 17 18", "Stop two executions")]),
    (
        "vh execution watch",
        &[("gpool vh execution watch @", "Follow the output of the newest job")],
    ),
    (
        "serve",
        &[
            (
                "gpool serve --name chat --replicas 0..4 --port 8000 --gpus 1 -- ./chat {port}",
                "Up to 4 replicas, by load",
            ),
            (
                "gpool serve --name chat --canary 10% --gpus 1 -- ./chat2 {port}",
                "Try a new revision with 10 % of the requests",
            ),
        ],
    ),
    ("serve list", &[("gpool serve list", "Services with replicas, load and times")]),
    ("serve show", &[("gpool serve show chat", "Replicas, load, and why there are that many")]),
    ("serve scale", &[("gpool serve scale chat --replicas 1..8 --target 4", "Change the size")]),
    ("serve promote", &[("gpool serve promote chat", "Send all requests to the canary")]),
    ("serve remove", &[("gpool serve remove chat", "End all its jobs")]),
    ("serve rollback", &[("gpool serve rollback chat", "Go back to the revision before")]),
    (
        "secret",
        &[
            ("gpool secret set HF_TOKEN", "Type a value, which the terminal does not show"),
            ("gpool secret list", "Your secrets, without their values"),
        ],
    ),
    (
        "secret set",
        &[
            ("gpool secret set HF_TOKEN", "Type the value, which the terminal does not show"),
            ("gpool secret set HF_TOKEN < token", "Read it from standard input"),
            ("gpool secret set DEPLOY_KEY --from-file key.pem", "Read a file byte for byte"),
        ],
    ),
    ("secret list", &[("gpool secret list", "Names, times and sizes")]),
    ("secret remove", &[("gpool secret remove HF_TOKEN", "Remove a secret of yours")]),
    (
        "edit",
        &[
            ("gpool edit 1842 --gpus 1 --time 2h", "Request less, so that the job starts sooner"),
            ("gpool edit 1842 --deadline none --after none", "Remove settings"),
            ("gpool edit 1842", "Change the request in $EDITOR"),
        ],
    ),
    (
        "prio",
        &[
            ("gpool prio -5 1842", "Let other jobs go first"),
            ("gpool prio 10 1842 1843", "Raise the priority of two jobs"),
        ],
    ),
    (
        "note",
        &[
            ("gpool note 1842 'baseline, seed 3'", "Show a note with the job"),
            ("gpool note 1842 ''", "Remove the note"),
        ],
    ),
    (
        "notify",
        &[
            (
                "gpool notify 1842 done,fail@https://example.org/hook",
                "Send events to a web address",
            ),
            (
                "gpool notify --project nlp budget,digest@mailto:pi@example.org",
                "Send the budget's state and a weekly digest of a project",
            ),
            (
                "gpool notify --user digest@mailto:ana@example.org",
                "Send a weekly digest of your own use",
            ),
            ("gpool notify", "List notifications that could not be sent"),
        ],
    ),
    (
        "events",
        &[
            ("gpool events", "Print events as they happen"),
            ("gpool events 1842", "The past events of a job"),
            ("gpool events -f 1842 1843", "Events of two jobs until both have ended"),
        ],
    ),
    (
        "history",
        &[
            ("gpool history --since 7d", "Jobs that ended in the last week"),
            ("gpool history --state failed --user ana", "Failed jobs of one user"),
            ("gpool history --by project --since 30d", "GPU hours of each project"),
        ],
    ),
    (
        "usage",
        &[
            ("gpool usage", "GPU time of each project in the last week"),
            ("gpool usage --by project,user --since 30d", "GPU time of each user in each project"),
            ("gpool usage --by model --step day -o wide", "GPU time of each model, day by day"),
            ("gpool usage --by job --only kind=train", "GPU time of each training job"),
        ],
    ),
    (
        "cost",
        &[
            ("gpool cost", "The cost of each project in the last week"),
            ("gpool cost --by user,model --since 30d -o csv", "For a spreadsheet"),
            ("gpool cost --by job --since 2d", "The most expensive jobs"),
        ],
    ),
    (
        "budget",
        &[
            ("gpool budget", "Budgets of projects and users, and their cost this month"),
            ("gpool budget --filter state=over,holds", "Only those that are used up"),
        ],
    ),
    (
        "digest",
        &[
            ("gpool digest", "Your use of GPUs in the last week"),
            ("gpool digest --project nlp", "That of a project and the projects below it"),
        ],
    ),
    (
        "waste",
        &[
            ("gpool waste", "Running jobs, and those of the last week, by their idle GPU time"),
            ("gpool waste --sooner -o wide", "The jobs that would start without them"),
        ],
    ),
    (
        "report",
        &[
            ("gpool report 1842", "Used and requested GPUs, memory and time of a job"),
            ("gpool report all --since 7d", "Your jobs of the last week"),
        ],
    ),
    (
        "download",
        &[
            ("gpool download 1842", "Fetch the results into this folder"),
            ("gpool download 1842 results --force", "Into another folder, replacing older files"),
        ],
    ),
];
