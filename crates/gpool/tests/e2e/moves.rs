//! Shares that move between GPUs of a real driver: for loans, and for a job that needs a whole GPU.

use gpool_stub_nvml::{Cuda, Device};

use crate::enforced::{GIB, OK, Program, compiled};
use crate::harness::{Cluster, until_so};
use crate::loans::{RESTORE, events, hang, pausable, until_begun, until_kept};
use crate::nvml::{Driver, cluster_set, device};
use crate::spread::places;

const SETTINGS: &str = "loan_deadline = \"12s\"\n";

/// A cluster with two devices of 8 GiB.
fn pair(version: &str, cuda: Cuda) -> Option<(Cluster, Driver)> {
    compiled()?;
    let small = |ix| Device { memory: Some(8 << 30), ..device(ix) };
    let (cluster, mut driver) = cluster_set(version, vec![small(0), small(1)], SETTINGS);
    driver.state.cuda = cuda;
    driver.write();
    until_so("the devices are known", || cluster.gpu_state(1) == "free");
    Some((cluster, driver))
}

/// A borrower and an owner on the first of two GPUs; the second one is free. The text is in the
/// borrower's memory. The number is its address.
fn borrows(cluster: &Cluster) -> ([String; 2], [Program<'_>; 2], i64) {
    let (borrower, mut program, loan) = pausable(cluster);
    assert_eq!(program.code(&format!("write {loan} kept")), OK);
    let filler = cluster.sh(&["--gpus", "1"], "exec sleep 1000");
    cluster.until_is(&filler, "running");
    assert_eq!(places(cluster, &filler), (vec![1], None));
    let (owner, other) = Program::start(cluster, "owner", &["--gpus", "0.5"]);
    assert_eq!(places(cluster, &owner), (vec![0], None));
    cluster.gpool(["cancel", &filler]).ok();
    cluster.until_ended(&filler);
    until_so("the GPU is free", || cluster.gpu_state(1) == "free");
    ([borrower, owner], [program, other], loan)
}

const PAUSED: &str = "it is paused until its GPU has room";

#[test]
fn a_borrower_moves_to_a_gpu_with_room() {
    let Some((cluster, _driver)) = pair("580.95.05", Cuda::default()) else { return };
    let ([id, owner_id], [mut borrower, mut owner], loan) = borrows(&cluster);
    assert_eq!(owner.alloc(3), OK);
    until_kept(&cluster, &mut borrower, "borrower", loan);
    until_so("it is shown there", || places(&cluster, &id) == (vec![1], Some(vec![0])));
    let moved = format!("job {owner_id} needs the GPU memory that it borrowed");
    until_so("it is explained", || cluster.gpool(["why", &id]).ok().contains(&moved));
    assert!(events(&cluster, &id).contains("moved from GPU 0 to GPU 1 in "));
    assert!(events(&cluster, &owner_id).contains(&format!("job {id} moved from GPU 0")));
    assert!(!events(&cluster, &id).contains(PAUSED));
    let job = cluster.job(&id);
    assert_eq!((job.state.as_str(), job.run.attempt), ("running", 1));
    // The books show a free GPU, and there is room to grow.
    assert_eq!(cluster.gpu_state(1), "free");
    assert_eq!(borrower.alloc(1), OK);
    let places = cluster.gpu(0).shares.into_iter().map(|it| (it.job, it.can_move, it.used));
    assert_eq!(places.collect::<Vec<_>>(), [(id, true, Some(1)), (owner_id, true, None)]);
}

#[test]
fn a_borrower_that_the_driver_does_not_move_is_paused() {
    let cuda = Cuda { move_is_ignored: true, ..Cuda::default() };
    let Some((cluster, _driver)) = pair("580.95.05", cuda) else { return };
    let ([id, owner_id], [mut borrower, mut owner], loan) = borrows(&cluster);
    assert_eq!(owner.alloc(3), OK);
    until_so("it is paused", || events(&cluster, &id).contains(PAUSED));
    assert!(events(&cluster, &id).contains("could not move from GPU 0 to GPU 1 and goes back"));
    cluster.gpool(["cancel", &owner_id]).ok();
    until_kept(&cluster, &mut borrower, "borrower", loan);
    assert_eq!(places(&cluster, &id), (vec![0], None));
}

#[test]
fn a_borrower_is_paused_where_the_driver_can_not_move_it() {
    let Some((cluster, _driver)) = pair("575.57.08", Cuda::default()) else { return };
    let ([id, owner_id], [mut borrower, mut owner], loan) = borrows(&cluster);
    assert_eq!(owner.alloc(3), OK);
    until_so("it is paused", || events(&cluster, &id).contains(PAUSED));
    assert!(!events(&cluster, &id).contains("GPU 1"));
    let share = cluster.gpu(0).shares.remove(0);
    let why = share.stays_why.expect("the driver moves nothing");
    assert!(!share.can_move && why.contains("575.57.08"), "{why}");
    cluster.gpool(["cancel", &owner_id]).ok();
    until_kept(&cluster, &mut borrower, "borrower", loan);
}

#[test]
fn a_borrower_moves_while_the_server_is_killed() {
    let Some((mut cluster, mut driver)) = pair("580.95.05", Cuda::default()) else { return };
    let ([id, _], [borrower, mut owner], loan) = borrows(&cluster);
    let n_borrower = borrower.n_lines();
    hang(&mut driver, Some(RESTORE));
    owner.send(&format!("alloc {}", 3 * GIB));
    let n_owner = owner.n_lines();
    until_begun(&cluster, &id, "restore");
    cluster.kill();
    hang(&mut driver, None);
    cluster.up();
    until_kept(&cluster, &mut Program::again(&cluster, "borrower", n_borrower), "borrower", loan);
    assert_eq!(Program::again(&cluster, "owner", n_owner).answer()[0], OK);
    until_so("it is there", || places(&cluster, &id) == (vec![1], Some(vec![0])));
    let job = cluster.job(&id);
    assert_eq!((job.state.as_str(), job.run.attempt), ("running", 1));
}

/// A notebook with 5 GiB, of which it is guaranteed 4 GiB. The numbers are the addresses of a text
/// and of 3 GiB.
fn notebook<'a>(cluster: &'a Cluster, name: &'static str) -> (String, Program<'a>, [i64; 2]) {
    let (id, mut program) = Program::start(cluster, name, &["--gpus", "0.5:1"]);
    let kept = program.run(&format!("alloc {}", 2 * GIB));
    assert_eq!((kept[0], program.code(&format!("write {} kept", kept[1]))), (OK, OK));
    let burst = program.run(&format!("alloc {}", 3 * GIB));
    assert_eq!(burst[0], OK);
    (id, program, [kept[1], burst[1]])
}

fn until_called_on(cluster: &Cluster, gpu: usize, id: &str) {
    until_so("its burst is called back", || {
        let gpu = cluster.gpu(gpu);
        gpu.loans.iter().any(|loan| loan.job == id && loan.keep.is_some())
    });
}

#[test]
fn two_notebooks_burst_on_real_gpus_until_a_job_needs_one() {
    let Some((cluster, _driver)) = pair("580.95.05", Cuda::default()) else { return };
    let (first, mut stays, [_, burst]) = notebook(&cluster, "first");
    let (second, mut moves, [kept, other_burst]) = notebook(&cluster, "second");
    until_so("it is a guest", || places(&cluster, &second) == (vec![1], Some(vec![0])));
    assert_eq!(cluster.gpu_state(1), "free");
    let third = cluster.sh(&["--gpus", "1"], "exec sleep 1000");
    until_called_on(&cluster, 1, &second);
    assert_eq!(moves.code(&format!("free {other_burst}")), OK);
    // Two must fit on the other GPU.
    until_called_on(&cluster, 0, &first);
    assert_eq!(stays.code(&format!("free {burst}")), OK);
    cluster.until_is(&third, "running");
    until_kept(&cluster, &mut moves, "second", kept);
    assert_eq!(places(&cluster, &third), (vec![1], None));
    until_so("it has moved", || places(&cluster, &second) == (vec![0], None));
    let room = format!("to make room for job {third}");
    until_so("it is explained", || cluster.gpool(["why", &second]).ok().contains(&room));
    for id in [&first, &second] {
        assert_eq!(cluster.job(id).run.attempt, 1, "it was not restarted");
    }
}

#[test]
fn a_gpu_with_a_guest_that_the_driver_does_not_move_is_given_to_no_job() {
    let cuda = Cuda { move_is_ignored: true, ..Cuda::default() };
    let Some((cluster, _driver)) = pair("580.95.05", cuda) else { return };
    let flags = ["--gpus", "0.5:1"];
    let (_, _first) = Program::start(&cluster, "first", &flags);
    let (second, mut program) = Program::start(&cluster, "second", &flags);
    let kept = program.run(&format!("alloc {GIB}"));
    assert_eq!((kept[0], program.code(&format!("write {} kept", kept[1]))), (OK, OK));
    until_so("it is a guest", || places(&cluster, &second) == (vec![1], Some(vec![0])));
    let third = cluster.sh(&["--gpus", "1"], "true");
    let stays = "could not move from GPU 1 to GPU 0 and goes back";
    until_so("it stays", || events(&cluster, &second).contains(stays));
    until_kept(&cluster, &mut program, "second", kept[1]);
    until_so("it waits", || cluster.job(&third).state.as_str() == "pending");
    until_so("the GPU is not free", || cluster.gpu_state(1) != "free");
    cluster.gpool(["cancel", &second]).ok();
    cluster.until_ended(&third);
}
