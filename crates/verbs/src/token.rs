//! `gpool token`: creates, lists and revokes the tokens for access over the network.

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::listing::show_with_count;
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::{Scope, TokenCreate};

use crate::render::tokens::TOKENS;

#[derive(Debug, Clone, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: TokenAction,
}

#[derive(Debug, Clone, Subcommand)]
enum TokenAction {
    /// Create a token and print its secret, which is shown only once
    Create(CreateArgs),
    /// List your tokens; as an admin, those of all users
    List(ListFlags),
    /// Revoke tokens; requests with them are refused at once
    Revoke {
        /// IDs of the tokens
        #[arg(required = true, value_name = "ID")]
        tokens: Vec<String>,
    },
}

#[derive(Debug, Clone, Args)]
struct CreateArgs {
    /// Name of the token in lists, e.g. laptop
    #[arg(long, value_name = "NAME", default_value = "")]
    name: String,
    /// Most that it allows: metrics, viewer, user, project-admin or admin
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    scope: Scope,
    /// Time until it expires, up to 366d, or never (default: 90d)
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// User that it is for, as an admin: a system user, or a network user such as ana@lab.org
    #[arg(long = "for", value_name = "USER")]
    user: Option<String>,
}

/// Runs the verb.
pub fn run(args: TokenArgs, session: &Session) -> Result {
    match args.action {
        TokenAction::Create(create) => create_token(create, session),
        TokenAction::List(flags) => {
            let client = session.client()?;
            show_with_count(&TOKENS, &flags, session, "token", || Ok(client.tokens()?.items))
        }
        TokenAction::Revoke { tokens } => {
            let client = session.client()?;
            for id in &tokens {
                let token = client.revoke_token(id)?;
                session.screen.note(&format!("token {} is revoked", safe(&token.id)));
            }
            Ok(Exit::OK)
        }
    }
}

fn create_token(args: CreateArgs, session: &Session) -> Result {
    let CreateArgs { name, scope, expires, user } = args;
    let made = session.client()?.create_token(&TokenCreate { name, scope, expires, user })?;
    if session.global.json {
        session.screen.data(&json::one(&made))?;
        return Ok(Exit::OK);
    }
    let view = session.view();
    let until = made.token.expires_at.map(|end| view.clock.full(end));
    session.screen.data(&format!("{}\n", made.secret))?;
    session.screen.note(&format!(
        "token {} acts as {} with scope {}; it {}. It is not shown again",
        made.token.id,
        safe(&made.token.user),
        made.token.scope,
        until.map_or_else(|| "never expires".to_owned(), |until| format!("expires {until}")),
    ));
    Ok(Exit::OK)
}
