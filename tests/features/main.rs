//! Builds without some of the crate's features: what is missing is named by an error, and the rest works.
//! `scripts/check-features.sh` runs this with each of them.

#[cfg(any(
    not(feature = "msl"),
    not(any(feature = "software-device", target_vendor = "apple"))
))]
use ironbridge::{Device, Error};

/// The bridge and its operations over Metal alone. Elsewhere there is no device.
#[cfg(not(any(feature = "software-device", target_vendor = "apple")))]
mod without_a_device {
    use super::*;
    use ironbridge::MatmulExecutor;

    #[test]
    fn every_way_to_one_names_the_feature() {
        assert_eq!(Device::list().expect("a list").len(), 0);
        for selector in ["default", "cpu", "nvidia"] {
            let error = Device::open(selector).expect_err("nothing executes");
            assert!(matches!(error, Error::Unsupported(_)), "{error:?}");
            let text = error.to_string();
            assert!(
                text.contains("feature software-device"),
                "{selector}: {text}"
            );
        }
        let error = Device::open("0").expect_err("there is none");
        assert!(matches!(error, Error::NoDevice(_)), "{error:?}");
    }

    #[test]
    fn a_product_is_an_error() {
        let mut c = [0.0_f32];
        let error = MatmulExecutor::new()
            .matmul_f32(&[1.0], &[1.0], &mut c, 1, 1, 1)
            .expect_err("nothing executes");
        assert!(
            error.to_string().contains("feature software-device"),
            "{error}"
        );
    }
}

/// Operations run by their native kernels; other sources have nothing that compiles them.
#[cfg(all(feature = "software-device", not(feature = "msl")))]
mod without_metal_source {
    use super::*;
    use ironbridge::MatmulExecutor;
    use ironbridge::diagnostics::SoftwareDevice;
    use ironbridge::kernel::Library;

    #[test]
    fn operations_run() {
        let (a, b, mut c) = ([1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 1.0, 0.0], [0.0_f32; 4]);
        MatmulExecutor::new()
            .matmul_f32(&a, &b, &mut c, 2, 2, 2)
            .expect("the processor multiplies");
        assert_eq!(c, [2.0, 1.0, 4.0, 3.0]);
    }

    #[test]
    fn a_source_is_refused_and_the_feature_named() {
        let device = Device::open("cpu").expect("the processor");
        let source = "#include <metal_stdlib>\nkernel void user(device int *x) { x[0] = 1; }";
        let error = Library::from_source(&device, source).expect_err("nothing compiles it");
        assert!(matches!(error, Error::Unsupported(_)), "{error:?}");
        assert!(error.to_string().contains("feature msl"), "{error}");
        let error = SoftwareDevice::find().compiler.expect_err("there is none");
        assert!(error.contains("feature msl"), "{error}");
    }
}

/// What a default build has, and all that tests elsewhere.
#[cfg(feature = "msl")]
#[test]
fn metal_source_is_compiled() {
    let device = ironbridge::Device::open("cpu").expect("the processor");
    let source = "#include <metal_stdlib>\nkernel void user(device int *x) { x[0] = 1; }";
    ironbridge::kernel::Library::from_source(&device, source).expect("clang compiles it");
}

#[cfg(all(feature = "llama", feature = "software-device"))]
#[test]
fn models_write() {
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/assets/tiny-rustbook-q8_0.gguf"
    );
    let device = ironbridge::Device::open("cpu").expect("the processor");
    let model = ironbridge::llama::Model::open(&device, model).expect("a model");
    let mut session = model.session().expect("a session");
    let sampler = ironbridge::llama::Sampler::new(Default::default()).expect("a sampler");
    let prompt = model.encode_prompt("Ownership is");
    let text: String = session
        .generate(&prompt, sampler, 4)
        .map(|piece| piece.expect("a token").text)
        .collect();
    assert_eq!(text, " a set of rules");
}
