//! The region map of a layout with levels as a drawing for a terminal: a heading for each level, or for each tree of a
//! stage, and below it its regions in key order, with their sizes, their tables and what reads have cost
//! them.
//!
//! The drawing is as long as its canvas permits, however many regions there are: levels with few
//! regions have a line for each, and the others divide the lines that are left.

use crate::output::{counted, human_bytes, human_count};
use crate::region_map::{BAR_COLUMNS_MAX, BAR_COLUMNS_MIN, Canvas, TABLE_COLOR, fit, label, paint};
use cantle::stats::RegionInfo;
use std::fmt::Write as _;

/// Neighbouring regions of a level that share a line.
struct Line {
    label: String,
    bytes: u64,
    /// Tables of the region that has fewest and of the one that has most.
    tables: (u32, u32),
    /// The same of the tables that they may have.
    limits: (u32, u32),
    read_debt: u64,
}

/// Draws `regions`, which are in the order of levels and keys. `show` prints the key that a region
/// starts with.
pub(crate) fn draw(regions: &[RegionInfo], canvas: Canvas, show: impl Fn(&[u8]) -> String) -> String {
    let levels: Vec<&[RegionInfo]> =
        regions.chunk_by(|a, b| (a.level, a.tree) == (b.level, b.tree)).collect();
    let counts: Vec<usize> =
        levels.iter().map(|level| if is_logs(level) { 0 } else { level.len() }).collect();
    let lines = divide(&counts, canvas.lines_max.saturating_sub(levels.len()));
    let drawn: Vec<Vec<Line>> =
        levels.iter().zip(&lines).map(|(level, &lines)| group(level, lines, &show)).collect();
    let all = || drawn.iter().flatten();
    let largest = all().map(|line| line.bytes).max().unwrap_or(0).max(1);
    let label_width = all().map(|line| line.label.chars().count()).max().unwrap_or(0).max(8);
    let label_width = label_width.min(canvas.width / 2).min(48);
    // The figures and the gaps take 46 columns beside the label and the bar.
    let bar_width = canvas.width.saturating_sub(label_width + 46).clamp(BAR_COLUMNS_MIN, BAR_COLUMNS_MAX);

    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{:label_width$}  {:bar_width$}  {:>9}  {:>9}  {:>9}  {:>9}",
        "from key", "size █", "size", "tables", "may have", "read debt"
    );
    for (level, lines) in levels.iter().zip(&drawn) {
        let _ = writeln!(text, "{}", fit(&heading(level, canvas.noun), canvas.width));
        for line in lines {
            let bar = (line.bytes as f64 / largest as f64 * bar_width as f64).round() as usize;
            // Anything that is there shows.
            let bar = bar.max(usize::from(line.bytes > 0)).min(bar_width);
            let range = |ends: (u32, u32)| match ends {
                (least, most) if least == most => most.to_string(),
                (least, most) => format!("{least}–{most}"),
            };
            let _ = writeln!(
                text,
                "{:label_width$}  {}{:blank$}  {:>9}  {:>9}  {:>9}  {:>9}",
                fit(&line.label, label_width),
                paint(canvas, TABLE_COLOR, &"█".repeat(bar)),
                "",
                human_bytes(line.bytes),
                range(line.tables),
                range(line.limits),
                human_count(line.read_debt),
                blank = bar_width - bar,
            );
        }
    }
    let sum = |of: fn(&RegionInfo) -> u64| regions.iter().map(of).sum::<u64>();
    let numbered = levels.iter().filter(|level| !is_logs(level)).count() as u64;
    let has_trees = regions.iter().any(|region| region.tree > 0);
    let _ = writeln!(
        text,
        "{} in {}: {} in {}, {} in {}{}; {} of it garbage{}",
        counted(counts.iter().sum::<usize>() as u64, canvas.noun.trim_end_matches('s'), canvas.noun),
        if has_trees { counted(numbered, "tree", "trees") } else { counted(numbered, "level", "levels") },
        human_bytes(sum(|region| region.table_bytes)),
        counted(sum(|region| region.tables.into()), "table", "tables"),
        human_bytes(sum(|region| region.log_bytes)),
        counted(sum(|region| region.segments.into()), "log", "logs"),
        match sum(|region| region.referred_bytes) {
            0 => String::new(),
            bytes => format!(", {} in logs that tables refer to", human_bytes(bytes)),
        },
        human_bytes(sum(|region| region.garbage_bytes)),
        match sum(|region| region.dropped_ranges.into()) {
            0 => String::new(),
            ranges => format!(", with {}", counted(ranges, "dropped range", "dropped ranges")),
        },
    );
    text
}

/// True if the level is the one of logs and flushed tables, which has no regions to draw.
fn is_logs(level: &[RegionInfo]) -> bool {
    level.first().is_none_or(|region| region.level == 0)
}

/// Divides `lines` among levels with these numbers of regions: evenly, but none gets more lines than
/// it has regions.
fn divide(counts: &[usize], lines: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&level| counts[level]);
    let (mut left, mut given) = (lines, vec![0; counts.len()]);
    for (done, &level) in order.iter().enumerate() {
        given[level] = counts[level].min(left / (counts.len() - done));
        left -= given[level];
    }
    given
}

/// The regions of a level in this many lines, each of almost as many regions.
fn group(level: &[RegionInfo], lines: usize, show: &impl Fn(&[u8]) -> String) -> Vec<Line> {
    let part = |line: usize| &level[line * level.len() / lines..(line + 1) * level.len() / lines];
    (0..lines)
        .map(|line| {
            let part = part(line);
            let ends = |of: fn(&RegionInfo) -> u32| {
                let values = || part.iter().map(of);
                (values().min().unwrap_or(0), values().max().unwrap_or(0))
            };
            Line {
                label: label(part.first().map_or(&[], |region| &region.start[..]), part.len(), show),
                bytes: part.iter().map(|region| region.table_bytes).sum(),
                tables: ends(|region| region.tables),
                limits: ends(|region| region.tables_max),
                read_debt: part.iter().map(|region| region.read_debt).sum(),
            }
        })
        .collect()
}

/// The sums of a level.
fn heading(level: &[RegionInfo], noun: &str) -> String {
    let sum = |of: fn(&RegionInfo) -> u64| level.iter().map(of).sum::<u64>();
    let (number, tree) = level.first().map_or((0, 0), |region| (region.level, region.tree));
    if is_logs(level) {
        let logs = counted(sum(|region| region.segments.into()), "log", "logs");
        let bytes = human_bytes(sum(|region| region.log_bytes + region.table_bytes));
        return match sum(|region| region.tables.into()) {
            0 => format!("level {number}: {logs}, {bytes}"),
            tables => format!("level {number}: {logs}, {}, {bytes}", counted(tables, "table", "tables")),
        };
    }
    if tree > 0 {
        return format!(
            "stage {number}, tree {tree}{}: {}, {}; {}, read debt {}",
            if level.iter().any(|region| region.grows) { ", which grows" } else { "" },
            counted(level.len() as u64, noun.trim_end_matches('s'), noun),
            counted(sum(|region| region.tables.into()), "sub-tree", "sub-trees"),
            human_bytes(sum(|region| region.table_bytes)),
            human_count(sum(|region| region.read_debt)),
        );
    }
    let empty = level.iter().filter(|region| region.tables == 0).count() as u64;
    let most = level.iter().map(|region| region.tables).max().unwrap_or(0);
    format!(
        "level {number}: {}{}, {}, at most {most} in one; {}, read debt {}",
        counted(level.len() as u64, noun.trim_end_matches('s'), noun),
        if empty > 0 { format!(" ({} empty)", human_count(empty)) } else { String::new() },
        counted(sum(|region| region.tables.into()), "table", "tables"),
        human_bytes(sum(|region| region.table_bytes)),
        human_count(sum(|region| region.read_debt)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region_map;

    fn show(key: &[u8]) -> String {
        String::from_utf8_lossy(key).into_owned()
    }

    fn region(level: u32, start: &str, tables: u32, table_bytes: u64, read_debt: u64) -> RegionInfo {
        let mut region = RegionInfo::default();
        (region.level, region.start) = (level, start.into());
        (region.tables, region.table_bytes, region.read_debt) = (tables, table_bytes, read_debt);
        region.tables_max = 6 + tables % 2;
        region
    }

    const CANVAS: Canvas = Canvas { width: 90, lines_max: 32, color: false, noun: "guards" };

    fn drawn(regions: &[RegionInfo], canvas: Canvas) -> Vec<String> {
        // As the commands do, which know nothing of levels.
        region_map::draw(regions, canvas, show).lines().map(String::from).collect()
    }

    #[test]
    fn levels_are_drawn_one_below_the_other_with_the_tables_and_the_debt_of_each_guard() {
        let mut logs = region(0, "", 0, 0, 0);
        (logs.segments, logs.log_bytes) = (3, 12_000_000);
        let guards = [
            region(1, "", 5, 4_000_000, 1200),
            region(2, "", 1, 8_000_000, 0),
            region(2, "m", 0, 0, 0),
            region(2, "t", 2, 2_000_000, 7),
        ];
        let lines = drawn(&[&[logs], &guards[..]].concat(), CANVAS);
        assert_eq!(lines[1], "level 0: 3 logs, 12.0 MB");
        let mut flushed = region(0, "", 2, 1_000_000, 0);
        (flushed.segments, flushed.log_bytes) = (1, 500_000);
        assert_eq!(heading(&[flushed], "guards"), "level 0: 1 log, 2 tables, 1.5 MB");
        assert_eq!(lines[2], "level 1: 1 guard, 5 tables, at most 5 in one; 4.0 MB, read debt 1,200");
        assert_eq!(lines[4], "level 2: 3 guards (1 empty), 3 tables, at most 2 in one; 10.0 MB, read debt 7");
        assert_eq!(
            lines[8],
            "4 guards in 2 levels: 14.0 MB in 8 tables, 12.0 MB in 3 logs; 0 B of it garbage"
        );
        let cells = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
        assert_eq!(cells(&lines[0])[..2], ["from", "key"]);
        assert_eq!(cells(&lines[3])[2..], ["4.0", "MB", "5", "7", "1,200"]);
        assert_eq!(cells(&lines[6]), ["m", "0", "B", "0", "6", "0"]);
        assert_eq!(cells(&lines[7])[2..], ["2.0", "MB", "2", "6", "7"]);
        let bar = |line: &str| line.matches('█').count();
        assert_eq!(
            (bar(&lines[3]), bar(&lines[7])),
            (bar(&lines[5]).div_ceil(2), bar(&lines[5]).div_ceil(4))
        );
        for line in [0, 3, 5, 6, 7] {
            assert_eq!(lines[line].chars().count(), 90, "{}", lines[line]);
        }
    }

    #[test]
    fn the_trees_of_a_stage_are_drawn_apart_and_one_that_grows_is_marked() {
        let of_tree = |level: u32, tree: u64, region: RegionInfo| {
            let mut region = region;
            (region.level, region.tree, region.grows) = (level, tree, tree == 6);
            region
        };
        let sections = [
            of_tree(1, 5, region(1, "", 9, 9_000_000, 0)),
            of_tree(1, 4, region(1, "", 8, 8_000_000, 0)),
            of_tree(2, 6, region(2, "", 3, 3_000_000, 12)),
            of_tree(2, 6, region(2, "k", 4, 4_000_000, 0)),
        ];
        let lines = drawn(&sections, Canvas { noun: "sections", ..CANVAS });
        assert_eq!(lines[1], "stage 1, tree 5: 1 section, 9 sub-trees; 9.0 MB, read debt 0");
        assert_eq!(lines[3], "stage 1, tree 4: 1 section, 8 sub-trees; 8.0 MB, read debt 0");
        assert_eq!(lines[5], "stage 2, tree 6, which grows: 2 sections, 7 sub-trees; 7.0 MB, read debt 12");
        assert!(lines[8].starts_with("4 sections in 3 trees: 24.0 MB in 24 tables"), "{}", lines[8]);
    }

    #[test]
    fn ten_thousand_guards_are_drawn_in_as_many_lines_as_there_may_be() {
        let mut regions = vec![region(0, "", 0, 0, 0)];
        for (level, guards) in [(1, 10), (2, 1_000), (3, 9_000)] {
            regions.extend((0..guards).map(|guard| {
                let start = if guard == 0 { String::new() } else { format!("k{guard:05}") };
                region(level, &start, guard % 7, u64::from(guard), 1)
            }));
        }
        for lines_max in [4, 10, 32, 100] {
            let lines = drawn(&regions, Canvas { lines_max, ..CANVAS });
            assert_eq!(lines.len(), lines_max.max(4) + 2, "{lines:#?}");
            let guards = |line: &String| {
                line.split_once('×').map(|(_, rest)| rest.split(' ').next().unwrap().to_owned())
            };
            let shared: u32 =
                lines.iter().filter_map(guards).map(|count| count.parse::<u32>().unwrap()).sum();
            let alone = lines.iter().filter(|line| line.starts_with("(first) ") || line.starts_with('k'));
            let alone = alone.filter(|line| !line.contains('×')).count() as u32;
            assert!(lines_max < 10 || shared + alone == 10_010, "{shared} and {alone}: {lines:#?}");
        }
        // Fewer lines than levels: only the sums are drawn.
        assert_eq!(drawn(&regions, Canvas { lines_max: 0, ..CANVAS }).len(), 6);
        let lines = drawn(&regions, CANVAS);
        let shared = |line: &&String| line.contains("×") && line.contains(" 0–6 ") && line.contains(" 6–7 ");
        assert!(lines.iter().any(|line| shared(&line)), "{lines:#?}");
    }

    #[test]
    fn lines_are_divided_by_need() {
        assert_eq!(divide(&[0, 3, 100, 9000], 28), [0, 3, 12, 13]);
        assert_eq!(divide(&[0, 1], 10), [0, 1]);
        assert_eq!(divide(&[5, 5], 0), [0, 0]);
        assert_eq!(divide(&[], 9), [0; 0]);
    }
}
