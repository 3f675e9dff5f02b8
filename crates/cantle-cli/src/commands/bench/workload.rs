//! The workloads of the papers: which operations, in which mix (EvenDB §5.3.1, after YCSB).

use crate::measure::generator::{Distribution, Random};
use serde::Serialize;

/// A workload, by the papers' letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
pub(crate) enum Workload {
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
pub(crate) enum Operation {
    /// Write an existing record.
    Put,
    /// Read a record.
    Get,
    /// Write a new record.
    Insert,
    /// Read up to so many records in key order.
    Scan(u64),
    /// Read a record and write it.
    ReadModifyWrite,
}

impl Operation {
    /// Names in the order of [`Operation::index`].
    pub(crate) const NAMES: [&'static str; 5] = ["put", "get", "insert", "scan", "read-modify-write"];

    /// Its place among [`Operation::NAMES`].
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Put => 0,
            Self::Get => 1,
            Self::Insert => 2,
            Self::Scan(_) => 3,
            Self::ReadModifyWrite => 4,
        }
    }
}

impl Workload {
    /// All of them.
    pub(crate) const ALL: [Self; 12] = [
        Self::P,
        Self::A,
        Self::B,
        Self::C,
        Self::D,
        Self::E10,
        Self::E100,
        Self::E1000,
        Self::S100,
        Self::F,
        Self::InsertRandom,
        Self::InsertSequential,
    ];

    /// The name as given on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::P => "P",
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::E10 => "E10",
            Self::E100 => "E100",
            Self::E1000 => "E1000",
            Self::S100 => "S100",
            Self::F => "F",
            Self::InsertRandom => "insert-random",
            Self::InsertSequential => "insert-sequential",
        }
    }

    /// Whether it brings its own records and so needs none to be loaded before.
    pub(crate) fn is_insert(self) -> bool {
        matches!(self, Self::InsertRandom | Self::InsertSequential)
    }

    /// The distribution that it runs over when `asked` is asked for; `None` where there is nothing to choose.
    pub(crate) fn distribution(self, asked: Distribution) -> Option<Distribution> {
        match self {
            Self::D => Some(Distribution::Latest),
            _ if self.is_insert() => None,
            _ => Some(asked),
        }
    }

    /// The longest scan, for the scanning workloads.
    pub(crate) fn scan_rows_max(self) -> Option<u64> {
        match self {
            Self::E10 => Some(10),
            Self::E100 | Self::S100 => Some(100),
            Self::E1000 => Some(1000),
            _ => None,
        }
    }

    /// Draws the next operation.
    pub(crate) fn next(self, random: &mut Random) -> Operation {
        let one_in_twenty = |random: &mut Random| random.below(20) == 0;
        match self {
            Self::P => Operation::Put,
            Self::A if random.below(2) == 0 => Operation::Put,
            Self::B if one_in_twenty(random) => Operation::Put,
            Self::D if one_in_twenty(random) => Operation::Insert,
            Self::A | Self::B | Self::C | Self::D => Operation::Get,
            Self::E10 | Self::E100 | Self::E1000 => {
                if one_in_twenty(random) {
                    Operation::Put
                } else {
                    Operation::Scan(1 + random.below(self.scan_rows_max().unwrap_or(1)))
                }
            }
            Self::S100 => Operation::Scan(100),
            Self::F => Operation::ReadModifyWrite,
            Self::InsertRandom | Self::InsertSequential => Operation::Insert,
        }
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
    fn names_are_what_the_command_line_takes() {
        for workload in Workload::ALL {
            assert_eq!(Workload::from_str(workload.name(), false), Ok(workload));
            assert_eq!(serde_json::to_value(workload).unwrap(), workload.name());
        }
        assert_eq!(Workload::ALL.len(), Workload::value_variants().len());
    }
}
