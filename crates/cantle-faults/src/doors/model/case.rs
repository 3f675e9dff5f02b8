//! The name of a case: a seed, and the operations of it to run.

use std::fmt;

/// A configuration and its operations, by their numbers. As text `7:1-30,55` for the first thirty
/// and one more; `7` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    pub seed: u64,
    /// Ascending numbers, from 1.
    pub operations: Vec<u64>,
}

impl Case {
    /// All operations.
    pub fn whole(seed: u64, operations: u64) -> Self {
        Self { seed, operations: (1..=operations).collect() }
    }

    /// Parses a text. `all` is the number of operations if the text names none.
    pub fn parse(text: &str, all: u64) -> Option<Self> {
        let Some((seed, runs)) = text.split_once(':') else {
            return Some(Self::whole(text.parse().ok()?, all));
        };
        let mut operations = Vec::new();
        for run in runs.split(',').filter(|run| !run.is_empty()) {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            operations.extend(first.parse::<u64>().ok()?..=last.parse().ok()?);
        }
        Some(Self { seed: seed.parse().ok()?, operations })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.seed)?;
        let runs = self.operations.chunk_by(|before, after| before + 1 == *after);
        for (index, run) in runs.enumerate() {
            let (first, last) = (run[0], run[run.len() - 1]);
            write!(f, "{}{first}", if index == 0 { "" } else { "," })?;
            if last > first {
                write!(f, "-{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Case;

    #[test]
    fn a_case_is_what_its_text_says() {
        let case = Case { seed: 7, operations: vec![1, 2, 3, 9, 20, 21] };
        assert_eq!(case.to_string(), "7:1-3,9,20-21");
        assert_eq!(Case::parse("7:1-3,9,20-21", 50), Some(case));
        let none = Case { seed: 7, operations: Vec::new() };
        assert_eq!(Case::parse(&none.to_string(), 50), Some(none));
        assert_eq!(Case::parse("12", 3), Some(Case { seed: 12, operations: vec![1, 2, 3] }));
        assert_eq!(Case::parse("12:a", 3), None);
    }
}
