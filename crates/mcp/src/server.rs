//! The server of the protocol: lists the allowed tools, and answers their calls.

use std::borrow::Cow;
use std::sync::Arc;

use gpool_cli::args::mcp::McpScope;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Map, Value};

use crate::answer::{self, BYTES_MAX, short};
use crate::arguments::Arguments;
use crate::table::{TOOLS, Tool};

/// Instructions for the assistant.
const ABOUT: &str = "gpool allocates the GPUs of a cluster to jobs. Ask `queue` for jobs, `why` \
                     for the reason that one waits, `gpus` for free GPUs. Errors have a code, \
                     reasons, and what to try.";

/// Serves standard input and output until the assistant closes them.
///
/// # Errors
/// The runtime does not start, or the assistant does not speak the protocol.
pub fn serve(session: Session, allowed: Vec<McpScope>) -> Result {
    let failed = |why: String| {
        Failure::new(errors::INTERNAL, format!("the connection to the assistant failed: {why}"))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let server = Server { session: Arc::new(session), allowed };
    let served = runtime.block_on(async {
        let running = server.serve(stdio()).await.map_err(|error| error.to_string())?;
        running.waiting().await.map_err(|error| error.to_string())
    });
    // A call that still waits for the server of the cluster must not keep the process.
    runtime.shutdown_background();
    served.map_err(failed)?;
    Ok(Exit::OK)
}

struct Server {
    session: Arc<Session>,
    allowed: Vec<McpScope>,
}

impl Server {
    fn is_allowed(&self, tool: &Tool) -> bool {
        tool.scope.is_none_or(|scope| self.allowed.contains(&scope))
    }

    /// Answers a call; a failure is an answer, too, so that the assistant sees it.
    async fn answer(&self, name: &str, arguments: Map<String, Value>) -> CallToolResult {
        let answered = match self.find(name) {
            Ok(tool) => {
                let session = self.session.clone();
                let call = move || {
                    let arguments = Arguments::of(tool.name, tool.fields, arguments)?;
                    (tool.run)(&session, &arguments)
                };
                let joined = tokio::task::spawn_blocking(call).await;
                joined
                    .unwrap_or_else(|error| Err(Failure::new(errors::INTERNAL, error.to_string())))
            }
            Err(failure) => Err(failure),
        };
        match answered.map(short) {
            Ok(value) if value.to_string().len() <= BYTES_MAX => CallToolResult::structured(value),
            Ok(_) => {
                let what = format!("the answer has more than {BYTES_MAX} bytes");
                let failure = Failure::new(errors::USAGE, what).tip("a smaller limit, or a filter");
                CallToolResult::structured_error(answer::failure(&failure))
            }
            Err(failure) => CallToolResult::structured_error(answer::failure(&failure)),
        }
    }

    fn find(&self, name: &str) -> Result<&'static Tool> {
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
            let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
            return Err(Failure::new(errors::USAGE, format!("there is no tool {name:?}"))
                .why(format!("the tools are {}", names.join(", "))));
        };
        if self.is_allowed(tool) {
            return Ok(tool);
        }
        let scope = tool.scope.map_or("submit", McpScope::as_str);
        Err(Failure::new(errors::USAGE, format!("tool {name} is not allowed"))
            .why("the user has not allowed it")
            .tip(format!("gpool mcp --allow {scope}")))
    }
}

/// A tool in the form of the protocol.
fn described(tool: &Tool) -> rmcp::model::Tool {
    let annotations = ToolAnnotations::new()
        .read_only(tool.is_read_only())
        .destructive(tool.name == "cancel")
        .open_world(false);
    let schema = Arc::new(tool.schema());
    rmcp::model::Tool::new(tool.name, Cow::Borrowed(tool.about), schema)
        .with_annotations(annotations)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("gpool", env!("CARGO_PKG_VERSION")))
            .with_instructions(ABOUT)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        let allowed = TOOLS.iter().filter(|tool| self.is_allowed(tool));
        Ok(ListToolsResult::with_all_items(allowed.map(described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        Ok(self.answer(&request.name, arguments).await.into())
    }
}
