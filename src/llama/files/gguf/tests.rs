//! Files made here byte by byte, and what becomes of them when a byte is wrong.

use proptest::prelude::*;

use super::*;

/// Writes GGUF the way the format's description says.
struct Writer(Vec<u8>);

impl Writer {
    fn new(version: u32, tensors: u64, entries: u64) -> Writer {
        let mut writer = Writer(b"GGUF".to_vec());
        writer.u32(version);
        writer.u64(tensors);
        writer.u64(entries);
        writer
    }

    fn u32(&mut self, value: u32) -> &mut Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn string(&mut self, text: &[u8]) -> &mut Writer {
        self.u64(text.len() as u64);
        self.0.extend(text);
        self
    }

    fn entry(&mut self, key: &str, value_type: ValueType, value: &[u8]) -> &mut Writer {
        self.string(key.as_bytes()).u32(value_type as u32);
        self.0.extend(value);
        self
    }

    fn tensor(
        &mut self,
        name: &str,
        dimensions: &[u64],
        tensor_type: u32,
        offset: u64,
    ) -> &mut Writer {
        self.string(name.as_bytes()).u32(dimensions.len() as u32);
        for size in dimensions {
            self.u64(*size);
        }
        self.u32(tensor_type).u64(offset)
    }

    /// Pads to `alignment` and adds `data` bytes.
    fn data(&mut self, alignment: usize, data: usize) -> Vec<u8> {
        let start = self.0.len().next_multiple_of(alignment);
        self.0.resize(start + data, 0xAB);
        self.0.clone()
    }
}

/// A file with a value of every type and two tensors: 64 Q8_0 weights (68 bytes) and three floats.
fn sample() -> Vec<u8> {
    let mut file = Writer::new(3, 2, 15);
    file.entry("u8", ValueType::U8, &[200])
        .entry("i8", ValueType::I8, &[0xFF])
        .entry("u16", ValueType::U16, &[1, 2])
        .entry("i16", ValueType::I16, &[0xFE, 0xFF])
        .entry("u32", ValueType::U32, &[1, 0, 0, 0])
        .entry("i32", ValueType::I32, &[5, 0, 0, 0])
        .entry("f32", ValueType::F32, &1.5f32.to_le_bytes())
        .entry("bool", ValueType::Bool, &[1])
        .entry("u64", ValueType::U64, &[0, 0, 0, 0, 1, 0, 0, 0])
        .entry("i64", ValueType::I64, &[0xFF; 8])
        .entry("f64", ValueType::F64, &0.25f64.to_le_bytes())
        .entry("string", ValueType::String, b"\x05\0\0\0\0\0\0\0llama")
        .entry("general.alignment", ValueType::U32, &64u32.to_le_bytes());
    file.entry("strings", ValueType::Array, &[])
        .u32(ValueType::String as u32)
        .u64(2)
        .string(b"a")
        .string(b"\xFF\xFE");
    file.entry("nested", ValueType::Array, &[])
        .u32(ValueType::Array as u32)
        .u64(2);
    file.u32(ValueType::F32 as u32)
        .u64(1)
        .u32(1f32.to_bits())
        .u32(ValueType::U8 as u32)
        .u64(0);
    file.tensor("weight", &[32, 2], 8, 0)
        .tensor("norm", &[3], 0, 128)
        .data(64, 128 + 12)
}

fn kind(file: &[u8]) -> GgufErrorKind {
    GgufHeader::parse(file).expect_err("the file is wrong").kind
}

#[test]
fn every_type_is_read() {
    let file = sample();
    let header = GgufHeader::parse(&file).unwrap();
    assert_eq!(header.version(), 3);
    let metadata = header.metadata();
    assert_eq!(metadata.iter().len(), 15);
    assert_eq!(metadata.alignment(), 64);
    for (key, value) in [
        ("u8", 200),
        ("u16", 0x201),
        ("u32", 1),
        ("i32", 5),
        ("u64", 1 << 32),
    ] {
        assert_eq!(metadata.require::<u64>(key), Ok(value), "{key}");
    }
    assert_eq!(metadata.value("i8"), Some(&Value::I8(-1)));
    assert_eq!(metadata.value("i16"), Some(&Value::I16(-2)));
    assert_eq!(metadata.value("i64"), Some(&Value::I64(-1)));
    assert_eq!(metadata.require::<f32>("f32"), Ok(1.5));
    assert_eq!(metadata.require::<f32>("f64"), Ok(0.25));
    assert_eq!(metadata.require::<bool>("bool"), Ok(true));
    assert_eq!(metadata.require::<&str>("string"), Ok("llama"));
    let strings: &[Box<[u8]>] = metadata.require("strings").unwrap();
    assert_eq!(strings, [Box::from(*b"a"), Box::from(*b"\xFF\xFE")]);
    let nested = Array::Array(vec![Array::F32(vec![1.0]), Array::U8(Vec::new())]);
    assert_eq!(metadata.value("nested"), Some(&Value::Array(nested)));

    let weight = header.tensor("weight").unwrap();
    assert_eq!(weight.tensor_type(), TensorType::Q8_0);
    assert_eq!(weight.dimensions(), [32, 2]);
    assert_eq!(weight.elements(), 64);
    let norm = header.tensor("norm").unwrap();
    assert_eq!(weight.bytes().end - weight.bytes().start, 68);
    assert_eq!(norm.bytes().start - weight.bytes().start, 128);
    assert_eq!(norm.bytes().end, file.len() as u64);
    assert_eq!(weight.bytes().start % 64, 0);
}

#[test]
fn version_2_is_version_3() {
    let mut file = sample();
    file[4] = 2;
    let (two, three) = (
        GgufHeader::parse(&file).unwrap(),
        GgufHeader::parse(&sample()).unwrap(),
    );
    assert_eq!(two.version(), 2);
    assert_eq!(two.metadata(), three.metadata());
    assert_eq!(two.tensors(), three.tensors());
}

#[test]
fn a_wrong_type_or_range_is_an_error_that_names_the_key() {
    let header = GgufHeader::parse(&sample()).unwrap();
    let metadata = header.metadata();
    assert_eq!(metadata.get::<u32>("absent"), Ok(None));
    let missing = metadata.require::<u32>("absent").unwrap_err();
    assert_eq!(missing, MetadataError::Missing("absent".to_owned()));
    for (message, found) in [
        (
            metadata.require::<u32>("u64").unwrap_err(),
            "u64 4294967296",
        ),
        (metadata.require::<u32>("i8").unwrap_err(), "a negative i8"),
        (metadata.require::<u32>("f32").unwrap_err(), "f32 1.5"),
        (
            metadata.require::<u32>("strings").unwrap_err(),
            "array of 2 string",
        ),
    ] {
        let text = message.to_string();
        assert!(text.contains(found), "{text}");
    }
    assert!(metadata.require::<f32>("u32").is_err());
    assert!(metadata.require::<bool>("u8").is_err());
    assert!(metadata.require::<&str>("bool").is_err());
    assert!(metadata.require::<&[f32]>("strings").is_err());
}

#[test]
fn a_file_cut_anywhere_is_an_error_at_a_byte_of_it() {
    let file = sample();
    for length in 0..file.len() {
        let error = GgufHeader::parse(&file[..length]).expect_err("a cut file");
        assert!(error.offset <= length as u64, "{length}: {error}");
    }
    GgufHeader::parse(&file).unwrap();
}

/// What a caller relies on when a header was read.
fn assert_consistent(header: &GgufHeader, length: u64) {
    let mut end = 0;
    let mut tensors: Vec<_> = header.tensors().iter().collect();
    tensors.sort_by_key(|tensor| tensor.bytes().start);
    for tensor in tensors {
        let bytes = tensor.bytes();
        assert!(end <= bytes.start && bytes.start <= bytes.end && bytes.end <= length);
        let blocks = tensor.elements() / tensor.tensor_type().block_length();
        assert_eq!(
            bytes.end - bytes.start,
            blocks * tensor.tensor_type().block_size()
        );
        assert_eq!(header.tensor(tensor.name()), Some(tensor));
        end = bytes.end;
    }
}

#[test]
fn any_bit_of_the_header_may_flip() {
    let file = sample();
    let data_start = GgufHeader::parse(&file).unwrap().tensors()[0].bytes().start as usize;
    let mut refused = 0;
    for position in 0..data_start {
        for bit in 0..8 {
            let mut flipped = file.clone();
            flipped[position] ^= 1 << bit;
            match GgufHeader::parse(&flipped) {
                Ok(header) => assert_consistent(&header, flipped.len() as u64),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(
        refused > data_start,
        "most of the header matters: {refused}"
    );
}

#[test]
fn extreme_numbers_in_every_field_are_refused() {
    let file = sample();
    let data_start = GgufHeader::parse(&file).unwrap().tensors()[0].bytes().start as usize;
    for position in 0..data_start - 8 {
        for value in [
            u64::MAX,
            i64::MAX as u64,
            1 << 62,
            u64::from(u32::MAX),
            1 << 40,
        ] {
            let mut changed = file.clone();
            changed[position..position + 8].copy_from_slice(&value.to_le_bytes());
            if let Ok(header) = GgufHeader::parse(&changed) {
                assert_consistent(&header, changed.len() as u64);
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(GgufHeader::parse(&bytes).is_err());
    }

    #[test]
    fn random_bytes_after_a_right_start_do_no_harm(
        version in 2u32..4,
        tensors in 0u64..4,
        entries in 0u64..4,
        bytes in proptest::collection::vec(prop_oneof![3 => 0u8..16, 1 => any::<u8>()], 0..512),
    ) {
        let mut file = Writer::new(version, tensors, entries);
        file.0.extend(bytes);
        if let Ok(header) = GgufHeader::parse(&file.0) {
            assert_consistent(&header, file.0.len() as u64);
        }
    }

    #[test]
    fn a_changed_file_does_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut file = sample();
        for (index, byte) in changes {
            let position = index.index(file.len());
            file[position] = byte;
        }
        if let Ok(header) = GgufHeader::parse(&file) {
            assert_consistent(&header, file.len() as u64);
        }
    }
}

#[test]
fn the_start_is_checked() {
    let found = *b"GGML";
    assert_eq!(kind(b"GGML\x03\0\0\0"), GgufErrorKind::Magic { found });
    for version in [0, 1, 4, u32::MAX] {
        assert_eq!(
            kind(&Writer::new(version, 0, 0).0),
            GgufErrorKind::Version(version)
        );
    }
    assert_eq!(
        kind(&Writer::new(3u32.swap_bytes(), 0, 0).0),
        GgufErrorKind::BigEndian
    );
}

#[test]
fn counts_are_held_against_the_file_before_anything_is_allocated() {
    for (tensors, entries) in [
        (u64::MAX, 0),
        (0, u64::MAX),
        (1 << 16, 0),
        (0, 1 << 16),
        (1, 0),
    ] {
        let error = GgufHeader::parse(&Writer::new(3, tensors, entries).0).unwrap_err();
        let refused = matches!(
            error.kind,
            GgufErrorKind::TooLarge { .. } | GgufErrorKind::Truncated { .. }
        );
        assert!(refused && (8..=16).contains(&error.offset), "{error}");
    }
    let mut long = Writer::new(3, 0, 1);
    long.entry("x", ValueType::Array, &[])
        .u32(ValueType::U8 as u32)
        .u64(limits::ARRAY + 1);
    assert!(matches!(
        kind(&long.0),
        GgufErrorKind::TooLarge {
            limit: limits::ARRAY,
            ..
        }
    ));
}

#[test]
fn metadata_is_checked() {
    let mut file = Writer::new(3, 0, 2);
    file.entry("x", ValueType::U8, &[1])
        .entry("x", ValueType::U8, &[1]);
    assert_eq!(kind(&file.0), GgufErrorKind::DuplicateKey("x".to_owned()));

    let mut file = Writer::new(3, 0, 1);
    file.string(b"\xFF").u32(0).0.push(0);
    assert_eq!(kind(&file.0), GgufErrorKind::NotUtf8("metadata key"));

    let mut file = Writer::new(3, 0, 1);
    file.string(b"x").u32(13).0.push(0);
    assert_eq!(kind(&file.0), GgufErrorKind::UnknownValueType(13));

    let mut file = Writer::new(3, 0, 1);
    assert_eq!(
        kind(&file.entry("x", ValueType::Bool, &[2]).0),
        GgufErrorKind::Boolean(2)
    );

    let mut file = Writer::new(3, 0, 1);
    file.entry("x", ValueType::Array, &[]);
    for _ in 0..1000 {
        file.u32(ValueType::Array as u32).u64(1);
    }
    let too_deep = GgufErrorKind::Nesting(ValueType::Array, limits::NESTING);
    assert_eq!(kind(&file.0), too_deep);

    for bytes in [0u32, 1, 4, 24, 48, 1 << 21, u32::MAX] {
        let mut file = Writer::new(3, 0, 1);
        let error = kind(
            &file
                .entry("general.alignment", ValueType::U32, &bytes.to_le_bytes())
                .0,
        );
        assert!(
            matches!(error, GgufErrorKind::Alignment { .. }),
            "{bytes}: {error}"
        );
    }
    let mut file = Writer::new(3, 0, 1);
    let error = kind(
        &file
            .entry("general.alignment", ValueType::U64, &32u64.to_le_bytes())
            .0,
    );
    assert!(matches!(error, GgufErrorKind::Alignment { .. }));
}

#[test]
fn tensors_are_checked() {
    let name = || "t".to_owned();
    let one = |dimensions: &[u64], tensor_type, offset, data| {
        let mut file = Writer::new(3, 1, 0);
        kind(
            &file
                .tensor("t", dimensions, tensor_type, offset)
                .data(32, data),
        )
    };
    assert_eq!(
        one(&[], 0, 0, 64),
        GgufErrorKind::DimensionCount {
            name: name(),
            found: 0
        }
    );
    assert_eq!(
        one(&[1; 5], 0, 0, 64),
        GgufErrorKind::DimensionCount {
            name: name(),
            found: 5
        }
    );
    assert_eq!(
        one(&[4, 0], 0, 0, 64),
        GgufErrorKind::ZeroDimension {
            name: name(),
            index: 1
        }
    );
    for number in [4, 5, 31, 38, 42, u32::MAX] {
        assert_eq!(
            one(&[4], number, 0, 64),
            GgufErrorKind::UnknownTensorType {
                name: name(),
                number
            }
        );
    }
    let partial = one(&[33], 8, 0, 64);
    assert!(matches!(
        partial,
        GgufErrorKind::PartialBlock { columns: 33, .. }
    ));
    for dimensions in [[1 << 32, 1 << 32], [u64::MAX, 1], [1 << 62, 1]] {
        assert_eq!(
            one(&dimensions, 0, 0, 64),
            GgufErrorKind::TensorOverflow(name())
        );
    }
    assert_eq!(
        one(&[4], 0, u64::MAX - 7, 64),
        GgufErrorKind::TensorOverflow(name())
    );
    let misaligned = one(&[4], 0, 16, 64);
    assert!(matches!(
        misaligned,
        GgufErrorKind::TensorMisaligned { found: 16, .. }
    ));
    for (offset, data) in [(0, 15), (64, 64), (u64::MAX - 63, 64)] {
        let outside = one(&[4], 0, offset, data);
        assert!(
            matches!(outside, GgufErrorKind::TensorOutsideFile { .. }),
            "{outside}"
        );
    }

    let two = |first: &str, second: &str, offset| {
        let mut file = Writer::new(3, 2, 0);
        file.tensor(first, &[16], 0, 0)
            .tensor(second, &[16], 0, offset);
        GgufHeader::parse(&file.data(32, 128))
    };
    assert_eq!(
        two("a", "a", 64).unwrap_err().kind,
        GgufErrorKind::DuplicateTensor("a".to_owned())
    );
    let overlap = two("a", "b", 32).unwrap_err().kind;
    assert!(matches!(overlap, GgufErrorKind::TensorOverlap { .. }));
    assert!(two("a", "b", 64).is_ok());
}

#[test]
fn the_sizes_of_blocks_are_those_of_ggml() {
    // Bits per weight that GGML's documentation states.
    for (tensor_type, bits) in [
        (TensorType::F16, 16.0),
        (TensorType::Q4_0, 4.5),
        (TensorType::Q8_0, 8.5),
        (TensorType::Q4_K, 4.5),
        (TensorType::Q5_K, 5.5),
        (TensorType::Q6_K, 6.5625),
        (TensorType::IQ4_NL, 4.5),
        (TensorType::MXFP4, 4.25),
    ] {
        let measured = tensor_type.block_size() as f64 * 8.0 / tensor_type.block_length() as f64;
        assert_eq!(measured, bits, "{tensor_type}");
    }
    for tensor_type in TensorType::ALL {
        assert_eq!(
            TensorType::from_number(*tensor_type as u32),
            Some(*tensor_type)
        );
    }
}
