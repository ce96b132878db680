//! Two gigabytes of GGUF, opened, touched and closed: nothing stays, in one process or in ten. And what long buffers
//! take of memory.

use crate::memory_processes::command;

crate::harness::cases! {
    a_model_of_two_gigabytes_leaves_nothing,
    nor_does_it_in_ten_processes,
    a_cache_takes_as_much_memory_as_was_written,
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.bytes());
}

/// A sparse file: 16 F32 tensors of 128 MiB and one of 64 bytes, all zeros.
fn write_model(path: &std::path::Path) {
    const LARGE: u64 = 128 << 20;
    let mut header = Vec::from(*b"GGUF");
    header.extend(3u32.to_le_bytes());
    header.extend(17u64.to_le_bytes());
    header.extend(0u64.to_le_bytes());
    let mut offset = 0u64;
    for index in 0..17 {
        let bytes = if index == 16 { 64 } else { LARGE };
        text(&mut header, &format!("blk.{index}.weight"));
        header.extend(1u32.to_le_bytes());
        header.extend((bytes / 4).to_le_bytes());
        header.extend(0u32.to_le_bytes());
        header.extend(offset.to_le_bytes());
        offset += bytes;
    }
    let data = (header.len() as u64).next_multiple_of(32);
    let file = std::fs::File::create(path).unwrap();
    std::io::Write::write_all(&mut &file, &header).unwrap();
    file.set_len(data + offset).unwrap();
}

fn play(rounds: &str, runs: usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    write_model(&path);
    assert!(std::fs::metadata(&path).unwrap().len() > 2 << 30);
    let variables = [("MODEL", path.to_str().unwrap()), ("ROUNDS", rounds)];
    for _ in 0..runs {
        let output = command("model", &variables).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        assert_eq!(text, "", "no leaks");
    }
}

fn a_model_of_two_gigabytes_leaves_nothing() {
    play("10", 1);
}

fn nor_does_it_in_ten_processes() {
    play("1", 10);
}

fn a_cache_takes_as_much_memory_as_was_written() {
    let output = command("cache", &[]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}
