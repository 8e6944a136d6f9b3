//! Totals of jobs over their nodes and tasks.

use gpool_compat::testing::{Resources, cpus_per_task, n_tasks};
use gpool_wire::gang::GangStatus;
use gpool_wire::{Job, JobCreate, PlacedOn, Quantity};

/// A job on several nodes: tasks of gpool on each, processes of its launcher, cores of each task.
fn job(nodes: u32, per_node: u32, launcher: Option<u32>, cpus: Option<f64>) -> Job {
    let gang = GangStatus {
        nodes,
        nodes_most: None,
        tasks_per_node: per_node,
        anywhere: false,
        launcher,
        tasks: Vec::new(),
    };
    let mut job = requests("h100:2", cpus);
    (job.request.mem, job.gang) = (Some(Quantity::Whole(1 << 30)), Some(gang));
    job
}

fn requests(gpus: &str, cpus: Option<f64>) -> Job {
    let (gpus, cpus) = (Some(gpus.to_owned()), cpus.map(Quantity::Decimal));
    Job { request: JobCreate { gpus, cpus, ..JobCreate::default() }, ..Job::default() }
}

fn placed(job: Job, nodes: &[&str]) -> Job {
    let placed = |node: &&str| PlacedOn {
        node: (*node).to_owned(),
        devices: vec![0, 1],
        booked: None,
        uuids: Vec::new(),
        gpus: None,
    };
    Job { placement: nodes.iter().map(placed).collect(), ..job }
}

#[test]
fn cores_and_tasks_are_of_all_nodes() {
    // sbatch -N2 --ntasks-per-node=1 -c 2
    let two = job(2, 1, Some(2), Some(2.0));
    assert_eq!((Resources::requested(&two).cpus, n_tasks(&two), cpus_per_task(&two)), (4, 2, 2));
    // sbatch -N2 --ntasks-per-node=2 -c 1
    let two = job(2, 1, Some(4), Some(2.0));
    assert_eq!((Resources::requested(&two).cpus, n_tasks(&two), cpus_per_task(&two)), (4, 4, 1));
    // Slurm counts a core for each task if none is reserved.
    let two = job(2, 1, Some(4), None);
    assert_eq!((Resources::requested(&two).cpus, cpus_per_task(&two)), (4, 1));
    let one = requests("0", Some(1.5));
    assert_eq!((Resources::requested(&one).cpus, n_tasks(&one)), (2, 1));
    assert_eq!(Resources::requested(&one).text(), "cpu=2,node=1,billing=2");
}

#[test]
fn resources_are_written_with_their_model() {
    let two = job(2, 1, Some(2), Some(2.0));
    let text = "cpu=4,mem=2G,node=2,billing=4,gres/gpu=4,gres/gpu:h100=4";
    assert_eq!(Resources::requested(&two).text(), text);
    assert_eq!(Resources::allocated(&two), None);
    let two = placed(two, &["lab1", "lab2"]);
    assert_eq!(Resources::allocated(&two).map(|held| held.text()).as_deref(), Some(text));
    let first = Resources::on_first_node(&two).map(|held| held.text());
    let text = "cpu=2,mem=1G,node=1,billing=2,gres/gpu=2,gres/gpu:h100=2";
    assert_eq!(first.as_deref(), Some(text));
}
