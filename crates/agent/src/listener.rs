//! Takes the server's messages: passes orders on to the agent's thread, and answers questions that
//! need nothing of it.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use gpool_link::{AgentInbox, ServerLink};
use gpool_model::id::{Incarnation, JobId};
use gpool_output::JobFiles;
use gpool_protocol::{Answer, FileQuestion, Question, QuestionId, ToAgent, ToServer};

use crate::input::{Division, InputSender, StreamRequest, ThreadInput};
use crate::recent::RecentValues;
use gpool_shepherd::survey;

struct Listener {
    incarnation: Incarnation,
    server: Arc<dyn ServerLink>,
    inputs: InputSender,
    recent: RecentValues,
    /// The agent's state folder, and those of agents that are gone.
    state_dirs: Arc<[PathBuf]>,
    files: JobFiles,
    /// Whether the IDs of users differ from those of the server.
    has_own_ids: bool,
}

/// Returns the agent as its link calls it.
pub(crate) fn inbox(
    incarnation: &Incarnation,
    server: &Arc<dyn ServerLink>,
    inputs: &InputSender,
    recent: &RecentValues,
    (state_dirs, has_own_ids): (Arc<[PathBuf]>, bool),
) -> Arc<dyn AgentInbox> {
    Arc::new(Listener {
        incarnation: incarnation.clone(),
        server: Arc::clone(server),
        inputs: inputs.clone(),
        recent: recent.clone(),
        files: JobFiles::new(Arc::clone(&state_dirs)),
        state_dirs,
        has_own_ids,
    })
}

impl Listener {
    fn answer(&self, id: QuestionId, question: Question) {
        let answer = match question {
            Question::Stream { task, opening } => {
                let request = StreamRequest { question: id, task, opening };
                return self.inputs.send(ThreadInput::Open(Box::new(request)));
            }
            Question::MigInstances { change } => {
                let division = Division { question: id, change };
                return self.inputs.send(ThreadInput::Divide(Box::new(division)));
            }
            Question::DevicePoints { device, since } => {
                Answer::DevicePoints(self.recent.of_device(&device, since))
            }
            Question::Metrics { job, since } => Answer::Metrics(self.recent.metrics(job, since)),
            Question::Files(question) => return self.read_files(id, question),
            Question::Launched { jobs } => return self.find_launched(id, jobs),
        };
        self.server.send(&ToServer::Answer { id, answer });
    }

    fn read_files(&self, id: QuestionId, mut question: FileQuestion) {
        if let (FileQuestion::Output(request), true) = (&mut question, self.has_own_ids) {
            // Then the owner of the run's folder, which the shepherd made.
            request.owner = None;
        }
        let server = Arc::clone(&self.server);
        let reply = move |answer| {
            server.send(&ToServer::Answer { id, answer: Answer::Files(answer) });
        };
        if let Err(error) = self.files.answer(question, Box::new(reply)) {
            tracing::error!(%error, "can't start a thread that reads files of jobs");
        }
    }

    fn find_launched(&self, id: QuestionId, jobs: BTreeSet<JobId>) {
        let (server, state_dirs) = (Arc::clone(&self.server), Arc::clone(&self.state_dirs));
        let find = move || {
            let answer = Answer::Launched(survey::launched(&state_dirs, &jobs));
            server.send(&ToServer::Answer { id, answer });
        };
        // The folders of many jobs are there: the caller does not wait for the disk.
        if let Err(error) = std::thread::Builder::new().name("launched".into()).spawn(find) {
            tracing::error!(%error, "can't start a thread that finds launched tasks");
        }
    }
}

impl AgentInbox for Listener {
    fn message(&self, message: ToAgent) {
        match message {
            ToAgent::Welcome { lease, .. } => {
                lease.into_iter().for_each(|terms| self.inputs.send(ThreadInput::Lease(terms)));
            }
            // The link repeats the hello with each connection, so an upgraded server takes it.
            ToAgent::Refused { version, release } => tracing::error!(
                server = release,
                agent = env!("CARGO_PKG_VERSION"),
                "the server speaks version {version} of the protocol and refuses this agent, \
                 which speaks {}: upgrade the older of the two; running jobs go on",
                gpool_protocol::VERSION,
            ),
            ToAgent::Renewed { beat } => self.inputs.send(ThreadInput::Renewed(beat)),
            ToAgent::Order { to, beat, order } => {
                if to.is_none_or(|to| to == self.incarnation) {
                    self.inputs.send(ThreadInput::Order(Box::new(order), beat));
                } else {
                    tracing::debug!(?order, "dropped an order for another run of the agent");
                }
            }
            ToAgent::Question { id, question } => self.answer(id, question),
        }
    }
}
