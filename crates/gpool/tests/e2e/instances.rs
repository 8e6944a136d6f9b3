//! MIG instances: requested by profile, allocated as devices, counted as their part of the GPU.

use serde_json::Value;

use crate::harness::{Cluster, until_so};

/// One divided GPU and one whole GPU.
const DIVIDED: &str = r#"
[[device]]
model = "NVIDIA H100 80GB HBM3"
memory = "80G"
mig = ["3g.40gb", "1g.10gb", "1g.10gb"]

[[device]]
model = "NVIDIA H100 80GB HBM3"
memory = "80G"
"#;

fn unstarted(text: &str) -> Cluster {
    let mut cluster = Cluster::unstarted(&[]);
    let file = cluster.path("devices.toml");
    std::fs::write(&file, text).unwrap();
    cluster.set_flags(&["--devices", file.to_str().unwrap()]);
    cluster
}

fn divided() -> Cluster {
    let mut cluster = unstarted(DIVIDED);
    cluster.up();
    cluster
}

#[test]
fn a_job_on_an_instance_gets_its_uuid_and_is_charged_its_part() {
    let cluster = divided();
    let words = "echo $GPOOL_GPUS $CUDA_VISIBLE_DEVICES; sleep 1000";
    let large = cluster.sh(&["--gpus", "h100-3g.40gb"], words);
    let small = cluster.sh(&["--gpus", "1g.10gb:2"], words);
    let whole = cluster.sh(&["--gpus", "1"], words);
    for (id, devices) in [(&large, &[1000][..]), (&small, &[1001, 1002]), (&whole, &[1])] {
        cluster.until_is(id, "running");
        assert_eq!(cluster.devices_of(id), devices, "job {id}");
    }
    let told = |id: &str| {
        until_so("the job has written its variables", || cluster.stdout_of(id).ends_with('\n'));
        cluster.stdout_of(id)
    };
    assert!(told(&large).starts_with("1 MIG-sim-"), "{}", told(&large));
    let both = told(&small);
    assert_eq!(both.matches("MIG-sim-").count(), 2, "{both}");
    assert!(told(&whole).starts_with("1 GPU-sim-"), "{}", told(&whole));

    let quota = cluster.gpool(["quota", "--json"]).json();
    let held = &quota["items"][0]["held"];
    assert_eq!(held, &Value::from(1.784), "0.5, twice 0.142, and 1: {quota}");
    let gpus = cluster.gpool(["gpus", "--json"]).json();
    let listed: Vec<_> = gpus["items"].as_array().unwrap().iter().collect();
    let states: Vec<_> = listed.iter().map(|gpu| gpu["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["divided", "busy", "busy", "busy", "busy"]);
    assert_eq!(listed[0]["mig"]["instances"].as_array().unwrap().len(), 3);
    assert_eq!(listed[2]["part_of"]["gpus"], Value::from(0.5));
    assert_eq!(listed[2]["model_short"], "H100-80G-3g.40gb");

    // A divided GPU can't be allocated as a whole, and an instance can't be shared.
    let second = cluster.sh(&["--gpus", "1"], "true");
    let third = cluster.sh(&["--gpus", "mig"], "true");
    let why = |id: &str| cluster.why(id);
    assert!(why(&second).contains("It needs 1 GPU, and none is free"), "{}", why(&second));
    assert!(why(&second).contains("GPU 0 is divided"), "{}", why(&second));
    assert!(why(&third).contains("It needs 1 MIG instance, and none is free"), "{}", why(&third));
    cluster.gpool(["cancel", &small]).ok();
    let ended = cluster.until_ended(&third);
    assert_eq!(ended.placement[0].devices, [1001]);
}

#[test]
fn missing_profiles_are_refused_with_the_available_ones() {
    let cluster = divided();
    let run = |gpus: &str| cluster.gpool(["submit", "--gpus", gpus, "--", "true"]);
    run("h100:2").refused(4, &["2 × H100", "no node has more than 1", "--gpus h100:1"]);
    run("2g.20gb")
        .refused(4, &["MIG instances \"2g.20gb\"", "H100-80G-1g.10gb (up to 2)", "--gpus mig:1"]);
    run("1g.10gb:3").refused(4, &["the cluster has 2 1g.10gb MIG instances", "--gpus 1g.10gb:2"]);
}

#[test]
fn an_unmanaged_process_blocks_only_its_own_instance() {
    let cluster = divided();
    cluster.gpool(["sim", "add-process", "1001", "--pid", "4242"]).ok();
    let state = |index: u32| {
        let gpus = cluster.client().gpus().unwrap().items;
        gpus.into_iter().find(|gpu| gpu.index == index).unwrap().state
    };
    until_so("it is seen", || state(1001) == gpool_model::DeviceState::Unmanaged);
    assert_eq!(state(0), gpool_model::DeviceState::Divided);
    let id = cluster.sh(&["--gpus", "1g.10gb"], "true");
    assert_eq!(cluster.until_ended(&id).placement[0].devices, [1002]);
}

#[test]
fn invalid_layouts_are_refused_with_a_valid_one() {
    for (mig, words) in [
        ("[\"1g\"]", ["\"1g\" is not a MIG profile", "1g.10gb"]),
        ("[\"4g.40gb\", \"4g.40gb\"]", ["8 compute slices", "a GPU has 7"]),
        ("[\"3g.60gb\", \"3g.40gb\"]", ["100 GiB of memory", "the GPU has 80 GiB"]),
        ("[\"5g.40gb\"]", ["5 compute slices", "1, 2, 3, 4 or 7"]),
    ] {
        let text = format!("[[device]]\nmodel = \"NVIDIA H100\"\nmemory = \"80G\"\nmig = {mig}\n");
        let cluster = unstarted(&text);
        let file = cluster.path("devices.toml");
        let ran = cluster.gpool(["up", "--devices", file.to_str().unwrap()]);
        assert_ne!(ran.code, 0, "{ran:?}");
        for word in words {
            assert!(ran.err.contains(word), "{word:?} is not in {ran:?}");
        }
    }
}
