//! `irrun --version --verbose`: what a report of a bug should say of the build and the machine.

use crate::exit::Failure;
use crate::print;
use crate::table::table;
use std::ffi::OsString;

/// Whether a command line asks for it.
pub(crate) fn is_wanted(args: &[OsString]) -> bool {
    let has = |names: [&str; 2]| {
        let mut flags = args.iter().skip(1).take_while(|arg| *arg != "--");
        flags.any(|arg| names.iter().any(|name| arg == name))
    };
    has(["--version", "-V"]) && has(["--verbose", "-v"])
}

/// Prints version, build, instruction sets and processors.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn print() -> Result<(), Failure> {
    print::text(text())
}

/// Version, build, instruction sets and processors.
pub(crate) fn text() -> String {
    let build = if cfg!(debug_assertions) { "debug" } else { "optimised" };
    let system = format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let features = features();
    let forced = std::env::var("IRRUN_ISA").unwrap_or_default();
    let rows = [
        row("irrun", env!("CARGO_PKG_VERSION").to_owned()),
        row("system", system),
        row("build", build.to_owned()),
        row("threads", threads.to_string()),
        row("CPU", processor().unwrap_or_else(|| "unknown".to_owned())),
        row("features", if features.is_empty() { "-".to_owned() } else { features.join(" ") }),
        row("IRRUN_ISA", if forced.is_empty() { "not set".to_owned() } else { forced }),
    ];
    table(&rows)
}

/// The name of the processor, where the system tells.
fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The instructions that kernels ask for and this processor has.
#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    let all = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn features() -> Vec<&'static str> {
    Vec::new()
}
