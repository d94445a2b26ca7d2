//! Memory that begins at cache lines, in large pages where that pays.

use crate::base::num::Plain;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes of a large page.
const LARGE_PAGE: usize = 2 << 20;

/// Bytes from which on memory is worth large pages for the sake of its first touch alone.
const LARGE: usize = 2 * LARGE_PAGE;

/// Bytes from which on memory that is read again and again is worth large pages.
const LASTING: usize = LARGE_PAGE / 4;

/// Asks the system for large pages where `bytes` bytes begin, which have not been touched yet: the
/// first touch of small ones takes longer than most kernels do with the memory.
fn prefer_large_pages(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        /// Bytes of the smallest page.
        const PAGE: usize = 4096;
        let skipped = start.align_offset(PAGE).min(bytes);
        let len = (bytes - skipped) / PAGE * PAGE;
        // SAFETY: the advice changes no contents; a refusal changes nothing at all.
        unsafe { libc::madvise(start.wrapping_add(skipped).cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

/// Has the heap begin with `bytes` bytes in large pages, and keep what is freed: for a process that
/// builds one thing of many small pieces and ends, where the first touch of small pages takes a
/// fifth of the time. Elsewhere than with glibc it does nothing.
pub fn prefer_large_heap(bytes: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let more = libc::c_int::try_from(bytes.saturating_mul(2)).unwrap_or(libc::c_int::MAX);
        // SAFETY: these say from which size on memory is not taken from the heap, and how much of
        // it has to be free to be returned; any number is allowed.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, more);
            libc::mallopt(libc::M_TRIM_THRESHOLD, more);
        }
        let mut heap = Vec::<u8>::with_capacity(bytes);
        if bytes >= LARGE {
            prefer_large_pages(heap.as_mut_ptr(), heap.capacity());
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = bytes;
}

/// Says how many bytes were wanted, and ends the process.
#[cold]
fn out_of_memory(bytes: usize) -> ! {
    handle_alloc_error(Layout::from_size_align(bytes, 1).unwrap_or(Layout::new::<u8>()))
}

/// Memory from the heap that begins at a cache line.
pub struct Memory {
    start: *mut u8,
    allocated: *mut u8,
    layout: Layout,
}

// SAFETY: it owns plain bytes, and gives no access to them but by a pointer.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeroed bytes, if there are as many.
    pub fn zeroed(bytes: usize) -> Option<Memory> {
        let memory = Memory::aligned(bytes, LINE)?;
        if bytes >= LARGE {
            prefer_large_pages(memory.start, bytes);
        }
        Some(memory)
    }

    /// The same for what lasts and is read again and again. From half a megabyte on it is whole
    /// large pages: small ones are more than processors remember the places of, and looking one up
    /// takes as long as reading some lines.
    pub fn lasting(bytes: usize) -> Option<Memory> {
        if bytes < LASTING {
            return Memory::zeroed(bytes);
        }
        let bytes = bytes.checked_next_multiple_of(LARGE_PAGE)?;
        let memory = Memory::aligned(bytes, LARGE_PAGE)?;
        prefer_large_pages(memory.start, bytes);
        Some(memory)
    }

    /// Asked for the alignment itself, the allocator would write zeros to memory that comes zeroed
    /// from the system.
    fn aligned(bytes: usize, align: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(bytes.checked_add(align)?, align_of::<u64>()).ok()?;
        // SAFETY: the layout has a size above 0.
        let allocated = unsafe { alloc_zeroed(layout) };
        if allocated.is_null() {
            return None;
        }
        // SAFETY: the layout has room for that many more bytes.
        let start = unsafe { allocated.add(allocated.align_offset(align)) };
        Some(Memory { start, allocated, layout })
    }

    /// Where it begins.
    pub fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and dropped once.
        unsafe { dealloc(self.allocated, self.layout) };
    }
}

/// Elements that begin at a cache line, owned.
pub struct Lines {
    start: *mut u8,
    bytes: usize,
    /// What they lie in, side by side with others.
    _of: Option<Arc<Memory>>,
}

// SAFETY: they own plain bytes.
unsafe impl Send for Lines {}
// SAFETY: as above; they are written through an exclusive borrow alone.
unsafe impl Sync for Lines {}

impl Default for Lines {
    fn default() -> Lines {
        Lines { start: std::ptr::without_provenance_mut(LINE), bytes: 0, _of: None }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lines({})", self.bytes)
    }
}

impl Lines {
    /// Zeroed memory of some bytes. Where there is not as much, the process ends, as it does when
    /// a vector of the standard library finds none.
    pub fn zeroed(bytes: usize) -> Lines {
        let memory = Memory::zeroed(bytes).unwrap_or_else(|| out_of_memory(bytes));
        Lines { start: memory.start(), bytes, _of: Some(Arc::new(memory)) }
    }

    /// Bytes of all elements.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The memory as elements.
    pub fn elements<T: Plain>(&self) -> &[T] {
        // SAFETY: `bytes` bytes from a cache line on are these lines' own, they are initialised,
        // and every bit pattern is a value.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.bytes / size_of::<T>()) }
    }

    /// The memory as elements, for writing.
    pub fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / size_of::<T>()) }
    }
}

/// Where what lasts is put, such as packed weights: side by side, in large pages, once it is more
/// than some hundred KB. A board is given back when nothing on it is left.
#[derive(Default)]
pub struct Shelf {
    board: Mutex<Board>,
    gives_apart: bool,
}

/// What is taken from next.
#[derive(Default)]
struct Board {
    memory: Option<Arc<Memory>>,
    /// Where the free part begins, and its bytes.
    at: usize,
    free: usize,
    /// Bytes of all that has been put on the shelf.
    total: usize,
}

/// Bytes of a board; what needs more lies apart. Large pages that are never touched cost nothing.
const BOARD: usize = 8 * LARGE_PAGE;

impl Shelf {
    /// One that gives each thing memory of its own, for what is used once.
    pub fn apart() -> &'static Shelf {
        static APART: LazyLock<Shelf> =
            LazyLock::new(|| Shelf { gives_apart: true, ..Shelf::default() });
        &APART
    }

    /// Zeroed memory of some bytes. Where there is not as much, the process ends, as it does when
    /// a vector of the standard library finds none.
    pub fn lines(&self, bytes: usize) -> Lines {
        if self.gives_apart {
            return Lines::zeroed(bytes);
        }
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board.total += bytes;
        match board.total < LASTING {
            true => Lines::zeroed(bytes),
            false => board.lines(bytes),
        }
    }
}

impl Board {
    fn lines(&mut self, bytes: usize) -> Lines {
        let room = bytes.next_multiple_of(LINE);
        let new = |len| Memory::lasting(len).unwrap_or_else(|| out_of_memory(len));
        if room > BOARD {
            let memory = new(room);
            return Lines { start: memory.start(), bytes, _of: Some(Arc::new(memory)) };
        }
        if self.memory.is_none() || self.free < room {
            let memory = Some(Arc::new(new(BOARD)));
            *self = Board { memory, at: 0, free: BOARD, total: self.total };
        }
        let of = self.memory.clone();
        let start = of.as_ref().map_or_else(std::ptr::null_mut, |m| m.start());
        // SAFETY: the board has so much room behind what was taken before.
        let lines = Lines { start: unsafe { start.add(self.at) }, bytes, _of: of };
        (self.at, self.free) = (self.at + room, self.free - room);
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shelf_gives_disjoint_zeroed_lines() {
        let shelf = Shelf::default();
        let sizes = [0, 1, 63, 64, 65, LASTING, 3, LARGE_PAGE + 5, BOARD - 7, BOARD + 1, 100];
        let mut all: Vec<Lines> = sizes.iter().map(|bytes| shelf.lines(*bytes)).collect();
        for (mark, lines) in (1u8..).zip(&mut all) {
            assert_eq!(lines.elements::<u8>().as_ptr() as usize % LINE, 0);
            assert!(lines.elements::<u8>().iter().all(|byte| *byte == 0));
            lines.elements_mut().fill(mark);
        }
        drop(shelf);
        for ((mark, size), lines) in (1u8..).zip(sizes).zip(&all) {
            assert_eq!(lines.len(), size);
            assert!(lines.elements::<u8>().iter().all(|byte| *byte == mark), "{size}");
        }
    }

    #[test]
    fn a_board_ends_with_what_lies_on_it() {
        let shelf = Shelf::default();
        let (one, two) = (shelf.lines(LASTING), shelf.lines(10));
        let board = Arc::downgrade(one._of.as_ref().unwrap());
        drop((shelf, one));
        assert!(board.upgrade().is_some());
        drop(two);
        assert!(board.upgrade().is_none());
    }

    #[test]
    fn what_there_is_no_memory_for_is_refused() {
        assert!(Memory::zeroed(usize::MAX).is_none());
        assert!(Memory::lasting(usize::MAX - 5).is_none());
        assert!(Memory::zeroed(isize::MAX as usize - 100).is_none());
    }
}
