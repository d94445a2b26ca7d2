//! Emulates AMX for the tests. With `IRRUN_ISA=amx` on a CPU without AMX, its instructions raise
//! SIGILL; the handler executes them in software. So the AMX kernels are tested on any x86-64
//! Linux.
//!
//! It follows the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2. It panics
//! where the CPU would fault: tiles must be configured as the instruction requires.

use crate::base::amx::tile::{TILE_ROW_BYTES, TILE_ROWS};
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Number of tiles.
const TILES: usize = 8;

/// Whether `IRRUN_ISA` asks for AMX; if so, it is emulated from then on. Call this only if the CPU
/// has no AMX.
pub(crate) fn is_emulated() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let is_asked_for = || std::env::var_os("IRRUN_ISA").is_some_and(|name| name == "amx");
    *INSTALLED.get_or_init(|| is_asked_for() && install())
}

/// Installs the handler of illegal instructions; returns whether that worked.
fn install() -> bool {
    // SAFETY: all zeros are an action without flags, and with no signal blocked meanwhile.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = caught as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: the handler returns to the interrupted code, with all registers except the
    // instruction pointer unchanged; the signal is raised by an instruction of the thread itself.
    unsafe { libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()) == 0 }
}

extern "C" fn caught(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
    /// The length of the longest AMX instruction: prefix, opcode, operand, index and displacement.
    const MAX_INSTRUCTION_BYTES: usize = 10;
    // SAFETY: the system passes the context of the thread.
    let registers = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize];
    // SAFETY: there is code at this address, and more behind it, since the function returns.
    let bytes = unsafe { &*(at as *const [u8; MAX_INSTRUCTION_BYTES]) };
    match Instruction::read(bytes, registers) {
        Some(instruction) => {
            TILES_OF_THREAD.with_borrow_mut(|tiles| tiles.execute(&instruction));
            registers[libc::REG_RIP as usize] = at + instruction.len as i64;
        }
        // SAFETY: with the default action, the retried instruction ends the process.
        None => unsafe {
            libc::signal(libc::SIGILL, libc::SIG_DFL);
        },
    }
}

/// An instruction with a three-byte VEX prefix, of opcode map 2.
struct Instruction {
    opcode: u8,
    /// The implied prefix: none, 66, F3 or F2.
    prefix: u8,
    /// The tiles of the operand byte and of the prefix.
    tiles: [usize; 2],
    operand: Operand,
    len: usize,
}

enum Operand {
    Tile(usize),
    Memory { start: *mut u8, stride: isize },
}

impl Instruction {
    fn read(bytes: &[u8], registers: &[i64]) -> Option<Instruction> {
        let &[0xc4, second, third, opcode, operand, index, ..] = bytes else { return None };
        if second & 31 != 2 {
            return None;
        }
        let (extended, based) = (!second >> 6 & 1, !second >> 5 & 1);
        let [reg, rm] = [operand >> 3 & 7, operand & 7];
        let tiles = [reg, !third >> 3 & 15].map(usize::from);
        let prefix = third & 3;
        if operand >> 6 == 3 {
            let operand = Operand::Tile(rm.into());
            return Some(Instruction { opcode, prefix, tiles, operand, len: 5 });
        }
        let register = |number: u8, more: u8| registers[NUMBERED[usize::from(number | more << 3)]];
        let (mut len, mut stride) = (5, 0);
        let mut start = match rm {
            4 => {
                len += 1;
                if index >> 3 & 7 | extended << 3 != 4 {
                    stride = register(index >> 3 & 7, extended) << (index >> 6);
                }
                register(index & 7, based)
            }
            _ => register(rm, based),
        };
        match operand >> 6 {
            1 => {
                start += i64::from(bytes[len] as i8);
                len += 1;
            }
            2 => {
                start += i64::from(i32::from_le_bytes(bytes[len..][..4].try_into().ok()?));
                len += 4;
            }
            // An absolute address, without a base register.
            _ if rm == 5 || rm == 4 && index & 7 == 5 => return None,
            _ => {}
        }
        let operand = Operand::Memory { start: start as *mut u8, stride: stride as isize };
        Some(Instruction { opcode, prefix, tiles, operand, len })
    }
}

/// Indices of the saved registers, by their numbers in instructions.
const NUMBERED: [usize; 16] = {
    use libc::*;
    let places = [
        REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9,
        REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    let (mut numbered, mut i) = ([0; 16], 0);
    while i < 16 {
        numbered[i] = places[i] as usize;
        i += 1;
    }
    numbered
};

thread_local! {
    static TILES_OF_THREAD: RefCell<Tiles> = const { RefCell::new(Tiles::NONE) };
}

type Tile = [[u8; TILE_ROW_BYTES]; TILE_ROWS];

struct Tiles {
    /// Rows and bytes per row of each tile; 0 for an unused tile.
    sizes: [(usize, usize); TILES],
    data: [Tile; TILES],
}

impl Tiles {
    const NONE: Tiles =
        Tiles { sizes: [(0, 0); TILES], data: [[[0; TILE_ROW_BYTES]; TILE_ROWS]; TILES] };

    fn execute(&mut self, instruction: &Instruction) {
        let Instruction { opcode, prefix, tiles: [tile, other], ref operand, .. } = *instruction;
        match (opcode, prefix, operand) {
            // SAFETY: as the instruction, which reads 64 bytes.
            (0x49, 0, Operand::Memory { start, .. }) => self.configure(unsafe { &*start.cast() }),
            (0x49, 0, Operand::Tile(0)) => *self = Tiles::NONE,
            (0x49, 3, _) => {
                self.size(tile);
                self.data[tile] = [[0; TILE_ROW_BYTES]; TILE_ROWS];
            }
            (0x4b, 2, &Operand::Memory { start, stride }) => {
                let (rows, bytes) = self.size(tile);
                for (row, i) in self.data[tile][..rows].iter().zip(0..) {
                    // SAFETY: as the instruction, which writes that many bytes there.
                    unsafe { start.offset(i * stride).copy_from(row.as_ptr(), bytes) };
                }
            }
            (0x4b, 1 | 3, &Operand::Memory { start, stride }) => {
                let (rows, bytes) = self.size(tile);
                self.data[tile] = [[0; TILE_ROW_BYTES]; TILE_ROWS];
                for (row, i) in self.data[tile][..rows].iter_mut().zip(0..) {
                    // SAFETY: as the instruction, which reads that many bytes there.
                    unsafe { row.as_mut_ptr().copy_from(start.offset(i * stride), bytes) };
                }
            }
            (0x5c, 2, &Operand::Tile(a)) => self.multiply([tile, a, other], add_pairs),
            (0x5e, 1, &Operand::Tile(a)) => self.multiply([tile, a, other], add_bytes),
            _ => panic!("opcode {opcode:#x} with prefix {prefix} is not emulated"),
        }
    }

    fn configure(&mut self, configuration: &[u8; 64]) {
        let (palette, start_row) = (configuration[0], configuration[1]);
        let reserved = [&configuration[2..16], &configuration[32..48], &configuration[56..]];
        assert_eq!((palette, start_row), (1, 0));
        assert!(reserved.concat().iter().all(|byte| *byte == 0));
        *self = Tiles::NONE;
        for (i, size) in self.sizes.iter_mut().enumerate() {
            let bytes = [configuration[16 + 2 * i], configuration[17 + 2 * i]];
            *size = (configuration[48 + i].into(), u16::from_le_bytes(bytes).into());
            assert!(
                size.0 <= TILE_ROWS && size.1 <= TILE_ROW_BYTES && (size.0 == 0) == (size.1 == 0)
            );
        }
    }

    fn size(&self, tile: usize) -> (usize, usize) {
        let size = self.sizes[tile];
        assert!(size.0 > 0, "tile {tile} is not configured");
        size
    }

    /// `c += a · b`, a row of four-byte elements at a time.
    fn multiply(
        &mut self,
        [c, a, b]: [usize; 3],
        add: fn(&mut [u8; TILE_ROW_BYTES], &[u8], &Tile),
    ) {
        assert!(c != a && c != b && a != b, "tiles {c}, {a} and {b} are not three");
        let ((rows, bytes), (a_rows, steps), (b_rows, b_bytes)) =
            (self.size(c), self.size(a), self.size(b));
        assert_eq!((a_rows, b_rows * 4, b_bytes), (rows, steps, bytes));
        let (left, right) = (self.data[a], self.data[b]);
        for (sums, row) in self.data[c][..rows].iter_mut().zip(&left) {
            add(sums, &row[..steps], &right);
            sums[bytes..].fill(0);
        }
    }
}

/// TDPBF16PS for a row of sums.
fn add_pairs(sums: &mut [u8; TILE_ROW_BYTES], row: &[u8], b: &Tile) {
    let flushed = |x: f32| if x.is_subnormal() { 0.0f32.copysign(x) } else { x };
    let wide = |of: &[u8], i: usize| {
        flushed(f32::from_bits(u32::from(u16::from_le_bytes([of[2 * i], of[2 * i + 1]])) << 16))
    };
    for (column, sum) in sums.as_chunks_mut().0.iter_mut().enumerate() {
        let chain = |odd: usize| {
            let steps = (0..row.len() / 4).zip(b);
            steps.fold(0.0f32, |sum, (k, b)| {
                flushed(wide(row, 2 * k + odd).mul_add(wide(b, 2 * column + odd), sum))
            })
        };
        let both = flushed(chain(0) + chain(1));
        *sum = flushed(flushed(f32::from_le_bytes(*sum)) + both).to_le_bytes();
    }
}

/// TDPBUSD for a row of sums: unsigned bytes times signed bytes.
fn add_bytes(sums: &mut [u8; TILE_ROW_BYTES], row: &[u8], b: &Tile) {
    for (column, sum) in sums.as_chunks_mut().0.iter_mut().enumerate() {
        let terms = row.iter().enumerate().map(|(k, x)| {
            let y = b[k / 4][4 * column + k % 4] as i8;
            i32::from(*x) * i32::from(y)
        });
        *sum = terms.fold(i32::from_le_bytes(*sum), i32::wrapping_add).to_le_bytes();
    }
}
