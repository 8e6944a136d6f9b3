//! Fields for the program and name of the job, and for array elements.

use std::sync::Arc;

use gpool_model::GroupPlace;
use gpool_model::container::PullPolicy;

use super::super::Values::{Checked, Many, OneOf};
use super::super::{Field, Flag, Group, heading, validate};
use super::{field, join};
use crate::create::{Origin, ScriptText};
use crate::{check, compat, container, launch, notify, secret};

/// The program and name of the job, and array elements.
pub(super) static PROGRAM: &[Field] = &[
    Field {
        group: Group::Program,
        apply: |job, request| {
            request.command.clone_from(&job.command);
            Ok(())
        },
        is_private: true,
        show: Some(|spec, _, shown| shown.command.clone_from(&spec.command)),
        ..field!("command", command)
    },
    Field {
        group: Group::Program,
        show: Some(|spec, _, shown| {
            shown.script = spec.script.as_ref().map(|_| ScriptText::default())
        }),
        ..field!("script", script)
    },
    Field {
        flag: Some(
            Flag::value(
                "name",
                "NAME",
                Checked(validate::name),
                "Name of the job (default: name of the program)",
            )
            .short('J'),
        ),
        apply: |job, request| {
            if let Some(name) = &job.name {
                request.name = check::checked_name(name)?.into();
            }
            Ok(())
        },
        is_private: true,
        show: Some(|spec, _, shown| shown.name = Some(spec.name.to_string())),
        ..field!("name", name)
    },
    Field {
        flag: Some(
            Flag::value("project", "PROJECT", Checked(validate::filled), "Project to charge")
                .short('p'),
        ),
        apply: |job, request| {
            request.project = check::project(job.project.as_deref())?;
            Ok(())
        },
        show: Some(|spec, _, shown| shown.project = Some(spec.project.to_string())),
        ..field!("project", project)
    },
    Field {
        flag: Some(Flag::value(
            "group",
            "GROUP",
            Checked(validate::group),
            "Group of your jobs that the job belongs to: NAME, NAME/ROLE or NAME/ROLE/INDEX",
        )),
        apply: |job, request| {
            let place = job.group.as_deref().map(GroupPlace::parse).transpose();
            let place = place.map_err(|error| check::invalid("group", &error.to_string()))?;
            request.part_of = place.map(Arc::new);
            Ok(())
        },
        label: Some("group"),
        is_private: true,
        show: Some(|spec, _, shown| {
            shown.group = spec.part_of.as_ref().map(|place| place.to_string());
        }),
        ..field!("group", group)
    },
    Field {
        apply: |job, request| {
            if let Some(directory) = &job.directory {
                request.directory = check::checked_directory(directory)?;
            }
            Ok(())
        },
        is_private: true,
        show: Some(|spec, _, shown| shown.directory = Some(spec.directory.clone())),
        ..field!("directory", directory)
    },
    Field { group: Group::Environment, ..field!("environment", environment) },
    Field { group: Group::Environment, ..field!("environment_bytes", environment_bytes) },
    Field {
        flag: Some(
            Flag::value(
                "stdin",
                "FILE",
                Checked(validate::filled),
                "File to read as standard input",
            )
            .under(heading::STREAMS),
        ),
        apply: |job, request| {
            request.stdin = check::path("stdin", job.stdin.as_deref())?;
            Ok(())
        },
        clears: true,
        is_private: true,
        label: Some("stdin"),
        show: Some(|spec, _, shown| shown.stdin = spec.stdin.as_deref().map(str::to_owned)),
        ..field!("stdin", stdin)
    },
    Field {
        flag: Some(
            Flag::value(
                "stdout",
                "FILE",
                Checked(validate::filled),
                "File for standard output (default: stored by gpool)",
            )
            .under(heading::STREAMS),
        ),
        apply: |job, request| {
            request.stdout = check::path("stdout", job.stdout.as_deref())?;
            Ok(())
        },
        clears: true,
        is_private: true,
        label: Some("stdout"),
        show: Some(|spec, _, shown| shown.stdout = spec.stdout.as_deref().map(str::to_owned)),
        ..field!("stdout", stdout)
    },
    Field {
        flag: Some(
            Flag::value(
                "stderr",
                "FILE",
                Checked(validate::filled),
                "File for standard error (default: stored by gpool)",
            )
            .under(heading::STREAMS),
        ),
        apply: |job, request| {
            request.stderr = check::path("stderr", job.stderr.as_deref())?;
            Ok(())
        },
        clears: true,
        is_private: true,
        label: Some("stderr"),
        show: Some(|spec, _, shown| shown.stderr = spec.stderr.as_deref().map(str::to_owned)),
        ..field!("stderr", stderr)
    },
    Field {
        flag: Some(
            Flag::value(
                "open-mode",
                "MODE",
                OneOf(&["append", "truncate"]),
                "How each run opens these files (default: the first truncates, later ones append)",
            )
            .under(heading::STREAMS),
        ),
        apply: |job, request| {
            request.open_mode = job.open_mode.as_deref().map(launch::open_mode).transpose()?;
            Ok(())
        },
        clears: true,
        label: Some("open mode"),
        show: Some(|spec, _, shown| {
            shown.open_mode = spec.open_mode.map(|mode| mode.as_str().to_owned());
        }),
        ..field!("open_mode", open_mode)
    },
    Field {
        apply: |job, request| {
            request.pty = job.pty.map(launch::checked_window).transpose()?;
            Ok(())
        },
        show: Some(|spec, _, shown| shown.pty = spec.pty.map(launch::Window::from)),
        ..field!("pty", pty)
    },
    Field {
        apply: |job, request| {
            request.activate = launch::checked(&job.activate)?.into();
            Ok(())
        },
        is_private: true,
        show: Some(|spec, _, shown| {
            shown.activate = spec.activate.iter().map(launch::Activate::from).collect();
        }),
        ..field!("activate", activate)
    },
    Field {
        flag: Some(
            Flag::value(
                "image",
                "IMAGE",
                Checked(validate::image),
                "Run in a container of this image (implies --clean-env)",
            )
            .under(heading::PROGRAM),
        ),
        apply: |job, request| {
            request.container = container::request(job)?;
            Ok(())
        },
        label: Some("image"),
        is_private: true,
        show: Some(|spec, _, shown| {
            shown.image = spec.container.as_ref().map(|it| it.image.clone());
        }),
        ..field!("image", image)
    },
    Field {
        flag: Some(
            Flag::value(
                "mount",
                "SOURCE:TARGET[:ro]",
                Many(validate::mount),
                "File or folder that the container sees; the working directory always is",
            )
            .under(heading::PROGRAM),
        ),
        label: Some("mounts"),
        is_private: true,
        show: Some(|spec, _, shown| {
            let mounts = spec.container.iter().flat_map(|it| &it.mounts);
            shown.mounts = mounts.map(ToString::to_string).collect();
        }),
        ..field!("mounts", mounts)
    },
    Field {
        flag: Some(
            Flag::value(
                "workdir",
                "DIR",
                Checked(validate::absolute),
                "Working directory in the container (default: that of the job)",
            )
            .under(heading::PROGRAM),
        ),
        label: Some("workdir"),
        is_private: true,
        show: Some(|spec, _, shown| {
            shown.workdir = spec.container.as_ref().and_then(|it| it.workdir.clone());
        }),
        ..field!("workdir", workdir)
    },
    Field {
        flag: Some(
            Flag::value(
                "container-user",
                "USER",
                Checked(validate::filled),
                "User in the container: USER or USER:GROUP (default: the user of the job)",
            )
            .under(heading::PROGRAM),
        ),
        label: Some("container user"),
        show: Some(|spec, _, shown| {
            shown.container_user = spec.container.as_ref().and_then(|it| it.user.clone());
        }),
        ..field!("container_user", container_user)
    },
    Field {
        flag: Some(
            Flag::value(
                "pull",
                "WHEN",
                OneOf(PullPolicy::NAMES),
                "When a node pulls the image (default: missing)",
            )
            .under(heading::PROGRAM),
        ),
        label: Some("pull"),
        show: Some(|spec, _, shown| {
            let pull = spec.container.as_ref().map(|it| it.pull);
            let chosen = pull.filter(|it| *it != PullPolicy::default());
            shown.pull = chosen.map(|it| it.as_str().to_owned());
        }),
        ..field!("pull", pull)
    },
    Field {
        flag: Some(
            Flag::value(
                "image-login",
                "NAME",
                Checked(validate::secret),
                "Secret with USER:PASSWORD for the registry of the image",
            )
            .under(heading::PROGRAM),
        ),
        label: Some("image login"),
        is_private: true,
        show: Some(|spec, _, shown| {
            shown.image_login = spec.container.as_ref().and_then(|it| it.login.clone());
        }),
        ..field!("image_login", image_login)
    },
    Field {
        flag: Some(
            Flag::value(
                "secret",
                "NAME",
                Many(validate::secret),
                "Secret that the job finds as a file in $GPOOL_SECRETS",
            )
            .under(heading::PROGRAM),
        ),
        apply: |job, request| {
            request.secrets = secret::names(&job.secrets)?.into();
            Ok(())
        },
        label: Some("secrets"),
        is_private: true,
        show: Some(|spec, _, shown| shown.secrets.clone_from(&spec.secrets)),
        ..field!("secrets", secrets)
    },
    field!("setup", setup),
    Field {
        flag: Some(
            Flag::value(
                "array",
                "INDEXES",
                Checked(validate::array),
                "Indexes of the elements, e.g. 0-99, 1,3,7-9 or 0-99:2%8 (8 at once)",
            )
            .under(heading::ARRAY)
            .hyphen(),
        ),
        group: Group::Array,
        show: Some(|spec, job, shown| {
            let array = spec.array.as_ref().filter(|_| job.id.element.is_none());
            shown.array = array.map(|array| array.indexes.to_string());
        }),
        ..field!("array", array)
    },
    Field {
        flag: Some(Flag {
            alias: Some("max-concurrent"),
            ..Flag::value(
                "max-parallel",
                "N",
                Checked(validate::max_parallel),
                "Maximum number of elements that run at once (default: all), e.g. 8",
            )
            .under(heading::ARRAY)
            .hyphen()
        }),
        apply: |job, request| {
            if job.max_parallel.is_some() {
                request.standing.max_parallel = job.max_parallel;
            }
            Ok(())
        },
        show: Some(|_, job, shown| {
            shown.max_parallel = job.array.as_ref().and_then(|it| it.max_parallel)
        }),
        ..field!("max_parallel", max_parallel)
    },
    Field {
        flag: Some(
            Flag::value(
                "max-fails",
                "N",
                Checked(validate::count),
                "Maximum number of failed elements before the rest is cancelled, e.g. 3",
            )
            .under(heading::ARRAY),
        ),
        apply: |job, request| {
            if job.max_fails.is_some() {
                request.standing.max_fails = job.max_fails;
            }
            Ok(())
        },
        show: Some(|_, job, shown| {
            shown.max_fails = job.array.as_ref().and_then(|it| it.max_fails)
        }),
        ..field!("max_fails", max_fails)
    },
    Field {
        flag: Some(
            Flag::value(
                "metric",
                "NAME:min|max|VALUE",
                Checked(validate::objective),
                "Metric that tells which element is the best, e.g. loss:min, or accuracy:0.95 for \
                 the closest",
            )
            .under(heading::ARRAY),
        ),
        show: Some(|spec, _, shown| {
            let objective = spec.array.as_ref().and_then(|array| array.objective.as_ref());
            shown.metric = objective.map(ToString::to_string);
        }),
        label: Some("metric"),
        is_private: true,
        ..field!("metric", metric)
    },
    Field { group: Group::Array, ..field!("params", params) },
    Field { group: Group::Array, ..field!("items", items) },
    Field { group: Group::Array, ..field!("table", table) },
    Field {
        flag: Some(
            Flag::value(
                "notify",
                "EVENTS@URL",
                Many(validate::notify),
                "Events to send to a web or mail address, e.g. done,fail@https://host/path or \
             fail@mailto:ana@example.org",
            )
            .under(heading::NOTIFICATIONS),
        ),
        apply: |job, request| {
            let rules = notify::rules(&job.notify)?;
            if !rules.is_empty() {
                request.standing.notify = rules;
            }
            Ok(())
        },
        is_private: true,
        label: Some("tells"),
        show: Some(|_, job, shown| {
            shown.notify = job.notify.iter().map(notify::rule_text).collect()
        }),
        ..field!("notify", notify)
    },
    Field {
        flag: Some(Flag::value(
            "note",
            "TEXT",
            Checked(validate::note),
            "Note to show with the job",
        )),
        apply: |job, request| {
            if let Some(note) = job.note.as_deref().map(check::checked_note).transpose()?.flatten()
            {
                request.standing.note = Some(note);
            }
            Ok(())
        },
        is_private: true,
        label: Some("note"),
        show: Some(|_, job, shown| shown.note.clone_from(&job.note)),
        ..field!("note", note)
    },
    field!("umask", umask),
    Field {
        flag: Some(Flag {
            commas: true,
            ..Flag::value(
                "compat",
                "WHICH",
                Many(validate::compat),
                "Other scheduler to set environment variables of: slurm, gflow or valohai",
            )
            .under(heading::PROGRAM)
        }),
        join: join!(compat),
        apply: |job, request| {
            request.compat = compat::checked(&job.compat)?.into();
            Ok(())
        },
        show: Some(|spec, _, shown| {
            shown.compat = spec.compat.iter().map(|it| it.as_str().to_owned()).collect();
        }),
        ..field!("compat", compat)
    },
    Field {
        apply: |job, request| {
            request.origin = job.origin.as_ref().map(Origin::check).transpose()?;
            Ok(())
        },
        is_private: true,
        show: Some(|spec, _, shown| {
            shown.origin = spec
                .origin
                .as_deref()
                .map(|origin| Origin { line: origin.line.clone(), script: origin.script.clone() });
        }),
        ..field!("origin", origin)
    },
];
