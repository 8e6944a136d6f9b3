//! Pages of `gpool help` about more than one command.

/// One page.
pub struct Topic {
    /// The name in `gpool help NAME`.
    pub name: &'static str,
    /// The subject.
    pub about: &'static str,
    /// The text.
    pub text: &'static str,
}

/// Every page.
pub const TOPICS: &[Topic] = &[
    Topic {
        name: "gpu-requests",
        about: "how GPUs are asked for",
        text: "
--gpus 2               two whole GPUs of one node, of any model
--gpus a100:2          two of that model; a100 alone is one
--gpus 'a100|h100:2'   two of one of these models, the first rather than the second
--gpus 40G..:2         two with at least 40 GiB of memory each
--gpus 0.5             half of one, beside other jobs
--gpus 2 --gpu-share 0.5
                       half of each of two; --gpus 2@0.5 is the same
--gpu-memory 20G       20 GiB of one, beside other jobs; with --gpus 2, of each of two;
                       --gpus 1@20G is the same, and --shared may be said as well
nothing, or --gpus 0   no GPU; a job without one is welcome

A model matches whole words of the driver's name in any case: \"NVIDIA A100-SXM4-80GB\" answers to
a100 and to a100-80g. gpool gpus shows the models there are.

Shares are booked: those of a GPU never add up to more than it has, by its memory. They sit on as
few GPUs as may be, and only beside other shares. CUDA's own memory counts. Who uses more than its
share is shown by gpool gpus where the driver tells, and is not stopped.",
    },
    Topic {
        name: "terminals",
        about: "shells and terminals of jobs, and what is opened towards them",
        text: "
gpool shell --gpus 1 --time 2h    a shell as a job; its prompt says what time is left
gpool run --pty -- COMMAND        any command on a terminal of its own
gpool attach JOB                  come back to it; what it showed last comes first
gpool exec JOB -- COMMAND         a further program in a job that runs
gpool forward JOB 8888            a port of the job at http://127.0.0.1:8888

Ctrl-\\ and then d leaves a terminal, and the job goes on; --detach-keys chooses others.",
    },
    Topic {
        name: "environments",
        about: "variables, Python environments, modules and setups of jobs",
        text: "
--env-file FILE    a NAME=VALUE a line, the value as it stands; -e wins over it
--conda NAME       a conda environment, by name or folder
--uv               the environment of the uv project of the folder
--venv FOLDER      a Python virtual environment
--module A,B       environment modules, loaded where the job starts
--setup COMMAND    prepares the job before it waits for GPUs: --uv --setup 'uv sync'

They are looked for when the job is submitted, and again where it starts: a job whose environment
is not there is held, and gpool release lets it try again.",
    },
    Topic {
        name: "projects",
        about: "who is guaranteed how many GPUs, and what is lent",
        text: "
gpool project create vision --gpus 4 --limit 8     guaranteed 4, never more than 8
gpool project edit default --gpus 0                what default holds can be taken back then
gpool project apply projects.toml                  a whole set, compared first
gpool submit -p vision --gpus 2 --preemptible …    may borrow, and is put back when it must
gpool quota                                        who has what, and who lends to whom

A project gets what it is guaranteed whenever it asks. What is idle is lent by weight, to jobs that
may be taken back, and taken back when its owner asks: the newest job first, put back into the queue
as its next attempt. A job without --preemptible never uses more than its project is guaranteed.

A file has a table for each project; what is not said is not agreed:

[projects.vision]
parent = \"lab\"
gpus = 4
limit = 8
members = [\"ana\", \"@students\"]

Keys: parent gpus limit gpus_of limit_of gpus_in limit_in weight priority cpus cpus_limit mem
mem_limit jobs_limit min_runtime min_runtime_own save_time_max members admins time_default
time_max preemptible user_pending user_running user_gpus. 0 is nothing, \"none\" takes a setting
away, \"unlimited\" is a guarantee of all there is. Of one model, or in one pool: gpus_of = { h100
= 4 }, gpus_in = { batch = 2 }; the same as --gpus-of h100=4 --gpus-in batch=2.",
    },
    Topic {
        name: "scheduling",
        about: "who starts when, and what is kept for those that wait",
        text: "
Jobs are considered by the keys of the policy's order: priority, escalated (waited long), predicted
(shorter first, by how long like jobs ran), gpus (fewer first), age. gpool policy show says which.

The first that finds no room, if it is escalated or the first of its priority, has a planned start:
the earliest time and place at which it can run. Others go before it only if they end before that,
by their time limit, or use nothing that it needs then. A job without a time limit may take for
ever, so a limit lets it go first. gpool why names the job that it would delay.

fair       priority, escalated after 24h, fewer GPUs, age; the default
valohai    escalated after 1h, fewer GPUs, age
fifo       age
priority   priority, age

gpool policy set escalate_after=2h planned_starts=all
gpool policy set --preset valohai:escalate_after=24h --dry-run",
    },
    Topic {
        name: "units",
        about: "how memory and time are written",
        text: "
Memory   20G, 512M, 1.5T; G is GiB; a unit is needed
CPUs     4, 0.5
Time     1h30m, 45s, 2d, HH:MM:SS, M:SS, 2-00:00:00; a bare number is minutes
Moments  2h (ago), 15:30 (today), 2026-11-20, 2026-11-20T15:30:00Z",
    },
    Topic {
        name: "jobs",
        about: "how jobs are named",
        text: "
1842         by its number; 1842.3 is an element of an array
1842#2       its second run (for logs)
train        by its name, if one job has it
@, last      the newest of yours; @~2 is the one two before it
10-20        those of these numbers that there are; 10-20:2 every second
1,2,3        a list of any of these
all          all of yours that have not ended; others by --user NAME or --user all",
    },
    Topic {
        name: "lists",
        about: "forms, columns, rows and times of lists",
        text: "
-o table, wide        columns for people; --format id,name,state chooses them
-o json, jsonl, yaml  one document, a line for each, the document as YAML; --json is -o json
-o csv, tsv, name     values with commas, with tabs; only what each is called by
--filter state=held   only such rows; --sort -priority; -n 20 the first so many
--since 2h --until 15:30
                      jobs submitted then (queue), ended then (history, report), what happened
                      to a job then (events JOB)
--watch=5s            shown again and again; on a pipe, what changes as lines of JSON
--tz Europe/Berlin    times in that zone, also those that are asked for; --utc for UTC",
    },
    Topic {
        name: "arrays",
        about: "one job with many elements",
        text: "
--array 0-99           an element for each index; 0-99:2 every second, 1,3,7-9 a list
--array 0-99%8         at most 8 at once, as --max-parallel 8
--param lr=0.1,0.01 --param seed=1,2,3
                       an element for each combination; the last parameter changes fastest
--param-file FILE      for each row of CSV, whose first row has the names
--each-line FILE       for each line; --array-from FILE for each item of JSON
--max-fails 5          cancel the rest after more failures than this

An element finds GPOOL_ARRAY_INDEX, GPOOL_ITEM, GPOOL_PARAM_LR and so on, and {lr} in the command
is its value; {{lr}} stays {lr}. Its output is its own: gpool logs 1842.3.

1842 is the whole, 1842.3 an element, 1842.3-7 some: show, logs, wait, cancel, hold, release, retry.
--after each:1842      element by element: 1845.3 starts when 1842.3 has succeeded
gpool queue -a         each element in a row; gpool retry 1842 runs again what did not succeed",
    },
    Topic {
        name: "starts",
        about: "when jobs start, and how far that can be trusted",
        text: "
now           with the next decision
15:30–16:09   hardly earlier than the first, hardly later than the second
~03:50        about then: another job that it waits for has not even begun
after 1844    when that job has ended, nobody knows when
from 15:30    not before; the second moment lies too far away
> 48 h        later than was looked
–             nothing that is known lets it start: gpool why JOB

The scheduler is run forward over the ends that jobs are expected to have: by how long like jobs ran
(same user, project and name without digits), else by their time limits, else by how long they have
run. A shorter --time lets a job fit into gaps. gpool doctor eta says how well it was told before.",
    },
    Topic {
        name: "reservations",
        about: "what is kept for somebody, for nobody, or emptied",
        text: "
gpool reserve create --gpus h100:4 --user ana --from 'fri 18:00' --for 2d
gpool reserve create --devices lab1:0,1 --project nlp           until it is released
gpool reserve create --node lab1 --job 1842                     until that job has ended
gpool reserve create --gpus 2 --user bo --from 18:00 --for 12h --every 1d
gpool reserve list --timeline; gpool reserve release r1
gpool maint create --all --from 'fri 18:00' --for 4h --reason 'new PSU'
gpool drain lab2 --by 'fri 18:00' --reason 'new PSU' --requeue; gpool undrain lab2

Jobs of others start there only if their time limit, with grace, ends before it begins; a job
without a time limit never does. Whose work is touched is shown first: --dry-run, or the refusal
GP0731, which says what to choose. Recurring is a fixed span of UTC. Only admins may.",
    },
    Topic {
        name: "states",
        about: "what states of jobs mean",
        text: "
held        kept from starting until gpool release
waiting     waits for another job
pending     starts as soon as there is room; gpool why says what is missing
starting    its node was told to start it
running     it runs
stopping    it was told to end
succeeded   exit code 0
failed      another exit code, a signal, or it could not be started
cancelled   somebody ended it
timed_out   its time limit ended it
lost        it was running, and nobody can say how it ended",
    },
    Topic {
        name: "exit-codes",
        about: "what commands exit with",
        text: "
0 done   1 other failure   2 not understood   3 no server answers   4 it could never run
5 not permitted, or it would wait with --no-queue   6 no such job   7 conflict   8 took too long

gpool run exits with the job's own code: 128+n if signal n ended it, 124 at its time limit, 137 out
of memory, 125 if it could not be started, 130 if you left it. gpool wait exits with the largest
code of the jobs.",
    },
    Topic {
        name: "directives",
        about: "flags inside scripts",
        text: "
Lines of the comments at a script's start, before its first command and within 32 KiB:

  #!/bin/bash
  # GPOOL --gpus 2 --time 1h
  #GPOOL -J train --note 'two words'
  # GFLOW --gpus=2
  #SBATCH --gres=gpu:2 -t 1:00:00

The command line goes before GPOOL_SUBMIT_ variables, these before # GPOOL lines, those before
# GFLOW and these before #SBATCH. Lists (-e, --after) are joined. Of two lines of one kind that
say different things the later is taken, and said. What has no effect is named once; --strict
makes that an error. gpool help slurm and gpool help gflow say what their flags become.",
    },
    Topic {
        name: "gangs",
        about: "jobs of several tasks on one node or many",
        text: "
gpool submit --nodes 2 --gpus 8 train.sh       a task on each of two nodes, 8 GPUs each
gpool submit --nodes 2-4 --gpus 8 train.sh     two, and up to four while there is room
--tasks-per-node 4                             so many on each node, each with its own GPUs
gpool submit --tasks 8 --gpus 1 train.sh       eight tasks, wherever there is room

All tasks start together or none does, and each runs the whole command. When one fails the others
are ended. A task finds GPOOL_RANK, GPOOL_NUM_TASKS, GPOOL_NODE_RANK, GPOOL_NODELIST, and
MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, LOCAL_RANK, NODE_RANK as PyTorch reads them. With
--torchrun it also finds what torchrun takes as options. What joins a job on a range of nodes is a
job of its own, which gives way to all others of its project.

gpool logs 17              what all have written, each line with the rank of its task
gpool logs 17 --rank 1     what the second has; %t in a file's name is the rank
gpool exec 17 --rank 1 -- nvidia-smi",
    },
    Topic {
        name: "slurm",
        about: "Slurm's commands and #SBATCH lines",
        text: "
gpool install-shims --slurm FOLDER makes sbatch srun salloc squeue scancel scontrol sinfo sacct
seff; put FOLDER into PATH. Each shows with --help what its flags do here; docs/using/compat.md has
them all.

sbatch a.sh        Submitted batch job 17; output in slurm-17.out of the working folder
squeue --me        also -j -n -p -t -o -O -l -r -i SECONDS --start; pools are partitions
scancel 17         also 17_4, 17_[1-3], --me, -n NAME, -t PENDING, -s USR1
scontrol show job 17        also node, partition, hostnames; hold, release, requeue, suspend
scontrol update JobId=17 TimeLimit=2:00:00 Nice=50 JobName=x
sacct -j 17 -X -P  since midnight, or -S and -E; --helpformat lists the fields
srun -G1 CMD       a job in front; inside a job, or with --jobid=17, processes of it
salloc -N2         nodes for the srun of a shell on this machine, until it ends

A script runs once, on the first node; srun in it starts processes on all nodes of the job (-n -N
--ntasks-per-node --gpus-per-task -l -o -K), also several steps at once (docs/using/gangs.md). Jobs
from scripts with #SBATCH lines find SLURM_JOB_ID and its like; others with --compat slurm. For
element 4 of array 17, SLURM_JOB_ID is the number 170000000004; the commands take it as well as
17_4. An account that is no project here, and a priority above your right, are left out with a
warning. A blank makes '# SBATCH' a comment, as in Slurm.",
    },
    Topic {
        name: "gflow",
        about: "gflow's commands, # GFLOW lines and its queue",
        text: "
gpool install-shims --gflow FOLDER makes gflowd gbatch grun gqueue ginfo gjob gcancel gctl gstats;
put FOLDER into PATH. Each shows with --help what its flags do here; docs/using/compat.md has them
all, and every example of gflow's documentation with what becomes of it.

gbatch -g 1 a.sh   Submitted batch job 17 (a.sh)
gbatch --param lr=0.1,0.01 --param bs=32,64 python train.py --lr {lr} --bs {bs}
grun -g 1 CMD      a job in front
gqueue -a          also -s -j -N -P -f -g -t -w -o json, with gflow's keys
gjob redo 17       also show, log, hold, release, update; redo takes --time, --gpus, --cascade
gctl set-gpus 0-2  which GPUs new jobs may use; also reserve, quota, set-limit

gflow's priority 10 is 0 here. --array and --param make one job with elements, and one id is
printed. Jobs from scripts with # GFLOW lines find GFLOW_ARRAY_TASK_ID and GFLOW_JOB_ID.

gpool import gflow takes over the queue of a gflow that runs: what waits is submitted here and
cancelled there, what runs there goes on, and its GPUs are unmanaged until it ends. --dry-run says
what would be done. A job that begins there meanwhile stays there; nothing runs twice, and a
repeated import goes on where an earlier one was stopped. It runs as each user for their own jobs.",
    },
    Topic {
        name: "environment",
        about: "variables that gpool reads, and those that jobs get",
        text: "
Read     GPOOL_SERVER, GPOOL_SOCKET    where the server is
         GPOOL_STATE_DIR               where the server keeps its state
         GPOOL_SUBMIT_<FLAG>           defaults for flags of run and submit
         NO_COLOR, CLICOLOR_FORCE, GPOOL_ASCII=1
Jobs get what the caller has, and what -e says; with --clean-env only HOME, PATH, USER and LANG.
         Beside it GPOOL_JOB_ID, GPOOL_GPUS and so on, and CUDA_VISIBLE_DEVICES by UUID.",
    },
    Topic {
        name: "notifications",
        about: "telling a web address or a mail address what becomes of jobs",
        text: "
gpool submit --notify done,fail@https://host/path -- program
gpool submit --notify fail@mailto:ana@example.org -- program
gpool notify JOB start,end@https://host/path    later, instead of what was said before
gpool notify JOB none                           nobody
gpool notify                                    what waits to be sent, what was given up
gpool notify --secret                           the key that signs your messages

Events   start, done, fail, timeout, cancel, hold; end is done, fail and cancel; all is all of them
Sent     as POST with a JSON body, again for a day until it is answered with 2xx; each message has
         an id by which to know one that comes twice
Where    http and https; inside the server's machine only by admins, or where notify_allow in
         gpool.toml says so; mail by the sendmail of the server's machine
Usual    GPOOL_SUBMIT_NOTIFY for your jobs, notify in gpool.toml for everybody's",
    },
];

/// A page that is generated from tables of the program.
struct Made {
    name: &'static str,
    about: &'static str,
    text: fn() -> String,
}

/// Every generated page.
const MADE: &[Made] = &[
    Made { name: "reasons", about: "why jobs wait, each by its code", text: crate::reasons::page },
    Made { name: "settings", about: "the keys of gpool.toml", text: crate::keys::page },
];

/// Name and subject of every page.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let written = TOPICS.iter().map(|topic| (topic.name, topic.about));
    written.chain(MADE.iter().map(|page| (page.name, page.about)))
}

/// The page of this name, written or generated.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    let made = || MADE.iter().find(|page| page.name == name).map(|page| (page.text)());
    let written = find(name).map(|topic| topic.text.trim().to_owned());
    written.or_else(made).or_else(|| crate::reasons::find(name))
}

/// The written page of this name.
fn find(name: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.name == name)
}

/// The list of pages.
#[must_use]
pub fn list() -> String {
    let lines = all().map(|(name, about)| format!("  gpool help {name:<14} {about}\n"));
    format!("Topics:\n{}  gpool help {:<14} every error\n", lines.collect::<String>(), "codes")
}

#[cfg(test)]
mod tests {
    use gpool_model::job::JobState;

    use super::*;
    use gpool_cli::errors;

    #[test]
    fn every_state_stands_on_the_page_of_states() {
        let page = text("states").expect("it is there");
        // The page does not describe `paused`.
        for state in JobState::ALL.into_iter().filter(|state| *state != JobState::Paused) {
            let is_told = page.lines().any(|line| line.starts_with(state.as_str()));
            assert!(is_told, "{state}");
        }
    }

    #[test]
    fn every_page_has_a_name_of_its_own_and_fits_a_terminal() {
        let names: Vec<&str> = all().map(|(name, _)| name).collect();
        let single: std::collections::BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(single.len(), names.len());
        for name in names {
            let page = text(name).expect("it is listed");
            assert!(page.lines().all(|line| line.chars().count() <= 110), "{name}");
        }
    }

    #[test]
    fn every_code_says_what_happened_and_what_to_do() {
        for entry in errors::all() {
            assert!(entry.help.len() > 40 && !entry.title.is_empty(), "{}", entry.code);
        }
    }
}
