//! Writes data to standard output and notes to standard error, both adapted to the terminal. A
//! reader that has gone ends the program quietly.

use std::ffi::OsString;
use std::io::ErrorKind;

use gpool_cli::screen::{ColorWhen, is_narrow, not_written, to_ascii, use_colors};

#[test]
fn colors_follow_the_flag_then_the_variables_then_the_terminal() {
    let one = Some(OsString::from("0"));
    let none = |_: &str| None;
    let no_color = |name: &str| one.clone().filter(|_| name == "NO_COLOR");
    let force = |name: &str| (name == "CLICOLOR_FORCE").then(|| OsString::from("1"));
    let no_force = |name: &str| one.clone().filter(|_| name == "CLICOLOR_FORCE");
    let both = |_: &str| Some(OsString::from("1"));
    for (when, tty, set, dumb, expected) in [
        (ColorWhen::Auto, true, &none as &dyn Fn(&str) -> Option<OsString>, false, true),
        (ColorWhen::Auto, false, &no_force, false, false),
        (ColorWhen::Auto, true, &none, true, false),
        (ColorWhen::Auto, false, &none, false, false),
        (ColorWhen::Auto, true, &no_color, false, false),
        (ColorWhen::Auto, false, &force, false, true),
        (ColorWhen::Auto, false, &both, false, false),
        (ColorWhen::Always, false, &no_color, true, true),
        (ColorWhen::Never, true, &force, false, false),
    ] {
        assert_eq!(use_colors(when, tty, set, dumb), expected, "{when:?} {tty} {dumb}");
    }
}

#[test]
fn a_locale_without_utf_8_declares_a_terminal_without_unicode() {
    for (all, ctype, lang, expected) in [
        ("", "", "", false),
        ("", "", "C.UTF-8", false),
        ("", "", "en_US.utf8", false),
        ("", "", "C", true),
        ("", "de_DE.ISO-8859-1", "C.UTF-8", true),
        ("en_US.UTF-8", "C", "C", false),
        ("POSIX", "", "C.UTF-8", true),
    ] {
        let variable = |name: &str| {
            let value = match name {
                "LC_ALL" => all,
                "LC_CTYPE" => ctype,
                _ => lang,
            };
            Some(OsString::from(value)).filter(|value| !value.is_empty())
        };
        assert_eq!(is_narrow(&variable), expected, "{all:?} {ctype:?} {lang:?}");
    }
}

#[test]
fn ascii_leaves_nothing_else() {
    assert_eq!(to_ascii("2 × A100 · 15:30–16:09 █▌…"), "2 x A100 | 15:30-16:09 #=...");
    assert!(to_ascii("训练 é").is_ascii());
}

#[test]
fn a_closed_pipe_is_quiet_and_a_full_disk_is_not() {
    let closed = std::io::Error::from(ErrorKind::BrokenPipe);
    assert_eq!(not_written(&closed).exit().0, 141);
    let full = std::io::Error::from(ErrorKind::StorageFull);
    assert_eq!(not_written(&full).exit().0, 1);
    assert!(not_written(&full).text(false).contains("can't write"));
}
