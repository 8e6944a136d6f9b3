//! The server of one machine: the thread that owns the state machine, the store's committer, the
//! link to the agent of this node, and the HTTP API. It decides nothing about jobs; that is
//! `control`'s.

#![forbid(unsafe_code)]

// In builds without the API document, its macros generate nothing.
#[cfg(not(feature = "openapi"))]
extern crate gpool_schema_off as utoipa;

mod agents;
mod alert;
mod answers;
pub mod budgets;
pub mod case;
mod clock;
pub mod codec;
mod commands;
mod config;
mod core;
pub mod digest;
pub mod dump;
mod elements;
mod encoder;
mod environments;
mod evictions;
mod fault;
mod feed;
mod forecast;
pub mod handle;
pub mod history;
pub mod http;
mod input;
pub mod inspect;
mod lease;
mod limits;
mod listen;
mod listeners;
mod live;
mod lives;
mod lost;
mod mig_auto;
mod older;
mod otherwise;
mod output;
mod post;
mod reads;
mod recorder;
mod recovery;
pub mod replay;
mod room;
mod run;
mod settle;
mod still;
mod subscriptions;
pub mod usage;
mod view;

/// Files and folders of the state folder that belong into backups with the store: tokens and rules,
/// the audit log, and the keys that clients and receivers of messages have pinned.
pub const BACKED_UP: [&str; 4] = [
    ACCESS_FILE,
    gpool_identity::audit::FOLDER,
    gpool_identity::tls::AUTHORITY_FILE,
    post::KEY_FILE,
];

pub use config::ServerConfig;
pub use environments::KEPT_USUALLY as ENVIRONMENT_KEPT_USUALLY;
pub use gpool_identity::access::FILE as ACCESS_FILE;
pub use gpool_identity::sign_in::{ProviderConfig, SameNames};
pub use gpool_oidc::Settings as ProviderSettings;
pub use handle::{CoreHandle, ServerInfo, StopRequest};
pub use lease::NODE_LEASE_USUALLY;
pub use limits::Limits;
pub use lives::settings::{Detail, Telemetry, TraceUrl, Traces};
pub use lives::trace::context_of as trace_context;
pub use post::{Allowed, BadAllowed, BadRelay, MailSettings, NotifySettings, Relay, chat_text};
pub use run::{StopAgent, run};

pub use gpool_identity::audit::{Broken as BrokenAudit, verify as verify_audit};
pub use gpool_identity::tls::{NetworkConfig, SiteFiles};
pub use gpool_identity::web::WebAddress;
pub use view::View;
