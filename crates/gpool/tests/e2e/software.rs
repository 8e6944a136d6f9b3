//! Software environments of jobs, and setup jobs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::harness::Cluster;

fn program(path: &Path, line: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn make_venv(folder: &Path) {
    program(&folder.join("bin/my-python"), "echo \"venv $VIRTUAL_ENV\"");
    fs::write(folder.join("pyvenv.cfg"), "").unwrap();
}

#[test]
fn an_environment_is_active_in_the_job() {
    let cluster = Cluster::new("none");
    let (venv, conda) = (cluster.work().join(".venv"), cluster.path("home/miniconda3"));
    make_venv(&venv);
    let run =
        |flags: &[&str], program: &str| cluster.gpool([&["run"], flags, &["--", program]].concat());
    let expected = format!("venv {}\n", venv.display());
    assert_eq!(run(&["--venv", ".venv"], "my-python").ok(), expected);
    fs::write(cluster.work().join("pyproject.toml"), "").unwrap();
    assert_eq!(run(&["--uv"], "my-python").ok(), expected);
    let torch = conda.join("envs/torch");
    fs::create_dir_all(torch.join("conda-meta")).unwrap();
    program(&torch.join("bin/my-conda"), "echo \"conda $CONDA_DEFAULT_ENV $OF_A_PACKAGE\"");
    program(&torch.join("etc/conda/activate.d/x.sh"), "export OF_A_PACKAGE=1");
    assert_eq!(run(&["--conda", "torch"], "my-conda").ok(), "conda torch 1\n");
    run(&["--conda", "touch"], "x").refused(2, &["GP0252", "--conda torch"]);
    run(&["--conda", "torch", "--uv"], "x").refused(2, &["only one of"]);
    run(&["--venv", "nowhere"], "x").refused(2, &["GP0252", "--venv .venv"]);
}

#[test]
fn a_file_of_variables_is_read_as_docker_reads_it() {
    let cluster = Cluster::new("none");
    let file = cluster.work().join("vars");
    fs::write(&file, "# a remark\nA=\"1\" 2\nB=file\nHOME\n").unwrap();
    let line = "echo \"$A|$B|$HOME\"";
    let ran =
        cluster.gpool(["run", "--env-file", "vars", "-e", "B=flag", "--", "sh", "-c", line]).ok();
    assert_eq!(ran, format!("\"1\" 2|flag|{}\n", cluster.path("home").display()));
    fs::write(&file, "A=1\nexport B=2\n").unwrap();
    let refused = cluster.gpool(["submit", "--env-file", "vars", "--", "true"]);
    refused.refused(2, &["GP0251", "line 2", "without export"]);
}

#[test]
fn modules_are_loaded_where_the_job_starts() {
    let cluster = Cluster::new("none");
    let home = cluster.path("home/modules");
    program(&home.join("init/sh"), "module() { export LOADED=\"$LOADED$2 \"; [ \"$2\" != bad ]; }");
    let run = |names: &str| {
        let mut command = cluster.command();
        command.env("MODULESHOME", &home);
        command.args(["run", "--module", names, "--", "sh", "-c", "echo $LOADED"]);
        crate::harness::Running::start(&mut command, None).end()
    };
    assert_eq!(run("cuda/12.4,gcc").ok(), "cuda/12.4 gcc\n");
    assert_eq!(run("bad").code, 1);
}

#[test]
fn a_job_with_a_missing_environment_is_held_until_it_is_back() {
    let cluster = Cluster::new("none");
    let venv = cluster.work().join("env");
    make_venv(&venv);
    let id = cluster.submit(["--hold", "--venv", "env", "--", "my-python"]);
    fs::rename(&venv, cluster.work().join("elsewhere")).unwrap();
    cluster.gpool(["release", &id]).ok();
    let job = cluster.until_is(&id, "held");
    let reason = &job.wait.reasons[0];
    assert_eq!(reason.code, "node_lacks");
    assert_eq!(reason.facts["path"], venv.to_str().unwrap());
    assert_eq!(job.run.started_at, None);
    fs::rename(cluster.work().join("elsewhere"), &venv).unwrap();
    cluster.gpool(["release", &id]).ok();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.stdout_of(&id), format!("venv {}\n", venv.display()));
}

#[test]
fn a_setup_runs_first_without_gpus_and_its_failure_ends_the_job() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let setup = "echo \"prepares ${CUDA_VISIBLE_DEVICES:-nothing}\"; touch made";
    let line = "test -e made && echo works";
    let ran = cluster.gpool(["run", "--gpus", "2", "--setup", setup, "--", "sh", "-c", line]);
    assert_eq!((&*ran.out, ran.code), ("works\n", 0), "{ran:?}");
    assert!(ran.err.contains("prepares nothing"), "{ran:?}");
    let ran = cluster.gpool(["run", "-J", "m", "--setup", "exit 3", "--", "touch", "never"]);
    assert_eq!(ran.code, 125, "{ran:?}");
    assert!(ran.err.contains("its setup, job 3,") && ran.err.contains("gpool logs 3"), "{ran:?}");
    assert_eq!(cluster.job("3").name, "m:setup");
    assert!(!cluster.work().join("never").exists());
    assert_eq!(cluster.job("4").run.cause.as_deref(), Some("setup_failed"));
}
