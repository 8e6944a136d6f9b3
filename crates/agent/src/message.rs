//! What agent and shepherd say to each other: lines of JSON; after the first one of the agent, the
//! bytes that it announces.

use std::path::PathBuf;

use gpool_model::agent::{TaskEnd, TaskOrder};
use gpool_model::attach::{NotOpened, Opening};
use gpool_model::id::{Generation, TaskId};
use gpool_model::unit::{Bytes, Millis, Timestamp};
use gpool_model::{ArrayValues, placeholder};
use gpool_sys::cgroup::Site;
use serde::{Deserialize, Serialize};

/// What a shepherd is given to start with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// What to run.
    pub order: TaskOrder,
    /// The agent's state directory.
    pub state_dir: PathBuf,
    /// Where control groups can be made.
    pub site: Site,
    /// Most processes and threads of the task.
    pub pids_max: Option<u32>,
    /// Size at which gpool's own output files are cut.
    pub output_limit: Bytes,
    /// The socket of the API, for the job's environment.
    pub api: Option<String>,
    /// Memory of the smallest of its devices.
    pub gpu_memory: Option<Bytes>,
    /// Set for an element of an array.
    #[serde(default)]
    pub element: Option<Element>,
    /// Length of the launch context that follows.
    pub context_bytes: usize,
    /// Length of the script that follows after it.
    pub script_bytes: Option<usize>,
}

/// What an element of an array is given beside its index.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Element {
    /// Its line or item.
    pub item: Option<String>,
    /// Its parameters, in order, each with its value.
    pub params: Vec<(String, String)>,
}

impl Element {
    /// What the element with that index is given.
    pub fn of(values: &ArrayValues, index: u32) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            item: values.item(index).map(str::to_owned),
            params: values.params(index).into_iter().map(owned).collect(),
        }
    }

    /// Puts its values where a text names them.
    pub fn fill(&self, text: &str) -> String {
        let params = self.params.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        placeholder::fill(text, self.item.as_deref(), &params.collect::<Vec<_>>())
    }

    /// The variables that say what it was given.
    pub fn variables(&self) -> Vec<(String, Vec<u8>)> {
        let mut variables = Vec::new();
        if let Some(item) = &self.item {
            variables.push(("GPOOL_ITEM".to_owned(), item.clone().into_bytes()));
        }
        if self.params.is_empty() {
            return variables;
        }
        let all: serde_json::Map<String, serde_json::Value> =
            self.params.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
        let all = serde_json::Value::Object(all).to_string();
        variables.push(("GPOOL_SWEEP_PARAMS".to_owned(), all.into_bytes()));
        let one = |(name, value): &(String, String)| {
            let name = format!("GPOOL_PARAM_{}", name.to_ascii_uppercase());
            (name, value.clone().into_bytes())
        };
        variables.extend(self.params.iter().map(one));
        variables
    }
}

/// What an agent tells a shepherd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to_shepherd", rename_all = "snake_case")]
pub(crate) enum ToShepherd {
    /// End the task.
    Stop {
        /// Between TERM and KILL.
        grace: Millis,
        /// What its process group is sent in place of TERM.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// Its time limit is another one.
    Limit {
        /// Of the order: a later one has the last word.
        generation: Generation,
        /// The limit, counted from its start.
        limit: Option<Millis>,
    },
    /// Stop its processes where they are.
    Pause {
        /// Of the order: a later one has the last word.
        generation: Generation,
    },
    /// Let its processes go on.
    Resume {
        /// Of the order.
        generation: Generation,
    },
    /// Send its processes a signal.
    Signal {
        /// The signal's number.
        signal: i32,
    },
    /// The end is durable.
    Acknowledge,
    /// Open something towards the task, over a new line to this agent.
    Open {
        /// Which line it shall be.
        line: u64,
        /// What is to be opened.
        opening: Opening,
    },
}

/// What a shepherd tells an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from_shepherd", rename_all = "snake_case")]
pub(crate) enum FromShepherd {
    /// Said first to an agent that did not start it.
    Hello {
        /// Whose shepherd it is.
        task: TaskId,
    },
    /// Said first, and alone, on a line that was asked for. What follows is no message.
    Line {
        /// Whose shepherd it is.
        task: TaskId,
        /// Which line.
        line: u64,
        /// Why it is of no use, if it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_opened: Option<NotOpened>,
    },
    /// Somebody else has launched the task; this shepherd does nothing and goes.
    AlreadyClaimed,
    /// The program was started.
    Started {
        /// Its process id.
        pid: u32,
        /// When.
        at: Timestamp,
    },
    /// Its time limit is that of this generation, and that is on file.
    Limited {
        /// Of the order.
        generation: Generation,
    },
    /// Its processes are stopped where they are, and that is on file.
    Paused {
        /// Of the order.
        generation: Generation,
    },
    /// Its processes go on.
    Resumed {
        /// Of the order.
        generation: Generation,
    },
    /// Its processes could not be stopped, and go on.
    NotPaused {
        /// Of the order.
        generation: Generation,
    },
    /// The task has ended: no process of it is left, and its output is on file.
    Ended {
        /// How.
        end: TaskEnd,
    },
}

/// A message as it goes over the socket.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages have string keys only");
    line.push(b'\n');
    line
}

/// Takes the complete lines off the front of what was read; lines that make no sense are left out.
pub(crate) fn take_lines<T: for<'de> Deserialize<'de>>(input: &mut Vec<u8>) -> Vec<T> {
    let Some(end) = input.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    let rest = input.split_off(end + 1);
    let complete = std::mem::replace(input, rest);
    complete
        .split_inclusive(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_whole_and_strange_ones_not_at_all() {
        let mut input = line(&ToShepherd::Acknowledge);
        input.extend(b"nonsense\n");
        input.extend(line(&ToShepherd::Signal { signal: 10 }));
        input.extend(b"{\"to_sh");
        let messages: Vec<ToShepherd> = take_lines(&mut input);
        assert_eq!(messages, [ToShepherd::Acknowledge, ToShepherd::Signal { signal: 10 }]);
        assert_eq!(input, b"{\"to_sh");
        assert!(take_lines::<ToShepherd>(&mut input).is_empty());
    }
}
