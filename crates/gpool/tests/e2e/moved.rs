//! Paused jobs with shares that resume on another GPU, with their cap; on stub libraries of the
//! driver.

use gpool_model::enforcement::Mechanism;
use gpool_stub_nvml::{Cuda, Live, STATE_FILE};

use crate::checkpoint::{Program, Rig, gpus_of, helpers};
use crate::harness::{kill_9, skip, until, until_so};
use crate::kill::points::{By, POINTS};

const DRIVER: &str = "580.95.05";
const RESTORE: &str = "cuCheckpointProcessRestore";
const GIB: u64 = 1 << 30;
/// Half of a GPU with 8 GiB.
const SHARE: [&str; 4] = ["-g", "0.5", "--exits", "pause,requeue"];

/// A paused job with a share of GPU 0 and a text in it, and a job that has all of that GPU since.
fn displaced(rig: &Rig, flags: &[&str]) -> (Program, Program) {
    let program = rig.start_with(flags, "");
    assert_eq!(gpus_of(rig, &program.id), [0]);
    rig.pause(&program.id);
    let other = rig.start(&["-g", "1"]);
    assert_eq!(gpus_of(rig, &other.id), [0]);
    (program, other)
}

/// Runs a new process of a job, and returns the lines that it prints.
fn run_in(rig: &Rig, id: &str, line: &str) -> Vec<String> {
    let ran = rig.cluster.gpool(["exec", id, "--", "sh", "-c", line]);
    ran.ok().lines().map(str::to_owned).collect()
}

/// The results of allocations in a new process of a job, in GiB.
fn allocate(rig: &Rig, id: &str, sizes: &[u64]) -> Vec<String> {
    let program = rig.cluster.path("driver").join("program");
    let commands = sizes.iter().map(|gib| format!("alloc {}\\n", gib * GIB));
    let commands = commands.collect::<String>();
    let line = format!("printf 'init\\ncontext 0\\n{commands}' | {} dlsym", program.display());
    let lines = run_in(rig, id, &line);
    assert_eq!(lines[..2], ["0", "0"], "{lines:?}");
    let code = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    lines[2..].iter().map(code).collect()
}

fn why(rig: &Rig, id: &str) -> String {
    rig.cluster.why(id).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The UUID of the first GPU in a file for the job.
fn told(rig: &Rig, id: &str) -> String {
    let line = run_in(rig, id, "cat $GPOOL_DIR/gpu-memory").swap_remove(0);
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// The job has its text, and its cap on this GPU, whose rest a new process gets.
fn is_on(rig: &Rig, program: &mut Program, gpu: u32) {
    let id = program.id.clone();
    assert!(rig.has_text(program));
    rig.cluster.until_is(&id, "running");
    assert_eq!((gpus_of(rig, &id), rig.cluster.job(&id).run.attempt), (vec![gpu], 1));
    // It has 1 GiB, and each of its processes a context of 512 MiB.
    assert_eq!(allocate(rig, &id, &[3, 2, 1]), ["2", "0", "2"]);
    let over = format!("alloc {}", 3 * GIB);
    assert!(rig.ask(program, &over).starts_with("2 "), "with the context");
    let shown = rig.cluster.gpu(usize::try_from(gpu).unwrap());
    let share = shown.shares.iter().find(|it| it.job == id).expect("it is there");
    assert!(share.counted);
}

#[test]
fn a_paused_share_resumes_on_another_gpu_with_its_cap() {
    for flags in [&SHARE[..], &["-g", "1@4G", "--exits", "pause,requeue"]] {
        let Some(rig) = Rig::pair(DRIVER, Cuda::default()) else { return };
        let (mut program, mut other) = displaced(&rig, flags);
        let id = program.id.clone();
        rig.cluster.gpool(["resume", &id]).ok();
        is_on(&rig, &mut program, 1);
        assert_eq!(told(&rig, &id), rig.cluster.gpu(1).uuid);
        // Less than a new process of the share gets is free on the old GPU.
        assert!(rig.ask(&mut other, &format!("alloc {}", 5 * GIB)).starts_with("0 "));
        is_on(&rig, &mut program, 1);
        // A new agent finds it there.
        let mut rig = rig;
        rig.cluster.kill();
        rig.cluster.up();
        rig.cluster.until_is(&id, "running");
        is_on(&rig, &mut program, 1);
        assert!(rig.cluster.gpu(1).guests.is_empty());
        // The rest of the new GPU is for others.
        let beside = rig.start_with(&["-g", "0.5"], "");
        assert_eq!(gpus_of(&rig, &beside.id), [1]);
        // It returns in the same way.
        rig.pause(&id);
        rig.cluster.gpool(["cancel", &other.id]).ok();
        rig.cluster.until_ended(&other.id);
        rig.cluster.gpool(["cancel", &beside.id]).ok();
        rig.cluster.until_ended(&beside.id);
        let whole = [(); 2].map(|()| rig.start(&["-g", "1"]));
        let on_0 = whole.iter().find(|it| gpus_of(&rig, &it.id) == [0]).expect("one has it");
        rig.cluster.gpool(["resume", &id]).ok();
        until_so("it is explained", || why(&rig, &id).contains("also resumes on other GPUs"));
        rig.cluster.gpool(["cancel", &on_0.id]).ok();
        is_on(&rig, &mut program, 0);
    }
}

#[test]
fn a_share_that_the_driver_does_not_move_waits_for_its_own_gpu() {
    let cuda = Cuda { move_is_ignored: true, ..Cuda::default() };
    let Some(rig) = Rig::pair(DRIVER, cuda) else { return };
    let (mut program, other) = displaced(&rig, &SHARE);
    let id = program.id.clone();
    rig.cluster.gpool(["resume", &id]).ok();
    let restored = "restored its memory on the old GPU";
    until_so("it is found out", || rig.events(&id).contains(restored));
    rig.cluster.until_is(&id, "paused");
    until_so("it is explained", || why(&rig, &id).contains("own GPU 0"));
    let why = why(&rig, &id);
    assert!(why.contains("it can't resume on another GPU: driver 580.95.05"), "{why}");
    until_so("the GPU is free", || rig.cluster.gpu_state(1) == "free");
    rig.cluster.gpool(["cancel", &other.id]).ok();
    is_on(&rig, &mut program, 0);
}

#[test]
fn with_an_old_driver_a_paused_share_waits_for_its_own_gpu() {
    let Some(rig) = Rig::pair("575.57.08", Cuda::default()) else { return };
    let (mut program, other) = displaced(&rig, &SHARE);
    let id = program.id.clone();
    rig.cluster.gpool(["resume", &id]).ok();
    until_so("it is explained", || rig.cluster.why(&id).contains("580 or later"));
    rig.cluster.gpool(["cancel", &other.id]).ok();
    is_on(&rig, &mut program, 0);
}

#[test]
fn a_share_that_bypasses_its_cap_is_watched_on_the_new_gpu() {
    let Some(rig) = Rig::pair(DRIVER, Cuda::default()) else { return };
    let driver = rig.cluster.path("driver");
    let before = format!("env LD_LIBRARY_PATH={}", driver.display());
    let mut program = rig.start_with(&SHARE, &before);
    let id = program.id.clone();
    rig.pause(&id);
    let other = rig.start(&["-g", "1"]);
    rig.cluster.gpool(["resume", &id]).ok();
    assert!(rig.has_text(&mut program));
    assert_eq!((gpus_of(&rig, &other.id), gpus_of(&rig, &id)), (vec![0], vec![1]));
    assert!(rig.ask(&mut program, &format!("alloc {}", 5 * GIB)).starts_with("0 "));
    until_so("it is reported", || {
        let shares = rig.cluster.gpu(1).shares;
        shares.iter().any(|share| share.job == id && share.memory_over == Some(6 << 30))
    });
    assert_eq!(rig.cluster.gpu_state(0), "busy", "its process is on no other GPU");
}

#[test]
fn a_share_moves_though_its_keeper_and_its_server_are_killed() {
    let Some(mut rig) = Rig::pair(DRIVER, Cuda::default()) else { return };
    let (mut program, _other) = displaced(&rig, &SHARE);
    let id = program.id.clone();
    rig.edit(|state| state.hang = [RESTORE.to_owned()].into());
    rig.cluster.gpool(["resume", &id]).ok();
    until("the restore has begun", || rig.helper(&id, "restore"));
    rig.cluster.kill();
    let keepers = helpers(rig.cluster.shepherd(&id));
    let keeper = keepers.iter().find(|(_, words)| words.contains("\"plan\":")).unwrap().0;
    kill_9(keeper);
    rig.edit(|state| state.hang.clear());
    rig.cluster.up();
    is_on(&rig, &mut program, 1);
}

#[test]
fn killed_at_every_point_of_a_resume_the_share_moves_once() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    for point in POINTS.iter().filter(|point| point.by == By::Resume) {
        let Some(mut rig) = Rig::pair(DRIVER, Cuda::default()) else { return };
        let (mut program, _other) = displaced(&rig, &SHARE);
        let file = rig.cluster.path("point");
        let chosen = format!("{} 1 {}", point.name, file.display());
        rig.cluster.kill();
        let usual = rig.cluster.variables.clone();
        rig.cluster.variables.push(("GPOOL_FAILPOINT".to_owned(), chosen));
        rig.cluster.up();
        // The answer may be lost with the server.
        drop(rig.cluster.gpool(["resume", &program.id]));
        until_so(point.name, || file.with_extension("killed").exists());
        until_so(point.name, || rig.cluster.has_died());
        rig.cluster.variables = usual;
        rig.cluster.up();
        is_on(&rig, &mut program, 1);
    }
}

#[test]
fn a_released_job_returns_on_another_gpu_and_its_new_processes_find_that() {
    let Some(mut rig) = Rig::pair(DRIVER, Cuda::default()) else { return };
    rig.cluster.gpool(["policy", "set", "idle=release"]).ok();
    let notebook = ["-g", "1", "--kind", "notebook", "--idle-after", "2s"];
    let mut program = rig.start_with(&notebook, "");
    let id = program.id.clone();
    let busy = |rig: &mut Rig, percent| {
        rig.edit(|state| state.devices.iter_mut().for_each(|it| it.utilization = Some(percent)));
    };
    busy(&mut rig, 0);
    until_so("its GPU is released", || rig.cluster.job(&id).run.freed);
    busy(&mut rig, 50);
    let mut other = rig.start(&["-g", "1"]);
    assert_eq!(gpus_of(&rig, &other.id), [0]);
    assert!(rig.has_text(&mut program));
    rig.cluster.until_is(&id, "running");
    assert_eq!((gpus_of(&rig, &id), rig.cluster.job(&id).run.attempt), (vec![1], 1));
    // The old GPU has 1 GiB left.
    assert!(rig.ask(&mut other, &format!("alloc {}", 5 * GIB)).starts_with("0 "));
    assert_eq!(allocate(&rig, &id, &[4]), ["0"]);
}

#[test]
fn a_released_job_that_the_driver_does_not_move_runs_on_and_waits_for_its_own_gpu() {
    let cuda = Cuda { move_is_ignored: true, ..Cuda::default() };
    let Some(mut rig) = Rig::pair(DRIVER, cuda) else { return };
    rig.cluster.gpool(["policy", "set", "idle=release"]).ok();
    let notebook = ["-g", "1", "--kind", "notebook", "--idle-after", "2s"];
    // A process beside the one with the GPU.
    let ticks = "while sleep 0.1; do date +%N >ticks; done & exec \"$0\" \"$@\"";
    let mut program = rig.start_with(&notebook, &format!("sh -c '{ticks}'"));
    let id = program.id.clone();
    rig.edit(|state| state.devices[0].utilization = Some(0));
    until_so("its GPU is released", || rig.cluster.job(&id).run.freed);
    rig.edit(|state| state.devices[0].utilization = Some(50));
    let other = rig.start(&["-g", "1"]);
    assert_eq!(gpus_of(&rig, &other.id), [0]);
    rig.read_text(&mut program);
    until_so("it is found out", || why(&rig, &id).contains("can't resume on another GPU"));
    let file = rig.cluster.work().join("ticks");
    let before = std::fs::read_to_string(&file).unwrap();
    until_so("it runs on", || std::fs::read_to_string(&file).unwrap() != before);
    rig.cluster.gpool(["cancel", &other.id]).ok();
    assert_eq!(rig.answer(&program), "0 kept");
    assert_eq!((gpus_of(&rig, &id), rig.cluster.job(&id).run.attempt), (vec![0], 1));
}

#[test]
fn newer_drivers_cap_a_moved_share_without_the_library() {
    let Some(rig) = Rig::pair("615.71.09", Cuda::default()) else { return };
    let enforcement = rig.cluster.gpu(0).enforcement;
    let limits = enforcement.mechanisms.iter().find(|it| it.name == Mechanism::DriverLimits);
    if let Some(why) = limits.and_then(|it| it.why_not.clone()) {
        return skip(&why);
    }
    let driver = rig.cluster.path("driver");
    let before = format!("env LD_LIBRARY_PATH={}", driver.display());
    let mut program = rig.start_with(&SHARE, &before);
    let id = program.id.clone();
    let exceeds = |program: &mut Program| rig.ask(program, &format!("alloc {}", 4 * GIB));
    assert!(exceeds(&mut program).starts_with("2 "));
    rig.pause(&id);
    let other = rig.start(&["-g", "1"]);
    rig.cluster.gpool(["resume", &id]).ok();
    assert!(rig.has_text(&mut program));
    assert_eq!((gpus_of(&rig, &other.id), gpus_of(&rig, &id)), (vec![0], vec![1]));
    assert!(exceeds(&mut program).starts_with("2 "), "the new GPU has 7 GiB free");
    let live = Live::beside(&driver.join(STATE_FILE));
    let devices = live.lock().unwrap().limits().iter().map(|it| it.device).collect::<Vec<_>>();
    assert_eq!(devices, [1], "the limit on the old GPU is gone");
}

/// A limit that the driver refuses, or does not answer, keeps the job where it is: nothing would
/// cap it elsewhere.
#[test]
fn a_share_that_can_not_be_limited_elsewhere_waits_for_its_own_gpu() {
    let symbol = || "nvmlDeviceSetMemoryLimits_v1".to_owned();
    for is_silent in [false, true] {
        let Some(mut rig) = Rig::pair("615.71.09", Cuda::default()) else { return };
        let enforcement = rig.cluster.gpu(0).enforcement;
        let limits = enforcement.mechanisms.iter().find(|it| it.name == Mechanism::DriverLimits);
        if let Some(why) = limits.and_then(|it| it.why_not.clone()) {
            return skip(&why);
        }
        let (mut program, other) = displaced(&rig, &SHARE);
        let id = program.id.clone();
        rig.edit(|state| match is_silent {
            true => state.hang.extend([symbol()]),
            false => state.errors.extend([(symbol(), 999)]),
        });
        rig.cluster.gpool(["resume", &id]).ok();
        until_so("it is explained", || why(&rig, &id).contains("can't limit its memory"));
        rig.edit(|state| (state.errors, state.hang) = Default::default());
        rig.cluster.gpool(["cancel", &other.id]).ok();
        is_on(&rig, &mut program, 0);
    }
}
