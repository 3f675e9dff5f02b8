//! One figure of a paper: its claim, its panels, and the ratio that was reached.

use super::compare::{Middle, Results, baseline};
use super::svg::{COLOURS, Dot, Line, Plot, escape, number};
use crate::engine::{Figures, Spec};
use crate::suite::measure::Measure;
use crate::suite::{Figure, Panel, Point, Series, View};
use std::fmt::Write;

/// A section of the page; empty if none of its cells has been run.
pub fn render(figure: &Figure, results: &Results) -> String {
    let panels: String = figure.panels.iter().map(|panel| panel_html(panel, results)).collect();
    if panels.is_empty() {
        return String::new();
    }
    let mut out = format!("<section id=\"{}\"><h3>{}</h3>\n", figure.id, escape(&figure.title));
    if !figure.claim.is_empty() {
        let _ = writeln!(out, "<p class=\"claim\"><b>The paper:</b> {}</p>", escape(figure.claim));
    }
    if let Some(reached) = reached(figure, results) {
        let _ = writeln!(out, "<p class=\"reached\"><b>Here:</b> {}</p>", escape(&reached));
    }
    if !figure.note.is_empty() {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(figure.note));
    }
    let _ = writeln!(out, "<div class=\"panels\">{panels}</div></section>");
    out
}

/// The ratio of Cantle to the better rival, for each line of the first panels that show one
/// measure.
fn reached(figure: &Figure, results: &Results) -> Option<String> {
    let cantle = results.engines.iter().find(|engine| engine.is_cantle())?;
    let rivals = baseline(&results.engines);
    let mut parts = Vec::new();
    for panel in &figure.panels {
        let View::Lines(measure) = panel.view else { continue };
        let points = panel.series.iter().flat_map(|series| &series.points);
        let ratios: Vec<f64> = points
            .filter(|point| point.engine.is_none())
            .filter_map(|point| ratio(point, measure, cantle, &rivals, results))
            .collect();
        let (Some(least), Some(most)) =
            (ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max))
        else {
            continue;
        };
        let range = if ratios.len() == 1 || least == most {
            format!("{}×", number(least))
        } else {
            format!("{}× to {}×", number(least), number(most))
        };
        let better = if measure.is_gain() { "" } else { " (less is better)" };
        parts.push(format!("{} {range}{better}", panel.title));
    }
    let names: Vec<String> = rivals.iter().map(Spec::to_string).collect();
    (!parts.is_empty())
        .then(|| format!("{cantle} over the better of {}: {}.", names.join(" and "), parts.join("; ")))
}

fn ratio(point: &Point, measure: Measure, cantle: &Spec, rivals: &[Spec], results: &Results) -> Option<f64> {
    let median = |engine| Some(results.middle(&point.cell, point.step, engine, measure)?.median);
    let own = median(cantle)?;
    let of_rivals = rivals.iter().filter_map(median);
    let rival = if measure.is_gain() { of_rivals.reduce(f64::max) } else { of_rivals.reduce(f64::min) }?;
    (rival > 0.0).then(|| own / rival)
}

fn panel_html(panel: &Panel, results: &Results) -> String {
    let body = match &panel.view {
        View::Lines(measure) => lines(panel, *measure, results),
        View::Timeline => over_time(panel, "thousand operations/s", results, |outcome, step| {
            let timeline = &outcome.steps.get(step)?.timeline;
            let interval_s = timeline.interval_ms as f64 / 1e3;
            // The last interval is incomplete.
            let whole = timeline.counts.len().saturating_sub(1).max(1);
            let dots = timeline.counts.iter().take(whole).enumerate();
            Some(dots.map(|(at, count)| (at as f64 * interval_s, *count as f64 / interval_s / 1e3)).collect())
        }),
        View::Space => over_time(panel, "MB on disk", results, |outcome, step| {
            let samples = outcome.steps.get(step)?.space.samples.iter();
            Some(samples.map(|sample| (sample.at_s, sample.disk_bytes as f64 / 1e6)).collect())
        }),
        View::GetsServed => by_component(panel, results, &COMPONENTS, "%", share_served),
        View::GetTimes => by_component(panel, results, &COMPONENTS[2..], "µs", mean_time),
        View::Table(measures) => table(panel, measures, results),
        View::Computed(rows) => computed(rows),
    };
    if body.is_empty() {
        return body;
    }
    let title = match &panel.view {
        View::Lines(measure) if panel.title != measure.title() => {
            format!("{} – {}", panel.title, measure.title())
        }
        _ => panel.title.clone(),
    };
    let wide = if matches!(panel.view, View::Table(_) | View::Computed(_) | View::GetsServed | View::GetTimes)
    {
        " wide"
    } else {
        ""
    };
    format!("<figure class=\"panel{wide}\"><figcaption>{}</figcaption>{body}</figure>\n", escape(&title))
}

/// The engines of a point: its own, or all that had a turn at its cell.
fn engines(point: &Point, results: &Results) -> Vec<Spec> {
    match &point.engine {
        Some(engine) => vec![engine.clone()],
        None => results.engines.iter().cloned().chain(results.others(&point.cell)).collect(),
    }
}

/// The colour of an engine, the same on every plot.
fn colour(engine: &Spec, results: &Results) -> usize {
    results.engines.iter().position(|other| other == engine).unwrap_or(0) % COLOURS
}

fn join(engine: &Spec, series: &Series) -> String {
    if series.name.is_empty() { engine.to_string() } else { format!("{engine} {}", series.name) }
}

fn lines(panel: &Panel, measure: Measure, results: &Results) -> String {
    let mut plotted = Vec::new();
    let mut labels: Vec<String> = Vec::new();
    for (number, series) in panel.series.iter().enumerate() {
        for point in &series.points {
            if !labels.contains(&point.label) {
                labels.push(point.label.clone());
            }
        }
        let is_own = series.points.iter().any(|point| point.engine.is_some());
        let dot = |point: &Point, engine: &Spec| {
            let Middle { median, least, most, .. } =
                results.middle(&point.cell, point.step, engine, measure)?;
            let x = labels.iter().position(|label| *label == point.label)? as f64;
            Some(Dot { x, y: median, least, most })
        };
        if is_own {
            let own = |point: &Point| dot(point, point.engine.as_ref()?);
            let points = series.points.iter().filter_map(own).collect();
            plotted.push(Line {
                name: series.name.clone(),
                colour: number,
                is_dashed: false,
                is_limit: false,
                points,
            });
        } else {
            for engine in &results.engines {
                let points = series.points.iter().filter_map(|point| dot(point, engine)).collect();
                let is_dashed = !engine.is_cantle();
                let colour = colour(engine, results);
                let is_limit = engine.is_volatile() && measure.is_gain();
                plotted.push(Line { name: join(engine, series), colour, is_dashed, is_limit, points });
            }
        }
    }
    plotted.retain(|line| !line.points.is_empty());
    if plotted.is_empty() {
        return String::new();
    }
    Plot { title: measure.title(), across: panel.across, labels, lines: plotted, is_marked: true }.render()
}

type OverTime = fn(&crate::record::Outcome, &str) -> Option<Vec<(f64, f64)>>;

fn over_time(panel: &Panel, title: &str, results: &Results, of: OverTime) -> String {
    let mut plotted = Vec::new();
    for series in &panel.series {
        for point in &series.points {
            for engine in engines(point, results) {
                let outcome = results.typical(&point.cell, point.step, &engine);
                let Some(dots) = outcome.and_then(|outcome| of(outcome, point.step)) else { continue };
                let points = dots.into_iter().map(|(x, y)| Dot { x, y, least: y, most: y }).collect();
                let is_dashed = !engine.is_cantle();
                let colour = colour(&engine, results);
                let is_limit = engine.is_volatile();
                plotted.push(Line { name: join(&engine, series), colour, is_dashed, is_limit, points });
            }
        }
    }
    if plotted.is_empty() {
        return String::new();
    }
    let across = format!("{} – {title}", panel.across);
    Plot { title, across: &across, labels: Vec::new(), lines: plotted, is_marked: false }.render()
}

fn table(panel: &Panel, measures: &[Measure], results: &Results) -> String {
    let mut rows = String::new();
    for series in &panel.series {
        for point in &series.points {
            for engine in engines(point, results) {
                let name = if series.name.is_empty() { engine.to_string() } else { series.name.clone() };
                if results.outcomes(&point.cell, &engine).is_empty() {
                    if let Some(why) = results.failure(&point.cell, &engine) {
                        let _ = writeln!(
                            rows,
                            "<tr><th>{}</th><td colspan=\"{}\">{}</td></tr>",
                            escape(&name),
                            measures.len(),
                            escape(why)
                        );
                    }
                    continue;
                }
                let _ = write!(rows, "<tr><th>{}</th>", escape(&name));
                for measure in measures {
                    let middle = results.middle(&point.cell, point.step, &engine, *measure);
                    let text = middle.map_or("–".into(), |middle| number(middle.median));
                    let _ = write!(rows, "<td>{text}</td>");
                }
                rows.push_str("</tr>\n");
            }
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let heading: String = measures.iter().map(|measure| format!("<th>{}</th>", measure.title())).collect();
    format!("<table><thead><tr><th></th>{heading}</tr></thead><tbody>{rows}</tbody></table>")
}

/// The components that serve gets: the name in the store's statistics, and a readable name. The
/// first two are memory.
const COMPONENTS: [(&str, &str); 6] = [
    ("resident", "munks"),
    ("row", "row cache"),
    ("log_memory", "logs, by the index in memory"),
    ("log_index", "logs, their older parts"),
    ("table", "tables"),
    ("absent", "nowhere"),
];

fn served(figures: &Figures, component: &str) -> f64 {
    figures.get(&format!("gets_served.{component}")).copied().unwrap_or(0.0)
}

/// The share of all gets that a component served, in percent.
fn share_served(figures: &Figures, component: &str) -> Option<f64> {
    let all: f64 = COMPONENTS.iter().map(|(name, _)| served(figures, name)).sum();
    (all > 0.0).then(|| served(figures, component) / all * 100.0)
}

/// Average time of a get that a component served, in microseconds.
fn mean_time(figures: &Figures, component: &str) -> Option<f64> {
    let part = |unit: &str| figures.get(&format!("get_times.{component}_total.{unit}")).copied();
    let micros = part("secs")? * 1e6 + part("nanos")? / 1e3;
    let count = served(figures, component);
    (count > 0.0).then(|| micros / count)
}

type OfComponent = fn(&Figures, &str) -> Option<f64>;

/// A row for each point and each of Cantle's variants.
fn by_component(
    panel: &Panel,
    results: &Results,
    components: &[(&str, &str)],
    unit: &str,
    of: OfComponent,
) -> String {
    let mut rows = String::new();
    for point in panel.series.iter().flat_map(|series| &series.points) {
        for engine in results.engines.iter().filter(|engine| engine.is_cantle()) {
            let Some(outcome) = results.typical(&point.cell, point.step, engine) else { continue };
            let Some(measured) = outcome.steps.get(point.step) else { continue };
            let values: Vec<Option<f64>> =
                components.iter().map(|(name, _)| of(&measured.figures, name)).collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let _ = write!(rows, "<tr><th>{}, {engine}</th>", escape(&point.label));
            for value in values {
                let _ = write!(rows, "<td>{}</td>", value.map_or("–".into(), |value| format!("{value:.1}")));
            }
            rows.push_str("</tr>\n");
        }
    }
    if rows.is_empty() {
        return rows;
    }
    let heading: String = components.iter().map(|(_, title)| format!("<th>{title}, {unit}</th>")).collect();
    format!("<table><thead><tr><th></th>{heading}</tr></thead><tbody>{rows}</tbody></table>")
}

fn computed(rows: &[Vec<String>]) -> String {
    let mut out = String::from("<table><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let tag = if at == 0 { "th" } else { "td" };
            let _ = write!(out, "<{tag}>{}</{tag}>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out + "</tbody></table>"
}
