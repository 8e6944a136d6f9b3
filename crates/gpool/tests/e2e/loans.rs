//! Loans of GPU memory that come back: real programs in jobs, on stub drivers.

use gpool_stub_nvml::Device;

use crate::checkpoint::helpers;
use crate::enforced::{GIB, OK, OUT_OF_MEMORY, Program, compiled, line_of};
use crate::harness::{Cluster, Running, until, until_so};
use crate::nvml::{Driver, cluster_set, device};

/// A job that may use all of a device, and is guaranteed a quarter.
const BORROWS: [&str; 2] = ["--gpus", "0.25:1"];
const OWNS: [&str; 2] = ["--gpus", "0.5"];

/// A cluster with one device of 80 GiB.
fn cluster(settings: &str) -> Option<(Cluster, Driver)> {
    compiled()?;
    Some(cluster_set("580.95.05", vec![device(0)], settings))
}

/// Settings with the shortest deadline.
pub const SHORT: &str = "loan_deadline = \"6s\"\n";

/// A borrower with two loans, the second of 45 GiB; returns the second's address.
fn borrow(program: &mut Program<'_>) -> i64 {
    assert_eq!(program.alloc(20), OK);
    let loan = program.run(&format!("alloc {}", 45 * GIB));
    assert_eq!(loan[0], OK, "no job uses it");
    loan[1]
}

/// Starts the owner, and lets it ask for more than is free.
fn ask(cluster: &Cluster) -> (String, Program<'_>) {
    let (id, mut owner) = Program::start(cluster, "owner", &OWNS);
    owner.send(&format!("alloc {}", 35 * GIB));
    (id, owner)
}

/// A cluster with one device of 8 GiB: the host's memory takes what a paused job had on it.
fn small_cluster(settings: &str) -> Option<(Cluster, Driver)> {
    compiled()?;
    let small = Device { memory: Some(8 << 30), ..device(0) };
    Some(cluster_set("580.95.05", vec![small], settings))
}

const CHECKPOINT: &str = "cuCheckpointProcessCheckpoint";
pub const RESTORE: &str = "cuCheckpointProcessRestore";

/// Lets calls of this function hang, and no others.
pub fn hang(driver: &mut Driver, call: Option<&str>) {
    driver.state.hang = call.map(str::to_owned).into_iter().collect();
    driver.write();
}

/// Waits until a job's keeper has begun to `checkpoint` or `restore`.
pub fn until_begun(cluster: &Cluster, id: &str, call: &str) {
    until_so(call, || {
        let helpers = helpers(cluster.shepherd(id));
        helpers.iter().any(|(_, words)| words.contains(&format!("\"{call}\":")))
    });
}

/// A borrower that may be paused, with the address of its loan.
pub fn pausable(cluster: &Cluster) -> (String, Program<'_>, i64) {
    let flags = [BORROWS[0], BORROWS[1], "--exits", "pause,requeue"];
    let (id, mut program) = Program::start(cluster, "borrower", &flags);
    assert_eq!(program.alloc(2), OK);
    let loan = program.run(&format!("alloc {}", 3 * GIB));
    assert_eq!(loan[0], OK);
    (id, program, loan[1])
}

fn until_called(cluster: &Cluster, id: &str) {
    until_so("the loan is called back", || {
        let gpu = cluster.gpu(0);
        gpu.loans.iter().any(|loan| loan.job == id && loan.keep.is_some())
    });
}

pub fn events(cluster: &Cluster, id: &str) -> String {
    cluster.gpool(["events", id]).ok()
}

#[test]
fn the_owner_waits_until_the_borrower_frees_what_it_is_told() {
    let Some((cluster, _driver)) = cluster("loan_deadline = \"10m\"\n") else { return };
    let mut borrower = Program::new(&cluster, "borrower");
    let asks = "echo SIGUSR1 >$GPOOL_DIR/gpu-memory-signal; echo $GPOOL_GPU_MEM_FILE >file; \
                (trap 'touch told' USR1; touch traps; while :; do sleep 0.1; done) & ";
    let id = cluster.sh(&BORROWS, &format!("{asks}{}", line_of("borrower")));
    borrower.ready();
    until_so("it handles the signal", || cluster.work().join("traps").exists());
    let loan = borrow(&mut borrower);
    until_so("the loan is shown", || !cluster.gpu(0).loans.is_empty());
    let gpu = cluster.gpu(0);
    let [shown] = &gpu.loans[..] else { panic!("{:?}", gpu.loans) };
    assert_eq!((&shown.job, shown.keep), (&id, None));
    assert!(shown.memory >= 45 << 30, "{shown:?}");
    let (owner_id, mut owner) = ask(&cluster);
    until_called(&cluster, &id);
    until_so("the signal arrives", || cluster.work().join("told").exists());
    let file = std::fs::read_to_string(cluster.work().join("file")).unwrap();
    let text = std::fs::read_to_string(file.trim()).unwrap();
    let words: Vec<u64> = text.split_whitespace().skip(1).map(|it| it.parse().unwrap()).collect();
    let [request, keep] = words[..] else { panic!("{text}") };
    assert_eq!(request, 20 << 30);
    assert!((40..66).contains(&(keep >> 30)), "{text}");
    assert!(!owner.is_done(), "it waits");
    let table = cluster.gpool(["gpus"]).ok();
    assert!(table.contains(&format!("job {id} borrows 45")), "{table}");
    assert!(table.contains("called back"), "{table}");
    assert_eq!(borrower.code(&format!("free {loan}")), OK);
    assert_eq!(owner.answer()[0], OK);
    let reason = format!("job {owner_id} needs them for its own request");
    until_so("it is explained", || cluster.gpool(["why", &id]).ok().contains(&reason));
    let lent = format!("job {id} was lent");
    until_so("its owner sees it too", || events(&cluster, &owner_id).contains(&lent));
    until_so("the limit is its own again", || {
        let text = std::fs::read_to_string(file.trim()).unwrap();
        text.trim_end().ends_with(&(80_u64 << 30).to_string())
    });
    assert_eq!(cluster.gpu(0).guarantees_late, 0);
}

#[test]
fn the_loan_of_the_lower_priority_is_called_first() {
    let Some((cluster, _driver)) = cluster("loan_deadline = \"10m\"\n") else { return };
    let small = ["--gpus", "0.1:1"];
    let (low, mut first) = Program::start(&cluster, "first", &small);
    let flags = [small[0], small[1], "--priority", "10"];
    let (high, mut second) = Program::start(&cluster, "second", &flags);
    for borrower in [&mut first, &mut second] {
        assert_eq!(borrower.alloc(25), OK);
    }
    let (_, owner) = ask(&cluster);
    // Without priorities it would be that of the newer job.
    until_called(&cluster, &low);
    let gpu = cluster.gpu(0);
    let is_called = |id: &str| gpu.loans.iter().any(|it| it.job == id && it.keep.is_some());
    assert!(!is_called(&high), "{:?}", gpu.loans);
    assert!(!owner.is_done(), "it waits");
}

#[test]
fn the_newest_loan_is_called_first_also_after_a_restart() {
    let Some((mut cluster, _driver)) = cluster("loan_deadline = \"10m\"\n") else { return };
    // The newest job has the lowest ID, so that the order of IDs is not the order of starts.
    let mut newest = Program::new(&cluster, "newest");
    let flags = ["--hold", "--gpus", "0.1:1"];
    let last = cluster.sh(&flags, &line_of("newest"));
    let (_, mut first) = Program::start(&cluster, "first", &flags[1..]);
    cluster.gpool(["release", &last]).ok();
    newest.ready();
    for borrower in [&mut first, &mut newest] {
        assert_eq!(borrower.alloc(25), OK);
    }
    cluster.kill();
    cluster.up();
    let (_, owner) = ask(&cluster);
    until_called(&cluster, &last);
    let called = cluster.gpu(0).loans.into_iter().filter(|loan| loan.keep.is_some());
    assert_eq!(called.map(|loan| loan.job).collect::<Vec<_>>(), [last]);
    assert!(!owner.is_done(), "it waits");
}

#[test]
fn a_borrower_that_keeps_the_memory_is_stopped_with_the_reason() {
    let Some((cluster, _driver)) = cluster("loan_deadline = \"12s\"\n") else { return };
    // Three samples pass before it is stopped, but a call is not for this policy.
    cluster.gpool(["policy", "set", "over_limit=cancel"]).ok();
    let (id, mut borrower) = Program::start(&cluster, "borrower", &BORROWS);
    borrow(&mut borrower);
    let (owner_id, mut owner) = ask(&cluster);
    let ended = cluster.until_ended(&id);
    assert_eq!(ended.state.as_str(), "failed");
    let why = cluster.gpool(["why", &id]).ok();
    assert!(why.contains("GPU memory above its request was called back"), "{why}");
    assert_eq!(owner.answer()[0], OK);
    until_so("it is reported", || events(&cluster, &id).contains("it is stopped"));
    assert_eq!(cluster.job(&owner_id).state.as_str(), "running");
}

#[test]
fn a_borrower_that_may_be_paused_leaves_and_returns_with_its_memory() {
    let Some((cluster, _driver)) = small_cluster(SHORT) else { return };
    let (id, mut borrower, loan) = pausable(&cluster);
    assert_eq!(borrower.code(&format!("write {loan} kept")), OK);
    let (owner_id, mut owner) = Program::start(&cluster, "owner", &OWNS);
    assert_eq!(owner.alloc(3), OK);
    let paused = "it is paused until its GPU has room";
    until_so("it is reported", || events(&cluster, &id).contains(paused));
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    let lent = "another job needs the GPU memory that it borrowed";
    until_so("the queue shows it", || cluster.job(&id).run.stalled.as_deref() == Some(lent));
    assert!(cluster.gpool(["queue", "-o", "wide"]).ok().contains(lent));
    cluster.gpool(["cancel", &owner_id]).ok();
    until_so("it returns", || events(&cluster, &id).contains("is back on its GPU"));
    until_kept(&cluster, &mut borrower, "borrower", loan);
}

/// Waits until a program reads the text that it wrote there; the call waits while it is away.
pub fn until_kept(cluster: &Cluster, program: &mut Program<'_>, name: &str, address: i64) {
    program.send(&format!("read {address} 5"));
    let out = cluster.work().join(format!("out-{name}"));
    until("its content", || {
        std::fs::read_to_string(&out).ok().filter(|text| text.ends_with("0 kept\n"))
    });
}

/// Kills the server while a borrower is at a stage of its way off the device and back.
fn killed_while(stage: &str) {
    let Some((mut cluster, mut driver)) = small_cluster(SHORT) else { return };
    let (id, mut borrower, loan) = pausable(&cluster);
    assert_eq!(borrower.code(&format!("write {loan} kept")), OK);
    let n_borrower = borrower.n_lines();
    let (owner_id, mut owner) = Program::start(&cluster, "owner", &OWNS);
    let leaves = stage == "leaves";
    if leaves {
        hang(&mut driver, Some(CHECKPOINT));
    }
    owner.send(&format!("alloc {}", 3 * GIB));
    let n_owner = owner.n_lines();
    if leaves {
        until_begun(&cluster, &id, "checkpoint");
    } else {
        assert_eq!(owner.answer()[0], OK);
        let lent = "another job needs the GPU memory that it borrowed";
        until_so("it is away", || cluster.job(&id).run.stalled.as_deref() == Some(lent));
    }
    if stage == "returns" {
        hang(&mut driver, Some(RESTORE));
        cluster.gpool(["cancel", &owner_id]).ok();
        until_begun(&cluster, &id, "restore");
    }
    cluster.kill();
    hang(&mut driver, None);
    cluster.up();
    if leaves {
        assert_eq!(Program::again(&cluster, "owner", n_owner).answer()[0], OK);
    }
    if stage != "returns" {
        let lent = "another job needs the GPU memory that it borrowed";
        until_so("it is away", || cluster.job(&id).run.stalled.as_deref() == Some(lent));
        cluster.gpool(["cancel", &owner_id]).ok();
    }
    until_kept(&cluster, &mut Program::again(&cluster, "borrower", n_borrower), "borrower", loan);
    until_so("it is shown as back", || cluster.job(&id).run.stalled.is_none());
    let job = cluster.job(&id);
    assert_eq!((job.state.as_str(), job.run.attempt), ("running", 1));
}

#[test]
fn a_borrower_leaves_while_the_server_is_killed() {
    killed_while("leaves");
}

#[test]
fn a_borrower_is_away_while_the_server_is_killed() {
    killed_while("is away");
}

#[test]
fn a_borrower_returns_while_the_server_is_killed() {
    killed_while("returns");
}

#[test]
fn no_share_grows_while_another_is_restored() {
    let Some((cluster, mut driver)) = small_cluster("loan_deadline = \"10m\"\n") else { return };
    let flags = ["--gpus", "0.25", "--exits", "pause,requeue"];
    let (id, mut returns) = Program::start(&cluster, "returns", &flags);
    let kept = returns.run(&format!("alloc {GIB}"));
    assert_eq!((kept[0], returns.code(&format!("write {} kept", kept[1]))), (OK, OK));
    let (_, mut owner) = Program::start(&cluster, "owner", &["--gpus", "0.25"]);
    let (_, mut borrower) = Program::start(&cluster, "borrower", &BORROWS);
    assert_eq!(borrower.alloc(1), OK);
    cluster.gpool(["pause", &id]).ok();
    until_so("it is paused", || events(&cluster, &id).contains("run 1 is paused"));
    hang(&mut driver, Some(RESTORE));
    cluster.gpool(["resume", &id]).ok();
    until_begun(&cluster, &id, "restore");
    owner.send(&format!("alloc {GIB}"));
    // The answer to a wish for a loan comes after ten seconds.
    assert_eq!(borrower.alloc(2), OUT_OF_MEMORY, "nothing is lent meanwhile");
    assert!(!owner.is_done(), "memory within a request waits too");
    hang(&mut driver, None);
    assert_eq!(owner.answer()[0], OK);
    until_kept(&cluster, &mut returns, "returns", kept[1]);
    until_so("growth works again", || borrower.alloc(2) == OK);
}

#[test]
fn a_guarantee_that_is_late_is_reported() {
    let Some((cluster, mut driver)) = small_cluster(SHORT) else { return };
    // Longer than the deadline, but the borrower is on its way.
    driver.state.cuda.slow_ms.insert(CHECKPOINT.to_owned(), 6000);
    driver.write();
    let (id, _, _) = pausable(&cluster);
    let (owner_id, mut owner) = Program::start(&cluster, "owner", &OWNS);
    assert_eq!(owner.alloc(3), OK);
    let late = "waits for GPU memory within its request";
    until_so("it is reported", || events(&cluster, &owner_id).contains(late));
    assert_eq!(cluster.gpu(0).guarantees_late, 1);
    let log = std::fs::read_to_string(cluster.path("server.log")).unwrap();
    assert!(log.contains("a job waits for memory of its request"), "{log}");
    assert_eq!(cluster.job(&id).state.as_str(), "running", "it was not stopped on its way");
}

#[test]
fn a_call_goes_on_after_a_restart_of_the_server() {
    let Some((mut cluster, _driver)) = cluster("loan_deadline = \"10m\"\n") else { return };
    let (id, mut borrower) = Program::start(&cluster, "borrower", &BORROWS);
    let loan = borrow(&mut borrower);
    let (_, owner) = ask(&cluster);
    until_called(&cluster, &id);
    let [n_borrower, n_owner] = [borrower.n_lines(), owner.n_lines()];
    cluster.kill();
    cluster.up();
    until_called(&cluster, &id);
    let mut owner = Program::again(&cluster, "owner", n_owner);
    assert!(!owner.is_done(), "it still waits");
    let mut borrower = Program::again(&cluster, "borrower", n_borrower);
    assert_eq!(borrower.code(&format!("free {loan}")), OK);
    assert_eq!(owner.answer()[0], OK);
}

#[test]
fn a_call_ends_when_the_owner_dies() {
    let Some((cluster, _driver)) = cluster("loan_deadline = \"10m\"\n") else { return };
    let (id, mut borrower) = Program::start(&cluster, "borrower", &BORROWS);
    borrow(&mut borrower);
    let (owner_id, _) = ask(&cluster);
    until_called(&cluster, &id);
    cluster.gpool(["cancel", &owner_id]).ok();
    cluster.until_ended(&owner_id);
    until_so("nothing is called", || {
        cluster.gpu(0).loans.iter().all(|loan| loan.job == id && loan.keep.is_none())
    });
    assert_eq!(borrower.alloc(10), OK, "it may grow again");
}

#[test]
fn bad_deadlines_are_refused() {
    let cluster = Cluster::unstarted(&[]);
    let file = cluster.path("gpool.toml");
    std::fs::write(&file, "loan_deadline = \"1s\"\n").unwrap();
    let mut command = cluster.command();
    command.env("GPOOL_CONFIG", &file).arg("up");
    Running::start(&mut command, None).end().refused(2, &["loan_deadline", "from 6s to 10m"]);
    std::fs::write(&file, "node_lease = \"1s\"\n").unwrap();
    let mut command = cluster.command();
    command.env("GPOOL_CONFIG", &file).arg("up");
    Running::start(&mut command, None).end().refused(2, &["node_lease", "from 3s to 10m"]);
}
