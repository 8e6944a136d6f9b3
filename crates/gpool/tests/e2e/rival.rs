//! An unmanaged process uses a GPU: before a placement, between placement and launch, and beside a
//! running job.

use std::process::{Child, Command, Stdio};

use gpool_stub_nvml::Process;

use crate::harness::{Cluster, Gate, until_so};
use crate::nvml::{self, Driver};

/// A process that gpool did not start; the stub driver reports it on a GPU.
struct Rival(Child);

impl Rival {
    fn new() -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn takes(&self, driver: &mut Driver, gpu: usize) {
        let process = Process { pid: self.0.id(), memory: Some(7 << 30) };
        driver.state.devices[gpu].processes.get_or_insert_default().push(process);
        driver.write();
    }

    fn leaves(&self, driver: &mut Driver, gpu: usize) {
        let pid = self.0.id();
        driver.state.devices[gpu].processes.get_or_insert_default().retain(|it| it.pid != pid);
        driver.write();
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_rival_is_reported_and_no_more_jobs_are_placed_there() {
    let (cluster, mut driver) = nvml::cluster();
    let events = cluster.start(["events", "-n", "2"]);
    let events = std::thread::spawn(move || events.end());
    let mut rival = Rival::new();
    // The command gets only events after it has connected, so the event is provoked until it has
    // one.
    until_so("an event reports it", || {
        rival.takes(&mut driver, 1);
        cluster.until_gpu_is(1, "unmanaged");
        rival.leaves(&mut driver, 1);
        cluster.until_gpu_is(1, "free");
        events.is_finished()
    });
    let told = events.join().unwrap().ok();
    assert!(told.contains("GPU 1 of lab1: used outside gpool by sleep"), "{told}");
    rival.takes(&mut driver, 1);
    let seen = cluster.until_gpu_is(1, "unmanaged").unmanaged.swap_remove(0);
    assert_eq!((seen.pid, seen.memory), (rival.0.id(), Some(7 << 30)));
    assert_eq!(seen.name.as_deref(), Some("sleep"));
    let ids: Vec<_> = (0..3).map(|_| cluster.sh(&["--gpus", "1"], "sleep 1000")).collect();
    assert_eq!((cluster.devices_of(&ids[0]), cluster.devices_of(&ids[1])), (vec![0], vec![2]));
    assert_eq!(cluster.job(&ids[2]).state.as_str(), "pending");
    let why = cluster.why(&ids[2]);
    assert!(why.contains("sleep"), "{why}");
    assert!(rival.lives());
}

#[test]
fn a_rival_between_placement_and_launch_sends_the_job_elsewhere() {
    let (cluster, mut driver) = nvml::cluster();
    let trace = cluster.path("trace");
    let line = format!("echo $GPOOL_JOB_ID $CUDA_VISIBLE_DEVICES >> {}", trace.display());
    let mut rivals = Vec::new();
    // The last poll is up to ten seconds old, so each process is not noticed before the launch.
    for gpu in 0..2 {
        let rival = Rival::new();
        rival.takes(&mut driver, gpu);
        rivals.push(rival);
        let id = cluster.sh(&["--gpus", "1"], &line);
        let job = cluster.until_ended(&id);
        assert_eq!((job.run.exit_code, job.run.attempt), (Some(0), 1), "{job:?}");
        assert_eq!(cluster.devices_of(&id), [u32::try_from(gpu).unwrap() + 1]);
        assert_eq!(cluster.gpu_state(gpu), "unmanaged");
    }
    // The last GPU: there is no other device, so the job waits and is not launched.
    let mut last = Rival::new();
    last.takes(&mut driver, 2);
    let id = cluster.sh(&["--gpus", "1"], &line);
    cluster.until_gpu_is(2, "unmanaged");
    cluster.until_is(&id, "pending");
    let text = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    last.leaves(&mut driver, 2);
    let job = cluster.until_ended(&id);
    assert_eq!((job.run.exit_code, cluster.devices_of(&id)), (Some(0), vec![2]));
    assert_eq!(std::fs::read_to_string(&trace).unwrap().lines().count(), 3);
    assert!(rivals.iter_mut().all(Rival::lives) && last.lives());
}

#[test]
fn a_rival_beside_a_job_is_shown_and_the_job_unaffected() {
    let (mut cluster, mut driver) = nvml::cluster();
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&["--gpus", "3"], &format!("echo begun; {}; exit 5", gate.line()));
    until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
    let mut rival = Rival::new();
    rival.takes(&mut driver, 0);
    until_so("the rival is seen", || !cluster.gpu(0).unmanaged.is_empty());
    assert_eq!(cluster.gpu(0).unmanaged[0].pid, rival.0.id());
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains("sleep"), "it is shown: {table}");
    // A server that starts beside it does not harm the job either.
    cluster.kill();
    cluster.up();
    until_so("the rival is seen", || !cluster.gpu(0).unmanaged.is_empty());
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    let next = cluster.sh(&["--gpus", "3"], "exit 6");
    gate.open();
    let job = cluster.until_ended(&id);
    assert_eq!((job.run.exit_code, job.run.attempt), (Some(5), 1));
    cluster.until_gpu_is(0, "unmanaged");
    assert_eq!(cluster.job(&next).state.as_str(), "pending");
    assert!(rival.lives());
    rival.leaves(&mut driver, 0);
    assert_eq!(cluster.until_ended(&next).run.exit_code, Some(6));
}

#[test]
fn a_simulated_rival_is_like_a_real_one() {
    let cluster = Cluster::new("sim:2xH100-80G");
    cluster.gpool(["sim", "add-process", "0", "--pid", "4000001", "--user", "eve"]).ok();
    let id = cluster.sh(&["--gpus", "1"], "exit 4");
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(4));
    assert_eq!(cluster.devices_of(&id), [1]);
}
