//! Plots as inline SVG. Colours are the page's (`--series-0` …), so that they follow its light or
//! dark style.

use std::fmt::Write;

/// One line of a plot.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Index of its colour.
    pub colour: usize,
    /// True if the line is dashed.
    pub is_dashed: bool,
    /// True for a reference that is a limit of stores: it is left out if it would flatten the other
    /// lines.
    pub is_limit: bool,
    /// Its points, with the minimum and the maximum of the rounds.
    pub points: Vec<Dot>,
}

/// A point of a line.
#[derive(Debug, Clone, Copy)]
pub struct Dot {
    pub x: f64,
    pub y: f64,
    pub least: f64,
    pub most: f64,
}

/// A plot.
pub struct Plot<'a> {
    /// Label of the vertical axis.
    pub title: &'a str,
    /// Label of the horizontal axis.
    pub across: &'a str,
    /// Names of places on the horizontal axis, if it has no numbers.
    pub labels: Vec<String>,
    /// The lines.
    pub lines: Vec<Line>,
    /// True if points are marked, and the spread of rounds is drawn.
    pub is_marked: bool,
}

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 230.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 40.0;

/// Number of colours of the page.
pub const COLOURS: usize = 8;

/// Text for HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number with about three digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 1.0 && value.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 99.95 => format!("{value:.0}"),
        v if v >= 9.995 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        v if v >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Steps of an axis from 0 to at least `most`: 1, 2 or 5 times a power of ten.
fn ticks(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10f64.powf((most / 4.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| step * 5.0 >= most);
    let step = step.unwrap_or(10.0 * power);
    let count = (most / step).ceil() as usize;
    (0..=count.max(1)).map(|n| n as f64 * step).collect()
}

/// Maximum ratio of the limit to all other lines at which it is still drawn.
const LIMIT_ABOVE: f64 = 1.5;

impl Plot<'_> {
    /// True if a line is drawn.
    fn is_drawn(&self, line: &Line) -> bool {
        let most = |is_limit: bool| {
            let lines = self.lines.iter().filter(|line| line.is_limit == is_limit);
            lines.flat_map(|line| &line.points).map(|dot| dot.y).fold(0.0, f64::max)
        };
        !line.is_limit || most(false) == 0.0 || most(true) <= most(false) * LIMIT_ABOVE
    }

    /// As SVG, with its legend below.
    pub fn render(&self) -> String {
        let drawn = || self.lines.iter().filter(|line| self.is_drawn(line));
        let dots = || drawn().flat_map(|line| &line.points);
        let most_y = dots().map(|dot| dot.most.max(dot.y)).fold(0.0, f64::max);
        let y_ticks = ticks(most_y);
        let top = y_ticks.last().copied().unwrap_or(1.0);
        let most_x = dots().map(|dot| dot.x).fold(0.0, f64::max);
        let x_end = if self.labels.is_empty() { most_x.max(1e-9) } else { self.labels.len() as f64 };
        // Named places are in the middle of their share of the axis.
        let shift = if self.labels.is_empty() { 0.0 } else { 0.5 };
        let x = |value: f64| LEFT + (value + shift) / x_end * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);

        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            escape(self.title)
        );
        for tick in &y_ticks {
            let at = y(*tick);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick\" \
                 x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 3.5,
                number(*tick)
            );
        }
        let mut place = |value: f64, text: &str| {
            let _ = writeln!(
                out,
                "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                x(value),
                HEIGHT - BOTTOM + 15.0,
                escape(text)
            );
        };
        if self.labels.is_empty() {
            ticks(most_x).iter().filter(|tick| **tick <= x_end).for_each(|tick| place(*tick, &number(*tick)));
        } else {
            self.labels.iter().enumerate().for_each(|(at, label)| place(at as f64, label));
        }
        let _ = writeln!(
            out,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            escape(self.across)
        );
        for line in drawn() {
            self.line(&mut out, line, &x, &y);
        }
        out.push_str("</svg>");
        out + &self.legend()
    }

    fn line(&self, out: &mut String, line: &Line, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
        let path: Vec<String> =
            line.points.iter().map(|dot| format!("{:.1},{:.1}", x(dot.x), y(dot.y))).collect();
        let colour = line.colour % COLOURS;
        let dash = if line.is_dashed { " dashed" } else { "" };
        let _ = writeln!(out, "<polyline class=\"line c{colour}{dash}\" points=\"{}\"/>", path.join(" "));
        if !self.is_marked {
            return;
        }
        for dot in &line.points {
            let at = x(dot.x);
            let _ = writeln!(
                out,
                "<line class=\"line c{colour}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><circle \
                 class=\"dot c{colour}\" cx=\"{at:.1}\" cy=\"{:.1}\" r=\"3\"><title>{}: {}</title></circle>",
                y(dot.least),
                y(dot.most),
                y(dot.y),
                escape(&line.name),
                number(dot.y)
            );
        }
    }

    fn legend(&self) -> String {
        let mut out = String::from("<p class=\"legend\">");
        for line in &self.lines {
            if !self.is_drawn(line) {
                let values: Vec<String> = line.points.iter().map(|dot| number(dot.y)).collect();
                let range = if self.is_marked { format!(": {}", values.join(", ")) } else { String::new() };
                let _ = write!(out, "<span>{} is above the plot{range}</span>", escape(&line.name));
                continue;
            }
            let dash = if line.is_dashed { " dashed" } else { "" };
            let _ = write!(
                out,
                "<span><svg viewBox=\"0 0 22 8\"><line class=\"line c{}{dash}\" x1=\"0\" x2=\"22\" y1=\"4\" y2=\"4\"/></svg>{}</span>",
                line.colour % COLOURS,
                escape(&line.name)
            );
        }
        out + "</p>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps_and_hold_everything() {
        for most in [0.0, 0.003, 0.9, 1.0, 7.3, 12.0, 999.0, 123_456.0] {
            let ticks = ticks(most);
            assert!((2..=7).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!(ticks.last().is_some_and(|last| *last >= most), "{most}: {ticks:?}");
        }
    }

    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in
            [(0.0, "0"), (0.1234, "0.12"), (4.4, "4.40"), (12.34, "12.3"), (1234.5, "1234"), (64.0, "64")]
        {
            assert_eq!(number(value), text);
        }
    }
}
