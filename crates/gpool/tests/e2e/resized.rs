//! Changes of the shares of running jobs.

use gpool_model::enforcement::Mechanism;

use crate::enforced::{OK, Program, compiled, line_of};
use crate::harness::{skip, until_so};
use crate::nvml::{cluster_of, cluster_with, device};

#[test]
fn a_running_share_gets_another_size() {
    if compiled().is_none() {
        return;
    }
    let (mut cluster, _driver) = cluster_of(vec![device(0)]);
    let mut program = Program::new(&cluster, "grows");
    let asks = "echo SIGUSR1 >$GPOOL_DIR/gpu-memory-signal; echo $GPOOL_GPU_MEM_FILE >file; \
                (trap 'touch told' USR1; touch traps; while :; do sleep 0.1; done) & ";
    let id = cluster.sh(&["--gpus", "0.25"], &format!("{asks}{}", line_of("grows")));
    program.ready();
    until_so("it handles the signal", || cluster.work().join("traps").exists());
    assert_eq!(program.alloc(18), OK);
    assert_ne!(program.alloc(5), OK, "a quarter of 80 GiB");
    let edited = cluster.gpool(["edit", &id, "--gpus", "0.5:0.75"]);
    assert!(edited.code == 0 && !edited.err.contains("not enforced"), "{edited:?}");
    until_so("it is told", || cluster.work().join("told").exists());
    let file = std::fs::read_to_string(cluster.work().join("file")).unwrap();
    let text = std::fs::read_to_string(file.trim()).unwrap();
    assert!(text.ends_with(&format!("{} {}\n", 40_u64 << 30, 60_u64 << 30)), "{text}");
    assert_eq!(program.alloc(30), OK);
    assert_ne!(program.alloc(15), OK, "above its limit");
    let share = cluster.gpu(0).shares.swap_remove(0);
    assert_eq!((share.memory, share.memory_limit), (40 << 30, 60 << 30));
    let words = ["only the size of its shares", "0.5:1"];
    cluster.gpool(["edit", &id, "--gpus", "1"]).refused(2, &words);
    // The size is not lost with the server.
    let n_lines = program.n_lines();
    cluster.kill();
    cluster.up();
    assert_eq!(cluster.job(&id).request.gpus_text(), "0.5:0.75");
    let mut program = Program::again(&cluster, "grows", n_lines);
    assert_ne!(program.alloc(15), OK, "its limit is as before");
    assert_eq!(program.alloc(9), OK);
}

#[test]
fn a_new_size_that_the_driver_refuses_is_reported() {
    let (cluster, mut driver) = cluster_with("615.71.09", vec![device(0)]);
    let levels = cluster.gpu(0).enforcement;
    let limits = levels.mechanisms.iter().find(|it| it.name == Mechanism::DriverLimits).unwrap();
    if let Some(why) = &limits.why_not {
        return skip(why);
    }
    let id = cluster.sh(&["--gpus", "0.25"], "exec sleep 1000");
    cluster.until_is(&id, "running");
    driver.state.errors.insert("nvmlDeviceSetMemoryLimits_v1".to_owned(), 999);
    driver.write();
    cluster.gpool(["edit", &id, "--gpus", "0.5"]).ok();
    let refused = "its new size is not enforced: can't limit its memory";
    until_so("it is reported", || cluster.gpool(["events", &id]).ok().contains(refused));
    assert!(cluster.why(&id).contains("its new size is not enforced"));
}
