//! Other layouts: only the part of a store that a comparison needs. They write whole hours from
//! memory, so they lack the cost of keeping an unfinished hour durable.

use std::path::Path;

use gpool_cli::failure::Result;
use gpool_history::DeviceSeries;
use gpool_history::testing::quantise;
use rusqlite::{Connection, params_from_iter};

use super::deltas::Packer;
use super::fleet::{Fleet, START};
use super::{Layout, cpu_s, median_ms, of_store, writing};
use crate::bench::figure::Figure;

const SERIES: usize = DeviceSeries::N;
/// Devices of a blob with one series.
const GROUP: u32 = 64;
const HOUR: usize = 60;

/// Writes hours and reads them.
pub fn measure(layout: Layout, path: &Path, fleet: &Fleet, hours: u32) -> Result<Vec<Figure>> {
    let mut other = Other::create(layout, path)?;
    let mut used_s = 0.0;
    for hour in 0..hours {
        let values = hour_of(fleet, START / 60 + hour);
        let before_s = cpu_s();
        other.write(fleet.n_devices(), hour, &values)?;
        used_s += cpu_s() - before_s;
    }
    other.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(of_store)?;
    let bytes = std::fs::metadata(path).map_err(of_store)?.len() as f64;
    let month = 720.0 / f64::from(hours);
    let one = median_ms(|| other.read(&[0], hours, SERIES))? * month;
    let n = fleet.n_devices();
    let near: Vec<u32> = (0..n.min(512)).collect();
    let apart: Vec<u32> = (0..n).step_by((n as usize / 512).max(1)).take(512).collect();
    let near = median_ms(|| other.read(&near, hours, 1))?;
    let apart = median_ms(|| other.read(&apart, hours, 1))?;
    let times = format!("a device, 30 days, all minutes ({month:.0} x measured)");
    let mut figures = writing(used_s, bytes, fleet, hours).to_vec();
    figures.extend([
        Figure::new("history_device_month_ms", times, one, "ms").below(100.0),
        Figure::new("history_devices_day_ms", "512 devices of 64 nodes", near, "ms").below(300.0),
        Figure::new("history_devices_apart_ms", "512 devices of 512 nodes", apart, "ms")
            .below(300.0),
    ]);
    Ok(figures)
}

/// An hour as integers: by device, series, minute.
fn hour_of(fleet: &Fleet, hour: u32) -> Vec<Option<u32>> {
    let n_devices = fleet.n_devices();
    let mut values = vec![None; n_devices as usize * SERIES * HOUR];
    for device in 0..n_devices {
        for minute in 0..HOUR {
            let at = hour * 60 + u32::try_from(minute).unwrap_or(0);
            for (series, value) in fleet.values(device, at).into_iter().enumerate() {
                let place = (device as usize * SERIES + series) * HOUR + minute;
                values[place] = quantise(DeviceSeries::ALL[series], value);
            }
        }
    }
    values
}

struct Other {
    layout: Layout,
    connection: Connection,
    packer: Packer,
}

impl Other {
    fn create(layout: Layout, path: &Path) -> Result<Self> {
        let columns: Vec<String> = (0..SERIES).map(|n| format!("s{n} INTEGER")).collect();
        let table = match layout {
            Layout::Rows => format!(
                "CREATE TABLE v (device INTEGER, minute INTEGER, {}, PRIMARY KEY (device, minute))
                 WITHOUT ROWID",
                columns.join(", ")
            ),
            _ => "CREATE TABLE v (id INTEGER PRIMARY KEY, data BLOB)".to_owned(),
        };
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            connection.execute_batch(&format!(
                "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                 {table}"
            ))?;
            Ok(connection)
        };
        let connection = open().map_err(of_store)?;
        Ok(Self { layout, connection, packer: Packer::new().map_err(of_store)? })
    }

    fn write(&mut self, n_devices: u32, hour: u32, values: &[Option<u32>]) -> Result<()> {
        match self.layout {
            Layout::Rows => self.write_rows(n_devices, hour, values).map_err(of_store),
            _ => self.write_blobs(n_devices, hour, values),
        }
    }

    fn write_rows(
        &mut self,
        n_devices: u32,
        hour: u32,
        values: &[Option<u32>],
    ) -> rusqlite::Result<()> {
        let marks = vec!["?"; SERIES + 2].join(", ");
        // A commit each minute, as it would be.
        for minute in 0..HOUR {
            let transaction = self.connection.transaction()?;
            let mut insert =
                transaction.prepare_cached(&format!("INSERT INTO v VALUES ({marks})"))?;
            for device in 0..n_devices {
                let at = i64::from(START + hour * 60) + i64::try_from(minute).unwrap_or(0);
                let series = (0..SERIES).map(|series| {
                    let value = values[(device as usize * SERIES + series) * HOUR + minute];
                    value.map(i64::from)
                });
                let ids = [Some(i64::from(device)), Some(at)];
                insert.execute(params_from_iter(ids.into_iter().chain(series)))?;
            }
            drop(insert);
            transaction.commit()?;
        }
        Ok(())
    }

    fn write_blobs(&mut self, n_devices: u32, hour: u32, values: &[Option<u32>]) -> Result<()> {
        let Self { layout, connection, packer } = self;
        let transaction = connection.transaction().map_err(of_store)?;
        let mut insert = transaction.prepare("INSERT INTO v VALUES (?, ?)").map_err(of_store)?;
        let slots = |device: u32, series: usize| {
            let start = (device as usize * SERIES + series) * HOUR;
            &values[start..start + HOUR]
        };
        let mut put = |id: i64, columns: &mut dyn Iterator<Item = &[Option<u32>]>| -> Result<()> {
            let data = packer.pack(columns).map_err(of_store)?;
            insert.execute((id, data)).map(drop).map_err(of_store)
        };
        match layout {
            Layout::Columns => {
                for start in (0..n_devices).step_by(GROUP as usize) {
                    let devices = start..(start + GROUP).min(n_devices);
                    for series in 0..SERIES {
                        let id = column_id(hour, series, start / GROUP);
                        put(id, &mut devices.clone().map(|device| slots(device, series)))?;
                    }
                }
            }
            _ => {
                for device in 0..n_devices {
                    let id = i64::from(hour) << 32 | i64::from(device);
                    put(id, &mut (0..SERIES).map(|series| slots(device, series)))?;
                }
            }
        }
        drop(insert);
        transaction.commit().map_err(of_store)
    }

    /// Reads the first series of devices over all hours.
    fn read(&mut self, devices: &[u32], hours: u32, n_series: usize) -> Result<()> {
        let mut sum = 0_u64;
        let mut add = |values: &[Option<u32>]| {
            sum += values.iter().flatten().map(|value| u64::from(*value)).sum::<u64>();
        };
        match self.layout {
            Layout::Rows => {
                let columns: Vec<String> = (0..n_series).map(|n| format!("s{n}")).collect();
                let sql = format!("SELECT {} FROM v WHERE device = ?", columns.join(", "));
                let mut select = self.connection.prepare(&sql).map_err(of_store)?;
                for device in devices {
                    let mut rows = select.query([device]).map_err(of_store)?;
                    while let Some(row) = rows.next().map_err(of_store)? {
                        for series in 0..n_series {
                            add(&[row.get(series).map_err(of_store)?]);
                        }
                    }
                }
            }
            Layout::Columns => {
                let mut slots = vec![None; GROUP as usize * HOUR];
                for group in devices.chunk_by(|a, b| a / GROUP == b / GROUP) {
                    let first = group.first().copied().unwrap_or(0) / GROUP;
                    for hour in 0..hours {
                        for series in 0..n_series {
                            self.unpack(column_id(hour, series, first), &mut slots)?;
                            for device in group {
                                let at = (device % GROUP) as usize * HOUR;
                                add(&slots[at..at + HOUR]);
                            }
                        }
                    }
                }
            }
            _ => {
                let mut slots = vec![None; n_series * HOUR];
                for device in devices {
                    for hour in 0..hours {
                        self.unpack(i64::from(hour) << 32 | i64::from(*device), &mut slots)?;
                        add(&slots);
                    }
                }
            }
        }
        std::hint::black_box(sum);
        Ok(())
    }

    fn unpack(&mut self, id: i64, slots: &mut [Option<u32>]) -> Result<()> {
        let sql = "SELECT data FROM v WHERE id = ?";
        let mut select = self.connection.prepare_cached(sql).map_err(of_store)?;
        let data: Vec<u8> = select.query_row([id], |row| row.get(0)).map_err(of_store)?;
        self.packer.unpack(&data, slots).map_err(of_store)
    }
}

fn column_id(hour: u32, series: usize, group: u32) -> i64 {
    i64::from(hour) << 32 | i64::try_from(series).unwrap_or(0) << 24 | i64::from(group)
}
