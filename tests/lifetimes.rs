//! Handles may be dropped at any time: what still needs an object keeps it alive, and nothing is left over.

mod abi;

use abi::*;
use ironbridge::ffi::*;
use serial_test::serial;

const SHAPE: (usize, usize, usize) = (15, 32, 64);
const DIMENSIONS: (u64, u64, u64) = (15, 32, 64);

#[test]
#[serial]
fn a_matmul_end_to_end() {
    let baseline = Baseline::take();
    let (m, n, k) = SHAPE;
    let (a, b) = (random(m * k, 1), random(k * n, 2));
    let device = open("cpu");
    let (a_buffer, b_buffer) = (buffer_of(device, &a), buffer_of(device, &b));
    let c_buffer = buffer(device, (m * n * 4) as u64);
    let commands = begin(device);
    ok(encode_matmul(
        commands,
        &matmul_of((a_buffer, b_buffer, c_buffer), DIMENSIONS),
    ));
    commit_and_wait(commands);
    close(&read(c_buffer, m * n), &product(&a, &b, SHAPE), k);
    assert_eq!(describe(commands).state, IRON_COMMANDS_COMPLETED);
    release_commands(commands);
    for each in [a_buffer, b_buffer, c_buffer] {
        release_buffer(each);
    }
    release_device(device);
    baseline.holds();
}
