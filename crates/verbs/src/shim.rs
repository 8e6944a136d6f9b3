//! `gpool shim`: runs a command of Slurm, gflow or Valohai without a link.

use clap::Args;
use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use gpool_cli::session::Session;
use gpool_compat::SHIMS;
use gpool_compat::shim::gpool_line;

#[derive(Debug, Clone, Args)]
#[command(disable_help_flag = true)]
pub struct ShimArgs {
    /// Name of the command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &ShimArgs, session: &Session) -> Result {
    let (name, words) = (&args.words[0], &args.words[1..]);
    if ["--help", "-h"].contains(&name.as_str()) {
        return gpool_line(&["help", "shim"], session);
    }
    match gpool_compat::find(name) {
        Some(shim) => (shim.run)(words, session),
        None => {
            let names: Vec<&str> = SHIMS.iter().map(|shim| shim.name).collect();
            Err(Failure::new(errors::NO_SUCH_VERB, format!("there is no command {name:?}"))
                .why(format!("the choices are {}", names.join(", "))))
        }
    }
}
