//! Scripts with `# GPOOL` directives.

use std::path::PathBuf;

use crate::harness::{Cluster, Running};

fn script(cluster: &Cluster, name: &str, text: &str) -> PathBuf {
    let path = cluster.work().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn directives_of_a_script_are_flags() {
    let cluster = Cluster::new("sim:4xH100-80G");
    script(
        &cluster,
        "train.sh",
        "#!/bin/sh\n# GPOOL --gpus 2 --time 1h\n#GPOOL -e FROM='a script'\n# a comment\n\
         echo \"$GPOOL_GPUS $FROM $1\"\n# GPOOL --gpus 4\n",
    );
    let id = cluster.submit(["train.sh", "argument"]);
    let job = cluster.until_ended(&id);
    assert_eq!((job.name.as_str(), job.request.gpus_text()), ("train.sh", "2"));
    assert_eq!(job.request.time_seconds(), Some(3600.0));
    assert!(job.request.script.is_some());
    assert_eq!(cluster.stdout_of(&id), "2 a script argument\n");
}

#[test]
fn the_command_line_overrides_variables_and_variables_override_directives() {
    let cluster = Cluster::new("sim:4xH100-80G");
    script(&cluster, "a.sh", "#!/bin/sh\n# GPOOL --gpus 1 --time 1h --name inside\ntrue\n");
    let mut command = cluster.command();
    command.env("GPOOL_SUBMIT_GPUS", "2").env("GPOOL_SUBMIT_TIME", "2h");
    command.args(["submit", "--gpus", "3", "a.sh"]);
    let id = Running::start(&mut command, None).end().ok();
    let job = cluster.job(id.trim());
    assert_eq!((job.request.gpus_text(), job.request.time_seconds()), ("3", Some(7200.0)));
    assert_eq!(job.name, "inside");
}

#[test]
fn run_reads_the_directives_of_a_script_as_submit_does() {
    let cluster = Cluster::new("sim:4xH100-80G");
    let path = script(
        &cluster,
        "train.sh",
        "#!/bin/sh\n#SBATCH --time=30\n# GPOOL --gpus 2 --name inside\necho $GPOOL_GPUS $1\n",
    );
    // The script need not be executable: it is uploaded.
    for word in ["train.sh", "./train.sh", path.to_str().unwrap()] {
        let ran = cluster.gpool(["run", "--time", "1h", word, "argument"]);
        assert_eq!((ran.code, ran.out.as_str()), (0, "2 argument\n"), "{ran:?}");
    }
    let job = cluster.job("3");
    assert_eq!(
        (job.name.as_str(), job.request.gpus_text(), job.request.script.is_some()),
        ("inside", "2", true)
    );
    assert_eq!(job.request.time_seconds(), Some(3600.0), "the command line takes precedence");
    let mut command = cluster.command();
    command.env("GPOOL_SUBMIT_GPUS", "1").args(["run", "--detach", "./train.sh"]);
    let id = Running::start(&mut command, None).end().ok();
    let job = cluster.job(id.trim());
    assert_eq!((job.request.gpus_text(), job.request.time_seconds()), ("1", Some(1800.0)));
    script(&cluster, "wrong.sh", "#!/bin/sh\n# GPOOL --gpu 2\ntrue\n");
    cluster.gpool(["run", "./wrong.sh"]).refused(2, &["./wrong.sh:2", "--gpus"]);
}

#[test]
fn a_script_that_is_run_as_a_command_is_not_copied() {
    use std::os::unix::fs::PermissionsExt;
    let cluster = Cluster::new("sim:4xH100-80G");
    let executable = |name: &str, text: &str| {
        let path = script(&cluster, name, text);
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    executable("plain.sh", "#!/bin/sh\n# a comment\necho $0\n");
    assert_eq!(cluster.gpool(["run", "./plain.sh"]).ok(), "./plain.sh\n");
    executable("lines.sh", "#!/bin/sh\n# GPOOL --gpus 1\necho $0 $GPOOL_GPUS.\n");
    for verb in ["run", "submit"] {
        let ran = cluster.gpool([verb, "--", "./lines.sh"]);
        assert!(ran.err.contains("gpool ignores its # GPOOL"), "{ran:?}");
    }
    assert_eq!(cluster.gpool(["logs", "2"]).ok(), "./lines.sh 0.\n");
    // Slurm's srun reads no directives, and does not warn about them.
    let ran = cluster.gpool(["shim", "srun", "./lines.sh"]);
    assert!(ran.code == 0 && !ran.err.contains("not read"), "{ran:?}");
}

#[test]
fn a_script_is_stored_as_submitted() {
    let cluster = Cluster::new("none");
    let path = script(&cluster, "a.sh", "#!/bin/sh\necho before\n");
    let id = cluster.submit(["--hold", "a.sh"]);
    script(&cluster, "a.sh", "#!/bin/sh\necho after\n");
    std::fs::remove_file(path).unwrap();
    cluster.gpool(["release", &id]).ok();
    cluster.until_ended(&id);
    assert_eq!(cluster.stdout_of(&id), "before\n");
}
