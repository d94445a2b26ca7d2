//! Images and sound: `.png`, `.jpg` and `.wav`.

use cli::media::picture::{Channels, PictureArgs};
use cli::media::{Kind, Wanted};
use infer::PartialShape;
use ir::ElementType::{self, Dynamic, F32, I8, U8};

/// Shapes of inputs, and whether every image can be converted to them.
const SHAPES: [(&str, bool); 7] = [
    ("...", true),
    ("1,3,?,?", true),
    ("1,3,5,4", true),
    ("1,6,7,1", true),
    ("?,2", true),
    ("1,2,?", false),
    ("?", false),
];
/// The types of inputs.
const TYPES: [ElementType; 4] = [Dynamic, F32, U8, I8];

/// A file becomes a tensor of a shape that the input takes, or an error. An image that fits some
/// input fits every input that takes images.
pub fn media(data: &[u8]) {
    let kinds = match Kind::of_bytes(data) {
        Some(kind) => vec![kind],
        None => vec![Kind::Picture, Kind::Sound],
    };
    let bgr = PictureArgs { channels: Some(Channels::Bgr), ..PictureArgs::default() };
    for kind in kinds {
        let mut read = Vec::new();
        for (text, takes_pictures) in SHAPES {
            let shape: PartialShape = text.parse().expect("a shape");
            for element_type in TYPES {
                let (name, layout, knows_rate) = ("x", None, true);
                let wanted = Wanted { name, element_type, shape: &shape, layout, knows_rate };
                let Ok(tensor) = kind.read(data, &wanted, &bgr) else {
                    let is_open = takes_pictures && element_type == F32;
                    read.extend((is_open && kind == Kind::Picture).then_some(false));
                    continue;
                };
                let sizes = tensor.sizes();
                assert!(element_type == Dynamic || tensor.element_type() == element_type);
                assert!(!shape.is_static() || shape.covers(&PartialShape::fixed(sizes)), "{text}");
                assert_eq!(shape.rank().unwrap_or(sizes.len()), sizes.len(), "{text}");
                let is_open = takes_pictures && element_type == F32;
                read.extend((is_open && kind == Kind::Picture).then_some(true));
            }
        }
        assert!(read.iter().all(|done| *done == read[0]), "{read:?}");
    }
}
