//! Runs of training whose memory and files are the whole process's.

use ironbridge::Device;
use ironbridge::memory::process_memory;
use ironbridge::train::{Adam, Linear, Schedule, Tape, TrainError, Trainer};

crate::harness::cases! {
    resident_memory_of_a_long_run_stays,
    ten_runs_leave_nothing_behind,
    #[cfg(unix)]
    a_full_disk_leaves_the_old_checkpoint_whole,
}

/// The network of the sine example, for `points` points.
fn trainer(device: &Device, points: usize, width: usize) -> Trainer {
    let mut tape = Tape::new(1);
    let x = tape.input("x", points, 1).unwrap();
    let target = tape.input("target", points, 1).unwrap();
    let hidden = Linear::new(&mut tape, "hidden", 1, width).unwrap();
    let hidden = hidden.forward(&mut tape, x).unwrap();
    let hidden = tape.tanh("hidden.tanh", hidden).unwrap();
    let out = Linear::new(&mut tape, "out", width, 1).unwrap();
    let out = out.forward(&mut tape, hidden).unwrap();
    let loss = tape.mse("loss", out, target).unwrap();
    let plan = tape.plan(loss).unwrap();
    let schedule = Schedule::constant(0.001);
    let mut trainer = plan.trainer(device, Adam::default(), schedule).unwrap();
    let points: Vec<f32> = (0..points).map(|i| i as f32 / points as f32).collect();
    let sine: Vec<f32> = points.iter().map(|x| (6.0 * x).sin()).collect();
    trainer.write(x, &points).unwrap();
    trainer.write(target, &sine).unwrap();
    trainer
}

/// `IRONBRIDGE_TRAINING_STEPS` makes the run longer: `make soak-train`.
fn resident_memory_of_a_long_run_stays() {
    const WARM_UP: u64 = 1000;
    const MOST: u64 = 1 << 20;
    let steps = std::env::var("IRONBRIDGE_TRAINING_STEPS");
    let steps: u64 = steps.map_or(4000, |steps| steps.parse().expect("a number of steps"));
    let device = Device::open("cpu").unwrap();
    let mut trainer = trainer(&device, 16, 8);
    let resident = || process_memory().unwrap().resident_bytes;
    let run = |trainer: &mut Trainer, until: u64| {
        while trainer.steps() < until {
            trainer.step().unwrap();
        }
    };
    run(&mut trainer, WARM_UP);
    let (before, objects) = (resident(), device.memory().unwrap().allocations);
    run(&mut trainer, WARM_UP + steps);
    let after = resident();
    assert!(
        after <= before + MOST,
        "{steps} steps: {before} bytes resident, then {after}"
    );
    assert_eq!(device.memory().unwrap().allocations, objects);
    drop(trainer);
    wait_until_empty(&device);
}

/// Releases on the device's threads trail the wait.
fn wait_until_empty(device: &Device) {
    device.sync().unwrap();
    let start = std::time::Instant::now();
    let is_empty = || {
        let memory = device.memory().unwrap();
        (memory.active_bytes, memory.active_buffers) == (0, 0)
    };
    while !is_empty() {
        assert!(start.elapsed().as_secs() < 20, "{:?}", device.memory());
        std::thread::yield_now();
    }
}

/// Each gives the same loss, and gives back all that it took.
fn ten_runs_leave_nothing_behind() {
    const MOST: u64 = 1 << 20;
    let steps = std::env::var("IRONBRIDGE_TRAINING_STEPS");
    let steps: u64 = steps.map_or(200, |steps| steps.parse().expect("a number of steps"));
    let device = Device::open("cpu").unwrap();
    let run = || {
        let mut trainer = trainer(&device, 16, 8);
        let losses = (0..steps).map(|_| trainer.step().unwrap());
        let last = losses.last().unwrap();
        drop(trainer);
        wait_until_empty(&device);
        (last, process_memory().unwrap().resident_bytes)
    };
    let (loss, before) = run();
    for number in 2..=10 {
        let (found, after) = run();
        assert_eq!(found, loss, "run {number}");
        assert!(
            after <= before + MOST,
            "run {number}: {before} bytes resident after the first one, then {after}"
        );
    }
}

/// No file may be longer than 64 KiB: the next checkpoint is.
#[cfg(unix)]
fn a_full_disk_leaves_the_old_checkpoint_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    let device = Device::open("cpu").unwrap();
    let mut trainer = trainer(&device, 16, 4000);
    trainer.step().unwrap();
    trainer.save(&path).unwrap();
    let old = std::fs::read(&path).unwrap();
    assert!(old.len() > 64 << 10);
    trainer.step().unwrap();

    let limit = libc::rlimit {
        rlim_cur: 64 << 10,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: this process is of this case alone, and `limit` is one. A write beyond it is an error, as on a full disk,
    // where the signal is ignored.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let error = trainer.save(&path).unwrap_err();
    assert!(matches!(error, TrainError::Write { .. }), "{error}");
    assert!(std::fs::read(&path).unwrap() == old, "the old one stays");
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing is left of the new one: {files:?}");

    let limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: as above.
    unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0) };
    trainer.restore(&path).unwrap();
    assert_eq!(trainer.steps(), 1);
    trainer.step().unwrap();
    trainer.save(&path).unwrap();
    trainer.restore(&path).unwrap();
    assert_eq!(trainer.steps(), 2);
}
