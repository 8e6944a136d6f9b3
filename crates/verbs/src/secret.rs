//! `gpool secret`: sets, lists and removes the secrets of a user. No value is ever an argument or
//! an answer.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gpool_cli::args::list::ListFlags;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::listing::show_with_count;
use gpool_cli::render::json;
use gpool_cli::render::safe::safe;
use gpool_cli::session::Session;
use gpool_wire::secret::{SECRET_BYTES_MAX, SecretValue, name};
use gpool_wire::{Problem, catalogue};

use crate::hidden::hidden;
use crate::render::secrets::SECRETS;

#[derive(Debug, Clone, Args)]
pub struct SecretArgs {
    #[command(subcommand)]
    action: SecretAction,
}

#[derive(Debug, Clone, Subcommand)]
enum SecretAction {
    /// Set the value of a secret: from standard input, a file, or typed without an echo
    Set(SetArgs),
    /// List your secrets, without their values
    List(ListArgs),
    /// Remove secrets; jobs that name them and start later are held
    Remove(RemoveArgs),
}

#[derive(Debug, Clone, Args)]
struct SetArgs {
    /// Name of the secret, e.g. HF_TOKEN
    #[arg(value_name = "NAME")]
    name: String,
    /// File with the value, which is stored byte for byte
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
    /// List the secrets of all users, as an admin
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    flags: ListFlags,
}

#[derive(Debug, Clone, Args)]
struct RemoveArgs {
    /// Names of the secrets
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// User that they belong to, as an admin (default: you)
    #[arg(long, value_name = "USER")]
    user: Option<String>,
}

/// Runs the verb.
///
/// # Errors
/// A name is not valid, a value can't be read, or the server refuses the request.
pub fn run(args: SecretArgs, session: &Session) -> Result {
    match args.action {
        SecretAction::Set(args) => set(&args, session),
        SecretAction::List(ListArgs { all, flags }) => {
            let client = session.client()?;
            let list = || Ok(client.secrets(all)?.items);
            show_with_count(&SECRETS, &flags, session, "secret", list)
        }
        SecretAction::Remove(RemoveArgs { names, user }) => {
            names.iter().try_for_each(|name| check_name(name))?;
            let client = session.client()?;
            for name in &names {
                let secret = client.remove_secret(name, user.as_deref())?;
                session.screen.note(&format!("secret {} is removed", safe(&secret.name)));
            }
            Ok(Exit::OK)
        }
    }
}

fn set(args: &SetArgs, session: &Session) -> Result {
    // A mistake in the name shows before the user types the value.
    check_name(&args.name)?;
    let client = session.client()?;
    let value = match &args.from_file {
        Some(path) => from_file(path)?,
        None => entered(&args.name)?,
    };
    if value.is_empty() {
        return Err(Failure::new(catalogue::INVALID, "the value is empty"));
    }
    if value.len() > SECRET_BYTES_MAX {
        let what = format!("the value has more than {SECRET_BYTES_MAX} bytes (64 KiB)");
        return Err(Failure::new(catalogue::TOO_LARGE, what));
    }
    let secret = client.set_secret(&args.name, &SecretValue::of(value))?;
    if session.global.json {
        session.screen.data(&json::one(&secret))?;
        return Ok(Exit::OK);
    }
    let (name, bytes) = (safe(&secret.name), secret.bytes.unwrap_or_default());
    let unit = if bytes == 1 { "byte" } else { "bytes" };
    session.screen.note(&format!("secret {name} is set ({bytes} {unit})"));
    Ok(Exit::OK)
}

fn check_name(text: &str) -> Result<()> {
    name("NAME", text).map(drop).map_err(|refusal| Failure::from(Problem::from(refusal)))
}

fn from_file(path: &Path) -> Result<Vec<u8>> {
    let file = std::fs::File::open(path);
    file.and_then(read_most).map_err(|error| {
        Failure::new(catalogue::INVALID, format!("can't read {}: {error}", path.display()))
    })
}

/// The value from the terminal or from standard input, without the end of its last line.
fn entered(name: &str) -> Result<Vec<u8>> {
    let mut value = match hidden(&format!("Value of {name}: "))? {
        Some(typed) => typed.into_bytes(),
        None => read_most(std::io::stdin().lock()).map_err(|error| {
            Failure::new(catalogue::INVALID, format!("can't read the value: {error}"))
        })?,
    };
    if value.last() == Some(&b'\n') {
        value.pop();
    }
    Ok(value)
}

/// Reads a little more than the maximum.
fn read_most(from: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(SECRET_BYTES_MAX as u64 + 2).read_to_end(&mut bytes)?;
    Ok(bytes)
}
