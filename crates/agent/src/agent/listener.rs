//! Takes the server's messages: passes orders on to the agent's thread, and answers questions about
//! recent values at once.

use std::sync::Arc;

use gpool_link::{AgentInbox, ServerLink};
use gpool_model::id::Incarnation;
use gpool_protocol::{Answer, Question, QuestionId, ToAgent, ToServer};

use super::division::Division;
use super::input::{Input, InputSender};
use super::recent::RecentValues;
use super::streams::StreamRequest;

struct Listener {
    incarnation: Incarnation,
    server: Arc<dyn ServerLink>,
    inputs: InputSender,
    recent: RecentValues,
}

/// Returns the agent as its link calls it.
pub(super) fn inbox(
    incarnation: &Incarnation,
    server: &Arc<dyn ServerLink>,
    inputs: &InputSender,
    recent: &RecentValues,
) -> Arc<dyn AgentInbox> {
    let (incarnation, server) = (incarnation.clone(), Arc::clone(server));
    Arc::new(Listener { incarnation, server, inputs: inputs.clone(), recent: recent.clone() })
}

impl Listener {
    fn answer(&self, id: QuestionId, question: Question) {
        let answer = match question {
            Question::Stream { task, opening } => {
                let request = StreamRequest { question: id, task, opening };
                return self.inputs.send(Input::Open(Box::new(request)));
            }
            Question::MigInstances { change } => {
                let division = Division { question: id, change };
                return self.inputs.send(Input::Divide(Box::new(division)));
            }
            Question::DevicePoints { device, since } => {
                Answer::DevicePoints(self.recent.of_device(&device, since))
            }
            Question::Metrics { job, since } => Answer::Metrics(self.recent.metrics(job, since)),
        };
        self.server.send(&ToServer::Answer { id, answer });
    }
}

impl AgentInbox for Listener {
    fn message(&self, message: ToAgent) {
        match message {
            ToAgent::Order { to, order } => {
                if to.is_none_or(|to| to == self.incarnation) {
                    self.inputs.send(Input::Order(Box::new(order)));
                } else {
                    tracing::debug!(?order, "dropped an order for another run of the agent");
                }
            }
            ToAgent::Question { id, question } => self.answer(id, question),
        }
    }
}
