//! How a field is written on a command line.

/// The flag of a field. One without a value name is a switch.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// `gpus` of `--gpus`.
    pub long: &'static str,
    /// `g` of `-g`.
    pub short: Option<char>,
    /// Another name that help shows.
    pub alias: Option<&'static str>,
    /// Another name that help does not show.
    pub hidden_alias: Option<&'static str>,
    /// The name of its value in help.
    pub value: Option<&'static str>,
    /// The values that it takes.
    pub values: Values,
    /// One line of help.
    pub help: &'static str,
    /// The heading of help under which it stands.
    pub heading: &'static str,
    /// Whether a value may begin with a hyphen, which some errors then explain better.
    pub hyphen: bool,
    /// Whether commas separate several values.
    pub commas: bool,
    /// The value if the flag stands without one, which then follows `=` only.
    pub bare: Option<&'static str>,
    /// The switch that says the opposite, with its help.
    pub opposite: Option<(&'static str, &'static str)>,
    /// Flags that can't stand beside it.
    pub conflicts: &'static [&'static str],
}

/// The values that a flag takes.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// None: it is a switch.
    Switch,
    /// Any that passes a check, which may write it in its usual form.
    Checked(fn(&str) -> Result<String, String>),
    /// As above, any number of times; the field is a list.
    Many(fn(&str) -> Result<String, String>),
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl Flag {
    /// A switch.
    #[must_use]
    pub const fn switch(long: &'static str, help: &'static str) -> Self {
        Self {
            long,
            short: None,
            alias: None,
            hidden_alias: None,
            value: None,
            values: Values::Switch,
            help,
            heading: "Job",
            hyphen: false,
            commas: false,
            bare: None,
            opposite: None,
            conflicts: &[],
        }
    }

    /// A flag with a value.
    #[must_use]
    pub const fn value(
        long: &'static str,
        value: &'static str,
        values: Values,
        help: &'static str,
    ) -> Self {
        Self { value: Some(value), values, ..Self::switch(long, help) }
    }

    pub(super) const fn short(self, short: char) -> Self {
        Self { short: Some(short), ..self }
    }

    pub(super) const fn hyphen(self) -> Self {
        Self { hyphen: true, ..self }
    }

    pub(super) const fn under(self, heading: &'static str) -> Self {
        Self { heading, ..self }
    }

    /// Whether its field is a list.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(self.values, Values::Many(_))
    }
}
