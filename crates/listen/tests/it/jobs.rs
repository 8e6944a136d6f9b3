//! The life of jobs through the API.

use gpool_client::JobsQuery;
use gpool_model::{JobVerb, Timestamp};
use gpool_wire::usage::GpuHistoryParams;
use gpool_wire::{AllowDevices, JobCreate, JobPatch, Time};

use crate::rig::{ANA, OWNER, Rig};

fn job(program: &str, gpus: &str) -> JobCreate {
    JobCreate {
        command: vec![program.to_owned()],
        gpus: Some(gpus.to_owned()),
        ..JobCreate::default()
    }
}

fn state(client: &gpool_client::Client, id: &str) -> String {
    client.job(id).unwrap().state.to_string()
}

#[test]
fn a_job_runs_and_is_found_after_its_end() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    let submitted = client.submit(&job("true", "a100:1"), None).unwrap();
    assert_eq!((submitted.id.as_str(), submitted.request.gpus_text()), ("1", "a100:1"));
    rig.until("it has ended", || state(&client, "1") == "succeeded");
    let ended = client.job("1").unwrap();
    assert_eq!(ended.run.exit_code, Some(0));
    assert_eq!(ended.request.directory.as_deref(), Some("/home/ana"));
    assert_eq!(ended.placement[0].node, "lab1");
    assert_eq!(ended.placement[0].devices, [0]);
    assert_eq!(ended.placement[0].uuids, ["GPU-0"]);
    assert!(ended.run.started_at.is_some() && ended.run.ended_at >= ended.run.started_at);
    assert!(client.jobs(&JobsQuery::default()).unwrap().items.is_empty());
    let error = client.cancel(&["1".to_owned()]).unwrap_err();
    assert_eq!(error.exit_code(), 7, "{error}");
}

#[test]
fn a_waiting_job_says_why() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    client.submit(&job("sleep", "1"), None).unwrap();
    client.submit(&job("sleep", "2"), None).unwrap();
    rig.until("the first runs", || state(&client, "1") == "running");
    assert_eq!(state(&client, "2"), "pending");
    let why = client.why("2").unwrap();
    assert_eq!(why.reasons[0].code, "gpus_not_free");
    assert_eq!(
        (&why.reasons[0].facts["need"], &why.reasons[0].facts["free"]),
        (&2.into(), &1.into())
    );
    assert!(why.reasons[0].blocking);
    assert_eq!((why.nodes[0].n_matching, why.nodes[0].n_free), (2, 1));
    assert_eq!(why.nodes[0].devices[0].job.as_deref(), Some("1"));
    assert_eq!(why.nodes[0].devices[0].user.as_deref(), Some("ana"));
    let listed = client.jobs(&JobsQuery::default()).unwrap();
    assert_eq!(listed.items[1].wait.reasons[0].code, "gpus_not_free");
    assert_eq!(listed.total, Some(2));
    client.cancel(&["1".to_owned()]).unwrap();
    rig.until("the second runs", || state(&client, "2") == "running");
    assert_eq!(state(&client, "1"), "cancelled");
    assert!(client.why("2").unwrap().reasons.is_empty());
}

#[test]
fn a_forecast_changes_nothing() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    let forecast = client.forecast(&job("sleep", "2")).unwrap();
    assert!(forecast.starts);
    assert_eq!(forecast.placement[0].devices, [0, 1]);
    client.submit(&job("sleep", "1"), None).unwrap();
    let forecast = client.forecast(&job("sleep", "2")).unwrap();
    assert!(!forecast.starts);
    assert_eq!(forecast.reasons[0].code, "gpus_not_free");
    assert_eq!(client.forecast(&job("sleep", "3")).unwrap_err().exit_code(), 4);
    assert_eq!(client.jobs(&JobsQuery::default()).unwrap().total, Some(1));
}

#[test]
fn many_jobs_are_one_call() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    let mut lines =
        r#"{ "defaults": {"command":["true"],"directory":"/data","environment":{"A":"1"}}}"#
            .to_owned();
    for n in 0..3000 {
        lines.push_str(&format!("\n{{\"name\":\"n{n}\"}}"));
    }
    let answer = client.submit_many(&mut lines.as_bytes(), Some("k")).unwrap();
    assert_eq!((answer.first.as_str(), answer.n_jobs, answer.repeated), ("1", 3000, false));
    assert_eq!(answer.ids().last().as_deref(), Some("3000"));
    assert!(client.submit_many(&mut lines.as_bytes(), Some("k")).unwrap().repeated);
    rig.until("all have ended", || client.status().unwrap().jobs_ended == 3000);
    let first = client.job("1").unwrap();
    assert_eq!((first.name.as_str(), first.request.directory.as_deref()), ("n0", Some("/data")));
    let mut seen = Vec::new();
    let mut query =
        JobsQuery { state: Some("all".to_owned()), limit: Some(700), ..JobsQuery::default() };
    loop {
        let page = client.jobs(&query).unwrap();
        assert_eq!(page.total, Some(3000));
        seen.extend(page.items.into_iter().map(|job| job.id.parse::<u64>().unwrap()));
        query.cursor = page.next_cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, (1..=3000).rev().collect::<Vec<_>>());
}

#[test]
fn pages_cross_from_the_living_to_the_ended() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    for program in ["true", "sleep", "true", "sleep"] {
        client.submit(&job(program, "0"), None).unwrap();
    }
    rig.until("two have ended", || client.status().unwrap().jobs_ended == 2);
    for limit in 1..=5 {
        let mut query =
            JobsQuery { state: Some("all".to_owned()), limit: Some(limit), ..JobsQuery::default() };
        let mut seen = Vec::new();
        loop {
            let page = client.jobs(&query).unwrap();
            assert!(page.items.len() <= limit as usize);
            seen.extend(page.items.into_iter().map(|job| job.id));
            query.cursor = page.next_cursor;
            if query.cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen, ["2", "4", "3", "1"], "{limit} on a page");
    }
}

#[test]
fn two_who_edit_one_job_notice() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    let held = JobCreate { hold: true, ..job("sleep", "1") };
    let submitted = client.submit(&held, None).unwrap();
    assert_eq!(
        (submitted.state.as_str(), submitted.wait.held_by.as_deref()),
        ("held", Some("user"))
    );
    let patch = |note: &str| {
        JobPatch::from(JobCreate { note: Some(note.to_owned()), ..JobCreate::default() })
    };
    let first = client.edit("1", &patch("first"), Some(submitted.version)).unwrap();
    assert_eq!(first.request.note.as_deref(), Some("first"));
    assert!(first.version > submitted.version);
    let error = client.edit("1", &patch("second"), Some(submitted.version)).unwrap_err();
    assert_eq!(error.exit_code(), 7, "{error}");
    assert_eq!(client.job("1").unwrap().request.note.as_deref(), Some("first"));
    client.act(JobVerb::Release { at: None }, &["1".to_owned()]).unwrap();
    rig.until("it runs", || state(&client, "1") == "running");
}

#[test]
fn devices_are_shown_and_allowed() {
    let mut rig = Rig::new();
    let (ana, olga) = (rig.client(ANA), rig.client(OWNER));
    let devices = vec!["1-1".to_owned()];
    let gpus = olga.allow_gpus(&AllowDevices { node: None, devices }).unwrap().items;
    assert_eq!((gpus[0].allowed, gpus[1].allowed), (false, true));
    ana.submit(&job("sleep", "1"), None).unwrap();
    rig.until("it runs", || state(&ana, "1") == "running");
    let gpus = ana.gpus().unwrap().items;
    assert_eq!(serde_json::to_value(gpus[0].state).unwrap(), "not_allowed");
    assert_eq!(serde_json::to_value(gpus[1].state).unwrap(), "busy");
    assert_eq!((gpus[1].job.as_deref(), gpus[1].user.as_deref()), (Some("1"), Some("ana")));
    assert_eq!((gpus[0].model_short.as_str(), gpus[0].utilization), ("A100-80G", Some(0.5)));
    assert_eq!((gpus[0].power_w, gpus[1].power_w), (Some(61.5), None));
    let nodes = ana.nodes().unwrap().items;
    assert_eq!((nodes[0].n_gpus, nodes[0].n_gpus_free, nodes[0].tasks_used), (2, 0, 1));
    assert_eq!(ana.node("lab1").unwrap().name, "lab1");
    let unknown = AllowDevices { node: None, devices: vec!["7".to_owned()] };
    assert_eq!(olga.allow_gpus(&unknown).unwrap_err().exit_code(), 6);
}

#[test]
fn the_server_tells_of_itself() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    client.submit(&job("sleep", "1"), None).unwrap();
    client.submit(&job("sleep", "2"), None).unwrap();
    rig.until("the first runs", || state(&client, "1") == "running");
    let status = client.status().unwrap();
    assert_eq!((status.term, status.nodes, status.nodes_connected), (1, 1, 1));
    assert_eq!(status.jobs, [("pending".to_owned(), 1), ("running".to_owned(), 1)].into());
    assert_eq!(status.gpus, [("busy".to_owned(), 1), ("free".to_owned(), 1)].into());
    assert_eq!((status.policy.preset.as_str(), status.jobs_ended), ("fair", 0));
    assert_eq!(client.version().unwrap().pid, std::process::id());
    client.ready().unwrap();
}

#[test]
fn figures_have_the_names_of_the_page() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    let client = gpool_client::Client::at(&socket);
    client.submit(&job("sleep", "2"), None).unwrap();
    client.submit(&job("sleep", "1"), None).unwrap();
    rig.until("the first runs", || state(&client, "1") == "running");
    let (status, _, text) = crate::rig::raw(&socket, &crate::rig::request("GET", "/metrics", ""));
    assert_eq!(status, 200);
    for line in [
        "gpool_jobs{state=\"running\"} 1",
        "gpool_pending_jobs{reason=\"gpus_not_free\",pool=\"any\"} 1",
        "gpool_jobs_submitted_total 2",
        "gpool_gpu_utilization_ratio{node=\"lab1\",gpu=\"0\",uuid=\"GPU-0\"} 0.5",
        "gpool_gpu_state{node=\"lab1\",gpu=\"1\",uuid=\"GPU-1\",state=\"busy\"} 1",
        "gpool_node_up{node=\"lab1\"} 1",
        "gpool_project_held_gpus{project=\"default\",department=\"false\"} 2",
        "gpool_project_pending_jobs{project=\"default\",department=\"false\"} 1",
        "gpool_project_pending_gpus{project=\"default\",department=\"false\"} 1",
        "gpool_project_borrowed_gpus{project=\"default\",department=\"false\"} 0",
        "gpool_project_lent_gpus{project=\"default\",department=\"false\"} 0",
        "gpool_project_used_gpu_seconds{project=\"default\",department=\"false\"} ",
        "gpool_http_requests_total{route=\"/api/v1/jobs\",method=\"POST\",code=\"201\"} 2",
        "# EOF",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    // It is guaranteed all there is, which is no number.
    assert!(!text.contains("gpool_project_guaranteed_gpus"), "{text}");
}

#[test]
fn a_running_job_shows_what_it_has_used_so_far() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    client.submit(&job("sleep", "a100:1"), None).unwrap();
    rig.until("it runs", || state(&client, "1") == "running");
    let live = client.job("1").unwrap().usage.live.expect("its control group counts");
    assert_eq!(
        (live.cpu_s, live.memory, live.read_bytes),
        (Some(90.0), Some(2 << 30), Some(3 << 30))
    );
    assert_eq!((live.memory_peak, live.written_bytes), (None, None), "absent is not zero");
    assert_eq!(client.report("1").unwrap().job.usage.live, Some(live));
    assert!(client.jobs(&JobsQuery::default()).unwrap().items[0].usage.live.is_none());
    client.cancel(&["1".to_owned()]).unwrap();
    rig.until("it has ended", || state(&client, "1") == "cancelled");
    assert!(client.job("1").unwrap().usage.live.is_none());
}

#[test]
fn a_job_has_the_metrics_of_its_lowest_rank() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    client.submit(&job("sleep", "1"), None).unwrap();
    rig.until("it runs", || state(&client, "1") == "running");
    let expected = [("loss".to_owned(), 0.31), ("speed".to_owned(), 7.0)].into();
    assert_eq!(client.job("1").unwrap().usage.metrics, expected);
    assert_eq!(client.report("1").unwrap().job.usage.metrics, expected);
    let all = client.job_metrics("1", None, None).unwrap();
    assert_eq!(all.step_s, 1, "a new job has each second");
    let loss = &all.metrics[0];
    assert_eq!((loss.name.as_str(), loss.last), ("loss", Some(0.31)));
    assert_eq!(loss.points.iter().flatten().last(), Some(&0.31), "{loss:?}");
    assert_eq!(loss.points.len(), all.cpu.len());
    assert_eq!(client.jobs(&JobsQuery::default()).unwrap().items[0].usage.metrics.len(), 0);
    let other = rig.client(ANA + 1);
    assert_eq!(other.job("1").unwrap().usage.metrics.len(), 0, "they are the user's");
    assert_eq!(other.job_metrics("1", None, None).unwrap().metrics.len(), 0);
    assert_eq!(client.job_metrics("9", None, None).unwrap_err().exit_code(), 6);
}

#[test]
fn the_last_hour_of_a_gpu_is_in_full() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    let since = |seconds: u64| {
        let now = gpool_listen::testing::now().get();
        let since = Some(Time(Timestamp::new(now - seconds * 1000)));
        client.gpu_history(&GpuHistoryParams { since, ..GpuHistoryParams::default() }).unwrap()
    };
    let recent = since(100);
    assert_eq!(recent.step_s, 1);
    let gpu = recent.gpus.iter().find(|gpu| gpu.uuid == "GPU-0").unwrap();
    let known: Vec<f64> = gpu.utilization.iter().flatten().copied().collect();
    assert!(known.len() >= 55, "a value for each second: {gpu:?}");
    assert!(known.chunks_exact(2).all(|pair| pair[0] + pair[1] == 1.0), "{known:?}");
    assert_eq!(gpu.utilization.first(), Some(&None), "the agent has only a minute");
    assert_eq!(since(1500).step_s, 15);
    assert_eq!(since(5400).step_s, 60);
}
