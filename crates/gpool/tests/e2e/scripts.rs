//! Real-world scripts with directives of Slurm, gflow and gpool, submitted unchanged with the
//! command that they were written for. Programs that print their arguments replace the ones that
//! the scripts call.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpool_wire::Job;

use crate::harness::{Cluster, Running};

/// The programs that the scripts call.
const PROGRAMS: [&str; 17] = [
    "Rscript",
    "accelerate",
    "activate",
    "apptainer",
    "bwa",
    "conda",
    "deepspeed",
    "gmx",
    "jupyter",
    "matlab",
    "module",
    "nvidia-smi",
    "python",
    "source-activate",
    "torchrun",
    "uv",
    "wandb",
];

/// The expected result of a script: a line of the table beside the scripts.
struct Expected {
    script: String,
    name: String,
    gpus: String,
    time_limit: Option<f64>,
    memory: Option<u64>,
    cores: Option<f64>,
    output: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

fn expected(kind: &str) -> Vec<Expected> {
    let text = std::fs::read_to_string(folder().join("expected.tsv")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let rows = lines.map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    rows.filter(|row| row[0] == kind)
        .map(|row| Expected {
            script: row[1].clone(),
            name: row[2].clone(),
            gpus: row[3].clone(),
            time_limit: row[4].parse().ok(),
            memory: row[5].parse().ok(),
            cores: row[6].parse().ok(),
            output: row[7].clone(),
        })
        .collect()
}

/// A cluster with a folder of the programs and of the other schedulers' commands.
fn prepared() -> (Cluster, PathBuf) {
    let nodes = folder().join("nodes.toml");
    let cluster = Cluster::with(&["--devices", nodes.to_str().unwrap()]);
    let bin = cluster.path("bin");
    let words = ["install-shims", "--slurm", "--gflow", bin.to_str().unwrap()];
    cluster.gpool(words).ok();
    for name in PROGRAMS {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\necho \"{name} $*\"\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::create_dir(cluster.work().join("sub")).unwrap();
    (cluster, bin)
}

fn hand_in(cluster: &Cluster, bin: &Path, words: &[&str], script: &Path) -> String {
    let program =
        if words[0] == "gpool" { env!("CARGO_BIN_EXE_gpool").into() } else { bin.join(words[0]) };
    let mut command = Command::new(program);
    let of = cluster.command();
    command.env_clear().current_dir(cluster.work());
    command.envs(of.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).env("SECRET", "x");
    // Their partitions are those of other clusters.
    command.env("GPOOL_SLURM_NAMES", "any");
    command.args(&words[1..]).arg(script);
    let out = Running::start(&mut command, None).end().ok();
    let words: Vec<&str> = out.split_whitespace().collect();
    (*words.iter().find(|word| word.parse::<u64>().is_ok()).unwrap()).to_owned()
}

/// The output of a job, from its file.
fn output(cluster: &Cluster, job: &Job) -> String {
    match &job.request.stdout {
        None => cluster.stdout_of(&job.id),
        Some(path) => {
            let path = path.replace("%j", &job.id).replace("%x", &job.name);
            let path = Path::new(job.request.directory.as_deref().unwrap()).join(path);
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        }
    }
}

fn unchanged(kind: &str, words: &[&str]) {
    let (cluster, bin) = prepared();
    let expected = expected(kind);
    let files = std::fs::read_dir(folder().join(kind)).unwrap().count();
    assert_eq!(expected.len(), files, "each script is in the table");
    assert!(files >= 20, "{files} scripts");
    let ids: BTreeMap<String, Expected> = expected
        .into_iter()
        .map(|one| {
            let script = folder().join(kind).join(&one.script);
            (hand_in(&cluster, &bin, words, &script), one)
        })
        .collect();
    for (id, one) in ids {
        let job = cluster.until_ended(&id);
        let out = output(&cluster, &job);
        let script = &one.script;
        assert_eq!(job.state.as_str(), "succeeded", "{script}: {job:?}\n{out}");
        assert_eq!((&*job.name, job.request.gpus_text()), (&*one.name, &*one.gpus), "{script}");
        assert_eq!(
            (job.request.time_seconds(), job.request.mem_bytes()),
            (one.time_limit, one.memory),
            "{script}"
        );
        assert_eq!(job.request.cpu_cores(), one.cores, "{script}");
        assert!(out.contains(&one.output), "{script}: {:?} is not in {out:?}", one.output);
    }
}

#[test]
fn slurms_scripts_run_unchanged() {
    unchanged("slurm", &["sbatch"]);
}

#[test]
fn gflows_scripts_run_unchanged() {
    unchanged("gflow", &["gbatch"]);
}

#[test]
fn gpools_scripts_run_unchanged() {
    unchanged("gpool", &["gpool", "submit"]);
}

#[test]
fn gpool_submits_every_kind_of_script() {
    let (cluster, bin) = prepared();
    for (kind, script) in [("slurm", "hf_finetune.sh"), ("gflow", "limits.sh")] {
        let path = folder().join(kind).join(script);
        let id = hand_in(&cluster, &bin, &["gpool", "submit"], &path);
        assert_eq!(cluster.until_ended(&id).request.gpus_text(), "2", "{script}");
        assert_eq!(cluster.job(&id).request.compat, [kind], "{script}");
    }
    let path = folder().join("slurm/qos.sh");
    let words = ["submit", "--strict", path.to_str().unwrap()];
    cluster.gpool(words).refused(2, &["--qos"]);
}
