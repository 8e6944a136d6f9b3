//! The tools: one for each question, and three that change something.

use gpool_cli::args::mcp::McpScope;
use gpool_cli::failure::Result;
use gpool_cli::session::Session;
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::field::{Field, FieldKind};
use crate::{asks, changes};

/// A tool.
pub struct Tool {
    pub name: &'static str,
    /// Its description for the assistant.
    pub about: &'static str,
    /// The permission that it needs; tools that only read need none.
    pub scope: Option<McpScope>,
    pub fields: &'static [Field],
    /// Answers a call.
    pub run: fn(&Session, &Arguments) -> Result<Value>,
}

const fn needed(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, kind, about, is_required: true }
}

const fn optional(name: &'static str, kind: FieldKind, about: &'static str) -> Field {
    Field { name, kind, about, is_required: false }
}

const JOB: Field = needed(
    "job",
    FieldKind::Text,
    "ID of the job (17, or 17.3 for an element of an array), its name, or @ for your newest job",
);

/// The fields of a job to submit, in the form of the API.
const REQUEST: &[Field] = &[
    needed("command", FieldKind::Texts, "program and arguments, e.g. [\"python\", \"train.py\"]"),
    optional("name", FieldKind::Text, "name of the job"),
    optional(
        "gpus",
        FieldKind::Text,
        "GPUs of each task, e.g. 2, a100:2, a100|h100:2, 40G..:1, 0.5; default: none",
    ),
    optional("cpus", FieldKind::Text, "CPU cores, e.g. 4"),
    optional("mem", FieldKind::Text, "memory, e.g. 20G"),
    optional("time", FieldKind::Text, "time limit, e.g. 1h30m"),
    optional("nodes", FieldKind::Text, "number of nodes; their tasks start together"),
    optional("project", FieldKind::Text, "project to charge"),
    optional("pool", FieldKind::Text, "pool of nodes"),
    optional("group", FieldKind::Text, "group of jobs, e.g. tuning/trial"),
    optional("image", FieldKind::Text, "image of a container to run in"),
    optional("directory", FieldKind::Text, "working directory; default: that of this server"),
    optional("environment", FieldKind::Map, "environment variables by name"),
    optional("after", FieldKind::Texts, "IDs of jobs that must succeed before"),
    optional("note", FieldKind::Text, "note to show with the job"),
    optional("preemptible", FieldKind::Flag, "whether other jobs may take its GPUs"),
    optional("hold", FieldKind::Flag, "whether it waits until a user releases it"),
];

/// All tools.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "why",
        about: "Explains why a job waits or runs where it does: reasons with numbers, the likely \
                start, and what would help",
        scope: None,
        fields: &[JOB],
        run: asks::why,
    },
    Tool {
        name: "queue",
        about: "Lists jobs that have not ended, or ended ones by state: ID, name, user, state, \
                GPUs, times and the first reason to wait",
        scope: None,
        fields: &[
            optional(
                "state",
                FieldKind::Text,
                "states, e.g. pending, running,paused or failed; all includes ended jobs",
            ),
            optional("user", FieldKind::Text, "only jobs of this user"),
            optional("project", FieldKind::Text, "only jobs of this project"),
            optional("group", FieldKind::Text, "only jobs of this group"),
            optional("limit", FieldKind::Number, "the most jobs; default: 20, at most 200"),
        ],
        run: asks::queue,
    },
    Tool {
        name: "gpus",
        about: "Lists the GPUs of the cluster with model, memory, state, use and jobs",
        scope: None,
        fields: &[],
        run: asks::gpus,
    },
    Tool {
        name: "job",
        about: "Shows a job: its request, state, times and GPUs, the last lines of its output, and \
                its usage compared with its request",
        scope: None,
        fields: &[
            JOB,
            optional("lines", FieldKind::Number, "lines of output; default: 20, at most 500"),
        ],
        run: asks::job,
    },
    Tool {
        name: "waste",
        about: "Lists jobs by the GPU time that they hold and do not use",
        scope: None,
        fields: &[optional("limit", FieldKind::Number, "the most jobs; default: 10")],
        run: asks::waste,
    },
    Tool {
        name: "quota",
        about: "Shows quota, usage and loans of projects",
        scope: None,
        fields: &[],
        run: asks::quota,
    },
    Tool {
        name: "what_if",
        about: "Simulates changes without making them, and shows the jobs that start sooner or \
                later",
        scope: None,
        fields: &[
            optional(
                "changes",
                FieldKind::Texts,
                "changes in order, e.g. [\"drain n3\", \"project red guaranteed=8\"]; none: the \
                 present course",
            ),
            optional("for", FieldKind::Text, "time span to simulate, at most 48h, e.g. 2h"),
            optional("past", FieldKind::Text, "also run past jobs once more, e.g. 7d"),
        ],
        run: asks::what_if,
    },
    Tool {
        name: "preview",
        about: "Says whether a job would start at once, when it would, and which jobs it would \
                delay, without submitting it",
        scope: Some(McpScope::Submit),
        fields: REQUEST,
        run: changes::preview,
    },
    Tool {
        name: "submit",
        about: "Submits a job and shows it with its ID",
        scope: Some(McpScope::Submit),
        fields: REQUEST,
        run: changes::submit,
    },
    Tool {
        name: "cancel",
        about: "Ends running jobs and removes waiting ones",
        scope: Some(McpScope::Cancel),
        fields: &[needed("jobs", FieldKind::Texts, "IDs of the jobs, or @ for your newest job")],
        run: changes::cancel,
    },
];

impl Tool {
    /// Whether the tool only reads.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.scope.is_none() || self.name == "preview"
    }

    /// The JSON schema of its arguments.
    #[must_use]
    pub fn schema(&self) -> Map<String, Value> {
        let property = |field: &Field| {
            let mut property = match field.kind {
                FieldKind::Text => json!({"type": "string"}),
                FieldKind::Number => json!({"type": "integer", "minimum": 0}),
                FieldKind::Flag => json!({"type": "boolean"}),
                FieldKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
                FieldKind::Map => {
                    json!({"type": "object", "additionalProperties": {"type": "string"}})
                }
            };
            property["description"] = field.about.into();
            (field.name.to_owned(), property)
        };
        let properties: Map<String, Value> = self.fields.iter().map(property).collect();
        let required = self.fields.iter().filter(|field| field.is_required);
        let required: Vec<&str> = required.map(|field| field.name).collect();
        let schema = [
            ("type", json!("object")),
            ("properties", Value::Object(properties)),
            ("required", json!(required)),
            ("additionalProperties", json!(false)),
        ];
        schema.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
