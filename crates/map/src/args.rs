//! The flags of `gpool map`.

use clap::Args;
use gpool_cli::args::job_flags::JobFlags;

use crate::items::Form;
use crate::plan::AnswerForm;

const HEADING: &str = "Map";

#[derive(Debug, Clone, Args)]
#[command(args_override_self = true)]
#[command(after_help = "The program reads lines such as {\"id\": 3, \"item\": \"a.jpg\"}, and \
    prints {\"gpool\": {\"done\": 3, \"result\": 0.5}} or {\"gpool\": {\"failed\": 3, \"why\": \
    \"…\"}} for each. Each item is recorded once; it may run twice after a crash.")]
pub struct MapArgs {
    #[command(flatten)]
    pub flags: JobFlags,
    /// Number of workers (default: one for each GPU that they can use)
    #[arg(long, value_name = "N", help_heading = HEADING)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub workers: Option<u32>,
    /// Workers on each GPU
    #[arg(long, value_name = "N", help_heading = HEADING)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=50))]
    pub workers_per_gpu: Option<u32>,
    /// Failed tries after which an item is set aside
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = HEADING)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub tries: u32,
    /// Items that a program gets before it answers, e.g. the size of its batches
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one)]
    #[arg(help_heading = HEADING)]
    pub ahead: usize,
    /// Form of the list: lines, jsonl or csv (default: by the name of the file)
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true)]
    #[arg(help_heading = HEADING)]
    pub form: Option<Form>,
    /// The items are files: their names, or patterns such as 'images/*.jpg'
    #[arg(long, help_heading = HEADING)]
    pub files: bool,
    /// Answer of the program: json, or line for any line as the result of its oldest item
    #[arg(long, value_enum, value_name = "FORM", default_value = "json")]
    #[arg(hide_possible_values = true, help_heading = HEADING)]
    pub answer: AnswerForm,
    /// Show the progress of a map
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub show: Option<String>,
    /// Handle the rest of a map, and the items that were set aside
    #[arg(long, value_name = "NAME", help_heading = HEADING)]
    pub resume: Option<String>,
    /// List of items, or - for standard input; several are files
    #[arg(value_name = "ITEMS", help_heading = None::<&'static str>)]
    pub items: Vec<String>,
    /// Program of the workers
    #[arg(last = true, value_name = "COMMAND", help_heading = None::<&'static str>)]
    pub command: Vec<String>,
}

fn at_least_one(text: &str) -> std::result::Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=10_000).contains(n))
        .ok_or_else(|| format!("{text:?} is no number from 1 to 10000"))
}
