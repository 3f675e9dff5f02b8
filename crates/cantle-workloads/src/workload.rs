//! The workloads of the papers: their operations and mixes (EvenDB §5.3.1, after YCSB).

use crate::generator::{Distribution, Random};
use serde::{Deserialize, Serialize};

/// A workload, by the papers' letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
pub enum Workload {
    /// Puts only
    #[value(name = "P", alias = "p")]
    P,
    /// Half puts, half gets
    #[value(name = "A", alias = "a")]
    A,
    /// 95 % gets, 5 % puts
    #[value(name = "B", alias = "b")]
    B,
    /// Gets only
    #[value(name = "C", alias = "c")]
    C,
    /// 95 % gets of recent records, 5 % new records; always over `latest`
    #[value(name = "D", alias = "d")]
    D,
    /// 95 % scans of 1 to 10 rows, 5 % puts
    #[value(name = "E10", alias = "e10")]
    E10,
    /// 95 % scans of 1 to 100 rows, 5 % puts
    #[value(name = "E100", alias = "e100")]
    E100,
    /// 95 % scans of 1 to 1000 rows, 5 % puts
    #[value(name = "E1000", alias = "e1000")]
    E1000,
    /// Scans of 100 rows
    #[value(name = "S100", alias = "s100")]
    S100,
    /// Get, then put the same key
    #[value(name = "F", alias = "f")]
    F,
    /// As many new records as --records, in random order
    #[value(name = "insert-random")]
    #[serde(rename = "insert-random")]
    InsertRandom,
    /// As many new records as --records, in key order
    #[value(name = "insert-sequential")]
    #[serde(rename = "insert-sequential")]
    InsertSequential,
}

/// One type of operation; each has a latency histogram of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Writes an existing record.
    Put,
    /// Reads a record.
    Get,
    /// Writes a new record.
    Insert,
    /// Reads up to this number of records in key order.
    Scan(u64),
    /// Reads a record and writes it.
    ReadModifyWrite,
}

impl Operation {
    /// Names in the order of [`Operation::index`].
    pub const NAMES: [&'static str; 5] = ["put", "get", "insert", "scan", "read-modify-write"];

    /// Its index in [`Operation::NAMES`].
    pub fn index(self) -> usize {
        match self {
            Self::Put => 0,
            Self::Get => 1,
            Self::Insert => 2,
            Self::Scan(_) => 3,
            Self::ReadModifyWrite => 4,
        }
    }
}

/// One row of the table of workloads: the share of each operation in percent.
#[derive(Debug, Clone, Copy)]
struct Mix {
    workload: Workload,
    name: &'static str,
    put: u64,
    get: u64,
    insert: u64,
    scan: u64,
    read_modify_write: u64,
    /// Minimum and maximum number of rows of a scan.
    rows: (u64, u64),
}

#[rustfmt::skip]
const TABLE: [Mix; 12] = {
    use Workload::*;
    const fn mix(workload: Workload, name: &'static str, shares: [u64; 5], rows: (u64, u64)) -> Mix {
        let [put, get, insert, scan, read_modify_write] = shares;
        Mix { workload, name, put, get, insert, scan, read_modify_write, rows }
    }
    //                                              put  get  ins scan  rmw    rows
    [
        mix(P,                "P",                 [100,   0,   0,   0,   0], (0, 0)),
        mix(A,                "A",                 [ 50,  50,   0,   0,   0], (0, 0)),
        mix(B,                "B",                 [  5,  95,   0,   0,   0], (0, 0)),
        mix(C,                "C",                 [  0, 100,   0,   0,   0], (0, 0)),
        mix(D,                "D",                 [  0,  95,   5,   0,   0], (0, 0)),
        mix(E10,              "E10",               [  5,   0,   0,  95,   0], (1, 10)),
        mix(E100,             "E100",              [  5,   0,   0,  95,   0], (1, 100)),
        mix(E1000,            "E1000",             [  5,   0,   0,  95,   0], (1, 1000)),
        mix(S100,             "S100",              [  0,   0,   0, 100,   0], (100, 100)),
        mix(F,                "F",                 [  0,   0,   0,   0, 100], (0, 0)),
        mix(InsertRandom,     "insert-random",     [  0,   0, 100,   0,   0], (0, 0)),
        mix(InsertSequential, "insert-sequential", [  0,   0, 100,   0,   0], (0, 0)),
    ]
};

impl Workload {
    /// All workloads.
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::P; TABLE.len()];
        let mut at = 0;
        while at < all.len() {
            // `mix` indexes the table by the variant.
            assert!(TABLE[at].workload as usize == at, "the table is in the order of the variants");
            all[at] = TABLE[at].workload;
            at += 1;
        }
        all
    };

    fn mix(self) -> &'static Mix {
        &TABLE[self as usize]
    }

    /// The name as given on the command line.
    pub fn name(self) -> &'static str {
        self.mix().name
    }

    /// True if the workload writes its own records, so that none need to be loaded before.
    pub fn is_insert(self) -> bool {
        self.mix().insert == 100
    }

    /// The distribution that the workload uses if the user chose `asked`; `None` if the workload
    /// has no choice of records.
    pub fn distribution(self, asked: Distribution) -> Option<Distribution> {
        match self {
            Self::D => Some(Distribution::Latest),
            _ if self.is_insert() => None,
            _ => Some(asked),
        }
    }

    /// Maximum number of rows of a scan, for the scanning workloads.
    pub fn scan_rows_max(self) -> Option<u64> {
        let mix = self.mix();
        (mix.scan > 0).then_some(mix.rows.1)
    }

    /// Draws the next operation.
    pub fn next(self, random: &mut Random) -> Operation {
        let mix = self.mix();
        let mut draw = random.below(100);
        for (share, operation) in [
            (mix.get, Operation::Get),
            (mix.put, Operation::Put),
            (mix.insert, Operation::Insert),
            (mix.read_modify_write, Operation::ReadModifyWrite),
        ] {
            if draw < share {
                return operation;
            }
            draw -= share;
        }
        let (fewest, most) = mix.rows;
        Operation::Scan(fewest + random.below(most - fewest + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    fn shares(workload: Workload) -> ([f64; 5], u64) {
        let mut random = Random::new(1);
        let (mut counts, mut longest) = ([0.0; 5], 0);
        for _ in 0..20_000 {
            let operation = workload.next(&mut random);
            counts[operation.index()] += 1.0 / 20_000.0;
            if let Operation::Scan(rows) = operation {
                assert!(rows > 0);
                longest = longest.max(rows);
            }
        }
        (counts, longest)
    }

    #[test]
    fn mixes_are_those_of_the_paper() {
        let near = |found: f64, share: f64| (found - share).abs() < 0.02;
        let (a, b, c) = (shares(Workload::A).0, shares(Workload::B).0, shares(Workload::C).0);
        assert!(near(a[0], 0.5) && near(a[1], 0.5), "{a:?}");
        assert!(near(b[0], 0.05) && near(b[1], 0.95), "{b:?}");
        assert!(
            near(c[1], 1.0) && near(shares(Workload::P).0[0], 1.0) && near(shares(Workload::F).0[4], 1.0)
        );
        assert!(near(shares(Workload::D).0[2], 0.05) && near(shares(Workload::D).0[1], 0.95));
        for (workload, rows) in [(Workload::E10, 10), (Workload::E100, 100), (Workload::E1000, 1000)] {
            let (shares, longest) = shares(workload);
            assert!(near(shares[0], 0.05) && near(shares[3], 0.95));
            assert!(longest <= rows && longest > rows * 9 / 10);
        }
    }

    #[test]
    fn scans_alone_have_one_length() {
        let mut random = Random::new(1);
        assert!((0..100).all(|_| Workload::S100.next(&mut random) == Operation::Scan(100)));
    }

    #[test]
    fn shares_add_up() {
        for mix in TABLE {
            assert_eq!(
                mix.put + mix.get + mix.insert + mix.scan + mix.read_modify_write,
                100,
                "{}",
                mix.name
            );
            assert_eq!(mix.scan > 0, mix.rows.1 > 0, "{}", mix.name);
        }
    }

    #[test]
    fn names_are_what_the_command_line_takes() {
        for workload in Workload::ALL {
            assert_eq!(Workload::from_str(workload.name(), false), Ok(workload));
            assert_eq!(serde_json::to_value(workload).unwrap(), workload.name());
        }
        assert_eq!(Workload::ALL.len(), Workload::value_variants().len());
    }
}
