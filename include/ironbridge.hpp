/* ironbridge for C++17: handles that give themselves back, exceptions in place of statuses, texts and vectors in place
 * of lengths. It is a thin layer: `get()` of each class is the C handle, which every function of the C headers takes.
 *
 *   iron::Model model(iron::Device(), "model.gguf");
 *   iron::Session session(model);
 *   session.generate(model.encode_prompt("Once"), iron::Options().limit(32), [](const iron_piece &piece) {
 *     std::cout << std::string_view(piece.text, piece.text_length);
 *     return true; // false ends the text
 *   });
 *
 * Functions of the caller's may throw: the text ends, and the exception goes on from where the call was made. Threads,
 * lifetimes and errors are otherwise as the C headers say. Experimental, as ironbridge_llama.h is. */
#ifndef IRONBRIDGE_HPP
#define IRONBRIDGE_HPP

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ironbridge_llama.h"

namespace iron {

/* What a C function answered, with its sentence. */
class Error : public std::runtime_error {
 public:
  explicit Error(iron_status status) : std::runtime_error(iron_last_error()), status_(status) {}
  iron_status status() const noexcept { return status_; }
  /* "IRON_ERROR_MODEL" and so on. */
  const char *name() const noexcept { return iron_status_name(status_); }

 private:
  iron_status status_;
};

/* Throws what is no IRON_OK. */
inline void check(iron_status status) {
  if (status != IRON_OK) throw Error(status);
}

/* A zeroed struct of the C headers that says its size. */
template <typename T>
T sized() {
  T value{};
  value.size = sizeof value;
  return value;
}

/* Owns one reference. A copy takes another one. */
template <typename T, iron_status (*Retain)(T *), iron_status (*Release)(T *)>
class Handle {
 public:
  Handle() noexcept = default;
  /* Takes over the reference of a handle that a C function gave. */
  explicit Handle(T *handle) noexcept : handle_(handle) {}
  Handle(const Handle &other) : handle_(other.handle_) {
    if (handle_) check(Retain(handle_));
  }
  Handle(Handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_) Release(handle_);
  }
  T *get() const noexcept { return handle_; }
  explicit operator bool() const noexcept { return handle_ != nullptr; }

 protected:
  /* The place for a new handle, of an object that has none. */
  T **place() noexcept { return &handle_; }

 private:
  T *handle_ = nullptr;
};

using Buffer = Handle<iron_buffer, iron_buffer_retain, iron_buffer_release>;
using Commands = Handle<iron_commands, iron_commands_retain, iron_commands_release>;
using Library = Handle<iron_library, iron_library_retain, iron_library_release>;
using Kernel = Handle<iron_kernel, iron_kernel_retain, iron_kernel_release>;
using Decoder = Handle<iron_decoder, iron_decoder_retain, iron_decoder_release>;
using Sampler = Handle<iron_sampler, iron_sampler_retain, iron_sampler_release>;

namespace detail {

/* A result of unknown length: `call` gets a place, a capacity and a place for the length. */
template <typename T, typename Call>
std::vector<T> vector(Call call) {
  std::size_t length = 0;
  check(call(static_cast<T *>(nullptr), 0, &length));
  std::vector<T> values(length);
  if (length > 0) check(call(values.data(), values.size(), &length));
  return values;
}

template <typename Call>
std::string text(Call call) {
  std::size_t length = 0;
  check(call(static_cast<char *>(nullptr), 0, &length));
  std::string text(length, '\0');
  check(call(text.data(), length + 1, &length)); /* C++ has room for the NUL */
  return text;
}

/* A function of the caller's and what it threw, behind the void pointer of a C callback. */
template <typename Function>
struct Guard {
  explicit Guard(Function &function) : function(function) {}
  Function &function;
  std::exception_ptr thrown;

  /* Runs the function; `failed` stands for what it has no more to say. */
  template <typename Result, typename... Arguments>
  Result run(Result failed, Arguments &&...arguments) noexcept {
    if (thrown) return failed;
    try {
      return function(std::forward<Arguments>(arguments)...);
    } catch (...) {
      thrown = std::current_exception();
      return failed;
    }
  }
  /* After the C call: the exception, else the status. */
  void finish(iron_status status) {
    if (thrown) std::rethrow_exception(thrown);
    check(status);
  }
};

}  // namespace detail

class Device : public Handle<iron_device, iron_device_retain, iron_device_release> {
 public:
  explicit Device(const char *selector = nullptr, const iron_device_options *options = nullptr) {
    check(iron_device_open(selector, options, place()));
  }
  iron_device_info describe() const {
    auto info = sized<iron_device_info>();
    check(iron_device_describe(get(), &info));
    return info;
  }
};

class Cancel : public Handle<iron_cancel, iron_cancel_retain, iron_cancel_release> {
 public:
  Cancel() { check(iron_cancel_create(place())); }
  void set() const { check(iron_cancel_set(get())); }
};

class ModelFile : public Handle<iron_model_file, iron_model_file_retain, iron_model_file_release> {
 public:
  explicit ModelFile(const char *path) { check(iron_model_file_open(path, place())); }
  /* The value of a key, as JSON. */
  std::string metadata(const char *key) const {
    return detail::text([&](char *text, std::size_t capacity, std::size_t *length) {
      return iron_model_file_metadata(get(), key, text, capacity, length);
    });
  }
};

class Tokenizer : public Handle<iron_tokenizer, iron_tokenizer_retain, iron_tokenizer_release> {
 public:
  explicit Tokenizer(const ModelFile &file) { check(iron_tokenizer_create(file.get(), place())); }
  explicit Tokenizer(iron_tokenizer *tokenizer) noexcept : Handle(tokenizer) {}
  std::vector<std::uint32_t> encode(std::string_view text, std::uint32_t flags = 0) const {
    return detail::vector<std::uint32_t>([&](std::uint32_t *tokens, std::size_t capacity, std::size_t *count) {
      return iron_tokenizer_encode(get(), text.data(), text.size(), flags, tokens, capacity, count);
    });
  }
  std::string decode(const std::vector<std::uint32_t> &tokens) const {
    return detail::text([&](char *text, std::size_t capacity, std::size_t *length) {
      return iron_tokenizer_decode(get(), tokens.data(), tokens.size(), text, capacity, length);
    });
  }
};

class Model : public Handle<iron_model, iron_model_retain, iron_model_release> {
 public:
  Model(const Device &device, const char *path, const iron_load_options *options = nullptr) {
    check(iron_model_open(device.get(), path, options, place()));
  }
  /* With `progress(done, total)`, which ends the loading by `false`. */
  template <typename Progress>
  Model(const Device &device, const char *path, iron_load_options options, Progress progress) {
    detail::Guard<Progress> guard(progress);
    options.size = sizeof options;
    options.progress_context = &guard;
    options.progress = [](std::uint64_t done, std::uint64_t total, void *context) -> std::uint32_t {
      return !static_cast<detail::Guard<Progress> *>(context)->run(false, done, total);
    };
    guard.finish(iron_model_open(device.get(), path, &options, place()));
  }
  iron_model_info describe() const {
    auto info = sized<iron_model_info>();
    check(iron_model_describe(get(), &info));
    return info;
  }
  Tokenizer tokenizer() const {
    iron_tokenizer *tokenizer;
    check(iron_model_tokenizer(get(), &tokenizer));
    return Tokenizer(tokenizer);
  }
  std::vector<std::uint32_t> encode_prompt(std::string_view text) const {
    return detail::vector<std::uint32_t>([&](std::uint32_t *tokens, std::size_t capacity, std::size_t *count) {
      return iron_model_encode_prompt(get(), text.data(), text.size(), tokens, capacity, count);
    });
  }
};

/* Conversations: `messages` is a JSON array of objects with "role" and "content". */
class Chat : public Handle<iron_chat, iron_chat_retain, iron_chat_release> {
 public:
  explicit Chat(const Model &model, const iron_chat_options *options = nullptr) {
    check(iron_chat_create(model.get(), options, place()));
  }
  std::vector<std::uint32_t> encode(const char *messages) const {
    return detail::vector<std::uint32_t>([&](std::uint32_t *tokens, std::size_t capacity, std::size_t *count) {
      return iron_chat_encode(get(), messages, tokens, capacity, count);
    });
  }
};

/* How to write a text. It keeps what the C struct leads to, so it must outlive its use. */
class Options {
 public:
  Options &limit(std::uint64_t tokens) { return native_.limit = tokens, *this; }
  Options &sampler(const iron_sampler_options &sampler) {
    sampler_ = sampler;
    sampler_.size = sizeof sampler_;
    has_sampler_ = true;
    return *this;
  }
  Options &stop(std::string text) { return stops_.push_back(std::move(text)), *this; }
  Options &cancel(const Cancel &cancel) { return cancel_ = cancel, has_cancel_ = true, *this; }
  Options &log_probabilities(std::uint32_t likeliest) {
    native_.log_probabilities = 1;
    native_.likeliest = likeliest;
    return *this;
  }
  /* Goes on without the older half when the context is full, behind the first `keep` tokens. */
  Options &forget(std::uint64_t keep) {
    native_.when_full = IRON_WHEN_FULL_FORGET;
    native_.keep = keep;
    return *this;
  }
  /* The C struct, valid as long as this object is and is not changed. */
  const iron_generation_options *native() const {
    native_.size = sizeof native_;
    native_.sampler = has_sampler_ ? &sampler_ : nullptr;
    native_.cancel = has_cancel_ ? cancel_.get() : nullptr;
    pointers_.clear();
    for (const std::string &text : stops_) pointers_.push_back(text.c_str());
    native_.stop_strings = pointers_.data();
    native_.stop_string_count = pointers_.size();
    return &native_;
  }

 private:
  mutable iron_generation_options native_{};
  iron_sampler_options sampler_{};
  std::vector<std::string> stops_;
  mutable std::vector<const char *> pointers_;
  Handle<iron_cancel, iron_cancel_retain, iron_cancel_release> cancel_;
  bool has_sampler_ = false, has_cancel_ = false;
};

class Writer : public Handle<iron_writer, iron_writer_retain, iron_writer_release> {
 public:
  Writer(const Model &model, const std::vector<std::uint32_t> &tokens, const Options &options) {
    check(iron_writer_create(model.get(), tokens.data(), tokens.size(), options.native(), place()));
  }
};

/* One or more sequences; all functions take the first one's number where none is given. */
class Session : public Handle<iron_session, iron_session_retain, iron_session_release> {
 public:
  explicit Session(const Model &model, iron_session_options options = {}) : width_(model.describe().width) {
    options.size = sizeof options;
    check(iron_session_create(model.get(), &options, place()));
  }
  void feed(const std::vector<std::uint32_t> &tokens, std::uint32_t sequence = 0) {
    check(iron_session_feed(get(), sequence, tokens.data(), tokens.size()));
  }
  void feed_batch(const std::vector<iron_feed> &work) {
    check(iron_session_feed_batch(get(), work.data(), work.size()));
  }
  std::vector<float> logits(std::uint32_t sequence = 0) const {
    return detail::vector<float>([&](float *logits, std::size_t capacity, std::size_t *count) {
      return iron_session_logits(get(), sequence, logits, capacity, count);
    });
  }
  void rewind(std::uint64_t position, std::uint32_t sequence = 0) {
    check(iron_session_rewind(get(), sequence, position));
  }
  std::size_t keep_prefix(const std::vector<std::uint32_t> &tokens, std::uint32_t sequence = 0) {
    std::uint64_t kept = 0;
    check(iron_session_keep_prefix(get(), sequence, tokens.data(), tokens.size(), &kept));
    return static_cast<std::size_t>(kept);
  }
  void copy(std::uint32_t from, std::uint32_t to) { check(iron_session_copy(get(), from, to)); }
  std::vector<unsigned char> save(std::uint32_t sequence = 0) const {
    return detail::vector<unsigned char>([&](unsigned char *bytes, std::size_t capacity, std::size_t *length) {
      return iron_session_save(get(), sequence, bytes, capacity, length);
    });
  }
  void restore(const std::vector<unsigned char> &bytes, std::uint32_t sequence = 0) {
    check(iron_session_restore(get(), sequence, bytes.data(), bytes.size()));
  }
  /* A vector of length 1. */
  std::vector<float> embed(const std::vector<std::uint32_t> &tokens, iron_pooling pooling = IRON_POOLING_MEAN,
                           std::uint32_t sequence = 0) {
    std::vector<float> vector(static_cast<std::size_t>(width_));
    std::size_t width = 0;
    check(iron_session_embed(get(), sequence, tokens.data(), tokens.size(), pooling, vector.data(), vector.size(),
                             &width));
    return vector;
  }
  /* The next token of a writer, from a sequence's logits. Texts of the piece are the writer's. */
  iron_piece write(const Writer &writer, std::uint32_t sequence = 0) {
    auto piece = sized<iron_piece>();
    check(iron_session_write(get(), sequence, writer.get(), &piece));
    return piece;
  }
  /* Calls `write(const iron_piece &)` for each token; `false` ends the text, and so does an exception. */
  template <typename Write>
  iron_generation_info generate(const std::vector<std::uint32_t> &prompt, const Options &options, Write write,
                                std::uint32_t sequence = 0) {
    detail::Guard<Write> guard(write);
    auto info = sized<iron_generation_info>();
    iron_piece_callback call = [](const iron_piece *piece, void *context) -> std::uint32_t {
      return !static_cast<detail::Guard<Write> *>(context)->run(false, *piece);
    };
    guard.finish(iron_generate(get(), sequence, prompt.data(), prompt.size(), options.native(), call, &guard, &info));
    return info;
  }
  /* The whole text. */
  std::string generate(const std::vector<std::uint32_t> &prompt, const Options &options = {}) {
    std::string text;
    generate(prompt, options, [&](const iron_piece &piece) {
      text.append(piece.text, piece.text_length);
      return true;
    });
    return text;
  }

 private:
  std::uint64_t width_;
};

}  // namespace iron

#endif
