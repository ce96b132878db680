//! The C functions of models, called as bytes say. The handles are right, since a wrong one is refused before anything
//! else; texts, numbers, tokens, lengths and their order are the bytes'.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::LazyLock;

use ironbridge::ffi::*;

/// Tokens and positions that a sequence has room for.
const CONTEXT: u64 = 24;
const SEQUENCES: u32 = 2;
/// Calls of one input.
const CALLS: usize = 64;

/// The calls of the bytes. Says whether all of them succeeded.
pub fn c_calls(bytes: &[u8]) -> bool {
    let mut calls = Calls::new(bytes);
    for _ in 0..CALLS {
        if calls.bytes.is_empty() {
            break;
        }
        calls.next();
    }
    calls.succeeded
}

struct Calls<'a> {
    bytes: &'a [u8],
    session: *mut iron_session,
    tokenizer: *mut iron_tokenizer,
    decoder: *mut iron_decoder,
    succeeded: bool,
    /// Whether all keys and values are computed ones. Those that were restored may be any numbers.
    computed: bool,
}

struct Shared(*mut iron_model);

// SAFETY: the C functions may be called with a model from any thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

static MODEL: LazyLock<Shared> = LazyLock::new(|| {
    let path = CString::new(format!("{}/llama-tiny", super::super::MODELS)).unwrap();
    let (mut device, mut model) = (null_mut(), null_mut());
    // SAFETY: a path with a NUL behind it, and places of the right types.
    unsafe {
        assert_eq!(
            iron_device_open(c"cpu".as_ptr(), null(), &mut device),
            IRON_OK
        );
        assert_eq!(
            iron_model_open(device, path.as_ptr(), null(), &mut model),
            IRON_OK
        );
        iron_device_release(device);
    }
    Shared(model)
});

/// One line for people, behind whatever went wrong.
fn check(function: &str, status: iron_status) -> bool {
    if status == IRON_OK {
        return true;
    }
    // SAFETY: both give a text that ends with a NUL.
    let (name, message) = unsafe {
        let texts = [iron_status_name(status), iron_last_error()];
        texts
            .map(|text| CStr::from_ptr(text).to_str().expect("it is UTF-8"))
            .into()
    };
    assert!(name.starts_with("IRON_ERROR_"), "{function}: {status}");
    assert_ne!(status, IRON_ERROR_INVALID_HANDLE, "{function}: {message}");
    assert!(message.starts_with(function), "{function}: {message:?}");
    assert!(
        message.len() < 4500 && !message.contains(char::is_control),
        "{message:?}"
    );
    false
}

/// Calls a function, notes whether it succeeded, and says so.
macro_rules! call {
    ($calls:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: each pointer is null where that is allowed, or leads to what the header asks for, of that length.
        let done = check(stringify!($name), unsafe { $name($($argument),*) });
        $calls.succeeded &= done;
        done
    }};
}

/// Calls a function that gives a length and fills what room it is given: without room, and with enough.
macro_rules! call_for {
    ($calls:expr, $kind:ty, $name:ident($($argument:expr),* $(,)?)) => {{
        let mut needed = usize::MAX;
        let mut found = Vec::<$kind>::new();
        if call!($calls, $name($($argument,)* null_mut(), 0, &mut needed)) {
            // A text has a NUL behind it.
            let room = needed + 1;
            found = vec![<$kind>::default(); room];
            let mut again = usize::MAX;
            if call!($calls, $name($($argument,)* found.as_mut_ptr().cast(), room, &mut again)) {
                assert_eq!(again, needed, stringify!($name));
            }
            found.truncate(needed);
        } else {
            assert_eq!(needed, 0, "{}: a length behind an error", stringify!($name));
        }
        found
    }};
}

impl Drop for Calls<'_> {
    fn drop(&mut self) {
        // SAFETY: handles of this value, or null where making one failed.
        unsafe {
            iron_decoder_release(self.decoder);
            iron_tokenizer_release(self.tokenizer);
            iron_session_release(self.session);
        }
    }
}

impl<'a> Calls<'a> {
    fn new(bytes: &'a [u8]) -> Calls<'a> {
        let mut calls = Calls {
            bytes,
            session: null_mut(),
            tokenizer: null_mut(),
            decoder: null_mut(),
            succeeded: true,
            computed: true,
        };
        let options = iron_session_options {
            size: size_of::<iron_session_options>(),
            sequences: SEQUENCES,
            context: CONTEXT,
            batch: 8,
            ..Default::default()
        };
        call!(
            calls,
            iron_session_create(MODEL.0, &options, &mut calls.session)
        );
        call!(calls, iron_model_tokenizer(MODEL.0, &mut calls.tokenizer));
        call!(
            calls,
            iron_decoder_create(calls.tokenizer, 0, &mut calls.decoder)
        );
        assert!(calls.succeeded);
        calls
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let length = N.min(self.bytes.len());
        let (first, rest) = self.bytes.split_at(length);
        taken[..length].copy_from_slice(first);
        self.bytes = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// Of a length in two bytes, or shorter at the end of the input.
    fn slice(&mut self) -> &'a [u8] {
        let length = usize::from(u16::from_le_bytes(self.take()));
        let (taken, rest) = self.bytes.split_at(length.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// A text as C has it: up to its first NUL.
    fn text(&mut self) -> CString {
        let bytes = self.slice();
        let end = bytes.iter().position(|byte| *byte == 0);
        CString::new(&bytes[..end.unwrap_or(bytes.len())]).expect("no NUL")
    }

    /// A byte each; 255 is a token that no vocabulary has.
    fn tokens(&mut self) -> Vec<u32> {
        let bytes = self.slice();
        let token = |byte: &u8| {
            if *byte == 255 {
                u32::MAX
            } else {
                u32::from(*byte)
            }
        };
        bytes.iter().take(64).map(token).collect()
    }

    fn floats(&mut self) -> Vec<f32> {
        let bytes = self.slice();
        let floats = bytes.chunks_exact(4);
        floats
            .map(|four| f32::from_le_bytes(four.try_into().expect("four")))
            .collect()
    }

    /// One that is there, or just not.
    fn sequence(&mut self) -> u32 {
        u32::from(self.byte()) % (SEQUENCES + 1)
    }

    fn sampler(&mut self) -> iron_sampler_options {
        let float = |calls: &mut Self| f32::from_le_bytes(calls.take());
        iron_sampler_options {
            size: size_of::<iron_sampler_options>(),
            temperature: float(self),
            top_k: u32::from(self.byte()),
            top_p: float(self),
            min_p: float(self),
            repetition_penalty: float(self),
            frequency_penalty: float(self),
            presence_penalty: float(self),
            penalty_window: u64::from(self.byte()),
            seed: self.long(),
        }
    }

    fn next(&mut self) {
        match self.byte() % 14 {
            0 => self.chat(),
            1 => self.encode(),
            2 => self.decode(),
            3 => self.push(),
            4 => self.feed(),
            5 => self.feed_both(),
            6 => self.change(),
            7 => self.save(),
            8 => self.restore(),
            9 => self.sample(),
            10 => self.generate(),
            11 => self.write(),
            12 => self.judge(),
            _ => self.quantize(),
        }
    }

    /// A template, its variables and a conversation, all of strangers.
    fn chat(&mut self) {
        let (source, variables, messages) = (self.text(), self.text(), self.text());
        let given = |text: &CString| {
            if text.is_empty() {
                null()
            } else {
                text.as_ptr()
            }
        };
        let options = iron_chat_options {
            size: size_of::<iron_chat_options>(),
            source: given(&source),
            variables: given(&variables),
            max_output: 1 << 16,
            max_memory: 1 << 20,
            max_steps: 50_000,
            ..Default::default()
        };
        let mut chat = null_mut();
        if call!(self, iron_chat_create(MODEL.0, &options, &mut chat)) {
            let text = call_for!(self, u8, iron_chat_render(chat, messages.as_ptr(), 1));
            assert!(text.len() <= 1 << 16 && str::from_utf8(&text).is_ok());
            call_for!(self, u32, iron_chat_encode(chat, messages.as_ptr()));
            call!(self, iron_chat_release(chat));
        } else {
            assert!(chat.is_null());
        }
    }

    fn encode(&mut self) {
        let flags = u32::from(self.byte());
        let text = self.slice();
        let (start, length) = (text.as_ptr().cast::<c_char>(), text.len());
        call_for!(
            self,
            u32,
            iron_tokenizer_encode(self.tokenizer, start, length, flags)
        );
        call_for!(self, u32, iron_model_encode_prompt(MODEL.0, start, length));
        let name = self.text();
        let mut token = 0;
        call!(
            self,
            iron_tokenizer_find(self.tokenizer, name.as_ptr(), &mut token)
        );
    }

    fn decode(&mut self) {
        let tokens = self.tokens();
        let (start, count) = (tokens.as_ptr(), tokens.len());
        call_for!(
            self,
            u8,
            iron_tokenizer_decode(self.tokenizer, start, count)
        );
        for token in tokens {
            let (mut kind, mut bytes, mut length, mut end) = (0, [0_u8; 64], 0, 0);
            let place = bytes.as_mut_ptr().cast();
            call!(
                self,
                iron_tokenizer_piece(self.tokenizer, token, place, 64, &mut length, &mut kind)
            );
            call!(self, iron_tokenizer_is_end(self.tokenizer, token, &mut end));
        }
    }

    fn push(&mut self) {
        for token in self.tokens() {
            let (mut text, mut length) = (null(), 0);
            if call!(
                self,
                iron_decoder_push(self.decoder, token, &mut text, &mut length)
            ) {
                lent_text(text, length);
            }
        }
        let (mut text, mut length) = (null(), 0);
        if call!(
            self,
            iron_decoder_finish(self.decoder, &mut text, &mut length)
        ) {
            lent_text(text, length);
        }
    }

    fn feed(&mut self) {
        let (sequence, tokens) = (self.sequence(), self.tokens());
        let (start, count) = (tokens.as_ptr(), tokens.len());
        if call!(
            self,
            iron_session_feed(self.session, sequence, start, count)
        ) && count > 0
        {
            let logits = call_for!(self, f32, iron_session_logits(self.session, sequence));
            assert!(!self.computed || logits.iter().all(|logit| logit.is_finite()));
        }
        let seen = call_for!(self, u32, iron_session_tokens(self.session, sequence));
        assert!(seen.len() as u64 <= CONTEXT);
    }

    fn feed_both(&mut self) {
        let parts = [
            (self.sequence(), self.tokens()),
            (self.sequence(), self.tokens()),
        ];
        let work = parts.each_ref().map(|(sequence, tokens)| iron_feed {
            tokens: tokens.as_ptr(),
            count: tokens.len(),
            sequence: *sequence,
            ..Default::default()
        });
        call!(
            self,
            iron_session_feed_batch(self.session, work.as_ptr(), work.len())
        );
    }

    fn change(&mut self) {
        let (sequence, tokens) = (self.sequence(), self.tokens());
        let (start, end) = (u64::from(self.byte()), u64::from(self.byte()));
        let mut kept = 0;
        let (given, count) = (tokens.as_ptr(), tokens.len());
        match self.byte() % 4 {
            0 => call!(self, iron_session_rewind(self.session, sequence, start)),
            1 => call!(
                self,
                iron_session_keep_prefix(self.session, sequence, given, count, &mut kept)
            ),
            2 => call!(
                self,
                iron_session_forget(self.session, sequence, start, end)
            ),
            _ => call!(self, iron_session_copy(self.session, sequence, end as u32)),
        };
    }

    /// What was saved, with a byte of it changed, and cut.
    fn save(&mut self) {
        let (from, to) = (self.sequence(), self.sequence());
        let (place, bits, length) = (u16::from_le_bytes(self.take()), self.byte(), self.byte());
        let mut saved = call_for!(self, u8, iron_session_save(self.session, from));
        if saved.is_empty() {
            return;
        }
        // Behind these are keys and values, which are used as they come.
        let place = usize::from(place) % saved.len().min(128);
        saved[place] ^= bits;
        let length = saved.len() - usize::from(length).min(saved.len());
        let before = call_for!(self, u32, iron_session_tokens(self.session, to));
        self.computed &= bits == 0;
        let bytes = saved.as_ptr().cast::<c_void>();
        if !call!(self, iron_session_restore(self.session, to, bytes, length)) {
            let tokens = call_for!(self, u32, iron_session_tokens(self.session, to));
            assert_eq!(tokens, before, "a sequence that was not restored");
        }
    }

    fn restore(&mut self) {
        let (sequence, bytes) = (self.sequence(), self.slice());
        let start = bytes.as_ptr().cast::<c_void>();
        self.computed = false;
        call!(
            self,
            iron_session_restore(self.session, sequence, start, bytes.len())
        );
    }

    fn sample(&mut self) {
        let (options, tokens, logits) = (self.sampler(), self.tokens(), self.floats());
        let mut sampler = null_mut();
        if call!(self, iron_sampler_create(&options, &mut sampler)) {
            let (mut token, context) = (0, null_mut());
            let (text, count) = (tokens.as_ptr(), tokens.len());
            let (given, room) = (logits.as_ptr(), logits.len());
            if call!(
                self,
                iron_sampler_sample(sampler, text, count, given, room, None, context, &mut token)
            ) {
                assert!((token as usize) < logits.len());
            }
            call!(self, iron_sampler_release(sampler));
        }
    }

    fn generate(&mut self) {
        let (sequence, prompt, stop) = (self.sequence(), self.tokens(), self.text());
        let (sampler, limit, flags) = (self.sampler(), self.byte(), self.byte());
        let stops = [stop.as_ptr()];
        let options = iron_generation_options {
            size: size_of::<iron_generation_options>(),
            sampler: &sampler,
            limit: u64::from(limit),
            stop_strings: stops.as_ptr(),
            stop_string_count: usize::from(!stop.is_empty()),
            log_probabilities: u32::from(flags & 1),
            likeliest: u32::from(flags >> 1 & 7),
            when_full: u32::from(flags >> 4 & 1),
            keep: u64::from(flags >> 5),
            ..Default::default()
        };
        let mut generation = null_mut();
        let (given, count) = (prompt.as_ptr(), prompt.len());
        let session = self.session;
        if !call!(
            self,
            iron_generation_create(session, sequence, given, count, &options, &mut generation)
        ) {
            return;
        }
        for _ in 0..2 * CONTEXT {
            let mut piece = piece();
            if !call!(self, iron_generation_next(generation, &mut piece))
                || !piece_is_right(&piece, flags)
            {
                break;
            }
        }
        let mut info = iron_generation_info {
            size: size_of::<iron_generation_info>(),
            ..Default::default()
        };
        call!(self, iron_generation_describe(generation, &mut info));
        call!(self, iron_generation_release(generation));
    }

    fn write(&mut self) {
        let (tokens, sampler, logits) = (self.tokens(), self.sampler(), self.floats());
        let options = iron_generation_options {
            size: size_of::<iron_generation_options>(),
            sampler: &sampler,
            limit: 3,
            ..Default::default()
        };
        let mut writer = null_mut();
        let (given, count) = (tokens.as_ptr(), tokens.len());
        if !call!(
            self,
            iron_writer_create(MODEL.0, given, count, &options, &mut writer)
        ) {
            return;
        }
        for sequence in 0..SEQUENCES {
            let mut piece = piece();
            if call!(
                self,
                iron_session_write(self.session, sequence, writer, &mut piece)
            ) {
                piece_is_right(&piece, 0);
            }
        }
        let mut piece = piece();
        call!(
            self,
            iron_writer_write(writer, logits.as_ptr(), logits.len(), &mut piece)
        );
        call_for!(self, u32, iron_writer_tokens(writer));
        call!(self, iron_writer_release(writer));
    }

    fn judge(&mut self) {
        let (sequence, tokens, how) = (self.sequence(), self.tokens(), self.byte());
        let (given, count) = (tokens.as_ptr(), tokens.len());
        match how % 3 {
            0 => {
                let kind = u32::from(how >> 6);
                let vector = call_for!(
                    self,
                    f32,
                    iron_session_embed(self.session, sequence, given, count, kind)
                );
                assert!(!self.computed || vector.iter().all(|value| value.is_finite()));
            }
            1 => {
                let logarithms = call_for!(
                    self,
                    f64,
                    iron_session_log_probabilities(self.session, sequence, given, count)
                );
                assert!(!self.computed || logarithms.iter().all(|value| *value <= 0.0));
            }
            _ => {
                let options = iron_perplexity_options {
                    size: size_of::<iron_perplexity_options>(),
                    stride: u64::from(how >> 3),
                    windows: u32::from(how >> 6),
                    ..Default::default()
                };
                let mut found = iron_perplexity {
                    size: size_of::<iron_perplexity>(),
                    ..Default::default()
                };
                let session = self.session;
                call!(
                    self,
                    iron_session_perplexity(session, sequence, given, count, &options, &mut found)
                );
            }
        }
    }

    fn quantize(&mut self) {
        let (name, numbers) = (self.text(), self.floats());
        let (given, count) = (numbers.as_ptr(), numbers.len());
        let (mut bytes, mut length) = (vec![0_u8; 4 * count + 256], 0);
        let (place, room) = (bytes.as_mut_ptr().cast(), bytes.len());
        if call!(
            self,
            iron_quantize(name.as_ptr(), given, count, place, room, &mut length)
        ) {
            assert!(length <= room);
        }
    }
}

fn piece() -> iron_piece {
    iron_piece {
        size: size_of::<iron_piece>(),
        ..Default::default()
    }
}

/// Says whether the text goes on.
fn piece_is_right(piece: &iron_piece, flags: u8) -> bool {
    lent_text(piece.text, piece.text_length);
    assert!(piece.likeliest_count <= u32::from(flags >> 1 & 7));
    assert_eq!(piece.likeliest_count > 0, !piece.likeliest.is_null());
    piece.stop == IRON_STOP_NONE
}

/// A text is whole characters, with a NUL behind it.
fn lent_text(text: *const c_char, length: usize) {
    // SAFETY: the library lends that many bytes and one more.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), length + 1) };
    assert!(bytes[length] == 0 && str::from_utf8(&bytes[..length]).is_ok());
}
