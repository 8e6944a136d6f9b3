//! Kills at every point of a move: the agent is killed before and after it orders a guest to leave
//! its device and to come to another, and the shepherd before it answers.

use super::points::{By, POINTS, armed};
use crate::harness::{Cluster, skip, until_so};
use crate::spread::{notebooks, places};

#[test]
fn killed_during_a_move_the_job_still_gets_the_device() {
    if !cfg!(feature = "failpoints") {
        return skip("built without failpoints");
    }
    for point in POINTS.iter().filter(|point| point.by == By::Move) {
        let mut cluster = Cluster::unstarted(&["--devices", "sim:2xH100-80G"]);
        let killed = armed(&mut cluster, point, 1, "point");
        cluster.launch();
        cluster.until_ready();
        let [first, second] = notebooks(&cluster);
        let line = "echo $CUDA_VISIBLE_DEVICES; exec sleep 1000";
        // The answer may be lost with the server.
        drop(cluster.gpool(["submit", "--gpus", "1", "--", "sh", "-c", line]));
        until_so(point.name, || killed.exists());
        let is_shepherd = point.name.starts_with("shepherd");
        if !is_shepherd {
            until_so(point.name, || cluster.has_died());
            cluster.variables.clear();
            cluster.up();
        }
        let mut ids = cluster.all_ids().into_iter();
        let whole = ids.find(|id| ![&first, &second].contains(&id)).expect("it was stored");
        cluster.until_is(&whole, "running");
        until_so("it has started", || cluster.stdout_of(&whole).ends_with('\n'));
        assert_eq!(cluster.stdout_of(&whole).trim(), cluster.gpu(1).uuid, "{}", point.name);
        if is_shepherd {
            cluster.until_ended(&second);
        } else {
            until_so("the notebook has moved", || places(&cluster, &second) == (vec![0], None));
        }
        assert!(cluster.gpu(1).guests.is_empty(), "{}", point.name);
        let stay = if is_shepherd { vec![&first] } else { vec![&first, &second] };
        for id in stay {
            let job = cluster.until_is(id, "running");
            assert_eq!(job.run.attempt, 1, "{}: job {id} was not restarted", point.name);
            assert_eq!(places(&cluster, id), (vec![0], None), "{}", point.name);
        }
    }
}
