//! The sequential Q/K/V load, small enough for every test run. `.ci/run` and `make stress` run it at its full size.

use ironbridge::DeviceKind;
use ironbridge::stress::{QkvReport, QkvStress};

crate::harness::cases! {
    a_thousand_rounds_leave_nothing,
    one_commit_for_all_three_leaves_nothing,
    four_threads_on_one_device_leave_nothing,
    four_threads_on_four_devices_leave_nothing,
    the_full_shapes_are_right,
    a_report_says_what_is_wrong,
    sizes_of_zero_are_refused_by_name,
}

/// Small matrices, so that a thousand rounds of 22 layers take seconds: what could leak is counted per call and not per
/// byte.
fn small(threads: usize, devices: usize, together: bool) -> QkvReport {
    let mut stress = QkvStress::default();
    stress.device = "cpu".into();
    stress.d_model = 64;
    stress.kv_dim = 16;
    stress.rounds = 1000 / threads as u64;
    stress.warm_up = 50;
    stress.threads = threads;
    stress.devices = devices;
    stress.together = together;
    stress.run(&|_| ()).expect("the stress runs")
}

fn assert_clean(report: &QkvReport) {
    assert_eq!(report.problems(), Vec::<String>::new(), "{report:#?}");
    assert!(report.values > 1_000_000);
    assert!(
        report.end.live_objects.values().any(|&live| live > 0),
        "nothing is counted: {report:#?}"
    );
    assert_eq!(report.end.buffers, report.own_buffers, "{report:#?}");
    assert_eq!(
        report.closed.live_handles, report.start.live_handles,
        "{report:#?}"
    );
}

fn a_thousand_rounds_leave_nothing() {
    assert_clean(&small(1, 1, false));
}

fn one_commit_for_all_three_leaves_nothing() {
    assert_clean(&small(1, 1, true));
}

fn four_threads_on_one_device_leave_nothing() {
    assert_clean(&small(4, 1, false));
}

fn four_threads_on_four_devices_leave_nothing() {
    assert_clean(&small(4, 4, false));
}

fn the_full_shapes_are_right() {
    let mut stress = QkvStress::default();
    stress.device = "cpu".into();
    stress.layers = 2;
    stress.rounds = 3;
    stress.warm_up = 1;
    assert_eq!(
        stress.run(&|_| ()).expect("the stress runs").problems(),
        Vec::<String>::new()
    );
}

fn a_report_says_what_is_wrong() {
    let clean = small(1, 1, true);
    let problem = |change: &dyn Fn(&mut QkvReport)| {
        let mut report = clean.clone();
        change(&mut report);
        report.problems().join("; ")
    };
    assert_eq!(problem(&|_| ()), "");
    assert!(problem(&|report| report.wrong = 1).contains("1 of"));
    assert!(problem(&|report| report.values = 0).contains("nothing was compared"));
    assert!(
        problem(&|report| report.end.resident_bytes = report.warm.resident_bytes + (2 << 20))
            .contains("resident")
    );
    assert!(problem(&|report| report.end.device_bytes += 1).contains("device bytes"));
    // On Metal that figure holds what others have on the GPU, too.
    let elsewhere = |report: &mut QkvReport| {
        report.kind = DeviceKind::Metal;
        report.end.device_bytes += 1;
    };
    assert_eq!(problem(&elsewhere), "");
    assert!(problem(&|report| report.end.accounted_bytes += 1).contains("accounted bytes"));
    assert!(problem(&|report| report.closed.device_bytes += 1).contains("the close"));
    assert!(problem(&|report| report.end.buffers += 1).contains("buffers are alive"));
    assert!(problem(&|report| report.end.live_handles += 1).contains("live handles"));
    assert!(
        problem(&|report| report.end.autoreleased_without_pool = Some(7))
            .contains("7 objects were autoreleased with no pool")
    );
    assert!(
        problem(&|report| {
            report.end.live_objects.insert("Leak".into(), 3);
        })
        .contains("live Leak objects went from 0 to 3")
    );
}

fn sizes_of_zero_are_refused_by_name() {
    for (name, change) in [
        ("layers", (|stress| stress.layers = 0) as fn(&mut QkvStress)),
        ("seq", |stress| stress.seq = 0),
        ("d_model", |stress| stress.d_model = 0),
        ("kv_dim", |stress| stress.kv_dim = 0),
        ("rounds", |stress| stress.rounds = 0),
        ("warm_up", |stress| stress.warm_up = 0),
        ("threads", |stress| stress.threads = 0),
        ("devices", |stress| stress.devices = 0),
    ] {
        let mut stress = QkvStress::default();
        change(&mut stress);
        let error = stress.run(&|_| ()).expect_err(name).to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
}
