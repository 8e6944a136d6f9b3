//! Maps whose workers run in containers of a real engine.

use crate::containers::Lab;
use crate::maps::{file, records};

#[test]
fn workers_run_in_an_image_that_has_no_gpool() {
    let Some(lab) = Lab::new("sim:2xA100-40G") else { return };
    let cluster = &lab.cluster;
    let lines: String = (0..40).map(|n| format!("{n}\n")).collect();
    let items = file(cluster, "items.txt", &lines);
    // The image has no folder /usr. One program ends in the middle, and is started again.
    let program = "where=image; [ -d /usr ] && where=host; n=0\n\
        while read -r line; do\n\
            n=$((n + 1)); [ $n = 15 ] && [ ! -e died ] && touch died && exit 3\n\
            echo \"$where with $GPOOL_GPUS\"\n\
        done";
    let words = ["map", &items, "--name", "boxed", "--gpus", "1", "--workers", "2"];
    let image = ["--image", "tools:1", "--answer", "line", "--", "sh", "-c", program];
    let id = cluster.gpool([&words[..], &image].concat()).ok();
    assert_eq!(cluster.until_ended(id.trim()).state.as_str(), "succeeded");
    let (done, results, aside) = records(cluster, "boxed");
    assert_eq!((done.len(), aside.len()), (40, 0));
    assert!(results.values().all(|it| *it == "image with 1"), "{results:?}");
    assert!(cluster.work().join("died").exists());
    // The driver runs on the host.
    let driver = cluster.job(id.trim());
    assert_eq!(driver.request.image, None);
}
