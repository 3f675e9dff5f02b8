//! The text of the tour: steps, commands to type, and checks, within 100 columns.

use crate::failure::Outcome;
use std::io::{self, IsTerminal, Stdout, Write};

/// Writes to standard output as things happen, and counts checks that failed.
pub(crate) struct Narrator {
    /// None where only the report is wanted.
    out: Option<Stdout>,
    styled: bool,
    steps: u32,
    checks: u32,
    failed: Vec<String>,
}

impl Narrator {
    /// `is_silent`: checks are counted and nothing is written.
    pub(crate) fn new(is_silent: bool) -> Self {
        let out = io::stdout();
        // https://no-color.org: set and not empty means plain.
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let styled = out.is_terminal() && !plain;
        Self { out: (!is_silent).then_some(out), styled, steps: 0, checks: 0, failed: Vec::new() }
    }

    fn styled(&self, code: &str, text: &str) -> String {
        if self.styled { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// True if colours may be used.
    pub(crate) fn is_styled(&self) -> bool {
        self.styled
    }

    /// Begins a step.
    pub(crate) fn step(&mut self, title: &str) -> Outcome {
        self.steps += 1;
        let heading = self.styled("1", &format!("{}  {title}", self.steps));
        self.line(&format!("\n{heading}"))
    }

    /// A line of a step.
    pub(crate) fn say(&mut self, line: &str) -> Outcome {
        let indent = if line.is_empty() { "" } else { "   " };
        self.line(&format!("{indent}{line}"))
    }

    fn line(&mut self, line: &str) -> Outcome {
        match &mut self.out {
            Some(out) => Ok(writeln!(out, "{line}")?),
            None => Ok(()),
        }
    }

    /// Lines of a step.
    pub(crate) fn lines<S: AsRef<str>>(&mut self, lines: impl IntoIterator<Item = S>) -> Outcome {
        lines.into_iter().try_for_each(|line| self.say(line.as_ref()))
    }

    /// A line to type: a shell command (`$ …`) or a line of Rust.
    pub(crate) fn code(&mut self, line: &str) -> Outcome {
        let line = self.styled("36", line);
        self.say(&line)
    }

    /// Says whether `what` holds, and remembers if not.
    pub(crate) fn check(&mut self, holds: bool, what: &str) -> Outcome {
        self.checks += 1;
        let mark = if holds { self.styled("32", "✓") } else { self.styled("1;31", "✗ not so:") };
        if !holds {
            self.failed.push(what.to_string());
        }
        self.say(&format!("{mark} {what}"))
    }

    /// The number of checks, and those that failed.
    pub(crate) fn checks(&self) -> (u32, &[String]) {
        (self.checks, &self.failed)
    }
}
