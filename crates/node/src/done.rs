//! What an agent remembers of tasks that are over.

use std::collections::{BTreeMap, VecDeque};

use gpool_model::id::{Generation, TaskId};

/// Tasks that are over here: no late order may launch them again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done {
    /// Up to which generation orders are refused; `None` is all of them.
    tasks: BTreeMap<TaskId, Option<Generation>>,
    /// The same tasks, oldest first.
    order: VecDeque<TaskId>,
}

impl Done {
    /// How many are kept. An order that is later than so many ends has long been of an old term.
    pub const MOST: usize = 65_536;

    pub fn insert(&mut self, task: TaskId, generation: Option<Generation>) {
        match self.tasks.insert(task, generation) {
            // Over for ever stays so, and what was barred is not let in again.
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
