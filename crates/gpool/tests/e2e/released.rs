//! Idle jobs with GPUs that the driver releases: the processes run on, and the next GPU call brings
//! the job back.

use crate::checkpoint::{Program, Rig, helpers};
use crate::harness::{kill_9, until, until_so};

const DRIVER: &str = "580.95.05";
const CHECKPOINT: &str = "cuCheckpointProcessCheckpoint";
const RESTORE: &str = "cuCheckpointProcessRestore";
const NOTEBOOK: [&str; 6] = ["-g", "1", "--kind", "notebook", "--idle-after", "2s"];

/// A rig with the policy to release the GPUs of idle jobs.
fn rig() -> Option<Rig> {
    let rig = Rig::new(DRIVER)?;
    rig.cluster.gpool(["policy", "set", "idle=release"]).ok();
    Some(rig)
}

/// A notebook that has used its GPU, and is idle from now on.
fn notebook(rig: &mut Rig) -> Program {
    notebook_with(rig, &[])
}

fn notebook_with(rig: &mut Rig, flags: &[&str]) -> Program {
    let program = rig.start_with(&[&NOTEBOOK[..], flags].concat(), "");
    rig.edit(|state| state.devices[0].utilization = Some(0));
    program
}

fn until_released(rig: &Rig, id: &str) {
    until_so("its GPU is released", || rig.cluster.job(id).run.freed);
}

/// Whether the process of a program runs, and is not stopped.
fn answers(rig: &Rig, program: &mut Program) -> bool {
    rig.ask(program, "total 0").starts_with("0 ")
}

/// The number of ledgers of a job.
fn ledgers(rig: &Rig, id: &str) -> usize {
    let folders = std::fs::read_dir(rig.cluster.path("state/ledgers")).unwrap().flatten();
    let of_job = |name: std::ffi::OsString| name.to_string_lossy().starts_with(&format!("{id}#"));
    folders.filter(|folder| of_job(folder.file_name())).count()
}

/// The device keeps no memory of jobs, and the node keeps nothing of a job.
fn is_clean(rig: &Rig, id: &str) -> bool {
    rig.cluster.gpu_state(0) == "free" && ledgers(rig, id) == 0
}

#[test]
fn an_idle_notebook_frees_its_gpu_and_returns_at_its_next_call_in_queue_order() {
    let Some(mut rig) = rig() else { return };
    let mut program = notebook(&mut rig);
    let id = program.id.clone();
    until_released(&rig, &id);
    assert!(answers(&rig, &mut program), "its process runs");
    let job = rig.cluster.job(&id);
    assert_eq!((job.state.as_str(), job.wait.reasons[0].code.as_str()), ("paused", "released"));
    for page in [rig.cluster.why(&id), rig.cluster.gpool(["show", &id]).ok()] {
        assert!(page.contains("returns at its next GPU call"), "{page}");
    }
    assert!(rig.events(&id).contains("its GPUs are released"));
    // Another job gets the whole device.
    let mut other = rig.start(&["-g", "1"]);
    assert!(rig.ask(&mut other, &format!("alloc {}", 5_u64 << 30)).starts_with("0 "));
    let urgent = rig.cluster.sh(&["-g", "1", "--priority", "500"], "sleep 2");
    let later = rig.cluster.sh(&["-g", "1", "--priority", "-500"], "true");
    rig.read_text(&mut program);
    until_so("it is reported", || rig.events(&id).contains("waits for its released GPUs"));
    assert_eq!(rig.cluster.job(&id).wait.reasons[0].code, "paused_on");
    rig.cluster.gpool(["cancel", &other.id]).ok();
    assert_eq!(rig.answer(&program), "0 kept");
    assert_eq!(rig.cluster.job(&urgent).state.as_str(), "succeeded");
    assert_eq!(rig.cluster.job(&id).run.attempt, 1);
    // It is idle again.
    rig.cluster.until_ended(&later);
    until_released(&rig, &id);
    assert!(rig.has_text(&mut program));
}

#[test]
fn a_call_during_the_release_is_answered() {
    let Some(mut rig) = rig() else { return };
    let mut program = notebook(&mut rig);
    let id = program.id.clone();
    rig.edit(|state| state.hang = [CHECKPOINT.to_owned()].into());
    until("the checkpoint has begun", || rig.helper(&id, "checkpoint"));
    let job = rig.cluster.job(&id);
    assert_eq!((job.wait.reasons[0].code.as_str(), job.run.freed), ("pausing", false));
    rig.read_text(&mut program);
    rig.edit(|state| state.hang.clear());
    assert_eq!(rig.answer(&program), "0 kept");
}

#[test]
fn queries_do_not_bring_the_gpu_back() {
    let Some(mut rig) = rig() else { return };
    rig.edit(|state| state.cuda.crash_on_sync = true);
    let mut program = notebook(&mut rig);
    let id = program.id.clone();
    until_released(&rig, &id);
    for command in ["query", "query-event"] {
        assert_eq!(rig.ask(&mut program, command), "0", "all of its work has ended");
    }
    assert!(rig.cluster.job(&id).run.freed);
    assert!(rig.has_text(&mut program), "it comes back for work");
}

#[test]
fn a_released_job_can_be_resumed_and_cancelled_by_hand() {
    let Some(mut rig) = rig() else { return };
    let mut program = notebook(&mut rig);
    let id = program.id.clone();
    until_released(&rig, &id);
    assert_eq!(ledgers(&rig, &id), 1);
    rig.cluster.gpool(["resume", &id]).ok();
    rig.cluster.until_is(&id, "running");
    assert!(rig.has_text(&mut program));
    until_released(&rig, &id);
    rig.cluster.gpool(["hold", &id]).ok();
    rig.read_text(&mut program);
    let held = || rig.cluster.job(&id).wait.reasons[0].code == "held_by_user";
    until_so("its user holds it", held);
    rig.cluster.gpool(["cancel", &id]).ok();
    assert_eq!(rig.cluster.until_ended(&id).state.as_str(), "cancelled");
    until_so("nothing is left", || is_clean(&rig, &id));
    let other = rig.start(&["-g", "1"]);
    rig.cluster.until_is(&other.id, "running");
}

#[test]
fn a_job_without_gate_keeps_its_gpu_and_says_why() {
    let Some(mut rig) = Rig::new(DRIVER) else { return };
    let driver = rig.cluster.path("driver");
    let before = format!("env LD_LIBRARY_PATH={}", driver.display());
    let mut early = rig.start_with(&NOTEBOOK, &before);
    rig.edit(|state| state.devices[0].utilization = Some(0));
    rig.cluster.gpool(["policy", "set", "idle=release"]).ok();
    let says = |id: &str, words: &str| {
        until_so(words, || {
            let why = rig.cluster.why(id);
            why.split_whitespace().collect::<Vec<_>>().join(" ").contains(words)
        });
    };
    says(&early.id, "not released: its GPU calls go through no gate");
    assert!(rig.has_text(&mut early));
    rig.cluster.gpool(["cancel", &early.id]).ok();
    rig.cluster.until_ended(&early.id);
    // One that bypasses the gate.
    let mut bypass = rig.start_with(&NOTEBOOK, &before);
    says(&bypass.id, "not released: some of its processes bypass the gate");
    assert_eq!(rig.cluster.job(&bypass.id).state.as_str(), "running");
    assert!(rig.has_text(&mut bypass));
    assert!(rig.events(&bypass.id).contains("its owner is notified"));
}

#[test]
fn a_server_that_is_killed_finds_the_job_released() {
    let Some(mut rig) = rig() else { return };
    let mut program = notebook(&mut rig);
    let id = program.id.clone();
    rig.edit(|state| state.hang = [CHECKPOINT.to_owned()].into());
    until("the checkpoint has begun", || rig.helper(&id, "checkpoint"));
    rig.cluster.kill();
    rig.edit(|state| state.hang.clear());
    rig.cluster.up();
    until_released(&rig, &id);
    // The question is lost with the agent, and the ledger keeps it.
    rig.cluster.kill();
    rig.read_text(&mut program);
    rig.edit(|state| state.hang = [RESTORE.to_owned()].into());
    rig.cluster.up();
    until("the restore has begun", || rig.helper(&id, "restore"));
    rig.cluster.kill();
    rig.edit(|state| state.hang.clear());
    rig.cluster.up();
    assert_eq!(rig.answer(&program), "0 kept");
    rig.cluster.until_is(&id, "running");
    assert_eq!(rig.cluster.job(&id).run.attempt, 1);
}

#[test]
fn a_killed_keeper_opens_the_gate() {
    let Some(mut rig) = rig() else { return };
    let mut program = notebook(&mut rig);
    let id = program.id.clone();
    rig.edit(|state| state.hang = [CHECKPOINT.to_owned()].into());
    until("the checkpoint has begun", || rig.helper(&id, "checkpoint"));
    let keeper = helpers(rig.cluster.shepherd(&id));
    let keeper = keeper.iter().find(|(_, words)| words.contains("\"plan\":")).unwrap().0;
    kill_9(keeper);
    rig.edit(|state| state.hang.clear());
    until_so("it is reported", || rig.events(&id).contains("calls the driver was killed"));
    assert!(rig.has_text(&mut program));
}

#[test]
fn a_killed_shepherd_of_a_released_job_leaves_nothing() {
    let Some(mut rig) = rig() else { return };
    let program = notebook_with(&mut rig, &["--no-requeue"]);
    let id = program.id.clone();
    until_released(&rig, &id);
    kill_9(rig.cluster.shepherd(&id));
    assert_eq!(rig.cluster.until_ended(&id).state.as_str(), "lost");
    until_so("nothing is left", || is_clean(&rig, &id));
    let mut other = rig.start(&["-g", "1"]);
    assert!(rig.ask(&mut other, &format!("alloc {}", 5_u64 << 30)).starts_with("0 "));
}
