//! Memory of the host's, used in place.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io::Write;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ironbridge::memory::Category;
use ironbridge::ops::{CopyRows, Fill, Matmul};
use ironbridge::{DType, Error, HostMemory, Status};

use crate::oracle;
use crate::support::{assert_close, assert_status, device, eventually, f64s, numbers, run};

/// Larger than any page of our hosts, and a multiple of each.
const PAGES: usize = 64 * 1024;

/// Pages from the allocator that count how often they are given back.
struct Pages {
    start: NonNull<u8>,
    offset: usize,
    dropped: Arc<AtomicUsize>,
}

impl Pages {
    const LAYOUT: Layout = match Layout::from_size_align(2 * PAGES, PAGES) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    };

    /// Two times `PAGES` bytes of sevens, lent from `offset` on.
    fn new(offset: usize, dropped: &Arc<AtomicUsize>) -> Pages {
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(Self::LAYOUT) }).unwrap();
        // SAFETY: just allocated, as long as that.
        unsafe { start.as_ptr().write_bytes(7, 2 * PAGES) };
        Pages {
            start,
            offset,
            dropped: dropped.clone(),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::LAYOUT) };
    }
}

// SAFETY: owns its memory, which has no ties to a thread.
unsafe impl Send for Pages {}
// SAFETY: shared, it only lends for reading.
unsafe impl Sync for Pages {}
// SAFETY: the memory stays where it is until the drop, is never written after `new`, consists of whole pages, and the
// drop counts and deallocates only.
unsafe impl HostMemory for Pages {
    fn bytes(&self) -> &[u8] {
        // SAFETY: inside the allocation.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(self.offset), PAGES) }
    }
}

#[test]
fn the_owner_is_dropped_once_when_the_last_user_is_gone() {
    let device = device();
    let dropped = Arc::new(AtomicUsize::new(0));
    let memory = Pages::new(0, &dropped);
    let address = memory.start.as_ptr().cast_const();
    let wrapped = device
        .buffer_options()
        .category(Category::Weights)
        .wrap(memory)
        .unwrap();
    assert_eq!(wrapped.len(), PAGES);
    assert_eq!(wrapped.map().unwrap().as_ptr(), address, "copied");
    assert_eq!(
        device.memory().unwrap().category(Category::Weights).count,
        1
    );

    let out = device.buffer::<u32>(PAGES / 4).unwrap();
    let mut commands = device.commands().unwrap();
    commands
        .copy(&CopyRows::new(
            wrapped.tensor_at(0, DType::U32).matrix(1, PAGES / 4),
            out.matrix(1, PAGES / 4),
        ))
        .unwrap();
    drop(wrapped);
    assert_eq!(dropped.load(Ordering::SeqCst), 0, "commands still need it");
    let pending = commands.commit().unwrap();
    pending.wait().unwrap();
    drop(pending);
    assert!(eventually(|| dropped.load(Ordering::SeqCst) == 1));
    assert_eq!(out.to_vec().unwrap(), vec![0x0707_0707; PAGES / 4]);
}

#[test]
fn memory_off_the_page_is_refused_and_its_owner_dropped() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let error = device().buffer_options().wrap(Pages::new(16, &dropped));
    assert_status(error, Status::InvalidArgument);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn a_shared_owner_is_given_back_and_not_dropped() {
    let device = device();
    let dropped = Arc::new(AtomicUsize::new(0));
    let memory = Arc::new(Pages::new(0, &dropped));
    drop(device.buffer_options().wrap(memory.clone()).unwrap());
    assert!(eventually(|| Arc::strong_count(&memory) == 1));
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    assert_eq!(memory.bytes()[0], 7);
}

#[test]
fn wrapped_memory_is_read_only() {
    let device = device();
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut wrapped = device
        .buffer_options()
        .wrap(Pages::new(0, &dropped))
        .unwrap();
    assert!(matches!(wrapped.write_at(0, &[1]), Err(Error::ReadOnly(_))));
    assert_status(wrapped.map_mut(), Status::ReadOnly);
    let x = device.buffer::<f32>(4).unwrap();
    let mut commands = device.commands().unwrap();
    assert_status(
        commands.copy(&CopyRows::new(
            x.matrix(1, 4),
            wrapped.tensor_at(0, DType::F32).matrix(1, 4),
        )),
        Status::ReadOnly,
    );
    assert_status(
        commands.fill(&Fill::new(wrapped.tensor_at(0, DType::F32), 16).with_value(1)),
        Status::ReadOnly,
    );
    commands.commit().unwrap().wait().unwrap();
    assert!(wrapped.map().unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn a_mapped_file_of_any_length_holds_weights_at_byte_offsets() {
    let (n, k) = (48, 64);
    let header = [1u8; 34 * 5];
    let (q8, q8_means) = oracle::q8_0(&numbers(n * k, 1));
    let floats = numbers(n * k, 2);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&header).unwrap();
    file.write_all(&q8).unwrap();
    let padding = (header.len() + q8.len()).next_multiple_of(4) - (header.len() + q8.len());
    file.write_all(&vec![0; padding]).unwrap();
    for value in &floats {
        file.write_all(&value.to_le_bytes()).unwrap();
    }
    file.write_all(b"end").unwrap();
    let length = file.metadata().unwrap().len() as usize;
    // SAFETY: nobody else knows this file.
    let map = unsafe { ironbridge::FileMapping::of(&file).unwrap() };

    let device = device();
    let wrapped = match device.buffer_options().wrap(map) {
        // A GPU behind a bus does not read a file's pages where they are.
        Err(error) if !device.info().unwrap().unified_memory => {
            assert_eq!(error.status(), Some(Status::OutOfMemory));
            return;
        }
        wrapped => wrapped.unwrap(),
    };
    assert_eq!(wrapped.len(), length);
    let mut end = [0; 3];
    wrapped.read_at(length - 3, &mut end).unwrap();
    assert_eq!(&end, b"end");
    assert_status(wrapped.read_at(length - 2, &mut end), Status::OutOfRange);

    let x = numbers(3 * k, 3);
    let a = device.buffer_from(&x).unwrap();
    let c = device.buffer::<f32>(2 * 3 * n).unwrap();
    let q8_at = header.len();
    let floats_at = header.len() + q8.len() + padding;
    run(&device, |commands| {
        for (index, weight) in [
            wrapped.tensor_at(q8_at, DType::Q8_0),
            wrapped.tensor_at(floats_at, DType::F32),
        ]
        .into_iter()
        .enumerate()
        {
            commands.matmul(&Matmul::new(
                a.matrix(3, k),
                weight.matrix(n, k).transposed(),
                c.tensor().skip(index * 3 * n).matrix(3, n),
            ))?;
        }
        Ok(())
    })
    .unwrap();

    let got = c.to_vec().unwrap();
    let by_q8 = oracle::matmul(&f64s(&x), &oracle::transpose(&q8_means, n, k), 3, k, n);
    let by_floats = oracle::matmul(&f64s(&x), &oracle::transpose(&f64s(&floats), n, k), 3, k, n);
    // With blocks the software device multiplies activations of 15 bits.
    assert_close(&got[..3 * n], &by_q8, 1e-4);
    assert_close(&got[3 * n..], &by_floats, 1e-5);
}
