//! Comparisons as people read them: a row for each pair, and what is known of those that differ.

use super::comparison::Comparison;
use super::difference::{Bin, Difference, Element};
use crate::table::table;
use crate::text::plural;
use infer::PartialShape;

/// Characters of the longest bar of a histogram.
const BAR: usize = 40;

/// A row for each comparison, then the details of those that differ, `most` of them; of the only
/// one in any case. `sides` are what a and b are called.
pub(crate) fn text(comparisons: &[Comparison], sides: [&str; 2], most: usize) -> String {
    let mut text = table(&rows(comparisons));
    let is_only = comparisons.len() == 1;
    let shown = comparisons.iter().filter(|c| is_only || !c.ok);
    for comparison in shown.take(most) {
        if let Some(difference) = &comparison.difference {
            let name = if is_only { "" } else { &comparison.name };
            text.push('\n');
            text.push_str(&details(name, difference, sides));
        }
    }
    text
}

/// One line on what is wrong, or that nothing is.
pub(crate) fn verdict(comparison: &Comparison) -> String {
    if let Some(mismatch) = &comparison.mismatch {
        return mismatch.clone();
    }
    match &comparison.difference {
        Some(d) if d.beyond > 0 => {
            format!("{} of {} differ", d.beyond, plural(d.elements, "element"))
        }
        Some(d) if d.max_abs > 0.0 => "within tolerance".to_owned(),
        Some(_) => "equal".to_owned(),
        None => "not compared".to_owned(),
    }
}

fn rows(comparisons: &[Comparison]) -> Vec<Vec<String>> {
    let head = [
        "", "name", "type", "shape", "max abs", "max rel", "max ULP", "cosine", "|a|/|b|",
        "verdict",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for c in comparisons {
        let numbers = match &c.difference {
            Some(d) => numbers(d),
            None => ["-"; 5].map(str::to_owned),
        };
        let mut row = vec![
            if c.ok { "ok" } else { "DIFFERS" }.to_owned(),
            c.name.clone(),
            c.types[0].clone(),
            PartialShape::fixed(&c.shapes[0]).to_string(),
        ];
        row.extend(numbers);
        row.push(verdict(c));
        rows.push(row);
    }
    rows
}

fn numbers(d: &Difference) -> [String; 5] {
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), near_one);
    [
        short(d.max_abs),
        short(d.max_rel),
        d.max_ulp.map_or_else(|| "-".to_owned(), thousands),
        optional(d.cosine),
        optional(d.magnitude_ratio),
    ]
}

fn details(name: &str, d: &Difference, sides: [&str; 2]) -> String {
    let mut text = match name {
        "" => String::new(),
        name => format!("{name}\n"),
    };
    let counts = [("NaN", d.nan), ("infinite", d.infinite)];
    for (what, [a, b]) in counts.into_iter().filter(|(_, [a, b])| a + b > 0) {
        text.push_str(&format!("{what}: {a} in {}, {b} in {}\n", sides[0], sides[1]));
    }
    if !d.worst.is_empty() {
        text.push_str(&table(&worst(&d.worst, sides)));
    }
    if d.max_abs > 0.0 || d.incomparable > 0 {
        text.push('\n');
        text.push_str(&histogram(&d.histogram, d.incomparable));
    }
    text
}

fn worst(elements: &[Element], sides: [&str; 2]) -> Vec<Vec<String>> {
    let head = ["worst", sides[0], sides[1], "abs", "rel", "ULP"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for e in elements {
        let index: Vec<String> = e.index.iter().map(usize::to_string).collect();
        rows.push(vec![
            format!("[{}]", index.join(",")),
            e.a.clone(),
            e.b.clone(),
            if e.abs.is_nan() { "-".to_owned() } else { short(e.abs) },
            e.rel.map_or_else(|| "-".to_owned(), short),
            e.ulp.map_or_else(|| "-".to_owned(), thousands),
        ]);
    }
    rows
}

/// Bars as long as the bins are full, in steps of an eighth of a character.
fn histogram(bins: &[Bin], incomparable: usize) -> String {
    let most = bins.iter().map(|b| b.count).chain([incomparable]).max().unwrap_or(0).max(1);
    let bar = |count: usize| {
        let eighths = (count * BAR * 8).div_ceil(most);
        let mut bar = "█".repeat(eighths / 8);
        bar.extend(
            [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'].get(eighths % 8).filter(|c| **c != ' '),
        );
        bar
    };
    let label = |bin: &Bin| {
        if bin.up_to == 0.0 { "equal".to_owned() } else { format!("to {:e}", bin.up_to) }
    };
    let row = |label: String, count: usize| vec![label, thousands(count as u64), bar(count)];
    let mut rows = vec![vec!["|a − b|".to_owned(), "elements".to_owned()]];
    rows.extend(bins.iter().map(|bin| row(label(bin), bin.count)));
    if incomparable > 0 {
        rows.push(row("not comparable".to_owned(), incomparable));
    }
    table(&rows)
}

/// `0`, or three digits with an exponent.
pub(crate) fn short(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.2e}") }
}

/// Six digits behind the point, of a number that is mostly near 1: what is not 1 is not shown as
/// such, but for the rounding of the computation itself.
fn near_one(value: f64) -> String {
    let text = format!("{value:.6}");
    let is_one = (value - 1.0).abs() < 1e-15;
    if text == "1.000000" && !is_one { format!("1{:+.0e}", value - 1.0) } else { text }
}

/// `12,345`.
fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let comma = |(i, c): (usize, char)| {
        let group = i > 0 && (digits.len() - i).is_multiple_of(3);
        [Some(',').filter(|_| group), Some(c)].into_iter().flatten()
    };
    digits.char_indices().flat_map(comma).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [0, 12, 123, 1234, 1_234_567].map(thousands).join(" "),
            "0 12 123 1,234 1,234,567"
        );
        assert_eq!(
            [1.0, 0.999_999_9, 0.5, 1.000_000_2].map(near_one).join(" "),
            "1.000000 1-1e-7 0.500000 1+2e-7"
        );
        assert_eq!([0.0, 1.5e-7].map(short).join(" "), "0 1.50e-7");
    }
}
