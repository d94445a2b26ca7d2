//! `--random`: values for the inputs that are not given, the same on every machine.

use crate::args::whole;
use crate::bind::{self, Declared};
use crate::exit::{Exit, Failure, OrExit};
use crate::npz;
use anyhow::{Context, Result, ensure};
use clap::Args;
use ir::ElementType;
use runtime::Tensor;
use std::path::PathBuf;
use std::str::FromStr;

/// The flags.
#[derive(Debug, Default, Args)]
pub struct RandomArgs {
    /// Fill the inputs that are not given: numbers from 0 to 1, integers from 0 to 9, and what
    /// names such as attention_mask, position_ids and beam_idx ask for.
    #[arg(long)]
    pub random: bool,
    /// Seed of the random values.
    #[arg(long, value_name = "N", requires = "random", default_value_t = 0)]
    #[arg(value_parser = whole::<u64>)]
    pub seed: u64,
    /// Random values of an input from LO up to HI; integers may be HI, others are below.
    #[arg(long, value_name = "NAME=LO:HI", requires = "random")]
    pub range: Vec<Range>,
    /// Where the inputs of the run go, given or random.
    #[arg(long, value_name = "FILE.npz")]
    pub save_inputs: Option<PathBuf>,
}

/// `NAME=LO:HI`.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    input: String,
    low: f64,
    high: f64,
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        let parse = || {
            // A name may hold `=`; a number does not.
            let (input, bounds) = text.rsplit_once('=')?;
            let (low, high) = bounds.split_once(':')?;
            let (low, high) = (low.parse().ok()?, high.parse().ok()?);
            let is_range = !input.is_empty() && low <= high && f64::is_finite(high - low);
            is_range.then(|| Range { input: input.to_owned(), low, high })
        };
        parse().ok_or_else(|| "give NAME=LO:HI, such as input_ids=0:31999".to_owned())
    }
}

/// SplitMix64.
struct Generator(u64);

impl Generator {
    /// For the input of a name: what is given beside it changes nothing.
    fn new(seed: u64, name: &str) -> Generator {
        let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Generator(name.bytes().fold(0xcbf2_9ce4_8422_2325 ^ seed, mix))
    }

    /// A number from 0 up to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What an input is filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    /// One number everywhere.
    All(f64),
    /// 0, 1, 2 … along the last axis.
    Positions,
    /// From a number up to another.
    Between(f64, f64),
}

impl Fill {
    fn of(name: &str, element_type: ElementType) -> Fill {
        let has = |part: &str| name.contains(part);
        let is_integer = element_type.is_integral();
        match () {
            () if element_type == ElementType::Boolean => Fill::Between(0.0, 1.0),
            () if has("mask") && is_integer => Fill::All(1.0),
            () if (has("beam_idx") || has("token_type_ids")) && is_integer => Fill::All(0.0),
            () if has("position_ids") && is_integer => Fill::Positions,
            () if is_integer => Fill::Between(0.0, 9.0),
            () => Fill::Between(0.0, 1.0),
        }
    }

    fn values(self, sizes: &[usize], whole: bool, mut generator: Generator) -> Result<Vec<f64>> {
        let count = sizes.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
        let count = count.context("its shape is larger than any memory")?;
        let mut values = Vec::new();
        values.try_reserve_exact(count).context("there is no memory for it")?;
        let row = sizes.last().copied().unwrap_or(1).max(1);
        values.extend((0..count).map(|i| match self {
            Fill::All(value) => value,
            Fill::Positions => (i % row) as f64,
            Fill::Between(low, high) if whole => {
                let steps = (high.floor() - low.ceil() + 1.0).max(1.0);
                low.ceil() + (generator.next() * steps).floor()
            }
            Fill::Between(low, high) => low + (high - low) * generator.next(),
        }));
        Ok(values)
    }
}

/// The inputs of a run: those given and random ones for others, written where the flags say so.
///
/// # Errors
/// As [`fill`]; when an input is missing, or the file cannot be written.
pub(crate) fn complete(
    args: &RandomArgs,
    mut tensors: Vec<Option<Tensor>>,
    declared: &Declared,
) -> Result<Vec<Tensor>, Failure> {
    fill(args, &mut tensors, declared)?;
    let tensors = bind::complete(tensors, declared).or_exit(Exit::Usage)?;
    if let Some(path) = &args.save_inputs {
        let names = bind::array_names(&declared.ports);
        let arrays: Vec<_> = names.into_iter().zip(tensors.iter().cloned()).collect();
        npz::write(path, &arrays).or_exit(Exit::Input)?;
    }
    Ok(tensors)
}

/// Fills the inputs that are not there.
///
/// # Errors
/// When a range is for no input, or a shape is open.
pub(crate) fn fill(
    args: &RandomArgs,
    tensors: &mut [Option<Tensor>],
    declared: &Declared,
) -> Result<(), Failure> {
    if !args.random {
        return Ok(());
    }
    let mut ranges = vec![None; tensors.len()];
    for range in &args.range {
        let port = bind::find(&declared.ports, &range.input, "input").or_exit(Exit::Usage)?;
        ranges[port] = Some(Fill::Between(range.low, range.high));
    }
    declared.have_sizes(|port| tensors[port].is_none()).or_exit(Exit::Usage)?;
    for (port, tensor) in tensors.iter_mut().enumerate().filter(|(_, t)| t.is_none()) {
        let name = declared.ports[port].shown();
        let made = make(args.seed, port, ranges[port], declared);
        *tensor = Some(made.with_context(|| format!("input \"{name}\"")).or_exit(Exit::Usage)?);
    }
    Ok(())
}

fn make(seed: u64, port: usize, range: Option<Fill>, declared: &Declared) -> Result<Tensor> {
    let (shape, element_type) = (&declared.shapes[port], declared.types[port]);
    let name = declared.ports[port].shown();
    let sizes = shape.sizes().context("its shape is open")?;
    let is_text = element_type == ElementType::String;
    ensure!(!is_text, "there are no random strings; give --text \"{name}=…\"");
    let whole = element_type.is_integral() || element_type == ElementType::Boolean;
    let fill = range.unwrap_or_else(|| Fill::of(name, element_type));
    let bytes = sizes.iter().fold(8u64, |n, size| n.saturating_mul(*size as u64));
    ensure!(
        bytes <= runtime::memory_left(),
        "it takes {bytes} bytes while it is made, more than the memory limit leaves"
    );
    let values = fill.values(&sizes, whole, Generator::new(seed, name))?;
    let values = Tensor::from_vec(&sizes, values)?;
    let made = runtime::convert(&values, element_type);
    made.with_context(|| format!("there are no random values of type {element_type}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let range = Range { input: "a=b".to_owned(), low: -1.5, high: 2.0 };
        assert_eq!("a=b=-1.5:2".parse(), Ok(range));
        for bad in ["a", "a=1", "a=2:1", "=0:1", "a=0:inf", "a=x:1"] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_types_decide() {
        use ElementType::*;
        assert_eq!(Fill::of("attention_mask", I64), Fill::All(1.0));
        assert_eq!(Fill::of("position_ids", I64), Fill::Positions);
        assert_eq!(Fill::of("mask", F32), Fill::Between(0.0, 1.0));
        assert_eq!(Fill::of("input_ids", I32), Fill::Between(0.0, 9.0));
    }

    #[test]
    fn values_stay_within_their_range() {
        let fill = Fill::Between(-2.0, 3.0);
        let whole = fill.values(&[1000], true, Generator::new(1, "x")).unwrap();
        for value in -2..=3 {
            assert!(whole.contains(&f64::from(value)), "{value}");
        }
        assert!(whole.iter().all(|v| v.fract() == 0.0 && (-2.0..=3.0).contains(v)));
        let real = fill.values(&[1000], false, Generator::new(1, "x")).unwrap();
        assert!(real.iter().all(|v| (-2.0..3.0).contains(v)));
        let mean = real.iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.5).abs() < 0.2, "{mean}");
        let positions = Fill::Positions.values(&[2, 3], true, Generator::new(1, "x")).unwrap();
        assert_eq!(positions, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    }

    #[test]
    fn each_input_has_values_of_its_own() {
        let first = |seed, name| Generator::new(seed, name).next();
        assert_ne!(first(0, "a"), first(0, "b"));
        assert_ne!(first(0, "a"), first(1, "a"));
        assert_eq!(first(3, "a"), first(3, "a"));
    }
}
