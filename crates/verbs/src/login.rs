//! `gpool login`: stores a server on the network with a token, after a check of its certificate.

use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_client::contexts::{Context, Contexts, LOCAL, usual_path};
use gpool_client::remote::fingerprint;
use gpool_client::{Address, Client, Remote, Trust};
use gpool_wire::catalogue;

use crate::hidden::hidden;

#[derive(Debug, Clone, Args)]
#[command(after_help = "The token comes from gpool token create on the machine of the server. \
    Without --token-file and GPOOL_TOKEN, you sign in at the server's identity provider, or type \
    the token.")]
pub struct LoginArgs {
    /// Address of the server, e.g. https://lab1:7443
    #[arg(value_name = "URL")]
    server: String,
    /// Name of the context (default: the host)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// File with the token; - is standard input
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the certificate of the server's authority, from gpool ca export
    #[arg(long, value_name = "FILE", conflicts_with = "fingerprint")]
    ca: Option<PathBuf>,
    /// Fingerprint of the server's authority, from gpool ca show
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,
}

/// Runs the verb.
///
/// # Errors
/// The server can't be reached or is not trusted, or refuses the token.
pub fn run(args: &LoginArgs, session: &Session) -> Result {
    let invalid = |why: String| Failure::new(catalogue::INVALID, why);
    let address = Address::read(&args.server).map_err(invalid)?;
    let name = args.name.clone().unwrap_or_else(|| address.host().to_owned());
    if name == LOCAL || name.is_empty() || name.chars().any(char::is_control) {
        let what = format!("--name: {name:?} can't be the name of a context");
        return Err(Failure::new(catalogue::INVALID, what).tip("--name lab1"));
    }
    let path = usual_path().ok_or_else(|| {
        Failure::new(catalogue::CONTEXT, "there is no home folder for the contexts")
    })?;
    let mut contexts = Contexts::read(&path)?;
    let trust = trust(args, &address, &contexts, session)?;
    let remote = Remote::new(address, String::new(), trust);
    remote.check().map_err(|error| Failure::from(remote.unreachable(&error)))?;
    let token = match given_token(args)? {
        Some(token) => token,
        None => match sign_in(&remote, session)? {
            Some(token) => token,
            None => checked(&typed()?)?,
        },
    };
    let remote = Remote { token, ..remote };
    let me = Client::remote(remote.clone()).me()?;
    contexts.contexts.insert(name.clone(), Context::new(&remote));
    contexts.current = Some(name.clone());
    contexts.write(&path)?;
    if session.global.json {
        session.screen.data(&json::one(&me))?;
        return Ok(Exit::OK);
    }
    let user = me.user.as_ref().or(me.network_user.as_ref()).map_or("", String::as_str);
    session.screen.note(&format!(
        "signed in to {} as {} with scope {}; context {} is in use",
        remote.address,
        safe(user),
        me.scope,
        safe(&name)
    ));
    Ok(Exit::OK)
}

/// What proves the server: a given file or fingerprint, the system's certificates, what an earlier
/// login has stored, or the user's word.
fn trust(
    args: &LoginArgs,
    address: &Address,
    contexts: &Contexts,
    session: &Session,
) -> Result<Trust> {
    if let Some(path) = &args.ca {
        let bad = |why: String| {
            Failure::new(catalogue::INVALID, format!("--ca {}: {why}", path.display()))
        };
        let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
        return Trust::read(&pem).map_err(bad);
    }
    let by = |trust| Remote::new(address.clone(), String::new(), trust);
    let system = by(Trust::System);
    let reach = |error: &std::io::Error| Failure::from(system.unreachable(error));
    let chain = address.certificates().map_err(|error| reach(&error))?;
    let last =
        chain.last().ok_or_else(|| Failure::new(catalogue::NOT_TRUSTED, "no certificate"))?;
    let (shown, pinned) = (fingerprint(last), Trust::pinned(last));
    if let Some(wanted) = &args.fingerprint {
        return match *wanted == shown {
            true => Ok(pinned),
            false => Err(other_fingerprint(address, &shown)),
        };
    }
    if system.check().is_ok() {
        return Ok(Trust::System);
    }
    let server = address.to_string();
    let known = contexts.contexts.values().find(|context| context.server == server);
    if let Some(known) = known.filter(|known| known.authority.is_some()) {
        if known.remote()?.trust == pinned {
            return Ok(pinned);
        }
        session.screen.warn("the server has another authority than at the last login");
    }
    ask(address, &shown).map(|()| pinned)
}

fn other_fingerprint(address: &Address, shown: &str) -> Failure {
    Failure::new(catalogue::NOT_TRUSTED, format!("{address} has another fingerprint"))
        .why(format!("it is {shown}"))
        .tip("gpool ca show   (on the machine of the server)")
}

/// Asks the user to compare the fingerprint, as ssh does.
fn ask(address: &Address, shown: &str) -> Result<()> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            catalogue::NOT_TRUSTED,
            format!("no one can confirm the fingerprint of {address}"),
        )
        .why("standard input is not a terminal")
        .tip(format!("--fingerprint {shown}   (if gpool ca show prints it on the server)")));
    }
    eprint!(
        "The authority of {address} has the fingerprint {shown}\n\
         Compare it with gpool ca show on the machine of the server. Trust it? [y/N] "
    );
    match line()?.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(catalogue::NOT_TRUSTED, "the server is not trusted")),
    }
}

fn line() -> Result<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::new(errors::USAGE, format!("can't read the answer: {error}")))?;
    Ok(line)
}

/// A token of the server's identity provider, if there is one: the user confirms a code in a
/// browser on any machine.
fn sign_in(remote: &Remote, session: &Session) -> Result<Option<String>> {
    // The server closes a connection that is idle between two questions.
    let client = || Client::remote(remote.clone());
    let begun = match client().start_sign_in() {
        Ok(begun) => begun,
        // It has none, or none for programs.
        Err(error) if error.problem().code == catalogue::NO_PROVIDER.to_string() => {
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    let url = begun.url_with_code.as_ref().unwrap_or(&begun.url);
    session.screen.note(&format!("open {}", safe(url)));
    session.screen.note(&format!("and confirm the code {}", safe(&begun.user_code)));
    let mut wait_s = begun.interval_s;
    loop {
        std::thread::sleep(Duration::from_secs(wait_s.clamp(1, 60)));
        let answer = client().poll_sign_in(&begun.handle)?;
        if let Some(token) = answer.token {
            return Ok(Some(token.secret));
        }
        wait_s = answer.wait_s;
    }
}

/// The token from a file or `GPOOL_TOKEN`.
fn given_token(args: &LoginArgs) -> Result<Option<String>> {
    let unread = |what: String| Failure::new(catalogue::INVALID, what);
    let text = match (&args.token_file, std::env::var("GPOOL_TOKEN")) {
        (Some(path), _) if path.as_os_str() == "-" => {
            let mut text = String::new();
            let read = std::io::stdin().lock().take(4096).read_to_string(&mut text);
            read.map_err(|error| unread(format!("can't read the token: {error}")))?;
            text
        }
        (Some(path), _) => std::fs::read_to_string(path)
            .map_err(|error| unread(format!("can't read {}: {error}", path.display())))?,
        (None, Ok(token)) if !token.is_empty() => token,
        (None, _) => return Ok(None),
    };
    checked(&text).map(Some)
}

fn checked(text: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = "this is not a token";
        return Err(Failure::new(catalogue::INVALID, what).tip("gpool token create"));
    }
    Ok(text.to_owned())
}

/// The token from the terminal, without an echo.
fn typed() -> Result<String> {
    hidden("Token: ")?.ok_or_else(|| {
        Failure::new(errors::USAGE, "there is no token")
            .tip("--token-file FILE")
            .tip("GPOOL_TOKEN=gp_... gpool login URL")
    })
}
