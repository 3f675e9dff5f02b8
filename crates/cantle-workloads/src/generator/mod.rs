//! Choice of the record of an operation: the key-access distributions of EvenDB §5.3.1.
//!
//! Every generator is a pure function of its parameters and of a [`Random`] that the caller owns,
//! so that a run is reproduced by its seed and each thread has a stream of its own. Record numbers
//! are in `0..records` in key order: record 0 has the smallest key.

mod composite;
mod latest;
mod permutation;
mod random;
mod zipf;

pub use composite::Composite;
pub use latest::Latest;
pub use permutation::Permutation;
pub use random::Random;
pub use zipf::Zipf;

use serde::{Deserialize, Serialize};

/// A key-access distribution, by the paper's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Zipf over a random permutation of the key range: hot keys lie scattered
    ZipfSimple,
    /// Zipf over 16384 key prefixes, uniform within a prefix: hot keys lie together
    ZipfComposite,
    /// Zipf over the distance from the newest record
    Latest,
    /// Every record alike
    Uniform,
}

impl Distribution {
    /// All distributions, in the order of the paper.
    pub const ALL: [Self; 4] = [Self::ZipfSimple, Self::ZipfComposite, Self::Latest, Self::Uniform];

    /// The name as given on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZipfSimple => "zipf-simple",
            Self::ZipfComposite => "zipf-composite",
            Self::Latest => "latest",
            Self::Uniform => "uniform",
        }
    }
}

/// Chooses record numbers. One per thread; cheap to clone.
#[derive(Debug, Clone)]
pub enum Chooser {
    /// See [`Distribution::ZipfSimple`].
    ZipfSimple(Zipf, Permutation),
    /// See [`Distribution::ZipfComposite`].
    ZipfComposite(Composite),
    /// See [`Distribution::Latest`].
    Latest(Latest),
    /// See [`Distribution::Uniform`]; the number of records.
    Uniform(u64),
}

impl Chooser {
    /// A chooser among `records` (at least one) with skew `theta`. `seed` determines the hot
    /// records and must be the same for all threads of a run.
    pub fn new(distribution: Distribution, records: u64, theta: f64, seed: u64) -> Self {
        assert!(records > 0, "a distribution needs a record to choose");
        match distribution {
            Distribution::ZipfSimple => {
                Self::ZipfSimple(Zipf::new(records, theta), Permutation::new(records, seed))
            }
            Distribution::ZipfComposite => Self::ZipfComposite(Composite::new(records, theta, seed)),
            Distribution::Latest => Self::Latest(Latest::new(records, theta)),
            Distribution::Uniform => Self::Uniform(records),
        }
    }

    /// The next record number. `newest` is the number of records that certainly exist: only
    /// `Latest` follows it, the others use the records that existed when they were made.
    pub fn next(&mut self, random: &mut Random, newest: u64) -> u64 {
        match self {
            Self::ZipfSimple(zipf, permutation) => permutation.apply(zipf.next(random)),
            Self::ZipfComposite(composite) => composite.next(random),
            Self::Latest(latest) => latest.next(random, newest),
            Self::Uniform(records) => random.below(*records),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_stays_within_its_records_and_repeats_by_seed() {
        for distribution in Distribution::ALL {
            for records in [1, 2, 3, 1000, 70_000] {
                let draw = |seed| {
                    let mut chooser = Chooser::new(distribution, records, 0.99, 7);
                    let mut random = Random::new(seed);
                    (0..500).map(|_| chooser.next(&mut random, records)).collect::<Vec<_>>()
                };
                let first = draw(1);
                assert!(first.iter().all(|&r| r < records), "{distribution:?} of {records}");
                assert_eq!(first, draw(1));
                assert!(records < 1000 || first != draw(2), "{distribution:?} ignores its seed");
            }
        }
    }

    #[test]
    fn uniform_reaches_every_record_about_equally() {
        let mut chooser = Chooser::new(Distribution::Uniform, 100, 0.99, 0);
        let mut random = Random::new(3);
        let mut counts = [0u32; 100];
        for _ in 0..100_000 {
            counts[chooser.next(&mut random, 100) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (800..1200).contains(&c)), "{counts:?}");
    }
}
