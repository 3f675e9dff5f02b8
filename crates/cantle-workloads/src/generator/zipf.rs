//! Zipf-distributed ranks: rank `i` (from 0) has a frequency proportional to `1 / (i + 1)^theta`.
//!
//! The method is that of Gray et al., "Quickly generating billion-record synthetic databases"
//! (SIGMOD 1994), which YCSB uses: one random number and one power per rank, no table and no
//! rejection. Its first two ranks have exactly their frequencies, the others follow a continuous
//! approximation.

use super::Random;

/// Number of terms of the zeta sum that are added one by one before the Euler–Maclaurin formula is
/// used. The first neglected term is about `m^-4 / 120`, below 10^-14 at 1024.
const EXACT_TERMS: u64 = 1024;

/// Maximum growth for which terms are added to a known sum one by one; for more, the formula is
/// faster.
const INCREMENTAL_TERMS: u64 = 4096;

/// `sum of 1 / i^theta for i in 1..=n`, in a time that does not depend on `n`.
pub fn zeta(n: u64, theta: f64) -> f64 {
    let term = |i: u64| (i as f64).powf(-theta);
    let exact: f64 = (1..=n.min(EXACT_TERMS)).map(term).sum();
    if n <= EXACT_TERMS {
        return exact;
    }
    // Euler–Maclaurin over [m, n], whose first term, f(m), is in `exact` already.
    let (m, end) = (EXACT_TERMS as f64, n as f64);
    let integral = if (theta - 1.0).abs() < 1e-12 {
        (end / m).ln()
    } else {
        (end.powf(1.0 - theta) - m.powf(1.0 - theta)) / (1.0 - theta)
    };
    let ends = (end.powf(-theta) - m.powf(-theta)) / 2.0;
    let slopes = -theta * (end.powf(-theta - 1.0) - m.powf(-theta - 1.0)) / 12.0;
    exact + integral + ends + slopes
}

/// Generates ranks in `0..n`, 0 the most frequent.
#[derive(Debug, Clone)]
pub struct Zipf {
    n: u64,
    theta: f64,
    alpha: f64,
    zeta_2: f64,
    zeta_n: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks in `0..n` (`n` at least 1) with `0 <= theta < 1`, the range in which Gray's formula
    /// holds.
    pub fn new(n: u64, theta: f64) -> Self {
        assert!(n > 0 && (0.0..1.0).contains(&theta), "zipf over {n} with theta {theta}");
        let mut zipf =
            Self { n, theta, alpha: 1.0 / (1.0 - theta), zeta_2: zeta(2, theta), zeta_n: 0.0, eta: 0.0 };
        zipf.zeta_n = zeta(n, theta);
        zipf.set_eta();
        zipf
    }

    fn set_eta(&mut self) {
        let tail = 1.0 - self.zeta_2 / self.zeta_n;
        // With one or two ranks the formula's tail is empty and never consulted.
        self.eta =
            if self.n <= 2 { 0.0 } else { (1.0 - (2.0 / self.n as f64).powf(1.0 - self.theta)) / tail };
    }

    /// Extends the range to `0..n`; a smaller `n` than the present one changes nothing.
    pub fn grow(&mut self, n: u64) {
        if n <= self.n {
            return;
        }
        if n - self.n <= INCREMENTAL_TERMS {
            self.zeta_n += (self.n + 1..=n).map(|i| (i as f64).powf(-self.theta)).sum::<f64>();
        } else {
            self.zeta_n = zeta(n, self.theta);
        }
        self.n = n;
        self.set_eta();
    }

    /// The number of ranks: at least one.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> u64 {
        self.n
    }

    /// The frequency of rank 0.
    pub fn hottest(&self) -> f64 {
        1.0 / self.zeta_n
    }

    /// The next rank.
    pub fn next(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let scaled = u * self.zeta_n;
        if scaled < 1.0 || self.n == 1 {
            return 0;
        }
        if scaled < self.zeta_2 || self.n == 2 {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        // A power close to 1 may round up to n itself.
        (rank as u64).min(self.n - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeta_by_formula_equals_the_sum() {
        for theta in [0.0, 0.5, 0.8, 0.99] {
            for n in [1, 2, 1024, 1025, 1_000_000] {
                let sum: f64 = (1..=n).map(|i| (i as f64).powf(-theta)).sum();
                let relative = (zeta(n, theta) - sum).abs() / sum;
                assert!(relative < 1e-11, "n {n} theta {theta}: off by {relative:e}");
            }
        }
    }

    /// EvenDB Table 3 gives the share of the most popular key in percent. The paper does not say
    /// for how many keys; 80 million of 814 bytes, its 64 GB data set, give its first figures to
    /// the digit.
    #[test]
    fn the_hottest_key_is_as_hot_as_in_the_paper_for_80_million_keys() {
        for (theta, percent) in [(0.99, 4.87), (0.95, 3.30), (0.90, 1.91), (0.85, 1.04), (0.80, 0.54)] {
            let hottest = Zipf::new(80_000_000, theta).hottest() * 100.0;
            assert!((hottest - percent).abs() < 0.03, "theta {theta}: {hottest} % instead of {percent} %");
        }
    }

    #[test]
    fn drawn_frequencies_follow_the_law() {
        let zipf = Zipf::new(80_000_000, 0.99);
        let mut random = Random::new(11);
        let draws = 400_000;
        let mut counts = [0u32; 3];
        let mut first_thousand = 0u32;
        for _ in 0..draws {
            let rank = zipf.next(&mut random);
            if rank < 3 {
                counts[rank as usize] += 1;
            }
            first_thousand += u32::from(rank < 1000);
        }
        let share = |count: u32| f64::from(count) / f64::from(draws);
        assert!((share(counts[0]) - 0.0487).abs() < 0.002, "{}", share(counts[0]));
        assert!((share(counts[1]) - 0.0487 / 2f64.powf(0.99)).abs() < 0.002);
        let expected = zeta(1000, 0.99) / zeta(80_000_000, 0.99);
        assert!((share(first_thousand) - expected).abs() < 0.02, "{} {expected}", share(first_thousand));
    }

    #[test]
    fn theta_zero_is_uniform() {
        let zipf = Zipf::new(10, 0.0);
        let mut random = Random::new(2);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[zipf.next(&mut random) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (9_500..10_500).contains(&c)), "{counts:?}");
    }

    #[test]
    fn growing_equals_starting_large() {
        let mut grown = Zipf::new(1000, 0.99);
        grown.grow(1500);
        grown.grow(200_000);
        grown.grow(10);
        let fresh = Zipf::new(200_000, 0.99);
        assert_eq!(grown.len(), 200_000);
        assert!((grown.zeta_n - fresh.zeta_n).abs() < 1e-9 && (grown.eta - fresh.eta).abs() < 1e-9);
    }
}
