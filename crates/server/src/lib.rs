//! The server: the thread that owns the state machine, the store's committer, the links to the
//! agents, and what runs beside them. It decides nothing about jobs; that is `control`'s. Its API
//! is passed in ([`run::ServeApi`]).

#![forbid(unsafe_code)]

pub mod account;
pub mod agent_view;
pub mod agents;
pub mod alert;
pub mod answers;
pub mod budgets;
pub mod clock;
pub mod commands;
pub mod config;
pub mod controllers;
pub mod core;
pub mod digest;
pub mod elements;
pub mod encoder;
pub mod environments;
pub mod evictions;
pub mod fault;
pub mod feed;
pub mod files;
pub mod forecast;
pub mod handle;
pub mod input;
pub mod launch_files;
pub mod lease;
pub mod limits;
pub mod listen;
pub mod listeners;
pub mod live;
pub mod lost;
pub mod older;
pub mod output;
pub mod reads;
pub mod recorder;
pub mod recovery;
pub mod room;
pub mod run;
pub mod settle;
pub mod still;
pub mod subscriptions;
pub mod unused_files;
pub mod view;

/// Files and folders of the state folder that belong into backups with the store: tokens and rules,
/// the machines of the cluster, the audit log, and the keys that clients and receivers of messages
/// have pinned.
pub const BACKED_UP: [&str; 6] = [
    ACCESS_FILE,
    gpool_identity::nodes::FILE,
    gpool_identity::audit::FOLDER,
    gpool_identity::tls::AUTHORITY_FILE,
    gpool_post::KEY_FILE,
    gpool_identity::secrets::FOLDER,
];

pub use config::ServerConfig;
pub use environments::KEPT_USUALLY as ENVIRONMENT_KEPT_USUALLY;
pub use gpool_identity::access::FILE as ACCESS_FILE;
pub use gpool_identity::sign_in::{ProviderConfig, SameNames};
pub use gpool_insight::lives::settings::{Detail, Telemetry, TraceUrl, Traces};
pub use gpool_insight::lives::trace::context_of as trace_context;
pub use gpool_oidc::Settings as ProviderSettings;
pub use gpool_post::{
    Allowed, BadAllowed, BadRelay, MailSettings, NotifySettings, Relay, chat_text,
};
pub use handle::{CoreHandle, ServerInfo, StopRequest};
pub use lease::NODE_LEASE_USUALLY;
pub use limits::Limits;
pub use run::{StopAgent, run};

pub use gpool_identity::audit::{Broken as BrokenAudit, verify as verify_audit};
pub use gpool_identity::tls::{NetworkConfig, SiteFiles};
pub use gpool_identity::web::WebAddress;
pub use view::View;
