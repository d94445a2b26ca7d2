//! Pictures as inputs: what becomes of their values, beside a plain computation.

use crate::support::{Room, f32s, header, written};
use image::{DynamicImage, GrayImage, ImageFormat, Luma, Rgb, RgbImage, Rgba, RgbaImage};
use std::io::Cursor;

/// The bytes of a picture.
fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.into().write_to(&mut file, format).unwrap();
    file.into_inner()
}

fn png(picture: impl Into<DynamicImage>) -> Vec<u8> {
    encoded(picture, ImageFormat::Png)
}

/// The value of a channel of a pixel, different for each.
fn value(x: u32, y: u32, channel: u32) -> u8 {
    u8::try_from(100 * channel + 10 * y + x).unwrap()
}

/// Three columns and two rows.
fn colours() -> RgbImage {
    RgbImage::from_fn(3, 2, |x, y| Rgb([0, 1, 2].map(|c| value(x, y, c))))
}

/// The values of `colours` for channels, rows and columns in some order.
fn by_channels(order: [u32; 3], of: impl Fn(u8, usize) -> f32) -> Vec<f32> {
    let mut values = Vec::new();
    for (i, channel) in order.into_iter().enumerate() {
        for y in 0..2 {
            values.extend((0..3).map(|x| of(value(x, y, channel), i)));
        }
    }
    values
}

fn by_pixels(order: [u32; 3]) -> Vec<f32> {
    let mut values = Vec::new();
    for y in 0..2 {
        for x in 0..3 {
            values.extend(order.map(|channel| f32::from(value(x, y, channel))));
        }
    }
    values
}

/// The output of a model that gives back its input, for some flags.
#[track_caller]
fn read(room: &Room, flags: &str) -> (String, Vec<u8>) {
    room.irrun(&format!("model.xml -o y.npy {flags}")).good();
    written(room, "y.npy")
}

#[test]
fn channels_go_where_the_shape_has_them() {
    let plain = |byte: u8, _: usize| f32::from(byte);
    for (shape, as_read, expected) in [
        ("1,3,2,3", "(1, 3, 2, 3)", by_channels([0, 1, 2], plain)),
        ("?,?,?,?", "(1, 3, 2, 3)", by_channels([0, 1, 2], plain)),
        ("...", "(1, 3, 2, 3)", by_channels([0, 1, 2], plain)),
        ("3,?,?", "(3, 2, 3)", by_channels([0, 1, 2], plain)),
        ("1,2,3,3", "(1, 2, 3, 3)", by_pixels([0, 1, 2])),
        ("?,?,?,3", "(1, 2, 3, 3)", by_pixels([0, 1, 2])),
        ("?,?,3", "(2, 3, 3)", by_pixels([0, 1, 2])),
    ] {
        let room = Room::identity("f32", shape);
        room.write("x.png", &png(colours()));
        let expected = (header("<f4", as_read), f32s(&expected));
        assert_eq!(read(&room, "-i x.png"), expected, "{shape}");
    }
}

#[test]
fn the_layout_of_the_model_goes_before_its_shape() {
    let room = Room::identity("f32", "1,2,3,3");
    room.write("x.png", &png(colours()));
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    let layout = r#"<port id="0" precision="UNSPECIFIED"><rt_info><attribute name="layout" version="0" layout="[N,H,C,W]"/></rt_info></port>"#;
    let from = r#"<port id="0" precision="UNSPECIFIED"/>"#;
    room.write("model.xml", text.replace(from, layout).as_bytes());
    let mut expected = Vec::new();
    for y in 0..2 {
        for channel in 0..3 {
            expected.extend((0..3).map(|x| f32::from(value(x, y, channel))));
        }
    }
    assert_eq!(read(&room, "-i x.png"), (header("<f4", "(1, 2, 3, 3)"), f32s(&expected)));
}

#[test]
fn mean_scale_and_order_of_channels() {
    let room = Room::identity("f32", "1,3,2,3");
    room.write("x.png", &png(colours()));
    for (flags, order, mean, scale) in [
        ("--channels rgb", [0, 1, 2], [0.0; 3], [1.0; 3]),
        ("--channels bgr", [2, 1, 0], [0.0; 3], [1.0; 3]),
        ("--mean 127.5 --scale 127.5", [0, 1, 2], [127.5; 3], [127.5; 3]),
        ("--mean -1,2,3.5", [0, 1, 2], [-1.0, 2.0, 3.5], [1.0; 3]),
        ("--mean 1,2,3 --scale 4,5,6 --channels bgr", [2, 1, 0], [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]),
    ] {
        let of = |byte: u8, i: usize| (f32::from(byte) - mean[i]) / scale[i];
        let expected = f32s(&by_channels(order, of));
        assert_eq!(read(&room, &format!("-i x.png {flags}")).1, expected, "{flags}");
    }
}

#[test]
fn values_are_of_the_type_of_the_input() {
    let bytes: Vec<u8> =
        by_channels([0, 1, 2], |byte, _| byte.into()).iter().map(|v| *v as u8).collect();
    let wide = bytes.iter().flat_map(|v| i64::from(*v).to_le_bytes()).collect();
    let half = bytes.iter().flat_map(|v| half::f16::from_f32((*v).into()).to_le_bytes()).collect();
    for (element_type, descr, data) in [
        ("u8", "|u1", bytes.clone()),
        ("dynamic", "|u1", bytes.clone()),
        ("i64", "<i8", wide),
        ("f16", "<f2", half),
    ] {
        let room = Room::identity(element_type, "1,3,?,?");
        room.write("x.png", &png(colours()));
        let expected = (header(descr, "(1, 3, 2, 3)"), data);
        assert_eq!(read(&room, "-i x.png"), expected, "{element_type}");
    }
    let room = Room::identity("dynamic", "1,3,?,?");
    room.write("x.png", &png(colours()));
    assert_eq!(read(&room, "-i x.png --scale 255").0, header("<f4", "(1, 3, 2, 3)"));
}

#[test]
fn colours_become_grey_and_grey_becomes_colours() {
    let room = Room::identity("u8", "1,1,1,3");
    let picture =
        RgbImage::from_fn(3, 1, |x, _| Rgb([[255, 0, 0], [0, 255, 0], [9, 9, 9]][x as usize]));
    room.write("x.png", &png(picture));
    // 0.299 and 0.587 of 255, rounded.
    assert_eq!(read(&room, "-i x.png").1, [76, 150, 9]);
    let grey = GrayImage::from_fn(3, 1, |x, _| Luma([10 * x as u8]));
    room.write("x.png", &png(grey.clone()));
    assert_eq!(read(&room, "-i x.png").1, [0, 10, 20]);
    let flat = Room::identity("u8", "?,?");
    flat.write("x.png", &png(grey.clone()));
    assert_eq!(read(&flat, "-i x.png"), (header("|u1", "(1, 3)"), vec![0, 10, 20]));
    let colours = Room::identity("u8", "1,3,1,3");
    colours.write("x.png", &png(grey));
    assert_eq!(read(&colours, "-i x.png").1, [0, 10, 20, 0, 10, 20, 0, 10, 20]);
}

#[test]
fn transparency_is_left_out_unless_there_is_a_channel_for_it() {
    let picture = RgbaImage::from_pixel(1, 1, Rgba([1, 2, 3, 4]));
    for (shape, flags, expected) in [
        ("1,3,1,1", "", &[1, 2, 3][..]),
        ("1,4,1,1", "", &[1, 2, 3, 4]),
        ("1,4,1,1", "--channels bgr", &[3, 2, 1, 4]),
    ] {
        let room = Room::identity("u8", shape);
        room.write("x.png", &png(picture.clone()));
        assert_eq!(read(&room, &format!("-i x.png {flags}")).1, expected, "{shape} {flags}");
    }
}

/// Sixteen bits are rounded to eight.
#[test]
fn deep_pictures() {
    let room = Room::identity("u8", "1,1,1,3");
    let picture =
        image::ImageBuffer::from_fn(3, 1, |x, _| Luma([[0u16, 0x1234, 0xffff][x as usize]]));
    room.write("x.png", &png(DynamicImage::ImageLuma16(picture)));
    assert_eq!(read(&room, "-i x.png").1, [0, 0x12, 255]);
}

/// Linear interpolation, in which each pixel of a smaller picture is the weighted mean of all those
/// that it covers.
fn resampled(row: &[f64], size: usize) -> Vec<f64> {
    let ratio = row.len() as f64 / size as f64;
    let width = ratio.max(1.0);
    let pixel = |i: usize| {
        let centre = (i as f64 + 0.5) * ratio;
        let weight = |k: usize| (1.0 - ((k as f64 + 0.5 - centre) / width).abs()).max(0.0);
        let sum: f64 = (0..row.len()).map(weight).sum();
        row.iter().enumerate().map(|(k, v)| v * weight(k)).sum::<f64>() / sum
    };
    (0..size).map(pixel).collect()
}

fn resized(picture: &GrayImage, (width, height): (usize, usize)) -> Vec<f64> {
    let rows = picture.rows().map(|row| row.map(|p| f64::from(p.0[0])).collect::<Vec<_>>());
    let rows: Vec<_> = rows.map(|row| resampled(&row, width)).collect();
    let column = |x: usize| resampled(&rows.iter().map(|row| row[x]).collect::<Vec<_>>(), height);
    let columns: Vec<_> = (0..width).map(column).collect();
    (0..height).flat_map(|y| columns.iter().map(move |column| column[y])).collect()
}

#[test]
fn pictures_are_resized_to_a_static_shape() {
    let picture =
        GrayImage::from_fn(7, 5, |x, y| Luma([u8::try_from((37 * x + 91 * y) % 256).unwrap()]));
    for (height, width) in [(5, 7), (3, 4), (9, 16), (1, 1), (10, 3)] {
        let room = Room::identity("u8", &format!("1,1,{height},{width}"));
        room.write("x.png", &png(picture.clone()));
        let (head, got) = read(&room, "-i x.png");
        assert_eq!(head, header("|u1", &format!("(1, 1, {height}, {width})")));
        for (got, expected) in got.iter().zip(resized(&picture, (width, height))) {
            let difference = (f64::from(*got) - expected).abs();
            assert!(difference <= 0.51, "{got} and not {expected} at {height}x{width}");
        }
    }
    let room = Room::identity("u8", "1,1,?,14");
    room.write("x.png", &png(picture.clone()));
    assert_eq!(read(&room, "-i x.png").0, header("|u1", "(1, 1, 5, 14)"));
    let room = Room::identity("u8", "1,1,?,?");
    room.write("x.png", &png(picture));
    assert_eq!(read(&room, "-i x.png --shape [1,1,10,14]").0, header("|u1", "(1, 1, 10, 14)"));
}

/// A JPEG of one colour: what is lost of it is little.
#[test]
fn jpeg_by_any_name_and_from_a_pipe() {
    let room = Room::identity("u8", "1,3,1,1");
    let jpeg = encoded(RgbImage::from_pixel(16, 16, Rgb([200, 100, 50])), ImageFormat::Jpeg);
    for name in ["x.jpg", "x.JPEG", "x.png"] {
        room.write(name, &jpeg);
        let (_, got) = read(&room, &format!("-i x={name}"));
        for (got, expected) in got.iter().zip([200u8, 100, 50]) {
            assert!(got.abs_diff(expected) <= 3, "{got} and not {expected} in {name}");
        }
    }
    #[cfg(target_os = "linux")]
    {
        let room = Room::identity("u8", "1,3,2,3");
        room.write("x.png", &png(colours()));
        let plain = read(&room, "-i x.png");
        let command =
            format!("cat x.png | {} model.xml -i - -o y.npy", env!("CARGO_BIN_EXE_irrun"));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &command]).current_dir(room.path(""));
        assert!(shell.status().unwrap().success());
        assert_eq!(written(&room, "y.npy"), plain);
    }
}

/// A JPEG whose Exif data say that it lies on its side: its upper row is the left column.
#[test]
fn pictures_are_turned_the_right_way_up() {
    let picture = GrayImage::from_fn(16, 8, |_, y| Luma([if y < 4 { 250 } else { 5 }]));
    let mut jpeg = encoded(picture, ImageFormat::Jpeg);
    let mut exif =
        b"\xff\xe1\x00\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    exif.extend([6, 0, 0, 0, 0, 0, 0, 0]);
    jpeg.splice(2..2, exif);
    let room = Room::identity("u8", "1,1,?,?");
    room.write("x.jpg", &jpeg);
    let (head, data) = read(&room, "-i x.jpg");
    assert_eq!(head, header("|u1", "(1, 1, 16, 8)"));
    assert!(data[0] < 50 && data[7] > 200, "{:?}", &data[..8]);
}

#[test]
fn a_benchmark_takes_pictures() {
    let room = Room::identity("f32", "1,3,4,4");
    room.write("x.png", &png(colours()));
    room.irrun("bench model.xml -i x.png --scale 255 --runs 1").good();
    let refused = room.irrun("bench model.xml --scale 255 --runs 1");
    assert_eq!(refused.code, 2, "{}", refused.report());
}

/// What cannot be meant, or is damaged, is told.
#[test]
fn mistakes_are_told() {
    let whole = png(colours());
    let cut = &whole[..whole.len() - 20];
    let mut wrong = whole.clone();
    let middle = wrong.len() / 2;
    wrong[middle] ^= 0x55;
    for (element_type, shape, file, flags, code, said) in [
        (
            "f32",
            "1,2,8,8",
            &whole[..],
            "",
            4,
            "a picture has 1, 3 or 4 channels, and axis 1 of the input takes 2",
        ),
        ("f32", "8,3,4,4", &whole, "", 4, "axis 0 of the input takes 8, and a picture is 1 there"),
        ("f32", "1,10", &whole, "", 0, ""),
        ("f32", "10", &whole, "", 4, "a picture has 2 to 4 axes, and the input takes [10]"),
        ("f32", "1,3,0,4", &whole, "", 4, "an input of [1,3,0,4] takes no pixels"),
        ("f32", "1,3,3000000000,3000000000", &whole, "", 4, "there is no memory for a picture of"),
        ("i8", "1,3,4,4", &whole, "", 4, "which i8 does not hold"),
        ("string", "1,3,4,4", &whole, "", 4, "which string does not hold"),
        ("u8", "1,3,4,4", &whole, "--mean 1", 4, "--mean and --scale make fractions"),
        (
            "f32",
            "1,3,4,4",
            &whole,
            "--mean 1,2",
            4,
            "--mean has 2 numbers, but the input has 3 channels",
        ),
        ("f32", "1,3,4,4", &whole, "--scale 0", 2, "0 divides nothing"),
        ("f32", "1,3,4,4", &whole, "--scale x", 2, "give a number, or one for each channel"),
        ("f32", "1,3,4,4", b"", "", 4, "x.png: the file is empty"),
        ("f32", "1,3,4,4", b"GIF89a", "", 4, "it begins as neither a PNG nor a JPEG"),
        ("f32", "1,3,4,4", cut, "", 4, "the picture is cut short or damaged"),
        ("f32", "1,3,4,4", &wrong, "", 4, "the picture is cut short or damaged"),
        ("f32", "1,3,4,4", b"\xff\xd8\xff\xe0", "", 4, "the picture is cut short or damaged"),
    ] {
        let room = Room::identity(element_type, shape);
        room.write("x.png", file);
        let outcome = room.irrun(&format!("model.xml -i x.png -o y.npy {flags}"));
        assert_eq!(outcome.code, code, "{shape} {flags}: {}", outcome.report());
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.report());
        assert!(!outcome.stderr.contains("panicked"), "{}", outcome.report());
    }
    let room = Room::new();
    for (args, code, said) in [
        ("-i x.npy --mean 1", 2, "for pictures, and no input is one"),
        ("-i x.webp", 4, "x.webp: .webp is not read; save it as .png or .jpg"),
        ("-i nothing.png", 4, "nothing.png cannot be read"),
    ] {
        let outcome = room.irrun(&format!("model.xml {args}"));
        assert_eq!(outcome.code, code, "{}", outcome.report());
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.report());
    }
}

/// The checksum of a chunk of a PNG.
fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 };
    let byte = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum));
    !bytes.iter().fold(!0, byte)
}

/// A picture that says of itself that it is huge is not decoded.
#[test]
fn a_huge_picture_in_a_small_file() {
    let mut file = png(RgbImage::new(1, 1));
    file[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let sum = crc(&file[12..29]);
    file[29..33].copy_from_slice(&sum.to_be_bytes());
    let room = Room::identity("f32", "1,3,4,4");
    room.write("x.png", &file);
    let outcome = room.irrun("model.xml -i x.png");
    assert_eq!(outcome.code, 4, "{}", outcome.report());
    let said = "65535x65535 pixels take 12884508675 bytes, more than 536870912";
    assert!(outcome.stderr.contains(said), "{}", outcome.report());
}
