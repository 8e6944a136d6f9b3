//! Fields for the start, time limit, end and preemption of the job.

use std::num::NonZeroU8;

use super::super::Values::{Checked, Many, OneOf};
use super::super::{Field, Flag, heading, validate};
use super::field;
use crate::amount::Quantity;
use crate::exits::{self, Exits};
use crate::time::Time;
use crate::{check, course, signal};

/// The start, time limit, end and preemption of the job.
pub(super) static WHEN: &[Field] = &[
    Field {
        flag: Some(
            Flag::value(
                "time",
                "TIME",
                Checked(validate::time_limit),
                "Time limit (default: none), e.g. 1h30m, 01:30:00 or 90 (minutes)",
            )
            .under(heading::TIME)
            .short('t')
            .hyphen(),
        ),
        apply: |job, request| {
            request.time_limit = job.time.as_ref().map(check::time_limit).transpose()?;
            Ok(())
        },
        clears: true,
        show: Some(|spec, _, shown| shown.time = spec.time_limit.map(Quantity::from)),
        ..field!("time", time)
    },
    Field {
        flag: Some(
            Flag::value(
                "grace",
                "TIME",
                Checked(validate::time_span),
                "Time between SIGTERM and SIGKILL (default: 30s), e.g. 2m",
            )
            .under(heading::PREEMPTION)
            .hyphen(),
        ),
        apply: |job, request| {
            if let Some(grace) = &job.grace {
                request.grace = check::grace(grace)?;
            }
            Ok(())
        },
        show: Some(|spec, _, shown| shown.grace = Some(spec.grace.into())),
        ..field!("grace", grace)
    },
    Field {
        flag: Some(
            Flag::value(
                "stop-signal",
                "SIGNAL",
                Checked(|text| {
                    let number = signal::number_of("stop_signal", text);
                    number.map(signal::word).map_err(validate::why)
                }),
                "Signal that asks the job to end, before SIGKILL (default: TERM), e.g. INT, which \
                 Python raises as KeyboardInterrupt",
            )
            .under(heading::PREEMPTION),
        ),
        apply: |job, request| {
            let number = |text| signal::number_of("stop_signal", text);
            let number = job.stop_signal.as_deref().map(number).transpose()?;
            // Signals are small numbers.
            let small = number.and_then(|number| u8::try_from(number).ok());
            request.stop_signal = small.and_then(NonZeroU8::new);
            Ok(())
        },
        clears: true,
        label: Some("end signal"),
        show: Some(|spec, _, shown| {
            shown.stop_signal = spec.stop_signal.map(|it| signal::word(it.get().into()))
        }),
        ..field!("stop_signal", stop_signal)
    },
    Field {
        apply: |job, request| {
            request.after = check::dependencies("after", &job.after)?.into();
            Ok(())
        },
        label: Some("after"),
        show: Some(|spec, _, shown| shown.after = course::dependency_words(&spec.after)),
        ..field!("after", after)
    },
    Field {
        apply: |job, request| {
            request.life.after_one = check::dependencies("after_one", &job.after_one)?.into();
            Ok(())
        },
        label: Some("after one"),
        show: Some(|spec, _, shown| {
            shown.after_one = course::dependency_words(&spec.life.after_one);
        }),
        ..field!("after_one", after_one)
    },
    Field {
        flag: Some(
            Flag::value(
                "on-unmet",
                "WHAT",
                OneOf(&["cancel", "keep"]),
                "Action if the dependencies can never be met (default: cancel)",
            )
            .under(heading::TIME),
        ),
        apply: |job, request| {
            if let Some(word) = &job.on_unmet {
                request.life.on_unmet = course::on_unmet(word)?;
            }
            Ok(())
        },
        show: Some(|spec, _, shown| {
            shown.on_unmet = Some(course::on_unmet_word(spec.life.on_unmet).to_owned());
        }),
        ..field!("on_unmet", on_unmet)
    },
    Field {
        apply: |job, request| {
            request.life.begin = job.begin.map(|at| at.0);
            Ok(())
        },
        clears: true,
        show: Some(|spec, _, shown| shown.begin = spec.life.begin.map(Time)),
        ..field!("begin", begin)
    },
    Field {
        apply: |job, request| {
            request.life.deadline = job.deadline.map(|at| at.0);
            Ok(())
        },
        clears: true,
        show: Some(|spec, _, shown| shown.deadline = spec.life.deadline.map(Time)),
        ..field!("deadline", deadline)
    },
    Field {
        flag: Some(
            Flag::value(
                "signal-before",
                "[B:|S:][SIGNAL@]TIME",
                Checked(validate::warning),
                "Signal before the time limit, e.g. 90s (USR1), TERM@5m, B:TERM@5m (only the \
                 command) or S:TERM@5m (all other processes)",
            )
            .under(heading::PREEMPTION),
        ),
        apply: |job, request| {
            let warning = job.signal_before.as_deref().map(course::warning).transpose()?;
            request.life.warning = warning.into();
            Ok(())
        },
        clears: true,
        label: Some("signal"),
        show: Some(|spec, _, shown| {
            shown.signal_before = spec.life.warning.as_ref().map(course::warning_text);
        }),
        ..field!("signal_before", signal_before)
    },
    Field {
        apply: |job, request| {
            let retry = job.retry.as_ref().map(course::RetryPolicy::check).transpose()?;
            request.life.retry = retry.filter(|it| it.most > 0).map(Box::new);
            Ok(())
        },
        clears: true,
        show: Some(|spec, _, shown| {
            shown.retry = spec.life.retry.as_deref().map(course::RetryPolicy::from);
        }),
        ..field!("retry", retry)
    },
    Field {
        flag: Some(Flag {
            opposite: Some(("no-requeue", "Never requeue the job, not even on request")),
            ..Flag::switch("requeue", "Requeue the job after a node failure")
                .under(heading::PREEMPTION)
        }),
        apply: |job, request| {
            request.life.requeue = job.requeue;
            Ok(())
        },
        clears: true,
        show: Some(|spec, _, shown| shown.requeue = spec.life.requeue),
        ..field!("requeue", requeue)
    },
    Field {
        flag: Some(
            Flag::value(
                "on-node-lost",
                "ACTION",
                OneOf(&["wait", "requeue", "end"]),
                "What happens if the server loses contact with the node of the job, which is \
                 another machine, for about 44 seconds: wait for it (default), requeue the job \
                 elsewhere, or end it. With requeue and end, the node ends the job after 30 \
                 seconds without the server",
            )
            .under(heading::PREEMPTION),
        ),
        apply: |job, request| {
            if let Some(word) = &job.on_node_lost {
                request.life.on_node_lost = course::on_node_lost(word)?;
            }
            Ok(())
        },
        clears: true,
        show: Some(|spec, _, shown| {
            shown.on_node_lost = Some(spec.life.on_node_lost.as_str().to_owned());
        }),
        ..field!("on_node_lost", on_node_lost)
    },
    Field {
        flag: Some(Flag {
            opposite: Some(("no-preemptible", "Never preempt the job, regardless of its project")),
            ..Flag::switch(
                "preemptible",
                "Allow the scheduler to preempt and requeue the job, so that it can run over \
                 quota",
            )
            .under(heading::PREEMPTION)
        }),
        show: Some(|spec, _, shown| shown.preemptible = Some(spec.life.preemptible == Some(true))),
        ..field!("preemptible", preemptible)
    },
    Field {
        flag: Some(Flag {
            commas: true,
            ..Flag::value(
                "exits",
                "EXITS",
                Many(validate::exit),
                "Allowed ways to preempt the job; the least disruptive one is used: pause, \
                 checkpoint, requeue, kill",
            )
            .under(heading::PREEMPTION)
        }),
        apply: |job, request| {
            let Exits { preemptible, exits, checkpoint } = Exits::of(job)?;
            request.life.preemptible = preemptible;
            request.life.exits = exits.into();
            request.life.checkpoint = checkpoint.into();
            Ok(())
        },
        show: Some(|spec, _, shown| {
            shown.exits = spec.life.allowed_exits().iter().map(ToString::to_string).collect();
        }),
        ..field!("exits", exits)
    },
    Field {
        flag: Some(Flag {
            bare: Some("TERM"),
            ..Flag::value(
                "checkpointable",
                "SIGNAL[@TIME]",
                Checked(validate::checkpoint),
                "Signal to save the state before preemption (default: TERM), e.g. USR1 or \
                 USR1@2m",
            )
            .under(heading::PREEMPTION)
        }),
        clears: true,
        show: Some(|spec, _, shown| {
            shown.checkpoint = spec.life.checkpoint.as_ref().map(exits::checkpoint_text);
        }),
        ..field!("checkpoint", checkpoint)
    },
    Field {
        flag: Some(Flag {
            bare: Some(exits::FILE),
            ..Flag::value(
                "yields",
                "SIGNAL[@TIME]",
                Checked(validate::yields),
                "Let the job free its GPUs itself when they are needed, on this signal or without \
                 one (file), e.g. USR1@60s; see gpool yield",
            )
            .under(heading::PREEMPTION)
        }),
        apply: |job, request| {
            request.life.habits.yields = job.yields.as_deref().map(exits::yields).transpose()?;
            Ok(())
        },
        clears: true,
        label: Some("yields"),
        show: Some(|spec, _, shown| {
            shown.yields = spec.life.habits.yields.as_ref().map(exits::yields_text);
        }),
        ..field!("yields", yields)
    },
    Field {
        flag: Some(Flag::switch("hold", "Hold the job until it is released").under(heading::TIME)),
        apply: |job, request| {
            if job.hold {
                request.standing.hold = true;
            }
            Ok(())
        },
        ..field!("hold", hold)
    },
    Field {
        flag: Some(Flag {
            alias: Some("prio"),
            ..Flag::value(
                "priority",
                "N",
                Checked(validate::priority),
                "Priority, -1000 to 1000; higher goes first (default: 0)",
            )
            .under(heading::TIME)
            .hyphen()
        }),
        apply: |job, request| {
            if let Some(priority) = job.priority {
                request.standing.priority = check::checked_priority(priority)?;
            }
            Ok(())
        },
        show: Some(|_, job, shown| shown.priority = Some(job.priority)),
        ..field!("priority", priority)
    },
    Field {
        flag: Some(Flag::switch(
            "allow-unsatisfiable",
            "Queue the job even if no node could ever run it",
        )),
        apply: |job, request| {
            request.allow_unsatisfiable = job.allow_unsatisfiable;
            Ok(())
        },
        show: Some(|spec, _, shown| shown.allow_unsatisfiable = spec.allow_unsatisfiable),
        ..field!("allow_unsatisfiable", allow_unsatisfiable)
    },
];
