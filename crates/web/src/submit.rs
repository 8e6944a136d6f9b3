//! The form that submits a job, with the equivalent command.

use std::collections::BTreeMap;

use askama::Template;
use gpool_wire::{Forecast, JobCreate, Time};

use crate::frame::Frame;
use crate::render;
use crate::spec::quoted;
use crate::text::{span, until};

/// The fields of the form, as the user wrote them.
#[derive(Debug, Clone, Default)]
pub struct SubmitForm {
    /// A command line for the shell.
    pub command: String,
    pub gpus: String,
    /// The time limit.
    pub time: String,
    pub name: String,
    pub project: String,
    pub cwd: String,
    /// Variables of the environment, one `NAME=VALUE` in a line.
    pub variables: String,
    pub preemptible: bool,
    pub hold: bool,
}

impl SubmitForm {
    /// The request. Empty fields have the default of the server. Valohai's variable `VH_GPUS` is
    /// the number of GPUs unless the form has another, as in `gpool submit -e`.
    #[must_use]
    pub fn job(&self) -> JobCreate {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let environment = self.environment().unwrap_or_default();
        let of_variable = || environment.get("VH_GPUS").and_then(|gpus| given(gpus));
        JobCreate {
            command: ["sh", "-c", self.command.trim()].map(str::to_owned).into(),
            gpus: given(&self.gpus).or_else(of_variable),
            time: given(&self.time).map(Into::into),
            name: given(&self.name),
            project: given(&self.project),
            directory: given(&self.cwd),
            environment,
            preemptible: self.preemptible.then_some(true),
            hold: self.hold,
            ..JobCreate::default()
        }
    }

    /// The variables.
    ///
    /// # Errors
    /// The first line that is no `NAME=VALUE`.
    pub fn environment(&self) -> Result<BTreeMap<String, String>, &str> {
        let lines = self.variables.lines().filter(|line| !line.trim().is_empty());
        let variable = |line: &'_ str| -> Option<(String, String)> {
            let (name, value) = line.split_once('=')?;
            let name = name.trim();
            let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
            // Browsers end lines with a carriage return.
            is_name.then(|| (name.to_owned(), value.trim_end_matches('\r').to_owned()))
        };
        lines.map(|line| variable(line).ok_or(line)).collect()
    }

    /// The command that submits the same job.
    #[must_use]
    pub fn equivalent(&self) -> String {
        let fields = [
            ("gpus", &self.gpus),
            ("time", &self.time),
            ("name", &self.name),
            ("project", &self.project),
            ("cwd", &self.cwd),
        ];
        let given = fields.into_iter().filter(|(_, text)| !text.trim().is_empty());
        let mut words: Vec<String> =
            given.map(|(flag, text)| format!("--{flag} {}", quoted(text.trim()))).collect();
        let variables = self.environment().unwrap_or_default().into_iter();
        words.extend(
            variables.map(|(name, value)| format!("-e {}", quoted(&format!("{name}={value}")))),
        );
        words.extend(self.preemptible.then(|| "--preemptible".to_owned()));
        words.extend(self.hold.then(|| "--hold".to_owned()));
        words.push(format!("-- sh -c {}", quoted(self.command.trim())));
        format!("gpool submit {}", words.join(" "))
    }
}

/// The contents of the page with the form.
#[derive(Debug, Clone, Copy)]
pub struct Submit<'a> {
    pub frame: Frame<'a>,
    pub form: &'a SubmitForm,
    pub projects: &'a [String],
    /// The forecast of a preview.
    pub forecast: Option<&'a Forecast>,
    /// Why the job was refused; empty if it was not.
    pub refused: &'a [String],
    pub now: Time,
}

#[derive(Template)]
#[template(path = "submit.html")]
struct SubmitPage<'a> {
    frame: Frame<'a>,
    form: &'a SubmitForm,
    projects: &'a [String],
    refused: &'a [String],
    forecast: Vec<String>,
    equivalent: String,
}

impl Submit<'_> {
    #[must_use]
    pub fn page(&self) -> String {
        let forecast = self.forecast.map(|it| forecast_sentences(it, self.now)).unwrap_or_default();
        let has_command = !self.form.command.trim().is_empty();
        render(&SubmitPage {
            frame: self.frame,
            form: self.form,
            projects: self.projects,
            refused: self.refused,
            forecast,
            equivalent: if has_command { self.form.equivalent() } else { String::new() },
        })
    }
}

fn forecast_sentences(forecast: &Forecast, now: Time) -> Vec<String> {
    let start = forecast.eta.as_ref().and_then(|eta| eta.p50);
    let first = match start.map(|at| until(at, now)) {
        _ if forecast.starts => "The job would start now.".to_owned(),
        Some(0) => "The job would start soon.".to_owned(),
        Some(seconds) => format!("The job would start in about {}.", span(seconds)),
        None => "The start can't be forecast.".to_owned(),
    };
    let reasons = forecast.reasons.iter().map(|reason| reason.text.clone());
    std::iter::once(first).chain(reasons).collect()
}
