//! Measures the dashboard: the CPU of many viewers while jobs change state, and the time and size
//! of the pages of a long queue.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpool_cli::cluster::Cluster;
use gpool_cli::failure::{Failure, Result};
use gpool_history::{Batch, History, Minute, Sample, Settings};
use gpool_model::verb::JobVerb;

use super::browse::Browser;
use super::figure::{Figure, Ranked};
use super::history::Fleet;
use super::pending::{hold_all, lines};
use super::process::threads_cpu_ms_of;
use super::{Options, failed};

/// Viewers of the Overview.
const VIEWERS: usize = 50;
/// Changes of a job's state per second.
const CHANGES_PER_S: u32 = 20;
/// The sampled devices.
const NODES: u32 = 8;
const DEVICES: &str = "sim:64xH100-80G";
/// The part of the jobs that wait while viewers are measured.
const WATCHED: u32 = 10;
/// Recorded minutes: the range of the Overview.
const MINUTES: u32 = 24 * 60;
/// What viewers follow.
const PAGE: &str = "/?range=24h";
/// The queue and its filters.
const FILTERS: [&str; 6] = [
    "/queue",
    "/queue?state=pending,waiting,held",
    "/queue?state=starting,running,paused,stopping",
    "/queue?state=all&project=default",
    "/queue?name=sweep-7",
    "/queue?user=nobody",
];

/// Measures viewers beside some jobs, and the queue with all of them.
///
/// # Errors
/// The server refuses something, or a connection is lost.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(DEVICES)?;
    hold_all(&cluster)?;
    let n_watched = (options.pending / WATCHED).max(1);
    let first = submit(&cluster, n_watched)?;
    record(&cluster)?;
    let mut figures = viewers(&cluster, options, n_watched, first)?;
    submit(&cluster, options.pending.saturating_sub(n_watched).max(1))?;
    figures.extend(queue(&cluster, options.pending)?);
    cluster.end()?;
    Ok(figures)
}

/// Submits waiting jobs; returns the number of the first.
fn submit(cluster: &Cluster, n: u32) -> Result<u64> {
    let mut lines = std::io::Cursor::new(lines(n).into_bytes());
    let answer = cluster.client().submit_many(&mut lines, None).map_err(Failure::from)?;
    answer.first.parse().map_err(|_| failed("an ID is not a number"))
}

/// Writes the recorded utilization of a day, as if the server had run for a day.
fn record(cluster: &Cluster) -> Result<()> {
    let gpus = cluster.client().gpus().map_err(Failure::from)?.items;
    let path = cluster.folder().join("state/usage/history.db");
    let fault = |error| failed(format!("the history of utilization: {error}"));
    let (mut history, _) = History::open(&path, Settings::default()).map_err(fault)?;
    let now = i64::try_from(gpool_cli::render::clock::now().0.get() / 1000).unwrap_or(i64::MAX);
    let now = Minute::from_unix_seconds(now);
    let fleet = Fleet::new(NODES);
    for ago in (1..=MINUTES).rev() {
        let minute = now.before(ago);
        let samples = (0..).zip(&gpus).map(|(ix, gpu)| Sample {
            device: gpu.uuid.as_str(),
            values: fleet.values(ix, minute.number()),
        });
        let devices: Vec<Sample<'_>> = samples.collect();
        let batch = Batch { devices: &devices, ..Batch::default() };
        history.append(minute, minute, &batch).map_err(fault)?;
        history.maintain(minute).map_err(fault)?;
    }
    Ok(())
}

fn viewers(cluster: &Cluster, options: &Options, n_jobs: u32, first: u64) -> Result<Vec<Figure>> {
    let span = Duration::from_secs(u64::from(options.idle_s));
    let browsers: Vec<Browser> =
        (0..VIEWERS).map(|_| Browser::sign_in(cluster)).collect::<Result<_>>()?;
    let opened = browsers[0].load(PAGE)?;
    let page = opened.page;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| change(cluster, first, &is_over));
        let alone = cores(cluster, span);
        let streams = browsers.iter().map(Browser::stream).collect::<Result<Vec<_>>>();
        let watched = streams.and_then(|streams| {
            let (streams, open): (Vec<_>, Vec<_>) = streams.into_iter().unzip();
            let followers: Vec<_> = browsers
                .iter()
                .zip(streams)
                .map(|(browser, stream)| scope.spawn(move || browser.follow(PAGE, stream)))
                .collect();
            let watched = cores(cluster, span);
            drop(open);
            let mut times = Vec::new();
            for follower in followers {
                times.extend(follower.join().unwrap_or_else(|_| Err(failed("a viewer panicked")))?);
            }
            Ok((watched, times))
        });
        is_over.store(true, Ordering::Relaxed);
        let n_changes = changes.join().unwrap_or_else(|_| Err(failed("changes panicked")))?;
        let (watched, mut times) = watched?;
        // Changes are made in both halves.
        let per_s = f64::from(n_changes) / span.as_secs_f64() / 2.0;
        let n_loads = times.len() as f64 / VIEWERS as f64 / span.as_secs_f64();
        times.push(opened.ms);
        let with = format!("{VIEWERS} viewers, {n_jobs} jobs, {NODES} × 8 GPUs");
        Ok(vec![
            Figure::new("viewers_changes_per_s", "state changes", per_s, "1/s"),
            Figure::new("viewers_none_percent", "CPU without viewers", alone, "% of a core"),
            Figure::new(
                "viewers_percent",
                format!("more CPU with {with}"),
                (watched - alone).max(0.0),
                "% of a core",
            )
            .below(20.0),
            Figure::new("viewers_loads_per_s", "loads of the Overview by each", n_loads, "1/s"),
            Figure::new("viewers_page_kb", "size of it", page.len() as f64 / 1000.0, "kB")
                .below(300.0),
            Figure::new(
                "viewers_p99_ms",
                "time of it, p99",
                Ranked::of(times).percentile(99),
                "ms",
            ),
        ])
    })
}

/// The CPU of the server's process while this time passes, in percent of a core.
fn cores(cluster: &Cluster, span: Duration) -> f64 {
    let used = || threads_cpu_ms_of(cluster.server_pid());
    let (before, began) = (used(), Instant::now());
    std::thread::sleep(span);
    // Threads that have ended meanwhile no longer count.
    (used() - before).max(0.0) / 10.0 / began.elapsed().as_secs_f64()
}

/// Holds and releases a job until the measurement is over. Returns the number of changes.
fn change(cluster: &Cluster, job: u64, is_over: &AtomicBool) -> Result<u32> {
    let (id, pause) = ([job.to_string()], Duration::from_secs(1) / CHANGES_PER_S);
    let began = Instant::now();
    let mut n = 0;
    while !is_over.load(Ordering::Relaxed) {
        let verb = if n % 2 == 0 { JobVerb::Hold } else { JobVerb::Release { at: None } };
        cluster.client().act(verb, &id).map_err(Failure::from)?;
        n += 1;
        std::thread::sleep((pause * n).saturating_sub(began.elapsed()));
    }
    Ok(n)
}

/// Times the first page of a long queue, and each filter.
fn queue(cluster: &Cluster, n: u32) -> Result<Vec<Figure>> {
    let browser = Browser::sign_in(cluster)?;
    let first = browser.load("/queue")?;
    let (mut slowest, mut largest) = (0.0_f64, first.page.len());
    for filter in FILTERS {
        let loaded = (0..9).map(|_| browser.load(filter)).collect::<Result<Vec<_>>>()?;
        largest = loaded.iter().map(|it| it.page.len()).max().unwrap_or(0).max(largest);
        let times = loaded.iter().map(|it| it.ms).collect();
        // Later loads within a second share the answer of the first.
        slowest = slowest.max(Ranked::of(times).percentile(100));
    }
    let with = format!("with {n} pending");
    Ok(vec![
        Figure::new("queue_first_ms", format!("first page of the queue {with}"), first.ms, "ms")
            .below(1000.0),
        Figure::new("queue_filter_ms", "the slowest load of a filter of the queue", slowest, "ms")
            .below(1000.0),
        Figure::new("queue_page_kb", "the largest page", largest as f64 / 1000.0, "kB")
            .below(300.0),
    ])
}
