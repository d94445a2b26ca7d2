//! `--draw`: what a detector has found, as rectangles on the picture that it was given.

use super::{Kind, bytes, picture};
use crate::args::number;
use crate::table::table;
use crate::{out, print};
use anyhow::{Context, Result, bail};
use clap::Args;
use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use infer::PartialShape;
use ir::ElementType;
use runtime::Tensor;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Cursor;
use std::path::PathBuf;

/// The flags.
#[derive(Debug, Default, Args)]
pub struct DrawArgs {
    /// Draw what a detector has found on its input picture: the boxes of an output of the shape
    /// 1,1,N,7, as DetectionOutput gives it, or of three outputs as torchvision has them: N,4 in
    /// pixels, N confidences and N classes.
    #[arg(long, value_name = "FILE.png")]
    pub draw: Option<PathBuf>,
    /// Least confidence of the boxes that are drawn.
    #[arg(long, value_name = "C", requires = "draw", default_value_t = 0.5)]
    #[arg(allow_negative_numbers = true, value_parser = number::<f64>)]
    pub threshold: f64,
}

/// A picture that is to be drawn on.
pub struct Canvas {
    from: PathBuf,
    to: PathBuf,
    format: ImageFormat,
    threshold: f64,
}

/// A box with its class, as a detector gives it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Detection {
    /// Its class.
    label: i64,
    /// What the class stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    confidence: f64,
    /// Left, upper, right and lower edge as parts of the width and height.
    #[serde(rename = "box")]
    edges: [f64; 4],
}

/// The last axis of the output: image, label, confidence, left, upper, right and lower edge.
const ROW: usize = 7;

impl Canvas {
    /// The picture among the inputs, and where it goes with its boxes; nothing without the flag.
    ///
    /// # Errors
    /// When no input is a picture, or several are, or the file would be none.
    pub fn new(args: &DrawArgs, inputs: impl Iterator<Item = PathBuf>) -> Result<Option<Canvas>> {
        let Some(to) = args.draw.clone() else { return Ok(None) };
        let ending = to.extension().and_then(ImageFormat::from_extension);
        let known = ending.filter(|f| matches!(f, ImageFormat::Png | ImageFormat::Jpeg));
        let format = known
            .with_context(|| format!("--draw {}: give the name of a .png or .jpg", to.display()))?;
        let is_picture = |file: &PathBuf| matches!(Kind::of_name(file), Ok(Some(Kind::Picture)));
        let mut pictures = inputs.filter(is_picture);
        match (pictures.next(), pictures.next()) {
            (Some(from), None) => Ok(Some(Canvas { from, to, format, threshold: args.threshold })),
            (None, _) => bail!("--draw draws on the input picture, and no --input is one"),
            _ => bail!("--draw draws on one picture, and several inputs are pictures"),
        }
    }

    /// Draws the boxes that outputs have, and gives them back. Edges in pixels are relative to
    /// `input`, width and height of the model's input.
    ///
    /// # Errors
    /// When no output is of a form that is understood, or the file cannot be written.
    pub fn draw(
        &self,
        outputs: &[Tensor],
        input: (usize, usize),
        name: impl Fn(usize) -> Option<String>,
    ) -> Result<Vec<Detection>> {
        let shape = |t: &Tensor| format!("{}{}", t.element_type(), PartialShape::fixed(t.sizes()));
        let rows = rows(outputs, input).with_context(|| {
            format!(
                "--draw understands the output of DetectionOutput, [1,1,N,7]: image, label, \
                 confidence, and left, upper, right and lower edge from 0 to 1; or three outputs: \
                 edges in pixels, [N,4], confidences, [N], and classes, integers, [N]; the model \
                 gives {}",
                outputs.iter().map(shape).collect::<Vec<_>>().join(", ")
            )
        })?;
        let found = rows.into_iter().filter_map(|row| row.detection(self.threshold, &name));
        let found: Vec<Detection> = found.collect();
        let shown = || self.from.display().to_string();
        let picture = picture::decode(&bytes(&self.from)?).with_context(shown)?;
        let mut picture = picture.into_rgb8();
        found.iter().rev().for_each(|found| found.draw(&mut picture));
        let mut file = Cursor::new(Vec::new());
        DynamicImage::ImageRgb8(picture).write_to(&mut file, self.format)?;
        out::write_whole(&self.to, |out| Ok(out.write_all(file.get_ref())?))?;
        Ok(found)
    }
}

/// What outputs have of a box.
struct Row {
    label: f64,
    confidence: f64,
    /// Left, upper, right and lower edge as parts of the width and height.
    edges: [f64; 4],
}

impl Row {
    /// The box, if it is one, and sure enough.
    fn detection(
        self,
        threshold: f64,
        name: impl Fn(usize) -> Option<String>,
    ) -> Option<Detection> {
        let Row { label, confidence, edges } = self;
        let is_box = edges.iter().all(|edge| edge.is_finite()) && confidence >= threshold;
        // A class that is no number is 0.
        let label = label as i64;
        let name = usize::try_from(label).ok().and_then(name);
        is_box.then_some(Detection { label, name, confidence, edges })
    }
}

/// The boxes that outputs have; `None` if they are of no form that is understood.
fn rows(outputs: &[Tensor], input: (usize, usize)) -> Option<Vec<Row>> {
    let detections = || outputs.iter().filter(|tensor| is_detection(tensor));
    if detections().next().is_some() {
        return Some(detections().flat_map(of_detection).collect());
    }
    in_pixels(outputs, input)
}

/// Whether an output is one of DetectionOutput.
fn is_detection(tensor: &Tensor) -> bool {
    matches!(tensor.sizes(), [1, 1, _, ROW]) && tensor.element_type().is_real()
}

/// The boxes of an output of DetectionOutput up to the row that ends it, an image below 0.
fn of_detection(tensor: &Tensor) -> Vec<Row> {
    let values = wide(tensor);
    let row = |row: &[f64]| match *row {
        [_, label, confidence, left, upper, right, lower] => {
            Some(Row { label, confidence, edges: [left, upper, right, lower] })
        }
        _ => None,
    };
    let rows = values.chunks_exact(ROW);
    rows.take_while(|row| row.first().is_some_and(|image| *image >= 0.0)).filter_map(row).collect()
}

/// The boxes of three outputs of as many rows: edges in pixels, confidences and classes.
fn in_pixels(outputs: &[Tensor], (width, height): (usize, usize)) -> Option<Vec<Row>> {
    let is_real = |tensor: &Tensor| tensor.element_type().is_real();
    let boxes = outputs.iter().find(|t| matches!(t.sizes(), [_, 4]) && is_real(t))?;
    let of_each = |real: bool| {
        let is_list = |t: &&Tensor| t.sizes() == &boxes.sizes()[..1] && is_real(t) == real;
        outputs.iter().find(is_list).map(wide)
    };
    let (confidences, labels) = (of_each(true)?, of_each(false)?);
    let size = [width as f64, height as f64];
    let edges = |edges: &[f64]| std::array::from_fn(|i| edges[i] / size[i % 2]);
    let rows = wide(boxes).chunks_exact(4).map(edges).collect::<Vec<[f64; 4]>>();
    let rows = rows.into_iter().zip(confidences).zip(labels);
    Some(rows.map(|((edges, confidence), label)| Row { label, confidence, edges }).collect())
}

/// The values of a tensor in f64.
fn wide(tensor: &Tensor) -> Vec<f64> {
    let wide = runtime::convert(tensor, ElementType::F64);
    wide.ok().and_then(|wide| wide.as_slice::<f64>().map(<[f64]>::to_vec)).unwrap_or_default()
}

/// Colours that are told apart, for the classes in turn.
const COLOURS: [[u8; 3]; 8] = [
    [230, 25, 75],
    [60, 180, 75],
    [0, 130, 200],
    [255, 225, 25],
    [245, 130, 48],
    [145, 30, 180],
    [70, 240, 240],
    [240, 50, 230],
];

impl Detection {
    /// The columns and rows of a picture that the box covers, from first to last; nothing where it
    /// lies outside.
    fn pixels(&self, (width, height): (u32, u32)) -> Option<[u32; 4]> {
        let [left, upper, right, lower] = self.edges;
        let range = |from: f64, to: f64, size: u32| {
            let size = f64::from(size);
            let first = (from * size).round().max(0.0);
            // The thinnest box covers a pixel.
            let end = (to * size).round().max(first + 1.0).min(size);
            let is_inside = from < to && to > 0.0 && first < end;
            // Both are between 0 and the size of a picture.
            is_inside.then(|| (first as u32, end as u32 - 1))
        };
        let ((left, right), (upper, lower)) =
            (range(left, right, width)?, range(upper, lower, height)?);
        Some([left, upper, right, lower])
    }

    /// Draws its outline in the colour of its class, inside its edges.
    fn draw(&self, picture: &mut RgbImage) {
        let size = picture.dimensions();
        let Some([left, upper, right, lower]) = self.pixels(size) else { return };
        let thick = (size.0.min(size.1) / 200).max(1);
        let class = usize::try_from(self.label.rem_euclid(8)).unwrap_or(0);
        let colour = Rgb(COLOURS.get(class).copied().unwrap_or_default());
        for y in upper..=lower {
            let is_edge = y - upper < thick || lower - y < thick;
            for x in left..=right {
                if is_edge || x - left < thick || right - x < thick {
                    picture.put_pixel(x, y, colour);
                }
            }
        }
    }
}

/// A table of what was found; nothing, but a note, if nothing was.
pub fn text(found: &[Detection]) -> String {
    if found.is_empty() {
        print::note("note: nothing is found with that confidence; --threshold says from which on");
        return String::new();
    }
    let has_names = found.iter().any(|found| found.name.is_some());
    let mut head = vec!["label", "name", "confidence", "left", "upper", "right", "lower"];
    let row = |found: &Detection| {
        let mut cells = vec![found.label.to_string(), found.name.clone().unwrap_or_default()];
        cells.push(format!("{:.4}", found.confidence));
        cells.extend(found.edges.map(|edge| format!("{edge:.4}")));
        cells
    };
    let mut rows: Vec<Vec<String>> = found.iter().map(row).collect();
    if !has_names {
        head.remove(1);
        rows.iter_mut().for_each(|row| drop(row.remove(1)));
    }
    rows.insert(0, head.into_iter().map(str::to_owned).collect());
    table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(edges: [f64; 4]) -> Detection {
        Detection { label: 1, name: None, confidence: 1.0, edges }
    }

    #[test]
    fn boxes_stay_within_the_picture() {
        let size = (10, 20);
        assert_eq!(at([0.0, 0.0, 1.0, 1.0]).pixels(size), Some([0, 0, 9, 19]));
        assert_eq!(at([-5.0, 0.5, 0.25, 7.0]).pixels(size), Some([0, 10, 2, 19]));
        assert_eq!(at([0.26, 0.8, 0.34, 0.801]).pixels(size), Some([3, 16, 3, 16]));
        assert_eq!(at([0.3, 0.3, 0.3, 0.4]).pixels(size), None);
        assert_eq!(at([-0.2, 0.0, -0.1, 1.0]).pixels(size), None);
        assert_eq!(at([1.1, 0.0, 1.2, 1.0]).pixels(size), None);
        assert_eq!(at([0.5, 0.0, 0.2, 1.0]).pixels(size), None);
        assert_eq!(at([1e300, 0.0, f64::MAX, 1.0]).pixels(size), None);
        assert_eq!(at([0.0, 0.0, 1.0, 1.0]).pixels((0, 0)), None);
    }
}
