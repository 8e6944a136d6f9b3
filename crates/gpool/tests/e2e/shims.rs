//! Commands of Slurm and gflow by their own names.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpool_compat::SHIMS;
use gpool_compat::shim::Family;

use crate::harness::{Cluster, Ran, Running};

/// Links in a folder of the cluster that comes first in `PATH`.
pub fn installed(cluster: &Cluster) -> PathBuf {
    let folder = cluster.path("bin");
    let words = ["install-shims", "--slurm", "--gflow", "--valohai"].map(Into::into);
    let words = words.into_iter().chain([folder.clone().into_os_string()]);
    assert_eq!(cluster.gpool(words).ok().lines().count(), SHIMS.len());
    folder
}

/// Runs a command through its link.
pub fn shim(cluster: &Cluster, folder: &Path, line: &str) -> Ran {
    let mut words = line.split(' ');
    let program = folder.join(words.next().unwrap());
    with_links(cluster, folder, &program, words)
}

/// Runs lines of a shell that finds the links in its path.
pub fn shell(cluster: &Cluster, folder: &Path, lines: &str) -> Ran {
    with_links(cluster, folder, Path::new("/bin/sh"), ["-c", lines].into_iter())
}

fn with_links<'w>(
    cluster: &Cluster,
    folder: &Path,
    program: &Path,
    words: impl Iterator<Item = &'w str>,
) -> Ran {
    let mut command = Command::new(program);
    let of = cluster.command();
    command.env_clear().current_dir(cluster.work());
    command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display())).args(words);
    Running::start(&mut command, None).end()
}

fn write(cluster: &Cluster, name: &str, text: &str) {
    std::fs::write(cluster.work().join(name), text).unwrap();
}

#[test]
fn a_batch_job_of_slurm_is_one_of_gpool() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let bin = installed(&cluster);
    write(
        &cluster,
        "a.sh",
        "#!/bin/bash\n#SBATCH -J train --gres=gpu:h100:2\n#SBATCH -t 10:00\n\
         echo $SLURM_JOB_ID $SLURM_JOB_NAME $SLURM_GPUS_ON_NODE $1; echo error >&2\n\
         srun --ntasks=1 sh -c 'echo step of $SLURM_JOB_ID'\n",
    );
    assert_eq!(shim(&cluster, &bin, "sbatch a.sh arg").ok(), "Submitted batch job 1\n");
    assert_eq!(shim(&cluster, &bin, "sbatch --parsable -d afterok:1 -H a.sh").ok(), "2\n");
    let job = cluster.until_is("1", "succeeded");
    assert_eq!(
        (&*job.name, job.request.gpus_text(), job.request.time_seconds()),
        ("train", "h100:2", Some(600.0))
    );
    let out = std::fs::read_to_string(cluster.work().join("slurm-1.out")).unwrap();
    assert_eq!(out, "1 train 2 arg\nerror\nstep of 1\n");
    assert_eq!(cluster.job("2").request.after, ["ok:1"]);
    let waited = shim(&cluster, &bin, "sbatch --wait --wrap=exit\u{a0}4");
    assert_ne!(waited.code, 0, "{waited:?}");
}

#[test]
fn an_array_of_slurm_is_one_of_gpool() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let bin = installed(&cluster);
    write(
        &cluster,
        "a.sh",
        "#!/bin/bash\n#SBATCH -a 5-7\n\
         echo $SLURM_ARRAY_JOB_ID $SLURM_ARRAY_TASK_ID $SLURM_ARRAY_TASK_COUNT\n\
         test $SLURM_ARRAY_TASK_ID != 3\n",
    );
    // Options on the command line override those in the script.
    assert_eq!(shim(&cluster, &bin, "sbatch --array=1-4:2%1 a.sh").ok(), "Submitted batch job 1\n");
    let job = cluster.until_ended("1");
    assert_eq!(job.state.as_str(), "failed");
    let array = job.array.expect("an array");
    assert_eq!((array.indexes.as_str(), array.max_parallel), ("1-3:2", Some(1)));
    for task in ["1", "3"] {
        let out = std::fs::read_to_string(cluster.work().join(format!("slurm-1_{task}.out")));
        assert_eq!(out.unwrap(), format!("1 {task} 2\n"));
    }
    let after = "sbatch --parsable -a 1-4:2 -d aftercorr:1 --wrap=true";
    assert_eq!(shim(&cluster, &bin, after).ok(), "2\n");
    assert_eq!(cluster.until_ended("2.1").state.as_str(), "succeeded");
    assert_eq!(cluster.until_ended("2.3").state.as_str(), "cancelled");
    assert_eq!(shim(&cluster, &bin, "sbatch --parsable a.sh").ok(), "3\n");
    assert_eq!(cluster.until_ended("3").array.expect("an array").indexes, "5-7");
}

#[test]
fn lists_of_slurm_have_its_columns() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    cluster.submit(["-g", "2", "-J", "big", "--", "sleep", "1000"]);
    cluster.submit(["-g", "1", "-J", "held", "--hold", "--", "true"]);
    let done = cluster.submit(["-J", "done", "--", "true"]);
    cluster.until_is("1", "running");
    cluster.until_ended(&done);
    let squeue = shim(&cluster, &bin, "squeue").ok();
    let mut lines = squeue.lines();
    assert_eq!(
        lines.next().unwrap(),
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    );
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let first = words(lines.next().unwrap());
    assert_eq!((&*first[0], &*first[2], &*first[4], &*first[7]), ("1", "big", "R", "lab1"));
    assert!(lines.next().unwrap().ends_with("(JobHeldUser)"), "{squeue}");
    let all = shim(&cluster, &bin, "squeue -h -t all -o %i:%T:%b").ok();
    assert_eq!(all, "1:RUNNING:gres/gpu:2\n2:PENDING:gres/gpu:1\n3:COMPLETED:N/A\n");
    assert_eq!(
        shim(&cluster, &bin, "squeue -h -j 1,2 -n held -O JobID:4,Name:.8").ok(),
        "2       held\n"
    );
    assert_eq!(shim(&cluster, &bin, "squeue -h -u nobody").ok(), "");
    let sacct = shim(&cluster, &bin, "sacct -j 3 -n -P -X -o jobid,jobname,state,exitcode").ok();
    assert_eq!(sacct, "3|done|COMPLETED|0:0\n");
    let sinfo = shim(&cluster, &bin, "sinfo -h -o %P|%t|%D|%N|%G").ok();
    assert_eq!(sinfo, "default*|alloc|1|lab1|gpu:h100_80g:2\n");
    assert!(shim(&cluster, &bin, "seff 3").ok().contains("State: COMPLETED (exit code 0)"));
    assert_eq!(shim(&cluster, &bin, "scancel -t PENDING -n held").ok(), "");
    assert_eq!(cluster.until_ended("2").state.as_str(), "cancelled");
    assert_eq!(shim(&cluster, &bin, "scancel 1").ok(), "");
    assert_eq!(cluster.until_ended("1").state.as_str(), "cancelled");
    shim(&cluster, &bin, "scancel 999").refused(6, &["999"]);
}

#[test]
fn srun_is_an_attached_job() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let bin = installed(&cluster);
    let ran = shim(&cluster, &bin, "srun -G 1 -J step sh -c echo\u{a0}hi;exit\u{a0}3");
    assert_eq!(ran.code, 127, "one word for the shell: {ran:?}");
    let ran = shim(&cluster, &bin, "srun --gpus=1 --time=5 printenv SLURM_GPUS_ON_NODE");
    assert_eq!((ran.code, &*ran.out), (0, "1\n"), "{ran:?}");
}

#[test]
fn gflows_commands_work_as_before() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let bin = installed(&cluster);
    write(
        &cluster,
        "a.sh",
        "#!/bin/sh\n# GFLOW --gpus=2 --time=10\necho $GFLOW_ARRAY_TASK_ID $GPOOL_GPUS\n",
    );
    let out = shim(&cluster, &bin, "gbatch -n first ./a.sh").ok();
    assert_eq!(out, "Submitted batch job 1 (first)\n");
    let job = cluster.until_is("1", "succeeded");
    assert_eq!((job.request.gpus_text(), job.request.time_seconds()), ("2", Some(600.0)));
    assert_eq!(shim(&cluster, &bin, "gjob log 1").ok(), "0 2\n");
    let out = shim(&cluster, &bin, "gbatch -g 4 -n big sleep 1000").ok();
    assert_eq!(out, "Submitted batch job 2 (big)\n");
    cluster.until_is("2", "running");
    shim(&cluster, &bin, "gbatch -g 1 -n next -d 2 -p 5 true").ok();
    assert_eq!(cluster.job("3").request.priority_number(), -5);
    let list = shim(&cluster, &bin, "gqueue").ok();
    let lines: Vec<Vec<&str>> =
        list.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["JOBID", "NAME", "ST", "TIME", "NODES", "NODELIST(REASON)"]);
    assert_eq!((lines[1][0], lines[1][2], lines[1][5]), ("2", "R", "0,1,2,3"));
    assert_eq!((lines[2][0], lines[2][2], lines[2][5]), ("3", "PD", "(Dependency)"));
    let json = shim(&cluster, &bin, "gqueue -a -o json -j 1").json();
    assert_eq!(json["jobs"][0]["state"], "Finished");
    assert_eq!(json["jobs"][0]["id"], 1);
    assert!(shim(&cluster, &bin, "gqueue -t").ok().contains("└─3"));
    cluster.gpool(["edit", "3", "--name", "=1+1"]).ok();
    let csv = shim(&cluster, &bin, "gqueue -o csv -j 3").ok();
    assert!(csv.contains("3,'=1+1,"), "{csv}");
    assert!(shim(&cluster, &bin, "ginfo").ok().contains("allocated"));
    shim(&cluster, &bin, "gjob hold 3").ok();
    assert_eq!(cluster.job("3").state.as_str(), "held");
    shim(&cluster, &bin, "gjob release 3").ok();
    assert!(
        shim(&cluster, &bin, "gcancel --dry-run 2-3").ok().contains("Would cancel job 2 (big)")
    );
    shim(&cluster, &bin, "gcancel 2-3").ok();
    cluster.until_ended("2");
    shim(&cluster, &bin, "gctl set-gpus 0-1").ok();
    assert!(!cluster.gpu(3).allowed);
    let stats = shim(&cluster, &bin, "gstats -o json").json();
    assert_eq!((&stats["total_jobs"], &stats["completed_jobs"]), (&3.into(), &1.into()));
    assert!(shim(&cluster, &bin, "gflowd status").ok().starts_with("gpool"));
    shim(&cluster, &bin, "gbatch new one").ok();
    assert!(cluster.work().join("one.sh").is_file());
    shim(&cluster, &bin, "gbatch new one").refused(1, &["one.sh"]);
}

#[test]
fn existing_commands_are_not_replaced() {
    let cluster = Cluster::unstarted(&[]);
    let folder = cluster.path("bin");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("squeue"), "#!/bin/sh\n").unwrap();
    let install = |more: &[&str]| {
        let words = ["install-shims", "--slurm"].into_iter().chain(more.iter().copied());
        cluster.gpool(words.chain([folder.to_str().unwrap()]))
    };
    install(&[]).refused(2, &["squeue", "gpool did not create it"]);
    install(&["--force"]).refused(2, &["squeue"]);
    assert!(!folder.join("sbatch").exists(), "nothing was changed");
    std::fs::remove_file(folder.join("squeue")).unwrap();
    std::os::unix::fs::symlink("/nowhere/gpool", folder.join("squeue")).unwrap();
    install(&[]).refused(2, &["another gpool", "--force"]);
    let n_slurm = SHIMS.iter().filter(|shim| shim.family == Family::Slurm).count();
    assert_eq!(install(&["--force"]).ok().lines().count(), n_slurm);
    assert_eq!(install(&[]).ok(), "");
    assert_eq!(install(&["--remove"]).ok().lines().count(), n_slurm);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}
