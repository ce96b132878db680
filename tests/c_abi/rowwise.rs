//! The arguments of every operation in ops.def, made wrong in every way that its row tells of.

use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr::null_mut;

use ironbridge::ffi::*;
use serial_test::serial;

use crate::abi::*;
use crate::fixture::*;

#[allow(
    unused_macros,
    unused_imports,
    reason = "the tables hold more than operations"
)]
mod tables {
    include!(concat!(env!("OUT_DIR"), "/tables.rs"));
}
use tables::operations;

/// A row of ops.def.
pub struct Operation {
    pub name: &'static str,
    pub function: &'static str,
    /// What messages call the struct.
    argument: &'static str,
    encode: fn(*mut iron_commands, *const c_void) -> iron_status,
    size: usize,
    values: &'static [Value],
    pub operands: &'static [Operand],
}

pub struct Value {
    kind: &'static str,
    name: &'static str,
    offset: usize,
}

pub struct Operand {
    role: &'static str,
    pub name: &'static str,
    pub offset: usize,
    types: &'static str,
    rows: &'static str,
    width: &'static str,
}

macro_rules! rows {
    ($($name:ident {
        form $form:ident $argument:literal,
        encoder $encode:ident($given:ident),
        values [$($kind:ident($value:ident))*],
        operands [$($role:ident($operand:ident, $types:ident, $rows:tt, $width:tt))*],
        $($rest:tt)*
    })*) => {
        &[$(Operation {
            name: stringify!($name),
            function: stringify!($encode),
            argument: $argument,
            encode: |commands, given| call!($encode(commands, given.cast())),
            size: size_of::<$given>(),
            values: &[$(Value {
                kind: stringify!($kind),
                name: stringify!($value),
                offset: offset_of!($given, $value),
            },)*],
            operands: &[$(Operand {
                role: stringify!($role),
                name: stringify!($operand),
                offset: offset_of!($given, $operand),
                types: stringify!($types),
                rows: stringify!($rows),
                width: stringify!($width),
            },)*],
        },)*]
    };
}

pub const OPERATIONS: &[Operation] = operations!(rows);

impl Operation {
    /// Whether it has kernels for several types.
    pub fn is_of_types(&self) -> bool {
        self.operands.iter().any(|operand| operand.types == "PLAIN")
    }
}

impl Operand {
    fn is_written(&self) -> bool {
        matches!(self.role, "OUT" | "INOUT")
    }

    fn dtype(&self) -> iron_dtype {
        match self.types {
            "U32" => IRON_U32,
            _ => IRON_F32,
        }
    }

    /// Both types have four bytes.
    fn bytes(&self) -> u64 {
        4 * dimension(self.rows) * dimension(self.width)
    }
}

/// What the tests give for a dimension, or the number that stands in its place.
fn dimension(name: &str) -> u64 {
    match name {
        "rows" => 5,
        "width" => 7,
        "vocab" => 3,
        "count" => 35,
        number => number.parse().expect("a dimension or a number"),
    }
}

/// The struct of a call, as words.
#[derive(Clone)]
pub struct Given {
    operation: &'static Operation,
    words: Vec<u64>,
}

impl Given {
    pub fn new(operation: &'static Operation, buffers: &[*mut iron_buffer]) -> Given {
        let mut given = Given {
            operation,
            words: vec![0; operation.size.div_ceil(8)],
        };
        *given.at::<usize>(0) = operation.size;
        for value in operation
            .values
            .iter()
            .filter(|value| value.kind == "DIMENSION")
        {
            *given.at(value.offset) = dimension(value.name);
        }
        for value in operation.values.iter().filter(|value| value.kind == "STEP") {
            *given.at(value.offset) = 1u64;
        }
        for (operand, buffer) in operation.operands.iter().zip(buffers) {
            *given.at(operand.offset) = tensor(*buffer, operand.dtype());
        }
        given
    }

    pub fn at<T>(&mut self, offset: usize) -> &mut T {
        assert!(offset + size_of::<T>() <= self.operation.size);
        // SAFETY: the offset is that of a field of this type, within the struct.
        unsafe { &mut *self.words.as_mut_ptr().byte_add(offset).cast() }
    }

    /// The call with one field changed must fail with a message about `subject`.
    #[track_caller]
    fn fails<T>(
        &self,
        commands: *mut iron_commands,
        (offset, change): (usize, impl FnOnce(&mut T)),
        status: iron_status,
        subject: &str,
    ) {
        let mut given = self.clone();
        change(given.at(offset));
        println!("{}: {subject}", self.operation.name); // shown with a failure
        fails(given.call(commands), status, subject);
    }

    pub fn call(&self, commands: *mut iron_commands) -> iron_status {
        (self.operation.encode)(commands, self.words.as_ptr().cast())
    }
}

/// A buffer for each operand, without a byte to spare.
fn buffers(device: *mut iron_device, operation: &Operation) -> Vec<*mut iron_buffer> {
    let operands = operation.operands.iter();
    operands
        .map(|operand| buffer(device, operand.bytes()))
        .collect()
}

#[test]
#[serial]
fn right_arguments_are_recorded() {
    let fixture = Fixture::new();
    let commands = begin(fixture.device);
    for operation in OPERATIONS {
        let buffers = buffers(fixture.device, operation);
        println!("{}", operation.name);
        ok(Given::new(operation, &buffers).call(commands));
        for buffer in buffers {
            release_buffer(buffer);
        }
    }
    assert_eq!(describe(commands).operations, OPERATIONS.len() as u32);
    commit_and_wait(commands);
    release_commands(commands);
    fixture.finish();
}

#[test]
#[serial]
fn values_that_are_out_of_range() {
    let fixture = Fixture::new();
    let commands = fixture.commands;
    for operation in OPERATIONS {
        fails(
            (operation.encode)(commands, std::ptr::null()),
            IRON_ERROR_INVALID_ARGUMENT,
            operation.argument,
        );
        let buffers = buffers(fixture.device, operation);
        let right = Given::new(operation, &buffers);
        let invalid = |change| {
            right.fails(
                commands,
                change,
                IRON_ERROR_INVALID_ARGUMENT,
                operation.argument,
            )
        };
        invalid((0, |size: &mut usize| *size = 0));
        for value in operation.values {
            let name = value.name;
            let invalid =
                |subject: &str| (IRON_ERROR_INVALID_ARGUMENT, format!("{name}: {subject}"));
            match value.kind {
                "DIMENSION" => {
                    for (wrong, subject) in [(0, "is 0"), (1 << 32, "4294967296"), (u64::MAX, "")] {
                        let (status, subject) = invalid(subject);
                        right.fails(
                            commands,
                            (value.offset, |it: &mut u64| *it = wrong),
                            status,
                            &subject,
                        );
                    }
                    // The buffers have no byte to spare.
                    let has = |operand: &&Operand| [operand.rows, operand.width].contains(&name);
                    let first = operation.operands.iter().find(has);
                    let first = first.expect("an operand of that dimension").name;
                    let more = |it: &mut u64| *it += 1;
                    right.fails(
                        commands,
                        (value.offset, more),
                        IRON_ERROR_OUT_OF_RANGE,
                        &format!("{first}: "),
                    );
                }
                "STEP" => {
                    for (wrong, subject) in [(0, "is 0"), (1 << 32, "4294967296")] {
                        let (status, subject) = invalid(subject);
                        let change = |it: &mut u64| *it = wrong;
                        right.fails(commands, (value.offset, change), status, &subject);
                    }
                }
                kind => {
                    let (least, most) = match kind {
                        "SCALE" => (f32::NEG_INFINITY, f32::INFINITY),
                        "NOT_NEGATIVE" => (-1.0, f32::INFINITY),
                        "FRACTION" => (-0.25, 1.0),
                        _ => panic!("{kind} is no kind of values"),
                    };
                    for wrong in [f32::NAN, f32::INFINITY, least, most] {
                        let (status, subject) = invalid("is ");
                        right.fails(
                            commands,
                            (value.offset, |it: &mut f32| *it = wrong),
                            status,
                            &subject,
                        );
                    }
                }
            }
        }
        for buffer in buffers {
            release_buffer(buffer);
        }
    }
    fixture.finish();
}

#[test]
#[serial]
fn operands_that_do_not_fit() {
    let fixture = Fixture::new();
    let commands = fixture.commands;
    let other = open("cpu");
    let foreign = buffer(other, 4096);
    let mut read_only = null_mut();
    let options = iron_buffer_options {
        read_only: 1,
        ..buffer_options()
    };
    ok(call!(iron_buffer_wrap(
        fixture.device,
        page(),
        page_size(),
        None,
        null_mut(),
        &options,
        &mut read_only
    )));
    for operation in OPERATIONS {
        let buffers = buffers(fixture.device, operation);
        let right = Given::new(operation, &buffers);
        for operand in operation.operands {
            let wrong = |change: &dyn Fn(&mut iron_tensor), status, subject: &str| {
                let subject = format!("{}: {subject}", operand.name);
                right.fails(commands, (operand.offset, change), status, &subject);
            };
            let bytes = operand.bytes();
            wrong(&|it| it.buffer = null_mut(), IRON_ERROR_INVALID_HANDLE, "");
            wrong(&|it| it.buffer = foreign, IRON_ERROR_WRONG_DEVICE, "");
            wrong(&|it| it.dtype = 0, IRON_ERROR_INVALID_ARGUMENT, "dtype 0");
            wrong(&|it| it.dtype = 99, IRON_ERROR_INVALID_ARGUMENT, "dtype 99");
            wrong(&|it| it.dtype = IRON_Q8_0, IRON_ERROR_SHAPE, "Q8_0");
            wrong(&|it| it.offset = 2, IRON_ERROR_INVALID_ARGUMENT, "offset 2");
            wrong(&|it| it.offset = 4, IRON_ERROR_OUT_OF_RANGE, "");
            wrong(&|it| it.offset = bytes, IRON_ERROR_OUT_OF_RANGE, "");
            wrong(
                &|it| it.offset = u64::MAX - 3,
                IRON_ERROR_INVALID_ARGUMENT,
                "its size overflows",
            );
            if operand.rows != "1" {
                wrong(&|it| it.row_stride = 8, IRON_ERROR_OUT_OF_RANGE, "");
                wrong(
                    &|it| it.row_stride = u64::MAX,
                    IRON_ERROR_INVALID_ARGUMENT,
                    "its size overflows",
                );
            }
            if !operand.is_written() {
                continue;
            }
            wrong(&|it| it.buffer = read_only, IRON_ERROR_READ_ONLY, "");
            if operand.rows != "1" {
                wrong(&|it| it.row_stride = 1, IRON_ERROR_SHAPE, "row_stride 1");
            }
            if operand.types == "PLAIN" {
                let first = operation.operands[0].name;
                wrong(
                    &|it| it.dtype = IRON_U32,
                    IRON_ERROR_SHAPE,
                    &format!("is U32, {first} is F32"),
                );
            }
        }
        for buffer in buffers {
            release_buffer(buffer);
        }
    }
    release_buffer(read_only);
    release_buffer(foreign);
    release_device(other);
    fixture.finish();
}

#[test]
#[serial]
fn outputs_over_inputs() {
    let fixture = Fixture::new();
    let commands = begin(fixture.device);
    let mut recorded = 0u32;
    let outputs = OPERATIONS.iter().flat_map(|operation| {
        let all = operation.operands.iter().enumerate();
        let outputs = all.filter(|(_, operand)| operand.is_written());
        outputs.map(move |(place, out)| (operation, place, out))
    });
    for (operation, place, out) in outputs {
        for (index, input) in operation.operands[..place].iter().enumerate() {
            // Room for both of them side by side.
            let wide = buffer(fixture.device, input.bytes() + out.bytes());
            let mut buffers = buffers(fixture.device, operation);
            let own = [index, place].map(|index| std::mem::replace(&mut buffers[index], wide));
            let mut given = Given::new(operation, &buffers);
            let overlaps = format!("{}: overlaps {}", out.name, input.name);
            println!("{}: {overlaps}", operation.name);
            match input.role {
                "REUSED" => ok(given.call(commands)),
                _ => fails(given.call(commands), IRON_ERROR_INVALID_ARGUMENT, &overlaps),
            }
            // All elements of the input but the first one.
            if input.bytes() > 4 {
                given.at::<iron_tensor>(out.offset).offset = 4;
                fails(given.call(commands), IRON_ERROR_INVALID_ARGUMENT, &overlaps);
            }
            given.at::<iron_tensor>(out.offset).offset = input.bytes();
            ok(given.call(commands));
            recorded += 1 + u32::from(input.role == "REUSED");
            for buffer in buffers
                .into_iter()
                .filter(|buffer| *buffer != wide)
                .chain(own)
                .chain([wide])
            {
                release_buffer(buffer);
            }
        }
    }
    assert_eq!(describe(commands).operations, recorded);
    commit_and_wait(commands);
    release_commands(commands);
    fixture.finish();
}
