//! The region map as a drawing for a terminal: key ranges as a layout manages them (regions), in
//! key order, the sizes of their tables and logs, heat.
//!
//! One line stands for one region, or for several neighbours where there are more regions than
//! lines. Accesses are skewed by nature, so heat is drawn in powers of two: on a linear scale one
//! hot region makes all others look untouched. A store counts accesses while it is open: where
//! there were none, no heat is drawn, and where no region is in memory, no column for that. Nothing
//! is printed here: what [`Keyspace::regions`](cantle::Keyspace::regions) returned becomes a text.

use crate::output::{counted, human_bytes, human_count, terminal_columns};
use crate::region_levels;
use cantle::LayoutKind;
use cantle::stats::RegionInfo;
use std::env;
use std::fmt::Write as _;

/// The means of a drawing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Canvas {
    /// Columns of the terminal.
    pub(crate) width: usize,
    /// The most lines for regions.
    pub(crate) lines_max: usize,
    /// True if colours may be used.
    pub(crate) color: bool,
    /// The layout's word for regions.
    pub(crate) noun: &'static str,
}

impl Canvas {
    /// The canvas that suits standard output: the terminal's width and colours, unless `NO_COLOR`
    /// is set.
    pub(crate) fn of_stdout(lines_max: usize, layout: LayoutKind) -> Self {
        let columns = terminal_columns();
        let color = columns.is_some() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self { width: columns.unwrap_or(100).min(140), lines_max, color, noun: layout.regions() }
    }
}

/// The sizes and the heat of one region, as they are drawn.
struct Region<'a> {
    start: &'a [u8],
    table_bytes: u64,
    log_bytes: u64,
    garbage_bytes: u64,
    tables: u64,
    segments: u64,
    resident_bytes: u64,
    heat: f64,
}

impl<'a> From<&'a RegionInfo> for Region<'a> {
    fn from(info: &'a RegionInfo) -> Self {
        Self {
            start: &info.start,
            table_bytes: info.table_bytes,
            log_bytes: info.log_bytes,
            garbage_bytes: info.garbage_bytes,
            tables: info.tables.into(),
            segments: info.segments.into(),
            resident_bytes: info.resident_bytes,
            heat: info.heat,
        }
    }
}

/// Neighbouring regions that share a line.
struct Group<'a> {
    start: &'a [u8],
    regions: usize,
    table_bytes: u64,
    log_bytes: u64,
    /// Regions in memory.
    residents: usize,
    heat: f64,
}

/// All regions of a line are in memory; some of them are.
const RESIDENT_ALL: char = '●';
const RESIDENT_SOME: char = '◐';
const RESIDENT_COLOR: u8 = 118;

const HEAT: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// From cold to hot, of the terminal's 256 colours.
const HEAT_COLORS: [u8; 8] = [39, 45, 51, 118, 190, 220, 208, 196];
/// Columns of the bars: enough to tell sizes apart, few enough to leave room for the rest.
pub(crate) const BAR_COLUMNS_MIN: usize = 8;
pub(crate) const BAR_COLUMNS_MAX: usize = 60;
pub(crate) const TABLE_COLOR: u8 = 39;
const LOG_COLOR: u8 = 214;

/// Draws `regions`, which are in the order of levels and keys. `show` prints the key that a region
/// starts with.
pub(crate) fn draw(regions: &[RegionInfo], canvas: Canvas, show: impl Fn(&[u8]) -> String) -> String {
    if regions.iter().any(|region| region.level > 0) {
        return region_levels::draw(regions, canvas, show);
    }
    let regions: Vec<Region<'_>> = regions.iter().map(Region::from).collect();
    draw_regions(&regions, canvas, show)
}

fn draw_regions(regions: &[Region<'_>], canvas: Canvas, show: impl Fn(&[u8]) -> String) -> String {
    let groups = group(regions, canvas.lines_max.max(1));
    let largest = groups.iter().map(|group| group.table_bytes + group.log_bytes).max().unwrap_or(0).max(1);
    let hottest = groups.iter().map(|group| group.heat).fold(0.0, f64::max);

    let labels: Vec<String> = groups.iter().map(|group| label(group.start, group.regions, &show)).collect();
    let label_width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).max(8);
    let label_width = label_width.min(canvas.width / 2).min(48);
    // The sizes and the gaps take 24 columns beside the label and the bar, heat and residents
    // another 6 each.
    let is_warm = hottest > 0.0;
    let residents: usize = groups.iter().map(|group| group.residents).sum();
    let beside = label_width + 24 + if is_warm { 6 } else { 0 } + if residents > 0 { 6 } else { 0 };
    let bar_width = canvas.width.saturating_sub(beside).clamp(BAR_COLUMNS_MIN, BAR_COLUMNS_MAX);

    let mut text = String::new();
    let mut line = |parts: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = text.write_fmt(parts);
        text.push('\n');
    };
    line(format_args!(
        "{:label_width$}  {}{}{:bar_width$}  {:>9}  {:>9}",
        "from key",
        if is_warm { "heat  " } else { "" },
        if residents > 0 { "mem   " } else { "" },
        "tables █ and logs ░",
        "tables",
        "logs"
    ));
    for (group, label) in groups.iter().zip(&labels) {
        let size = |bytes: u64| (bytes as f64 / largest as f64 * bar_width as f64).round() as usize;
        let table = size(group.table_bytes);
        // Anything that is there shows.
        let log = size(group.table_bytes + group.log_bytes)
            .saturating_sub(table)
            .max(usize::from(group.log_bytes > 0))
            .min((bar_width + 1).saturating_sub(table));
        let blank = bar_width.saturating_sub(table + log);
        let heat = match warmth(group.heat, hottest) {
            Some(step) => paint(canvas, HEAT_COLORS[step], &HEAT[step].to_string()),
            None => " ".into(),
        };
        let resident = match group.residents {
            0 => " ".into(),
            some if some < group.regions => paint(canvas, RESIDENT_COLOR, &RESIDENT_SOME.to_string()),
            _ => paint(canvas, RESIDENT_COLOR, &RESIDENT_ALL.to_string()),
        };
        line(format_args!(
            "{:label_width$}  {}{}{}{}{:blank$}  {:>9}  {:>9}",
            fit(label, label_width),
            if is_warm { format!(" {heat}    ") } else { String::new() },
            if residents > 0 { format!(" {resident}    ") } else { String::new() },
            paint(canvas, TABLE_COLOR, &"█".repeat(table)),
            paint(canvas, LOG_COLOR, &"░".repeat(log)),
            "",
            human_bytes(group.table_bytes),
            human_bytes(group.log_bytes),
        ));
    }
    let sum = |field: fn(&Region<'_>) -> u64| regions.iter().map(field).sum::<u64>();
    line(format_args!(
        "{}: {} in {}, {} in {}; {} of it garbage",
        counted(regions.len() as u64, canvas.noun.trim_end_matches('s'), canvas.noun),
        human_bytes(sum(|region| region.table_bytes)),
        counted(sum(|region| region.tables), "table", "tables"),
        human_bytes(sum(|region| region.log_bytes)),
        counted(sum(|region| region.segments), "log segment", "log segments"),
        human_bytes(sum(|region| region.garbage_bytes)),
    ));
    if residents > 0 {
        let shared = if groups.len() < regions.len() { ", ◐ some of a line" } else { "" };
        line(format_args!(
            "{} of them in memory (●{shared}): {}",
            human_count(residents as u64),
            human_bytes(sum(|region| region.resident_bytes)),
        ));
    }
    text
}

/// The step of [`HEAT`] that stands for `heat`: the highest for the hottest, one lower for each
/// halving, the lowest for whatever is colder. A region that was not touched has none.
fn warmth(heat: f64, hottest: f64) -> Option<usize> {
    let highest = HEAT.len() - 1;
    // A logarithm that is no number, of heat that is none, is cast to zero.
    (heat > 0.0)
        .then(|| (highest as f64 + (heat / hottest).log2()).round() as usize)
        .map(|step| step.min(highest))
}

/// At most `lines_max` groups of neighbours, of almost equal numbers of regions.
fn group<'a>(regions: &[Region<'a>], lines_max: usize) -> Vec<Group<'a>> {
    let lines = regions.len().min(lines_max);
    (0..lines)
        .map(|line| {
            let part = &regions[line * regions.len() / lines..(line + 1) * regions.len() / lines];
            Group {
                start: part.first().map_or(&[], |region| region.start),
                regions: part.len(),
                table_bytes: part.iter().map(|region| region.table_bytes).sum(),
                log_bytes: part.iter().map(|region| region.log_bytes).sum(),
                residents: part.iter().filter(|region| region.resident_bytes > 0).count(),
                heat: part.iter().map(|region| region.heat).fold(0.0, f64::max),
            }
        })
        .collect()
}

/// The text for some regions, the first of which starts with `start`.
pub(crate) fn label(start: &[u8], regions: usize, show: &impl Fn(&[u8]) -> String) -> String {
    let key = if start.is_empty() { "(first)".to_owned() } else { show(start) };
    let key: String = key.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if regions > 1 { format!("{key} ×{regions}") } else { key }
}

/// `text` cut to `width` characters.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

pub(crate) fn paint(canvas: Canvas, color: u8, text: &str) -> String {
    if canvas.color && !text.is_empty() {
        format!("\x1b[38;5;{color}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(key: &[u8]) -> String {
        String::from_utf8_lossy(key).into_owned()
    }

    fn region(start: &[u8], table_bytes: u64, log_bytes: u64, heat: f64) -> Region<'_> {
        Region {
            start,
            table_bytes,
            log_bytes,
            garbage_bytes: 0,
            tables: 1,
            segments: 1,
            resident_bytes: 0,
            heat,
        }
    }

    #[test]
    fn regions_are_drawn_in_key_order_with_their_sizes_and_heat() {
        let regions = [
            region(b"", 4_000_000, 0, 0.0),
            region(b"DL", 2_000_000, 2_000_000, 8.0),
            region(b"UA", 0, 10, 4.0),
        ];
        let canvas = Canvas { width: 60, lines_max: 10, color: false, noun: "chunks" };
        let drawing = draw_regions(&regions, canvas, show);
        let lines: Vec<&str> = drawing.lines().collect();
        assert_eq!(lines.len(), 5, "{drawing}");
        assert!(lines[1].starts_with("(first)") && lines[1].contains("4.0 MB"));
        assert!(!lines[1].contains(&HEAT[..7]), "what was not touched is not warm");
        assert!(lines[2].starts_with("DL") && lines[2].contains('█') && lines[2].contains("░░░"));
        assert!(
            lines[3].starts_with("UA") && lines[3].contains("▇") && lines[3].contains("░"),
            "a small log shows"
        );
        let widths: Vec<usize> = lines[..4].iter().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{drawing}");
        assert!(lines[4].starts_with("3 chunks: 6.0 MB in"), "{drawing}");
        assert!(draw_regions(&regions, Canvas { color: true, ..canvas }, show).contains("\x1b[38;5;196m█"));
    }

    #[test]
    fn heat_falls_by_one_step_with_each_halving() {
        let steps = [256.0, 128.0, 90.0, 64.0, 2.0, 1.0, 0.001].map(|heat| warmth(heat, 256.0));
        assert_eq!(steps, [7, 6, 5, 5, 0, 0, 0].map(Some));
        assert_eq!([0.0, -1.0, f64::NAN].map(|heat| warmth(heat, 1.0)), [None; 3]);
    }

    #[test]
    fn a_store_that_nobody_asked_has_no_heat() {
        let canvas = Canvas { width: 60, lines_max: 10, color: true, noun: "chunks" };
        let cold = draw_regions(&[region(b"", 1, 1, 0.0)], canvas, show);
        assert!(!cold.contains("heat"), "{cold}");
        let warm = draw_regions(&[region(b"", 1, 1, 1.0)], Canvas { color: false, ..canvas }, show);
        assert!(warm.contains("heat"), "{warm}");
        let widths = |text: &str| text.lines().next().map_or(0, |line| line.chars().count());
        assert_eq!((widths(&cold), widths(&warm)), (60, 60));
    }

    #[test]
    fn regions_in_memory_are_marked_and_explained() {
        let mut regions = [region(b"", 1, 1, 0.0), region(b"a", 1, 1, 0.0), region(b"b", 1, 1, 0.0)];
        let canvas = Canvas { width: 60, lines_max: 10, color: false, noun: "chunks" };
        assert!(!draw_regions(&regions, canvas, show).contains("mem "));
        regions[1].resident_bytes = 1_500_000;
        let drawing = draw_regions(&regions, canvas, show);
        let lines: Vec<&str> = drawing.lines().collect();
        assert!(lines[0].contains("mem ") && lines[2].contains('●'), "{drawing}");
        assert!(!lines[1].contains('●') && !lines[3].contains('●'), "{drawing}");
        assert_eq!(lines[5], "1 of them in memory (●): 1.5 MB");
        assert!(lines[..4].iter().all(|line| line.chars().count() == 60), "{drawing}");
        let shared = draw_regions(&regions, Canvas { lines_max: 1, ..canvas }, show);
        assert!(shared.contains('◐') && shared.contains("some of a line"), "{shared}");
    }

    #[test]
    fn many_regions_share_lines_and_none_is_left_out() {
        let keys: Vec<String> = (0..1000).map(|n| format!("k{n:04}")).collect();
        let regions: Vec<Region<'_>> =
            keys.iter().map(|key| region(key.as_bytes(), 1_000_000, 0, 0.0)).collect();
        let drawing =
            draw_regions(&regions, Canvas { width: 100, lines_max: 7, color: false, noun: "chunks" }, show);
        assert_eq!(drawing.lines().count(), 9);
        let shared: u32 = drawing
            .lines()
            .filter_map(|line| line.split_once('×')?.1.split(' ').next()?.parse::<u32>().ok())
            .sum();
        assert_eq!(shared, 1000, "{drawing}");
    }

    #[test]
    fn nothing_long_and_nothing_at_all_can_be_drawn() {
        assert!(
            draw_regions(&[], Canvas { width: 10, lines_max: 0, color: false, noun: "chunks" }, show)
                .contains("0 chunks")
        );
        let long = [region(&[b'x'; 300], 1, 1, f64::NAN)];
        let drawing =
            draw_regions(&long, Canvas { width: 10, lines_max: 7, color: false, noun: "chunks" }, show);
        assert!(drawing.contains('…'), "{drawing}");
    }
}
