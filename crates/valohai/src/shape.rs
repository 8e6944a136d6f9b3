//! The keys of valohai.yaml, their types, and how gpool treats each.
//! Source: Valohai's documentation of valohai.yaml, and the package valohai-yaml 0.61.

/// The type of a value.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Any,
    Text,
    /// A text of limited length, in characters.
    ShortText(usize),
    Bool,
    Integer,
    Number,
    /// A number within limits.
    Within(f64, f64),
    Choice(&'static [&'static str]),
    TextOrBool(&'static [&'static str]),
    TextOrInteger,
    TextOrList,
    /// A number, text or boolean.
    Scalar,
    /// A mapping with any keys.
    Mapping,
    AnyList,
    List(&'static Self),
    Shape(&'static Shape),
    /// A mapping from names of devices to numbers.
    Devices,
    Mount,
    Widget,
    Node,
    Edge,
    /// A name that begins with a letter and has letters, digits and dashes.
    Slug,
    /// A text with `=`.
    Selector,
}

/// How gpool treats a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Supported,
    /// Honored with this difference.
    Approximated(&'static str),
    /// Without effect, for this reason.
    Ignored(&'static str),
    /// A run that needs it fails, for this reason.
    Refused(&'static str),
}

impl Mark {
    /// The word in a list.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Approximated(_) => "approximated",
            Self::Ignored(_) => "ignored",
            Self::Refused(_) => "refused",
        }
    }

    /// The difference or reason.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Supported => "",
            Self::Approximated(why) | Self::Ignored(why) | Self::Refused(why) => why,
        }
    }
}

/// A key of a mapping.
#[derive(Debug)]
pub struct Field {
    pub key: &'static str,
    pub kind: Kind,
    pub mark: Mark,
}

/// A mapping with fixed keys.
#[derive(Debug)]
pub struct Shape {
    /// Its name in errors.
    pub name: &'static str,
    pub fields: &'static [Field],
    pub required: &'static [&'static str],
}

const fn yes(key: &'static str, kind: Kind) -> Field {
    Field { key, kind, mark: Mark::Supported }
}

const fn partly(key: &'static str, kind: Kind, why: &'static str) -> Field {
    Field { key, kind, mark: Mark::Approximated(why) }
}

const fn no(key: &'static str, kind: Kind, why: &'static str) -> Field {
    Field { key, kind, mark: Mark::Ignored(why) }
}

const fn refused(key: &'static str, kind: Kind, why: &'static str) -> Field {
    Field { key, kind, mark: Mark::Refused(why) }
}

use Kind::{Any, Bool, Integer, List, Number, Text, TextOrList};

const SHOWN: &str = "only Valohai's web pages show it";
const SETTINGS: &str = "it is part of Valohai's project settings";
const BAYESIAN: &str = "gpool runs no Bayesian search";
const DEPLOYMENTS: &str = "gpool runs no deployments";
const TASKS: &str = "gpool runs a task of this type only if it is distributed";

pub static STEP: Shape = Shape {
    name: "step",
    required: &["name", "image", "command"],
    fields: &[
        yes("name", Text),
        partly(
            "image",
            Text,
            "without a container engine, or with --no-image, steps run on the host",
        ),
        yes("command", TextOrList),
        no("category", Text, SHOWN),
        no("description", Text, SHOWN),
        no("icon", Text, SHOWN),
        partly("environment", Text, "it is the pool of that name, or of --environment-pool"),
        yes("environment-variables", List(&Kind::Shape(&ENVIRONMENT_VARIABLE))),
        no("environment-variable-groups", List(&Text), SETTINGS),
        yes("inputs", List(&Kind::Shape(&INPUT))),
        no("outputs", List(&Kind::Shape(&OUTPUT)), "gpool keeps every file in /valohai/outputs"),
        yes("parameters", List(&Kind::Shape(&PARAMETER))),
        yes("mounts", List(&Kind::Mount)),
        no("cache-volumes", List(&Text), "steps on the host share the caches of their user"),
        yes("resources", Kind::Shape(&RESOURCES)),
        no("runtime-config-preset", Text, SETTINGS),
        no("no-output-timeout", Kind::TextOrInteger, "gpool has no limit for silent jobs"),
        yes("time-limit", Kind::TextOrInteger),
        partly("source-path", Text, "commands see it as {source-path}"),
        no("stop-condition", Text, "gpool does not stop jobs by their metadata"),
        no("upload-store", Kind::ShortText(64), "outputs stay in the folder of the execution"),
        yes("autorestart", Bool),
    ],
};

pub static ENVIRONMENT_VARIABLE: Shape = Shape {
    name: "environment variable",
    required: &["name"],
    fields: &[
        yes("name", Text),
        yes("default", Text),
        no("description", Text, SHOWN),
        yes("optional", Bool),
    ],
};

static INPUT: Shape = Shape {
    name: "input",
    required: &["name"],
    fields: &[
        yes("name", Kind::ShortText(64)),
        yes("default", TextOrList),
        no("description", Text, SHOWN),
        yes("optional", Bool),
        yes("filename", Text),
        partly(
            "keep-directories",
            Kind::TextOrBool(&["none", "full", "suffix"]),
            "it applies to paths and mapped prefixes with *",
        ),
        partly("download", Kind::Choice(&["always", "on-demand"]), "inputs are always downloaded"),
    ],
};

static OUTPUT: Shape = Shape {
    name: "output",
    required: &["name"],
    fields: &[no("name", Text, "gpool keeps every output"), no("description", Text, SHOWN)],
};

static PARAMETER: Shape = Shape {
    name: "parameter",
    required: &["name"],
    fields: &[
        yes("name", Text),
        yes("type", Kind::Choice(&["flag", "float", "integer", "string"])),
        yes("default", Any),
        yes("optional", Bool),
        no("description", Text, SHOWN),
        no("category", Text, SHOWN),
        yes("choices", Kind::AnyList),
        yes("min", Number),
        yes("max", Number),
        yes("pass-as", Text),
        yes("pass-true-as", Text),
        yes("pass-false-as", Text),
        yes("multiple", Kind::Choice(&["none", "repeat", "separate"])),
        yes("multiple-separator", Text),
        no("widget", Kind::Widget, SHOWN),
    ],
};

pub static MOUNT: Shape = Shape {
    name: "mount",
    required: &["source", "destination"],
    fields: &[
        yes("source", Text),
        yes("destination", Text),
        yes("readonly", Bool),
        refused("type", Text, "gpool mounts paths of the node only"),
        no("options", Kind::Mapping, "gpool mounts paths of the node only"),
    ],
};

pub static WIDGET: Shape = Shape {
    name: "widget",
    required: &["type"],
    fields: &[no("type", Text, SHOWN), no("settings", Kind::Mapping, SHOWN)],
};

static LIMITS: Shape = Shape {
    name: "range",
    required: &[],
    fields: &[yes("min", Number), no("max", Number, "gpool reserves the minimum")],
};

static RESOURCES: Shape = Shape {
    name: "resources",
    required: &[],
    fields: &[
        yes("cpu", Kind::Shape(&LIMITS)),
        yes("memory", Kind::Shape(&LIMITS)),
        partly("devices", Kind::Devices, "nvidia.com/gpu is --gpus; others are refused"),
    ],
};

pub static TASK: Shape = Shape {
    name: "task",
    required: &["name", "step"],
    fields: &[
        yes("name", Text),
        yes("step", Text),
        partly("type", Text, "distributed, grid_search and manual_search run"),
        no("description", Text, SHOWN),
        refused("engine", Text, BAYESIAN),
        partly("execution-count", Integer, "the number of tasks of a distributed task"),
        no("execution-batch-size", Integer, BAYESIAN),
        yes("maximum-queued-executions", Integer),
        refused("optimization-target-metric", Text, BAYESIAN),
        refused("optimization-target-value", Number, BAYESIAN),
        no("on-child-error", Text, "executions of a task do not stop each other"),
        no("reuse-children", Bool, "each execution runs"),
        no("stop-condition", Text, "gpool does not stop jobs by their metadata"),
        yes("parameters", List(&Kind::Shape(&VARIANT))),
        yes("parameter-sets", List(&Kind::Mapping)),
    ],
};

static VARIANT: Shape = Shape {
    name: "parameter of a task",
    required: &["name", "rules", "style"],
    fields: &[
        yes("name", Text),
        partly(
            "style",
            Kind::Choice(&["linear", "logspace", "multiple", "random", "single"]),
            TASKS,
        ),
        yes("rules", Kind::Shape(&RULES)),
    ],
};

static RULES: Shape = Shape {
    name: "rules",
    required: &[],
    fields: &[
        yes("base", Number),
        yes("count", Number),
        refused("distribution", Text, "gpool runs no random search"),
        yes("end", Number),
        yes("integerify", Bool),
        yes("items", List(&Kind::Scalar)),
        yes("max", Number),
        yes("min", Number),
        no("numberify", Bool, "values have their types"),
        refused("seed", Number, "gpool runs no random search"),
        yes("start", Number),
        yes("step", Number),
        yes("value", Number),
    ],
};

pub static PIPELINE: Shape = Shape {
    name: "pipeline",
    required: &["name", "nodes", "edges"],
    fields: &[
        yes("name", Text),
        yes("nodes", List(&Kind::Node)),
        yes("edges", List(&Kind::Edge)),
        yes("parameters", List(&Kind::Shape(&PIPELINE_PARAMETER))),
        no("reuse-executions", Bool, "each execution runs"),
    ],
};

static PIPELINE_PARAMETER: Shape = Shape {
    name: "parameter of a pipeline",
    required: &[],
    fields: &[
        yes("name", Text),
        yes("default", Any),
        yes("target", Text),
        yes("targets", TextOrList),
        no("category", Text, SHOWN),
        no("description", Text, SHOWN),
    ],
};

const NODE_ERRORS: Kind = Kind::Choice(&["stop-all", "stop-next", "continue", "retry"]);
const MERGE_MODES: Kind = Kind::Choice(&["replace", "append"]);
const ACTIONS: Kind = List(&Kind::Shape(&ACTION));
const NO_ACTIONS: &str = "gpool has no actions of nodes";
const NO_COMMITS: &str = "gpool runs nodes from the files of the pipeline";

pub static EXECUTION_NODE: Shape = Shape {
    name: "execution node",
    required: &["name", "step", "type"],
    fields: &[
        yes("name", Text),
        yes("type", Kind::Choice(&["execution"])),
        yes("step", Text),
        yes("override", Kind::Shape(&OVERRIDE)),
        partly("on-error", NODE_ERRORS, "stop-all stops the nodes that depend on this one"),
        yes("edge-merge-mode", MERGE_MODES),
        refused("actions", ACTIONS, NO_ACTIONS),
        refused("commit", Text, NO_COMMITS),
    ],
};

pub static TASK_NODE: Shape = Shape {
    name: "task node",
    required: &["name", "type"],
    fields: &[
        yes("name", Text),
        refused("type", Kind::Choice(&["task"]), "gpool runs pipelines of executions"),
        yes("step", Text),
        yes("task", Text),
        yes("override", Kind::Shape(&OVERRIDE)),
        partly("on-error", NODE_ERRORS, "stop-all stops the nodes that depend on this one"),
        yes("edge-merge-mode", MERGE_MODES),
        refused("actions", ACTIONS, NO_ACTIONS),
        refused("commit", Text, NO_COMMITS),
    ],
};

pub static DEPLOYMENT_NODE: Shape = Shape {
    name: "deployment node",
    required: &["name", "deployment", "type"],
    fields: &[
        yes("name", Text),
        refused("type", Kind::Choice(&["deployment"]), DEPLOYMENTS),
        refused("deployment", Text, DEPLOYMENTS),
        no("endpoints", List(&Text), DEPLOYMENTS),
        no("aliases", List(&Text), DEPLOYMENTS),
        no("on-error", Kind::Choice(&["stop-all", "stop-next", "continue"]), DEPLOYMENTS),
        no("actions", ACTIONS, NO_ACTIONS),
    ],
};

static OVERRIDE: Shape = Shape {
    name: "override",
    required: &[],
    fields: &[
        yes("autorestart", Bool),
        yes("command", TextOrList),
        yes("environment", Text),
        yes("environment-variables", List(&Kind::Shape(&ENVIRONMENT_VARIABLE))),
        yes("image", Text),
        yes("inputs", List(&Kind::Shape(&INPUT))),
        yes("mounts", List(&Kind::Mount)),
        yes("parameters", List(&Kind::Shape(&PARAMETER))),
        no("runtime-config-preset", Text, SETTINGS),
    ],
};

static ACTION: Shape = Shape {
    name: "action",
    required: &["when", "then"],
    fields: &[
        refused("when", TextOrList, NO_ACTIONS),
        refused("then", TextOrList, NO_ACTIONS),
        refused("if", TextOrList, NO_ACTIONS),
    ],
};

pub static EDGE: Shape = Shape {
    name: "edge",
    required: &["source", "target"],
    fields: &[
        yes("source", Text),
        yes("target", Text),
        no("configuration", Kind::Mapping, "gpool passes all files of an output"),
    ],
};

pub static ENDPOINT: Shape = Shape {
    name: "endpoint",
    required: &["name", "image"],
    fields: &[
        refused("name", Kind::Slug, DEPLOYMENTS),
        no("image", Text, DEPLOYMENTS),
        no("description", Text, DEPLOYMENTS),
        no("files", List(&Kind::Shape(&FILE)), DEPLOYMENTS),
        no("node-selector", Kind::Selector, DEPLOYMENTS),
        no("port", Kind::Within(1025.0, 65535.0), DEPLOYMENTS),
        no("resources", Kind::Shape(&ENDPOINT_RESOURCES), DEPLOYMENTS),
        no("server-command", TextOrList, DEPLOYMENTS),
        no("wsgi", Text, DEPLOYMENTS),
        no("shared-volumes", List(&Kind::Shape(&SHARED_VOLUME)), DEPLOYMENTS),
        no("tolerations", List(&Kind::Shape(&TOLERATION)), DEPLOYMENTS),
        no("workspace-volume", Kind::Shape(&WORKSPACE_VOLUME), DEPLOYMENTS),
    ],
};

static FILE: Shape = Shape {
    name: "file",
    required: &["name", "path"],
    fields: &[
        no("name", Text, DEPLOYMENTS),
        no("path", Text, DEPLOYMENTS),
        no("description", Text, DEPLOYMENTS),
    ],
};

static WHOLE_LIMITS: Shape = Shape {
    name: "range",
    required: &[],
    fields: &[no("min", Integer, DEPLOYMENTS), no("max", Integer, DEPLOYMENTS)],
};

static ENDPOINT_RESOURCES: Shape = Shape {
    name: "resources",
    required: &[],
    fields: &[
        no("cpu", Kind::Shape(&LIMITS), DEPLOYMENTS),
        no("memory", Kind::Shape(&LIMITS), DEPLOYMENTS),
        no("devices", Kind::Devices, DEPLOYMENTS),
        no("ephemeral-storage", Kind::Shape(&WHOLE_LIMITS), DEPLOYMENTS),
    ],
};

static SHARED_VOLUME: Shape = Shape {
    name: "shared volume",
    required: &["pvc-name", "mount-path"],
    fields: &[
        no("pvc-name", Text, DEPLOYMENTS),
        no("mount-path", Text, DEPLOYMENTS),
        no("sub-path", Text, DEPLOYMENTS),
        no("read-only", Bool, DEPLOYMENTS),
    ],
};

static WORKSPACE_VOLUME: Shape = Shape {
    name: "workspace volume",
    required: &["mount-path", "size"],
    fields: &[
        no("mount-path", Text, DEPLOYMENTS),
        no("size", Kind::Within(1.0, f64::INFINITY), DEPLOYMENTS),
        no("storage-class-name", Text, DEPLOYMENTS),
    ],
};

pub static TOLERATION: Shape = Shape {
    name: "toleration",
    required: &[],
    fields: &[
        no("key", Text, DEPLOYMENTS),
        no("operator", Kind::Choice(&["Exists", "Equal"]), DEPLOYMENTS),
        no("value", Text, DEPLOYMENTS),
        no("effect", Kind::Choice(&["PreferNoSchedule", "NoSchedule", "NoExecute"]), DEPLOYMENTS),
    ],
};

pub static DEPLOYMENT: Shape = Shape {
    name: "deployment",
    required: &["name"],
    fields: &[refused("name", Text, DEPLOYMENTS), no("defaults", Kind::Mapping, DEPLOYMENTS)],
};

/// The items of the file by their key.
pub static ITEMS: [(&str, &Shape); 4] =
    [("step", &STEP), ("task", &TASK), ("pipeline", &PIPELINE), ("endpoint", &ENDPOINT)];
