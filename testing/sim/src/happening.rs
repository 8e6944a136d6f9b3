//! The events of a simulated run, as data and as a line of text: a word and named numbers. A number
//! that picks one of several is taken modulo their count, and an event that cannot happen does
//! nothing. So every list of events is valid in every cluster, as shrinking needs.

use std::fmt;
use std::str::FromStr;

use gpool_model::{JobVerb, LimitChange, Millis, SignalTo};

/// What a kind of happening is to the drawing of a swarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Without it nothing gets on.
    Work,
    /// Something that users and admins may do.
    Wish,
    /// Something that goes wrong.
    Fault,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident $word:literal [$($argument:literal)*] $role:ident
        $weight:literal;)*) => {
        /// What happens.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $($(#[doc = $doc])* $name,)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The word for it in a scenario.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// The names of its numbers.
            #[must_use]
            pub fn arguments(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($argument),*]),* }
            }

            /// Returns the role that decides how often a swarm draws it.
            #[must_use]
            pub fn role(self) -> Role {
                match self { $(Self::$name => Role::$role),* }
            }

            /// How often it happens, before a swarm changes that.
            #[must_use]
            pub fn weight(self) -> u64 {
                match self { $(Self::$name => $weight),* }
            }
        }
    };
}

kinds! {
    /// A user submits jobs.
    Submit "submit" ["user" "jobs" "gpus" "share" "model" "cpus" "memory" "limit" "grace"
        "priority" "after" "kind" "begin" "deadline" "retry" "hold" "key" "deaf" "array"
        "parallel" "fails" "nodes" "each" "project" "preemptible" "pool" "only" "most"
        "pauses" "lost"] Work 40;
    /// A user cancels a job.
    Cancel "cancel" ["user" "job" "deaf"] Wish 10;
    /// A user holds a job.
    Hold "hold" ["user" "job" "deaf"] Wish 4;
    /// A user releases a job.
    Release "release" ["user" "job" "deaf"] Wish 6;
    /// A user changes priority or note of a job.
    Edit "edit" ["user" "job" "priority" "version" "deaf"] Wish 4;
    /// A user puts a job that runs back.
    Requeue "requeue" ["user" "job" "hold" "deaf"] Wish 4;
    /// A user changes a time limit, in seconds; 0 is none.
    Extend "extend" ["user" "job" "limit" "deaf"] Wish 8;
    /// A user sends a signal.
    Signal "signal" ["user" "job" "signal" "deaf"] Wish 4;
    /// A user changes the size of a job's shares: request and limit in thousandths.
    Resize "resize" ["user" "job" "part" "limit" "deaf"] Wish 80;
    /// A user pauses a job that runs.
    Pause "pause" ["user" "job" "deaf"] Wish 40;
    /// A user lets a paused job go on.
    Resume "resume" ["user" "job" "deaf"] Wish 60;
    /// A user repeats an unanswered submission under its key.
    Retry "retry" ["pick" "deaf"] Work 12;
    /// A user lets elements of an array that ended run again.
    Again "again" ["user" "job" "deaf"] Wish 6;
    /// An admin says which devices may be used.
    Allow "allow" ["node" "device"] Wish 2;
    /// An admin changes how devices are chosen.
    Strategy "strategy" ["which"] Wish 1;

    /// An admin reserves devices or a node, for users, for a job, or for maintenance.
    Reserve "reserve" ["node" "device" "gpus" "whom" "user" "in" "long" "every" "then"] Wish 4;
    /// An admin ends a reservation.
    Unreserve "unreserve" ["pick"] Wish 3;
    /// An admin empties a device or a node.
    Drain "drain" ["node" "device" "in" "then"] Wish 2;
    /// An admin gives a node work again.
    Undrain "undrain" ["node"] Wish 3;
    /// An admin sets the quota of a project, which is created if needed; 0 is the default project.
    /// Amounts are halves of a GPU plus 2; 1 is no limit, 0 is unset. The part is a model or a
    /// pool; 0 is none.
    Project "project" ["which" "parent" "gpus" "limit" "weight" "priority" "safe" "own" "cpus"
        "preemptible" "part" "part_gpus" "part_limit"] Wish 4;
    /// An admin takes a project away.
    Unproject "unproject" ["pick"] Wish 2;
    /// An admin puts a node into a pool.
    Move "move" ["node" "pool"] Wish 2;
    /// An admin changes the policy to another preset.
    Preset "preset" ["which"] Wish 1;

    /// An order arrives.
    Order "order" ["node" "pick"] Work 150;
    /// A report arrives.
    Report "report" ["node" "pick"] Work 150;
    /// The oldest commit becomes durable, and the server hears of it.
    Commit "commit" [] Work 200;
    /// The oldest commit becomes durable.
    Persist "persist" [] Work 20;
    /// The server hears from its store.
    Hear "hear" [] Work 60;
    /// A message about a job is answered: 0 and 1 accept it, 2 is no answer, 3 refuses it.
    Send "send" ["pick" "becomes"] Work 15;
    /// An agent hears whether the devices of a task may be used.
    Check "check" ["node" "pick"] Work 90;
    /// A shepherd that was forked claims its task.
    Claim "claim" ["node" "pick"] Work 90;
    /// A task's program starts.
    Start "start" ["node" "pick"] Work 90;
    /// A task's program ends by itself.
    Exit "exit" ["node" "pick" "code"] Work 70;
    /// An agent looks at its devices.
    Look "look" ["node"] Work 12;
    /// A shepherd reads a message about its devices: it leaves them, comes to others, pauses or
    /// resumes.
    Step "step" ["node" "pick"] Work 90;
    /// A shepherd connects to an agent that was started after it.
    Connect "connect" ["node" "pick"] Work 60;
    /// A program allocates a part of a device, in hundredths, or asks its agent for it.
    Grow "grow" ["node" "pick" "percent"] Work 400;
    /// A program frees such a part, or its loan that is called back.
    Shrink "shrink" ["node" "pick" "percent"] Work 60;
    /// Milliseconds pass.
    Pass "pass" ["ms"] Work 40;
    /// A server that is down is started.
    StartServer "start-server" [] Work 60;
    /// An agent that is down is started.
    StartAgent "start-agent" ["node"] Work 60;

    /// An order is lost.
    LoseOrder "lose-order" ["node" "pick"] Fault 12;
    /// A report is lost.
    LoseReport "lose-report" ["node" "pick"] Fault 12;
    /// An order arrives and stays on its way, to arrive again.
    RepeatOrder "repeat-order" ["node" "pick"] Fault 20;
    /// A report arrives and stays on its way, to arrive again.
    RepeatReport "repeat-report" ["node" "pick"] Fault 20;
    /// An order arrives late, by that number of milliseconds.
    DelayOrder "delay-order" ["node" "pick" "ms"] Fault 10;
    /// A report arrives late, by that number of milliseconds.
    DelayReport "delay-report" ["node" "pick" "ms"] Fault 10;
    /// Orders to a node are lost from now on, or no longer.
    CutOrders "cut-orders" ["node" "on"] Fault 5;
    /// Reports from a node are lost from now on, or no longer.
    CutReports "cut-reports" ["node" "on"] Fault 5;

    /// The network is divided from now on: 0 not any more, 1 server and node do not hear each
    /// other, 2 the server does not hear the node, 3 the node does not hear the server. That lasts
    /// for that number of milliseconds at least.
    Part "part" ["node" "how" "ms"] Work 8;
    /// Beats of an agent, and the answers, take this long from now on.
    Lag "lag" ["node" "ms"] Work 12;
    /// The machine of a node that the server does not reach is off, and an admin removes the node.
    Leave "leave" ["node"] Fault 30;

    /// The oldest commit fails.
    FailCommit "fail-commit" [] Fault 6;
    /// The disk of the server is full, or no longer.
    Disk "disk" ["full"] Fault 2;
    /// The server is killed; that number of the commits under way become durable.
    KillServer "kill-server" ["durable"] Fault 8;
    /// The server is killed after that number of further effects.
    DoomServer "doom-server" ["effects"] Fault 8;
    /// The server gets the order to stop: it starts no more jobs and ends when all is durable.
    StopServer "stop-server" [] Fault 6;
    /// An agent is killed.
    KillAgent "kill-agent" ["node"] Fault 8;
    /// An agent is killed after that number of further actions.
    DoomAgent "doom-agent" ["node" "acts"] Fault 8;
    /// A shepherd is killed, claimed or not.
    KillShepherd "kill-shepherd" ["node" "pick"] Fault 150;
    /// A shepherd reads such a message, and can't do it.
    FailStep "fail-step" ["node" "pick"] Fault 2000;
    /// A paused task can't resume on other devices, the next time that it should.
    FailRestore "fail-restore" ["node" "pick"] Fault 400;
    /// A program does not use its devices for a while, or needs them again.
    Idle "idle" ["node" "pick"] Work 40;
    /// A program uses all that it was granted, just before that becomes less.
    Surge "surge" ["node" "pick"] Fault 400;
    /// A task's program cannot be started.
    FailStart "fail-start" ["node" "pick"] Fault 20;
    /// A node reboots; some of its claims and of its records of ended tasks are lost.
    Reboot "reboot" ["node" "lost" "forgotten"] Fault 2;
    /// A device changes: 0 it is healthy, 1 it reports a fault, 2 it is gone, 3 it hangs, 4 another
    /// program uses it.
    Device "device" ["node" "device" "becomes"] Fault 16;
    /// A device changes on which a task is about to be launched, as above.
    Snatch "snatch" ["node" "pick" "becomes"] Fault 150;
    /// A wall clock jumps: 0 the server's, others the nodes'.
    Jump "jump" ["clock" "ms"] Fault 2;
}

impl Kind {
    /// Returns whether a user or an admin asks for it.
    pub(crate) fn is_asked(self) -> bool {
        self.role() == Role::Wish || matches!(self, Self::Submit | Self::Retry)
    }

    /// Returns whether an admin asks for it. The answer to a user may get lost.
    pub(crate) fn is_of_admins(self) -> bool {
        self.is_asked() && !self.arguments().contains(&"deaf")
    }

    /// Returns whether a user asks for it for one job that has not ended.
    pub(crate) fn is_on_job(self) -> bool {
        self.arguments().contains(&"job") && self != Self::Again
    }

    /// Returns whether it matters only on nodes that move tasks or lend memory.
    pub(crate) fn is_of_shares(self) -> bool {
        matches!(
            self,
            Self::Step | Self::Connect | Self::FailStep | Self::Grow | Self::Shrink | Self::Surge
        )
    }

    /// Returns whether it happens only where shares change their size and tasks are paused.
    pub(crate) fn is_elastic(self) -> bool {
        matches!(self, Self::Resize | Self::Pause | Self::Resume | Self::FailRestore | Self::Idle)
    }

    /// Returns whether it matters only where agents have leases.
    pub(crate) fn is_of_leases(self) -> bool {
        matches!(self, Self::Part | Self::Lag | Self::Leave)
    }

    /// Returns whether it matters only where there are projects.
    pub(crate) fn is_of_projects(self) -> bool {
        matches!(self, Self::Project | Self::Unproject | Self::Move | Self::Preset)
    }
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// What.
    pub kind: Kind,
    /// Its numbers, in the order of [`Kind::arguments`].
    pub numbers: Vec<i64>,
}

impl Happening {
    /// With these numbers; those that are not given are 0.
    ///
    /// # Panics
    /// If there are more than the kind has.
    #[must_use]
    pub fn new(kind: Kind, numbers: &[i64]) -> Self {
        assert!(numbers.len() <= kind.arguments().len(), "{} has fewer numbers", kind.word());
        let mut all = numbers.to_vec();
        all.resize(kind.arguments().len(), 0);
        Self { kind, numbers: all }
    }

    /// A number by its name, which the kind must have.
    pub(crate) fn number(&self, name: &str) -> i64 {
        let at = self.kind.arguments().iter().position(|argument| *argument == name);
        self.numbers[at.expect("asked only for what the kind has")]
    }

    /// The verb on jobs of that word, with the numbers that it has.
    pub(crate) fn verb(&self) -> Option<JobVerb> {
        Some(match JobVerb::named(self.kind.word())? {
            JobVerb::Requeue { .. } => JobVerb::Requeue { hold: self.is("hold") },
            JobVerb::Extend { .. } => {
                let seconds = u32::try_from(self.count("limit") % 1000).expect("below 1000");
                let limit = (seconds > 0).then(|| Millis::from_secs(seconds));
                JobVerb::Extend { change: LimitChange::To { limit } }
            }
            JobVerb::Signal { .. } => {
                let signal = i32::try_from(self.count("signal") % 30).expect("below 30") + 1;
                JobVerb::Signal { signal, to: SignalTo::Job }
            }
            plain => plain,
        })
    }

    /// A number that counts or picks.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.number(name).unsigned_abs()
    }

    /// A number that says yes or no.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.number(name) != 0
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.word())?;
        let named = self.kind.arguments().iter().zip(&self.numbers);
        for (name, number) in named.filter(|(_, number)| **number != 0) {
            write!(f, " {name} {number}")?;
        }
        Ok(())
    }
}

impl FromStr for Happening {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let word = words.next().ok_or("a happening begins with a word")?;
        let kind = Kind::ALL.iter().copied().find(|kind| kind.word() == word);
        let mut happening = Self::new(kind.ok_or(format!("nothing is called {word:?}"))?, &[]);
        while let Some(name) = words.next() {
            let arguments = happening.kind.arguments();
            let at = arguments.iter().position(|argument| *argument == name).ok_or_else(|| {
                format!("{word} has no number {name:?}; it has: {}", arguments.join(" "))
            })?;
            let number = words.next().and_then(|number| number.parse().ok());
            happening.numbers[at] =
                number.ok_or_else(|| format!("after {name:?} of {word} there must be a number"))?;
        }
        Ok(happening)
    }
}
