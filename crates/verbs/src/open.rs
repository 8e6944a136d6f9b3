//! `gpool open`: opens the dashboard in a browser.
//!
//! Every user of the machine can read the arguments of a process, so the browser gets only the name
//! of a file. It is a page that only the user can read, and it sends the code of the link.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use gpool_cli::errors;
use gpool_cli::exit::Exit;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::render::json;
use gpool_cli::session::Session;

/// The page, in the folder of [`folder`].
const PAGE: &str = "open.html";

#[derive(Debug, Clone, Copy, Args)]
#[command(
    after_help = "The link signs you in. It works once, within 30 seconds, in a browser that \
    you run on this machine; over ssh, forward the port: ssh -L 7478:127.0.0.1:7478 HOST. Use \
    --print for a browser that can't read hidden folders, such as one from a snap."
)]
pub struct OpenArgs {
    /// Print the link and open nothing
    #[arg(long)]
    print: bool,
}

/// Runs the verb.
///
/// # Errors
/// No server answers, or it has no dashboard.
pub fn run(args: OpenArgs, session: &Session) -> Result {
    let client = session.client()?;
    let browser = if args.print { None } else { browser() };
    if let Some(address) = client.address() {
        // Over the network a browser signs in with a token.
        let url = format!("{address}/");
        if !browser.is_some_and(|program| is_opened(program, &url)) {
            session.screen.data(&format!("{url}\n"))?;
        }
        return Ok(Exit::OK);
    }
    let login = client.login()?;
    if session.global.json {
        session.screen.data(&json::one(&login))?;
        return Ok(Exit::OK);
    }
    let page = match (&browser, folder()) {
        (Some(_), Some(folder)) => Some(page(&folder, &login.url).map_err(|error| {
            Failure::new(errors::INTERNAL, format!("can't write {}: {error}", folder.display()))
                .tip("gpool open --print")
        })?),
        _ => None,
    };
    let opened = browser.zip(page).is_some_and(|(program, page)| is_opened(program, &page));
    if !opened {
        session.screen.data(&format!("{}\n", login.url))?;
    }
    Ok(Exit::OK)
}

/// The program that opens an address; `None` if there is no screen for one.
fn browser() -> Option<std::ffi::OsString> {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|it| std::env::var_os(it).is_some());
    let named = std::env::var_os("BROWSER").filter(|it| !it.is_empty());
    named.or_else(|| has_screen.then(|| "xdg-open".into()))
}

/// The folder for the page: only the user can read it.
fn folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let cache = || absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(absolute("XDG_RUNTIME_DIR").or_else(cache)?.join("gpool"))
}

/// Writes a page that sends the code of a link; returns its address. Its code is over after 30
/// seconds, so the page may stay until the next one replaces it.
fn page(folder: &Path, url: &str) -> io::Result<String> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(PAGE);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    // Both are hexadecimal.
    let (action, code) = url.rsplit_once('/').unwrap_or((url, ""));
    write!(
        file,
        "<!doctype html>\n<meta charset=\"utf-8\">\n<title>gpool</title>\n\
         <form method=\"post\" action=\"{action}\">\n\
         <input type=\"hidden\" name=\"code\" value=\"{code}\">\n\
         <button>Open the dashboard</button>\n</form>\n\
         <script>document.forms[0].submit()</script>\n"
    )?;
    Ok(format!("file://{}", path.display()))
}

/// Opens an address; false if the program could not.
fn is_opened(program: std::ffi::OsString, url: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
