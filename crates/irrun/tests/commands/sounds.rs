//! Sound as inputs: samples, channels and what is said of the rate.

use crate::support::{Room, f32s, header, written};
use hound::{SampleFormat, WavSpec, WavWriter};
use std::io::Cursor;

/// A WAV of integers of some bits, the channels of each sample one behind the other.
fn wav(channels: u16, bits: u16, samples: &[i32]) -> Vec<u8> {
    let spec = WavSpec {
        channels,
        sample_rate: 16000,
        bits_per_sample: bits,
        sample_format: SampleFormat::Int,
    };
    let mut file = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut file, spec).unwrap();
    samples.iter().for_each(|sample| writer.write_sample(*sample).unwrap());
    writer.finalize().unwrap();
    file.into_inner()
}

/// A WAV written by hand: PCM of 16 bits in one channel, with 8000 samples in a second.
fn plain(samples: &[i16]) -> Vec<u8> {
    let data: Vec<u8> = samples.iter().flat_map(|s| s.to_le_bytes()).collect();
    let len = u32::try_from(data.len()).unwrap();
    let mut file = b"RIFF".to_vec();
    file.extend((36 + len).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(8000u32.to_le_bytes());
    file.extend(16000u32.to_le_bytes());
    file.extend(b"\x02\0\x10\0data");
    file.extend(len.to_le_bytes());
    file.extend(data);
    file
}

/// What a model that gives back its input makes of a file, and what is said.
#[track_caller]
fn read(element_type: &str, shape: &str, file: &[u8]) -> ((String, Vec<u8>), String) {
    let room = Room::identity(element_type, shape);
    room.write("x.wav", file);
    let outcome = room.irrun("model.xml -i x.wav -o y.npy");
    assert_eq!(outcome.code, 0, "{}", outcome.report());
    (written(&room, "y.npy"), outcome.stderr)
}

#[test]
fn samples_lie_between_minus_one_and_one() {
    let file = plain(&[0, 16384, -32768, 32767, -1]);
    let expected = f32s(&[0.0, 0.5, -1.0, 32767.0 / 32768.0, -1.0 / 32768.0]);
    let (got, said) = read("f32", "?,?", &file);
    assert_eq!(got, (header("<f4", "(1, 5)"), expected));
    let note = "note: x has 8000 samples a second; they are not converted to another rate\n";
    assert_eq!(said, note);
    for (bits, samples, expected) in [
        (8, [-128, 64], [-1.0, 0.5]),
        (16, [-32768, 16384], [-1.0, 0.5]),
        (24, [-8_388_608, 1], [-1.0, 1.0 / 8_388_608.0]),
        (32, [i32::MIN, 1 << 30], [-1.0, 0.5]),
    ] {
        let (got, _) = read("f32", "?", &wav(1, bits, &samples));
        assert_eq!(got, (header("<f4", "(2,)"), f32s(&expected)), "{bits} bits");
    }
}

#[test]
fn real_samples_stay_what_they_are() {
    let spec = WavSpec {
        channels: 1,
        sample_rate: 48000,
        bits_per_sample: 32,
        sample_format: SampleFormat::Float,
    };
    let values = [0.1f32, -2.5, 1e-20];
    let mut file = Cursor::new(Vec::new());
    let mut writer = WavWriter::new(&mut file, spec).unwrap();
    values.iter().for_each(|value| writer.write_sample(*value).unwrap());
    writer.finalize().unwrap();
    let (got, _) = read("dynamic", "1,?", &file.into_inner());
    assert_eq!(got, (header("<f4", "(1, 3)"), f32s(&values)));
}

#[test]
fn channels_are_averaged_kept_or_repeated() {
    // Left 0.5, 0.25; right -0.25, 0.75.
    let two = wav(2, 16, &[16384, -8192, 8192, 24576]);
    let one = wav(1, 16, &[16384, 8192]);
    let (mean, sides) = ([0.125, 0.5], [0.5, 0.25, -0.25, 0.75]);
    let mixed = [0.5, -0.25, 0.25, 0.75];
    for (file, shape, as_read, expected) in [
        (&two, "?", "(2,)", &mean[..]),
        (&two, "?,?", "(1, 2)", &mean),
        (&two, "1,1,?", "(1, 1, 2)", &mean),
        (&two, "2,?", "(2, 2)", &sides),
        (&two, "1,2,?", "(1, 2, 2)", &sides),
        (&two, "?,?,2", "(1, 2, 2)", &mixed),
        (&two, "?,1", "(2, 1)", &mean),
        (&one, "2,?", "(2, 2)", &[0.5, 0.25, 0.5, 0.25]),
        (&one, "?,2", "(2, 2)", &[0.5, 0.5, 0.25, 0.25]),
    ] {
        let (got, said) = read("f32", shape, file);
        assert_eq!(got, (header("<f4", as_read), f32s(expected)), "{shape}");
        let is_mean = file == &two && expected == mean;
        assert_eq!(said.contains("the mean of 2 channels"), is_mean, "{shape}: {said}");
    }
}

#[test]
fn a_model_that_takes_the_rate_is_told_nothing() {
    let room = Room::identity("f32", "1,?");
    let text = String::from_utf8(room.read("model.xml")).unwrap();
    let rate = r#"<layer id="7" name="sr" type="Parameter" version="opset1"><data shape="" element_type="i64"/><output><port id="0" precision="I64"/></output></layer>"#;
    room.write("model.xml", text.replace("</layers>", &format!("{rate}</layers>")).as_bytes());
    room.write("x.wav", &plain(&[1, 2]));
    let outcome = room.irrun("model.xml -i x=x.wav --random -o 0=y.npy");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.report());
}

#[test]
fn mistakes_are_told() {
    let file = wav(2, 16, &[1, 2, 3, 4]);
    let mut kind = plain(&[1]);
    kind[20] = 0x55;
    for (element_type, shape, file, said) in [
        ("f32", "1,1,1,?", &file[..], "sound has 1 to 3 axes, and the input takes [1,1,1,?]"),
        ("f32", "4,1,?", &file, "axis 0 of the input takes 4, and a sound is 1 there"),
        ("f32", "1,3,?", &file, "the file has 2 channels, and axis 1 of the input takes 3 of them"),
        ("f32", "1,16000", &file, "input 0 (x) takes f32[1,16000], but x.wav holds f32[1,2]"),
        ("i16", "1,?", &file, "sound has values from -1 to 1, which i16 does not hold"),
        ("f32", "1,?", &file[..file.len() - 1], "the sound is damaged"),
        ("f32", "1,?", &file[..30], "the sound is damaged"),
        ("f32", "1,?", b"", "the sound is damaged"),
        ("f32", "1,?", &kind, "of a kind of WAV that is not read"),
    ] {
        let room = Room::identity(element_type, shape);
        room.write("x.wav", file);
        let outcome = room.irrun("model.xml -i x.wav -o y.npy");
        assert_eq!(outcome.code, 4, "{shape}: {}", outcome.report());
        assert!(outcome.stderr.contains(said), "{said}: {}", outcome.report());
    }
    let room = Room::identity("f32", "1,?");
    let outcome = room.irrun("model.xml -i x.mp3");
    assert_eq!(outcome.code, 4, "{}", outcome.report());
    assert!(outcome.stderr.contains("x.mp3: .mp3 is not read; save it as .wav"), "{outcome:?}");
    room.write("x.wav", &plain(&[1]));
    let outcome = room.irrun("model.xml -i x.wav --mean 1");
    assert_eq!(outcome.code, 2, "{}", outcome.report());
}

/// No byte of the header makes it panic or take memory that the file has not got.
#[test]
fn headers_of_every_kind() {
    let room = Room::identity("f32", "?,?");
    let file = plain(&[1, 2, 3]);
    for at in (4..8).chain(16..44) {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut file = file.clone();
            file[at] = byte;
            room.write("x.wav", &file);
            let outcome = room.irrun("model.xml -i x.wav");
            assert!(matches!(outcome.code, 0 | 4), "{at}: {byte}: {}", outcome.report());
        }
    }
}

/// Where programs write into a pipe the header has no length, or one that no file has.
#[test]
fn a_sound_without_a_length_goes_to_the_end_of_its_file() {
    let file = plain(&[0, 16384, -32768]);
    for length in [0, u32::MAX, 0x7fff_f000, 0x8000_0000] {
        let mut streamed = file.clone();
        streamed[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        streamed[40..44].copy_from_slice(&length.to_le_bytes());
        // A byte of a sample that was cut off.
        streamed.push(1);
        let (got, _) = read("f32", "?,?", &streamed);
        assert_eq!(got, (header("<f4", "(1, 3)"), f32s(&[0.0, 0.5, -1.0])), "{length}");
    }
    let mut empty = plain(&[]);
    empty.extend(b"LIST\x04\0\0\0INFO");
    let room = Room::identity("f32", "?,?");
    room.write("x.wav", &empty);
    room.irrun("model.xml -i x.wav -o y.npy").good();
    assert_eq!(written(&room, "y.npy"), (header("<f4", "(1, 0)"), Vec::new()));
    // A file that says how long it is and ends before is damaged.
    room.write("x.wav", &file[..file.len() - 2]);
    assert_eq!(room.irrun("model.xml -i x.wav").code, 4);
}
