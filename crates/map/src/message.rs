//! The messages between the driver of a map and its workers, as lines of JSON, and the lines
//! between a worker and its program.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ledger::{ItemNumber, WorkerName};

/// An item with its value, which the program reads as a line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its number.
    pub id: ItemNumber,
    /// Its value: a text, or what a line of JSON has.
    pub item: Value,
}

/// What a worker tells the driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// The first message of a connection.
    Hello {
        /// The worker.
        worker: WorkerName,
        /// The items that it still has from an earlier connection.
        in_flight: Vec<ItemNumber>,
    },
    /// It can take this number of items more.
    Want(usize),
    /// It handled an item.
    Done {
        /// The item.
        id: ItemNumber,
        /// What the program says of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Value>,
    },
    /// Its program can't handle an item.
    Failed {
        /// The item.
        id: ItemNumber,
        /// Why.
        why: String,
    },
    /// Its program ended while it had these items.
    Crashed {
        /// The items in flight.
        ids: Vec<ItemNumber>,
        /// How it ended.
        why: String,
    },
}

/// What the driver tells a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// Items to handle.
    Items(Vec<Item>),
    /// These items are stored: the worker need not repeat its messages about them.
    Recorded(Vec<ItemNumber>),
    /// There is nothing left to do.
    Finished,
}

/// A line of a program that acknowledges an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It handled the item.
    Done(ItemNumber, Option<Value>),
    /// It can't handle the item.
    Failed(ItemNumber, String),
}

#[derive(Deserialize)]
struct AnswerLine {
    gpool: AnswerBody,
}

#[derive(Deserialize)]
struct AnswerBody {
    done: Option<ItemNumber>,
    result: Option<Value>,
    failed: Option<ItemNumber>,
    why: Option<String>,
}

impl Answer {
    /// Reads `{"gpool": {"done": 17, "result": 0.3}}` or `{"gpool": {"failed": 17, "why": "…"}}`;
    /// `None` for any other line.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        if !line.starts_with("{\"gpool\"") {
            return None;
        }
        let AnswerLine { gpool } = serde_json::from_str(line).ok()?;
        match (gpool.done, gpool.failed) {
            (Some(id), None) => Some(Self::Done(id, gpool.result)),
            (None, Some(id)) => Some(Self::Failed(id, gpool.why.unwrap_or_default())),
            _ => None,
        }
    }
}
