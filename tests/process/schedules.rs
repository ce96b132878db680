//! What threads do to each other at the worst moment: small programs that keep every rule of the header, each under 500
//! schedules.
//!
//! A schedule is a device opened as `cpu:schedule=SEED`: at every hand-over in the bridge and the software device the
//! seed decides which thread goes on (`native/objects/schedule.h`). Afterwards no handle and no object is left, and the
//! books are where they were.
//!
//! A seed that fails is printed. It runs alone, in the test's own process, so that a debugger may look on, with
//! `IRONBRIDGE_SCHEDULE_SEED=SEED cargo test --features cli,tracing --test process -- --case schedules::SCENARIO`.
//!
//! The races at the end have no schedule: many threads, as fast as they can.

mod explore;
mod scenarios;

use explore::explore;

/// Cases, each of the scenario of its name, with the seeds before it.
macro_rules! scenarios {
    ($($seeds:expr => $($name:ident),+;)+) => {
        $($(fn $name() {
            explore(concat!("schedules::", stringify!($name)), scenarios::$name, $seeds);
        })+)+

        crate::harness::cases!($($($name),+),+);
    };
}

scenarios! {
    1..501 =>
        release_under_eviction,
        release_under_expiry,
        close_under_transfers,
        close_under_commit,
        drop_inside_a_completion_handler,
        reclaim_under_recording,
        two_devices,
        figures_under_work;
    1..6 =>
        race_of_releases_evictions_and_purges;
    1..61 =>
        race_of_a_close_and_transfers,
        race_of_a_close_and_commits;
}
