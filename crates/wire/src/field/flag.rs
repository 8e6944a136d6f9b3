//! Command-line flags of fields.

/// Headings of the flags of a job request in the help text.
pub mod heading {
    /// Every heading, in the order of the help text.
    pub const ALL: [&str; 9] =
        [RESOURCES, NODES, TIME, PROGRAM, STREAMS, ARRAY, PREEMPTION, NOTIFICATIONS, SUBMISSION];
    /// GPUs, CPU cores and memory.
    pub const RESOURCES: &str = "GPUs, CPUs and memory";
    /// The number of tasks, and the nodes for them.
    pub const NODES: &str = "Nodes and tasks";
    /// The start, the time limit and the place in the queue.
    pub const TIME: &str = "Time and order";
    /// The program of the job, and its environment.
    pub const PROGRAM: &str = "Program and environment";
    /// Standard input, output and error; the terminal.
    pub const STREAMS: &str = "Input and output";
    /// Arrays.
    pub const ARRAY: &str = "Arrays";
    /// Preemption, warnings before the end, and another start after it.
    pub const PREEMPTION: &str = "Preemption and restarts";
    /// Notifications.
    pub const NOTIFICATIONS: &str = "Notifications";
    /// The name of the job, and the treatment of the submission.
    pub const SUBMISSION: &str = "Submission";
}

/// The flag of a field. A flag without a value name is a switch.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    /// `gpus` of `--gpus`.
    pub long: &'static str,
    /// `g` of `-g`.
    pub short: Option<char>,
    /// Alias in the help text.
    pub alias: Option<&'static str>,
    /// Hidden alias.
    pub hidden_alias: Option<&'static str>,
    /// Value name in the help text.
    pub value: Option<&'static str>,
    /// Accepted values.
    pub values: Values,
    /// Help text, one line.
    pub help: &'static str,
    /// Heading of the flag's group in the help text.
    pub heading: &'static str,
    /// Whether a value may begin with a hyphen. Some error messages are better then.
    pub hyphen: bool,
    /// Whether commas separate values.
    pub commas: bool,
    /// Value of a flag without an argument. Arguments then need `=`.
    pub bare: Option<&'static str>,
    /// The opposite switch and its help text.
    pub opposite: Option<(&'static str, &'static str)>,
    /// Flags that conflict with this one.
    pub conflicts: &'static [&'static str],
}

/// The values that a flag accepts.
#[derive(Debug, Clone, Copy)]
pub enum Values {
    /// No value: the flag is a switch.
    Switch,
    /// A value that passes a check. The check may normalize it.
    Checked(fn(&str) -> Result<String, String>),
    /// Same, repeatable; the field is a list.
    Many(fn(&str) -> Result<String, String>),
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl Flag {
    /// Returns a switch.
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
            heading: heading::SUBMISSION,
            hyphen: false,
            commas: false,
            bare: None,
            opposite: None,
            conflicts: &[],
        }
    }

    /// Returns a flag with a value.
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

    /// Whether the field is a list.
    #[must_use]
    pub const fn is_list(&self) -> bool {
        matches!(self.values, Values::Many(_))
    }
}
