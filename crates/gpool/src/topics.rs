//! Pages of `gpool help` about more than one command.

mod documents;

pub use documents::compat_of;

pub struct Topic {
    /// The name in `gpool help NAME`.
    pub name: &'static str,
    pub about: &'static str,
    pub text: &'static str,
}

pub const TOPICS: &[Topic] = &[
    Topic {
        name: "gpu-requests",
        about: "whole GPUs, parts of a GPU and MIG instances",
        text: "
--gpus 2               two whole GPUs of one node, of any model
--gpus a100:2          two A100s; a100 alone is one
--gpus 'a100|h100:2'   two A100s, otherwise two H100s
--gpus 40G..:2         two GPUs with at least 40 GiB of memory each
--gpus 0.5             half of one GPU, shared with other jobs
--gpus 0.25:0.8        a quarter, and up to 0.8 while the rest is free
--gpus 2@0.5           half of each of two GPUs; the same as --gpus 2
                       --gpu-share 0.5
--gpus 1@20G           20 GiB of one GPU; the same as --gpu-memory 20G
--gpus 1@20G:40G       20 GiB, and up to 40 GiB while they are free
--gpus 1g.10gb:2       two MIG instances of this profile, on one node
--gpus h100-3g.40gb    one MIG instance of an H100
--gpus mig             one MIG instance of any profile
nothing, or --gpus 0   no GPU

A model matches whole words of the driver's name in any case: a100 and a100-80g
match \"NVIDIA A100-SXM4-80GB\". gpool gpus lists the models of the cluster.

Parts of a GPU are counted by memory; CUDA's own memory counts, too. The
requests on one GPU never exceed its memory, and a job with a whole GPU has it
alone. Above its request, a job borrows memory that no other job needs; above
its limit, an allocation fails as out of memory.

Levels of enforcement; --enforce LEVEL requires one, gpool doctor shows them:
booked      reserved, and nothing checks the job
monitored   jobs above their limit are shown, and the policy acts
capped      allocations above the share also fail
isolated    the job can't open other GPUs or other MIG instances",
    },
    Topic {
        name: "terminals",
        about: "shells and terminals of jobs, exec and port forwarding",
        text: "
gpool shell --gpus 1 --time 2h    a shell as a job; its prompt shows the
                                  remaining time
gpool run --pty -- COMMAND        any command on a terminal of its own
gpool attach JOB                  return to the terminal; its last output is
                                  shown first
gpool exec JOB -- COMMAND         another program in a running job
gpool forward JOB 8888            port 8888 of the job at http://127.0.0.1:8888

Ctrl-\\ and then d detaches from a terminal, and the job keeps running.
--detach-keys sets other keys.",
    },
    Topic {
        name: "environments",
        about: "variables, Python environments, modules and setups of jobs",
        text: "
-e NAME=VALUE      one environment variable; -e NAME passes the caller's value
--env-file FILE    variables, one NAME=VALUE per line, taken literally; -e
                   overrides
--clean-env        only HOME, PATH, USER, LANG and the variables of -e
--conda NAME       Conda environment, by name or folder
--uv               environment of the uv project in the job's folder
--venv FOLDER      Python virtual environment
--module A,B       environment modules, loaded on the node of the job
--image IMAGE      container of podman, docker, apptainer or enroot
--setup COMMAND    command that prepares the job before it waits: --uv --setup
                   'uv sync'

gpool checks that an environment exists when you submit the job, and again on
the node. If it is missing there, the job is held; gpool release starts it
again.",
    },
    Topic {
        name: "projects",
        about: "guarantees, limits, borrowing and reclaiming",
        text: include_str!("topics/projects.txt"),
    },
    Topic {
        name: "scheduling",
        about: "queue order, presets, planned starts and backfill",
        text: "
The scheduler compares jobs by the keys of the policy's order, left to right:
priority; escalated (pending for longer than escalate_after); attained (less
past GPU time); predicted (less expected GPU time); gpus (fewer first); age.
gpool policy show prints the settings in use.

preset    order                        after  purpose
users     priority,escalated,gpus,age  32h    fair share of users; the default
fair      priority,escalated,gpus,age  24h    guaranteed quotas, with lending
fixed     priority,escalated,gpus,age  24h    quotas without lending
priority  priority,age                 –      important jobs first
static    priority,escalated,gpus,age  24h    only reserved GPUs are used
fifo      age                          –      first come, first served
valohai   escalated,gpus,age           1h     one queue, small jobs first
las       priority,attained,age        6h     preemption by past GPU time

gpool policy set --preset valohai:escalate_after=24h --dry-run
gpool policy set escalate_after=2h planned_starts=all

The first job that does not fit has a planned start: the earliest time and place
at which it can run. Other jobs backfill only if they end before it, by their
time limit, or use other capacity. A job without a time limit could run forever,
so a time limit lets it start earlier. gpool why names the job that it would
delay. planned_starts=all plans up to 100 jobs.",
    },
    Topic {
        name: "units",
        about: "memory, times and moments",
        text: "
Memory   20G, 512M, 1.5T; G is GiB; a unit is required
CPUs     4, 0.5
Time     1h30m, 45s, 2d, HH:MM:SS, M:SS, 2-00:00:00; a bare number is minutes
Moments  2h (ago), 15:30 (today), 2026-11-20, 2026-11-20T15:30:00Z",
    },
    Topic {
        name: "jobs",
        about: "references to jobs",
        text: "
1842         a job by its ID; 1842.3 is an element of an array
1842#2       its second run (for logs)
train        a job by its name, if only one job has it
@, last      your newest job; @~2 is the third newest
10-20        the existing jobs of these IDs; 10-20:2 every second ID
1,2,3        a list of any of these
group:NAME   all jobs of the group
all          all your jobs that have not ended; --user NAME, or --user all for
             every user",
    },
    Topic {
        name: "lists",
        about: "formats, columns, rows and times of lists",
        text: "
-o table, wide        columns for people; --format id,name,state selects them
-o json, jsonl, yaml  one JSON document, one object per line, or YAML; --json is
                      -o json
-o csv, tsv, name     values separated by commas or tabs; only the name or ID of
                      each row
-o html               a page that needs no other file, to store or send
--filter state=held   only matching rows; --sort -priority sorts, by any key or
                      column; -n 20 limits the rows. A key in a group needs no
                      group: started_at is run.started_at
--since 2h --until 15:30
                      jobs by submission (queue) or end (history, report),
                      events by time
--watch=5s            show the list again and again; into a pipe, changes as
                      lines of JSON
--tz Europe/Berlin    the time zone of printed and given times; --utc for UTC",
    },
    Topic {
        name: "arrays",
        about: "one job with many elements",
        text: include_str!("topics/arrays.txt"),
    },
    Topic {
        name: "sweeps",
        about: "many trials of a command with other values of its parameters",
        text: include_str!("topics/sweeps.txt"),
    },
    Topic {
        name: "starts",
        about: "expected starts of waiting jobs",
        text: "
now           with the next decision
by 17:00      a planned start: no later job delays it
15:30–16:09   a forecast: hardly earlier than the first, hardly later than the
              second time
~03:50        about then: it also depends on a job that has not started
after 1844    when that job ends, at an unknown time
from 15:30    not before; the later time is beyond the forecast
> 48 h        later than the forecast looks
–             no known event lets it start: gpool why JOB

The forecast simulates the scheduler with the expected ends of jobs: from the
run times of similar jobs (same user, project, and name without digits), else
from time limits, else from the time that they have run. A shorter --time lets a
job fit into gaps. gpool doctor eta reports the accuracy of past forecasts.",
    },
    Topic {
        name: "reservations",
        about: "reservations, maintenance windows and drains",
        text: "
gpool reserve create --gpus h100:4 --user ana --from 'fri 18:00' --for 2d
gpool reserve create --devices lab1:0,1 --project nlp  until cancelled
gpool reserve create --node lab1 --job 1842       until that job has ended
gpool reserve create --gpus 2 --user bo --from 18:00 --for 12h --every 1d
gpool reserve list --timeline; gpool reserve cancel r1
gpool maint create --all --from 'fri 18:00' --for 4h --reason 'new PSU'
gpool drain lab2 --by 'fri 18:00' --reason 'new PSU' --requeue
gpool undrain lab2

Only admins can reserve. Other jobs start on reserved GPUs only if their time
limit and grace period end before the reservation begins; a job without a time
limit does not start there. If running jobs are affected, the command changes
nothing and lists the choices (GP0731); --dry-run only shows the jobs. --every
repeats at a fixed interval in UTC.",
    },
    Topic {
        name: "states",
        about: "states of jobs",
        text: "
held        does not start until gpool release
waiting     waits for another job, or for its begin
pending     waits for capacity; gpool why lists the reasons
starting    its node is starting it
running     runs
paused      stopped in memory without GPUs; continues later
stopping    is ending
succeeded   ended with exit code 0
failed      ended with another exit code or by a signal, or could not be started
cancelled   a user ended it
timed_out   ended at its time limit
lost        was running, and its end is unknown",
    },
    Topic {
        name: "exit-codes",
        about: "exit codes of commands",
        text: "
0 success             1 other failure      2 invalid command line
3 no server answers   4 could never run    5 not permitted
6 no such job         7 conflict           8 timeout

5 is also the code of --no-queue if the job cannot start now.

gpool run exits with the code of the job: 128+n if signal n ended it, 124 at its
time limit, 137 if out of memory, 125 if it could not be started, 130 after
detaching. gpool wait exits with the largest code of the jobs.",
    },
    Topic {
        name: "directives",
        about: "flags inside scripts",
        text: "
Comments at the start of a script, before its first command and within 32 KiB:

  #!/bin/bash
  # GPOOL --gpus 2 --time 1h
  #GPOOL -J train --note 'two words'
  # GFLOW --gpus=2
  #SBATCH --gres=gpu:2 -t 1:00:00

Precedence: command line, GPOOL_SUBMIT_ variables, # GPOOL, # GFLOW, #SBATCH.
Lists (-e, --after) are joined. Of two contradictory lines of one kind the later
counts, with a warning. Lines without an effect cause a warning; with --strict
both are errors. gpool help slurm and gpool help gflow describe the flags of
Slurm and gflow.",
    },
    Topic {
        name: "gangs",
        about: "jobs of several tasks on one or more nodes",
        text: "
gpool submit --nodes 2 --gpus 8 train.sh    a task on each of two nodes, 8 GPUs
                                            each
gpool submit --nodes 2-4 --gpus 8 train.sh  two nodes, up to four while free
--tasks-per-node 4                          tasks on each node, with own GPUs
gpool submit --tasks 8 --gpus 1 train.sh    eight tasks on few nodes
gpool submit --part head:1xcpu --part worker:4xa100:8,cpus=16 run.sh
                                            parts of different shape: 1 task
                                            without GPU, 4 with 8 GPUs each

All tasks start together, and each runs the command. If one fails, the others
are ended. A task has GPOOL_RANK, GPOOL_NUM_TASKS, GPOOL_NODE_RANK,
GPOOL_NODELIST, and for PyTorch MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK,
LOCAL_RANK, NODE_RANK; in a job with parts also GPOOL_PART, GPOOL_PART_RANK,
GPOOL_PART_NUM_TASKS and GPOOL_PARTS. --torchrun also sets the variables that
torchrun reads.
Nodes that join a job later are a job of their own, which is preempted first in
its project.

gpool logs 17              the output of all tasks, each line with its rank
gpool logs 17 --rank 1     the output of the second task; %t in a file name is
                           the rank
gpool exec 17 --rank 1 -- nvidia-smi",
    },
    Topic {
        name: "slurm",
        about: "Slurm's commands and #SBATCH lines",
        text: "
gpool install-shims --slurm FOLDER creates sbatch srun salloc squeue scancel
scontrol sinfo sacct sacctmgr sstat seff sreport sshare sprio. Put FOLDER into
PATH. --help of each lists its flags and their treatment, as does
gpool help compat. squeue, sinfo, sacct and scontrol show know every letter
and field of Slurm, and have --json.

sbatch a.sh        Submitted batch job 17; output in slurm-17.out of the working
                   folder
squeue --me        also -j -n -p -t -o -O -l -r -i SECONDS --start; pools are
                   partitions
scancel 17         also 17_4, 17_[1-3], --me, -n NAME, -t PENDING, -s USR1
scontrol show job 17        also step, node, partition, config; hold, release,
                            requeue, suspend, write batch_script 17
scontrol update JobId=17 TimeLimit=2:00:00 Nice=50 JobName=x
sacct -j 17 -P     jobs and steps since midnight, or -S and -E; -X only jobs;
                   --helpformat lists the fields
sstat -j 17        usage of a running job
sacctmgr list associations   projects as accounts, with their users
sreport cluster AccountUtilizationByUser start=now-7days end=now -t Hours
                   GPU time; also Utilization, UserUtilizationByAccount, and
                   user TopUsage
sshare -a          weights, recent GPU time and fair shares of projects
sprio -l           keys of pending jobs: FAIRSHARE and JOBSIZE are parts of all
                   GPUs, AGE is 1 when the job is escalated
srun -G1 CMD       a job in the foreground; in a job, or with --jobid=17,
                   processes of the job
salloc -N2         nodes for the srun of a shell on this machine, until it ends

A script runs once, on the first node. srun in it starts processes on all nodes
of the job (-n -N --ntasks-per-node --gpus-per-task -l -o -K), also several
steps at once. Jobs from scripts with #SBATCH lines have
SLURM_JOB_ID and the other variables; other jobs with --compat slurm.
SBATCH_TIMELIMIT, SALLOC_ and SLURM_ input variables set flags; a flag of the
command line replaces that of the script.
SLURM_JOB_ID of element 4 of array 17 is 1073759236; the commands accept it,
and 17_4. An unknown account and a priority that you may not use are dropped
with a warning. An unknown partition or constraint is refused, unless
GPOOL_SLURM_NAMES=any is set. '# SBATCH' and an indented #SBATCH are comments,
as in Slurm. scancel -s USR1 signals the processes of srun, with --batch the
script alone, with --full both. A terminated srun ends the job that it made.
A job waits 5 s for an output folder with its ID (-o runs/%j/out), and then
makes the folder.",
    },
    Topic {
        name: "gflow",
        about: "gflow's commands, # GFLOW lines and import",
        text: "
gpool install-shims --gflow FOLDER creates gflowd gbatch grun gqueue ginfo gjob
gcancel gctl gstats. Put FOLDER into PATH. --help of each lists its flags and
their treatment. gpool help compat has the same tables, and every example of
gflow's documentation with its result.

gbatch -g 1 a.sh   Submitted batch job 17 (a.sh)
gbatch --param lr=0.1,0.01 --param bs=32,64 python train.py --lr {lr} --bs {bs}
grun -g 1 CMD      a job in the foreground
gqueue -a          also -s -j -N -P -f -g -t -w -o json, with gflow's keys
gjob redo 17       also show, log, hold, release, update; redo takes --time,
                   --gpus, --cascade
gctl set-gpus 0-2  set the GPUs for new jobs; also reserve, quota, set-limit

gflow's priority 10 is 0 here. --array and --param make one job with elements,
with one ID. Jobs from scripts with # GFLOW lines have GFLOW_ARRAY_TASK_ID and
GFLOW_JOB_ID.

gpool import gflow imports the queue of a running gflow: waiting jobs are
submitted here and cancelled there. Running jobs of gflow continue, and their
GPUs are unmanaged until they end. A job that starts there meanwhile stays
there, so nothing runs twice; a repeated import continues an interrupted one.
--dry-run shows the actions. Each user imports their own jobs.",
    },
    Topic {
        name: "environment",
        about: "variables that gpool reads and sets",
        text: "
Read     GPOOL_SERVER, GPOOL_SOCKET    socket of the server
         GPOOL_CONTEXT, GPOOL_TOKEN    a server that gpool login stored; a token
         GPOOL_STATE_DIR               state folder of the server
         GPOOL_CONFIG                  settings file of the server
         GPOOL_LOG                     level of the server's log, as debug
         GPOOL_SUBMIT_<FLAG>           defaults for flags of run and submit
         NO_COLOR, CLICOLOR_FORCE, GPOOL_ASCII=1
Jobs     have the caller's environment and the variables of -e; with --clean-env
         only HOME, PATH, USER, LANG and those of -e. gpool adds GPOOL_JOB_ID,
         GPOOL_GPUS and others, and CUDA_VISIBLE_DEVICES with UUIDs.",
    },
    Topic {
        name: "notifications",
        about: "webhooks and mail about jobs, projects and users",
        text: "
gpool submit --notify done,fail@https://host/path -- program
gpool submit --notify fail@mailto:ana@example.org -- program
gpool notify JOB start,end@https://host/path    replace those of a job
gpool notify JOB none                           remove them
gpool notify --project NLP budget,digest@mailto:ana@example.org
gpool notify --user digest@mailto:ana@example.org
gpool notify                                    list unsent messages
gpool notify --secret                           print the signing key

Events   start, done, fail, timeout, cancel, hold; late: still pending after the
         p90 of its first forecast; idle: does not use its GPUs; over_limit:
         above its GPU memory limit; near_limit: used 90 % of its time limit;
         end is done, fail or cancel; all is any of them
         of projects and users: budget (80 % and 100 % of it), digest (weekly)
Delivery POST with a JSON body, repeated for a day until the answer is 2xx; a
         repeated message has the same id
Address  http, https, slack+https or mailto; addresses inside the server's
         machine only for admins or as notify_allow in gpool.toml says; others
         are refused at submission
Default  GPOOL_SUBMIT_NOTIFY for your jobs, notify in gpool.toml for all jobs",
    },
];

/// A page that is generated from tables of the program.
struct ComputedTopic {
    name: &'static str,
    about: &'static str,
    text: fn() -> String,
}

const COMPUTED_TOPICS: &[ComputedTopic] = &[
    ComputedTopic {
        name: "reasons",
        about: "reasons of waiting jobs, by code",
        text: gpool_verbs::reasons::page,
    },
    ComputedTopic {
        name: "settings",
        about: "the keys of gpool.toml",
        text: gpool_verbs::keys::page,
    },
    ComputedTopic {
        name: "compat",
        about: "every flag of Slurm's and gflow's commands",
        text: documents::compat,
    },
    ComputedTopic {
        name: "runai",
        about: "coming from Run:ai or KAI: terms, settings",
        text: documents::runai,
    },
    ComputedTopic {
        name: "valohai",
        about: "coming from Valohai: scheduling, VH_GPUS",
        text: documents::valohai,
    },
];

/// Name and subject of every page.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let written = TOPICS.iter().map(|topic| (topic.name, topic.about));
    written.chain(COMPUTED_TOPICS.iter().map(|page| (page.name, page.about)))
}

/// The page of this name, written or generated.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    let made = || COMPUTED_TOPICS.iter().find(|page| page.name == name).map(|page| (page.text)());
    let written = find(name).map(|topic| topic.text.trim().to_owned());
    written.or_else(made).or_else(|| gpool_verbs::reasons::find(name))
}

/// The written page of this name.
fn find(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

#[must_use]
pub fn list() -> String {
    let lines = all().map(|(name, about)| format!("  gpool help {name:<14} {about}\n"));
    format!("Topics:\n{}  gpool help {:<14} all error codes\n", lines.collect::<String>(), "codes")
}
