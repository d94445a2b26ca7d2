//! Memory that is refused: of a small run each allocation in turn fails. The command ends with an
//! exit code of the list and a message, or aborts, as Rust does where an allocation cannot fail;
//! the output is whole or not there.
//!
//! A test allocator refuses the n-th allocation of a process that this executable starts of itself.
//! `ALLOCATIONS=1` tries every n (`make allocations`), the tests every 97th.
#![cfg(target_os = "linux")]

mod support;

use cli::exit::Exit;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use support::Room;

/// The system's memory, of which one allocation is refused, counted from 1; 0 refuses none.
struct Refusing {
    counted: AtomicUsize,
    refused: AtomicUsize,
}

#[global_allocator]
static MEMORY: Refusing = Refusing { counted: AtomicUsize::new(0), refused: AtomicUsize::new(0) };

impl Refusing {
    /// Whether the next allocation is refused.
    fn refuses(&self) -> bool {
        self.counted.fetch_add(1, SeqCst) + 1 == self.refused.load(SeqCst)
    }
}

// SAFETY: what is given is the system's; null stands for nothing.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if self.refuses() { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if self.refuses() { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if self.refuses() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(old, layout) }
    }
}

/// The run of which allocations are refused, where the environment asks for it: in a process of its
/// own.
#[test]
fn child() {
    let Some(nth) = std::env::var("REFUSED").ok().and_then(|n| n.parse().ok()) else { return };
    let args = ["irrun", "run", "model.xml", "-i", "x.npy", "-o", "y.npy", "--threads", "1"];
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    MEMORY.counted.store(0, SeqCst);
    MEMORY.refused.store(nth, SeqCst);
    let code = match cli::usage::parse(&args) {
        Ok(cli) => match cli::run::run(&run_args(cli)) {
            Ok(exit) => exit.code(),
            Err(failure) => {
                cli::print::note(&failure);
                failure.exit.code()
            }
        },
        Err(error) => cli::usage::tell(&error).code(),
    };
    MEMORY.refused.store(0, SeqCst);
    eprintln!("allocations: {}", MEMORY.counted.load(SeqCst));
    std::process::exit(code.into());
}

fn run_args(cli: cli::args::Cli) -> cli::args::RunArgs {
    match cli.command {
        Some(cli::args::Command::Run(args)) => *args,
        _ => cli.run,
    }
}

/// The run with the `nth` allocation refused.
fn refusing(room: &Room, nth: usize) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["child", "--exact", "--nocapture", "--test-threads=1"]).current_dir(room.path("."));
    child.env("REFUSED", nth.to_string()).env_remove("RUST_BACKTRACE").output().unwrap()
}

#[test]
fn each_allocation_refused() {
    const SIGABRT: i32 = 6;
    let step = std::env::var("ALLOCATIONS").ok().map_or(97, |step| step.parse().unwrap());
    let room = Room::new();
    let whole = refusing(&room, 0);
    let text = String::from_utf8_lossy(&whole.stderr).into_owned();
    assert_eq!(whole.status.code(), Some(Exit::Good.code().into()), "{text}");
    let count = text.lines().find_map(|line| line.strip_prefix("allocations: "));
    let count: usize = count.unwrap().parse().unwrap();
    let expected = room.read("y.npy");
    let (mut codes, mut aborted) = ([0; 6], 0);
    for nth in (1..=count).step_by(step) {
        std::fs::remove_file(room.path("y.npy")).unwrap_or_default();
        let output = refusing(&room, nth);
        let text = String::from_utf8_lossy(&output.stderr);
        match (output.status.code(), output.status.signal()) {
            (Some(code @ (0 | 3..=5)), _) => codes[code as usize] += 1,
            (_, Some(SIGABRT)) => {
                assert!(text.contains("memory allocation of"), "{nth}: {text}");
                aborted += 1;
            }
            _ => panic!("allocation {nth}: {} {text}", output.status),
        }
        assert!(!text.contains("panicked"), "allocation {nth}: {text}");
        if room.path("y.npy").exists() {
            assert!(room.read("y.npy") == expected, "allocation {nth}: the output is half written");
        } else {
            assert_ne!(output.status.code(), Some(0), "allocation {nth}: nothing is written");
        }
    }
    println!(
        "{count} allocations, every {step}th refused: exit codes {codes:?}, aborted {aborted}"
    );
}
