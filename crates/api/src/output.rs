//! The output of one task, from the agent that has it.

use std::sync::Arc;

use futures_util::future::join_all;
use gpool_model::output::OutputStream;
use gpool_model::{NodeName, Phase, TaskId, Timestamp};
use gpool_protocol::{FileAnswer, FileQuestion, OutputPart, OutputRequest, OutputStart};
use gpool_wire::{LogFiles, Problem, catalogue};

use super::extract::ApiError;
use super::found::FoundJob;
use crate::api::Api;
use gpool_server::View;
use gpool_server::agents::AgentPeer;

/// The output of a task, and the agent that has it.
pub(super) struct TaskOutput {
    api: Api,
    task: TaskId,
    streams: Vec<OutputStream>,
    owner: u32,
    /// The node of the task, as far as the job has said it.
    last_node: Option<NodeName>,
    /// The agent that has it, once that is known.
    agent: Option<Arc<AgentPeer>>,
}

/// The agents that may have the output of a task.
enum OutputLocation {
    /// The task is running, or will, on this node.
    Node(NodeName),
    /// It is yet to be placed.
    Unplaced,
    /// It has ended.
    Any,
}

impl TaskOutput {
    pub fn new(api: Api, found: &FoundJob, task: TaskId, streams: Vec<OutputStream>) -> Self {
        let last_node = match &found.job.phase {
            Phase::Ended(end) => end.allocations.iter().find(|it| it.task == task),
            _ => None,
        };
        let last_node = last_node.map(|allocation| allocation.node.clone());
        Self { api, task, streams, owner: found.spec.owner.uid, last_node, agent: None }
    }

    /// Reads a part.
    ///
    /// # Errors
    /// The agent that has it does not answer, or the server is stopping.
    pub async fn read(
        &mut self,
        start: OutputStart,
        since: Option<Timestamp>,
    ) -> Result<OutputPart, ApiError> {
        let (task, owner, streams) = (self.task, self.owner, self.streams.clone());
        let question =
            FileQuestion::Output(OutputRequest { task, streams, owner: Some(owner), start, since });
        match self.ask(question).await? {
            Some(FileAnswer::Output(part)) => Ok(part),
            _ => Ok(OutputPart::Missing),
        }
    }

    /// Returns the paths of the files on the node of the task.
    pub async fn paths(&mut self) -> Result<LogFiles, ApiError> {
        match self.ask(FileQuestion::OutputPaths { task: self.task }).await? {
            Some(FileAnswer::OutputPaths { stdout, stderr }) => Ok(LogFiles { stdout, stderr }),
            _ => Ok(LogFiles::default()),
        }
    }

    /// Asks the agent that has the files; `None` if no agent has any.
    async fn ask(&mut self, question: FileQuestion) -> Result<Option<FileAnswer>, ApiError> {
        if let Some(agent) = &self.agent {
            let answer = agent.files(question).await;
            return Ok(Some(answer.ok_or_else(|| not_reached(agent.node()))?));
        }
        match self.holder().await? {
            OutputLocation::Unplaced => return Ok(None),
            OutputLocation::Node(node) => self.last_node = Some(node),
            OutputLocation::Any => {}
        }
        if let Some(agent) = self.last_node.as_ref().and_then(|node| self.api.handle.agent(node)) {
            let answer = agent.files(question.clone()).await;
            let answer = answer.ok_or_else(|| not_reached(agent.node()))?;
            if trace(&answer) != Trace::None {
                self.agent = Some(agent);
                return Ok(Some(answer));
            }
        }
        let mut others = self.api.handle.agents();
        others.retain(|agent| Some(agent.node()) != self.last_node.as_ref());
        let answers = join_all(others.iter().map(|agent| agent.files(question.clone()))).await;
        let mut silent = None;
        let mut best = (Trace::None, None);
        for (agent, answer) in others.into_iter().zip(answers) {
            let Some(answer) = answer else {
                silent = Some(agent);
                continue;
            };
            match trace(&answer) {
                Trace::Files => {
                    self.agent = Some(agent);
                    return Ok(Some(answer));
                }
                trace if trace > best.0 => best = (trace, Some(answer)),
                _ => {}
            }
        }
        // It may be the one that has the output.
        silent.map_or(Ok(best.1), |agent| Err(not_reached(agent.node()).into()))
    }

    async fn holder(&self) -> Result<OutputLocation, ApiError> {
        let task = self.task;
        let look = move |view: &View<'_>| {
            let job = view.world.job(task.job).map(|row| &row.job);
            let Some(job) = job.filter(|job| job.attempt == task.attempt) else {
                return OutputLocation::Any;
            };
            let allocation = job.phase.allocations().iter().find(|it| it.task == task);
            allocation.map_or(OutputLocation::Unplaced, |it| OutputLocation::Node(it.node.clone()))
        };
        Ok(self.api.handle.query(look).await?)
    }
}

/// What an agent has of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trace {
    None,
    /// The folder of its run, which other tasks of the run on that node have too.
    Folder,
    Files,
}

fn trace(answer: &FileAnswer) -> Trace {
    match answer {
        FileAnswer::Output(OutputPart::Missing) => Trace::None,
        FileAnswer::Output(OutputPart::Unwritten) => Trace::Folder,
        FileAnswer::Output(_) => Trace::Files,
        FileAnswer::OutputPaths { stdout: None, stderr: None } => Trace::None,
        FileAnswer::OutputPaths { .. } => Trace::Files,
        FileAnswer::OldJobs(_) | FileAnswer::RemovedJobs(_) => Trace::None,
    }
}

fn not_reached(node: &NodeName) -> Problem {
    let what = format!("the agent of node {node} does not answer");
    Problem::new(catalogue::NODE_NOT_REACHED, what).try_this("gpool nodes")
}
