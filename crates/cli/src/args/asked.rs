//! The flags of a job request that say one field each, by the table of its fields.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use gpool_wire::JobCreate;
use gpool_wire::field::{Field, Flag, Values, fields};

/// What flags say of a job, as it is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked(pub JobCreate);

impl Args for Asked {
    fn augment_args(command: Command) -> Command {
        fields().filter_map(|field| field.flag.as_ref()).fold(command, with_flag)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Asked {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut asked = Self::default();
        asked.update_from_arg_matches(matches).map(|()| asked)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for field in fields() {
            if let Some(values) = said(field, matches) {
                (field.read)(&mut self.0, values);
            }
        }
        Ok(())
    }
}

/// Returns the values of the field's flag, if it was given.
fn said(field: &Field, matches: &ArgMatches) -> Option<Vec<String>> {
    let flag = field.flag.as_ref()?;
    let is_set = |long: &str| matches.get_flag(long).then(Vec::new);
    match (flag.values, flag.opposite) {
        (Values::Switch, None) => is_set(flag.long),
        (Values::Switch, Some((opposite, _))) => {
            let word = |word: &str| vec![word.to_owned()];
            is_set(flag.long)
                .map(|_| word("true"))
                .or_else(|| is_set(opposite).map(|_| word("false")))
        }
        _ => Some(matches.get_many::<String>(flag.long)?.cloned().collect()),
    }
}

fn with_flag(command: Command, flag: &'static Flag) -> Command {
    let Some((opposite, help)) = flag.opposite else { return command.arg(arg(flag)) };
    let switch = Arg::new(opposite).long(opposite).help(help).help_heading(flag.heading);
    let switch = switch.action(ArgAction::SetTrue).overrides_with(flag.long);
    command.arg(arg(flag).overrides_with(opposite)).arg(switch)
}

fn arg(flag: &'static Flag) -> Arg {
    let arg = Arg::new(flag.long).long(flag.long).help(flag.help).help_heading(flag.heading);
    let arg = flag.short.into_iter().fold(arg, Arg::short);
    let arg = flag.alias.into_iter().fold(arg, Arg::visible_alias);
    let arg = flag.hidden_alias.into_iter().fold(arg, Arg::alias);
    let arg = arg.conflicts_with_all(flag.conflicts).allow_hyphen_values(flag.hyphen);
    let arg = flag.value.into_iter().fold(arg, Arg::value_name);
    let arg = match flag.values {
        Values::Switch => return arg.action(ArgAction::SetTrue),
        Values::Checked(check) => arg.action(ArgAction::Set).value_parser(check),
        Values::Many(check) => arg.action(ArgAction::Append).value_parser(check),
        Values::OneOf(words) => {
            arg.action(ArgAction::Set).value_parser(PossibleValuesParser::new(words))
        }
    };
    let arg = if flag.commas { arg.value_delimiter(',') } else { arg };
    match flag.bare {
        Some(word) => arg.num_args(0..=1).require_equals(true).default_missing_value(word),
        None => arg,
    }
}
