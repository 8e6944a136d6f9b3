//! Paused jobs with the memory of a GPU that fails, or that the driver does not restore; on stub
//! libraries of the driver.

use gpool_stub_nvml::Cuda;

use crate::checkpoint::{PAUSABLE, Rig, gpus_of};
use crate::harness::until_so;

#[test]
fn a_paused_job_leaves_a_lost_gpu() {
    let Some(mut rig) = Rig::pair("580.95.05", Cuda::default()) else { return };
    let mut program = rig.start(&PAUSABLE);
    let id = program.id.clone();
    assert_eq!(gpus_of(&rig, &id), [0]);
    rig.pause(&id);
    rig.edit(|state| state.devices[0].lost = true);
    until_so("the GPU is lost", || rig.cluster.gpu_state(0) == "lost");
    rig.cluster.gpool(["resume", &id]).ok();
    assert!(rig.has_text(&mut program));
    assert_eq!((gpus_of(&rig, &id), rig.cluster.job(&id).run.attempt), (vec![1], 1));
}

#[test]
fn a_paused_job_that_can_not_leave_a_lost_gpu_says_so_and_can_run_again() {
    let Some(mut rig) = Rig::pair("575.57.08", Cuda::default()) else { return };
    let program = rig.start(&PAUSABLE);
    let id = program.id.clone();
    rig.pause(&id);
    rig.edit(|state| state.devices[0].lost = true);
    until_so("the GPU is lost", || rig.cluster.gpu_state(0) == "lost");
    rig.cluster.gpool(["resume", &id]).ok();
    let words = || rig.cluster.why(&id).split_whitespace().collect::<Vec<_>>().join(" ");
    until_so("it is explained", || words().contains("GPU 0 of lab1 to continue, out of service"));
    let why = words();
    assert!(why.contains("580 or later") && why.contains(&format!("gpool requeue {id}")), "{why}");
    rig.cluster.gpool(["requeue", "--yes", &id]).ok();
    until_so("it runs again", || rig.cluster.job(&id).run.attempt == 2);
    rig.cluster.until_is(&id, "running");
    assert_eq!(gpus_of(&rig, &id), [1]);
}

#[test]
fn a_refused_restore_ends_the_job_and_frees_its_gpu() {
    const OPERATING_SYSTEM: u32 = 304;
    let Some(mut rig) = Rig::new("580.95.05") else { return };
    let program = rig.start(&PAUSABLE);
    let id = program.id.clone();
    rig.pause(&id);
    rig.edit(|state| {
        state.errors.insert("cuCheckpointProcessRestore".to_owned(), OPERATING_SYSTEM);
    });
    rig.cluster.gpool(["resume", &id]).ok();
    rig.cluster.until_ended(&id);
    let job = rig.cluster.job(&id);
    assert_eq!(job.run.cause.as_deref(), Some("gpu_memory_lost"), "{job:?}");
    until_so("the GPU is free", || rig.cluster.gpu_state(0) == "free");
    let why = rig.cluster.why(&id);
    assert!(why.contains(&format!("gpool retry {id}")), "{why}");
    rig.edit(|state| state.errors.clear());
    let next = rig.start(&PAUSABLE);
    rig.cluster.until_is(&next.id, "running");
}
