//! The flags of a job request that say one field each, and those that change one field of a job,
//! by the table of fields.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use gpool_wire::field::{Field, Flag, Values, fields, heading};
use gpool_wire::{JobCreate, JobPatch};

/// The part of a job request that flags set directly.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestFlags(pub JobCreate);

impl Args for RequestFlags {
    fn augment_args(command: Command) -> Command {
        flags().fold(command, |command, (_, flag)| with_flag(command, flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RequestFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches).map(|()| flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for field in fields() {
            if let Some(values) = field.flag.as_ref().and_then(|flag| flag_values(flag, matches)) {
                (field.slot)(&mut self.0).read(values);
            }
        }
        Ok(())
    }
}

/// What flags change of a job, as it is written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changed(pub JobPatch);

/// The word that takes a value away.
pub const NONE: &str = "none";

impl Args for Changed {
    fn augment_args(command: Command) -> Command {
        let editable = flags().filter(|(field, _)| field.is_editable());
        editable.fold(command, |command, (field, flag)| {
            // An edit has no letters of its own, and a word may follow a blank.
            let flag = Flag { short: None, bare: None, ..*flag };
            with_flag(command, &flag).mut_arg(flag.long, |arg| changing(field, &flag, arg))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Changed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut changed = Self::default();
        changed.update_from_arg_matches(matches).map(|()| changed)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for field in fields().filter(|field| field.is_editable()) {
            let Some(flag) = &field.flag else { continue };
            let Some(values) = flag_values(flag, matches) else { continue };
            let is_none = can_be_none(field, flag) && values == [NONE];
            self.0.set(field.key, |to| match is_none {
                true => {}
                false => (field.slot)(to).read(values),
            });
        }
        Ok(())
    }
}

/// Every field with a flag. The parser shows headings in the order in which flags first name them.
fn flags() -> impl Iterator<Item = (&'static Field, &'static Flag)> {
    let flags = fields().filter_map(|field| Some((field, field.flag.as_ref()?)));
    let mut flags: Vec<(&Field, &Flag)> = flags.collect();
    flags.sort_by_key(|(_, flag)| heading::ALL.iter().position(|it| *it == flag.heading));
    flags.into_iter()
}

fn can_be_none(field: &Field, flag: &Flag) -> bool {
    field.clears || flag.is_list()
}

/// Lets a flag take `none` where there may be no value, and 0, which the server judges: it means
/// no limit in some fields.
fn changing(field: &'static Field, flag: &Flag, arg: Arg) -> Arg {
    let can_be_none = can_be_none(field, flag);
    let is_switch = matches!(flag.values, Values::Switch);
    let arg =
        if can_be_none && !is_switch { arg.help(format!("{}, or none", flag.help)) } else { arg };
    match flag.values {
        Values::Checked(check) | Values::Many(check) => {
            arg.value_parser(move |text: &str| match text == "0" || can_be_none && text == NONE {
                true => Ok(text.to_owned()),
                false => check(text),
            })
        }
        Values::Switch | Values::OneOf(_) => arg,
    }
}

/// Returns the values of a flag, if it was given.
fn flag_values(flag: &Flag, matches: &ArgMatches) -> Option<Vec<String>> {
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

fn with_flag(command: Command, flag: &Flag) -> Command {
    let Some((opposite, help)) = flag.opposite else { return command.arg(arg(flag)) };
    let switch = Arg::new(opposite).long(opposite).help(help).help_heading(flag.heading);
    let switch = switch.action(ArgAction::SetTrue).overrides_with(flag.long);
    command.arg(arg(flag).overrides_with(opposite)).arg(switch)
}

fn arg(flag: &Flag) -> Arg {
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
