//! A full disk: acknowledged commits stay, new ones are refused with that reason, and with free
//! space the store continues without a restart.

use std::fs;
use std::path::Path;

use gpool_model::Revision;
use gpool_store::{
    BlobError, CommitError, Committer, OpenError, Reader, Store, StoreOptions, verify,
};

use crate::support::{Mount, State, Truth, change, commit, ended, entry, results};

#[test]
fn a_full_disk_refuses_new_commits_and_keeps_the_old() {
    let Some(mount) = Mount::tmpfs("4m") else { return };
    let dir = mount.dir.join("state");
    let (store, _) = Store::open(&dir, &StoreOptions::default()).unwrap();
    let blobs = store.blobs().unwrap();
    let reader = store.reader().unwrap();
    let (on_done, told) = results();
    let committer = Committer::spawn(store, on_done).unwrap();
    let mut durable = Truth::default();
    for _ in 0..20 {
        committer.submit(durable.next()).unwrap();
        told.recv().unwrap().unwrap();
    }
    let ballast = mount.dir.join("ballast");
    fs::write(&ballast, vec![0; 1 << 20]).unwrap();

    let big = "x".repeat(100_000);
    let mut n_big = 0;
    let refused = loop {
        let revision = durable.revision + n_big + 1;
        let record = change("big", &revision.to_string(), Some(&big));
        committer.submit(commit(revision, vec![record], vec![], vec![])).unwrap();
        match told.recv().unwrap() {
            Ok(revision) => assert_eq!(revision, Revision(durable.revision + n_big + 1)),
            Err(error) => break error,
        }
        n_big += 1;
        assert!(n_big < 100, "4 MB held 10 MB");
    };
    assert_eq!(refused, CommitError::StorageFull);
    let id = blobs.name(1000, big.as_bytes());
    let put = || blobs.store(&id, big.as_bytes(), u64::MAX);
    assert!(matches!(put(), Err(BlobError::StorageFull { .. })));

    // Reading still works: with the reader, and by loading again.
    assert_eq!(reader.load().unwrap().revision.0, durable.revision + n_big);
    let loaded = committer.reset().unwrap();
    assert_eq!(loaded.revision.0, durable.revision + n_big);
    assert_eq!(reader.journal(gpool_model::Seq(1), u32::MAX).unwrap(), durable.journal);

    fs::remove_file(&ballast).unwrap();
    let next = Revision(loaded.revision.0 + 1);
    let record = change("job", "after", Some("there"));
    committer.submit(commit(next.0, vec![record], vec![], vec![])).unwrap();
    assert_eq!(told.recv().unwrap(), Ok(next));
    put().unwrap();
    committer.close();
    drop(reader);
    let (_store, loaded) = Store::open(&dir, &StoreOptions::default()).unwrap();
    assert_eq!(loaded.revision, next);
    assert!(loaded.records.iter().any(|record| record.key == "after"));
    assert_eq!(Reader::open(&dir).unwrap().load().unwrap(), loaded);
}

#[test]
fn a_full_copy_on_write_file_system_does_not_end_the_process() {
    let Some(mount) = Mount::btrfs() else { return };
    let dir = mount.dir.join("state");
    let (mut store, _) = Store::open(&dir, &StoreOptions::default()).unwrap();
    let mut durable = Truth::default();
    for _ in 0..20 {
        store.commit(&[durable.next()]).unwrap();
    }
    let reader = store.reader().unwrap();
    fill(&mount.dir.join("ballast"));
    // The next writes change blocks on the disk. Copies of these blocks would need space.
    rustix::fs::sync();
    for _ in 0..20 {
        store.commit(&[durable.next()]).unwrap();
        assert_eq!(reader.load().unwrap().revision.0, durable.revision);
    }
    fs::remove_file(mount.dir.join("ballast")).unwrap();
    store.commit(&[durable.next()]).unwrap();
}

#[test]
fn small_commits_succeed_on_a_full_disk_and_ordinary_changes_are_refused() {
    let Some(mount) = Mount::tmpfs("32m") else { return };
    let dir = mount.dir.join("state");
    let (mut store, _) = Store::open(&dir, &StoreOptions::default()).unwrap();
    let mut durable = Truth::default();
    for _ in 0..20 {
        store.commit(&[durable.next()]).unwrap();
    }
    assert_eq!(store.room().check(), Ok(()));
    let ballast = mount.dir.join("ballast");
    fill(&ballast);
    assert_eq!(store.room().check(), Err(CommitError::StorageFull));
    for _ in 0..40 {
        store.commit(&[durable.next()]).unwrap();
    }
    // The reserve outlives a restart on the full disk.
    drop(store);
    fill(&mount.dir.join("more"));
    let (mut store, loaded) = Store::open(&dir, &StoreOptions::default()).unwrap();
    assert_eq!(loaded.revision.0, durable.revision);
    assert_eq!(store.room().check(), Err(CommitError::StorageFull));
    for _ in 0..40 {
        store.commit(&[durable.next()]).unwrap();
    }
    fs::remove_file(&ballast).unwrap();
    store.fill_reserve();
    assert_eq!(store.room().check(), Ok(()));
    // It is made again, and serves again.
    fill(&ballast);
    for _ in 0..40 {
        store.commit(&[durable.next()]).unwrap();
    }
    assert_eq!(store.reader().unwrap().load().unwrap().revision.0, durable.revision);
}

/// Fills the rest of a file system; a file that is there grows.
fn fill(path: &Path) {
    let mut file = fs::File::options().append(true).create(true).open(path).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
}

/// Ends jobs on a full disk, one by one, until the store refuses one: at most `n_jobs`.
fn ends_on_a_full_disk(mount: &Mount, n_jobs: u64) -> u64 {
    let dir = mount.dir.join("state");
    let (mut store, _) = Store::open(&dir, &StoreOptions::default()).unwrap();
    let text = "x".repeat(700);
    let jobs = (1..=n_jobs).map(|job| change("job", &job.to_string(), Some(&text))).collect();
    store.commit(&[commit(1, jobs, vec![], vec![])]).unwrap();
    let ballast = mount.dir.join("ballast");
    for job in 1..=n_jobs {
        // Other programs take each block that is freed. Delayed writes take theirs, too.
        if job % 100 == 1 {
            fill(&ballast);
            fs::File::open(&ballast).unwrap().sync_all().unwrap();
            fill(&ballast);
        }
        let records = vec![
            change("job", &job.to_string(), None),
            change("cluster", "", Some(&job.to_string())),
        ];
        let journal = vec![entry(job, &text[..300])];
        let end = commit(job + 1, records, journal, vec![ended(job, &text)]);
        if let Err(error) = store.commit(&[end]) {
            assert_eq!(error, CommitError::StorageFull);
            return job - 1;
        }
    }
    drop(store);
    fs::remove_file(&ballast).unwrap();
    assert!(verify(&dir).unwrap().is_sound());
    n_jobs
}

#[test]
fn many_jobs_can_end_one_by_one_on_a_full_disk() {
    // Without btrfs: there, each commit on a full disk takes a tenth of a second.
    let mounts = [("tmpfs", Mount::tmpfs("128m")), ("ext4", Mount::ext4()), ("xfs", Mount::xfs())];
    for (name, mount) in &mounts {
        let Some(mount) = mount else { continue };
        assert_eq!(ends_on_a_full_disk(mount, 2000), 2000, "{name}");
    }
}

#[test]
fn a_store_opens_on_a_full_disk_whose_last_blocks_another_program_took() {
    let Some(mount) = Mount::tmpfs("128m") else { return };
    let dir = mount.dir.join("state");
    let (mut store, _) = Store::open(&dir, &StoreOptions::default()).unwrap();
    let mut durable = Truth::default();
    for _ in 0..20 {
        store.commit(&[durable.next()]).unwrap();
    }
    fill(&mount.dir.join("ballast"));
    drop(store);
    // SQLite cuts this file when it opens the store, and needs the space again.
    fs::remove_file(dir.join("store.db-shm")).unwrap();
    fill(&mount.dir.join("ballast"));
    let (mut store, loaded) = Store::open(&dir, &StoreOptions::default()).unwrap();
    assert_eq!(loaded.revision.0, durable.revision);
    // The rest of the reserve is still there.
    fill(&mount.dir.join("ballast"));
    for _ in 0..40 {
        store.commit(&[durable.next()]).unwrap();
    }
}

#[test]
fn a_store_without_spare_pages_gets_them() {
    let state = State::new();
    drop(state.open());
    let n_free = || {
        let file = state.dir.join("store.db");
        let connection = rusqlite::Connection::open(file).unwrap();
        connection.query_row("PRAGMA freelist_count", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let goal = n_free();
    assert!(goal > 900, "{goal}");
    rusqlite::Connection::open(state.dir.join("store.db"))
        .unwrap()
        .execute_batch("VACUUM")
        .unwrap();
    assert_eq!(n_free(), 0);
    let (mut store, _) = state.open();
    assert!(n_free() >= goal);
    // They are made again while the store is in use.
    let mut durable = Truth::default();
    for _ in 0..20 {
        let mut next = durable.next();
        next.records.push(change("big", &durable.revision.to_string(), Some(&"x".repeat(200_000))));
        store.commit(&[next]).unwrap();
        assert!(n_free() >= goal / 2);
    }
    drop(store);
    assert!(verify(&state.dir).unwrap().is_sound());
}

#[test]
fn no_store_is_made_where_there_is_no_room() {
    let Some(mount) = Mount::tmpfs("64k") else { return };
    fs::write(mount.dir.join("ballast"), vec![0; 48 << 10]).unwrap();
    let dir = mount.dir.join("state");
    let Err(error) = Store::open(&dir, &StoreOptions::default()) else { panic!("opened") };
    assert!(matches!(error, OpenError::StorageFull { .. }), "{error}");
    fs::remove_file(mount.dir.join("ballast")).unwrap();
    mount.remount("size=1m");
    Store::open(&dir, &StoreOptions::default()).unwrap();
}
