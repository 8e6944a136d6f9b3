//! A store that can't be opened is refused with the reason and a way out, and left unchanged.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use gpool_store::{OpenError, Store, StoreOptions};
use rusqlite::Connection;

use crate::support::{Mount, State, Truth, commit, content, copy_store, entry};

#[test]
fn a_new_store_is_for_its_owner_alone() {
    let state = State::new();
    let (mut store, loaded) = state.open();
    assert!(loaded.records.is_empty());
    store.commit(&[Truth::default().next()]).unwrap();
    let mode =
        |name: &str| fs::metadata(state.dir.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(""), 0o700);
    for name in ["store.db", "store.db-wal", "mark", "lock"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[test]
fn a_second_server_learns_which_process_holds_the_folder() {
    let state = State::new();
    let (store, _) = state.open();
    let says = state.refusal();
    assert!(says.contains(&format!("process {}", std::process::id())), "{says}");
    assert!(says.contains("gpool down"), "{says}");
    drop(store);
    state.open();
}

#[test]
fn without_create_nothing_is_made() {
    let state = State::new();
    let options = StoreOptions { create: false, ..StoreOptions::default() };
    assert!(matches!(Store::open(&state.dir, &options), Err(OpenError::NoStore { .. })));
    assert!(!state.dir.exists());
}

#[test]
fn a_file_is_no_state_folder() {
    let state = State::new();
    fs::write(&state.dir, "text").unwrap();
    assert!(state.refusal().contains("is not a folder"));
    assert_eq!(fs::read(&state.dir).unwrap(), b"text");
}

#[test]
fn a_folder_that_others_may_write_is_refused() {
    let state = State::new();
    fs::create_dir(&state.dir).unwrap();
    fs::set_permissions(&state.dir, Permissions::from_mode(0o777)).unwrap();
    assert!(state.refusal().contains("other users can write"));
    assert_eq!(fs::read_dir(&state.dir).unwrap().count(), 0);
}

#[test]
fn a_folder_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can give a folder away");
        return;
    }
    let state = State::new();
    fs::create_dir(&state.dir).unwrap();
    std::os::unix::fs::chown(&state.dir, Some(12345), None).unwrap();
    assert!(state.refusal().contains("belongs to user 12345"));
    assert_eq!(fs::read_dir(&state.dir).unwrap().count(), 0);
}

#[test]
fn a_read_only_folder_is_refused() {
    let Some(mount) = Mount::tmpfs("4m") else { return };
    let dir = mount.dir.join("state");
    drop(Store::open(&dir, &StoreOptions::default()).unwrap());
    mount.remount("ro");
    for dir in [dir, mount.dir.join("new")] {
        let Err(error) = Store::open(&dir, &StoreOptions::default()) else { panic!("opened") };
        assert!(matches!(error, OpenError::ReadOnly { .. }), "{error}");
    }
}

#[test]
fn a_folder_without_permission_is_refused() {
    if rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: root ignores permission bits");
        return;
    }
    let state = State::new();
    fs::create_dir(&state.dir).unwrap();
    fs::set_permissions(&state.dir, Permissions::from_mode(0o500)).unwrap();
    assert!(state.refusal().contains("no permission"));
    fs::set_permissions(&state.dir, Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_file_that_is_no_store_is_left_unchanged() {
    let big_text = "not a database ".repeat(1000);
    for (bytes, says) in [
        (&b""[..], "0 bytes"),
        (b"SQLite format 3\0", "16 bytes"),
        (big_text.as_bytes(), "is not a gpool store"),
    ] {
        let state = State::new();
        fs::create_dir(&state.dir).unwrap();
        let path = state.dir.join("store.db");
        fs::write(&path, bytes).unwrap();
        let refusal = state.refusal();
        assert!(refusal.contains(says), "{refusal}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    let state = State::new();
    fs::create_dir(&state.dir).unwrap();
    let path = state.dir.join("store.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(state.refusal().contains("of another program"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_store_of_another_version_is_refused_before_anything_is_written() {
    for (found, word) in [(0, "an older"), (gpool_store::SCHEMA + 1, "a newer")] {
        let (state, _) = State::with_commits(5);
        let connection = Connection::open(state.dir.join("store.db")).unwrap();
        let change = format!(
            "UPDATE meta SET schema = {found}, written_by = '9.1.0'; PRAGMA user_version = {found}"
        );
        connection.execute_batch(&change).unwrap();
        drop(connection);
        let before = content(&state.dir);
        let says = state.refusal();
        let words = format!("{word} gpool (9.1.0, schema {found}; this one supports 1)");
        assert!(says.contains(&words) && says.contains("gpool restore"), "{says}");
        assert_eq!(content(&state.dir), before);
    }
}

#[test]
fn a_new_store_is_of_the_first_version() {
    let (state, _) = State::with_commits(5);
    let connection = Connection::open(state.dir.join("store.db")).unwrap();
    let read = |sql| connection.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!(read("SELECT schema FROM meta"), 1);
    assert_eq!(read("PRAGMA user_version"), 1);
}

#[test]
fn a_lost_database_is_not_replaced_by_an_empty_one() {
    let (state, _) = State::with_commits(5);
    let path = state.dir.join("store.db");
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let says = state.refusal();
    assert!(says.contains("is missing") && says.contains("gpool restore"), "{says}");
    assert!(!path.exists());
    fs::write(&path, bytes).unwrap();
    state.open();
}

#[test]
fn a_lost_damaged_or_foreign_mark_is_refused() {
    let (state, _) = State::with_commits(5);
    let (other, _) = State::with_commits(5);
    let path = state.dir.join("mark");
    let good = fs::read(&path).unwrap();
    let damaged = vec![0; good.len()];
    let foreign = fs::read(other.dir.join("mark")).unwrap();
    fs::remove_file(&path).unwrap();
    assert!(state.refusal().contains("is missing"));
    for (bytes, says) in [(damaged, "is damaged"), (foreign, "belongs to another store")] {
        fs::write(&path, bytes).unwrap();
        let refusal = state.refusal();
        assert!(refusal.contains(says), "{refusal}");
    }
    fs::write(&path, good).unwrap();
    state.open();
}

#[test]
fn a_database_that_took_another_way_than_its_mark_is_refused() {
    let (state, mut truth) = State::with_commits(5);
    let other = state.dir.with_file_name("other");
    copy_store(&state.dir, &other);
    let (mut store, _) = state.open();
    store.commit(&[truth.next(), truth.next(), truth.next()]).unwrap();
    drop(store);
    fs::set_permissions(&other, Permissions::from_mode(0o700)).unwrap();
    let (mut store, loaded) = Store::open(&other, &StoreOptions::default()).unwrap();
    for n in 1..10 {
        let event = entry(loaded.seq.0 + n, "another");
        store.commit(&[commit(loaded.revision.0 + n, vec![], vec![event], vec![])]).unwrap();
    }
    drop(store);
    fs::copy(other.join("store.db"), state.dir.join("store.db")).unwrap();
    let says = state.refusal();
    assert!(says.contains("differs from the committed entry"), "{says}");
}

#[test]
fn an_interrupted_creation_is_done_again() {
    let (state, _) = State::with_commits(0);
    let database = state.dir.join("store.db");
    // Killed between the database and the mark.
    fs::remove_file(state.dir.join("mark")).unwrap();
    state.open();
    // Killed before the database got its name.
    fs::remove_file(state.dir.join("mark")).unwrap();
    fs::rename(&database, state.dir.join("store.db.new")).unwrap();
    for name in ["store.db-wal", "store.db-shm"] {
        let _ = fs::remove_file(state.dir.join(name));
    }
    state.open();
}
