//! Tables for people: columns as wide as their widest cell.

use crate::text::escaped;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr;

/// Lines of cells with aligned columns, two blanks between them. A cell stays within its line.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<Cow<'_, str>>> = rows.iter().map(|row| shown(row)).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.width()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn shown(row: &[String]) -> Vec<Cow<'_, str>> {
    row.iter().map(|cell| escaped(cell, |_| false)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |a: &str, b: &str| vec![a.to_owned(), b.to_owned()];
        assert_eq!(table(&[row("a", "b"), row("long", "c")]), "a     b\nlong  c\n");
        assert_eq!(table(&[row("a\nb", "c"), row("", "d")]), "a\\nb  c\n      d\n");
        // Characters of two columns.
        assert_eq!(table(&[row("输入", "c"), row("long", "d")]), "输入  c\nlong  d\n");
    }
}
