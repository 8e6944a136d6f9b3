//! The agent's memory of finished tasks.

use std::collections::{BTreeMap, VecDeque};

use gpool_model::id::{Generation, TaskId};

/// Tasks that are over here: no late order may launch them again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    /// The highest generation that is refused; `None` refuses all.
    tasks: BTreeMap<TaskId, Option<Generation>>,
    /// The same tasks, oldest first.
    order: VecDeque<TaskId>,
}

impl Done {
    /// Most tasks that are kept. An order that is this late belongs to an old term.
    pub const MOST: usize = 65_536;

    pub fn insert(&mut self, task: TaskId, generation: Option<Generation>) {
        match self.tasks.insert(task, generation) {
            // A finished task stays finished, and refused generations stay refused.
            Some(None) => {
                self.tasks.insert(task, None);
            }
            Some(Some(before)) => {
                self.tasks.insert(task, generation.map(|generation| generation.max(before)));
            }
            None => self.order.push_back(task),
        }
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.tasks.remove(&oldest);
        }
    }

    pub fn is_over(&self, task: TaskId) -> bool {
        self.tasks.get(&task).is_some_and(Option::is_none)
    }

    pub fn bars(&self, task: TaskId, generation: Generation) -> bool {
        self.tasks.get(&task).is_some_and(|barred| barred.is_none_or(|up_to| generation <= up_to))
    }
}
