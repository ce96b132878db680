//! The trace's numbers are the counters'.

use std::sync::{Arc, Mutex};

use ironbridge::memory::set_trace_hook;
use ironbridge::ops::{Fill, Matmul};
use ironbridge::{DType, Device, diagnostics};

use crate::memory_trace::open;

crate::harness::cases! {
    every_line_says_what_the_counters_say,
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    operation: String,
    shape: String,
    place: Option<(String, u32)>,
    numbers: [u64; 6],
    resident: u64,
    without_pool: Option<i64>,
}

fn counters(device: &Device) -> [u64; 6] {
    let memory = device.memory().unwrap();
    let queues = memory.category(ironbridge::memory::Category::Queues).count;
    let handles = diagnostics::diagnose().unwrap().live_handles;
    [
        memory.device_bytes,
        memory.active_bytes,
        memory.pool_bytes,
        memory.pool_buffers,
        queues - 1,
        handles as u64,
    ]
}

fn every_line_says_what_the_counters_say() {
    let device = open();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let listener = seen.clone();
    set_trace_hook(Some(Box::new(move |event| {
        listener.lock().unwrap().push(Seen {
            operation: event.operation.to_string(),
            shape: event.shape.to_string(),
            place: event.place.map(|(file, line)| (file.to_string(), line)),
            numbers: [
                event.device_bytes,
                event.active_bytes,
                event.pool_bytes,
                event.pool_buffers,
                event.command_buffers,
                event.live_handles as u64,
            ],
            resident: event.resident_bytes,
            without_pool: event.autoreleased_without_pool,
        });
    })));
    for round in 1..=50usize {
        let options = device.buffer_options().pooled();
        let a = options.create::<f32>(8 * round).unwrap();
        let b = options.create::<f32>(round * 4).unwrap();
        let c = options.create::<f32>(8 * 4).unwrap();
        let mut commands = device.commands().unwrap();
        for buffer in [&a, &b] {
            let length = buffer.len() * 4;
            let out = buffer.tensor();
            commands
                .fill(&Fill::new(out, length).with_value(0))
                .unwrap();
            assert_eq!(
                seen.lock().unwrap().last().unwrap().numbers,
                counters(&device)
            );
        }
        let matmul = Matmul::new(
            a.tensor_at(0, DType::F32).matrix(8, round),
            b.matrix(round, 4),
            c.matrix(8, 4),
        );
        let line = line!() + 1;
        commands.matmul(&matmul).unwrap();
        let last = seen.lock().unwrap().last().unwrap().clone();
        assert_eq!(last.numbers, counters(&device));
        assert_eq!(last.operation, "matmul");
        assert!(
            last.shape.starts_with(&format!("a=8x{round} b={round}x4")),
            "{}",
            last.shape
        );
        assert_eq!(last.place, Some((file!().to_string(), line)));
        assert!(last.resident > 1 << 20);
        assert!(matches!(last.without_pool, None | Some(0)));
        commands.commit().unwrap().wait().unwrap();
    }
    set_trace_hook(None);
    let count = seen.lock().unwrap().len();
    assert_eq!(count, 150);
    let mut commands = device.commands().unwrap();
    let buffer = device.buffer::<u32>(4).unwrap();
    let out = buffer.tensor();
    commands.fill(&Fill::new(out, 16).with_value(0)).unwrap();
    assert_eq!(seen.lock().unwrap().len(), count, "nobody listens any more");
}
