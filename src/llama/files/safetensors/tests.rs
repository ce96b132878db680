//! Files made here, and what becomes of them when a byte is wrong.

use proptest::prelude::*;

use super::*;

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + data, 0xAB);
    file
}

const HEADER: &str = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  "#;

#[test]
fn tensors_are_read_in_their_order() {
    let header = SafetensorsHeader::parse(&file(HEADER, 20)).unwrap();
    let [a, b] = header.tensors() else {
        panic!("two tensors")
    };
    let start = 8 + HEADER.len() as u64;
    assert_eq!((a.name.as_str(), a.bytes.clone()), ("a", start..start + 8));
    assert_eq!(
        (b.dtype, &b.shape[..]),
        (SafetensorsDtype::BF16, &[2, 3][..])
    );
    assert_eq!(b.bytes, start + 8..start + 20);
}

#[test]
fn a_file_cut_anywhere_is_an_error_at_a_byte_of_it() {
    let file = file(HEADER, 20);
    for length in 0..file.len() {
        let error = SafetensorsHeader::parse(&file[..length]).unwrap_err();
        assert!(error.offset <= length as u64 + 8, "{error}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    let one = |entry: &str, data: usize| {
        SafetensorsHeader::parse(&file(&format!("{{\"a\":{entry}}}"), data))
            .unwrap_err()
            .to_string()
    };
    for (entry, data, part) in [
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#,
            7,
            "ends at byte 8",
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#,
            9,
            "have 9",
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[4,12]}"#,
            12,
            "starts at byte 4",
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[8,0]}"#,
            8,
            "needs 8",
        ),
        (
            r#"{"dtype":"F32","shape":[3],"data_offsets":[0,8]}"#,
            8,
            "needs 12",
        ),
        (
            r#"{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}"#,
            0,
            "64 bits",
        ),
        (
            r#"{"dtype":"F4","shape":[2],"data_offsets":[0,8]}"#,
            8,
            "dtype",
        ),
        (
            r#"{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}"#,
            8,
            "invalid",
        ),
        (
            r#"{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}"#,
            8,
            "dimensions",
        ),
        (r#"{"dtype":"F32","shape":[2]}"#, 8, "data_offsets"),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}"#,
            8,
            "unknown",
        ),
        ("[]", 0, "invalid"),
    ] {
        let error = one(entry, data);
        assert!(error.contains(part), "{entry}: {error}");
    }
    let entry = r#"{"dtype":"F32","shape":[0],"data_offsets":[0,0]}"#;
    let twice = format!("{{\"a\":{entry},\"a\":{entry}}}");
    let error = SafetensorsHeader::parse(&file(&twice, 0)).unwrap_err();
    assert_eq!(
        error.kind,
        SafetensorsErrorKind::DuplicateTensor("a".to_owned())
    );
    let long = SafetensorsHeader::parse(&[0xFF; 64]).unwrap_err();
    assert!(matches!(
        long.kind,
        SafetensorsErrorKind::HeaderTooLong { .. }
    ));
    let deep = SafetensorsHeader::parse(&file(&"[".repeat(100_000), 0)).unwrap_err();
    assert!(matches!(deep.kind, SafetensorsErrorKind::Json(_)));
}

proptest! {
    #[test]
    fn a_changed_file_does_no_harm(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut file = file(HEADER, 20);
        for (index, byte) in changes {
            let position = index.index(file.len());
            file[position] = byte;
        }
        if let Ok(header) = SafetensorsHeader::parse(&file) {
            for tensor in header.tensors() {
                prop_assert!(tensor.bytes.start <= tensor.bytes.end && tensor.bytes.end <= file.len() as u64);
            }
        }
    }
}
