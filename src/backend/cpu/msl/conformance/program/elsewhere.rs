//! The same programs through the public facade, on a device that is not the processor.

use std::env;
use std::sync::OnceLock;

use half::f16;

use super::{Element, Program, bytes, source};
use crate::kernel::{Argument, Constant, Dispatch, Grid, Library};
use crate::{Buffer, Device, Error, Status};

/// What such a device may say of a program, which is then the processor's alone.
const REFUSED: [&str; 2] = [
    "textures are not supported on this backend",
    "a threadgroup variable with an initializer is not supported on NVIDIA's GPUs",
];
/// Bytes that an argument may have by value.
const MOST_BY_VALUE: usize = 4096;
const MARGIN: usize = 64;

/// The device that `IRONBRIDGE_DEVICE` names, if that is a GPU.
pub fn device() -> Option<&'static Device> {
    static DEVICE: OnceLock<Option<Device>> = OnceLock::new();
    let open = || {
        let name = env::var("IRONBRIDGE_DEVICE").ok()?;
        let is_gpu = name.starts_with("nvidia") || name.starts_with("metal");
        is_gpu.then(|| Device::open(&name).unwrap_or_else(|error| panic!("{error}")))
    };
    DEVICE.get_or_init(open).as_ref()
}

fn constant((index, data_type, value): &(u32, u32, Vec<u8>)) -> Constant {
    match (data_type, &value[..]) {
        (3, &[a, b, c, d]) => Constant::at(*index, f32::from_ne_bytes([a, b, c, d])),
        (16, &[a, b]) => Constant::at(*index, f16::from_ne_bytes([a, b])),
        (35, words) => {
            let words = words
                .chunks_exact(4)
                .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
            let three: [u32; 3] = words.collect::<Vec<_>>().try_into().expect("three words");
            Constant::at(*index, three)
        }
        (53, &[value]) => Constant::at(*index, value != 0),
        other => panic!("no program had a constant like {other:?}"),
    }
}

/// The output, or `None` when the device says that it lacks what the program needs.
pub fn run<T: Element>(program: &Program, device: &Device, count: usize) -> Option<Vec<T>> {
    if let Some(reason) = program.only_here {
        println!("the processor's alone: {reason}");
        return None;
    }
    let constants: Vec<Constant> = program.constants.iter().map(constant).collect();
    let kernel = Library::from_source(device, &source(program.body))
        .and_then(|library| library.kernel_with(program.kernel, &constants));
    let kernel = match kernel {
        Ok(kernel) => kernel,
        Err(error) => {
            let text = error.to_string();
            let reason = REFUSED.into_iter().find(|reason| text.contains(reason));
            println!("{}", reason.unwrap_or_else(|| panic!("{text}")));
            return None;
        }
    };
    let once = |by_value| once::<T>(program, device, &kernel, count, by_value);
    let first = match once(false) {
        Ok(output) => output,
        Err(error) => {
            let empty = program.grid.contains(&0);
            assert!(
                empty && error.status() == Some(Status::InvalidArgument),
                "{error}"
            );
            println!("the facade takes no empty grid");
            return None;
        }
    };
    let second = once(true).unwrap_or_else(|error| panic!("{error}"));
    assert!(
        bytes(&first) == bytes(&second),
        "by value: {second:?} is not {first:?}"
    );
    Some(first)
}

/// Runs it with inputs in buffers, or short ones by value.
fn once<T: Element>(
    program: &Program,
    device: &Device,
    kernel: &crate::kernel::Kernel,
    count: usize,
    by_value: bool,
) -> Result<Vec<T>, Error> {
    let poison = bytes(&vec![T::POISON; count + 2 * MARGIN]);
    let output = device.buffer_from(&poison)?;
    let is_value = |input: &[u8]| by_value && input.len() <= MOST_BY_VALUE;
    let mut buffers: Vec<(u32, Buffer<u8>)> = Vec::new();
    for (index, input) in program.inputs.iter().filter(|it| !is_value(&it.1)) {
        let mut input = input.clone();
        input.resize(input.len().next_multiple_of(16), 0);
        buffers.push((*index as u32, device.buffer_from(&input)?));
    }
    let mut arguments = vec![Argument::read_write(0, &output).offset(MARGIN * size_of::<T>())];
    arguments.extend(
        buffers
            .iter()
            .map(|(index, it)| Argument::read_write(*index, it)),
    );
    let values = program.inputs.iter().filter(|it| is_value(&it.1));
    arguments.extend(values.map(|(index, input)| Argument::values(*index as u32, input)));
    let memory = program.memory.iter().enumerate().filter(|it| *it.1 > 0);
    arguments.extend(memory.map(|(index, length)| {
        Argument::threadgroup(index as u32, length.next_multiple_of(16) as usize)
    }));
    let dispatch = Dispatch {
        arguments: &arguments,
        grid: match program.threads {
            true => Grid::Threads(program.grid),
            false => Grid::Threadgroups(program.grid),
        },
        threadgroup: program.threadgroup,
    };
    let mut commands = device.commands()?;
    // SAFETY: the programs of these tests stay within their buffers, which the tests on the processor check.
    unsafe { commands.dispatch(kernel, &dispatch) }?;
    commands.run()?;
    let found = output.to_vec()?;
    let (margin, length) = (MARGIN * size_of::<T>(), count * size_of::<T>());
    let (inside, behind) = (margin..margin + length, margin + length..);
    assert!(found[..margin] == poison[..margin] && found[behind] == poison[..margin]);
    let mut values = vec![T::POISON; count];
    // SAFETY: as many bytes of numbers, of which any are values.
    unsafe {
        let bytes = &found[inside];
        values
            .as_mut_ptr()
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), length);
    }
    Ok(values)
}
