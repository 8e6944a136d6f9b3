//! `cargo xtask compare [BASE]`: the speed and memory of this tree beside those of another commit.
//!
//! Both are built in release form, and run in pairs, one right after the other and in alternating
//! order, so that both meet the same load of the machine. A figure is marked where this tree is
//! worse by more than [`MARK`] in three quarters of the pairs.

mod build;
mod measurement;

use std::collections::BTreeMap;

use anyhow::{Context, bail};

use self::build::{Build, builds};
use self::measurement::{MEASUREMENTS, Measurement};
use crate::step::announce;

/// A figure with a larger ratio is marked.
const MARK: f64 = 1.10;

/// What to compare.
#[derive(Default)]
struct Arguments {
    /// A commit; without it, the last one that is also in `origin/main`.
    base: Option<String>,
    /// Names of measurements; all if empty.
    only: Vec<String>,
    /// Whether the base is this tree: it shows how far ratios of equal programs spread.
    is_same: bool,
}

/// The ratios of one figure, one for each pair: above 1, this tree is worse.
struct Ratios {
    what: String,
    unit: String,
    /// The value of the base and that of this tree, by pair.
    values: Vec<(f64, f64)>,
    is_more_better: bool,
}

/// Builds both commits and prints the ratios. Returns whether no figure is marked.
///
/// # Errors
/// An argument is unknown, a build fails, or a measurement of this tree.
pub fn run(arguments: &[&str]) -> anyhow::Result<bool> {
    let arguments = Arguments::read(arguments)?;
    let measurements = arguments.measurements()?;
    let (base, tree) = builds(arguments.base.as_deref(), arguments.is_same)?;
    println!("{:44} {:>10} {:>10} {:>6}  spread", "", "base", "tree", "ratio");
    let mut n_marked = 0;
    for measurement in measurements {
        announce(measurement.name);
        let ratios = pairs(measurement, &base, &tree)?;
        println!("{}", measurement.name);
        for it in ratios.values().filter(|it| !it.values.is_empty()) {
            println!("{}", it.line());
            n_marked += usize::from(it.is_marked());
        }
    }
    println!("\n{n_marked} figures are more than {MARK} times worse");
    Ok(n_marked == 0)
}

/// Runs the pairs of a measurement. A figure that only one of the two has is left out.
fn pairs(
    measurement: &Measurement,
    base: &Build,
    tree: &Build,
) -> anyhow::Result<BTreeMap<String, Ratios>> {
    let mut all = BTreeMap::<String, Ratios>::new();
    for nth in 0..measurement.n_pairs {
        let (of_base, of_tree) = if nth % 2 == 0 {
            let of_base = measurement.run(base);
            (of_base, measurement.run(tree)?)
        } else {
            let of_tree = measurement.run(tree)?;
            (measurement.run(base), of_tree)
        };
        let of_base = match of_base {
            Ok(figures) => figures,
            Err(error) => {
                println!("{}: the base has no such measurement ({error:#})", measurement.name);
                break;
            }
        };
        for (name, is) in of_tree {
            let Some(was) = of_base.get(&name) else { continue };
            let ratios = all.entry(name).or_insert_with(|| Ratios {
                what: is.what,
                unit: is.unit,
                values: Vec::new(),
                is_more_better: is.is_more_better,
            });
            ratios.values.push((was.value, is.value));
        }
    }
    Ok(all)
}

impl Arguments {
    fn read(words: &[&str]) -> anyhow::Result<Self> {
        let mut arguments = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--only" => {
                    let names = words.next().context("--only needs names, e.g. start,cycle")?;
                    arguments.only.extend(names.split(',').map(str::to_owned));
                }
                "--same" => arguments.is_same = true,
                flag if flag.starts_with('-') => {
                    bail!("unknown argument {flag:?}; there are --only NAMES and --same")
                }
                base if arguments.base.is_none() => arguments.base = Some(base.to_owned()),
                more => bail!("{more:?} is one commit too many"),
            }
        }
        Ok(arguments)
    }

    fn measurements(&self) -> anyhow::Result<Vec<&'static Measurement>> {
        let names = || MEASUREMENTS.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
        let find = |name: &String| {
            let found = MEASUREMENTS.iter().find(|it| it.name == name);
            found
                .with_context(|| format!("there is no measurement {name:?}; there are {}", names()))
        };
        match self.only.is_empty() {
            true => Ok(MEASUREMENTS.iter().collect()),
            false => self.only.iter().map(find).collect(),
        }
    }
}

impl Ratios {
    /// Ascending.
    fn sorted(&self) -> Vec<f64> {
        let ratio = |(base, tree): &(f64, f64)| match self.is_more_better {
            true => base / tree,
            false => tree / base,
        };
        let mut ratios: Vec<f64> = self.values.iter().map(ratio).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios
    }

    fn is_marked(&self) -> bool {
        let ratios = self.sorted();
        ratios[ratios.len() / 4] > MARK
    }

    fn line(&self) -> String {
        let ratios = self.sorted();
        let middle = |side: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = self.values.iter().map(side).collect();
            values.sort_unstable_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (base, tree) = (middle(|it| it.0), middle(|it| it.1));
        let mark = if self.is_marked() { "  WORSE" } else { "" };
        format!(
            "  {:42} {base:>10.3} {tree:>10.3} {:>6.2}  {:.2}–{:.2} {}{mark}",
            self.what,
            ratios[ratios.len() / 2],
            ratios[0],
            ratios[ratios.len() - 1],
            self.unit,
        )
    }
}
