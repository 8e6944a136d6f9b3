//! `gpool sweep show`: the trials of a sweep, the best first.

use gpool_cli::args::list::ListFlags;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::{Listing, show};
use gpool_cli::render::list::{Column, Noun, select};
use gpool_cli::render::table::Cell;
use gpool_cli::render::words::{NOTHING, count};
use gpool_cli::session::Session;
use gpool_client::{Client, JobsQuery};
use gpool_sweep::trials::{Study, Trial, has_trials};
use gpool_wire::catalogue;
use gpool_wire::job_metrics::figure;

/// Elements of an array in one answer.
const AT_ONCE: u32 = 1000;

const TRIALS: Noun<Trial> = Noun {
    columns: &[
        Column { name: "number", head: "TRIAL", cell: |it, _| Cell::new(&it.number.to_string()) },
        Column { name: "job", head: "JOB", cell: |it, _| Cell::new(&it.job) },
        Column { name: "state", head: "STATE", cell: |it, _| Cell::new(it.state.as_str()) },
        Column {
            name: "value",
            head: "VALUE",
            cell: |it, _| Cell::new(&it.value.map_or_else(|| NOTHING.to_owned(), figure)),
        },
        Column { name: "parameters", head: "PARAMETERS", cell: |it, _| Cell::new(&it.words()) },
    ],
    table: &["number", "job", "state", "value", "parameters"],
    wide: &["number", "job", "state", "value", "parameters"],
    name: |trial| trial.job.clone(),
    keys: || ["number", "job", "state", "value", "parameters"].map(str::to_owned).to_vec(),
};

/// Runs the verb.
///
/// # Errors
/// There is no such sweep.
pub fn run(name: &str, flags: &ListFlags, session: &Session) -> Result {
    let client = session.client()?;
    show(&TRIALS, flags, session, || {
        let study = read(&client, name)?;
        let footer = footer(&study);
        let trials = study.ranked().into_iter().cloned().collect();
        let title = format!("Sweep {name}");
        Ok(Listing { title, ..Listing::new(select(&TRIALS, trials, flags)?, footer) })
    })
}

/// Reads the jobs of a sweep.
fn read(client: &Client, name: &str) -> Result<Study> {
    let query = JobsQuery {
        group: Some(name.to_owned()),
        state: Some("all".to_owned()),
        ..JobsQuery::default()
    };
    let (mut study, mut n_jobs) = (Study::default(), 0);
    for job in client.every_job(query) {
        let job = job?;
        n_jobs += 1;
        if !has_trials(&job) {
            study.add_job(job);
            continue;
        }
        let (mut elements, mut from) = (Vec::new(), 0);
        loop {
            let page = client.elements(&job.id, "all", from, AT_ONCE)?;
            elements.extend(page.items);
            match page.next_cursor.and_then(|next| next.parse().ok()) {
                Some(next) => from = next,
                None => break,
            }
        }
        let metrics = match job.request.metric {
            Some(_) => client.element_metrics(&job.id)?,
            None => Vec::new(),
        };
        study.add_array(&job, &elements, &metrics);
    }
    if n_jobs == 0 {
        return Err(Failure::new(catalogue::NO_SUCH_JOB, format!("there is no sweep {name}"))
            .tip("gpool queue   (its row is group:NAME)"));
    }
    Ok(study)
}

fn footer(study: &Study) -> String {
    let states = study.n_by_state();
    let states = states.iter().map(|(state, n)| format!(" · {n} {state}")).collect::<String>();
    let mut text = format!("{}{states}", count(study.trials.len() as u64, "trial"));
    if let Some(driver) = &study.driver {
        text.push_str(&format!(" · driver: job {} {}", driver.id, driver.state.as_str()));
    }
    match (&study.objective, study.best()) {
        (Some(objective), Some(best)) => {
            let value = best.value.map(figure).unwrap_or_default();
            let (metric, words) = (&objective.metric, best.words());
            text.push_str(&format!("\nbest: trial {}, {metric} {value}: {words}", best.number));
        }
        (Some(objective), None) => {
            text.push_str(&format!("\nno trial has succeeded with a {} yet", objective.metric));
        }
        (None, _) => text.push_str("\nwithout --metric, no trial is the best"),
    }
    text
}
