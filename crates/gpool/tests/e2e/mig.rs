//! MIG instances that an admin creates and destroys while the server runs. The driver's library is
//! a stub with the profiles of a real device.

use gpool_stub_nvml::{Device, Event, MigProfile, Process, STATE_FILE, State};
use gpool_wire::{MigProfile as Shown, MigRequest};

use crate::harness::{Cluster, Gate, until_so};
use crate::nvml::{Driver, XID, cluster_of, device};

/// A GPU with MIG mode, and one without.
fn cluster() -> (Cluster, Driver) {
    let divided = Device { mig: Some(true), mig_profiles: MigProfile::of_a100(), ..device(0) };
    cluster_of(vec![divided, Device { mig: Some(false), ..device(1) }])
}

/// Changes the driver's state; the driver has written it too.
fn edit(cluster: &Cluster, change: impl FnOnce(&mut State)) {
    let file = cluster.path("driver").join(STATE_FILE);
    let mut state = State::read(&file).unwrap();
    change(&mut state);
    state.write(&file).unwrap();
}

fn shown(cluster: &Cluster, profile: &str) -> Shown {
    let all = cluster.client().mig(&MigRequest::default()).unwrap().profiles;
    all.into_iter().find(|it| it.profile == profile).unwrap()
}

#[test]
fn an_instance_is_created_used_and_destroyed() {
    let (cluster, _driver) = cluster();
    let out = cluster.gpool(["mig", "create", "0", "3g.40gb"]);
    assert_eq!(out.err, "GPU 0: 3g.40gb created as 1000\n");
    cluster.gpool(["mig", "create", "lab1:0", "1g.10gb"]).ok();
    let id = cluster.sh(&["--gpus", "3g.40gb"], "echo $CUDA_VISIBLE_DEVICES; sleep 1000");
    cluster.until_is(&id, "running");
    assert_eq!(cluster.devices_of(&id), [1000]);
    until_so("it shows its instance", || cluster.stdout_of(&id).starts_with("MIG-"));
    let out = cluster.gpool(["mig"]).ok();
    let line = out.lines().find(|line| line.contains(" 3g.40gb ")).unwrap();
    assert!(line.contains("0 of 2") && line.ends_with(&format!("1000 busy (job {id})")), "{out}");
    let small = shown(&cluster, "1g.10gb");
    assert_eq!((small.n_free, small.instances[0].index), (2, Some(1001)));
    // The other instance can be destroyed while the job runs.
    cluster.gpool(["mig", "destroy", "1000"]).refused(7, &["GP0737", &format!("job {id} of")]);
    cluster.gpool(["mig", "destroy", "1001"]).ok();
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
    let out = cluster.gpool(["mig", "destroy", "lab1:1000"]);
    assert_eq!(out.err, "instance lab1:1000 destroyed\n");
    until_so("the instances are gone", || {
        cluster.client().gpus().unwrap().items.iter().all(|gpu| gpu.index < 1000)
    });
    assert_eq!(shown(&cluster, "7g.80gb").n_free, 1);
}

#[test]
fn a_job_on_an_instance_names_the_errors_of_the_gpu() {
    let divided = Device {
        mig: Some(true),
        mig_profiles: MigProfile::of_a100(),
        events: Some(Vec::new()),
        ..device(0)
    };
    let (cluster, _driver) = cluster_of(vec![divided]);
    cluster.gpool(["mig", "create", "0", "3g.40gb"]).ok();
    let gate = Gate::new(&cluster, "gate");
    let line = format!("echo begun; {}; exit 5", gate.line());
    let id = cluster.sh(&["--gpus", "3g.40gb"], &line);
    until_so("it has begun", || cluster.stdout_of(&id) == "begun\n");
    edit(&cluster, |state| {
        state.devices[0].events = Some(vec![Event { kind: XID, data: 13 }]);
    });
    gate.open();
    let xids = cluster.until_ended(&id).run.xids;
    let seen: Vec<_> = xids.iter().map(|it| (it.index, it.xid, it.count)).collect();
    assert_eq!(seen, [(0, 13, 1)]);
}

#[test]
fn an_instance_with_a_process_of_another_program_stays() {
    let (cluster, _driver) = cluster();
    cluster.gpool(["mig", "create", "0", "2g.20gb"]).ok();
    let pid = std::process::id();
    edit(&cluster, |state| {
        state.devices[0].instances[0].processes = vec![Process { pid, memory: None }];
    });
    let refused = cluster.gpool(["mig", "destroy", "1000"]);
    refused.refused(7, &["GP0737", &format!("process {pid}")]);
    edit(&cluster, |state| state.devices[0].instances[0].processes.clear());
    cluster.gpool(["mig", "destroy", "1000"]).ok();
}

#[test]
fn requests_that_cannot_be_met_change_nothing() {
    let (cluster, _driver) = cluster();
    for (words, code, said) in [
        (&["create", "1", "1g.10gb"][..], 7, "MIG mode is off"),
        (&["create", "0", "1g.5gb"], 7, "there are 1g.10gb"),
        (&["create", "7", "1g.10gb"], 6, "no GPU"),
        (&["create", "lab2:0", "1g.10gb"], 6, "no GPU"),
        (&["destroy", "1000"], 6, "no GPU"),
        (&["destroy", "1"], 7, "is not a MIG instance"),
        (&["list", "lab2"], 6, "lab2"),
        (&["plan", "--pool", "nope"], 6, "the pools are: default"),
    ] {
        cluster.gpool([&["mig"], words].concat()).refused(code, &[said]);
    }
    cluster.gpool(["mig", "create", "0", "4g.40gb"]).ok();
    cluster.gpool(["mig", "create", "0", "7g.80gb"]).refused(7, &["room for 1g.10gb"]);
    assert_eq!(shown(&cluster, "4g.40gb").instances.len(), 1);
    assert_eq!(shown(&cluster, "7g.80gb").instances.len(), 0);
}

#[test]
fn instances_follow_the_demand_where_a_pool_says_so() {
    let tables = [
        (MigProfile::of_a100(), ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"]),
        (MigProfile::of_h100(), ["4g.40gb", "2g.20gb", "1g.20gb", "7g.80gb"]),
        (MigProfile::of_h200(), ["1g.18gb", "2g.35gb", "3g.71gb", "7g.141gb"]),
    ];
    for (mig_profiles, [small, medium, large, whole]) in tables {
        let (cluster, _driver) =
            cluster_of(vec![Device { mig: Some(true), mig_profiles, ..device(0) }]);
        let refused = cluster.gpool(["submit", "--gpus", small, "--", "true"]);
        assert_eq!(refused.code, 4, "{refused:?}");
        cluster.gpool(["pool", "set", "default", "--mig-auto"]).ok();
        let many = format!("{whole}:2");
        let refused = cluster.gpool(["submit", "--gpus", &many, "--", "true"]);
        refused.refused(4, &["the cluster has 1"]);
        let jobs = [small, medium, large].map(|profile| {
            let id = cluster.sh(&["--gpus", profile], "sleep 1000");
            cluster.until_is(&id, "running");
            id
        });
        let last = cluster.submit(["--gpus", whole, "--", "true"]);
        let why = cluster.why(&last);
        assert!(why.contains(&format!("No node has 1 × {whole}")), "{why}");
        assert!(!why.contains("--mig-auto"), "it is set already: {why}");
        cluster.gpool(["cancel", &jobs[0], &jobs[1]]).ok();
        cluster.until_ended(&jobs[1]);
        // The instance in use keeps the device from being divided for the last one.
        let plan = cluster.gpool(["mig", "plan", "--json"]).json();
        assert_eq!(plan["items"].as_array().map(Vec::len), Some(0), "{plan}");
        assert_eq!(cluster.job(&last).state.as_str(), "pending");
        cluster.gpool(["cancel", &jobs[2]]).ok();
        assert_eq!(cluster.until_ended(&last).state.as_str(), "succeeded");
        let shown = cluster.gpool(["mig"]).ok();
        assert_eq!(shown.matches(" free").count(), 1, "only the last one is left: {shown}");
        assert_eq!(cluster.client().mig_plan(None).unwrap().items, []);
    }
}

#[test]
fn a_plan_is_shown_before_it_is_carried_out() {
    let (cluster, _driver) = cluster();
    cluster.gpool(["mig", "create", "0", "4g.40gb"]).ok();
    let flags = ["--gpus", "7g.80gb", "--allow-unsatisfiable", "--", "true"];
    let id = cluster.submit(flags);
    let why = cluster.why(&id);
    assert!(why.contains("gpool mig create") && why.contains("--mig-auto"), "{why}");
    assert_eq!(cluster.gpool(["mig", "plan", "--json"]).json()["items"], serde_json::json!([]));
    let plan = cluster.gpool(["mig", "plan", "--pool", "default"]).ok();
    let lines: Vec<Vec<&str>> =
        plan.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["lab1", "0", "destroy", "4g.40gb", "1000", &id], "{plan}");
    assert_eq!(lines[2][..4], ["lab1", "0", "create", "7g.80gb"], "{plan}");
    assert_eq!(shown(&cluster, "4g.40gb").instances.len(), 1);
    cluster.gpool(["pool", "set", "default", "--mig-auto"]).ok();
    cluster.until_ended(&id);
    cluster.gpool(["pool", "set", "default", "--mig-auto", "no"]).ok();
    cluster.gpool(["submit", "--gpus", "1g.10gb", "--", "true"]).refused(4, &["1g.10gb"]);
}

#[test]
fn a_server_killed_between_two_changes_goes_on_after_its_start() {
    let (mut cluster, _driver) = cluster();
    cluster.gpool(["mig", "create", "0", "4g.40gb"]).ok();
    edit(&cluster, |state| {
        state.hang.insert("nvmlDeviceCreateGpuInstance".to_owned());
    });
    cluster.gpool(["pool", "set", "default", "--mig-auto"]).ok();
    let id = cluster.submit(["--gpus", "7g.80gb", "--", "true"]);
    let file = cluster.path("driver").join(STATE_FILE);
    until_so("the instance in the way is gone", || {
        State::read(&file).unwrap().devices[0].gpu_instances.is_empty()
    });
    cluster.kill();
    edit(&cluster, |state| state.hang.clear());
    cluster.up();
    assert_eq!(cluster.until_ended(&id).state.as_str(), "succeeded");
    assert_eq!(State::read(&file).unwrap().devices[0].gpu_instances.len(), 1);
}

#[test]
fn simulated_gpus_are_divided_by_their_file() {
    let cluster = Cluster::new("sim:1xH100-80G");
    assert!(
        cluster.gpool(["mig", "list", "--json"]).json()["items"].as_array().unwrap().is_empty()
    );
    cluster.gpool(["mig", "create", "0", "1g.10gb"]).refused(7, &["--devices"]);
}

#[test]
fn only_admins_change_instances() {
    let Some(cluster) = crate::users::cluster() else { return };
    let ran = crate::users::as_nobody(&cluster, &["mig", "create", "0", "1g.10gb"]);
    ran.refused(5, &["list or change MIG instances"]);
}
