//! The parts that a process plays for the tests.

use std::io::BufRead;
use std::mem::forget;

use ironbridge::llama::gguf::GgufFile;
use ironbridge::memory::{Category, process_memory};
use ironbridge::{Device, ops::Fill};

const MIB: usize = 1 << 20;

pub fn play(part: &str) {
    match part {
        "holder" => holder(),
        "leaker" => leaker(),
        "tidy" => tidy(),
        "model" => model(),
        "cache" => cache(),
        "limited" => limited(),
        "allocating" => allocating(),
        "without_memfd" => {
            refuse_memfd();
            holder();
        }
        "allocating_without_memfd" => {
            refuse_memfd();
            allocating();
        }
        "strange" => strange(),
        #[cfg(target_os = "linux")]
        "take_all_memory" => crate::gpu::take_all_memory(),
        #[cfg(target_os = "linux")]
        "compute" => crate::gpu::compute(),
        _ => panic!("there is no part {part:?}"),
    }
}

/// Says that a step is done and waits for the next one; false at the end.
pub fn next_step() -> bool {
    println!("ready");
    let mut line = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut line)
        .expect("readable")
        > 0
}

/// Holds 8 MiB, then 3 MiB more, then 3 MiB idle in the pool after two operations.
fn holder() {
    let device = Device::open("cpu").unwrap();
    let options = device.buffer_options().category(Category::Weights);
    let held = options.create::<u8>(8 * MIB).unwrap();
    if next_step() {
        let scratch = device
            .buffer_options()
            .pooled()
            .create::<u8>(3 * MIB)
            .unwrap();
        if next_step() {
            let mut commands = device.commands().unwrap();
            for value in 0..2 {
                let out = held.tensor_at(0, ironbridge::DType::U32);
                let length = 4096;
                commands
                    .fill(&Fill::new(out, length).with_value(value))
                    .unwrap();
            }
            commands.commit().unwrap().wait().unwrap();
            drop(scratch);
            while next_step() {}
        }
    }
}

/// Holds memory where no file may be longer than a byte: whoever makes one that is, is ended by a signal.
fn limited() {
    let limit = libc::rlimit {
        rlim_cur: 1,
        rlim_max: 1,
    };
    // SAFETY: `limit` is one.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    holder();
}

/// Takes and gives back memory without a pause between the first step and the last.
fn allocating() {
    let device = Device::open("cpu").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let options = device.buffer_options().pooled();
    // There is a figure before the first step is answered.
    drop(options.create::<u8>(4096).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                drop(options.create::<u8>(4096).unwrap());
            }
        });
        while next_step() {}
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// As in a sandbox that knows nothing of memfd_create.
#[cfg(target_os = "linux")]
fn refuse_memfd() {
    let statement = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // the call's number
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            libc::SYS_memfd_create as u32,
        ),
        statement(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: both take numbers and a program that is there during the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
            0
        );
    }
}

/// There is none, and files are plain anyway.
#[cfg(not(target_os = "linux"))]
fn refuse_memfd() {}

/// Forgets a buffer whose label would be two lines and steer a terminal.
fn strange() {
    let device = Device::open("cpu").unwrap();
    let options = device.buffer_options();
    let strange = options.label("two\nlines\u{1b}[2J\u{9b}\u{7f}ä");
    forget(strange.create::<u8>(2 * MIB).unwrap());
}

/// Forgets two buffers, and keeps 1 MiB idle that is no leak.
fn leaker() {
    let device = Device::open("cpu").unwrap();
    let options = device.buffer_options();
    let weights = options
        .clone()
        .label("forgotten weights")
        .category(Category::Weights);
    forget(weights.create::<u8>(3 * MIB).unwrap());
    let keys = options
        .clone()
        .label("forgotten keys")
        .category(Category::KvCache);
    forget(keys.create::<u8>(2 * MIB).unwrap());
    drop(options.pooled().create::<u8>(MIB).unwrap());
}

/// Uses a pooled buffer twice, once by commands.
fn tidy() {
    let device = Device::open("cpu").unwrap();
    let options = device.buffer_options().label("temporary").pooled();
    let buffer = options.create::<u8>(5000).unwrap();
    let mut commands = device.commands().unwrap();
    let out = buffer.tensor_at(0, ironbridge::DType::U32);
    commands.fill(&Fill::new(out, 4096).with_value(1)).unwrap();
    commands.commit().unwrap().wait().unwrap();
    drop(buffer);
    drop(options.create::<u8>(5000).unwrap());
}

/// Opens a large file, touches one of its tensors on the device, closes, and again: nothing stays.
fn model() {
    let path = std::env::var("MODEL").unwrap();
    let rounds: u32 = std::env::var("ROUNDS").unwrap().parse().unwrap();
    let device = Device::open("cpu").unwrap();
    let start = device.memory().unwrap();
    let mut resident = 0;
    for round in 0..rounds {
        let file = GgufFile::open(&path).unwrap();
        let tensor = file.header().tensor("blk.16.weight").unwrap().bytes();
        let mapped = std::fs::File::open(&path).unwrap();
        // SAFETY: nobody changes the file.
        let mapped = unsafe { ironbridge::FileMapping::of(&mapped) }.unwrap();
        let options = device.buffer_options().category(Category::Weights);
        let weights = options.wrap(mapped).unwrap();
        assert!(device.memory().unwrap().active_bytes > 2 << 30);
        let touched = device.buffer::<f32>(16).unwrap();
        let mut commands = device.commands().unwrap();
        let copy = ironbridge::ops::CopyBytes::new(
            weights.tensor_at(tensor.start as usize, ironbridge::DType::U32),
            touched.tensor(),
            64,
        );
        commands.copy_bytes(&copy).unwrap();
        commands.commit().unwrap().wait().unwrap();
        assert_eq!(touched.to_vec().unwrap(), [0.0; 16]);
        drop((weights, touched, file));
        device.sync().unwrap();
        let now = device.memory().unwrap();
        assert!(
            now.device_bytes <= start.device_bytes + MIB as u64,
            "{now:?}"
        );
        let rss = process_memory().unwrap().resident_bytes;
        if round > 0 {
            assert!(
                rss <= resident + MIB as u64,
                "round {round}: {resident} -> {rss}"
            );
        } else {
            resident = rss; // warm
        }
    }
}

/// Makes caches for a long text and writes the rows of a short one.
fn cache() {
    let device = Device::open("cpu").unwrap();
    let options = device.buffer_options().category(Category::KvCache);
    let before = process_memory().unwrap().resident_bytes;
    let mut caches: Vec<_> = (0..16)
        .map(|_| options.create::<u8>(4 * MIB).unwrap())
        .collect();
    for cache in &mut caches {
        cache.write_at(0, &[1; 4096]).unwrap();
    }
    let taken = process_memory().unwrap().resident_bytes - before;
    assert!(
        taken < 2 * MIB as u64,
        "{taken} bytes are resident for 64 KiB"
    );
}
