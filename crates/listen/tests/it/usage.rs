//! GPU time from looks at devices.

use gpool_history::{DeviceSeries, Dimension, History, Minute, ReportQuery, Settings, Span, Step};
use gpool_insight::usage::course::{SERIES, member};
use gpool_insight::usage::grid::Grid;
use gpool_insight::usage::minutes::{
    Collected, DeviceReading, HeldPart, Minutes, UsageSnapshot, WaitingJobs,
};
use gpool_insight::usage::tenure::{Tenure, within};
use gpool_insight::usage::{UsageHistory, nodes, this_minute};
use gpool_listen::testing::without_gaps;
use gpool_model::device::DeviceSample;
use gpool_model::{Bytes, DeviceUuid, Millis, Timestamp};
use gpool_wire::usage::UsagePoints;
use gpool_wire::{DeviceUse, Job, JobRun, NodeUse, PlacedOn, Time};

const START: u32 = 29_000_000;
const SECOND: Millis = Millis::from_secs(1);

fn device(name: &str, percent: Option<u32>, held: Vec<HeldPart>) -> DeviceReading {
    let sample = DeviceSample { utilization_percent: percent, ..DeviceSample::default() };
    let (model, node, pool) = ("H100-80G".to_owned(), "lab1".to_owned(), "batch".to_owned());
    DeviceReading { device: name.to_owned(), model, node, pool, sample, held }
}

fn held(job: &str, user: &str, milli: u64, busy_percent: Option<u32>) -> HeldPart {
    HeldPart {
        job: Some(job.to_owned()),
        project: "vision".to_owned(),
        user: user.to_owned(),
        kind: "train".to_owned(),
        milli,
        busy_percent,
        useful_permille: None,
        memory: None,
    }
}

fn look(devices: impl Into<Vec<DeviceReading>>) -> UsageSnapshot {
    UsageSnapshot { devices: devices.into(), ..UsageSnapshot::default() }
}

#[test]
fn energy_and_waiting_time_are_recorded_with_pool_and_job() {
    let mut minutes = Minutes::default();
    let mut whole = device("a", None, vec![held("1", "ana", 1000, None)]);
    whole.sample.detail.power_mw = Some(300_000);
    let mut half = device("b", None, vec![held("2.7", "bo", 500, None)]);
    half.sample.detail.power_mw = Some(100_000);
    let dark = device("c", None, vec![held("3", "cy", 1000, None)]);
    let waiting = WaitingJobs {
        project: "nlp".to_owned(),
        user: "di".to_owned(),
        model: "H100-80G".to_owned(),
        kind: "train".to_owned(),
        pool: String::new(),
        milli: 4000,
    };
    let look = UsageSnapshot { waiting: vec![waiting], ..look([whole, half, dark]) };
    minutes.add(Minute::new(START), 10_000, &look);
    let over = minutes.add(Minute::new(START).after(1), 10_000, &look).expect("it is over");
    over.with_batch(|batch| {
        let uses = batch.uses.iter();
        let found = uses.map(|it| (it.user, it.pool, it.job, it.energy_j, it.waited_ms));
        let expected = [
            ("di", "", "", None, 40_000),
            ("ana", "batch", "1", Some(3000), 0),
            ("bo", "batch", "2.7", Some(500), 0),
            ("cy", "batch", "3", None, 0),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    });
}

#[test]
fn guarantees_are_those_of_projects_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = UsageHistory::new(folder.path());
    let path = folder.path().join("usage").join("history.db");
    let (mut history, _) = History::open(&path, Settings::default()).expect("a new store");
    let mut minutes = Minutes::default();
    let guaranteed = vec![("nlp".to_owned(), 1500), ("vision".to_owned(), 2000)];
    let devices = [device("a", None, vec![held("1", "ana", 1000, None)])];
    let look = UsageSnapshot { guaranteed, ..look(devices) };
    let minute = Minute::new(START);
    minutes.add(minute, 30_000, &look);
    minutes.add(minute, 30_000, &look);
    let over = minutes.add(minute.after(1), 1, &look).expect("it is over");
    over.with_batch(|batch| history.append(minute, minute, batch)).expect("it is written");
    let span = Span { from: minute, to: minute.after(1) };
    let of = |by: &[Dimension]| {
        let report = ReportQuery { span, step: None, by, only: &[], n_groups: 9 };
        let rows = store.report(&report).expect("it is there").into_iter();
        let row = |row: gpool_history::ReportRow| {
            let names = row.names.unwrap_or_default().join(" ");
            (names, row.totals.allocated_ms, row.totals.guaranteed_ms)
        };
        rows.map(row).collect::<Vec<_>>()
    };
    let row =
        |names: &str, allocated_ms, guaranteed_ms| (names.to_owned(), allocated_ms, guaranteed_ms);
    let projects = [row("vision", 60_000, 120_000), row("nlp", 0, 90_000)];
    assert_eq!(of(&[Dimension::Project]), projects);
    assert_eq!(of(&[]), [row("", 60_000, 210_000)]);
    assert_eq!(of(&[Dimension::Project, Dimension::User]), [row("vision ana", 60_000, 0)]);
}

#[test]
fn a_project_without_a_guarantee_has_none_over_time() {
    let points = |allocated, guaranteed| UsagePoints {
        allocated: vec![allocated; 2],
        guaranteed,
        ..UsagePoints::default()
    };
    let cluster = points(Some(8.0), vec![Some(8.0); 2]);
    // The first minute was recorded without a guarantee, or with one of all GPUs.
    let project = without_gaps(points(None, vec![Some(0.0), Some(4.0)]), &cluster);
    assert_eq!(project.guaranteed, [None, Some(4.0)]);
    assert_eq!(project.allocated, [Some(0.0); 2]);
}

#[test]
fn a_minute_has_the_time_of_each_holder() {
    let mut minutes = Minutes::default();
    let look = look([
        device("a", Some(50), vec![held("1", "ana", 1000, Some(50))]),
        device("b", Some(90), vec![held("2", "bo", 250, None), held("3", "cy", 500, Some(40))]),
        device("c", None, Vec::new()),
    ]);
    let minute = Minute::new(START);
    assert!(minutes.add(minute, 5000, &look).is_none());
    assert!(minutes.add(minute, 5000, &look).is_none());
    let over = minutes.add(minute.after(1), 5000, &look).expect("the minute is over");
    assert_eq!(over.minute, minute);
    over.with_batch(|batch| {
        let uses: Vec<_> =
            batch.uses.iter().map(|it| (it.user, it.allocated_ms, it.busy_ms)).collect();
        let expected = [("ana", 10_000, Some(5000)), ("bo", 2500, None), ("cy", 5000, Some(2000))];
        assert_eq!(uses, expected);
        let first: Vec<_> = batch.devices.iter().map(|it| it.values[0]).take(3).collect();
        assert_eq!(first, [Some(0.5), Some(0.9), None]);
        let jobs: Vec<_> = batch.jobs.iter().map(|it| (it.job, it.values[0])).collect();
        assert_eq!(jobs, [("1", Some(0.5)), ("2", None), ("3", Some(0.4))]);
    });
}

#[test]
fn the_gpus_of_the_cluster_and_of_projects_are_means_over_all_looks() {
    let mut minutes = Minutes::default();
    let busy = look([
        device("a", Some(50), vec![held("1", "ana", 1000, Some(50))]),
        device("b", None, vec![]),
    ]);
    let waiting = WaitingJobs {
        project: "nlp".to_owned(),
        user: "bo".to_owned(),
        model: String::new(),
        kind: "train".to_owned(),
        pool: String::new(),
        milli: 3000,
    };
    let quiet = UsageSnapshot { waiting: vec![waiting], ..look([device("a", None, vec![])]) };
    let quiet = UsageSnapshot { guaranteed: vec![("nlp".to_owned(), 500)], ..quiet };
    let minute = Minute::new(START);
    minutes.add(minute, 5000, &busy);
    minutes.add(minute, 5000, &quiet);
    let over = minutes.add(minute.after(1), 5000, &look([])).expect("the minute is over");
    over.with_batch(|batch| {
        let figures = |project: &str| {
            let device = member(project);
            let found = batch.devices.iter().find(|it| it.device == device).expect("it is there");
            SERIES.map(|series| found.values[series as usize])
        };
        assert_eq!(figures(""), [0.5, 0.25, 1.5, 1.5].map(Some));
        assert_eq!(figures("vision"), [0.5, 0.25, 0.0, 0.0].map(Some));
        assert_eq!(figures("nlp"), [0.0, 0.0, 1.5, 0.25].map(Some));
    });
}

#[test]
fn useful_time_is_measured_apart_from_busy_time() {
    let mut minutes = Minutes::default();
    let mut whole = held("1", "ana", 1000, Some(80));
    whole.useful_permille = Some(250);
    let look = look([
        device("a", Some(80), vec![whole]),
        device("b", Some(80), vec![held("2", "ana", 1000, Some(80))]),
    ]);
    assert!(minutes.add(Minute::new(START), 10_000, &look).is_none());
    let over = minutes.add(Minute::new(START).after(1), 10_000, &look).expect("it is over");
    over.with_batch(|batch| {
        let uses = batch.uses.iter().map(|it| (it.allocated_ms, it.busy_ms, it.useful_ms));
        let expected = [(10_000, Some(8000), Some(2500)), (10_000, Some(8000), None)];
        assert_eq!(uses.collect::<Vec<_>>(), expected);
    });
}

#[test]
fn recorded_time_is_reported_by_its_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let usage = UsageHistory::new(folder.path());
    let minute = Minute::new(START);
    let span = Span { from: minute, to: minute.after(2) };
    let by = [Dimension::User];
    let report = ReportQuery { span, step: None, by: &by, only: &[], n_groups: 10 };
    assert_eq!(usage.report(&report).expect("no file is no time").len(), 0);

    let mut minutes = Minutes::default();
    let mut seen = device("a", Some(25), vec![held("1", "ana", 1000, Some(25))]);
    seen.sample.memory_used = Some(Bytes::new(3 << 20));
    let look = look([seen]);
    minutes.add(minute, 60_000, &look);
    let over = minutes.add(minute.after(1), 1, &look).expect("the minute is over");
    let path = folder.path().join("usage").join("history.db");
    let (mut history, _) = History::open(&path, Settings::default()).expect("a new store");
    over.with_batch(|batch| history.append(minute, minute, batch)).expect("it is written");

    let rows = usage.report(&report).expect("it can be read");
    let totals = rows[0].totals;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].names.as_deref(), Some(&["ana".to_owned()][..]));
    assert_eq!((totals.allocated_ms, totals.busy_ms), (60_000, 15_000));

    let series = [DeviceSeries::Utilization, DeviceSeries::Allocated, DeviceSeries::MemoryUsed];
    let chart = usage.devices(&["a", "unknown"], &series, span, Step::MINUTE);
    let lines = chart.expect("it can be read").expect("there is a file").lines;
    let means: Vec<_> = lines.iter().map(|line| line.points[0].map(|point| point.mean)).collect();
    assert_eq!(means, [Some(0.25), Some(1.0), Some(3_145_728.0), None, None, None]);
}

/// A job that started half a minute after its submission: two GPUs of a node, and half of one.
fn on_two_nodes(submitted_at: Time, ended_at: Time) -> Job {
    let placed = |node: &str, devices: &[u32], uuids: &[&str], gpus: Option<f64>| PlacedOn {
        node: node.to_owned(),
        devices: devices.to_vec(),
        booked: None,
        uuids: uuids.iter().map(|it| (*it).to_owned()).collect(),
        gpus,
    };
    Job {
        id: "7".to_owned(),
        submitted_at,
        run: JobRun {
            started_at: Some(Time(Timestamp::new(submitted_at.0.get() + 30_000))),
            ended_at: Some(ended_at),
            ..JobRun::default()
        },
        placement: vec![
            placed("lab1", &[1, 0], &["b", "a"], None),
            placed("lab2", &[3], &["c"], Some(0.5)),
        ],
        ..Job::default()
    }
}

#[test]
fn a_job_has_the_use_of_each_node_and_of_each_whole_gpu() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = UsageHistory::new(folder.path());
    let path = folder.path().join("usage").join("history.db");
    let (mut history, _) = History::open(&path, Settings::default()).expect("a new store");
    let mut minutes = Minutes::default();
    let on = |node: &str, name: &str, percent: u32, gib: u32, held: HeldPart| {
        let mut it = device(name, Some(percent), vec![held]);
        it.node = node.to_owned();
        it.sample.memory_used = Some(Bytes::from_gib(gib));
        it
    };
    let one = |percent, milli| held("7", "ana", milli, Some(percent));
    for n in 0..6_u32 {
        let minute = Minute::new(START).after(n);
        // The first and the last minute belong to other jobs too.
        let other = n == 0 || n == 5;
        let own = |percent, milli| {
            if other { held("6", "bo", 1000, Some(90)) } else { one(percent, milli) }
        };
        let look = look([
            on("lab1", "a", if other { 90 } else { 60 }, 20 + 10 * n, own(60, 1000)),
            on("lab1", "b", if other { 90 } else { 20 }, 10, own(20, 1000)),
            on("lab2", "c", 90, 50, own(10, 500)),
        ]);
        if let Some(over) = minutes.add(minute, 60_000, &look) {
            let minute = over.minute;
            over.with_batch(|batch| history.append(minute, minute, batch)).expect("it is written");
        }
    }
    let at = |n: u64| Time(Timestamp::new((u64::from(START) + n) * 60_000));
    let job = on_two_nodes(at(0), at(5));
    let mut found = nodes::of_job(&store, "7", (at(0).0, at(5).0)).expect("it is there");
    let (from, to) = (job.run.started_at.unwrap().0, job.run.ended_at.unwrap().0);
    let tenure = |from, to| {
        let devices = ["a", "b"].map(DeviceUuid::new).to_vec();
        Tenure { held: [((from, to), devices)].into(), has_minutes: true }
    };
    nodes::add_devices(&store, &mut found, &job, &tenure(from, to)).expect("it is there");
    let gib = |n: u64| Some(n << 30);
    let gpu = |index, utilization, memory_peak| DeviceUse {
        index,
        utilization: Some(utilization),
        memory_peak,
    };
    let [lab1, lab2] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&*lab1.node, lab1.gpu_utilization), ("lab1", Some(0.4)));
    assert_eq!(lab1.gpus, [gpu(0, 0.6, gib(60)), gpu(1, 0.2, gib(10))]);
    // On a part of a GPU, only the time of the job itself counts.
    assert_eq!((&*lab2.node, lab2.gpu_utilization), ("lab2", Some(0.1)));
    assert_eq!((lab2.gpus.len(), lab2.gpu_hours), (0, 4.0 * 0.5 / 60.0));
    let texts = NodeUse::texts(&found);
    assert_eq!(texts[0].1, "busy 40 % · GPU 0: 60 %, at most 60 GiB · GPU 1: 20 %, at most 10 GiB");
    assert_eq!(texts[1], ("lab2", "busy 10 %".to_owned()));
    a_short_run_has_no_gpus(&store, &job, &tenure);
}

/// Both minutes of a run of a minute have values of other jobs.
fn a_short_run_has_no_gpus(
    store: &UsageHistory,
    job: &Job,
    tenure: &dyn Fn(Timestamp, Timestamp) -> Tenure,
) {
    let minute = |n: u64| Timestamp::new((u64::from(START) + n) * 60_000);
    let mut short = nodes::of_job(store, "7", (minute(0), minute(5))).expect("it is there");
    let (from, to) = (minute(0).after(SECOND), minute(1).after(SECOND));
    nodes::add_devices(store, &mut short, job, &tenure(from, to)).expect("it is there");
    assert!(short[0].gpus.is_empty(), "{short:?}");
}

#[test]
fn points_of_a_job_are_those_of_its_whole_minutes_and_of_samples_within_its_run() {
    let second = |n: u64| Timestamp::new(u64::from(START) * 60_000 + n * 1000);
    let tenure = Tenure { has_minutes: true, ..Tenure::default() };
    let grid = Grid::fitting(second(30), second(330), 120, second(9 * 3600));
    assert_eq!((grid.step_s, grid.n_points), (60, 5));
    let whole = tenure.whole((second(30), second(330)), grid.step);
    let point = |mean| Some(gpool_history::Point { mean, max: mean, n_minutes: 1 });
    let points: Vec<_> = (1..5).map(|n| point(f64::from(n))).collect();
    assert_eq!((whole.from.number(), whole.minutes()), (START + 1, 4));
    let on_grid = grid.means(&Tenure::on_grid(&grid, whole, &points), &[]);
    assert_eq!(on_grid, [None, Some(1.0), Some(2.0), Some(3.0), Some(4.0)]);
    // Within one minute there is no whole one, and hours are whole if only they are stored.
    assert_eq!(tenure.whole((second(10), second(50)), Step::MINUTE).minutes(), 0);
    let old = Tenure::default().whole((second(30), second(3 * 3600)), Step::MINUTE);
    assert_eq!((old.from.number() % 60, old.minutes() % 60), (0, 0));
    let samples: Vec<_> = (0..60).map(|n| (second(n), n)).collect();
    let run = (second(10).after(Millis::new(500)), second(14).after(Millis::new(900)));
    let own: Vec<u64> = within(samples, run).into_iter().map(|(_, n)| n).collect();
    assert_eq!(own, [12, 13]);
}

/// A minute with one device and one job.
fn minute_of(minute: Minute) -> Collected {
    let mut minutes = Minutes::default();
    minutes.add(minute, 60_000, &look([device("a", Some(50), vec![held("1", "ana", 1000, None)])]));
    minutes.add(minute.after(1), 1, &look([])).expect("the minute is over")
}

/// The recorded utilization of the device in the minutes before `now`, the oldest first.
fn recorded(usage: &UsageHistory, now: Minute, n: u32) -> Vec<Option<f64>> {
    let span = Span { from: now.before(n), to: now };
    let chart = usage.devices(&["a"], &[DeviceSeries::Utilization], span, Step::MINUTE);
    let Some(chart) = chart.expect("it can be read") else { return vec![None; n as usize] };
    chart.lines[0].points.iter().map(|point| point.map(|it| it.mean)).collect()
}

#[test]
fn clocks_that_jump_give_each_look_its_time_once() {
    let mut minutes = Minutes::default();
    let look = look([device("a", Some(50), vec![held("1", "ana", 1000, Some(50))])]);
    // Ahead by an hour, back by two, and right again.
    let at = [0, 0, 1, 61, 61, 0, 0, 2, 3];
    let mut found = Vec::new();
    for n in at {
        let over = minutes.add(Minute::new(START).after(n), 5000, &look);
        found.extend(over.map(|it| {
            let ms = it.with_batch(|batch| batch.uses.iter().map(|it| it.allocated_ms).sum());
            (it.minute, ms)
        }));
    }
    let minute = |n| Minute::new(START).after(n);
    let expected: [(Minute, u64); 5] = [
        (minute(0), 10_000),
        (minute(1), 5000),
        (minute(61), 10_000),
        (minute(0), 10_000),
        (minute(2), 5000),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_history_that_is_removed_or_damaged_under_a_server_begins_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let usage = UsageHistory::new(folder.path());
    let path = folder.path().join("usage").join("history.db");
    let (mut store, now) = (None, this_minute());
    usage.write(&mut store, &minute_of(now.before(5)));
    assert_eq!(recorded(&usage, now, 5), [Some(0.5), None, None, None, None]);

    std::fs::remove_dir_all(folder.path().join("usage")).expect("it is there");
    assert_eq!(recorded(&usage, now, 5), [None; 5]);
    usage.write(&mut store, &minute_of(now.before(4)));
    assert_eq!(usage.fault(), None);
    assert_eq!(recorded(&usage, now, 5), [None, Some(0.5), None, None, None]);

    // Each page is damaged; the log would repair some of them.
    let n = usize::try_from(path.metadata().expect("it is there").len()).expect("a small file");
    std::fs::write(&path, vec![0xA5; n.max(1 << 16)]).expect("it can be written");
    for log in ["history.db-wal", "history.db-shm"] {
        let _ = std::fs::remove_file(path.with_file_name(log));
    }
    usage.write(&mut store, &minute_of(now.before(3)));
    assert_eq!(usage.fault(), None);
    assert_eq!(recorded(&usage, now, 5), [None, None, Some(0.5), None, None]);
    assert!(path.with_file_name("history.db.damaged").exists());
}

#[test]
fn a_history_that_can_not_be_written_says_so_until_it_can() {
    let folder = tempfile::tempdir().expect("a folder");
    let usage = UsageHistory::new(folder.path());
    let (mut store, now) = (None, this_minute());
    let place = folder.path().join("usage");
    std::fs::create_dir(&place).expect("a folder");
    let mount = |words: &[&str]| {
        let ran = std::process::Command::new(words[0]).args(&words[1..]).arg(&place).output();
        ran.is_ok_and(|output| output.status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs"]) {
        eprintln!("SKIPPED: only root can mount a small disk");
        return;
    }
    usage.write(&mut store, &minute_of(now.before(3)));
    let whole = usage.fault();
    std::fs::write(place.join("more"), vec![0; 1 << 20]).expect_err("the disk is full");
    let mut full = None;
    for n in 0..200 {
        let names: Vec<_> = (0..50).map(|ix| device(&format!("{n}-{ix}"), None, vec![])).collect();
        let mut minutes = Minutes::default();
        minutes.add(now.before(2), 60_000, &look(names));
        let over = minutes.add(now, 1, &look([])).expect("the minute is over");
        usage.write(&mut store, &over);
        full = usage.fault();
        if full.is_some() {
            break;
        }
    }
    let read = recorded(&usage, now, 3);
    std::fs::remove_file(place.join("more")).expect("it is there");
    usage.write(&mut store, &minute_of(now.before(1)));
    let (again, after) = (usage.fault(), recorded(&usage, now, 1));
    drop(store);
    assert!(mount(&["umount"]), "it is in use");
    assert_eq!(whole, None);
    assert!(full.as_ref().is_some_and(|why| why.contains("not recorded")), "{full:?}");
    assert_eq!(read[0], Some(0.5), "a full disk hides nothing");
    assert_eq!((again, after), (None, vec![Some(0.5)]));
}
