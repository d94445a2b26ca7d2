//! `--top`: the largest values of outputs with their indices and labels, as of a classifier.

use crate::exit::{Exit, Failure, OrExit};
use crate::print;
use crate::summary::{self, finite, own_digits, short};
use crate::table::table;
use crate::text::plural;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use ir::{Element, Graph};
use runtime::Tensor;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};

/// The flags.
#[derive(Debug, Default, Args)]
pub struct TopArgs {
    /// Print the K largest values of each output with their indices, in each row along its last
    /// axis, in place of the summary.
    #[arg(long, value_name = "K", value_parser = count, allow_negative_numbers = true)]
    pub top: Option<usize>,
    /// What the indices of --top and --draw stand for: a text with a line for each, the first for
    /// 0. Without it, the labels in the model's rt_info, if there are any.
    #[arg(long, value_name = "FILE.txt")]
    pub labels: Option<PathBuf>,
}

impl TopArgs {
    /// Whether no flag is given.
    pub fn is_empty(&self) -> bool {
        self.top.is_none()
    }
}

fn count(text: &str) -> Result<usize, String> {
    let wanted = || "give a whole number from 1 on".to_owned();
    text.parse().ok().filter(|k| *k > 0).ok_or_else(wanted)
}

/// Rows of an output that the text shows.
const MOST_ROWS: usize = 16;

/// The largest values of a row.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TopRow {
    /// Where the row is: its place along each axis but the last.
    at: Vec<usize>,
    /// The largest values, the largest first and of equal ones the first.
    values: Vec<Ranked>,
}

/// A value and where it is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Ranked {
    /// Its place along the last axis.
    index: usize,
    /// The value; null where it is not finite.
    value: Option<f64>,
    /// What the index stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

/// Which values are listed, and what their indices stand for.
pub(crate) struct Top {
    /// How many values; none without the flag.
    count: usize,
    /// The names of the indices.
    labels: Vec<String>,
}

impl Top {
    /// What the flags ask for of a model. Whether boxes are drawn, which have labels as well.
    ///
    /// # Errors
    /// When the labels cannot be read, or are those of nothing.
    pub(crate) fn new(args: &TopArgs, draws: bool, graph: &Graph) -> Result<Top, Failure> {
        if args.labels.is_some() && args.is_empty() && !draws {
            let error =
                anyhow!("--labels names the indices of --top K or --draw FILE.png; give one");
            return Err(Failure { exit: Exit::Usage, error });
        }
        let labels = match &args.labels {
            Some(path) => labels_of_file(path).or_exit(Exit::Input)?,
            None => labels_of_model(graph),
        };
        Ok(Top { count: args.top.unwrap_or(0), labels })
    }

    /// Whether the largest values are listed.
    pub(crate) fn is_wanted(&self) -> bool {
        self.count > 0
    }

    /// The largest values of each row of an output; nothing without the flag, or where rows have
    /// one value.
    pub(crate) fn rows(&self, tensor: &Tensor) -> Vec<TopRow> {
        let found = self.ranked(tensor);
        let ranked = |(index, value): (usize, f64)| Ranked {
            index,
            value: own_digits(value, tensor.element_type()).and_then(finite),
            label: self.label(index).map(str::to_owned),
        };
        let row = |(at, values): RankedRow| TopRow {
            at,
            values: values.into_iter().map(ranked).collect(),
        };
        found.into_iter().map(row).collect()
    }

    /// A table of the largest values of outputs, and the summary of those whose rows have one
    /// value.
    pub(crate) fn text<'t>(
        &self,
        outputs: impl Iterator<Item = (usize, &'t str, &'t Tensor)>,
    ) -> String {
        let mut lines = Vec::new();
        let mut others = Vec::new();
        for (i, name, tensor) in outputs {
            let found = self.ranked(tensor);
            self.compare_count(name, tensor);
            if found.is_empty() {
                others.push((i, name, tensor))
            } else {
                lines.extend(self.lines((i, name), found))
            }
        }
        let mut text = String::new();
        if !lines.is_empty() {
            let head = ["output", "name", "row", "value", "index", "label"];
            lines.insert(0, head.map(str::to_owned).to_vec());
            drop_empty(&mut lines);
            text = table(&lines);
        }
        if !others.is_empty() {
            text.push_str(&summary::text("output", others));
        }
        text
    }

    /// The lines of an output: position, name, row, value, index, label.
    fn lines(&self, (i, name): (usize, &str), found: Vec<RankedRow>) -> Vec<Vec<String>> {
        let (count, is_one) = (found.len(), found.len() == 1);
        let mut lines = Vec::new();
        for (at, values) in found.into_iter().take(MOST_ROWS) {
            let row = if is_one { String::new() } else { format!("{at:?}") };
            lines.extend(values.into_iter().map(|(index, value)| {
                let label = self.label(index).unwrap_or_default().to_owned();
                let (i, name) = (i.to_string(), name.to_owned());
                vec![i, name, row.clone(), short(&value), index.to_string(), label]
            }));
        }
        if let Some(more) = count.checked_sub(MOST_ROWS).filter(|more| *more > 0) {
            lines.push(vec![i.to_string(), name.to_owned(), format!("… and {more} more")]);
        }
        lines
    }

    /// What an index stands for.
    pub(crate) fn label(&self, index: usize) -> Option<&str> {
        self.labels.get(index).map(String::as_str)
    }

    /// Labels of another data set, or with one for the background, are off by some.
    fn compare_count(&self, name: &str, tensor: &Tensor) {
        let size = tensor.sizes().last().copied().unwrap_or(1);
        let labels = self.labels.len();
        if size > 1 && labels > 0 && size != labels {
            let labels = plural(labels, "label");
            print::note(format_args!("note: {name} has {size} values in a row, but {labels}"));
        }
    }

    /// The largest values of each row; nothing where rows have one value.
    fn ranked(&self, tensor: &Tensor) -> Vec<RankedRow> {
        let Some((size, leading)) = tensor.sizes().split_last() else { return Vec::new() };
        let is_listed = self.count > 0 && *size > 1 && tensor.as_strings().is_none();
        let wide = is_listed.then(|| runtime::convert(tensor, ir::ElementType::F64));
        let wide = wide.and_then(Result::ok);
        let values = wide.as_ref().and_then(|wide| wide.as_slice::<f64>()).unwrap_or_default();
        let rows = values.chunks_exact((*size).max(1)).enumerate();
        rows.map(|(i, row)| (place(i, leading), largest(row, self.count))).collect()
    }
}

/// Where a row is, and its largest values with their indices.
type RankedRow = (Vec<usize>, Vec<(usize, f64)>);

/// The place of a row along the leading axes.
fn place(mut row: usize, leading: &[usize]) -> Vec<usize> {
    let mut at: Vec<usize> = leading
        .iter()
        .rev()
        .map(|size| {
            let here = row % (*size).max(1);
            row /= (*size).max(1);
            here
        })
        .collect();
    at.reverse();
    at
}

/// The largest values that are not NaN, the largest first and of equal ones the first.
fn largest(row: &[f64], count: usize) -> Vec<(usize, f64)> {
    let order = |a: &(usize, f64), b: &(usize, f64)| {
        b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then(a.0.cmp(&b.0))
    };
    let numbers = row.iter().copied().enumerate().filter(|(_, value)| !value.is_nan());
    let mut found: Vec<(usize, f64)> = numbers.collect();
    if found.len() > count {
        found.select_nth_unstable_by(count, order);
        found.truncate(count);
    }
    found.sort_unstable_by(order);
    found
}

/// Takes away the columns that are empty but for their head.
fn drop_empty(lines: &mut [Vec<String>]) {
    for column in [5, 2] {
        let is_empty = |line: &Vec<String>| line.get(column).is_none_or(String::is_empty);
        if lines.iter().skip(1).all(is_empty) {
            for line in lines.iter_mut().filter(|line| line.len() > column) {
                line.remove(column);
            }
        }
    }
}

fn labels_of_file(path: &Path) -> Result<Vec<String>> {
    let failed = || format!("{} cannot be read{}", path.display(), crate::hint::file(path));
    let text = std::fs::read_to_string(path).with_context(failed)?;
    Ok(text.lines().map(|line| line.trim().to_owned()).collect())
}

/// `model_info/labels` in `rt_info`, as OpenVINO's Model API writes them: divided at blanks, with
/// `_` for blanks.
fn labels_of_model(graph: &Graph) -> Vec<String> {
    let child = |element: &Element, name: &str| {
        element.children.iter().find(|child| child.name == name).cloned()
    };
    let infos = graph.notes().iter().filter(|note| note.name == "rt_info");
    let labels = infos.filter_map(|note| child(&child(note, "model_info")?, "labels")).next();
    let text = labels.as_ref().and_then(|labels| labels.attribute("value")).unwrap_or_default();
    text.split_whitespace().map(|label| label.replace('_', " ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first() {
        let row = [1.0, f64::NAN, 3.0, -1.0, 3.0, f64::INFINITY];
        assert_eq!(largest(&row, 3), [(5, f64::INFINITY), (2, 3.0), (4, 3.0)]);
        assert_eq!(largest(&row, 9).len(), 5);
        assert_eq!(largest(&[], 2), []);
    }

    #[test]
    fn places_of_rows() {
        assert_eq!(place(0, &[]), [0; 0]);
        assert_eq!(place(5, &[2, 3]), [1, 2]);
        assert_eq!(place(4, &[1, 5]), [0, 4]);
    }
}
