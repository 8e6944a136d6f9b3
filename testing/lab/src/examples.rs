//! The examples in the help of each command. A test parses each of them.

use gpool_cli::examples::Table;

/// The examples, by the words of the command.
pub const EXAMPLES: &Table = &[
    (
        "bench",
        &[
            ("gpool bench --quick", "Every part, in seconds instead of minutes"),
            ("gpool bench --only start,submit", "Only the start of jobs and the submissions"),
            ("gpool bench --only pending --pending 100000", "A queue of 100,000 jobs"),
        ],
    ),
    (
        "bench faults",
        &[
            ("gpool bench faults --quick", "Every fault, in about a minute"),
            ("gpool bench faults kill torn", "Only kill -9 of the server and flipped bits"),
        ],
    ),
    ("bench history", &[("gpool bench history --nodes 64", "A day of 512 GPUs")]),
    (
        "replay",
        &[
            ("gpool replay case.json", "Repeat the decisions of gpool debug dump case.json"),
            ("gpool replay ~/.local/state/gpool", "Repeat the whole journal of a server"),
            ("gpool replay --from monday.backup ~/.local/state/gpool", "Start at a backup"),
        ],
    ),
    (
        "simulate",
        &[("gpool simulate queue --trace jobs.csv --cluster 80x8", "Play a trace on 80 nodes")],
    ),
    (
        "simulate scenarios",
        &[("gpool simulate scenarios kai_public.json", "Compare gpool with KAI")],
    ),
    (
        "simulate packing",
        &[
            ("gpool simulate packing --nodes n.csv --tasks t.csv.gz --policy fgd", "One rule"),
            (
                "gpool simulate packing --nodes n.csv --tasks t.csv.gz --churn 0.95 --moves 8",
                "Tasks also end, and up to 8 move for a task that does not fit",
            ),
            (
                "gpool simulate packing --nodes n.csv --tasks t.csv.gz -o csv > packing.csv",
                "A line for each policy, seed and load",
            ),
        ],
    ),
    (
        "simulate queue",
        &[
            ("gpool simulate queue --trace jobs.csv --cluster 24x8", "Compare fifo and fair"),
            (
                "gpool simulate queue --trace jobs.csv --cluster 24x8 -o json > queue.json",
                "With the figures for plots",
            ),
            (
                "gpool simulate queue --trace ~/.local/state/gpool --since 30d",
                "The jobs of a server in its last 30 days, with its policy and with fair",
            ),
            (
                "gpool simulate queue --trace monday.backup --if 'add 1 node x 8 h100'",
                "The same on a larger cluster",
            ),
        ],
    ),
];
