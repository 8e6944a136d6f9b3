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

/// How gpool treats a key of a step, or an item.
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

const DISPLAY_ONLY: &str = "only Valohai's web pages show it";
const POOL: &str = "it is the pool of that name, or that of gpool.toml or --environment-pool";
const SETTINGS: &str = "it is part of Valohai's project settings";

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
        no("category", Text, DISPLAY_ONLY),
        no("description", Text, DISPLAY_ONLY),
        no("icon", Text, DISPLAY_ONLY),
        partly("environment", Text, POOL),
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
        no("description", Text, DISPLAY_ONLY),
        yes("optional", Bool),
    ],
};

static INPUT: Shape = Shape {
    name: "input",
    required: &["name"],
    fields: &[
        yes("name", Kind::ShortText(64)),
        yes("default", TextOrList),
        no("description", Text, DISPLAY_ONLY),
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
    fields: &[no("name", Text, "gpool keeps every output"), no("description", Text, DISPLAY_ONLY)],
};

static PARAMETER: Shape = Shape {
    name: "parameter",
    required: &["name"],
    fields: &[
        yes("name", Text),
        yes("type", Kind::Choice(&["flag", "float", "integer", "string"])),
        yes("default", Any),
        yes("optional", Bool),
        no("description", Text, DISPLAY_ONLY),
        no("category", Text, DISPLAY_ONLY),
        yes("choices", Kind::AnyList),
        yes("min", Number),
        yes("max", Number),
        yes("pass-as", Text),
        yes("pass-true-as", Text),
        yes("pass-false-as", Text),
        yes("multiple", Kind::Choice(&["none", "repeat", "separate"])),
        yes("multiple-separator", Text),
        no("widget", Kind::Widget, DISPLAY_ONLY),
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
    fields: &[no("type", Text, DISPLAY_ONLY), no("settings", Kind::Mapping, DISPLAY_ONLY)],
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
        yes("type", Text),
        yes("description", Text),
        no("engine", Text, "Optuna chooses the values"),
        yes("execution-count", Integer),
        partly("execution-batch-size", Integer, "of Bayesian tasks; others are queued at once"),
        no("maximum-queued-executions", Integer, "all executions are queued at once"),
        yes("optimization-target-metric", Text),
        yes("optimization-target-value", Number),
        partly("on-child-error", Text, "other executions go on; gpool cancel group:TASK ends them"),
        no("reuse-children", Bool, "each execution runs"),
        no("stop-condition", Text, "gpool cancel group:TASK ends the others"),
        yes("parameters", List(&Kind::Shape(&VARIANT))),
        yes("parameter-sets", List(&Kind::Mapping)),
    ],
};

static VARIANT: Shape = Shape {
    name: "parameter of a task",
    required: &["name", "rules", "style"],
    fields: &[
        yes("name", Text),
        yes("style", Kind::Choice(&["linear", "logspace", "multiple", "random", "single"])),
        yes("rules", Kind::Shape(&RULES)),
    ],
};

static RULES: Shape = Shape {
    name: "rules",
    required: &[],
    fields: &[
        yes("base", Number),
        yes("count", Number),
        yes("distribution", Text),
        yes("end", Number),
        yes("integerify", Bool),
        yes("items", List(&Kind::Scalar)),
        yes("max", Number),
        yes("min", Number),
        yes("numberify", Bool),
        yes("seed", Number),
        yes("start", Number),
        yes("step", Number),
        yes("value", Number),
    ],
};

// Marks of the kinds below that are supported, or depend on other keys, are not read.

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
        no("category", Text, DISPLAY_ONLY),
        no("description", Text, DISPLAY_ONLY),
    ],
};

const NODE_ERRORS: Kind = Kind::Choice(&["stop-all", "stop-next", "continue", "retry"]);
const STOP_ALL: &str = "stop-all also lets nodes go on that do not need the failed one";
const MERGE_MODES: Kind = Kind::Choice(&["replace", "append"]);
const ACTIONS: Kind = List(&Kind::Shape(&ACTION));

pub static EXECUTION_NODE: Shape = Shape {
    name: "execution node",
    required: &["name", "step", "type"],
    fields: &[
        yes("name", Text),
        yes("type", Kind::Choice(&["execution"])),
        yes("step", Text),
        yes("override", Kind::Shape(&OVERRIDE)),
        partly("on-error", NODE_ERRORS, STOP_ALL),
        yes("edge-merge-mode", MERGE_MODES),
        yes("actions", ACTIONS),
        yes("commit", Text),
    ],
};

pub static TASK_NODE: Shape = Shape {
    name: "task node",
    required: &["name", "type"],
    fields: &[
        yes("name", Text),
        yes("type", Kind::Choice(&["task"])),
        yes("step", Text),
        yes("task", Text),
        yes("override", Kind::Shape(&OVERRIDE)),
        partly("on-error", NODE_ERRORS, STOP_ALL),
        yes("edge-merge-mode", MERGE_MODES),
        yes("actions", ACTIONS),
        yes("commit", Text),
    ],
};

pub static DEPLOYMENT_NODE: Shape = Shape {
    name: "deployment node",
    required: &["name", "deployment", "type"],
    fields: &[
        yes("name", Text),
        yes("type", Kind::Choice(&["deployment"])),
        yes("deployment", Text),
        yes("endpoints", List(&Text)),
        yes("aliases", List(&Text)),
        yes("on-error", Kind::Choice(&["stop-all", "stop-next", "continue"])),
        yes("actions", ACTIONS),
    ],
};

static OVERRIDE: Shape = Shape {
    name: "override",
    required: &[],
    fields: &[
        yes("autorestart", Bool),
        yes("command", TextOrList),
        partly("environment", Text, POOL),
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
    fields: &[yes("when", TextOrList), yes("then", TextOrList), yes("if", TextOrList)],
};

pub static EDGE: Shape = Shape {
    name: "edge",
    required: &["source", "target"],
    fields: &[
        yes("source", Text),
        yes("target", Text),
        no("configuration", Kind::Mapping, "edges pass all files and values that they name"),
    ],
};

pub static ENDPOINT: Shape = Shape {
    name: "endpoint",
    required: &["name", "image"],
    fields: &[
        yes("name", Kind::Slug),
        yes("image", Text),
        yes("description", Text),
        yes("files", List(&Kind::Shape(&FILE))),
        yes("node-selector", Kind::Selector),
        yes("port", Kind::Within(1025.0, 65535.0)),
        yes("resources", Kind::Shape(&ENDPOINT_RESOURCES)),
        yes("server-command", TextOrList),
        yes("wsgi", Text),
        yes("shared-volumes", List(&Kind::Shape(&SHARED_VOLUME))),
        yes("tolerations", List(&Kind::Shape(&TOLERATION))),
        yes("workspace-volume", Kind::Shape(&WORKSPACE_VOLUME)),
    ],
};

static FILE: Shape = Shape {
    name: "file",
    required: &["name", "path"],
    fields: &[yes("name", Text), yes("path", Text), yes("description", Text)],
};

static WHOLE_LIMITS: Shape =
    Shape { name: "range", required: &[], fields: &[yes("min", Integer), yes("max", Integer)] };

static ENDPOINT_RESOURCES: Shape = Shape {
    name: "resources",
    required: &[],
    fields: &[
        yes("cpu", Kind::Shape(&LIMITS)),
        yes("memory", Kind::Shape(&LIMITS)),
        yes("devices", Kind::Devices),
        yes("ephemeral-storage", Kind::Shape(&WHOLE_LIMITS)),
    ],
};

static SHARED_VOLUME: Shape = Shape {
    name: "shared volume",
    required: &["pvc-name", "mount-path"],
    fields: &[
        yes("pvc-name", Text),
        yes("mount-path", Text),
        yes("sub-path", Text),
        yes("read-only", Bool),
    ],
};

static WORKSPACE_VOLUME: Shape = Shape {
    name: "workspace volume",
    required: &["mount-path", "size"],
    fields: &[
        yes("mount-path", Text),
        yes("size", Kind::Within(1.0, f64::INFINITY)),
        yes("storage-class-name", Text),
    ],
};

pub static TOLERATION: Shape = Shape {
    name: "toleration",
    required: &[],
    fields: &[
        yes("key", Text),
        yes("operator", Kind::Choice(&["Exists", "Equal"])),
        yes("value", Text),
        yes("effect", Kind::Choice(&["PreferNoSchedule", "NoSchedule", "NoExecute"])),
    ],
};

pub static DEPLOYMENT: Shape = Shape {
    name: "deployment",
    required: &["name"],
    fields: &[yes("name", Text), yes("defaults", Kind::Mapping)],
};

/// The items of the file by their key.
pub static ITEMS: [(&str, &Shape); 4] =
    [("step", &STEP), ("task", &TASK), ("pipeline", &PIPELINE), ("endpoint", &ENDPOINT)];
