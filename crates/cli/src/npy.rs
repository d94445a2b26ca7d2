//! `.npy` files: versions 1, 2 and 3 in, version 1 out.
//!
//! numpy has no names for bf16, f8 and types below a byte. What a file of raw bytes means is
//! decided by the port it is for (`docs/formats.md`).

use crate::hint;
use crate::text::PyDict;
use anyhow::{Context, Result, anyhow, bail, ensure};
use ir::{ElementType, Weights, WeightsSlice};
use runtime::Tensor;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8] = b"\x93NUMPY";

/// What the header of a file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The element type in numpy's notation without its byte order: `f4`, `V2`, `S12`.
    pub descr: String,
    /// Whether values are big-endian.
    pub big_endian: bool,
    /// Whether the first axis varies fastest.
    pub fortran_order: bool,
    /// The sizes.
    pub sizes: Vec<usize>,
    /// Where the data begins.
    pub data: usize,
}

impl Header {
    /// Reads the header at the start of a file.
    ///
    /// # Errors
    /// What is not as numpy writes it.
    pub fn parse(bytes: &[u8]) -> Result<Header> {
        ensure!(!bytes.is_empty(), "the file is empty");
        ensure!(
            bytes.starts_with(MAGIC),
            "not a .npy file, as numpy.save writes it: it does not begin with \\x93NUMPY"
        );
        let version = *bytes.get(6).context("the header is cut short")?;
        let (start, len) = match version {
            1 => (10, bytes.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])))),
            2 | 3 => {
                let word = bytes.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                (12, word.and_then(|n| usize::try_from(n).ok()))
            }
            other => bail!("version {other} of .npy is not read; numpy writes 1 to 3"),
        };
        let end = len.and_then(|len| len.checked_add(start)).context("the header is cut short")?;
        let text = bytes.get(start..end).context("the header is cut short")?;
        let text = std::str::from_utf8(text).context("the header is not text")?;
        let dict = PyDict::parse(text).map_err(|e| anyhow!("the header: {e}"))?;
        let descr = dict.string("descr").map_err(|e| anyhow!("the header: {e}"))?;
        let (order, descr) = match descr.strip_prefix(['<', '>', '|', '=']) {
            Some(rest) => (descr.chars().next(), rest.to_owned()),
            None => (None, descr),
        };
        Ok(Header {
            descr,
            big_endian: order == Some('>'),
            fortran_order: dict.boolean("fortran_order").map_err(|e| anyhow!("the header: {e}"))?,
            sizes: dict.sizes("shape").map_err(|e| anyhow!("the header: {e}"))?,
            data: end,
        })
    }

    /// The type as numpy shows it.
    pub fn numpy_type(&self) -> String {
        format!("{}{}", if self.big_endian { ">" } else { "" }, self.descr)
    }

    fn item_size(&self) -> Option<usize> {
        match self.descr.as_str() {
            "bfloat16" => Some(2),
            descr => {
                let digits = descr.trim_start_matches(|c: char| !c.is_ascii_digit());
                // An item of no size would make any number of strings out of nothing.
                let units = digits.parse().ok().filter(|n: &usize| *n > 0)?;
                if descr.starts_with('U') { units.checked_mul(4) } else { Some(units) }
            }
        }
    }
}

/// The element type that a numpy type stands for by itself.
pub fn natural_type(descr: &str) -> Option<ElementType> {
    use ElementType::*;
    Some(match descr {
        "b1" => Boolean,
        "u1" => U8,
        "u2" => U16,
        "u4" => U32,
        "u8" => U64,
        "i1" => I8,
        "i2" => I16,
        "i4" => I32,
        "i8" => I64,
        "f2" => F16,
        "f4" => F32,
        "f8" => F64,
        "bfloat16" | "V2" => BF16,
        _ if descr.starts_with(['S', 'U']) => String,
        _ => return None,
    })
}

/// Whether a file of a numpy type can be read as an element type without converting any value.
fn stands_for(descr: &str, wanted: ElementType) -> bool {
    use ElementType::*;
    match wanted {
        BF16 => matches!(descr, "V2" | "u2" | "bfloat16"),
        F8E4M3 | F8E5M2 | F8E8M0 => matches!(descr, "V1" | "u1" | "f1"),
        NF4 | F4E2M1 | U1 | U2 | U3 | U4 | U6 => matches!(descr, "V1" | "u1" | "i1"),
        I4 => matches!(descr, "V1" | "i1" | "u1"),
        _ => natural_type(descr) == Some(wanted) && descr != "V2",
    }
}

/// What becomes of values that are of another type than wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cast {
    /// They are converted.
    Convert,
    /// They are refused, and the flag that would convert them is named.
    Offer,
    /// They are refused: no flag converts them.
    Never,
    /// They stay as they are.
    Keep,
}

impl Cast {
    /// What `--cast` says.
    pub fn flag(given: bool) -> Cast {
        if given { Cast::Convert } else { Cast::Offer }
    }
}

/// Reads a file as a tensor for a port of type `wanted`; `dynamic` takes the file's own type.
///
/// # Errors
/// When the file is damaged, or of another type than the port.
pub fn read(path: &Path, wanted: ElementType, cast: Cast) -> Result<Tensor> {
    let shown = || format!("{} cannot be read{}", path.display(), hint::file(path));
    let known = std::fs::metadata(path).with_context(shown)?;
    ensure!(!known.is_dir(), "{} is not a file", path.display());
    if !known.is_file() {
        let bytes = std::fs::read(path).with_context(shown)?;
        return from_stream(bytes, wanted, cast).with_context(|| path.display().to_string());
    }
    let file = Arc::new(Weights::open(path));
    if let Err(e) = file.range(0, 0) {
        bail!("{e}");
    }
    let len = u64::try_from(file.bytes().len())?;
    let slice = WeightsSlice::new(&file, 0, len)?;
    from_bytes(&slice, wanted, cast).with_context(|| path.display().to_string())
}

/// Reads what came from a pipe or the like.
///
/// # Errors
/// As [`read`].
pub fn from_stream(bytes: Vec<u8>, wanted: ElementType, cast: Cast) -> Result<Tensor> {
    let len = u64::try_from(bytes.len())?;
    let slice = WeightsSlice::new(&Arc::new(Weights::from_bytes(bytes)), 0, len)?;
    from_bytes(&slice, wanted, cast)
}

/// Reads the bytes of a file; the tensor shares them where it can.
///
/// # Errors
/// As [`read`].
pub fn from_bytes(file: &WeightsSlice, wanted: ElementType, cast: Cast) -> Result<Tensor> {
    let header = Header::parse(file.bytes())?;
    let natural = natural_type(&header.descr);
    let direct = match wanted {
        ElementType::Dynamic => natural,
        wanted => stands_for(&header.descr, wanted).then_some(wanted),
    };
    let Some(element_type) = direct else {
        let natural = natural.with_context(|| match header.numpy_type().as_str() {
            "O" => "numpy type O is not read, since it holds objects of Python; save it with \
                        .astype(str), or .astype(np.float32) and the like"
                .to_owned(),
            own => format!("numpy type {own} is not read; no type of OpenVINO is like it"),
        })?;
        let held = format!("{} (numpy type {})", natural.name(), header.numpy_type());
        return cast_to(|| decode(file, &header, natural), &held, wanted, cast);
    };
    let tensor = decode(file, &header, element_type)?;
    if element_type.is_packed() && cast != Cast::Convert {
        let bytes = file.bytes().get(header.data..).unwrap_or_default();
        can_be_held(&header.descr, element_type, &bytes[..bytes.len().min(tensor.count())])?;
    }
    Ok(tensor)
}

/// A tensor of a file for a port of type `wanted`; `dynamic` takes the file's own type.
///
/// # Errors
/// When it is of another type than the port.
pub fn as_wanted(tensor: Tensor, wanted: ElementType, cast: Cast) -> Result<Tensor> {
    let own = tensor.element_type();
    if wanted == own || wanted == ElementType::Dynamic {
        return Ok(tensor);
    }
    cast_to(|| Ok(tensor), own.name(), wanted, cast)
}

/// A tensor of another type than `wanted`, read only if it is taken: `held` tells its own.
fn cast_to(
    read: impl FnOnce() -> Result<Tensor>,
    held: &str,
    wanted: ElementType,
    cast: Cast,
) -> Result<Tensor> {
    let takes_text = wanted == ElementType::String;
    match cast {
        Cast::Keep => read(),
        _ if takes_text => bail!(
            "it holds {held}, but the port takes strings; give --text \"…\", or save the file with \
             .astype(str)"
        ),
        Cast::Convert | Cast::Offer if held.starts_with("string") => {
            bail!("it holds {held}, but the port takes {wanted}; save it with .astype as numbers")
        }
        Cast::Convert => convert(&read()?, wanted),
        Cast::Offer => {
            bail!("it holds {held}, but the port takes {wanted}; give --cast to convert")
        }
        Cast::Never => bail!("it holds {held}, not {wanted}; save it as {wanted}"),
    }
}

/// Refuses numbers that a type below a byte cannot hold: it would keep their lowest bits.
fn can_be_held(descr: &str, element_type: ElementType, bytes: &[u8]) -> Result<()> {
    let bits = element_type.bits().unwrap_or(8);
    let number = |byte: u8| match descr {
        "i1" => i32::from(byte.cast_signed()),
        _ => i32::from(byte),
    };
    let range = match element_type {
        ElementType::I4 => -8..8,
        _ => 0..1 << bits,
    };
    // The bits of what has no numpy type are codes, of which the upper ones mean nothing.
    let first = bytes.iter().map(|b| number(*b)).find(|n| !range.contains(n));
    match first.filter(|_| matches!(descr, "i1" | "u1")) {
        Some(n) => {
            bail!("it holds {n}, which a {element_type} cannot; --cast keeps its lowest bits")
        }
        None => Ok(()),
    }
}

/// Converts each value, as the Convert operation does.
///
/// # Errors
/// When there is no such conversion.
pub fn convert(tensor: &Tensor, to: ElementType) -> Result<Tensor> {
    runtime::convert(tensor, to).map_err(|e| anyhow!("{e}; save the file as another type"))
}

fn decode(file: &WeightsSlice, header: &Header, element_type: ElementType) -> Result<Tensor> {
    let item = header.item_size().context("the type has no size")?;
    // As in numpy, the other sizes must be possible even where one of them is 0.
    let product = header.sizes.iter().try_fold(1usize, |n, s| n.checked_mul((*s).max(1)));
    let count = if header.sizes.contains(&0) { product.and(Some(0)) } else { product };
    let len = count.and_then(|n| n.checked_mul(item)).context("the shape would not fit memory")?;
    let data = file.bytes().get(header.data..).unwrap_or_default();
    ensure!(
        data.len() >= len,
        "the file is cut short: {:?} of {} needs {len} bytes, {} are there",
        header.sizes,
        header.numpy_type(),
        data.len()
    );
    let data = &data[..len];
    let sizes = &header.sizes;
    if element_type == ElementType::String {
        return strings(header, data, item);
    }
    let moved = header.fortran_order || header.big_endian && item > 1;
    if !moved && element_type.byte_size() == Some(item) {
        let rest = file.part(header.data, len).context("the file is cut short")?;
        let tensor = Tensor::from_weights(element_type, sizes, rest)?;
        return Ok(if tensor.is_aligned() { tensor } else { tensor.to_owned()? });
    }
    let mut values = data.to_vec();
    if header.big_endian {
        values.chunks_exact_mut(item).for_each(<[u8]>::reverse);
    }
    if header.fortran_order {
        values = row_major(&values, sizes, item);
    }
    if element_type.is_packed() {
        return Ok(runtime::pack(element_type, sizes, &values)?);
    }
    Ok(Tensor::from_bytes(element_type, sizes, &values)?)
}

/// Column-major items as row-major ones.
fn row_major(bytes: &[u8], sizes: &[usize], item: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; sizes.len()];
    for _ in 0..bytes.len() / item.max(1) {
        let mut stride = 1;
        let mut at = 0;
        for (i, size) in index.iter().zip(sizes) {
            at += i * stride;
            stride *= size;
        }
        out.extend_from_slice(&bytes[at * item..(at + 1) * item]);
        for (i, size) in index.iter_mut().zip(sizes).rev() {
            *i += 1;
            if *i < *size {
                break;
            }
            *i = 0;
        }
    }
    out
}

fn strings(header: &Header, data: &[u8], item: usize) -> Result<Tensor> {
    let unicode = header.descr.starts_with('U');
    let one = |bytes: &[u8]| -> Result<Box<str>> {
        let text = if unicode {
            let word = |w: &[u8]| {
                if header.big_endian {
                    u32::from_be_bytes([w[0], w[1], w[2], w[3]])
                } else {
                    u32::from_le_bytes([w[0], w[1], w[2], w[3]])
                }
            };
            let chars = bytes.chunks_exact(4).map(|w| char::from_u32(word(w)));
            chars.collect::<Option<String>>().context("a string holds no character")?
        } else {
            String::from_utf8(bytes.to_vec()).context("a string is not UTF-8")?
        };
        Ok(Box::from(text.trim_end_matches('\0')))
    };
    let bytes =
        if header.fortran_order { row_major(data, &header.sizes, item) } else { data.to_vec() };
    let values: Result<Vec<Box<str>>> = bytes.chunks_exact(item).map(one).collect();
    Ok(Tensor::strings(&header.sizes, values?)?)
}

/// Whether a file is called an array.
pub fn is_named(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy"))
}

/// Writes a tensor as numpy would.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(tensor: &Tensor, out: &mut dyn Write) -> Result<()> {
    let (descr, bytes) = encode(tensor)?;
    let sizes: Vec<String> = tensor.sizes().iter().map(usize::to_string).collect();
    let tuple = match &sizes[..] {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    };
    let dict = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple}, }}");
    // Magic, version, length, the dict, blanks and a newline: data begins at a multiple of 64.
    let used = MAGIC.len() + 4 + dict.len() + 1;
    let header = format!("{dict}{}\n", " ".repeat(used.next_multiple_of(64) - used));
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    out.write_all(&u16::try_from(header.len())?.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    out.write_all(&bytes)?;
    Ok(())
}

/// The numpy type of a tensor and its bytes in that type.
fn encode(tensor: &Tensor) -> Result<(String, std::borrow::Cow<'_, [u8]>)> {
    use ElementType::*;
    let descr = match tensor.element_type() {
        Boolean => "|b1",
        U8 => "|u1",
        I8 => "|i1",
        U16 => "<u2",
        U32 => "<u4",
        U64 => "<u8",
        I16 => "<i2",
        I32 => "<i4",
        I64 => "<i8",
        F16 => "<f2",
        F32 => "<f4",
        F64 => "<f8",
        BF16 => "<V2",
        F8E4M3 | F8E5M2 | F8E8M0 => "|V1",
        String => {
            let values = tensor.as_strings().unwrap_or_default();
            let width = values.iter().map(|s| s.len()).max().unwrap_or(0).max(1);
            let mut bytes = Vec::with_capacity(width * values.len());
            for value in values {
                bytes.extend_from_slice(value.as_bytes());
                bytes.resize(bytes.len() + width - value.len(), 0);
            }
            return Ok((format!("|S{width}"), bytes.into()));
        }
        U1 | U2 | U3 | U4 | U6 => return Ok(("|u1".to_owned(), runtime::unpack(tensor).into())),
        I4 => return Ok(("|i1".to_owned(), runtime::unpack(tensor).into())),
        NF4 | F4E2M1 => return Ok(("|V1".to_owned(), runtime::unpack(tensor).into())),
        Dynamic => bail!("a tensor without a type cannot be written"),
    };
    Ok((descr.to_owned(), tensor.bytes().into()))
}
