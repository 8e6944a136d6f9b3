//! Packing, on a small cluster of our own and, if it is available, on the published one.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use gpool_sched::fragmentation::{FreePart, Mix, RolloutRule, TaskDemand, WHOLE};
use gpool_trace::openb::Cluster;
use gpool_trace::packer::{Packer, Rule};
use gpool_trace::packing::Experiment;
use gpool_trace::packing_policy::{By, Policy};

const RULES: [Rule; 4] = [
    Rule::Random,
    Rule::BestFit,
    Rule::Fgd { margin: 0 },
    Rule::Rollout(RolloutRule {
        n_sequences: 8,
        length: 8,
        length_per_gpu: 2,
        seed: 1,
        margin: 20,
    }),
];

fn ask(cpus: u64, n_gpus: u32, part: u32) -> TaskDemand {
    TaskDemand { cpus, memory: 1, n_gpus, part, models: u64::MAX }
}

fn nodes(n: usize, n_gpus: usize) -> Vec<FreePart> {
    vec![FreePart { model: 0, cpus: 64_000, memory: 1_000, free: vec![WHOLE; n_gpus] }; n]
}

fn tasks() -> Vec<TaskDemand> {
    let some = [ask(4_000, 1, WHOLE), ask(2_000, 1, 500), ask(1_000, 1, 300), ask(8_000, 0, 0)];
    let mut tasks: Vec<TaskDemand> = some.iter().copied().cycle().take(76).collect();
    tasks.extend([ask(32_000, 8, WHOLE); 4]);
    tasks
}

/// Checks for every node that its free capacity is what its tasks do not use.
fn check(packer: &Packer, tasks: &[u64], nodes: &[FreePart]) {
    let mut taken: Vec<Vec<u32>> = nodes.iter().map(|node| vec![0; node.free.len()]).collect();
    let mut cpus = vec![0; nodes.len()];
    for task in tasks {
        let placed = packer.task(*task).expect("it was placed");
        assert_eq!(placed.devices.len(), placed.ask.n_gpus as usize);
        cpus[placed.node] += placed.ask.cpus;
        for device in &placed.devices {
            taken[placed.node][*device] += placed.ask.part;
        }
    }
    assert!(taken.iter().flatten().all(|taken| *taken <= WHOLE), "{taken:?}");
    assert!(cpus.iter().zip(nodes).all(|(taken, node)| *taken <= node.cpus), "{cpus:?}");
    let all: u64 = nodes.iter().map(FreePart::gpus).sum();
    let taken: u64 = taken.iter().flatten().map(|taken| u64::from(*taken)).sum();
    assert_eq!(packer.idle(), all - taken);
}

#[test]
fn nothing_is_given_twice_and_every_task_that_fits_is_placed() {
    let (nodes, tasks) = (nodes(4, 8), tasks());
    let mix = Mix::of(&tasks, &[32_000]);
    for rule in RULES {
        let mut packer = Packer::new(&nodes, &mix, rule, 7);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut here = Vec::new();
        for no in 0..2_000 {
            if rng.u32(0..3) == 0 && !here.is_empty() {
                let gone = here.swap_remove(rng.usize(0..here.len()));
                packer.remove(gone).expect("it was there");
            } else {
                let asked = *rng.choice(&tasks).expect("there are some");
                if packer.place_or_move(no, &asked, rng.usize(0..4)).is_some() {
                    here.push(no);
                } else {
                    // It really does not fit: no other rule can place it either.
                    let mut other = packer.clone();
                    assert_eq!(other.place(no, &asked), None);
                }
            }
            check(&packer, &here, &nodes);
        }
        for task in here {
            packer.remove(task);
        }
        assert_eq!(packer.idle(), 32_000);
    }
}

fn preset(text: &str) -> By {
    text.parse::<Policy>().expect("there is such a preset").by
}

/// The real scheduler gives parts of GPUs, cores and models to as many tasks as fit, and no more.
#[test]
fn the_scheduler_itself_fills_a_cluster_to_its_last_part() {
    let mut all = nodes(2, 2);
    all[1].model = 1;
    let models = vec!["A".into(), "B".into()];
    let cluster = Cluster { nodes: all, models, names: Vec::new() };
    let (fair, mix) = (preset("fair"), Mix::of(&[ask(1_000, 1, 250)], &[2_000, 2_000]));
    let filled = |tasks: &[TaskDemand], at: f64| {
        let it = Experiment { cluster: &cluster, tasks, mix: &mix, by: &fair, seed: 1 };
        it.fill(&[at]).unwrap()[0].allocated
    };
    assert_eq!(filled(&[ask(1_000, 1, 250)], 1.0), 1.0);
    assert_eq!(filled(&[ask(1_000, 1, 250)], 1.3), 1.0);
    // Two shares of 600 do not fit one device, and the cores of each node suffice for three tasks.
    assert_eq!(filled(&[ask(1_000, 1, 600)], 1.3), 0.6);
    assert_eq!(filled(&[ask(20_000, 1, 250)], 1.3), 0.375);
    assert_eq!(filled(&[TaskDemand { models: 0b10, ..ask(1_000, 2, WHOLE) }], 1.3), 0.5);
    assert_eq!(filled(&[TaskDemand { models: 0, ..ask(1_000, 1, WHOLE) }], 1.3), 0.0);
}

#[test]
fn the_same_seed_gives_the_same_result() {
    let cluster = Cluster { nodes: nodes(4, 8), models: vec!["A".into()], names: Vec::new() };
    let tasks = tasks();
    let mix = Mix::of(&tasks, &[32_000]);
    let rules = RULES.map(By::Rule);
    for by in rules.into_iter().chain([preset("fair")]) {
        let of = |seed| {
            let it = Experiment { cluster: &cluster, tasks: &tasks, mix: &mix, by: &by, seed };
            (it.fill(&[0.5, 1.0, 1.3]).unwrap(), it.churn(0.9, 4).unwrap())
        };
        assert_eq!(of(1), of(1), "{by:?}");
        assert_ne!(of(1), of(2), "{by:?}");
    }
}

#[test]
fn the_scheduler_itself_moves_small_tasks_for_large_ones_if_it_may() {
    let cluster = Cluster { nodes: nodes(4, 8), models: vec!["A".into()], names: Vec::new() };
    let mut tasks = vec![ask(1_000, 1, WHOLE); 8];
    tasks.extend([ask(1_000, 1, 500), ask(1_000, 1, 250), ask(1_000, 8, WHOLE)]);
    let (fair, mix) = (preset("fair"), Mix::of(&tasks, &[32_000]));
    let of = |n_moves| {
        let one = |seed| {
            let it = Experiment { cluster: &cluster, tasks: &tasks, mix: &mix, by: &fair, seed };
            it.churn(0.8, n_moves).unwrap()
        };
        let all: Vec<_> = (1..=8).map(one).collect();
        let rejected: f64 = all.iter().map(|it| it.rejected_of_eight).sum();
        (rejected, all.iter().map(|it| it.n_moves).sum::<u64>())
    };
    let ((rejected, none), (rejected_less, some)) = (of(0), of(8));
    assert_eq!(none, 0);
    assert!(some > 0 && rejected_less < rejected, "{rejected} {rejected_less} {some}");
}

#[test]
fn a_small_task_moves_so_that_a_large_one_fits() {
    let nodes = nodes(2, 2);
    let mix = Mix::of(&[ask(1_000, 1, WHOLE)], &[4_000]);
    let mut packer = Packer::new(&nodes, &mix, Rule::BestFit, 1);
    let [pair, small] = [ask(1_000, 2, WHOLE), ask(1_000, 1, WHOLE)];
    // One task on each node: two are placed side by side, one ends, and another one moves.
    for task in 0..3 {
        packer.place(task, &small).expect("there is room");
    }
    packer.remove(0).expect("it is there");
    assert_eq!(packer.place(9, &pair), None);
    assert_eq!(packer.place_or_move(9, &pair, 0), None);
    let moves = packer.place_or_move(9, &pair, 1).expect("one moves");
    assert_eq!(moves.len(), 1);
    check(&packer, &[1, 2, 9], &nodes);
    // No task can move anywhere: the cluster is unchanged.
    assert_eq!(packer.place_or_move(10, &small, 3), None);
    check(&packer, &[1, 2, 9], &nodes);
}

#[test]
fn nodes_for_large_tasks_stay_empty_while_others_have_space() {
    let nodes = [nodes(1, 8), nodes(8, 2)].concat();
    let mut tasks = vec![ask(1_000, 1, WHOLE); 16];
    tasks.push(ask(8_000, 8, WHOLE));
    let mix = Mix::of(&tasks, &[24_000]);
    let mut packer = Packer::new(&nodes, &mix, RULES[3], 1);
    for task in 0..16 {
        let node = packer.place(task, &tasks[0]).expect("there is room");
        assert_ne!(node, 0, "task {task}");
    }
    // A reserve does not refuse a task if nothing else is free.
    assert_eq!(packer.place(16, &tasks[0]), Some(0));
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("the folder is ours");
    path
}

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\nn2,64000,1024,2,A\nn1,64000,1024,8,B\n";

#[test]
fn errors_in_a_file_name_its_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let read = |text: &str| Cluster::read(&file(folder.path(), "nodes.csv", text.as_bytes()));
    let cluster = read(NODES).unwrap();
    assert_eq!(
        (cluster.names, cluster.models),
        (vec!["n1".into(), "n2".into()], vec!["A".to_owned(), "B".to_owned()])
    );
    let wrong = |text: &str| {
        let said = read(text).unwrap_err().to_string();
        said.rsplit_once("nodes.csv").unwrap().1.to_owned()
    };
    assert_eq!(
        wrong("sn,cpu_milli,memory_mib,model\n"),
        ":1: there is no column \"gpu\"; the columns are sn, cpu_milli, memory_mib, model"
    );
    assert_eq!(
        wrong(&NODES.replace("n1,64000", "n1,-3")),
        ":3, column cpu_milli: \"-3\" is not thousandths of cores, a whole number"
    );
    assert_eq!(wrong(&NODES.replace(",8,B", "")), ":3, column gpu: \"\" is not a number of GPUs");
    assert!(wrong("\u{0}\u{1}").contains("there is no column"));
    let none = Cluster::read(&folder.path().join("none.csv")).unwrap_err();
    assert!(none.to_string().contains("No such file"), "{none}");
}

#[test]
fn tasks_are_read_by_the_names_of_columns_also_compressed_and_not_when_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::read(&file(folder.path(), "nodes.csv", NODES.as_bytes())).unwrap();
    let text = "gpu_milli,name,num_gpu,cpu_milli,memory_mib,gpu_spec\n\
                460,a,1,6000,12,\n1000,b,2,8000,12,B|C\n,c,0,500,1,\n";
    let plain = cluster.read_tasks(&file(folder.path(), "tasks.csv", text.as_bytes())).unwrap();
    let [a, b, c] = plain[..] else { panic!("{plain:?}") };
    assert_eq!((a.part, a.n_gpus, a.models), (460, 1, u64::MAX));
    assert_eq!((b.part, b.n_gpus, b.models), (1000, 2, 0b10));
    assert_eq!((c.gpus(), c.cpus), (0, 500));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    let bytes = encoder.finish().unwrap();
    let packed = cluster.read_tasks(&file(folder.path(), "tasks.csv.gz", &bytes)).unwrap();
    assert_eq!(packed, plain);
    let half = &bytes[..bytes.len() / 2];
    let cut = cluster.read_tasks(&file(folder.path(), "cut.csv.gz", half)).unwrap_err();
    assert!(cut.to_string().contains("cut off"), "{cut}");
    for (wrong, column) in
        [("0,a,1,1,1,", "gpu_milli"), ("500,a,2,1,1,", "gpu_milli"), ("1,a,x,1,1,", "num_gpu")]
    {
        let text = format!("gpu_milli,name,num_gpu,cpu_milli,memory_mib,gpu_spec\n{wrong}\n");
        let path = file(folder.path(), "tasks.csv", text.as_bytes());
        let said = cluster.read_tasks(&path).unwrap_err().to_string();
        assert!(said.contains(&format!(":2, column {column}: ")), "{said}");
    }
}

/// Figures from the paper, as its authors publish them: the allocated part of all GPUs when as many
/// GPUs have been requested as exist.
#[test]
fn published_figures_come_out_and_the_rollout_leaves_less_idle() {
    let Some(shared) = std::env::var_os("GPOOL_SHARED") else {
        return eprintln!("skipped: no data");
    };
    let folder = Path::new(&shared).join("traces");
    let cluster = Cluster::read(&folder.join("openb_nodes.csv")).unwrap();
    let tasks = cluster.read_tasks(&folder.join("openb_pods.csv.gz")).unwrap();
    let mix = Mix::of(&tasks, &cluster.gpus_by_model());
    assert_eq!((cluster.gpus(), mix.popular.len(), mix.gangs.len()), (6_212_000, 35, 13));
    let mean = |policy: &str, at: f64| {
        let by = policy.parse::<Policy>().unwrap().by;
        let of = |seed| {
            let it = Experiment { cluster: &cluster, tasks: &tasks, mix: &mix, by: &by, seed };
            it.fill(&[at]).unwrap()[0].allocated
        };
        (1..=3).map(of).sum::<f64>() / 3.0
    };
    let is_near = |value: f64, published: f64| (value - published).abs() < 0.003;
    let fgd = mean("fgd", 1.0);
    assert!(is_near(fgd, 0.9523), "{fgd}");
    assert!(is_near(mean("best-fit", 1.0), 0.9286));
    assert!(is_near(mean("fgd", 0.9), 0.8998));
    let ours = mean("rollout", 1.0);
    assert!(1.0 - ours < 0.85 * (1.0 - fgd), "{ours} {fgd}");
}
