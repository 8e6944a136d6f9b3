//! Options of other schedulers' commands that are refused and named before a server is asked.

use crate::here::Here;
use crate::place::NO_SERVER;

#[test]
fn unknown_options_are_named() {
    for (line, said) in [
        ("sbatch --nosuch a.sh", &["there is no flag --nosuch", "gpool help compat"][..]),
        ("squeue --nosuch", &["squeue: there is no flag --nosuch"]),
        ("squeue -t BOGUS", &["BOGUS", "PENDING"]),
        ("squeue -i x", &["--iterate"]),
        ("scontrol", &["the command is missing"]),
        ("scontrol reconfigure", &["gpool down && gpool up"]),
        ("scontrol show assoc_mgr", &["sacctmgr show associations"]),
        ("scontrol show shoes", &["it shows job, step, node, partition"]),
        ("scontrol update JobId=1 Partition=x", &["Partition", "submit it with --partition"]),
        ("sacctmgr", &["the command is missing"]),
        ("sacctmgr add account x", &["changes nothing", "gpool project create"]),
        ("sacctmgr list shoes", &["shoes", "association"]),
        ("sstat", &["which job?"]),
        ("sstat -o shoes -j 1", &["shoes", "--helpformat"]),
        ("squeue --json=v9", &["v9", "v0.0.41"]),
        ("scontrol hold", &["which job?"]),
        ("scontrol update TimeLimit=5", &["JobId=17"]),
        ("scontrol update JobId=1 Shoes=5", &["Shoes", "timelimit"]),
        ("scontrol update JobId=1 TimeLimit=soon", &["TimeLimit=2:00:00"]),
        ("scontrol update NodeName=n State=DRAIN", &["Reason= is missing"]),
        ("scontrol update NodeName=n State=DOWN", &["--cancel"]),
        ("squeue word", &["unexpected argument"]),
        ("sacct -o shoes", &["shoes", "--helpformat"]),
        ("sacct -S never", &["--starttime"]),
        ("scancel", &["which job?"]),
        ("scancel x", &["not a job ID"]),
        ("seff", &["give one job"]),
        ("sreport job sizes", &["job sizes", "cluster Utilization", "gpool usage"]),
        ("sreport user top -T cpu", &["cpu", "-T gres/gpu"]),
        ("sreport user top -t days", &["days", "Hours"]),
        ("sreport user top shoes=1", &["shoes=1", "topcount="]),
        ("sreport user top start=now end=now", &["the end is not after the start"]),
        ("sshare -o shoes", &["shoes", "--helpformat"]),
        ("srun", &["command is missing"]),
        ("sbatch --container=x a.sh", &["podman"]),
        ("gbatch --nosuch true", &["gbatch: there is no flag --nosuch"]),
        ("gbatch -p 300 true", &["0 to 255"]),
        ("gqueue -s Bogus", &["bogus", "Queued"]),
        ("gqueue -f SHOES", &["SHOES", "JOBID"]),
        ("gjob", &["the command is missing"]),
        ("gjob lgo 1", &["lgo", "log"]),
        ("gjob log", &["which job?"]),
        ("gjob update 1 --conda-env x", &["submit it again"]),
        ("gjob log 1 --first 1 --last 1", &["can't be given together"]),
        ("gctl quota set --user alice", &["give a limit"]),
        ("gctl reserve list --range x", &["is not a time"]),
        ("gctl gpu-process list", &["--ignore-processes"]),
        ("gqueue --interval 2", &["needs --watch"]),
        ("grun --array 1-2 true", &["follows one job"]),
        ("gctl set-gpus", &["takes 1 words"]),
        ("gcancel --finish 1", &["by their end"]),
        ("gflowd nosuch", &["nosuch", "start"]),
    ] {
        Here::of(NO_SERVER).shim_refused(line, 2, said);
    }
}
