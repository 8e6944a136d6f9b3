//! Steps of jobs: the processes that `srun` starts in all tasks of a job, and the allocations that
//! `sbatch` and `salloc` make for them.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Cluster, Gate, Ran, Running, until_so};

/// Two nodes, and the commands of Slurm.
fn two_nodes() -> (Cluster, PathBuf) {
    let cluster = Cluster::new("2x(sim:4xH100-80G)");
    let bin = cluster.path("bin");
    cluster.gpool(["install-shims", "--slurm", bin.to_str().unwrap()]).ok();
    (cluster, bin)
}

/// Starts a command of Slurm, as a user would.
fn start(cluster: &Cluster, bin: &Path, words: &[&str]) -> Running {
    let mut command = Command::new(bin.join(words[0]));
    let of = cluster.command();
    command.env_clear().current_dir(cluster.work());
    command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).args(&words[1..]);
    Running::start(&mut command, None)
}

fn run(cluster: &Cluster, bin: &Path, words: &[&str]) -> Ran {
    start(cluster, bin, words).end()
}

/// Submits a script; returns the ID of its job.
fn sbatch(cluster: &Cluster, bin: &Path, flags: &[&str], lines: &str) -> String {
    std::fs::write(cluster.work().join("a.sh"), format!("#!/bin/bash\n{lines}\n")).unwrap();
    let words = [&["sbatch", "--parsable"], flags, &["a.sh"]].concat();
    run(cluster, bin, &words).ok().trim().to_owned()
}

/// The sorted output lines of a job, since several processes write.
fn output(cluster: &Cluster, id: &str) -> Vec<String> {
    let text = std::fs::read_to_string(cluster.work().join(format!("slurm-{id}.out"))).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_script_runs_once_and_its_steps_on_all_nodes() {
    let (cluster, bin) = two_nodes();
    let id = sbatch(
        &cluster,
        &bin,
        &[],
        "#SBATCH -N 2 --ntasks-per-node=2 --gres=gpu:4 -c 1\n\
         echo batch $SLURM_NNODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_GPUS_ON_NODE \
         ${RANK-none}\n\
         export SAID=hello\n\
         srun sh -c 'echo $SLURM_STEP_ID: $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID \
           $SLURM_NODEID $SLURM_GPUS_ON_NODE $SLURM_CPUS_PER_TASK $SAID $SLURMD_NODENAME'\n\
         srun -l -N2 -n2 sh -c 'echo $SLURM_PROCID; exit $((SLURM_PROCID * 3))'\n\
         echo code $?\n\
         srun -n1 -r1 sh -c 'echo z $SLURMD_NODENAME'\n\
         srun -o file-%t -n2 sh -c 'echo $SLURM_PROCID; echo error >&2'\n\
         srun -n4 --gpus-per-task=2 sh -c 'echo y $SLURM_GPUS_ON_NODE'",
    );
    let job = cluster.until_ended(&id);
    let lines = output(&cluster, &id);
    assert_eq!(job.state.as_str(), "succeeded", "{lines:?}");
    let gang = job.gang.expect("it has two nodes");
    assert_eq!((gang.nodes, gang.launcher), (2, Some(4)));
    let nodes: Vec<&str> = gang.tasks.iter().map(|task| task.node.as_str()).collect();
    let expected = [
        format!("0: 0/4 0 0 4 1 hello {}", nodes[0]),
        "0: 0".to_owned(),
        format!("0: 1/4 1 0 4 1 hello {}", nodes[0]),
        format!("0: 2/4 0 1 4 1 hello {}", nodes[1]),
        format!("0: 3/4 1 1 4 1 hello {}", nodes[1]),
        "1: 1".to_owned(),
        "batch 2 4 2(x2) 4 none".to_owned(),
        "code 3".to_owned(),
        "y 2".to_owned(),
        "y 2".to_owned(),
        "y 2".to_owned(),
        "y 2".to_owned(),
        format!("z {}", nodes[1]),
    ];
    let (errors, lines): (Vec<String>, Vec<String>) =
        lines.into_iter().partition(|line| line.starts_with("srun: error:"));
    for line in &expected {
        assert!(lines.contains(line), "{line:?} is not in {lines:?}");
    }
    assert_eq!(lines.len(), expected.len(), "{lines:?}");
    assert_eq!(errors, [format!("srun: error: {}: task 1: exited with exit code 3", nodes[1])]);
    for rank in ["0", "1"] {
        let text = std::fs::read_to_string(cluster.work().join(format!("file-{rank}"))).unwrap();
        assert_eq!(text, format!("{rank}\nerror\n"));
    }
}

#[test]
fn a_script_gets_the_number_of_tasks_only_if_it_asks_for_tasks() {
    let (cluster, bin) = two_nodes();
    let line = "echo ${SLURM_NTASKS-none} ${SLURM_NTASKS_PER_NODE-none}";
    for (flags, expected) in [
        (&["--gres=gpu:4"][..], "none none"),
        (&["-N", "1"], "none none"),
        (&["-n", "1"], "1 1"),
        (&["--ntasks-per-node=2"], "2 2"),
    ] {
        let id = sbatch(&cluster, &bin, flags, line);
        assert!(cluster.until_ended(&id).gang.is_none_or(|gang| gang.launcher == Some(2)));
        assert_eq!(output(&cluster, &id), [expected], "{flags:?}");
    }
    let ran = run(&cluster, &bin, &["srun", "sh", "-c", line]);
    assert_eq!(ran.ok().trim(), "1 1");
}

#[test]
fn concurrent_steps_have_their_own_gpus() {
    let (cluster, bin) = two_nodes();
    let id = sbatch(
        &cluster,
        &bin,
        &["-n", "4", "--gpus-per-node=4"],
        "for i in 1 2 3 4; do\n\
           srun -n1 --gres=gpu:1 sh -c 'echo $CUDA_VISIBLE_DEVICES; touch began-$SLURM_STEP_ID; \
             while [ $(ls began-* | wc -l) != 4 ]; do sleep 0.02; done' &\n\
         done; wait",
    );
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    let mut gpus = output(&cluster, &id);
    gpus.dedup();
    assert_eq!(gpus.len(), 4, "{gpus:?}");
}

#[test]
fn concurrent_steps_run_in_their_own_tasks() {
    let (cluster, bin) = two_nodes();
    let id = sbatch(
        &cluster,
        &bin,
        &["-n", "3", "--gpus-per-task=2"],
        "for i in 1 2 3; do\n\
           srun -n1 -N1 --exclusive sh -c 'echo $CUDA_VISIBLE_DEVICES; \
             touch began-$SLURM_STEP_ID; \
             while [ $(ls began-* | wc -l) != 3 ]; do sleep 0.02; done' &\n\
         done; wait",
    );
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    let mut gpus = output(&cluster, &id);
    gpus.dedup();
    assert_eq!(gpus.len(), 3, "{gpus:?}");
}

#[test]
fn tasks_without_nodes_start_on_any_node_with_free_capacity() {
    let (cluster, bin) = two_nodes();
    let id = sbatch(
        &cluster,
        &bin,
        &["-n", "6", "--gpus-per-task=1"],
        "srun sh -c 'echo $SLURM_PROCID $SLURM_GPUS_ON_NODE $SLURM_TASKS_PER_NODE'",
    );
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    let expected: Vec<String> = (0..6).map(|rank| format!("{rank} 1 4,2")).collect();
    let lines = output(&cluster, &id);
    let other: Vec<String> = (0..6).map(|rank| format!("{rank} 1 2,4")).collect();
    assert!(lines == expected || lines == other, "{lines:?}");
}

#[test]
fn a_failed_process_ends_the_others_if_requested() {
    let (cluster, bin) = two_nodes();
    let line = "srun -K sh -c 'test $SLURM_PROCID = 0 && exec sleep 1000; exit 7'";
    let id = sbatch(&cluster, &bin, &["-N", "2", "-n", "2"], line);
    let job = cluster.until_ended(&id);
    assert_eq!(job.state.as_str(), "failed");
    assert_eq!(job.run.exit_code, Some(143), "the highest: the other was ended by TERM");
}

#[test]
fn a_step_goes_on_when_the_server_is_killed() {
    let (mut cluster, bin) = two_nodes();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("srun -N2 -n2 sh -c 'echo begun; {}; echo done'", gate.line());
    let id = sbatch(&cluster, &bin, &["-N", "2"], &line);
    let path = cluster.work().join(format!("slurm-{id}.out"));
    until_so("both have begun", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text == "begun\nbegun\n")
    });
    cluster.kill();
    cluster.up();
    (0..2).for_each(|_| gate.open());
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    assert_eq!(output(&cluster, &id), ["begun", "begun", "done", "done"]);
}

#[test]
fn processes_of_a_step_have_the_grace_period_of_their_job() {
    let (cluster, bin) = two_nodes();
    // The signal ends the script at once.
    let line = "srun -N2 -n2 sh -c 'trap \"echo saved > saved-$SLURM_PROCID; exit 0\" TERM; \
                touch begun-$SLURM_PROCID; while :; do sleep 0.05; done'";
    let id = sbatch(&cluster, &bin, &["-N", "2"], line);
    let is_there = |name: &str| cluster.work().join(name).exists();
    until_so("both have begun", || is_there("begun-0") && is_there("begun-1"));
    cluster.gpool(["cancel", &id]).ok();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "cancelled");
    assert!(is_there("saved-0") && is_there("saved-1"));
}

#[test]
fn srun_alone_allocates_for_its_processes() {
    let (cluster, bin) = two_nodes();
    let line = "echo $SLURM_PROCID $SLURM_NODEID $SLURM_GPUS_ON_NODE";
    let words = ["srun", "-N2", "--ntasks-per-node=2", "--gpus-per-node=4", "-l", "sh", "-c", line];
    let ran = run(&cluster, &bin, &words);
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: 0 0 4", "1: 1 0 4", "2: 2 1 4", "3: 3 1 4"], "{ran:?}");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(cluster.job("1").name, "sh");
    let ran = run(&cluster, &bin, &["srun", "-n2", "sh", "-c", "exit 5"]);
    assert_eq!(ran.code, 5, "{ran:?}");
}

#[test]
fn salloc_keeps_its_allocation_until_its_command_ends() {
    let (cluster, bin) = two_nodes();
    let line = "echo $SLURM_JOB_ID $SLURM_NNODES; srun sh -c 'echo step $SLURM_PROCID'; \
                srun -N1 -n1 --gpus=2 sh -c 'echo gpus $SLURM_GPUS_ON_NODE'; exit 4";
    let words = ["salloc", "-N2", "--gpus-per-node=4", "sh", "-c", line];
    let ran = run(&cluster, &bin, &words);
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["1 2", "gpus 2", "step 0", "step 1"], "{ran:?}");
    assert_eq!(ran.code, 4, "{ran:?}");
    for words in ["Granted job allocation 1", "Relinquishing job allocation 1"] {
        assert!(ran.err.contains(words), "{ran:?}");
    }
    let job = cluster.until_ended("1");
    assert_eq!((&*job.name, job.state.as_str()), ("interactive", "cancelled"));
    let waiting = start(&cluster, &bin, &["salloc", "--begin=now+1hour", "true"]);
    waiting.until_says("Pending job allocation 2");
    waiting.signal(Signal::INT);
    assert_eq!(waiting.end().code, 130);
    assert_eq!(cluster.until_ended("2").state.as_str(), "cancelled");
}

#[test]
fn a_running_job_is_entered_by_its_id() {
    let (cluster, bin) = two_nodes();
    let id = sbatch(&cluster, &bin, &["-N2", "--gpus-per-node=4"], "exec sleep 1000");
    cluster.until_is(&id, "running");
    let named = format!("--jobid={id}");
    let line = "echo $SLURM_JOB_ID $SLURM_NODEID $SLURM_GPUS_ON_NODE";
    let words = ["srun", &named, "--overlap", "-l", "sh", "-c", line];
    let ran = run(&cluster, &bin, &words);
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    let expected = [format!("0: {id} 0 4"), format!("1: {id} 1 4")];
    assert_eq!(lines, expected, "{ran:?}");
    cluster.gpool(["cancel", &id]).ok();
}

#[test]
fn signals_reach_the_steps_or_the_script() {
    let (cluster, bin) = two_nodes();
    let step = "trap \"echo step; exit 0\" USR1; touch ready-1; while :; do sleep 0.02; done";
    let id = sbatch(
        &cluster,
        &bin,
        &["-n", "1"],
        &format!(
            "trap 'echo script' USR1\n\
             srun sh -c '{step}' 2>/dev/null\n\
             echo code $?\n\
             sleep 1000 & touch ready-2\n\
             wait; kill -0 %1 && echo waited\n\
             kill %1"
        ),
    );
    let until = |name: &str| {
        let path = cluster.work().join(name);
        until_so("it is ready", || path.exists());
    };
    until("ready-1");
    run(&cluster, &bin, &["scancel", "--signal=USR1", &id]).ok();
    until("ready-2");
    run(&cluster, &bin, &["scancel", "--signal=USR1", "--batch", &id]).ok();
    let job = cluster.until_ended(&id);
    assert_eq!(output(&cluster, &id), ["code 0", "script", "step", "waited"], "{job:?}");
    // The step of a job of srun is its program.
    let line = "trap 'echo got; exit 3' USR1; touch ready-3; while :; do sleep 0.02; done";
    let running = start(&cluster, &bin, &["srun", "sh", "-c", line]);
    until("ready-3");
    cluster.until_is("2", "running");
    run(&cluster, &bin, &["scancel", "--signal=USR1", "2"]).ok();
    let ran = running.end();
    assert_eq!((ran.code, &*ran.out), (3, "got\n"), "{ran:?}");
}

#[test]
fn a_terminated_srun_ends_its_job() {
    let (cluster, bin) = two_nodes();
    for (n, signal) in [("1", Signal::TERM), ("2", Signal::HUP)] {
        let line = format!("touch began-{n}; exec sleep 1000");
        let running = start(&cluster, &bin, &["srun", "-n", n, "sh", "-c", &line]);
        let path = cluster.work().join(format!("began-{n}"));
        until_so("it has begun", || path.exists());
        running.signal(signal);
        assert_eq!(running.end().code, 128 + signal.as_raw());
        assert_eq!(cluster.until_ended(n).state.as_str(), "cancelled");
    }
}

#[test]
fn a_file_names_the_program_of_each_process() {
    let (cluster, bin) = two_nodes();
    let text = "0 echo first %t\n1-2 sh -c 'echo other %o $SLURM_PROCID'\n";
    std::fs::write(cluster.work().join("p.conf"), text.replace("%o $", "$")).unwrap();
    let ran = run(&cluster, &bin, &["srun", "-n3", "-l", "--multi-prog", "p.conf"]);
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: first 0", "1: other 1", "2: other 2"], "{ran:?}");
    let ran = run(&cluster, &bin, &["srun", "-n4", "--multi-prog", "p.conf"]);
    assert!(ran.err.contains("no executable program specified for task 3"), "{ran:?}");
}

#[test]
fn a_step_with_parts_runs_each_in_its_part_of_the_job() {
    let (cluster, bin) = two_nodes();
    let id = sbatch(
        &cluster,
        &bin,
        &[],
        "#SBATCH -J a --ntasks-per-node=1 --gpus-per-task=1\n\
         #SBATCH hetjob\n\
         #SBATCH -J b --ntasks-per-node=1 --gpus-per-task=1\n\
         srun -o a.out sh -c 'echo A $SLURM_NTASKS $SLURM_GPUS_ON_NODE; exit 3' : \\\n\
              --export=ALL,X=y sh -c 'echo B $X $SLURM_NTASKS'\n\
         echo code $?",
    );
    let job = cluster.until_ended(&id);
    assert_eq!(
        output(&cluster, &id),
        ["B y 1", "code 3", "srun: error: lab1-1: task 0: exited with exit code 3"],
        "{job:?}"
    );
    let path = cluster.work().join("a.out");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "A 1 1\n");
    let ran = run(&cluster, &bin, &["srun", "-n1", "echo", "A", ":", "-n1", "echo", "B"]);
    let mut lines: Vec<&str> = ran.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((&lines[..], ran.code), (&["A", "B"][..], 0), "{ran:?}");
}

#[test]
fn ended_steps_are_rows_of_sacct() {
    let (cluster, bin) = two_nodes();
    // A job can forge the file: lines without meaning are left out, and values are bounded.
    let forged = r#"{"number":9,"name":"forged","started_at":18446744073709551615,"#.to_owned()
        + r#""ended_at":18446744073709551615,"exit_code":-2147483648,"n_tasks":0,"nodes":[],"#
        + r#""usage":{"cpu_user":18446744073709551615,"cpu_system":18446744073709551615,"#
        + r#""memory_peak":18446744073709551615}}"#;
    let forge =
        format!("echo '{forged}' > $GPOOL_DIR/ended-steps; echo x >> $GPOOL_DIR/ended-steps");
    let other = sbatch(&cluster, &bin, &[], &forge);
    cluster.until_ended(&other);
    let all = ["sacct", "-n", "-P", "-j", &other, "--format=ALL"];
    assert!(run(&cluster, &bin, &all).ok().contains("1.9|"));
    run(&cluster, &bin, &["sacct", "--json", "-j", &other]).ok();

    let lines = "srun -n1 sh -c 'exit 3'\nsrun -N2 -n2 -J both true\n\
                 srun -n1 sh -c 'kill -9 $$'\ntrue";
    let id = sbatch(&cluster, &bin, &["-N2", "--ntasks-per-node=1"], lines);
    cluster.until_ended(&id);
    let rows = |words: &[&str]| {
        let words = [&["sacct", "-n", "-P"], words].concat();
        run(&cluster, &bin, &words).ok()
    };
    let fields = "--format=JobID,JobName,State,ExitCode,NNodes,NTasks";
    assert_eq!(
        rows(&["-j", &id, fields]),
        "2|a.sh|COMPLETED|0:0|2|\n\
         2.batch|batch|COMPLETED|0:0|1|1\n\
         2.0|sh|FAILED|3:0|1|1\n\
         2.1|both|COMPLETED|0:0|2|2\n\
         2.2|sh|FAILED|0:9|1|1\n"
    );
    let memory = rows(&["-j", &id, "--format=JobID,MaxRSS,TotalCPU,Elapsed"]);
    let is_measured = |line: &&str| line.split('|').nth(1).is_some_and(|rss| rss.ends_with('K'));
    assert_eq!(memory.lines().filter(is_measured).count(), 4, "{memory}");

    // The program of a job that srun submitted is its step.
    run(&cluster, &bin, &["srun", "-n1", "-J", "one", "true"]).ok();
    assert_eq!(rows(&["-j", "3", "--format=JobID,JobName"]), "3|one\n3.0|one\n");
    // A step that runs elsewhere is recorded by a task of the job.
    run(&cluster, &bin, &["salloc", "-n1", "srun", "-J", "far", "true"]).ok();
    cluster.until_ended("4");
    let far = rows(&["-j", "4", "--format=JobID,JobName"]);
    assert!(far.ends_with("\n4.0|far\n"), "{far}");
    let steps = cluster.job(&id).run.steps;
    assert_eq!(steps.iter().map(|step| step.exit_code).collect::<Vec<_>>(), [3, 0, 137]);
}
