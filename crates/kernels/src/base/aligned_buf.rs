//! Buffers aligned to cache lines, in large pages if that pays.

use crate::base::num::Pod;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// Elements of f32 in a cache line.
pub(crate) const LINE_F32: usize = LINE_BYTES / size_of::<f32>();

/// Bytes of a large page.
const LARGE_PAGE: usize = 2 << 20;

/// From this many bytes on, large pages pay by the first touch of the memory alone.
const HUGE_FROM: usize = 2 * LARGE_PAGE;

/// From this many bytes on, large pages pay for memory that is read many times.
const LASTING: usize = LARGE_PAGE / 4;

/// Asks the system for large pages for `bytes` bytes that have not been touched yet. The first
/// touch of small pages takes longer than most kernels take with the memory.
fn prefer_large_pages(start: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        /// Bytes of the smallest page.
        const PAGE: usize = 4096;
        let skipped = start.align_offset(PAGE).min(bytes);
        let len = (bytes - skipped) / PAGE * PAGE;
        // SAFETY: the advice changes no contents; a refusal changes nothing at all.
        unsafe { libc::madvise(start.wrapping_add(skipped).cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = (start, bytes);
}

/// Lets the heap start with `bytes` bytes in large pages, and keep what is freed. For a process
/// that builds one thing of many small pieces and ends: the first touch of small pages takes a
/// fifth of its time. Does nothing without glibc.
pub fn prefer_large_heap(bytes: usize) {
    set_mmap_threshold(bytes.saturating_mul(2));
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let mut heap = Vec::<u8>::with_capacity(bytes);
        prefer_large_pages(heap.as_mut_ptr(), heap.capacity());
    }
}

/// Takes allocations of `bytes` bytes and more from the system, and returns them when they are
/// freed; the heap keeps at most that much free. Does nothing without glibc.
pub fn set_mmap_threshold(bytes: usize) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
        // SAFETY: these set the size from which on memory is not taken from the heap, and how much
        // of it must be free to be returned; any number is allowed.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, bytes);
            libc::mallopt(libc::M_TRIM_THRESHOLD, bytes);
        }
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    let _ = bytes;
}

/// Reports how many bytes were wanted, and ends the process.
#[cold]
fn out_of_memory(bytes: usize) -> ! {
    handle_alloc_error(Layout::from_size_align(bytes, 1).unwrap_or(Layout::new::<u8>()))
}

/// Memory from the heap that begins at a cache line.
pub struct Allocation {
    start: *mut u8,
    allocated: *mut u8,
    layout: Layout,
}

// SAFETY: it owns plain bytes, and gives access to them only by a pointer.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Zeroed bytes; `None` if there is not enough memory.
    pub fn zeroed(bytes: usize) -> Option<Allocation> {
        let memory = Allocation::aligned(bytes, LINE_BYTES)?;
        if bytes >= HUGE_FROM {
            prefer_large_pages(memory.start, bytes);
        }
        Some(memory)
    }

    /// As [`Allocation::zeroed`], for memory that lasts and is read many times. From half a
    /// megabyte on it is whole large pages: 4 KB pages overflow the TLB, and a page walk takes as
    /// long as reading some lines.
    pub fn lasting(bytes: usize) -> Option<Allocation> {
        if bytes < LASTING {
            return Allocation::zeroed(bytes);
        }
        let bytes = bytes.checked_next_multiple_of(LARGE_PAGE)?;
        let memory = Allocation::aligned(bytes, LARGE_PAGE)?;
        prefer_large_pages(memory.start, bytes);
        Some(memory)
    }

    /// The memory that [`Allocation::lasting`] takes for so many bytes once all are touched.
    pub fn resident(bytes: usize) -> usize {
        if bytes < LASTING { bytes } else { bytes.next_multiple_of(LARGE_PAGE) }
    }

    /// Over-allocates and aligns. If asked for the alignment itself, the allocator would write
    /// zeros to memory that the system has zeroed already.
    fn aligned(bytes: usize, align: usize) -> Option<Allocation> {
        let layout = Layout::from_size_align(bytes.checked_add(align)?, align_of::<u64>()).ok()?;
        // SAFETY: the layout has a size above 0.
        let allocated = unsafe { alloc_zeroed(layout) };
        if allocated.is_null() {
            return None;
        }
        // SAFETY: the layout has this many bytes more.
        let start = unsafe { allocated.add(allocated.align_offset(align)) };
        Some(Allocation { start, allocated, layout })
    }

    /// The address of the first byte.
    pub fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and dropped once.
        unsafe { dealloc(self.allocated, self.layout) };
    }
}

/// An owned buffer of elements that begins at a cache line.
pub struct AlignedBuf {
    start: *mut u8,
    bytes: usize,
    /// The allocation; other buffers may share it.
    _of: Option<Arc<Allocation>>,
}

// SAFETY: it owns plain bytes.
unsafe impl Send for AlignedBuf {}
// SAFETY: as above; it is written only through an exclusive borrow.
unsafe impl Sync for AlignedBuf {}

impl Default for AlignedBuf {
    fn default() -> AlignedBuf {
        AlignedBuf { start: std::ptr::without_provenance_mut(LINE_BYTES), bytes: 0, _of: None }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({})", self.bytes)
    }
}

impl AlignedBuf {
    /// A zeroed buffer of `bytes` bytes. If there is not enough memory the process ends, as with a
    /// vector of the standard library.
    pub fn zeroed(bytes: usize) -> AlignedBuf {
        let memory = Allocation::zeroed(bytes).unwrap_or_else(|| out_of_memory(bytes));
        AlignedBuf { start: memory.start(), bytes, _of: Some(Arc::new(memory)) }
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
    pub fn elements<T: Pod>(&self) -> &[T] {
        // SAFETY: `bytes` bytes from `start` on belong to this buffer, they are initialised, and
        // every bit pattern is a value.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.bytes / size_of::<T>()) }
    }

    /// The memory as elements, for writing.
    pub fn elements_mut<T: Pod>(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / size_of::<T>()) }
    }
}

/// An arena for packed weights and other lasting data. From half a megabyte on, all allocations
/// share chunks of large pages. A chunk is freed with the last buffer in it.
#[derive(Default)]
pub struct WeightArena {
    chunk: Mutex<Chunk>,
    unpooled: bool,
}

/// The chunk that the next buffer is taken from.
#[derive(Default)]
struct Chunk {
    memory: Option<Arc<Allocation>>,
    /// Offset of the free part, and its bytes.
    at: usize,
    free: usize,
    /// Bytes of all buffers so far.
    total: usize,
}

/// Bytes of a chunk; a larger buffer has a chunk of its own. Untouched large pages cost nothing.
const CHUNK: usize = 8 * LARGE_PAGE;

impl WeightArena {
    /// An arena that gives each buffer an allocation of its own, for data that is used once.
    pub fn unpooled() -> &'static WeightArena {
        static UNPOOLED: LazyLock<WeightArena> =
            LazyLock::new(|| WeightArena { unpooled: true, ..WeightArena::default() });
        &UNPOOLED
    }

    /// A zeroed buffer of `bytes` bytes. If there is not enough memory the process ends, as with a
    /// vector of the standard library.
    pub fn alloc(&self, bytes: usize) -> AlignedBuf {
        if self.unpooled {
            return AlignedBuf::zeroed(bytes);
        }
        let mut chunk = self.chunk.lock().unwrap_or_else(PoisonError::into_inner);
        chunk.total += bytes;
        if chunk.total < LASTING { AlignedBuf::zeroed(bytes) } else { chunk.alloc(bytes) }
    }
}

impl Chunk {
    fn alloc(&mut self, bytes: usize) -> AlignedBuf {
        let padded = bytes.next_multiple_of(LINE_BYTES);
        let new = |len| Allocation::lasting(len).unwrap_or_else(|| out_of_memory(len));
        if padded > CHUNK {
            let memory = new(padded);
            return AlignedBuf { start: memory.start(), bytes, _of: Some(Arc::new(memory)) };
        }
        if self.memory.is_none() || self.free < padded {
            let memory = Some(Arc::new(new(CHUNK)));
            *self = Chunk { memory, at: 0, free: CHUNK, total: self.total };
        }
        let of = self.memory.clone();
        let start = of.as_ref().map_or_else(std::ptr::null_mut, |m| m.start());
        // SAFETY: the chunk has this much free memory at `at`.
        let buf = AlignedBuf { start: unsafe { start.add(self.at) }, bytes, _of: of };
        (self.at, self.free) = (self.at + padded, self.free - padded);
        buf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_gives_disjoint_zeroed_buffers() {
        let arena = WeightArena::default();
        let sizes = [0, 1, 63, 64, 65, LASTING, 3, LARGE_PAGE + 5, CHUNK - 7, CHUNK + 1, 100];
        let mut all: Vec<AlignedBuf> = sizes.iter().map(|bytes| arena.alloc(*bytes)).collect();
        for (mark, buf) in (1u8..).zip(&mut all) {
            assert_eq!(buf.elements::<u8>().as_ptr() as usize % LINE_BYTES, 0);
            assert!(buf.elements::<u8>().iter().all(|byte| *byte == 0));
            buf.elements_mut().fill(mark);
        }
        drop(arena);
        for ((mark, size), buf) in (1u8..).zip(sizes).zip(&all) {
            assert_eq!(buf.len(), size);
            assert!(buf.elements::<u8>().iter().all(|byte| *byte == mark), "{size}");
        }
    }

    #[test]
    fn a_chunk_ends_with_its_last_buffer() {
        let arena = WeightArena::default();
        let (one, two) = (arena.alloc(LASTING), arena.alloc(10));
        let chunk = Arc::downgrade(one._of.as_ref().unwrap());
        drop((arena, one));
        assert!(chunk.upgrade().is_some());
        drop(two);
        assert!(chunk.upgrade().is_none());
    }

    #[test]
    fn what_there_is_no_memory_for_is_refused() {
        assert!(Allocation::zeroed(usize::MAX).is_none());
        assert!(Allocation::lasting(usize::MAX - 5).is_none());
        assert!(Allocation::zeroed(isize::MAX as usize - 100).is_none());
    }
}
