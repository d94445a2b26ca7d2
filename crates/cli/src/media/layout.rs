//! What the axes of an input are: as the model says in `rt_info`, or as its shape suggests.

use anyhow::{Result, bail};
use infer::PartialShape;
use ir::{Element, Layer};

/// The letters of an input's axes, as `layout` in `rt_info` has them: `[N,C,H,W]`, `[N,...,C]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout(Vec<String>);

impl Layout {
    /// The layout of a Parameter: that of its output, or its own.
    pub fn of(parameter: &Layer) -> Option<Layout> {
        let port = parameter.outputs.first().and_then(|port| port.rt_info.as_deref());
        let notes = [port, parameter.rt_info.as_deref()].into_iter().flatten();
        let mut attributes = notes.flat_map(|note| &note.children);
        let is_layout = |e: &&Element| e.attribute("name") == Some("layout");
        attributes.find(is_layout).and_then(|e| e.attribute("layout")).map(Layout::parse)
    }

    /// Reads `[N,C,H,W]` or `NCHW`.
    fn parse(text: &str) -> Layout {
        let text = text.trim().trim_start_matches('[').trim_end_matches(']');
        if text.contains(',') {
            return Layout(text.split(',').map(|axis| axis.trim().to_ascii_uppercase()).collect());
        }
        let axes = text.replace("...", ".");
        let axis =
            |c: char| if c == '.' { "...".to_owned() } else { c.to_ascii_uppercase().into() };
        Layout(axes.chars().map(axis).collect())
    }

    /// The axis of a letter in a shape of some rank; those behind `...` are counted from the end.
    fn axis(&self, letter: &str, rank: usize) -> Option<usize> {
        let at = self.0.iter().position(|axis| axis == letter)?;
        let open = self.0.iter().position(|axis| axis == "...");
        match open {
            Some(open) if open < at => rank.checked_sub(self.0.len() - at),
            None if self.0.len() != rank => None,
            _ => Some(at),
        }
    }
}

/// The axes along which a picture lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Axes {
    /// How many axes there are; all others have one element.
    pub rank: usize,
    /// From top to bottom.
    pub height: usize,
    /// From left to right.
    pub width: usize,
    /// Red, green, blue; there is none where pictures are grey.
    pub channels: Option<usize>,
}

impl Axes {
    /// The axes of an input. Where the model does not say them, channels come before the pixels
    /// unless the shape has a number of channels at its end alone.
    ///
    /// # Errors
    /// When no picture has so many axes.
    pub fn of(shape: &PartialShape, layout: Option<&Layout>) -> Result<Axes> {
        let rank = shape.rank().unwrap_or(4);
        let said = |letter| layout.and_then(|layout| layout.axis(letter, rank));
        if let (Some(height), Some(width)) = (said("H"), said("W")) {
            return Ok(Axes { rank, height, width, channels: said("C") });
        }
        let is_count = |axis| shape.dim(axis).size().is_some_and(|n| matches!(n, 1 | 3 | 4));
        Ok(match rank {
            2 => Axes { rank, height: 0, width: 1, channels: None },
            3 | 4 if is_count(rank - 1) && !is_count(rank - 3) => {
                Axes { rank, height: rank - 3, width: rank - 2, channels: Some(rank - 1) }
            }
            3 | 4 => Axes { rank, height: rank - 2, width: rank - 1, channels: Some(rank - 3) },
            _ => bail!("a picture has 2 to 4 axes, and the input takes {shape}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_axes() {
        for text in ["[N,C,H,W]", "nchw", "[n, c, h, w]"] {
            let layout = Layout::parse(text);
            assert_eq!(layout.axis("H", 4), Some(2), "{text}");
            assert_eq!(layout.axis("D", 4), None, "{text}");
            assert_eq!(layout.axis("H", 3), None, "{text}");
        }
        for text in ["[N,...,C]", "N...C"] {
            let layout = Layout::parse(text);
            assert_eq!(layout.axis("N", 5), Some(0), "{text}");
            assert_eq!(layout.axis("C", 5), Some(4), "{text}");
            assert_eq!(layout.axis("C", 0), None, "{text}");
        }
    }

    #[test]
    fn axes_by_layout_and_by_shape() {
        let axes = |shape: &str, layout: Option<&str>| {
            let layout = layout.map(Layout::parse);
            let axes = Axes::of(&shape.parse().unwrap(), layout.as_ref()).ok()?;
            Some((axes.height, axes.width, axes.channels))
        };
        let (front, back) = (Some((2, 3, Some(1))), Some((1, 2, Some(3))));
        for shape in ["1,3,8,8", "?,?,?,?", "...", "1,3,8,3", "1,12,8,8", "1,1,8,4"] {
            assert_eq!(axes(shape, None), front, "{shape}");
        }
        for shape in ["1,8,8,3", "?,?,?,4", "1,8,8,1"] {
            assert_eq!(axes(shape, None), back, "{shape}");
        }
        assert_eq!(axes("1,8,8,3", Some("NCHW")), front);
        assert_eq!(axes("1,3,8,3", Some("[N,H,W,C]")), back);
        assert_eq!(axes("3,8,8", None), Some((1, 2, Some(0))));
        assert_eq!(axes("8,8,3", None), Some((0, 1, Some(2))));
        assert_eq!(axes("8,8", None), Some((0, 1, None)));
        assert_eq!(axes("1,8,3,8,8", Some("NDCHW")), Some((3, 4, Some(2))));
        for shape in ["", "8", "1,8,3,8,8"] {
            assert_eq!(axes(shape, None), None, "{shape}");
        }
        // What names no pixels says nothing.
        assert_eq!(axes("1,3,8,8", Some("[N,C,...]")), front);
    }
}
