//! These tests once more on a second backend, and a backend that fails in the middle of a list.
#![cfg(target_os = "linux")]

#[path = "../second_backend/mod.rs"]
mod suite;

use ironbridge::llama::{Model, Sampler, SamplerOptions, Session};
use ironbridge::ops::Elementwise;
use ironbridge::{Device, Error, Status};

use crate::support::assert_status;

/// The tests that fail there, and why they may.
const EXCEPTIONS: &[(&str, &str)] = &[(
    "lifetimes::the_list_ends_with_the_software_device_and_each_opens_by_index",
    "it expects unified memory, which that backend has not",
)];

#[test]
fn every_test_passes_on_a_second_backend() {
    suite::suite_passes(
        "second_backend::every_test_passes_on_a_second_backend",
        EXCEPTIONS,
    );
}

/// Doubles a value four times in one submission, so that a part of the list shows in the numbers.
fn four_additions(device: &Device, options: usize) -> Result<(), Error> {
    let x = device.buffer_from(&[options as f32; 64])?;
    let mut commands = device.commands()?;
    for _ in 0..4 {
        commands.add(&Elementwise::new(
            x.tensor().vector(64),
            x.tensor().vector(64),
            x.tensor().vector(64),
        ))?;
    }
    let pending = commands.commit()?;
    match pending.wait() {
        Ok(()) => {
            assert_eq!(x.to_vec()?, [16.0 * options as f32; 64]);
            Ok(())
        }
        Err(error) => {
            assert_status(x.to_vec(), Status::Poisoned);
            pending.wait().expect("reported once");
            Err(error)
        }
    }
}

#[test]
fn a_failure_in_the_middle_of_a_list_is_a_typed_error() {
    let device = Device::open(&suite::selector("fail=3,asynchronous=5")).expect("it opens");
    let failures: Vec<Error> = (1..=60)
        .filter_map(|round| four_additions(&device, round).err())
        .collect();
    assert!((5..40).contains(&failures.len()), "{}", failures.len());
    for error in failures {
        let message = error
            .failure()
            .expect("of the device")
            .message()
            .to_string();
        assert!(message.contains("planted in the middle"), "{message}");
        match error.status() {
            Some(Status::OutOfMemory) => assert!(matches!(error, Error::OutOfMemory(_))),
            Some(Status::DevicePageFault | Status::DeviceTimeout | Status::DeviceInternal) => {
                assert!(matches!(error, Error::Device(_)));
            }
            other => panic!("{other:?}: {message}"),
        }
    }
    device.sync().expect("all were reported");
}

#[test]
fn a_lost_device_is_a_typed_error_from_then_on() {
    let device = Device::open(&suite::selector("lose=3")).expect("it opens");
    for round in 1..=2 {
        four_additions(&device, round).expect("it is there");
    }
    for round in 3..=5 {
        let error = assert_status(four_additions(&device, round), Status::DeviceLost);
        assert!(matches!(error, Error::Device(_)), "{error}");
    }
    let error = assert_status(device.buffer::<f32>(1 << 20), Status::DeviceLost);
    assert!(error.to_string().contains("fell off the bus"), "{error}");
}

/// The likeliest text after `prompt`: 12 tokens at most.
fn write_text(session: &mut Session, prompt: &[u32]) -> Result<Vec<u32>, Error> {
    let sampler = Sampler::new(SamplerOptions::default()).expect("they are valid");
    let pieces = session.generate(prompt, sampler, 12);
    pieces.map(|piece| Ok(piece?.token)).collect()
}

const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/assets/tiny-rustbook-q8_0.gguf"
);

/// There the likeliest next token is computed before the host has picked it. What a program does between two texts, and
/// a text that it leaves, must not show in the next one.
#[test]
fn texts_are_the_same_on_a_device_that_guesses_ahead() {
    let texts = ["cpu", &suite::selector("asynchronous=5")].map(|selector| {
        let device = Device::open(selector).expect("it opens");
        let model = Model::open(&device, MODEL).expect("a model");
        let prompts =
            ["Ownership is", "Unsafe", "A slice"].map(|prompt| model.encode_prompt(prompt));
        let mut session = model.session().expect("memory");
        let mut texts = Vec::new();
        for prompt in &prompts {
            let sampler = Sampler::new(SamplerOptions::default()).expect("they are valid");
            let left = session.generate(prompt, sampler, 30).take(3);
            texts.extend(left.map(|piece| piece.expect("there is room").token));
            session.rewind(2);
            texts.extend(write_text(&mut session, prompt).expect("there is room"));
            texts.extend(session.tokens());
        }
        texts
    });
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn a_device_that_is_lost_in_the_middle_of_a_text_is_a_typed_error() {
    let mut errors = 0;
    // Loading takes the first submissions.
    for last in (10..1000).step_by(5) {
        let device = Device::open(&suite::selector(&format!("lose={last},asynchronous=5")));
        let device = device.expect("it opens");
        let Ok(model) = Model::open(&device, MODEL) else {
            continue;
        };
        let mut session = model.session().expect("memory");
        let prompt = model.encode_prompt("Ownership is");
        let Err(error) = write_text(&mut session, &prompt) else {
            break;
        };
        errors += 1;
        assert_eq!(error.status(), Some(Status::DeviceLost), "{error}");
        assert!(write_text(&mut session, &prompt).is_err(), "it is gone");
    }
    assert!(errors > 3, "{errors} texts were broken off");
}

#[test]
fn a_backend_that_cannot_be_opened_says_why() {
    for (selector, said) in [
        (suite::selector("color=red"), "there is no key 'color'"),
        (
            String::from("external:path=/nowhere/libnothing.so"),
            "libnothing.so",
        ),
    ] {
        let error = assert_status(Device::open(&selector), Status::InvalidArgument);
        assert!(error.to_string().contains(said), "{error}");
    }
}
