//! The region map as one HTML page that needs nothing else: size, heat, garbage, runs, read debt, and
//! which regions are in memory. Each level has a map of its own.
//!
//! The page holds a column for each measure, sizes in KiB, and keys by what they share with those before. Labels of keys are cut to
//! a length with which the page stays below 2 MB for 30,000 regions.

use cantle::LayoutKind;
use cantle::stats::RegionInfo;
use serde_json::json;

/// Bytes of the page that labels of keys take at most.
const LABEL_BYTES_MAX: usize = 900_000;
/// The longest label in characters, and the shortest to which many regions cut it.
const LABEL_CHARS: (usize, usize) = (8, 96);

const PAGE: &str = include_str!("region_page.html");

/// The page. `about` says which store and what its keys are; `label` shows a region's first key.
pub(crate) fn page(
    title: &str,
    about: &str,
    layout: LayoutKind,
    regions: &[RegionInfo],
    label: impl Fn(&[u8]) -> String,
) -> String {
    let labels: Vec<String> = regions
        .iter()
        .map(|region| if region.start.is_empty() { String::new() } else { label(&region.start) })
        .collect();
    let chars = label_chars(&labels);
    let (mut shared, mut rest, mut last) = (Vec::new(), Vec::new(), Vec::new());
    for label in &labels {
        let mut own: Vec<u16> = label.encode_utf16().collect();
        if own.len() > chars {
            own.truncate(chars - 1);
            own.push('…' as u16);
        }
        // In units of UTF-16, as JavaScript counts; never between the two of a pair.
        let mut same = own.iter().zip(&last).take_while(|(a, b)| a == b).count();
        if own.get(same).is_some_and(|unit| (0xdc00..0xe000).contains(unit)) {
            same = same.saturating_sub(1);
        }
        shared.push(same);
        rest.push(String::from_utf16_lossy(&own[same..]));
        last = own;
    }
    let kib = |bytes: u64| bytes.div_ceil(1024);
    let column = |of: fn(&RegionInfo) -> u64| regions.iter().map(of).collect::<Vec<_>>();
    let kibs = |of: fn(&RegionInfo) -> u64| regions.iter().map(|region| kib(of(region))).collect::<Vec<_>>();
    // Chunks have no limits, and keep the page small without a column of zeros.
    let has_limits = regions.iter().any(|region| region.tables_max > 0);
    let limits = if has_limits { column(|region| region.tables_max.into()) } else { Vec::new() };
    let has_trees = regions.iter().any(|region| region.tree > 0);
    let trees = if has_trees { column(|region| region.tree) } else { Vec::new() };
    let data = json!({
        "count": regions.len(),
        "noun": layout.regions(),
        "shared": shared,
        "rest": rest,
        "level": column(|region| region.level.into()),
        "tree": trees,
        "table": kibs(|region| region.table_bytes),
        "log": kibs(|region| region.log_bytes),
        "garbage": kibs(|region| region.garbage_bytes),
        "tables": column(|region| region.tables.into()),
        "limit": limits,
        "segments": column(|region| region.segments.into()),
        "memory": kibs(|region| region.resident_bytes),
        "heat": column(|region| region.heat.round() as u64),
        "debt": column(|region| region.read_debt),
    });
    // Within a script nothing may look like its end.
    let data = data.to_string().replace('<', "\\u003c");
    // One after the other: a title may contain a mark.
    let (title, about) = (escape(title), escape(about));
    let mut page = String::with_capacity(PAGE.len() + data.len() + 1000);
    let mut rest = PAGE;
    while let Some((before, from)) = rest.split_once('%') {
        let marks = [("TITLE%", &title), ("ABOUT%", &about), ("DATA%", &data)];
        page += before;
        rest = match marks.iter().find_map(|(mark, text)| Some((from.strip_prefix(mark)?, text))) {
            Some((after, text)) => {
                page += text;
                after
            }
            None => {
                page.push('%');
                from
            }
        };
    }
    page + rest
}

/// The length to which labels are cut, so that all of them take about `LABEL_BYTES_MAX` in the page. Characters beyond ASCII, and those
/// that JSON escapes, take several bytes.
fn label_chars(labels: &[String]) -> usize {
    let bytes = |label: &str| -> usize {
        label
            .chars()
            .map(|char| match char {
                '<' | '\0'..='\x1f' => 6,
                '"' | '\\' => 2,
                char => char.len_utf8(),
            })
            .sum()
    };
    let (all, chars) =
        labels.iter().fold((0, 0), |(all, chars), label| (all + bytes(label), chars + label.chars().count()));
    let bytes_each = LABEL_BYTES_MAX / labels.len().max(1);
    // Bytes of a character on average, rounded up.
    let chars_each = bytes_each / all.div_ceil(chars.max(1)).max(1);
    chars_each.clamp(LABEL_CHARS.0, LABEL_CHARS.1)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(count: u64) -> Vec<RegionInfo> {
        (0..count)
            .map(|number| {
                let mut region = RegionInfo::default();
                region.start = if number == 0 {
                    Vec::new()
                } else {
                    format!("user{:08}/2024-11-{}", number * 7919 % 90_000, number % 30).into_bytes()
                };
                region.table_bytes = number * 7919 % 8_000_000;
                region.log_bytes = number * 104_729 % 12_000_000;
                region.garbage_bytes = region.log_bytes / 3;
                (region.tables, region.segments) = (number as u32 % 4, number as u32 % 3);
                region.resident_bytes = if number % 5 == 0 { 9_000_000 } else { 0 };
                region.heat = (number % 100) as f64 * 1.5;
                region.read_debt = number % 10_000;
                region
            })
            .collect()
    }

    fn page_of(count: u64) -> String {
        let show = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        page("keyspace <flights>", "a & b", LayoutKind::Chunk, &regions(count), show)
    }

    #[test]
    fn a_page_is_small_and_asks_nobody_for_anything() {
        let page = page_of(30_000);
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
        for outside in ["http:", "https:", "//cdn", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("<title>keyspace &lt;flights&gt;</title>") && page.contains("a &amp; b"));
        assert!(!page.contains("%DATA%") && !page.contains("%TITLE%") && !page.contains("%ABOUT%"));
    }

    #[test]
    fn a_page_has_the_levels_and_the_read_debt_of_ten_thousand_guards() {
        let mut regions = regions(10_000);
        for (number, region) in regions.iter_mut().enumerate() {
            (region.level, region.tables_max) = (1 + (number > 100) as u32, number as u32 % 13);
        }
        let show = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let page = page("t", "a", LayoutKind::Flsm, &regions, show);
        let data = page.lines().find_map(|line| line.strip_prefix("const data = ")).unwrap();
        let data: serde_json::Value = serde_json::from_str(data.trim_end_matches(';')).unwrap();
        assert_eq!((&data["noun"], &data["count"]), (&"guards".into(), &10_000.into()));
        assert_eq!((&data["level"][100], &data["level"][101]), (&1.into(), &2.into()));
        assert_eq!((&data["debt"][9_999], &data["limit"][9_999]), (&9_999.into(), &(9_999 % 13).into()));
    }

    #[test]
    fn a_page_of_keys_beyond_ascii_is_small_and_a_mark_in_a_title_is_text() {
        let mut regions = regions(30_000);
        for (number, region) in regions.iter_mut().enumerate().skip(1) {
            region.start = format!("{}{}", ["<", "航", "\\"][number % 3].repeat(30), number).into_bytes();
        }
        let show = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let page = page("%DATA%", "%TITLE%", LayoutKind::Chunk, &regions, show);
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
        assert!(page.contains("<title>%DATA%</title>") && page.contains("<p>%TITLE%</p>"));
    }

    #[test]
    fn keys_come_back_from_what_they_share() {
        let mut regions = regions(4);
        regions[1].start = "a😀b".into();
        regions[2].start = "a😁</script>".into();
        regions[3].start = vec![b'x'; 500];
        let show = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let page = page("t", "a", LayoutKind::Chunk, &regions, show);
        assert_eq!(page.matches("</script>").count(), 1);
        let data = page.lines().find_map(|line| line.strip_prefix("const data = ")).unwrap();
        let data: serde_json::Value = serde_json::from_str(data.trim_end_matches(';')).unwrap();
        let mut last: Vec<u16> = Vec::new();
        let keys: Vec<String> = (0..4)
            .map(|number| {
                last.truncate(data["shared"][number].as_u64().unwrap() as usize);
                last.extend(data["rest"][number].as_str().unwrap().encode_utf16());
                String::from_utf16(&last).unwrap()
            })
            .collect();
        assert_eq!(keys[..3], ["", "a😀b", "a😁</script>"]);
        assert_eq!(keys[3].chars().count(), 96);
        assert!(keys[3].ends_with('…'));
    }
}
