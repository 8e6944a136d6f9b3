//! Projects and their quotas: one method for each route.

use gpool_wire::{
    Document, List, Project, ProjectSet, ProjectSettings, ProjectsAnswer, QuotaOverview,
};

use crate::call::{Call, Client, escaped};
use crate::error::Error;

impl Client {
    /// All projects, departments before their children.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn projects(&self) -> Result<List<Project>, Error> {
        self.ask(&Call::get("/projects"))
    }

    /// One project.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn project(&self, name: &str) -> Result<Project, Error> {
        self.ask::<Document<_>>(&Call::get(&path(name))).map(|answer| answer.body)
    }

    /// Creates a project.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn create_project(&self, settings: &ProjectSettings) -> Result<ProjectsAnswer, Error> {
        let call = Call::post("/projects").json(settings);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Changes a project; with a version, only if the project still has it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn edit_project(
        &self,
        name: &str,
        settings: &ProjectSettings,
        version: Option<u64>,
    ) -> Result<ProjectsAnswer, Error> {
        let call = at(Call::patch(&path(name)).json(settings), version);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Deletes a project; with a version, only if the project still has it.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn delete_project(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<ProjectsAnswer, Error> {
        let call = at(Call::delete(&path(name)), version);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Makes the projects match a set of settings.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn apply_projects(&self, set: &ProjectSet) -> Result<ProjectsAnswer, Error> {
        let call = Call::post("/projects/apply").json(set);
        self.ask::<Document<_>>(&call).map(|answer| answer.body)
    }

    /// Quota and usage of every project.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn quota(&self) -> Result<QuotaOverview, Error> {
        self.ask::<Document<_>>(&Call::get("/quota")).map(|answer| answer.body)
    }
}

fn at(call: Call, version: Option<u64>) -> Call {
    match version {
        Some(version) => call.header("if-match", &format!("\"{version}\"")),
        None => call,
    }
}

fn path(name: &str) -> String {
    format!("/projects/{}", escaped(name))
}
